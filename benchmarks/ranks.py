"""One run on ranks beside the same run in one process: `skerry run`, with and without `--ranks`.

Jobs are without measures on the way, so that seconds are those of training, mixing and server
rounds: a fleet of softmax regressions 64 -> 10 on rings of 100, and the CNN of 3,353,034 parameters
on few devices. Inputs are random numbers: only speed is measured here. Contestants take turns, so
that a busy machine slows all of them; ratios count. All of them must end with the same loss.

Then what drawing minibatches costs: all of them by numpy one by one, all of them as Skerry draws
them, and those of the last device alone, for which it passes over all others.

    python benchmarks/ranks.py [--turns 5] [--save benchmarks/results/ranks.json]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import torch

from skerry.data.batches import WithReplacement
from skerry.data.partition import Partition
from skerry.plugins.context import Context
from skerry.records.store import Store
from skerry.seeds import stream

SAME = 1e-3
"""Losses may differ by rounding, and by what training makes of it."""


@dataclass(frozen=True)
class Job:
    name: str
    devices: int
    rounds: int
    settings: tuple[str, ...]

    def arguments(self, folder: Path) -> list[str]:
        common = (
            f"network.devices={self.devices}",
            f"rounds={self.rounds}",
            f"evaluate.every={self.rounds}",
            "evaluate.measures=average",
            "server.primitive=s2a",
            f"server.sampled={self.devices // 5}",
        )
        given = [one.format(folder=folder) for one in (*common, *self.settings)]
        return [word for one in given for word in ("--set", one)]


def fleet(devices: int, rounds: int) -> Job:
    settings = (
        f"network.components={devices // 100}",
        "training.batch=32",
        "data.dataset=synthetic",
        "data.inter=iid",
        f"data.samples={20 * devices}",
        "data.test_samples=100",
        "data.features=64",
    )
    return Job(f"{devices:,} devices, softmax 64 -> 10, batch 32", devices, rounds, settings)


def network(devices: int, rounds: int) -> Job:
    settings = (
        "network.components=2",
        "training.batch=32",
        "model.name=cnn_cifar10",
        "data.dataset=npz",
        "data.path={folder}/images.npz",
        "data.inter=iid",
    )
    return Job(f"{devices} devices, CNN, batch 32", devices, rounds, settings)


@dataclass
class Contestant:
    name: str
    threads: int
    """Of each process."""
    ranks: int | None = None
    seconds: list[float] = field(default_factory=list)
    """A round."""
    whole: list[float] = field(default_factory=list)
    """The command, with all that comes before the first round."""
    losses: set[float] = field(default_factory=set)

    def run(self, job: Job, folder: Path) -> None:
        out = folder / f"runs{len(self.whole)}-{self.threads}-{self.ranks}"
        # A machine's threads are divided among its ranks (cli/commands/run.py).
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads * (self.ranks or 1))}
        on_ranks = [] if self.ranks is None else ["--ranks", str(self.ranks)]
        command = [
            *(sys.executable, "-m", "skerry", "run", *job.arguments(folder), *on_ranks),
            *("--compare", "s2a", "--seeds", "1", "--device", "cpu", "--out", str(out), "--json"),
        ]
        began = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        self.whole.append(time.perf_counter() - began)
        with Store.read(out) as store:
            (run,) = store.runs()
            self.seconds.append(run.wall_seconds / job.rounds)
            self.losses.add(float(store.history(run.key)["average_loss"][-1]))

    def row(self, first: "Contestant") -> dict:
        return {
            "threads": self.threads,
            "ranks": self.ranks,
            "ms_per_round": 1e3 * median(self.seconds),
            "lowest": 1e3 * min(self.seconds),
            "highest": 1e3 * max(self.seconds),
            "times_one_thread": median(
                one / mine for one, mine in zip(first.seconds, self.seconds, strict=True)
            ),
            "command_seconds": median(self.whole),
        }


def measure(job: Job, turns: int) -> dict:
    contestants = [
        Contestant("one process, 1 thread", 1),
        Contestant("one process, 2 threads", 2),
        Contestant("1 rank, 1 thread", 1, ranks=1),
        Contestant("2 ranks, 1 thread each", 1, ranks=2),
    ]
    loads: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        for _ in range(turns):
            for one in contestants:
                one.run(job, Path(folder))
                loads.append(os.getloadavg()[0])
                seconds = one.seconds[-1]
                print(f"{job.name}; {one.name}: {1e3 * seconds:.1f} ms, load {loads[-1]:.1f}")
    losses = sorted(set.union(*(one.losses for one in contestants)))
    assert losses[-1] - losses[0] <= SAME * losses[0], f"other numbers: {losses}"
    return {
        "devices": job.devices,
        "rounds": job.rounds,
        "turns": turns,
        "losses": losses,
        "load": [min(loads), max(loads)],
        "rows": {one.name: one.row(contestants[0]) for one in contestants},
    }


def draws(devices: int = 20_000, batch: int = 32, samples: int = 20) -> dict:
    """Nanoseconds for each number of the whole fleet, of this thread's own time."""
    order = np.random.default_rng(0).permutation(samples * devices)
    partition = Partition(
        order, samples * np.arange(devices + 1), np.ones((devices, 1), dtype=np.int64)
    )
    sampling = WithReplacement(partition, batch, Context(seed=0))
    sizes = partition.sizes[:, np.newaxis]

    def one_by_one() -> None:
        rng = stream(0, WithReplacement.stream, 0, 0)
        order[partition.offsets[:-1, np.newaxis] + rng.integers(0, sizes, (devices, batch))]

    ways = {
        "numpy, one by one": one_by_one,
        "all at once": lambda: sampling.indices(0, 0, 1),
        "passed over": lambda: sampling.indices(0, 0, 1, slice(devices - 1, devices)),
    }
    return {name: 1e9 * _own_time(draw) / (devices * batch) for name, draw in ways.items()}


def _own_time(work: Callable[[], object], times: int = 15) -> float:
    found = []
    for _ in range(times):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return median(found)


def write_images(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2100, 32, 32, 3), dtype=np.float32)
    y = np.arange(2100) % 10
    parts = {"x_train": x[:2000], "y_train": y[:2000], "x_test": x[2000:], "y_test": y[2000:]}
    np.savez(folder / "images.npz", **parts)


def table(found: dict) -> str:
    lines = []
    for name, job in found["jobs"].items():
        lines.append(f"{name}: ms a round (lowest-highest), times one thread, the whole command")
        for who, row in job["rows"].items():
            lines.append(
                f"  {who:24} {row['ms_per_round']:9.1f} ({row['lowest']:.1f}-{row['highest']:.1f}) "
                f"{row['times_one_thread']:6.2f}x {row['command_seconds']:6.1f} s"
            )
    each = ", ".join(f"{name} {nanoseconds:.1f}" for name, nanoseconds in found["draws"].items())
    return "\n".join([*lines, f"ns for each number drawn: {each}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    jobs = [fleet(20_000, 8), network(20, 2)]
    found: dict = {
        "command": f"python benchmarks/ranks.py --turns {given.turns}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "draws": draws(),
        "jobs": {job.name: measure(job, given.turns) for job in jobs},
    }
    print(table(found))
    if given.save:
        given.save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
