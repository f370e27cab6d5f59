"""Seconds to price the paper's grid: 9,600 stored runs of 100 devices and 100 rounds, three clocks.

    python benchmarks/pricing.py               9,600 runs
    python benchmarks/pricing.py --runs 480    fewer
    python benchmarks/pricing.py --keep benchmarks/results/pricing.json

The records are made without training: accuracies are made up, messages and bytes are those that the
experiments send. A part that is measured begins with what it needs in memory.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np

from skerry.analysis.run_table import RunTable
from skerry.config.experiment import Experiment
from skerry.network.fleet import build_fleet
from skerry.records.store import FILE, Store, versions

ROUNDS, SEEDS, DEVICES = 100, 5, 100
MESSAGE = 4 * 7850
"""Bytes of softmax regression on MNIST."""
AXES = {
    "data.inter": ["iid", "non_iid"],
    "data.intra": ["iid", "dirichlet"],
    "network.topology": ["ring", "grid", "complete"],
    "server.sampled": [20, 40, 60, 80, 100],
    "server.period": [5, 10, 15, 20],
    "training.stepsize": [0.003, 0.01, 0.03, 0.1],
    "server.primitive": ["s2s", "s2a"],
}
"""The paper's MNIST grid."""
_SPEEDS = {"seconds_per_step": "50 ms", "watts": 4.0, "idle_watts": 0.5}
CLOCKS = {
    "all links alike": {"compute": _SPEEDS, "d2d": {"bandwidth": "1 MB/s", "latency": "10 ms"},
        "uplink": {"bandwidth": "1 MB/s", "latency": "10 ms"},
        "downlink": {"bandwidth": "1 MB/s", "latency": "10 ms"}},
    "devices and rounds differ": {"compute": _SPEEDS | {"spread": 0.5, "jitter": 0.1},
        "d2d": {"bandwidth": "20 MB/s", "latency": "5 ms", "channel": "one_by_one"},
        "uplink": {"bandwidth": "1 MB/s", "latency": "60 ms", "joules_per_byte": 5e-6},
        "downlink": {"bandwidth": "5 MB/s", "latency": "60 ms"}},
    "ports and a broadcast": {"compute": _SPEEDS | {"spread": 0.5},
        "d2d": {"bandwidth": "20 MB/s", "channel": "shared", "joules_per_byte": 2e-7},
        "uplink": {"bandwidth": "1 MB/s"},
        "downlink": {"bandwidth": "5 MB/s", "broadcast": "5 MB/s"},
        "server": {"bandwidth_in": "100 MB/s", "bandwidth_out": "100 MB/s"}},
}  # fmt: skip


def experiments() -> Iterator[Experiment]:
    for seed, values in product(range(SEEDS), product(*AXES.values())):
        settings = [f"{name}={value}" for name, value in zip(AXES, values, strict=True)]
        fixed = [f"seed={seed}", f"rounds={ROUNDS}", f"network.devices={DEVICES}"]
        yield Experiment.parse({"data": {"dataset": "mnist"}}, [*fixed, *settings])


def history(experiment: Experiment, links: int) -> dict[str, list[float]]:
    """A curve, and the messages and bytes that a run of the experiment sends."""
    rounds, server = np.arange(ROUNDS + 1), experiment.server
    with_server = np.isin(rounds - 1, server.server_rounds(ROUNDS))
    reached = server.sampled if server.primitive == "s2s" else DEVICES
    messages = {
        "uplink": np.cumsum(with_server * server.sampled),
        "downlink": np.cumsum(with_server * reached),
        "d2d": 2 * links * rounds,
    }
    return {
        "round": rounds.tolist(),
        "average_accuracy": (90 - 80 * np.exp(-rounds / 15)).tolist(),
        **{f"{link}_messages": counts.tolist() for link, counts in messages.items()},
        **{f"{link}_bytes": (MESSAGE * counts).tolist() for link, counts in messages.items()},
    }


def record(folder: Path, most: int) -> None:
    """Write the records of the first `most` runs of the grid."""
    computed_with, links = versions(), dict[str, int]()
    with Store.open(folder) as store, store.transaction():
        for experiment in islice(experiments(), most):
            network = experiment.network
            if network.topology not in links:
                links[network.topology] = build_fleet(network, seed=0).links(0)
            key, world = experiment.key(), experiment.world_key()
            store.begin(
                {key: experiment}, materials={}, world=world, device="cpu", versions=computed_with
            )
            store.append({key: history(experiment, links[network.topology])})
            store.finish(key, "finished", wall_seconds=1.0)


class Stopwatch:
    """Seconds of one part after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[part] = round(now - self._since, 2)
        self._since = now
        print(f"{part:45} {self.seconds[part]:7.2f} s")


def measure(folder: Path) -> dict[str, float]:
    """Read the store once, and price it under every clock."""
    watch = Stopwatch()
    table = RunTable.read(folder)
    watch.lap("reading the store")
    for name, clock in CLOCKS.items():
        priced = table.priced(clock)
        watch.lap(f"pricing: {name}")
    assert len(priced.histories) == len(table.runs)
    total = sum(watch.seconds.values())
    frame = priced.frame()
    watch.lap("a frame of all rounds, of one clock")
    print(f"{len(table.runs):,} runs, {len(frame):,} rows; reading and all clocks: {total:.2f} s")
    return {**watch.seconds, "reading and pricing under all clocks": round(total, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9_600)
    parser.add_argument("--folder", type=Path, help="Keep records here, and use them again.")
    parser.add_argument("--keep", type=Path, help="Write the figures to this JSON file.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skerry-pricing-") as temporary:
        folder = asked.folder or Path(temporary)
        if not (folder / FILE).exists():
            record(folder, asked.runs)
        load = os.getloadavg()[0]
        seconds = measure(folder)
    if asked.keep:
        about = {
            "command": f"python benchmarks/pricing.py --runs {asked.runs}",
            "runs": asked.runs,
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
            "seconds": seconds,
        }
        asked.keep.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
