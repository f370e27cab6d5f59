"""Methods side by side: S2S and S2A compared with methods that keep more state than a model.

    python studies/methods/run.py mnist --device cuda --out runs
    python studies/methods/run.py cifar10 --device cuda --out runs
    python studies/methods/run.py mnist --rounds 6 --seeds 2 --few --out t --write t   # a test

Each cell (a data regime, a selection rule and a period) is recorded in its own folder under --out;
an interrupted study resumes there. Methods share minibatches and samples, so differences are
paired. The stepsize of each method is tuned separately by the accuracy of the devices on all data,
over all seeds, or over the first seed where runs are expensive. The numbers that the page needs are
written to --write (studies/methods/data) as JSON, with the command and the versions. The script
page.py writes docs/methods/ from them.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import skerry
from skerry.analysis.run_table import RunTable
from skerry.analysis.statistics import best_place
from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.records.store import versions
from skerry.runs.variants import expand

DATA = Path(__file__).parent / "data"
WINDOW = 20
"""A run is scored by the mean over its last rounds."""
TUNED_BY = "device_accuracy"
ACCURACIES = ("average_accuracy", "device_accuracy", "own_accuracy")
LINKS = ("uplink", "downlink", "d2d")
REGIMES = {
    "alike": ("iid", "iid"),
    "devices differ": ("iid", "dirichlet"),
    "islands differ": ("non_iid", "iid"),
    "both differ": ("non_iid", "dirichlet"),
}
"""For each regime, the data split across islands and the split within them."""
SERVERS = {"20 at random": ("uniform", 20), "one of each island": ("one_each", 2)}
METHODS = (
    "s2s",
    "s2a",
    "gradient_tracking",
    "gradient_tracking_s2s",
    "carry",
    "sd_gt",
    "mtgc",
    "fedavg",
    "scaffold",
    "fedvarp",
    "mifa",
    "fedprox",
)
EVERYBODY = ("mtgc",)
"""Methods whose server samples all devices, whatever the selection rule."""
MEASURES = ["average", "devices", "consensus", "communication"]


@dataclass(frozen=True)
class MethodStudy:
    """Settings of the study on one data set."""

    tables: dict[str, Any]
    methods: tuple[str, ...]
    periods: tuple[int, ...]
    stepsizes: tuple[float, ...]
    seeds: int
    tuned_on: int
    """Number of seeds for tuning; the remaining seeds run only at the best stepsize."""


STUDIES = {
    # Devices are scored every third (fourth) round, which covers every phase of these periods.
    "mnist": MethodStudy(
        {"data": {"dataset": "mnist"}, "evaluate": {"devices_every": 3, "measures": MEASURES}},
        METHODS,
        periods=(5, 20),
        stepsizes=(0.01, 0.0316, 0.1, 0.316),
        seeds=5,
        tuned_on=5,
    ),
    # Without the methods that are far behind on MNIST: a run costs a hundred times as much.
    "cifar10": MethodStudy(
        {
            "data": {"dataset": "cifar10"},
            "model": {"name": "cnn_cifar10"},
            "training": {"precision": "bf16"},
            "evaluate": {
                "every": 4,
                "devices_every": 4,
                "device_samples": 1000,
                "measures": MEASURES,
            },
        },
        tuple(
            m for m in METHODS if m not in ("gradient_tracking_s2s", "fedvarp", "mifa", "fedprox")
        ),
        periods=(5,),
        stepsizes=(0.0316, 0.1),
        seeds=3,
        tuned_on=1,
    ),
}


def cells(asked: argparse.Namespace) -> Iterator[tuple[dict[str, Any], list[Experiment]]]:
    """The factors of each cell, and its lanes: one experiment per method."""
    study = STUDIES[asked.study]
    regimes = dict([*REGIMES.items()][2:3]) if asked.few else REGIMES
    for (regime, split), (who, server), H in product(
        regimes.items(), SERVERS.items(), study.periods[:1] if asked.few else study.periods
    ):
        base = Experiment.parse(
            {"name": "methods side by side", "rounds": asked.rounds, **study.tables},
            [
                f"data.inter={split[0]}",
                f"data.intra={split[1]}",
                f"server.sampled={server[1]}",
                f"server.selection={server[0]}",
                f"server.period={H}",
                f"server.offset={H - 1}",  # all meet the server in the same rounds
                *asked.settings,
            ],
        )
        yield {"regime": regime, "server": who, "period": H}, list(lanes(base, study.methods))


def lanes(base: Experiment, methods: tuple[str, ...]) -> Iterator[Experiment]:
    """One experiment per method, with the base's selection where the method leaves it open."""
    for name in methods:
        lane = with_preset(base, name) if name not in ("s2s", "s2a") else expand(base, [name])[0]
        if name not in EVERYBODY and lane.server.selection != base.server.selection:
            if name == "sd_gt":  # as many, but of every island
                yield lane
                continue
            server = base.server
            lane = lane.with_settings(
                f"server.selection={server.selection}", f"server.sampled={server.sampled}"
            )
        yield lane


def run_cell(
    lanes: list[Experiment], study: MethodStudy, seeds: int, folder: Path, device: str
) -> int:
    """Tune every lane, run the remaining seeds at its best stepsize, return the number of runs."""
    first, left = range(min(study.tuned_on, seeds)), range(study.tuned_on, seeds)
    runs = [
        lane.with_settings(f"training.stepsize={eta}").replace(seed=seed)
        for lane in lanes
        for eta in study.stepsizes
        for seed in first
    ]
    skerry.run(runs, out=folder, device=device, keep_going=True)
    if left:
        best = {label: eta for label, eta, _ in tuned(folder, len(first))}
        rest = [
            lane.with_settings(f"training.stepsize={best[lane.server.label]}").replace(seed=seed)
            for lane in lanes
            for seed in left
        ]
        skerry.run(rest, out=folder, device=device, keep_going=True)
        runs += rest
    return len(runs)


def tuned(folder: Path, tuned_on: int) -> Iterator[tuple[str, float, list[dict[str, Any]]]]:
    """Each method, its best stepsize on the first seeds, and its histories there by seed."""
    recorded = RunTable.read(folder)
    found: dict[str, dict[float, dict[int, dict[str, Any]]]] = {}
    for run in recorded.runs:
        by_step = found.setdefault(run.experiment.server.label, {})
        history = recorded.histories[run.key] if run.status == "finished" else {}
        by_seed = by_step.setdefault(run.experiment.training.stepsize, {})
        by_seed[run.experiment.seed] = history
    for label, by_step in found.items():
        steps = sorted(by_step)
        scores = [
            [score(by_step[eta][seed], TUNED_BY) for seed in range(tuned_on)] for eta in steps
        ]
        eta = steps[int(best_place(scores))]
        yield label, eta, [history for _, history in sorted(by_step[eta].items()) if history]


def rows(folder: Path, tuned_on: int) -> Iterator[dict[str, Any]]:
    """A row per method at its best stepsize, with a value per seed."""
    for label, eta, histories in tuned(folder, tuned_on):
        yield (
            {"method": label, "training.stepsize": eta, "seeds": len(histories)}
            | {name: [round(score(h, name), 4) for h in histories] for name in ACCURACIES}
            | {
                f"{link}_{unit}": [int(h[f"{link}_{unit}"][-1]) for h in histories][:1]
                for link in LINKS
                for unit in ("messages", "bytes")
            }
            | {"curve": curve(histories)}
        )


def score(history: dict[str, Any], name: str) -> float:
    """Mean of a measure over the last WINDOW rounds; NaN for a diverged run."""
    if not history:
        return float("nan")
    late = history["round"] > history["round"][-1] - WINDOW
    return float(np.nanmean(history[name][late]))


def curve(histories: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Mean curves over seeds, at the rounds in which devices were scored."""
    if not histories:
        return {}
    scored = ~np.isnan(histories[0][TUNED_BY])
    return {"round": [int(t) for t in histories[0]["round"][scored]]} | {
        name: [round(float(v), 3) for v in np.mean([h[name][scored] for h in histories], axis=0)]
        for name in ACCURACIES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--write", type=Path, default=DATA, help="where the study is written")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--few", action="store_true", help="one regime and one period, as a test")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    study, began, found, count = STUDIES[asked.study], time.monotonic(), [], 0
    seeds = asked.seeds or study.seeds
    for number, (cell, asked_lanes) in enumerate(cells(asked)):
        folder = asked.out / asked.study / str(number)
        count += run_cell(asked_lanes, study, seeds, folder, asked.device)
        found.append({**cell, "rows": list(rows(folder, min(study.tuned_on, seeds)))})
        print(f"{cell}: {count} runs, {time.monotonic() - began:.0f} s", flush=True)
        write(asked, found, count, time.monotonic() - began)


def write(asked: argparse.Namespace, found: list[Any], count: int, seconds: float) -> None:
    """Write the finished cells, so that an interrupted study keeps them."""
    study = STUDIES[asked.study]
    about = {
        "command": " ".join(["python", *sys.argv]),
        "seconds": round(seconds, 1),
        "runs": count,
        "rounds": asked.rounds,
        "versions": versions(),
        "window": WINDOW,
        "tuned_by": TUNED_BY,
        "stepsizes": study.stepsizes,
        "tuned_on": min(study.tuned_on, asked.seeds or study.seeds),
    }
    asked.write.mkdir(parents=True, exist_ok=True)
    path = asked.write / f"{asked.study}.json"
    path.write_text(json.dumps({"about": about, "cells": found}) + "\n")
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
