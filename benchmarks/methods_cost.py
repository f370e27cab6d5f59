"""What methods cost beside plain SGD: time of a round, and memory, on one stack of many lanes.

    python benchmarks/methods_cost.py                       96 lanes, 100 devices, 784 -> 10
    python benchmarks/methods_cost.py --device cuda --save FILE
    python benchmarks/methods_cost.py --lanes 8 --rounds 6  quickly

Softmax regression on random inputs, two rings, S2S or what the method asks for, with a fifth of the
devices every 5 rounds; nothing is evaluated. Methods take turns, each in a process of its own:
memory is the process's peak (on a GPU, what torch allocated at most) while its stack ran, less
what it held before. Arrays: X counts as one. A round is the median, or the mean of all, with their
server rounds.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack, method_of
from skerry.engine.world import build_world
from skerry.methods.method import count_companions
from skerry.records.store import versions

METHODS = ("s2s", "carry", "gradient_tracking", "sd_gt", "mtgc", "scaffold", "fedvarp", "fedprox")
LIMITS = {"carry": 1.6, "gradient_tracking": 2.2}
"""Times plain SGD, at most."""
WARM_UP = 5
"""Rounds that do not count: kernels are compiled and chosen, launches recorded."""


def measured(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    base = Experiment.parse(
        {},
        [
            f"network.devices={asked.devices}",
            f"server.sampled={max(2, asked.devices // 5)}",
            "server.offset=4",
            f"rounds={asked.rounds + WARM_UP}",
            "data.dataset=synthetic",
            "data.features=784",
            "data.classes=10",
            "data.samples=20000",
            "data.test_samples=100",
            "evaluate.every=1000000",
        ],
    )
    lane = base if name == "s2s" else with_preset(base, name)
    method = method_of(lane)
    lanes = [lane.with_settings(f"training.stepsize={0.01 + i * 1e-5}") for i in range(asked.lanes)]
    world = build_world(base, device=asked.device)
    before = _held(asked.device)
    seconds, last = [], 0.0
    for moment in simulate(build_stack(world, lanes)):
        if moment.phase == "end":
            if asked.device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            seconds.append(now - last)
            last = now
    X = asked.devices * asked.lanes * world.learner.d * 4
    return {
        "arrays": 1 + (count_companions(method) if method else 0),
        "seconds": seconds[WARM_UP:],
        "memory_in_X": round((_peak(asked.device) - before) / X, 3),
    }


def _held(device: str) -> int:
    """Bytes held now; the peak counts anew from here."""
    if device == "cuda":
        torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")  # torch's own workspace
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else _status("VmHWM")


def _status(name: str) -> int:
    """A line of the system's account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--lanes", type=int, default=96)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--save", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one, asked)))
        return
    names = asked.methods.split(",")
    found: dict[str, dict[str, Any]] = {}
    command = [sys.executable, __file__, "--device", asked.device, "--lanes", str(asked.lanes)]
    command += ["--devices", str(asked.devices), "--rounds", str(asked.rounds)]
    for _ in range(asked.turns):
        for name in names:
            ran = subprocess.run([*command, "--one", name], check=True, stdout=subprocess.PIPE)
            turn = json.loads(ran.stdout.splitlines()[-1])
            kept = found.setdefault(name, {**turn, "seconds": []})
            kept["seconds"] += turn["seconds"]
    print(f"{'method':20} {'median ms':>10} {'x plain':>8} {'mean ms':>8} {'x plain':>8}", end="")
    print(f" {'arrays':>7} {'memory, in X':>13}")
    plain = found[names[0]]
    for name, one in found.items():
        seconds = one.pop("seconds")
        one["milliseconds"] = round(1e3 * median(seconds), 3)
        one["mean_milliseconds"] = round(1e3 * mean(seconds), 3)
        one["times_plain"] = round(one["milliseconds"] / plain["milliseconds"], 3)
        one["mean_times_plain"] = round(one["mean_milliseconds"] / plain["mean_milliseconds"], 3)
        limit = LIMITS.get(name)
        told = f"  at most {limit} times" if limit else ""
        print(
            f"{name:20} {one['milliseconds']:10.2f} {one['times_plain']:8.2f} "
            f"{one['mean_milliseconds']:8.2f} {one['mean_times_plain']:8.2f} "
            f"{one['arrays']:7} {one['memory_in_X']:13.2f}{told}"
        )
    if asked.save:
        about = {"command": " ".join(["python", *sys.argv]), "versions": versions()}
        about["machine"] = (
            torch.cuda.get_device_name() if asked.device == "cuda" else platform.processor()
        )
        asked.save.write_text(json.dumps({"about": about, "methods": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
