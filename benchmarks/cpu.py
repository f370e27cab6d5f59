"""Device-steps per second: Skerry's stack beside a plain PyTorch loop over devices, in one run.

A device-step is one device taking one SGD step on a minibatch of 128. The job is the paper's
MNIST set-up without evaluation: 100 devices on two rings, softmax regression 784 -> 10, D2D
mixing every round, S2S with K = 20 every 5 rounds. Inputs are random numbers: only speed is
measured here. Contestants take turns, so that a busy machine slows all of them; ratios count.

    make bench
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from skerry.data.catalog import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, World, build_world
from skerry.experiment import Experiment

DEVICES, BATCH, FEATURES, CLASSES, SAMPLES = 100, 128, 784, 10, 60_000
LANES = (1, 3, 24, 96)


def the_world(rounds: int) -> World:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
    y = rng.integers(0, CLASSES, SAMPLES)
    experiment = Experiment.parse({}, [f"rounds={rounds}", "data.scaling=unit", "data.inter=iid"])
    return build_world(experiment, Materials(dataset=from_arrays(x, y, x[:100], y[:100])))


def skerry_rounds(world: World, lanes: int, rounds: int) -> Callable[[], None]:
    """Lanes that differ in stepsize, so that none is a copy of another."""
    base = world.experiment
    stepsizes = np.geomspace(0.001, 0.1, lanes)
    stack = build_stack(
        world, [base.with_settings(f"training.stepsize={eta}") for eta in stepsizes]
    )
    return lambda: _run_through(simulate(stack), rounds)


def _run_through(moments, rounds: int) -> None:
    for moment in moments:
        if moment.phase == "end" and moment.round == rounds:
            return


def plain_loop(world: World, rounds: int) -> Callable[[], None]:
    """What one writes first: a module and an optimizer per device, then W @ X."""
    torch.manual_seed(0)
    models = [nn.Linear(FEATURES, CLASSES) for _ in range(DEVICES)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    loss_of = nn.CrossEntropyLoss()
    x, y = world.x_train[:, :FEATURES].contiguous(), world.y_train
    W = torch.from_numpy(world.fleet.matrix(0).toarray()).float()

    def run() -> None:
        for t in range(rounds):
            indices = world.batch_indices(t, 0)
            for i in range(DEVICES):
                optimizers[i].zero_grad()
                loss_of(models[i](x[indices[i]]), y[indices[i]]).backward()
                optimizers[i].step()
            with torch.no_grad():
                flat = [nn.utils.parameters_to_vector(m.parameters()) for m in models]
                for model, mixed in zip(models, W.T @ torch.stack(flat), strict=True):
                    nn.utils.vector_to_parameters(mixed, model.parameters())

    return run


def product_rate(size: int = 2048) -> float:
    """This machine's float32 matrix product, FLOP/s: the ceiling."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    start = time.perf_counter()
    a @ b
    return 2 * size**3 / (time.perf_counter() - start)


def measure(rounds: int, repeats: int) -> dict:
    world = the_world(rounds)
    contestants = {"plain loop": (1, plain_loop(world, rounds))}
    contestants |= {
        f"{lanes} lane{'s' if lanes > 1 else ''}": (lanes, skerry_rounds(world, lanes, rounds))
        for lanes in LANES
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    products = []
    for repeat in range(repeats + 1):
        products.append(product_rate())
        for name, (lanes, run) in contestants.items():
            start = time.perf_counter()
            run()
            rate = lanes * DEVICES * rounds / (time.perf_counter() - start)
            if repeat:  # the first time warms up
                rates[name].append(rate)
    flops = 4 * BATCH * FEATURES * CLASSES  # two products per device-step
    plain = median(rates["plain loop"])
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "product_gflops": median(products) / 1e9,
        "rows": {
            name: {
                "device_steps_per_second": median(values),
                "lowest": min(values),
                "highest": max(values),
                "times_plain_loop": median(values) / plain,
                "share_of_product_rate": median(values) * flops / median(products),
            }
            for name, values in rates.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    options = parser.parse_args()
    found = measure(options.rounds, options.repeats)
    print(f"{found['machine']}, torch {found['torch']}, float32 product of 2048^3: "
          f"{found['product_gflops']:.0f} GFLOP/s\n")  # fmt: skip
    print(f"{'':12} {'device-steps/s':>15} {'(lowest-highest)':>20} {'x plain loop':>13} "
          f"{'of product rate':>16}")  # fmt: skip
    for name, row in found["rows"].items():
        spread = f"({row['lowest']:,.0f}-{row['highest']:,.0f})"
        print(f"{name:12} {row['device_steps_per_second']:15,.0f} {spread:>20} "
              f"{row['times_plain_loop']:13.1f} {row['share_of_product_rate']:15.0%}")  # fmt: skip
    one, many = (found["rows"][name]["device_steps_per_second"] for name in ("1 lane", "24 lanes"))
    print(f"\nA stack of 24 lanes takes {24 * one / many:.1f} times as long as one lane.")
    if options.save:
        options.save.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
