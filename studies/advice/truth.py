"""The truth about the generated fleets: every setting of a grid on many seeds.

    python studies/advice/truth.py --device cuda --seeds 30 --out truth

Writes one file per fleet, truth/NN.npz: the settings (a table), and for each measure an array
[settings, seeds] of the mean over the last fifth of the rounds, NaN where a run diverged. Runs are
computed by the engine without a store, all settings of a fleet and a seed as lanes of few stacks.
"""

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fleets import Fleet, read_numbers

from skerry.config.experiment import Evaluate, Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.measure.observer import Observer, columns_by_key
from skerry.runs.materials import collect_materials, with_materials

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
PERIODS = (1, 2, 5, 10, 20, 40)
FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5, 10.0)
SELECTIONS = ("uniform", "one_each")
FIRST_SEED = 1000
MEASURES = ("average_accuracy", "own_accuracy", "average_loss", "own_loss")
LANES = 2000

Setting = dict[str, Any]


def ladder(sizes: Sequence[int]) -> list[int]:
    """Values of K: half, one, two, four ... of each island, to all devices."""
    islands, n = len(sizes), sum(sizes)
    values = {max(2, islands // 2), n}
    values |= {islands * 2**j for j in range(8) if islands * 2**j < n}
    return sorted(values)


def grid(fleet: Fleet) -> list[Setting]:
    """The exhaustive grid; `none` at every stepsize comes first."""
    sizes, eta = fleet.drawn["sizes"], fleet.drawn["stepsize"]
    steps = [eta * factor for factor in FACTORS]
    found = [{"primitive": "none", "stepsize": one} for one in steps]
    for beta, K, H, rule, one in product(BETAS, ladder(sizes), PERIODS, SELECTIONS, steps):
        fits = K % len(sizes) == 0 and len(sizes) * min(sizes) >= K
        if (rule == "one_each" and not fits) or fleet.drawn["rounds"] <= H:
            continue
        kind = {0.0: "s2s", 1.0: "s2a"}.get(beta, "blend")
        setting = {"primitive": kind, "beta": beta, "sampled": K, "period": H}
        found.append({**setting, "selection": rule, "stepsize": one})
    return found


def run_of(base: Experiment, setting: Setting, seed: int) -> Experiment:
    given = {name: value for name, value in setting.items() if value is not None}
    server = {name: value for name, value in given.items() if name != "stepsize"}
    return base.model_copy(
        update={
            "seed": seed,
            "server": base.server.model_copy(update=server),
            "training": base.training.model_copy(update={"stepsize": setting["stepsize"]}),
        }
    )


def base_of(fleet: Fleet) -> Experiment:
    """The experiment, scored five times in the last fifth of its rounds, at rounds coprime to all
    periods."""
    rounds = fleet.drawn["rounds"]
    window = rounds // 5
    every = next(s for s in range(max(1, window // 5), 0, -1) if np.gcd(s, 10) == 1)
    evaluate = Evaluate(every=every, after=rounds - window, measures=("average", "devices"))
    given = collect_materials(fleet.graph, fleet.dataset, None)
    (asked,) = with_materials([fleet.experiment], given)
    return asked.model_copy(update={"evaluate": evaluate})


def scores(
    fleet: Fleet, settings: Sequence[Setting], seed: int, device: str
) -> dict[str, "np.ndarray[Any, Any]"]:
    """For each measure, the score of every setting on one seed."""
    given = collect_materials(fleet.graph, fleet.dataset, None)
    base = base_of(fleet)
    world = build_world(base.model_copy(update={"seed": seed}), given, device)
    found = {name: np.full(len(settings), np.nan) for name in MEASURES}
    for first in range(0, len(settings), LANES):
        runs = [run_of(base, one, seed) for one in settings[first : first + LANES]]
        stack = build_stack(world, runs)
        places = {run: first + i for i, run in enumerate(runs)}  # a stack sorts its lanes
        place = {key: places[run] for key, run in zip(stack.keys, stack.experiments, strict=True)}
        observer, readings = Observer(stack), []
        for moment in simulate(stack):
            reading = observer.read(moment)
            if reading is not None and moment.round > 0:
                readings.append(reading)
        for key, columns in columns_by_key(readings).items():
            for name in MEASURES:
                values = np.asarray(columns.get(name, [np.nan]))
                # A run that ended early has exploded.
                whole = len(values) == len(readings)
                found[name][place[key]] = values.mean() if whole else np.nan
    return found


def _task(work: tuple[int, int, str]) -> tuple[int, int, dict[str, "np.ndarray[Any, Any]"]]:
    number, seed, device = work
    torch.set_num_threads(1)  # many processes share the machine
    fleet = Fleet(number)
    return number, seed, scores(fleet, grid(fleet), seed, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--fleets", default="0-11,24-35")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--out", type=Path, default=Path("truth"))
    options = parser.parse_args()
    numbers = read_numbers(options.fleets)
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    work = [(number, seed, options.device) for seed in seeds for number in numbers]
    found: dict[int, dict[int, dict[str, Any]]] = {}
    with get_context("spawn").Pool(options.processes) as pool:
        for number, seed, one in pool.imap_unordered(_task, work):
            found.setdefault(number, {})[seed] = one
            spent = time.monotonic() - began
            if len(found[number]) % 5 == 0:
                print(f"{spent:.0f} s: fleet {number}, {len(found[number])} seeds", flush=True)
            if spent > options.seconds:
                pool.terminate()
                break
    for number, by_seed in sorted(found.items()):
        arrays = {
            name: np.stack([by_seed[s][name] for s in sorted(by_seed)], axis=1).astype(np.float32)
            for name in MEASURES
        }
        settings = json.dumps(grid(Fleet(number)))
        file = options.out / f"{number:02}.npz"
        np.savez_compressed(file, settings=settings, seeds=sorted(by_seed), **arrays)
    print(f"{time.monotonic() - began:.0f} s, seeds: {[len(found[n]) for n in sorted(found)]}")


if __name__ == "__main__":
    main()
