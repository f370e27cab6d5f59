"""Device-steps per second: Skerry beside a plain PyTorch loop over devices, in one run.

A device-step is one device taking one SGD step on a minibatch of 128. The job is the paper's
set-up without evaluation: devices on rings, D2D mixing every round, S2S with a fifth of the devices
every 5 rounds; softmax regression 784 -> 10, or the CNN of 3,353,034 parameters. Inputs are random
numbers: only speed is measured here. Contestants take turns, so that a busy machine slows all of
them; ratios count.

    make bench                                            a table
    python benchmarks/cpu.py --save FILE --picture FILE   keep it, draw it
    python benchmarks/cpu.py --compare FILE               beside figures that were kept
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from skerry.config.experiment import Experiment
from skerry.data.sources.catalog import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import Stack, build_stack
from skerry.engine.world import Materials, World, build_world
from skerry.models.learner import Problem
from skerry.models.networks import cnn_cifar10
from skerry.runs.memory import measure_footprint

BATCH = 128
LANES = (1, 8, 24, 96, 480)
FLEETS = (100, 1_000, 10_000)
LINEAR_FLOPS = 4 * BATCH * 784 * 10  # two products per device-step
CNN_FLOPS = 2 * BATCH * (2 * 784 * 75 * 32 + 3 * 100 * 800 * 64 + 3 * (1600 * 2048 + 2048 * 10))
REGRESSION = 0.85  # a ratio below this share of the kept one is pointed out


@dataclass
class Contestant:
    name: str
    steps: int
    """Device-steps in a turn."""
    run: Callable[[], None]
    flops: int
    against: str | None = None
    """The plain loop that does the same work."""
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.steps / median(self.seconds)


def world_of(shape: tuple[int, ...], samples: int, *settings: str) -> World:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, *shape), dtype=np.float32)
    y = np.arange(samples) % 10
    fixed = ["rounds=100000", "evaluate.every=100000", "data.scaling=unit", "data.inter=iid"]
    experiment = Experiment.parse({}, [*fixed, *settings])
    return build_world(experiment, Materials(dataset=from_arrays(x, y, x[:100], y[:100])))


def fleet_of(devices: int) -> list[str]:
    """Rings of at most 100, a fifth of them sampled."""
    rings = max(2, devices // 100)
    sampled = devices // 5
    return [
        f"network.devices={devices}",
        f"network.components={rings}",
        f"server.sampled={sampled}",
    ]


def lanes_of(world: World, lanes: int) -> Stack:
    """They differ in stepsize, so that none is a copy of another."""
    etas = np.geomspace(0.001, 0.1, lanes)
    base = world.experiment
    return build_stack(world, [base.with_settings(f"training.stepsize={eta}") for eta in etas])


def rounds_of(stack: Stack, rounds: int) -> Callable[[], None]:
    """A simulation that goes on, so many rounds a turn."""
    moments = simulate(stack)

    def run() -> None:
        left = rounds
        for moment in moments:
            left -= moment.phase == "end"
            if left == 0:
                return

    return run


def plain_loop(world: World, make: Callable[[], nn.Module], rounds: int) -> Callable[[], None]:
    """What one writes first: a module and an optimizer per device, then W @ X."""
    torch.manual_seed(0)
    models = [make() for _ in range(world.n)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    x = torch.from_numpy(world.dataset.inputs("train", "unit"))
    y = world.y_train
    W = torch.from_numpy(world.fleet.matrix(0).toarray()).float()

    def run() -> None:
        for t in range(rounds):
            indices = world.batch_indices(t, 0)
            for model, optimizer, rows in zip(models, optimizers, indices, strict=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
            with torch.no_grad():
                flat = [nn.utils.parameters_to_vector(m.parameters()) for m in models]
                for model, mixed in zip(models, W.T @ torch.stack(flat), strict=True):
                    nn.utils.vector_to_parameters(mixed, model.parameters())

    return run


def linear_contestants() -> Iterator[Contestant]:
    world = world_of((784,), 60_000, *fleet_of(100))
    loop = "plain loop"
    yield Contestant(
        loop, 1_000, plain_loop(world, lambda: nn.Linear(784, 10), 10), LINEAR_FLOPS, loop
    )
    for lanes in LANES:
        rounds = max(2, min(10, 200 // lanes))
        name = f"{lanes} lane{'s' if lanes > 1 else ''}"
        run = rounds_of(lanes_of(world, lanes), rounds)
        yield Contestant(name, 100 * lanes * rounds, run, LINEAR_FLOPS, loop)
    for devices in FLEETS[1:]:
        large = world_of((784,), 60_000, *fleet_of(devices))
        run = rounds_of(lanes_of(large, 1), 1)
        yield Contestant(f"1 lane, {devices:,} devices", devices, run, LINEAR_FLOPS, loop)


def cnn_contestants() -> Iterator[Contestant]:
    world = world_of((32, 32, 3), 10_000, *fleet_of(10), "model.name=cnn_cifar10")
    loop, problem = "CNN, plain loop", Problem((3, 32, 32), 10, 0)
    yield Contestant(loop, 10, plain_loop(world, lambda: cnn_cifar10(problem), 1), CNN_FLOPS, loop)
    for lanes in (1, 4):
        name = f"CNN, {lanes} lane{'s' if lanes > 1 else ''}"
        yield Contestant(name, 10 * lanes, rounds_of(lanes_of(world, lanes), 1), CNN_FLOPS, loop)


def product_rate(size: int = 2048) -> float:
    """This machine's float32 matrix product, FLOP/s: the ceiling."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    start = time.perf_counter()
    a @ b
    return 2 * size**3 / (time.perf_counter() - start)


def measure(repeats: int) -> dict:
    contestants = [*linear_contestants(), *cnn_contestants()]
    products = []
    for repeat in range(repeats + 1):
        products.append(product_rate())
        for one in contestants:
            start = time.perf_counter()
            one.run()
            if repeat:  # the first time warms up
                one.seconds.append(time.perf_counter() - start)
    rates = {one.name: one.rate for one in contestants}
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "command": "python benchmarks/cpu.py",
        "product_gflops": median(products) / 1e9,
        "rows": {
            one.name: {
                "device_steps_per_second": one.rate,
                "lowest": one.steps / max(one.seconds),
                "highest": one.steps / min(one.seconds),
                "times_plain_loop": one.rate / rates[one.against],
                "share_of_product_rate": one.rate * one.flops / median(products),
            }
            for one in contestants
        },
        "memory": [memory_in_a_process(devices) for devices in FLEETS],
    }


def memory_in_a_process(devices: int) -> dict:
    """Predicted and used memory of one lane, beyond what the world held before."""
    command = [sys.executable, __file__, "--memory", str(devices)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory_of(devices: int, lanes: int = 8) -> dict:
    world = world_of((784,), 60_000, *fleet_of(devices))
    told = measure_footprint(world)
    rounds_of(lanes_of(world_of((784,), 1_000, *fleet_of(20)), 1), 2)()  # what torch itself takes
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    rounds_of(lanes_of(world, lanes), 6)()
    used = resident("VmHWM") - before
    predicted = replace(told, building=0).need(lanes) - told.world  # the world stands by now
    return {"devices": devices, "lanes": lanes, "predicted": predicted, "used": used}


def resident(name: str) -> int:
    """Memory of this process as Linux tells it: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def table(found: dict) -> Iterator[str]:
    yield (
        f"{found['machine']}, torch {found['torch']}, float32 product of 2048^3: "
        f"{found['product_gflops']:.0f} GFLOP/s\n"
    )
    yield (
        f"{'':24} {'device-steps/s':>15} {'(lowest-highest)':>20} {'x plain loop':>13} "
        f"{'of product rate':>16}"
    )
    for name, row in found["rows"].items():
        digits = 0 if row["device_steps_per_second"] > 100 else 1
        spread = f"({row['lowest']:,.{digits}f}-{row['highest']:,.{digits}f})"
        yield (
            f"{name:24} {row['device_steps_per_second']:15,.{digits}f} {spread:>20} "
            f"{row['times_plain_loop']:13.1f} {row['share_of_product_rate']:15.0%}"
        )
    yield ""
    for row in found["memory"]:
        yield (
            f"{row['devices']:,} devices, {row['lanes']} lanes: "
            f"{row['predicted'] / 2**20:,.0f} MiB predicted, {row['used'] / 2**20:,.0f} used"
        )


def comparison(found: dict, kept: dict) -> Iterator[str]:
    """Ratios only: other machines have other speeds."""
    yield f"\nBeside {kept['machine']}, torch {kept['torch']}:"
    yield f"{'':24} {'x plain loop':>13} {'kept':>6} {'of product rate':>16} {'kept':>6}"
    for name, row in found["rows"].items():
        if name not in kept["rows"]:
            continue
        old = kept["rows"][name]
        pairs = [(row[k], old[k]) for k in ("times_plain_loop", "share_of_product_rate")]
        slower = all(new < REGRESSION * before for new, before in pairs)
        (loops, old_loops), (share, old_share) = pairs
        yield (
            f"{name:24} {loops:13.1f} {old_loops:6.1f} {share:16.0%} {old_share:6.0%}"
            f"{'  slower' if slower else ''}"
        )


def picture(found: dict, path: Path) -> None:
    from matplotlib.figure import Figure

    from skerry.report.style import save_figure

    rows, ceiling = found["rows"], found["product_gflops"] * 1e9 / LINEAR_FLOPS
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    lanes_axis, devices_axis = figure.subplots(1, 2)
    rates = [rows[f"{n} lane{'s' if n > 1 else ''}"]["device_steps_per_second"] for n in LANES]
    lanes_axis.plot(LANES, rates, "o-", color="#0072B2", label="Skerry")
    loop = rows["plain loop"]["device_steps_per_second"]
    lanes_axis.axhline(loop, color="#7F7F7F", linestyle="--", label="plain PyTorch loop")
    lanes_axis.axhline(ceiling, color="#D55E00", linestyle=":", label="matrix-product rate")
    lanes_axis.set(xscale="log", yscale="log", xlabel="lanes (runs at once)")
    lanes_axis.set(ylabel="device-steps per second", title="100 devices, softmax regression")
    lanes_axis.set_xticks(LANES, [str(n) for n in LANES])
    lanes_axis.set_yticks([2_000, 5_000, 10_000, 20_000, 50_000])
    lanes_axis.yaxis.set_major_formatter("{x:,.0f}")
    lanes_axis.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.3))
    names = ["1 lane", *(f"1 lane, {n:,} devices" for n in FLEETS[1:])]
    micros = [1e6 / rows[name]["device_steps_per_second"] for name in names]
    devices_axis.plot(FLEETS, micros, "o-", color="#0072B2")
    devices_axis.set(xscale="log", xlabel="devices", ylim=(0, 1.4 * max(micros)))
    devices_axis.set(ylabel="microseconds per device-step", title="one lane, rings of at most 100")
    devices_axis.set_xticks(FLEETS, [f"{n:,}" for n in FLEETS])
    for axis in (lanes_axis, devices_axis):
        axis.grid(alpha=0.25)
        axis.minorticks_off()
        axis.title.set_fontsize(10)
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    parser.add_argument("--picture", type=Path, help="draw them")
    parser.add_argument("--compare", type=Path, help="figures kept earlier: show the ratios beside")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory_of(options.memory)))
        return
    found = measure(options.repeats)
    print("\n".join(table(found)))
    if options.compare:
        print("\n".join(comparison(found, json.loads(options.compare.read_text()))))
    if options.save:
        options.save.write_text(json.dumps(found, indent=1) + "\n")
    if options.picture:
        picture(found, options.picture)


if __name__ == "__main__":
    main()
