"""What a large fleet takes to load, in seconds of one processor and in memory: devices with 1 to
5,000 samples each.

    python benchmarks/fleet_load.py --devices 10000

Writes a table (.npz, rows in random order) and a folder with a file per device, loads each in a
process of its own, and builds its world there: all that a run needs before its first round.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FEATURES, CLASSES, MOST = 16, 10, 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        print(write(Path(asked.write), asked.devices))
    elif asked.load:
        print(json.dumps(loaded(asked.load)))
    else:
        # Each in a process of its own: a child's peak memory begins with its parent's.
        with tempfile.TemporaryDirectory() as folder:
            size = int(child("--write", folder, "--devices", str(asked.devices)))
            print(f"{asked.devices:,} devices, {size / 1e9:.2f} GB of samples and labels")
            for name in ("fleet.npz", "fleet"):
                tell(name, json.loads(child("--load", f"{folder}/{name}")), size)


def child(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write(folder: Path, devices: int) -> int:
    """Both forms of the same fleet; gives the bytes of its samples and labels."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, MOST + 1, size=devices)
    device = rng.permutation(np.repeat(np.arange(devices, dtype=np.int32), sizes))
    y = rng.integers(0, CLASSES, size=len(device), dtype=np.int8)
    x = rng.standard_normal((len(device), FEATURES), dtype=np.float32)
    x[:, 0] += y
    names = np.array([f"device-{i}" for i in range(devices)])
    np.savez(folder / "fleet.npz", x=x, y=y, device=device, devices=names)
    order = np.argsort(device, kind="stable")
    (folder / "fleet").mkdir()
    for name, rows in zip(names, np.split(order, np.cumsum(sizes)[:-1]), strict=True):
        np.savez(folder / "fleet" / f"{name}.npz", x=x[rows], y=y[rows])
    return x.nbytes + y.nbytes


def loaded(path: str) -> dict[str, float]:
    """Seconds and peak memory of the data set, then of its world."""
    from skerry.config.experiment import Experiment
    from skerry.data.sources.catalog import load_dataset
    from skerry.engine.world import build_world

    named = ["data.dataset=devices", "data.split=given", f"data.path={path}", "server.sampled=20"]
    experiment = Experiment.parse({}, [*named, "network.components=100"])
    before, began = peak(), time.process_time()
    load_dataset(experiment.data, 0)
    data, seconds = peak(), time.process_time() - began
    build_world(experiment)
    return {
        "data_seconds": seconds,
        "data_bytes": data - before,
        "world_seconds": time.process_time() - began - seconds,
        "world_bytes": peak() - before,
    }


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def tell(name: str, found: dict[str, float], size: int) -> None:
    for part in ("data", "world"):
        seconds, taken = found[f"{part}_seconds"], found[f"{part}_bytes"]
        print(f"{name:<10} {part:<6} {seconds:6.1f} s  {taken / size:5.2f} x the data at its peak")


if __name__ == "__main__":
    main()
