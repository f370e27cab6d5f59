"""Milliseconds per round on an accelerator: the linear model, the paper's CNN, many devices.

    python benchmarks/gpu.py [--save results.json] [--quick] [--grid]
    python benchmarks/gpu.py --only grid --save benchmarks/results/h200.json
    python benchmarks/gpu.py --scale --save benchmarks/results/scale-h200.json
    python benchmarks/gpu.py --only modules     a ResNet-8 and a ViT, which go through vmap

A device-step is one device taking one SGD step on a minibatch of 128. Inputs are random numbers:
only speed is measured here. Rounds are those of `simulate`: draws, local steps, D2D mixing, the
server; "measured" adds the average model's loss and accuracy and the consensus measures every
round. Each figure is the median of repeats, timed between device synchronisations after a warm-up.
Memory is the peak of these rounds; of large fleets also of an evaluation of all devices after them,
which is not timed.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from modules import resnet8, vit
from torch import nn

from skerry.config.experiment import Experiment
from skerry.data.sources.catalog import from_arrays
from skerry.engine.simulate import Moment, simulate
from skerry.engine.stack import Stack, build_stack
from skerry.engine.world import Materials, World, build_world
from skerry.measure.observer import Observer
from skerry.runs.memory import footprint

REPEATS = 3
BATCH = 128
FLEETS = (10_000, 100_000, 1_000_000)
HELD = 10
"""Samples of a device in a large fleet."""
SCORED = ("evaluate.device_samples=1000",)
"""Its devices are scored on fewer of the test samples."""
PARTS = ("cnn", "linear", "modules")
NEVER = ["evaluate.every=50000"]  # far away: no round that is timed is evaluated
CNN = ["model.name=cnn_cifar10", *NEVER]
GRID = Path(__file__).parents[1] / "experiments" / "paper_mnist.toml"


def images(shape: tuple[int, ...], samples: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, *shape), dtype=np.float32)
    y = np.arange(samples) % 10
    return from_arrays(x, y, x[:10_000], y[:10_000])


def stack_of(dataset, lanes: int, *settings: str) -> Stack:
    return stack_on(world_of(dataset, *settings), lanes)


def world_of(dataset, *settings: str) -> World:
    base = Experiment.parse({}, ["rounds=100000", "data.scaling=unit", "data.inter=iid", *settings])
    return build_world(base, Materials(dataset=dataset), device="cuda")


def stack_on(world: World, lanes: int) -> Stack:
    """Lanes that differ in stepsize, so that none is a copy of another."""
    etas = np.geomspace(0.001, 0.1, lanes)
    one = world.experiment
    return build_stack(world, [one.with_settings(f"training.stepsize={eta}") for eta in etas])


class Rounds:
    """A simulation that goes on: so many rounds at each call, measured or not."""

    def __init__(self, stack: Stack, measured: bool):
        self._moments = simulate(stack)
        self._observer = Observer(stack)
        self._measured = measured
        self._latest: Moment | None = None

    def __call__(self, rounds: int) -> None:
        for moment in self._moments:
            if self._measured:
                self._observer.read(moment)
            rounds -= moment.phase == "end"
            if rounds == 0:
                self._latest = moment
                return

    def evaluate(self) -> None:
        """As in a round that is evaluated."""
        assert self._latest is not None
        world = self._latest.stack.world
        due = world.experiment.evaluate.every
        self._observer.read(replace(self._latest, round=due, server_rounds=()))
        torch.cuda.synchronize()


def seconds(work: Callable[[], object]) -> list[float]:
    work()
    found = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return found


def time_rounds(
    name: str, stack: Stack, rounds: int, measured: bool = False, evaluated: bool = False
) -> dict:
    gc.collect()  # or worlds of earlier rows would count
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    told = footprint(stack.world).need(len(stack))
    run = Rounds(stack, measured)
    run(4)  # compiles kernels and chooses tiles
    found = [1e3 * s / rounds for s in seconds(lambda: run(rounds))]
    if evaluated:
        run.evaluate()
    steps = stack.world.n * len(stack)
    return show(
        {
            "name": name,
            "devices": stack.world.n,
            "lanes": len(stack),
            "precision": stack.world.experiment.training.precision,
            "measured": measured,
            "ms_per_round": median(found),
            "lowest": min(found),
            "highest": max(found),
            "device_steps_per_second": 1e3 * steps / median(found),
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "predicted_bytes": told,
        }
    )


def show(row: dict) -> dict:
    line = f"{row['name']:52} {row['ms_per_round']:9.3f} ms"
    line += f" ({row['lowest']:.3f}-{row['highest']:.3f})"
    if "device_steps_per_second" in row:
        line += f" {row['device_steps_per_second']:12,.0f} device-steps/s"
    if "peak_bytes" in row:
        ratio = row["predicted_bytes"] / row["peak_bytes"]
        line += f"  {row['peak_bytes'] / 2**30:6.2f} GiB, predicted {ratio:.0%}"
    print(line, flush=True)
    return row


def ceilings() -> list[dict]:
    """What the machine can do: products of 8192^3, and a copy."""
    rows = []
    for kind, dtype, tf32 in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("bf16", torch.bfloat16, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))
        took = median(seconds(lambda a=a, b=b: [a @ b for _ in range(5)])) / 5
        rows.append({"name": f"product, {kind}", "tflops": 2 * 8192**3 / took / 1e12})
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(2**30, device="cuda") for _ in range(2))
    took = median(seconds(lambda: [a.copy_(b) for _ in range(5)])) / 5
    rows.append({"name": "copy", "terabytes_per_second": 2 * a.nbytes / took / 1e12})
    for row in rows:
        print("  ".join(f"{v:.4g}" if isinstance(v, float) else v for v in row.values()))
    return rows


def plain_loop(dataset, devices: int) -> dict:
    """What one writes first: a module per device, autograd, SGD; then W X."""
    from skerry.models.learner import Problem
    from skerry.models.networks import cnn_cifar10

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    x = torch.from_numpy(dataset.inputs("train", "unit")).cuda()
    y = torch.from_numpy(dataset.y_train).cuda()
    models = [cnn_cifar10(Problem((3, 32, 32), 10, 0)).cuda() for _ in range(devices)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    W = torch.full((devices, devices), 1 / devices, device="cuda")
    rng = np.random.default_rng(0)

    def a_round() -> None:
        rows = torch.from_numpy(rng.integers(0, len(y), (devices, BATCH))).cuda()
        for model, optimizer, row in zip(models, optimizers, rows, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[row]), y[row]).backward()
            optimizer.step()
        with torch.no_grad():
            flat = [nn.utils.parameters_to_vector(m.parameters()) for m in models]
            for model, mixed in zip(models, W @ torch.stack(flat), strict=True):
                nn.utils.vector_to_parameters(mixed, model.parameters())

    found = [1e3 * s for s in seconds(a_round)]
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return show(
        {
            "name": "CNN, plain loop over devices, tf32",
            "ms_per_round": median(found),
            "lowest": min(found),
            "highest": max(found),
            "device_steps_per_second": 1e3 * devices / median(found),
        }
    )


def grid_row() -> dict:
    """The paper's MNIST grid: 9,600 runs, the average model measured every round, as a user runs
    it, from the start of the process to its end."""
    options = ["--set", "training.precision=tf32", "--set", "evaluate.measures=average"]
    command = ["sweep", str(GRID), *options]
    found = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as out:
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "skerry", *command, "--out", out],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            found.append(time.perf_counter() - began)
    row = {"name": "the paper's MNIST grid, seconds", "command": f"skerry {' '.join(command)}"}
    row |= {"seconds": median(found), "lowest": min(found), "highest": max(found)}
    print(f"{row['name']:52} {row['seconds']:.1f} s ({row['lowest']:.1f}-{row['highest']:.1f})")
    return row


def linear_rows(quick: bool):
    mnist = images((28, 28), 60_000)
    for precision in ("float32", "tf32"):
        for lanes in (1, 8, 48, 480):
            for measured in (False, True):
                settings = [f"training.precision={precision}"]
                settings += ['evaluate.measures=["average","consensus"]'] if measured else NEVER
                name = f"linear, {lanes} lanes, {precision}{', measured' if measured else ''}"
                rounds = 20 if quick or lanes > 100 else 100
                yield time_rounds(name, stack_of(mnist, lanes, *settings), rounds, measured)
    fleets = (
        ("network.devices=1000", "network.components=10"),
        (
            "network.devices=10000",
            "network.components=100",
        ),
    )
    for fleet in fleets:
        for lanes in (1, 4):
            stack = stack_of(mnist, lanes, *fleet, "training.precision=tf32", *NEVER)
            name = f"linear, {stack.world.n:,} devices on rings of 100, {lanes} lanes, tf32"
            yield time_rounds(name, stack, 10)


def cnn_rows(quick: bool):
    cifar = images((32, 32, 3), 50_000)
    for precision in ("bf16", "tf32", "float32"):
        stack = stack_of(cifar, 1, *CNN, f"training.precision={precision}")
        yield time_rounds(f"CNN, 100 devices, {precision}", stack, 10)
    if quick:
        return
    stack = stack_of(cifar, 4, *CNN, "training.precision=bf16")
    yield time_rounds("CNN, 100 devices, 4 lanes, bf16", stack, 5)
    fleet = ("network.devices=1000", "network.components=20")
    stack = stack_of(cifar, 1, *CNN, "training.precision=bf16", *fleet)
    yield time_rounds("CNN, 1,000 devices, bf16", stack, 3)
    del stack
    torch.cuda.empty_cache()
    yield plain_loop(cifar, 100)


def scale_rows():
    """Large fleets: softmax regression 64 -> 10, batch 32, islands that are rings of 100."""
    for devices in FLEETS:
        dataset = images((64,), HELD * devices)
        fleet = (f"network.devices={devices}", f"network.components={devices // 100}", *SCORED)
        began = time.perf_counter()
        world = world_of(dataset, *fleet, "training.batch=32", "training.precision=tf32", *NEVER)
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        for precision, lanes in (("tf32", 1), ("tf32", 4), ("float32", 1), ("float32", 4)):
            one = world.experiment.with_settings(f"training.precision={precision}")
            stack = stack_on(replace(world, experiment=one), lanes)
            name = f"{devices:,} devices, {lanes} lanes, {precision}"
            row = time_rounds(name, stack, max(10, 2_000_000 // devices), evaluated=True)
            yield row | {"set_up_seconds": took, "floor_bytes": bytes_moved(stack)}
            del stack


def bytes_moved(stack: Stack) -> int:
    """The fewest that a round must move through the GPU's memory: the step and mixing each read and
    write all models, sample numbers are written and read, and each sample that a device meets is
    read once."""
    world, batch = stack.world, stack.world.experiment.training.batch
    models = 2 * 2 * world.n * len(stack) * world.learner.d * world.dtype.itemsize
    numbers = 2 * 8 * world.n * batch
    met = world.n * HELD * (1 - (1 - 1 / HELD) ** batch)
    return models + numbers + round(met * (world.x_train[0].nbytes + world.y_train[0].nbytes))


def module_rows():
    """Modules that no chain of common layers covers, 100 devices, minibatches of 32."""
    cifar = images((32, 32, 3), 20_000)
    for name, model in (("ResNet-8", resnet8), ("ViT", vit)):
        for precision in ("float32", "tf32", "bf16"):
            settings = ["rounds=100000", "training.batch=32", f"training.precision={precision}"]
            base = Experiment.parse({}, [*settings, "data.scaling=unit", "data.inter=iid", *NEVER])
            world = build_world(base, Materials(dataset=cifar, model=model), device="cuda")
            name_of_row = f"{name}, 100 devices, batch 32, {precision}"
            yield time_rounds(name_of_row, build_stack(world, [base]), 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    parser.add_argument("--grid", action="store_true", help="also the paper's MNIST grid")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no large fleets")
    parser.add_argument(
        "--only",
        choices=(*PARTS, "grid"),
        help="one part; --save keeps the other rows",
    )
    parser.add_argument("--scale", action="store_true", help="large fleets alone")
    options = parser.parse_args()
    parts = {options.only} if options.only else {*PARTS, *(["grid"] * options.grid)}
    if options.scale:
        parts = {"scale"}
    part = " --scale" if options.scale else f" --only {options.only}" if options.only else ""
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "command": f"python benchmarks/gpu.py{part}",
        "ceilings": ceilings(),
        "rows": [
            *(cnn_rows(options.quick) if "cnn" in parts else ()),
            *(linear_rows(options.quick) if "linear" in parts else ()),
            *(module_rows() if "modules" in parts else ()),
            *([grid_row()] if "grid" in parts else ()),
            *(scale_rows() if "scale" in parts else ()),
        ],
    }
    if options.save:
        if options.only and options.save.exists():
            found = beside(json.loads(options.save.read_text()), found)
        options.save.write_text(json.dumps(found, indent=1) + "\n")


def beside(kept: dict, found: dict) -> dict:
    """The new rows in the places of the old ones of the same name, the others as they were."""
    rows = {row["name"]: row for row in (*kept["rows"], *found["rows"])}
    return found | {"command": kept["command"], "rows": list(rows.values())}


if __name__ == "__main__":
    main()
