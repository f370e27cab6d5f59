"""Whom to sample: S2S, blend, S2A and no server under several selection rules.

    python studies/selection/run.py mnist --device cuda --out runs
    python studies/selection/run.py labels --device cuda --out runs
    python studies/selection/run.py long --device cuda --out runs
    python studies/selection/run.py sleep --device cuda --out runs
    python studies/selection/run.py mnist --rounds 4 --seeds 2 --out t --write t   # a test

Runs are recorded in --out, where an interrupted study resumes: finished runs are not computed
again, and `labels` takes from there what `mnist` has computed already. The numbers that the page
needs are written to --write (studies/selection/data) as JSON after every part, with the command and
the versions: every seed at every stepsize, so that stepsizes can be tuned by any measure. Where the
best stepsize of a lane is at the edge of its stepsizes, the next one is run too. The script page.py
writes docs/selection/ from these files.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import skerry
from skerry.analysis.results import Lane as Run
from skerry.analysis.run_table import final_value
from skerry.analysis.statistics import best_place, best_place_elsewhere
from skerry.config.experiment import Experiment
from skerry.records.store import versions

DATA = Path(__file__).parent / "data"
WINDOW = 20
"""A run is scored by the mean over its last rounds."""
LAST_STRETCH = 100
"""The same for the long runs, which are evaluated more rarely."""
GRID = (0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0)
"""All stepsizes; a lane runs its first ones, and then those beside its best one."""
ACCURACIES = ("average_accuracy", "device_accuracy", "own_accuracy")
MEASURES = ["average", "devices", "consensus", "communication"]
FLEETS: dict[str, tuple[int, ...]] = {
    "2 islands": (50, 50),
    "4 islands": (25,) * 4,
    "10 islands": (10,) * 10,
    "70 and 30": (70, 30),
    "40, 30, 20, 10": (40, 30, 20, 10),
}
REGIMES = {
    "islands differ": ("non_iid", "iid"),
    "both differ": ("non_iid", "dirichlet"),
    "devices differ": ("iid", "dirichlet"),
    "alike": ("iid", "iid"),
}
"""For each regime, the data split across islands and the split within them."""
SERVERS = ("s2s", "blend(0.5)", "s2a")
PERIODS = (5, 20)
WRONG = (0.1, 0.3, 0.5)
"""Shares of devices whose island the server has wrong."""


@dataclass(frozen=True)
class Lane:
    """What the server does: one row of the data. Without a server, all but the topology is None."""

    primitive: str = "none"
    selection: str | None = None
    sampled: int | None = None
    period: int | None = None
    wrong: float | None = None
    topology: str = "ring"

    def fields(self) -> dict[str, Any]:
        """The fields of the row; `wrong` where a server goes by labels of islands."""
        return {name: value for name, value in vars(self).items() if name != "wrong" or value}

    def of(self, base: Experiment) -> Experiment:
        """The experiment of this lane."""
        server: dict[str, Any] = {"primitive": self.primitive.partition("(")[0]}
        if self.selection is not None:
            server |= {"sampled": self.sampled, "period": self.period, "selection": self.selection}
        if self.wrong is not None:
            server |= {"selection": f"{self.selection}:{self.selection}", "wrong": self.wrong}
        return base.replace(server=server, network={"topology": self.topology})


@dataclass(frozen=True)
class Part:
    """Lanes on the same data, which are computed and written together."""

    fleet: str
    regime: str
    lanes: tuple[Lane, ...]

    def base(self, table: Mapping[str, Any], settings: Sequence[str]) -> Experiment:
        inter, intra = REGIMES[self.regime]
        sizes = FLEETS[self.fleet]
        return Experiment.parse(
            {
                **table,
                "network": {"devices": sum(sizes), "components": list(sizes)},
                "data": {**table["data"], "inter": inter, "intra": intra},
            },
            settings,
        )

    def folder(self, out: Path) -> Path:
        return out / f"{self.fleet} {self.regime}".replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Study:
    """The parts of a study, the stepsizes that every lane runs, and the measures that tune them."""

    parts: tuple[Part, ...]
    table: Mapping[str, Any]
    seeds: int
    stepsizes: tuple[float, ...]
    tuned_by: tuple[str, ...] = ()
    """Where the choice by one of these is at the edge, the next stepsize is run; none: nowhere."""
    store: str = "mnist"
    """Folder of the runs: studies with the same one share their runs."""


def servers(
    rules: Iterable[tuple[str, int]],
    periods: Iterable[int] = PERIODS,
    primitives: Iterable[str] = SERVERS,
    topology: str = "ring",
    wrong: float | None = None,
) -> Iterator[Lane]:
    """A lane for each period, rule with its K, and primitive."""
    for H, (rule, K), primitive in product(periods, rules, primitives):
        yield Lane(primitive, rule, K, H, wrong, topology)


def rules(islands: int, many: Sequence[int]) -> list[tuple[str, int]]:
    """Uniform sampling and the rule that samples from every island, at the same K."""
    few = [("uniform", islands), ("one_each", islands)]
    return few + [(rule, K) for K in many if islands < K for rule in ("uniform", "per_component")]


def mnist_parts() -> Iterator[Part]:
    """Two islands in all regimes, and the other fleets where islands differ."""
    for fleet, sizes in FLEETS.items():
        for regime in REGIMES if fleet == "2 islands" else ("islands differ",):
            many = (10, 20) if regime == "islands differ" else (20,)
            lanes = [Lane(), *servers(rules(len(sizes), many))]
            if (fleet, regime) == ("2 islands", "islands differ"):
                lanes.append(Lane(topology="complete"))
                lanes += servers(rules(2, (20,)), periods=(5,), topology="complete")
            yield Part(fleet, regime, tuple(lanes))


def label_parts() -> Iterator[Part]:
    """Islands known from labels that are right, or wrong for a share of the devices."""
    for regime in ("islands differ", "both differ"):
        lanes = [Lane()]
        primitives = ("s2s", "s2a")
        for K in (2, 20):
            known = (("uniform", K), ("one_each", K))
            lanes += servers(known, primitives=primitives)
            for wrong in WRONG:
                believed = (("believed_islands", K),)
                lanes += servers(believed, primitives=primitives, wrong=wrong)
        yield Part("2 islands", regime, tuple(lanes))


LONG = (
    Lane("s2s", "uniform", 20, 20),
    Lane("s2a", "uniform", 20, 20),
    Lane("s2s", "per_component", 20, 20),
    Lane("s2a", "per_component", 20, 20),
    Lane("s2a", "one_each", 2, 20),
    Lane(),
)
MNIST = {
    "name": "whom to sample",
    "rounds": 100,
    "data": {"dataset": "mnist"},
    "evaluate": {"measures": MEASURES},
}
CIFAR10 = {
    **MNIST,
    "data": {"dataset": "cifar10"},
    "model": {"name": "cnn_cifar10"},
    "training": {"precision": "bf16"},
    "evaluate": {"every": 5, "device_samples": 1000, "measures": MEASURES},
}
STUDIES = {
    "mnist": Study(tuple(mnist_parts()), MNIST, 5, GRID[2:5], ACCURACIES),
    "labels": Study(tuple(label_parts()), MNIST, 5, GRID[2:4], ("average_accuracy",)),
    # Nine has no common divisor with H = 20, so scores cover every phase between server rounds.
    # Scoring costs less than a tenth of training.
    "long": Study(
        (Part("2 islands", "islands differ", LONG),),
        {
            **CIFAR10,
            "rounds": 1000,
            "evaluate": {
                "every": 9,
                "devices_every": 45,
                "device_samples": 1000,
                "measures": MEASURES,
            },
        },
        5,
        (0.1,),
        store="long",
    ),
}

Scores = dict[tuple[float, int], dict[str, float | None]]
"""The scores of a lane by stepsize and seed."""


def compute(runs: Sequence[Experiment], folder: Path, device: str) -> Sequence[Run]:
    """The runs, in this order. Checkpoints would cost more than the few seconds of a stack."""
    return skerry.run(
        runs, out=folder, device=device, keep_going=True, checkpoint_seconds=math.inf
    ).lanes


def run_part(study: Study, part: Part, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a part, each with all stepsizes up to one beyond the best."""
    base = part.base(study_table(study, asked), asked.settings)
    folder = part.folder(asked.out / study.store)
    found: list[Scores] = [{} for _ in part.lanes]
    messages: list[dict[str, int]] = [{} for _ in part.lanes]
    missing = {number: list(study.stepsizes) for number in range(len(part.lanes))}
    while missing:
        plan = [
            (number, eta, seed)
            for number, etas in missing.items()
            for eta in etas
            for seed in range(asked.seeds)
        ]
        lanes = [lane.of(base) for lane in part.lanes]
        runs = [
            lanes[number].replace(seed=seed, training={"stepsize": eta})
            for number, eta, seed in plan
        ]
        for (number, eta, seed), run in zip(plan, compute(runs, folder, asked.device), strict=True):
            found[number][eta, seed] = scores(run, part.lanes[number])
            messages[number] = count_messages(run) or messages[number]
        missing = {
            number: further
            for number in missing
            if (further := further_stepsizes(found[number], asked.seeds, study.tuned_by))
        }
    return [
        {"fleet": part.fleet, "regime": part.regime}
        | lane.fields()
        | messages[number]
        | columns(found[number], asked.seeds)
        for number, lane in enumerate(part.lanes)
    ]


def study_table(study: Study, asked: argparse.Namespace) -> dict[str, Any]:
    """The experiment that all parts share, with the number of rounds that is asked for."""
    table = dict(study.table)
    table["rounds"] = asked.rounds or table["rounds"]
    if "after" not in table["evaluate"] and table["rounds"] <= 100:
        after = max(0, table["rounds"] - WINDOW)
        table["evaluate"] = {**table["evaluate"], "after": after}
    return table


def scores(run: Run, lane: Lane) -> dict[str, float | None]:
    """The means over the last rounds; for S2A also what its server rounds did to the average."""
    if run.status != "finished":
        return {}
    rounds = run.experiment.rounds
    found: dict[str, float | None] = {
        name: round(final_value(run.history, name, rounds, WINDOW), 3) for name in ACCURACIES
    }
    found["disagreement"] = digits(final_value(run.history, "disagreement", rounds, WINDOW))
    if lane.primitive == "s2a":
        # Devices start alike: in the first server round there is nothing to average.
        before, between = (
            run.history[f"{name}_before"] for name in ("disagreement", "disagreement_inter")
        )
        acted = np.flatnonzero(before > 0)
        if len(acted):
            found["bias_ratio"] = digits(np.mean(run.history["bias_ratio"][acted]))
            found["inter_share"] = digits(np.mean(between[acted] / before[acted]))
    return found


def digits(value: float | np.floating[Any]) -> float:
    return float(f"{value:.4g}")


def count_messages(run: Run) -> dict[str, int]:
    """Messages to and from the server in a whole run."""
    if run.status != "finished":
        return {}
    return {name: int(run.final[name]) for name in ("uplink_messages", "downlink_messages")}


def further_stepsizes(found: Scores, seeds: int, measures: Iterable[str]) -> list[float]:
    """The stepsizes beside those that ran, where a measure's best one is the first or the last."""
    etas = sorted({eta for eta, _ in found})
    wanted: set[float] = set()
    for measure in measures:
        table = score_table(found, measure, etas, seeds)
        chosen = {int(best_place(table)), *best_place_elsewhere(table).tolist()}
        first, last = GRID.index(etas[0]), GRID.index(etas[-1])
        if 0 in chosen and first > 0:
            wanted.add(GRID[first - 1])
        if len(etas) - 1 in chosen and last + 1 < len(GRID):
            wanted.add(GRID[last + 1])
    return sorted(wanted)


def score_table(
    found: Scores, measure: str, etas: Sequence[float], seeds: int
) -> NDArray[np.float64]:
    """A measure by stepsize and seed; NaN where a run diverged."""
    return np.array(
        [[found[eta, seed].get(measure, math.nan) for seed in range(seeds)] for eta in etas],
        dtype=float,
    )


def columns(found: Scores, seeds: int) -> dict[str, Any]:
    """The stepsizes, and every measure as a list over stepsizes of lists over seeds."""
    etas = sorted({eta for eta, _ in found})
    names = dict.fromkeys(name for one in found.values() for name in one)
    return {"stepsizes": etas} | {
        name: [[found[eta, seed].get(name) for seed in range(seeds)] for eta in etas]
        for name in names
    }


# The long runs


def run_long(asked: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """The rows after each seed: curves by seed, and the scores over the last stretch."""
    study = STUDIES["long"]
    (part,) = study.parts
    base = part.base(study_table(study, asked), asked.settings)
    base = base.replace(training={"stepsize": study.stepsizes[0]})
    rows = [
        {"fleet": part.fleet, "regime": part.regime}
        | lane.fields()
        | {"stepsize": 0.1, "seeds": []}
        for lane in part.lanes
    ]
    for seed in range(asked.seeds):
        runs = [lane.of(base).replace(seed=seed) for lane in part.lanes]
        for row, run in zip(
            rows, compute(runs, asked.out / study.store, asked.device), strict=True
        ):
            row |= count_messages(run) | {"stepsize": run.experiment.training.stepsize}
            if run.status == "finished":
                row["seeds"].append(seed)
                add_curves(row, run)
        yield rows


def add_curves(row: dict[str, Any], run: Run) -> None:
    """Add the curves of a seed: of the average model, and of devices, which are scored rarely."""
    history, rounds = run.history, run.experiment.rounds
    for name, at in (
        ("average_accuracy", "round"),
        ("device_accuracy", "device_round"),
        ("own_accuracy", "device_round"),
    ):
        scored = np.isfinite(history[name])
        row[at] = [int(t) for t in history["round"][scored]]
        row.setdefault(name, []).append([round(float(v), 2) for v in history[name][scored]])
        score = final_value(history, name, rounds, LAST_STRETCH)
        row.setdefault("score", {}).setdefault(name, []).append(round(score, 3))


# Sleeping devices

SLEEPERS: dict[str, dict[str, Any]] = {
    "all awake": {},
    "one in five asleep, at random": {"awake": 0.8},
    "one in five asleep, in bursts": {"on": 16, "off": 4},
    "whole islands at night": {"on": 16, "off": 4, "together": "islands"},
}


def run_sleep(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Mean curves by availability and primitive, after each availability."""
    found: dict[str, Any] = {}
    for name, availability in SLEEPERS.items():
        table = {
            **MNIST,
            "rounds": asked.rounds or MNIST["rounds"],
            "network": {"devices": 100},
            "evaluate": {
                "measures": ["average", "devices", "consensus", "participation"],
                "devices_every": 5,
            },
            "availability": availability,
        }
        base = Experiment.parse(table, asked.settings)
        lanes = [Lane(), *servers((("uniform", 20),), periods=(5,))]
        runs = [lane.of(base).replace(seed=seed) for lane in lanes for seed in range(asked.seeds)]
        done = compute(runs, asked.out / "sleep", asked.device)
        by_lane = np.array_split(np.arange(len(runs)), len(lanes))
        found[name] = [
            mean_curves(lane.primitive, [done[i].history for i in places])
            for lane, places in zip(lanes, by_lane, strict=True)
        ]
        yield found


def mean_curves(primitive: str, histories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean curves over the seeds, and the final accuracies of each seed."""
    names = (*ACCURACIES, "disagreement", "bias", "awake_devices")
    return (
        {"primitive": primitive, "round": histories[0]["round"].tolist()}
        | {
            name: [
                None if np.isnan(v) else float(f"{v:.5g}")
                for v in np.mean([h[name] for h in histories], axis=0)
            ]
            for name in names
            if name in histories[0]
        }
        | {
            "final": {
                name: [round(float(h[name][-1]), 4) for h in histories] for name in ACCURACIES
            }
        }
    )


def results(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What is known of a study, after each of its parts."""
    if asked.study == "sleep":
        yield from ({"studies": found} for found in run_sleep(asked))
    elif asked.study == "long":
        yield from ({"rows": rows} for rows in run_long(asked))
    else:
        study, rows = STUDIES[asked.study], list[dict[str, Any]]()
        for part in study.parts:
            rows += run_part(study, part, asked)
            yield {"rows": rows}


def count_runs(found: Mapping[str, Any], seeds: int) -> int:
    """The number of runs behind the rows."""
    if "studies" in found:
        return sum(map(len, found["studies"].values())) * seeds
    return sum(len(row["seeds"]) if "seeds" in row else len(row["stepsizes"]) * seeds
               for row in found["rows"])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", choices=(*STUDIES, "sleep"))
    parser.add_argument("--out", type=Path, required=True, help="where runs are recorded")
    parser.add_argument("--write", type=Path, default=DATA, help="where the study is written")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    study = STUDIES.get(asked.study)
    asked.seeds = asked.seeds or (study.seeds if study else 5)
    began = time.monotonic()
    asked.write.mkdir(parents=True, exist_ok=True)
    path = asked.write / f"{asked.study}.json"
    for found in results(asked):
        about = {
            "command": " ".join(["python", *sys.argv]),
            "seconds": round(time.monotonic() - began, 1),
            "runs": count_runs(found, asked.seeds),
            "seeds": asked.seeds,
            "versions": versions(),
            "window": LAST_STRETCH if asked.study == "long" else WINDOW,
        }
        text = json.dumps({"about": about, **found}, separators=(",", ":"))
        path.write_text(text.replace('{"fleet"', '\n{"fleet"') + "\n")
        print(f"{path}: {about['runs']} runs, {about['seconds']:.0f} s, {len(text) / 1e3:.0f} kB",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
