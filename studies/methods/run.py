"""Methods side by side: each method beside the controls that have its links and participation.

    python studies/methods/run.py mnist --device cuda --set training.precision=tf32 --out runs
    python studies/methods/run.py cifar10 --device cuda --out runs
    python studies/methods/run.py mnist --rounds 6 --seeds 3 --few --out t --write t   # a test

Runs are recorded under --out, and an interrupted study resumes there. The numbers that pages need
are written to --write (studies/methods/data) as JSON after every part. Methods share minibatches
and samples, so differences are paired by seed.

The stepsize of a method is tuned in each cell by the accuracy of the devices on all data, and never
on the seed that is scored: on MNIST, each seed is scored at the stepsize that is best on the other
seeds; on CIFAR-10, where runs are expensive, seed 0 chooses and the others are scored. Where a
chosen stepsize is the smallest or the largest one tried, the next one is tried too.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import skerry
from skerry.analysis.run_table import RunTable
from skerry.analysis.statistics import best_place_elsewhere
from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.files import replace_file
from skerry.records.store import versions
from skerry.runs.variants import expand

DATA = Path(__file__).parent / "data"
WINDOW = 20
"""A run is scored by the mean over its last rounds."""
TUNED_BY = "device_accuracy"
ACCURACIES = ("average_accuracy", "device_accuracy", "own_accuracy")
TRAFFIC = [
    f"{link}_{unit}" for link in ("uplink", "downlink", "d2d") for unit in ("messages", "bytes")
]
LADDER = (0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0, 3.16)
"""The stepsizes that may be tried; a study begins with some of them."""
REGIMES = {
    "alike": ("iid", "iid"),
    "devices differ": ("iid", "dirichlet"),
    "islands differ": ("non_iid", "iid"),
    "both differ": ("non_iid", "dirichlet"),
}
"""For each regime, the data split across islands and the split within them."""
RANDOM, ONE_EACH, ALL, NO_SERVER = SERVERS = (
    "20 at random",
    "one of each island",
    "all devices",
    "no server",
)
"""Whom the server samples. A method that samples all devices is run once, not once per rule."""
COMPLETE = ("network.topology=complete", "network.mixing=metropolis")
CONTROLS = {
    "s2a_complete": ("s2a", COMPLETE),  # S2A with the islands of HierFAVG and MTGC
    "s2s_lazy": ("s2s", ("network.mixing=lazy",)),  # S2S with the links of carry
    "s2s_even": ("s2s", ("server.selection=one_each",)),  # S2S with the samples of SD-GT
}
"""Controls that are not presets: a primitive with settings of its own."""
MEASURES = ["average", "devices", "consensus", "communication"]

Part = tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]
"""Regimes, and the methods that run in them for each kind of server."""
History = Mapping[str, Any]


@dataclass(frozen=True)
class MethodStudy:
    """Settings of the study on one data set."""

    tables: dict[str, Any]
    parts: tuple[Part, ...]
    """The parts of the study in the order in which they are run."""
    stepsizes: tuple[float, ...]
    limits: tuple[float, float]
    """The smallest and the largest stepsize to which the grid may be extended."""
    seeds: int
    tuned_on_first: bool
    """Whether the first seed chooses stepsizes and is not scored. Otherwise each seed is scored
    with the stepsize that is best on the other seeds, and all runs are made for all seeds."""
    periods: tuple[int, ...] = (20, 5)


MAIN: Mapping[str, tuple[str, ...]] = {RANDOM: ("s2a",), ALL: ("hier_favg", "mtgc")}
BESIDE: Mapping[str, tuple[str, ...]] = {RANDOM: ("s2s", "gradient_tracking"), ALL: ("s2a",)}
WITHOUT: Part = (tuple(REGIMES), {NO_SERVER: ("none",)})
ON_RINGS = ("s2s", "s2a", "s2a_complete", "s2s_lazy", "gradient_tracking", "carry", "sd_gt")
STUDIES = {
    "mnist": MethodStudy(
        {"data": {"dataset": "mnist"}, "evaluate": {"devices_every": 3, "measures": MEASURES}},
        (
            (
                tuple(REGIMES),
                {
                    RANDOM: (
                        *ON_RINGS,
                        *("s2s_even", "gradient_tracking_s2s"),
                        *("fedavg", "scaffold", "fedvarp", "mifa", "fedprox"),
                    ),
                    ONE_EACH: (*ON_RINGS, "fedavg", "scaffold"),
                    ALL: ("s2a", "hier_favg", "mtgc", "gradient_tracking", "fedavg", "scaffold"),
                },
            ),
            WITHOUT,
        ),
        stepsizes=(0.01, 0.0316, 0.1, 0.316),
        limits=(0.001, 3.16),
        seeds=5,
        tuned_on_first=False,
    ),
    # A run costs a hundred times as much as on MNIST: the most needed parts come first.
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
        (
            (("devices differ", "islands differ"), MAIN),
            (("devices differ", "islands differ"), BESIDE),
            (("both differ", "alike"), MAIN),
            (("both differ", "alike"), BESIDE),
            WITHOUT,
        ),
        stepsizes=(0.0316, 0.1),
        limits=(0.01, 0.316),
        seeds=5,
        tuned_on_first=True,
    ),
}


# Lanes


def base_experiment(
    study: MethodStudy, regime: str, period: int, rounds: int, settings: Sequence[str] = ()
) -> Experiment:
    """The experiment that all methods of a regime and a period share."""
    inter, intra = REGIMES[regime]
    return Experiment.parse(
        {"name": "methods side by side", "rounds": rounds, **study.tables},
        [
            f"data.inter={inter}",
            f"data.intra={intra}",
            "server.selection=uniform",
            "server.sampled=20",
            f"server.period={period}",
            f"server.offset={period - 1}",  # all meet the server in the same rounds
            *settings,
        ],
    )


def lane(base: Experiment, server: str, method: str) -> Experiment:
    """The experiment of one method, whose server samples as asked unless the method is defined by
    its own way of sampling (SD-GT takes as many devices of every island)."""
    sampling = {
        ONE_EACH: ("one_each", len(base.network.sizes)),
        ALL: ("uniform", base.network.devices),
    }.get(server, ("uniform", base.server.sampled))
    sample = [f"server.selection={sampling[0]}", f"server.sampled={sampling[1]}"]
    base = base.with_settings(*sample)
    if method in CONTROLS:
        primitive, settings = CONTROLS[method]
        return expand(base, [primitive])[0].with_settings(*settings, f"server.name={method}")
    if method in ("s2s", "s2a", "none"):
        return expand(base, [method])[0]
    found = with_preset(base, method)
    return found if method == "sd_gt" else found.with_settings(*sample)


def links_of(experiment: Experiment) -> str:
    """The links of an experiment, in words: `ring`, `ring, lazy`, `complete` or `none`."""
    network = experiment.network
    if not network.gossip_steps:
        return "none"
    return network.topology + (", lazy" if network.mixing == "lazy" else "")


# Scores


def score(history: History, name: str, period: int) -> float:
    """The mean of a measure over the last WINDOW rounds; NaN for a diverged run.

    Devices are not scored in every round. Server rounds, after which devices agree for a moment,
    count by their share of all rounds, 1 / period, and not by how many of them were scored."""
    if not history:
        return float("nan")
    rounds, values = np.asarray(history["round"]), np.asarray(history[name])
    scored = (rounds > rounds[-1] - WINDOW) & np.isfinite(values)
    met = scored & (rounds % period == 0)
    between = scored & ~met
    if not met.any() or not between.any():
        return float(values[scored].mean())
    return float(values[met].mean() / period + values[between].mean() * (1 - 1 / period))


def further_stepsizes(
    stepsizes: Sequence[float], score_vs: ArrayLike, limits: tuple[float, float]
) -> list[float]:
    """The stepsizes to try next: neighbours of the smallest and the largest one tried, where they
    are chosen for any seed and the limits allow it. All given runs were made; NaN is diverged."""
    chosen = set(chosen_places(score_vs))
    low, high = (LADDER.index(stepsizes[place]) for place in (0, -1))
    found = []
    if 0 in chosen and low > LADDER.index(limits[0]):
        found.append(LADDER[low - 1])
    if len(stepsizes) - 1 in chosen and high < LADDER.index(limits[1]):
        found.append(LADDER[high + 1])
    return found


def chosen_places(score_vs: ArrayLike) -> list[int]:
    """For each seed, the place of the stepsize that is best on the other seeds (of a single seed:
    on itself). All given runs were made; NaN is diverged."""
    scores = np.asarray(score_vs, dtype=float)
    places: list[int] = best_place_elsewhere(scores, np.ones_like(scores)).tolist()
    return places


def curve(histories: Sequence[History]) -> dict[str, list[float]]:
    """Mean curves over seeds, at the rounds in which devices were scored."""
    if not histories:
        return {}
    scored = ~np.isnan(histories[0][TUNED_BY])
    return {"round": [int(t) for t in histories[0]["round"][scored]]} | {
        name: [round(float(v), 2) for v in np.mean([h[name][scored] for h in histories], axis=0)]
        for name in ACCURACIES
    }


# Running


class Cohort:
    """The lanes that are run and tuned together: those of a regime and a period in one part."""

    def __init__(
        self, lanes: Mapping[tuple[str, str], Experiment], study: MethodStudy, seeds: int
    ) -> None:
        self.lanes, self.study = lanes, study
        """Experiments by kind of server and method."""
        self.tuning = range(1) if study.tuned_on_first else range(seeds)
        self.scored = range(1, seeds) if study.tuned_on_first else range(seeds)
        self.histories: dict[tuple[str, str], dict[float, dict[int, History]]]
        """By lane, stepsize and seed: all runs that were made; empty for a diverged run."""
        self.histories = {name: {} for name in lanes}

    @property
    def runs(self) -> int:
        return sum(len(by_seed) for steps in self.histories.values() for by_seed in steps.values())

    def run(self, folder: Path, device: str) -> None:
        """Tune every lane, extend its stepsizes, and run the seeds that are only scored."""
        wanted = {name: list(self.study.stepsizes) for name in self.lanes}
        while any(wanted.values()):
            self._run_lanes(wanted, self.tuning, folder, device)
            wanted = {
                name: further_stepsizes(*self.tuning_scores(name), self.study.limits)
                for name in self.lanes
            }
        if self.study.tuned_on_first:
            best = {name: [self.chosen(name)[0]] for name in self.lanes}
            self._run_lanes(best, self.scored, folder, device)

    def _run_lanes(
        self,
        stepsizes: Mapping[tuple[str, str], Sequence[float]],
        seeds: Sequence[int],
        folder: Path,
        device: str,
    ) -> None:
        asked = {
            (name, eta, seed): each.with_settings(f"training.stepsize={eta}").replace(seed=seed)
            for name, each in self.lanes.items()
            for eta in stepsizes[name]
            for seed in seeds
        }
        skerry.run([*asked.values()], out=folder, device=device, keep_going=True)
        recorded = RunTable.read(folder)
        by_key = {run.key: run for run in recorded.runs}
        for (name, eta, seed), experiment in asked.items():
            run = by_key[experiment.key()]
            if run.status not in ("finished", "diverged"):
                raise SystemExit(f"{name} at {eta:g}, seed {seed}: {run.status}. {run.note}")
            history = recorded.histories[run.key] if run.status == "finished" else {}
            self.histories[name].setdefault(eta, {})[seed] = history

    def tuning_scores(self, name: tuple[str, str]) -> tuple[list[float], list[list[float]]]:
        """The stepsizes of a lane in order, and their scores on the seeds that choose."""
        found, period = self.histories[name], self.lanes[name].server.period
        steps = sorted(found)
        return steps, [
            [score(found[s][seed], TUNED_BY, period) for seed in self.tuning] for s in steps
        ]

    def chosen(self, name: tuple[str, str]) -> list[float]:
        """The stepsize of each scored seed."""
        steps, scores = self.tuning_scores(name)
        places = chosen_places(scores)
        return [steps[places[0 if self.study.tuned_on_first else seed]] for seed in self.scored]

    def row(self, name: tuple[str, str]) -> dict[str, Any]:
        """What is kept of a lane: all scores, and more at the chosen stepsizes."""
        found, each = self.histories[name], self.lanes[name]
        steps, chosen = sorted(found), self.chosen(name)
        seeds = range(max(self.scored) + 1)
        scores = {
            measure: [
                [
                    rounded(score(found[s].get(seed, {}), measure, each.server.period))
                    for seed in seeds
                ]
                for s in steps
            ]
            for measure in ACCURACIES
        }
        at_chosen = [found[eta][seed] for eta, seed in zip(chosen, self.scored, strict=True)]
        ended = [history for history in at_chosen if history]
        return (
            {"method": name[1], "primitive": each.server.primitive, "links": links_of(each)}
            | {"selection": each.server.selection, "sampled": each.server.sampled}
            | {"stepsizes": steps, "scores": scores}
            | {"diverged": [[s, seed] for s in steps for seed, h in found[s].items() if not h]}
            | {"chosen": chosen}
            | {
                measure: [
                    scores[measure][steps.index(eta)][seed]
                    for eta, seed in zip(chosen, self.scored, strict=True)
                ]
                for measure in ACCURACIES
            }
            | {unit: int(ended[0][unit][-1]) if ended else None for unit in TRAFFIC}
            | {"curve": curve(ended)}
        )


def rounded(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def cohorts(asked: argparse.Namespace, study: MethodStudy) -> Iterator[tuple[str, int, Cohort]]:
    """The regime, period and lanes of each part. Runs without a server have no period: they are
    made once for each regime."""
    for regimes, methods in study.parts:
        periods = study.periods if NO_SERVER not in methods else study.periods[:1]
        chosen = ("devices differ",) if asked.few else regimes
        for regime, period in product(chosen, periods[:1] if asked.few else periods):
            if regime not in regimes:
                continue
            base = base_experiment(study, regime, period, asked.rounds, asked.settings)
            lanes = {
                (server, method): lane(base, server, method)
                for server, names in methods.items()
                for method in names
            }
            yield regime, period, Cohort(lanes, study, asked.seeds or study.seeds)


# Writing


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
    study, began, count = STUDIES[asked.study], time.monotonic(), 0
    clock = asked.out / asked.study / "seconds.json"  # of earlier, interrupted calls too
    earlier = json.loads(clock.read_text()) if clock.exists() else 0.0
    cells: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
    for regime, period, cohort in cohorts(asked, study):
        folder = asked.out / asked.study / f"{regime} {period}".replace(" ", "-")
        cohort.run(folder, asked.device)
        count += cohort.runs
        for server, method in cohort.lanes:
            of = None if server == NO_SERVER else period
            cells.setdefault((regime, server, of), []).append(cohort.row((server, method)))
        seconds = earlier + time.monotonic() - began
        clock.write_text(json.dumps(seconds))
        print(f"{regime}, H = {period}: {count} runs, {seconds:.0f} s", flush=True)
        write(asked, cells, about(asked, study, cohort, count, seconds))


def about(
    asked: argparse.Namespace, study: MethodStudy, cohort: Cohort, count: int, seconds: float
) -> dict[str, Any]:
    return {
        "command": " ".join(["python", *sys.argv]),
        "seconds": round(seconds, 1),
        "runs": count,
        "rounds": asked.rounds,
        "versions": versions(),
        "window": WINDOW,
        "tuned_by": TUNED_BY,
        "tuned_on": "seed 0" if study.tuned_on_first else "the other seeds",
        "scored_seeds": list(cohort.scored),
        "stepsizes": study.stepsizes,
        "limits": study.limits,
    }


def write(
    asked: argparse.Namespace,
    cells: Mapping[tuple[str, str, int | None], list[dict[str, Any]]],
    about: Mapping[str, Any],
) -> None:
    """Write what is finished, so that an interrupted study keeps it."""

    def order(key: tuple[str, str, int | None]) -> tuple[int, int, int]:
        return [*REGIMES].index(key[0]), SERVERS.index(key[1]), key[2] or 0

    found = [
        {"regime": key[0], "server": key[1], "period": key[2], "rows": cells[key]}
        for key in sorted(cells, key=order)
    ]
    asked.write.mkdir(parents=True, exist_ok=True)
    path = asked.write / f"{asked.study}.json"
    replace_file(
        path, json.dumps({"about": about, "cells": found}, separators=(",", ":")).encode() + b"\n"
    )
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
