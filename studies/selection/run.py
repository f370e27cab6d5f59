"""Whom to sample: S2S, blend and S2A under several selection rules, and with devices asleep.

    python studies/selection/run.py mnist --out runs
    python studies/selection/run.py cifar10 --device cuda --out runs
    python studies/selection/run.py sleep --out runs

Each study is a sweep whose runs are recorded in --out. The numbers that the page needs are written
to --write (studies/selection/data) as JSON, with the command and the versions. The script page.py
writes docs/selection/ from them.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import skerry
from skerry.analysis.run_table import RunTable
from skerry.config.measures import traits
from skerry.records.store import versions

DATA = Path(__file__).parent / "data"
WINDOW = 20
"""A run is scored by the mean over its last rounds."""
BASE: dict[str, Any] = {
    "name": "whom to sample",
    "rounds": 100,
    "network": {"devices": 100},
    "evaluate": {"after": 80, "measures": ["average", "devices", "consensus", "communication"]},
}
PRIMITIVES = [["s2s", 0.5], ["blend", 0.5], ["s2a", 0.5]]
STEPSIZES = [0.01, 0.0316, 0.1, 0.316]
MEASURES = (
    "average_accuracy",
    "device_accuracy",
    "own_accuracy",
    "disagreement",
    "bias_ratio",
    "uplink_messages",
    "downlink_messages",
)
FLEETS: dict[str, tuple[int, ...]] = {
    "2 islands": (50, 50),
    "4 islands": (25,) * 4,
    "10 islands": (10,) * 10,
    "70 and 30": (70, 30),
    "40, 30, 20, 10": (40, 30, 20, 10),
}


def rules(islands: int) -> list[list[Any]]:
    """Uniform sampling and the rule that samples from every island, at the same K."""
    few = [["uniform", islands], ["one_each", islands]]
    return few + [
        [rule, K] for K in (10, 20) if islands < K for rule in ("uniform", "per_component")
    ]


def sweeps(study: str, seeds: int) -> Iterator[tuple[str, skerry.Sweep]]:
    """The sweeps of a study, each with its name."""
    table = {**BASE, "data": {"dataset": "mnist"}}
    if study == "mnist":
        for name, sizes in FLEETS.items():
            two = name == "2 islands"
            table["network"] = {"devices": 100, "components": list(sizes)}
            yield (
                name,
                skerry.Sweep(
                    experiment=table,
                    axes={
                        "network.topology": ["ring", "complete"] if two else ["ring"],
                        "data.inter": ["non_iid", "iid"] if two else ["non_iid"],
                        "server.period": [5, 20],
                        "server.selection, server.sampled": rules(len(sizes)),
                        "server.primitive, server.beta": PRIMITIVES,
                        "training.stepsize": STEPSIZES,
                    },
                    seeds=seeds,
                ),
            )
    elif study == "cifar10":
        table["data"] = {"dataset": "cifar10"}
        table["model"] = {"name": "cnn_cifar10"}
        table["training"] = {"precision": "bf16"}
        table["evaluate"] = {
            "after": 80,
            "every": 5,
            "device_samples": 1000,
            "measures": ["average", "devices", "consensus", "communication"],
        }
        yield (
            "2 islands",
            skerry.Sweep(
                experiment=table,
                axes={
                    "server.period": [5, 20],
                    "server.selection, server.sampled": [
                        ["uniform", 2],
                        ["one_each", 2],
                        ["uniform", 20],
                        ["per_component", 20],
                    ],
                    "server.primitive, server.beta": PRIMITIVES,
                    "training.stepsize": [0.1],
                },
                seeds=min(seeds, 3),
            ),
        )
    else:
        table["evaluate"] = {
            "measures": ["average", "devices", "consensus", "participation"],
            "devices_every": 5,
        }
        for name, fleet in SLEEPERS.items():
            yield (
                name,
                skerry.Sweep(
                    experiment={**table, "fleet": fleet},
                    axes={"server.primitive, server.beta": PRIMITIVES},
                    seeds=seeds,
                ),
            )


SLEEPERS: dict[str, dict[str, Any]] = {
    "all awake": {},
    "one in five asleep, at random": {"awake": 0.8},
    "one in five asleep, in bursts": {"on": 16, "off": 4},
    "whole islands at night": {"on": 16, "off": 4, "together": "islands"},
}


def tuned(folder: Path) -> list[dict[str, Any]]:
    """A row per cell, primitive and rule, at the stepsize best for the average model."""
    recorded = RunTable.read(folder)
    stepsize = "training.stepsize"
    chosen = recorded.read_measure("average_accuracy", last=WINDOW)
    best = chosen.tuned_values(stepsize)
    rows = []
    values = {
        name: recorded.read_measure(name, last=None if traits(name).is_count else WINDOW)
        for name in MEASURES
    }
    for cell, by_label in best.items():
        fields = [field for field in chosen.fields if field != stepsize]
        for label, choice in by_label.items():
            row = dict(zip(fields, cell, strict=True)) | {"primitive": label}
            row[stepsize] = choice.value
            for name, cells in values.items():
                whole = list(cell)
                if stepsize in cells.fields:
                    whole.insert(cells.fields.index(stepsize), choice.value)
                (part,) = cells.readings[tuple(whole)]
                row[name] = [round(v, 6) for _, v in sorted(part[label].items())]
            rows.append(row)
    return rows


def curves(folder: Path) -> list[dict[str, Any]]:
    """Mean curves over the seeds, one entry per primitive."""
    recorded = RunTable.read(folder)
    found: dict[str, list[Any]] = {}
    for run in recorded.runs:
        found.setdefault(run.experiment.server.label, []).append(recorded.histories[run.key])
    names = ("average_accuracy", "device_accuracy", "own_accuracy", "disagreement", "bias")
    return [
        {"primitive": label, "round": histories[0]["round"].tolist()}
        | {
            name: [
                None if np.isnan(v) else float(f"{v:.5g}")
                for v in np.mean([h[name] for h in histories], axis=0)
            ]
            for name in (*names, "awake_devices")
            if name in histories[0]
        }
        | {
            "final": {
                name: [round(float(h[name][-1]), 4) for h in histories]
                for name in ("average_accuracy", "device_accuracy", "own_accuracy")
            }
        }
        for label, histories in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", choices=("mnist", "cifar10", "sleep"))
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--write", type=Path, default=DATA, help="where the study is written")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    began = time.monotonic()
    found: dict[str, Any] = {}
    for number, (name, sweep) in enumerate(sweeps(asked.study, asked.seeds)):
        folder = asked.out / asked.study / str(number)
        table = skerry.Experiment.parse(sweep.experiment, asked.settings)
        sweep = skerry.Sweep(**{**dict(sweep), "experiment": table})
        skerry.run(sweep, out=folder, device=asked.device)
        found[name] = curves(folder) if asked.study == "sleep" else tuned(folder)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    about = {
        "command": " ".join(["python", *sys.argv]),
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
        "window": WINDOW,
    }
    asked.write.mkdir(parents=True, exist_ok=True)
    path = asked.write / f"{asked.study}.json"
    path.write_text(json.dumps({"about": about, "studies": found}) + "\n")
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
