"""What a smaller pilot gives on the generated fleets: rules of thumb with tuned stepsizes.

    python studies/advice/controls.py

The fixed rules of `judge.py` use the experiment's own stepsize, so a comparison with them mixes
what the rule gives with what tuning gives. Here S2S, S2A, the blend of 0.5 and no server, each with
the K and H of those rules, are run at seven stepsizes. Stepsizes are tuned on four seeds and scored
on twenty others. The best setting of the exhaustive grid and the answer of `skerry advise`, as
`judge.py` kept them, are run on the same twenty seeds, which neither of them was chosen on.
Writes studies/advice/data/controls.json: for each fleet, the settings with their costs and the
scores of the fleet's goal by seed (points of accuracy, or -100 times the logarithm of the loss).
"""

import argparse
import json
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fleets import STUDIED, Fleet, read_numbers
from judge import affordable, cost, rule, same, utilities
from truth import scores

from skerry.files import replace_file

DATA = Path(__file__).parent / "data"
FACTORS = tuple(10 ** (power / 2) for power in range(-2, 5))
"""Stepsizes, relative to the experiment's own."""
PRIMITIVES = {"s2s": 0.0, "blend": 0.5, "s2a": 1.0}
TUNING_SEEDS = tuple(range(200, 204))
SCORED_SEEDS = tuple(range(7000, 7020))

Setting = dict[str, Any]


def settings_of(fleet: Fleet, kept: dict[str, Any]) -> list[tuple[str, Setting]]:
    """The settings to run, by name: first the kept ones, then each primitive at every stepsize."""
    best = {name: value for name, value in kept["best"].items() if name != "cost"}
    found = [
        ("best of the grid", best),
        ("skerry advise", kept["rules"]["skerry advise"]["setting"]),
    ]
    own = fleet.drawn["stepsize"]
    for name, beta in PRIMITIVES.items():
        fixed = rule(fleet, "always S2S" if name == "s2s" else "always S2A")
        if fixed["primitive"] == "none":
            continue  # no server round is affordable
        for factor in FACTORS:
            changed = {"primitive": name, "beta": beta, "stepsize": own * factor}
            found.append((name, fixed | changed))
    found += [("none", {"primitive": "none", "stepsize": own * f}) for f in FACTORS]
    return found


def _task(work: tuple[int, int, str, str]) -> tuple[int, int, dict[str, "np.ndarray[Any, Any]"]]:
    number, seed, device, settings = work
    torch.set_num_threads(1)
    return number, seed, scores(Fleet(number), json.loads(settings), seed, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", default=",".join(map(str, STUDIED)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=len(SCORED_SEEDS))
    options = parser.parse_args()
    began = time.monotonic()
    kept = json.loads((DATA / "fleets.json").read_text(encoding="utf-8"))["rows"]
    rows = {row["fleet"]: row for row in kept}
    numbers, scored = read_numbers(options.fleets), SCORED_SEEDS[: options.seeds]
    named = {number: settings_of(Fleet(number), rows[number]) for number in numbers}
    # A setting may be in the list twice, but a stack has no lane twice.
    lanes = {number: distinct([one for _, one in found]) for number, found in named.items()}
    work = [
        (number, seed, options.device, json.dumps(lanes[number]))
        for number in numbers
        for seed in (*TUNING_SEEDS, *scored)
    ]
    runs: dict[int, dict[int, dict[str, Any]]] = {number: {} for number in numbers}
    with get_context("spawn").Pool(options.processes) as pool:
        for number, seed, one in pool.imap_unordered(_task, work):
            runs[number][seed] = one
    found = [
        {
            "fleet": number,
            "goal": Fleet(number).drawn["goal"],
            "differ": bool(Fleet(number).drawn["across"] or Fleet(number).drawn["within"]),
            "tolerance": rows[number]["tolerance"],
            "cheapest_level_cost": rows[number]["cheapest_level_cost"],
            "settings": told(Fleet(number), named[number], lanes[number], runs[number], scored),
        }
        for number in numbers
    ]
    data = {
        "command": "python studies/advice/controls.py",
        "seconds": round(time.monotonic() - began),
        "tuning_seeds": TUNING_SEEDS,
        "scored_seeds": scored,
        "rows": found,
    }
    text = json.dumps(data, separators=(",", ":")).replace('{"fleet"', '\n{"fleet"')
    replace_file(DATA / "controls.json", f"{text}\n".encode())
    print(f"{data['seconds']} s")


def distinct(settings: list[Setting]) -> list[Setting]:
    found: list[Setting] = []
    for one in settings:
        if not any(same(one, other) for other in found):
            found.append(one)
    return found


def told(
    fleet: Fleet,
    named: list[tuple[str, Setting]],
    lanes: list[Setting],
    runs: dict[int, dict[str, Any]],
    scored: tuple[int, ...],
) -> list[dict[str, Any]]:
    """The rows of a fleet's settings: name, stepsize, cost and scores."""
    seeds = (*TUNING_SEEDS, *scored)
    tables = {
        name: np.stack([runs[seed][name] for seed in seeds], axis=1) for name in runs[seeds[0]]
    }
    utility = utilities(fleet, tables)
    found = []
    for name, setting in named:
        (place,) = (i for i, one in enumerate(lanes) if same(setting, one))
        values = [round(float(value), 4) for value in utility[place]]
        found.append(
            {
                "name": name,
                "stepsize": setting["stepsize"],
                "cost": cost(fleet, setting),
                "affordable": affordable(fleet, setting),
                "tuning": values[: len(TUNING_SEEDS)],
                "scored": values[len(TUNING_SEEDS) :],
            }
        )
    return found


if __name__ == "__main__":
    main()
