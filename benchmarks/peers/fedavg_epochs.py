"""FedAvg with local epochs on unequal data, in Skerry and in pfl's own code, over several seeds.

For every seed both get the same unequal devices (digits, split by a Dirichlet distribution) and the
same initial model. Each draws its own cohorts and orders, so single runs differ, and their means
over the seeds must agree. Intervals are Student's, of 95%; that of the difference is paired. As a
control, Skerry also runs with one epoch less, which must not agree.

    python benchmarks/peers/fedavg_epochs.py --save benchmarks/results/fedavg-epochs.json
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from environments import HERE, interpreter
from run import machine, positive, say
from scipy import stats
from torch import nn

from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, World, build_world
from skerry.models.layout import named_tensors

LAYERS = [("Flatten",), ("Linear", 64, 32), ("ReLU",), ("Linear", 32, 10)]
SETTINGS = [
    "rounds=20", "network.devices=30", "network.components=1", "data.dataset=digits",
    "data.intra=dirichlet", "data.alpha=0.3", "server.sampled=6", "server.period=1",
    "training.batch=8", "training.local_epochs=3", "training.stepsize=0.02",
]  # fmt: skip
CONFIDENCE = 0.95

Model = dict[str, torch.Tensor]


def network() -> nn.Module:
    return nn.Sequential(*(getattr(nn, kind)(*sizes) for kind, *sizes in LAYERS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=positive, default=20)
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    python, scores, sizes = interpreter("pfl"), {"Skerry": [], "pfl": [], "one epoch less": []}, []
    versions = {name: version(name) for name in ("skerry", "torch", "numpy")}
    for seed in range(options.seeds):
        say(f"seed {seed + 1} of {options.seeds} ...")
        experiment = with_preset(Experiment.parse({}, [*SETTINGS, f"seed={seed}"]), "fedavg_data")
        world = build_world(experiment, Materials(model=network))
        sizes += [int(world.partition.sizes.min()), int(world.partition.sizes.max())]
        scores["Skerry"].append(scored(world, in_skerry(world)))
        less = experiment.replace(training={"local_epochs": experiment.training.local_epochs - 1})
        control = build_world(less, Materials(model=network))
        scores["one epoch less"].append(scored(control, in_skerry(control)))
        with tempfile.TemporaryDirectory(prefix="epochs-") as folder:
            scores["pfl"].append(scored(world, in_pfl(world, python, Path(folder))))
            peer = json.loads((Path(folder) / "versions.json").read_text())
    found = {
        "command": f"python benchmarks/peers/fedavg_epochs.py --seeds {options.seeds} --save FILE",
        "settings": SETTINGS, "model": LAYERS, "seeds": options.seeds,
        "samples_of_a_device": [min(sizes), max(sizes)],
        "versions": {"Skerry": versions, "pfl": peer}, "machine": machine(),
        "rows": {name: row(scores, name) for name in ("accuracy", "loss")},
    }  # fmt: skip
    for name, figures in found["rows"].items():
        told = (f"{who} {mean:.4g} ± {half:.2g}" for who, (mean, half) in figures["mean"].items())
        print(f"{name}: {', '.join(told)}")
    if options.save:
        draft = options.save.with_name(options.save.name + ".new")
        draft.write_text(json.dumps(found, indent=2) + "\n")
        os.replace(draft, options.save)
    return int(not all(figures["agree"] for figures in found["rows"].values()))


def in_skerry(world: World) -> Model:
    """The model that all devices hold after the last server round."""
    *_, last = simulate(build_stack(world, [world.experiment]))
    return named_tensors(world.layout, last.state.X_nld[0, 0])


def in_pfl(world: World, python: Path, folder: Path) -> Model:
    """The model that pfl ends with, for the same devices and initial model."""
    experiment, order = world.experiment, world.partition.order
    numbers = {
        "seed": experiment.seed, "rounds": experiment.rounds, "sampled": experiment.server.sampled,
        "epochs": experiment.training.local_epochs, "batch": experiment.training.batch,
        "stepsize": experiment.training.stepsize, "layers": LAYERS,
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(numbers))
    x, y = world.x_train[order].numpy(), world.y_train[order].numpy()
    np.savez(folder / "data.npz", x=x, y=y, sizes=world.partition.sizes)
    initial = named_tensors(world.layout, world.initial())
    np.savez(folder / "initial.npz", **{name: part.numpy() for name, part in initial.items()})
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, HERE / "pfl" / "epochs.py", folder, folder]
    subprocess.run(command, check=True, env=inherited, stdout=subprocess.DEVNULL)
    with np.load(folder / "final.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def scored(world: World, model: Model) -> dict[str, float]:
    """Accuracy in percent and mean loss on the test samples, by PyTorch's own functions."""
    judged = network()
    judged.load_state_dict(model)
    with torch.no_grad():
        outputs = judged(world.x_test)
    right = (outputs.argmax(dim=1) == world.y_test).double().mean()
    loss = nn.functional.cross_entropy(outputs, world.y_test)
    return {"accuracy": 100 * float(right), "loss": float(loss)}


def row(scores: dict[str, list[dict[str, float]]], measure: str) -> dict[str, object]:
    """Values by seed, and means with the half-width of their intervals."""
    values = {who: [one[measure] for one in of] for who, of in scores.items()}
    found = {"by_seed": values, "mean": {who: interval(of) for who, of in values.items()}}
    for who, name in {
        "Skerry": "difference",
        "one epoch less": "difference of the control",
    }.items():
        pairs = zip(values[who], values["pfl"], strict=True)
        found["mean"][name] = interval([a - b for a, b in pairs])
    away, half = found["mean"]["difference"]
    return {**found, "agree": abs(away) <= half}


def interval(values: list[float]) -> tuple[float, float]:
    """The mean and the half-width of its t-interval."""
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
    half = quantile * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values)), float(half)


if __name__ == "__main__":
    sys.exit(main())
