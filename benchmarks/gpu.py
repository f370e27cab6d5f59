"""Milliseconds per round on an accelerator: the linear model over lanes, and the paper's CNN.

    python benchmarks/gpu.py [--save results.json]

Inputs are random numbers: only speed is measured here. Each figure is the median of repeats timed
between device synchronisations, after a warm-up.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from skerry.data.catalog import from_arrays
from skerry.engine.graphs import train
from skerry.engine.round import start
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.experiment import Experiment
from skerry.measure.observer import Observer

DEVICES = 100


def images(shape: tuple[int, ...], samples: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, *shape), dtype=np.float32)
    y = np.arange(samples) % 10
    return from_arrays(x, y, x[:10_000], y[:10_000])


def timed(work, repeats: int = 5) -> list[float]:
    work()
    found = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return found


def stack_of(dataset, lanes: int, *settings: str):
    base = Experiment.parse({}, ["rounds=1000", "data.scaling=unit", "data.inter=iid", *settings])
    world = build_world(base, Materials(dataset=dataset), device="cuda")
    etas = np.geomspace(0.001, 0.1, lanes)
    return build_stack(world, [base.with_settings(f"training.stepsize={eta}") for eta in etas])


def rounds_of(stack, rounds: int, evaluate: bool):
    """A function that runs so many rounds, with or without all measures every round."""

    def work() -> None:
        observer = Observer(stack) if evaluate else None
        for moment in simulate(stack):
            if observer:
                observer.look(moment)
            if moment.phase == "end" and moment.round == rounds:
                return

    return work


def row(name: str, seconds: list[float], rounds: int, lanes: int) -> dict:
    per_round = [1e3 * s / rounds for s in seconds]
    rate = DEVICES * lanes * rounds / median(seconds)
    print(f"{name:44} {median(per_round):9.3f} ms ({min(per_round):.3f}-{max(per_round):.3f})  "
          f"{rate:12,.0f} device-steps/s", flush=True)  # fmt: skip
    return {"name": name, "ms_per_round": median(per_round), "all": per_round, "rate": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rows = []
    mnist = images((28, 28), 60_000)
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        kind = "TF32" if tf32 else "float32"
        for lanes in (1, 8, 48, 480):
            stack = stack_of(mnist, lanes)
            name = f"linear, {lanes} lanes, {kind}"
            rows.append(row(name, timed(rounds_of(stack, 50, False)), 50, lanes))
            if lanes in (48, 480):
                name += ", average measured every round"
                stack = stack_of(mnist, lanes, 'evaluate.measures=["average"]')
                rows.append(row(name, timed(rounds_of(stack, 20, True), 3), 20, lanes))
    cifar = images((32, 32, 3), 50_000)
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        stack = stack_of(cifar, 1, "model.name=cnn_cifar10")
        state = start(stack)
        kind = "TF32" if tf32 else "float32"

        def a_round(stack=stack, state=state) -> None:
            train(stack, state)

        rows.append(row(f"CNN, 1 lane, {kind}, chunk {state.chunk}", timed(a_round), 1, 1))
    if options.save:
        found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        options.save.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
