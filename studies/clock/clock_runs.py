"""The runs of the study, and when each first reaches an accuracy under any clock.

The stepsize of a seed is the one that is best on the other seeds. So no score is lucky because its
own seed chose the stepsize. The cost of a run that never arrives is NaN.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.run_table import RunTable
from skerry.analysis.statistics import best_place_elsewhere
from skerry.clock.settings import Clock, Ports
from skerry.config.experiment import Experiment
from skerry.records.store import Run

REGIMES = {
    "alike": ("iid", "iid"),
    "devices differ": ("iid", "dirichlet"),
    "islands differ": ("non_iid", "iid"),
    "both differ": ("non_iid", "dirichlet"),
}
"""For each regime, the data split across islands and the split within them."""
SERVERS = {
    "S2S": {"primitive": "s2s"},
    "S2A": {"primitive": "s2a"},
    "blend 0.5": {"primitive": "blend", "beta": 0.5},
    "S2A, as many of each island": {"primitive": "s2a", "selection": "one_each"},
}
TOPOLOGIES = ("ring", "complete")
PERIODS = (5, 20)
STEPSIZES = (0.0316, 0.1, 0.316)
SEEDS = 5
LINKS = ("uplink", "downlink", "d2d")
DATA = Path(__file__).parent / "data" / "runs.json"
Setting = dict[str, Any]
"""Regime, topology, period, server, stepsize and seed of a run."""


def settings(seeds: int) -> Iterator[Setting]:
    """All runs of the study; runs of one regime and seed share their world."""
    axes = {"topology": TOPOLOGIES, "period": PERIODS, "server": SERVERS, "stepsize": STEPSIZES}
    for regime, seed in product(REGIMES, range(seeds)):
        for values in product(*axes.values()):
            yield {"regime": regime, "seed": seed, **dict(zip(axes, values, strict=True))}


def experiment(setting: Setting, rounds: int = 100) -> Experiment:
    """The experiment of a run."""
    inter, intra = REGIMES[setting["regime"]]
    network = {"devices": 100, "components": 2, "topology": setting["topology"]}
    return Experiment.parse(
        {
            "name": "clocks",
            "seed": setting["seed"],
            "rounds": rounds,
            "network": network,
            "data": {"dataset": "mnist", "inter": inter, "intra": intra},
            "training": {"stepsize": setting["stepsize"]},
            "server": {"sampled": 20, "period": setting["period"], **SERVERS[setting["server"]]},
            "evaluate": {"measures": ["average", "communication"]},
        }
    )


TARGET = 88.0
CLOCKS = ("all links alike", "slow uplink", "cheap broadcast", "one in ten slow")
"""The clocks by name; each is a file of this folder."""
WIDE = "wide server"
"""All links alike, but the server's own link has no limit: a control."""
UNITS = ("seconds", "joules")
Values = NDArray[np.float64]
Cell = tuple[str, str, int]
"""Regime, topology and period."""


def clock_of(name: str) -> Clock:
    if name == WIDE:
        return clock_of(CLOCKS[0]).model_copy(update={"server": Ports()})
    return Clock.load(Path(__file__).parent / f"{name.replace(' ', '_')}.toml")


def cost_name(unit: str, clock: str) -> str:
    return f"{unit}, {clock}"


COSTS = ("rounds", *(cost_name(unit, clock) for unit in UNITS for clock in CLOCKS))


class ClockRuns:
    """The kept runs, with the cost at which each first reaches the target."""

    def __init__(self, path: Path = DATA) -> None:
        kept = json.loads(path.read_text(encoding="utf-8"))
        self.about: dict[str, Any] = kept["about"]
        self.rows: list[Mapping[str, Any]] = kept["runs"]
        self.seeds: int = self.about["seeds"]
        table = self.table()
        self.priced = {name: table.priced(clock_of(name)) for name in (*CLOCKS, WIDE)}
        self.costs = {"rounds": self._reached(table, "round")}
        for unit, name in product(UNITS, self.priced):
            self.costs[cost_name(unit, name)] = self._reached(self.priced[name], unit)

    @property
    def cells(self) -> list[Cell]:
        return [*product(REGIMES, TOPOLOGIES, PERIODS)]

    def table(self) -> RunTable:
        """The kept runs as a table, which can be priced as a store is; keys are their numbers."""
        runs, histories = [], {}
        for number, row in enumerate(self.rows):
            run = experiment(dict(row), self.about["rounds"])
            run = run.with_settings(*self.about["settings"])
            rounds, key = len(row["accuracy"]) - 1, str(number)
            runs.append(Run(key, "", row["status"], run, {}, "", "", {}, "", "", 0.0, rounds, ""))
            sent = {}
            for link, count, size in zip(LINKS, row["messages"], row["bytes"], strict=True):
                sent[f"{link}_messages"] = np.array([np.nan] * rounds + [float(count)])
                sent[f"{link}_bytes"] = size * sent[f"{link}_messages"]
            histories[key] = {"round": np.arange(rounds + 1.0), **sent}
        return RunTable(tuple(runs), histories)

    def _reached(self, table: RunTable, column: str) -> dict[tuple[Cell, str], Values]:
        """For each cell and server, the cost until the target by stepsize and seed; NaN: never."""
        found: dict[tuple[Cell, str], Values] = {}
        for number, row in enumerate(self.rows):
            cell = row["regime"], row["topology"], row["period"]
            nothing = np.full((len(STEPSIZES), self.seeds), np.nan)
            values = found.setdefault((cell, row["server"]), nothing)
            there = np.flatnonzero(np.array(row["accuracy"]) >= TARGET)
            if len(there):
                place = STEPSIZES.index(row["stepsize"]), row["seed"]
                values[place] = table.histories[str(number)][column][there[0]]
        return found

    def chosen(self, cell: Cell, server: str) -> list[int]:
        """For each seed, the place of the stepsize that is best on the other seeds, in rounds: so
        the same runs are compared in rounds, seconds and joules."""
        values = self.costs["rounds"][cell, server]
        places = best_place_elsewhere(values, np.ones_like(values), lower_is_better=True)
        found: list[int] = places.tolist()
        return found

    def tuned(self, cost: str, cell: Cell, server: str) -> Values:
        """The cost by seed, at the stepsize that is best on the other seeds; NaN: never."""
        values = self.costs[cost][cell, server]
        return np.asarray(values[self.chosen(cell, server), np.arange(self.seeds)])

    def first(self, cost: str, cell: Cell, servers: Sequence[str] = tuple(SERVERS)) -> str | None:
        """The server that reaches the target in most seeds, of those the one with the least mean
        over the seeds that they share; None if nobody reaches it."""
        by_server = {one: self.tuned(cost, cell, one) for one in servers}
        counts = {one: int(np.isfinite(values).sum()) for one, values in by_server.items()}
        most = max(counts.values())
        if not most:
            return None
        top = {one: by_server[one] for one in by_server if counts[one] == most}
        common = np.isfinite(list(top.values())).all(axis=0)
        if not common.any():
            common[:] = True
        # Means that differ by rounding alone are equal; then the first in the list is.
        return min(top, key=lambda one: round(float(np.nanmean(top[one][common])), 6))
