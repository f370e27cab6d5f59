"""When runs first reach a score, in rounds, seconds, joules, messages and bytes.

Nothing is interpolated: a score is reached in the first evaluated round that is at or past it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skerry.analysis.cells import Cell, Cells
from skerry.analysis.compare import BestLabel, Comparison, find_best_label, reference_label
from skerry.analysis.run_table import RunTable
from skerry.analysis.statistics import Estimate, estimate
from skerry.clock.settings import AnyClock
from skerry.config.measures import COSTS, traits
from skerry.errors import RecordsError, SkerryError, argument
from skerry.records.parts import History

MAIN_COSTS = ("rounds", "seconds", "joules")


def with_clock(table: RunTable, clock: AnyClock) -> RunTable:
    """The table with seconds and joules in the histories of its finished runs."""
    priced = table.finished.priced(clock)
    left = {run.key for run in priced.runs}
    runs = tuple(run for run in table.runs if run.status != "finished" or run.key in left)
    known = {run.key: (priced if run.key in left else table).histories[run.key] for run in runs}
    return replace(table, runs=runs, histories=known, known_fields=table.fields)


def first_at(history: History, measure: str, target: float) -> int | None:
    """The row of the first evaluated round at or past a target; None if there is none. A measure
    of which less is better passes the target from above."""
    if measure not in history:
        return None
    values = np.asarray(history[measure], dtype=float)
    with np.errstate(invalid="ignore"):  # NaN where the measure was not evaluated
        there = values <= target if traits(measure).lower_is_better else values >= target
    return int(there.argmax()) if there.any() else None


def cost_at(history: History, cost: str, row: int) -> float:
    """The cost of a run up to a row of its history; NaN if it was not recorded."""
    if not _is_recorded(history, cost):
        return math.nan
    return float(sum(float(history[name][row]) for name in COSTS[cost]))


def _is_recorded(history: History, cost: str) -> bool:
    return all(name in history for name in COSTS[cost])


def common_target(table: RunTable, measure: str) -> float:
    """The score that every finished run reaches at some time, rounded to two digits to the easier
    side: the default target."""
    lower = traits(measure).lower_is_better
    best = []
    for run in table.finished.runs:
        values = np.asarray(table.histories[run.key].get(measure, ()), dtype=float)
        if len(values := values[np.isfinite(values)]):
            best.append(float(values.min() if lower else values.max()))
    if not best:
        raise RecordsError(f"no finished run in {table.place} measured {measure}.")
    value = max(best) if lower else min(best)
    if value == 0:
        return 0.0
    digits = 1 - math.floor(math.log10(abs(value)))
    steps = value * 10.0**digits
    whole = math.ceil(steps - 1e-9) if lower else math.floor(steps + 1e-9)
    return round(whole / 10.0**digits, 12)


def at_best(table: RunTable, field: str, measure: str | None = None) -> RunTable:
    """Only the runs of each label at its best value of a field, such as the stepsize, judged by the
    final value of a measure. The field no longer separates cells."""
    scores = table.read_measure(measure)
    name = scores.field(field)
    if name not in scores.fields:
        return table
    chosen = scores.tuned_values(name)
    axes = [axis for axis in scores.fields if axis != name]

    def is_chosen(key: str) -> bool:
        own, label = table.fields[key], table.label_of[key]
        values = tuple(own.get(axis) for axis in axes)
        cells = [values] if values in chosen else [one for one in chosen if _fits(values, one)]
        found = (chosen[cell][label] for cell in cells if label in chosen[cell])
        return any(one.value == own.get(name) for one in found)

    runs = tuple(run for run in table.runs if is_chosen(run.key))
    fields = {run.key: {**table.fields[run.key], name: None} for run in runs}
    return replace(table, runs=runs, known_fields=fields)


def _fits(values: Cell, cell: Cell) -> bool:
    """Whether a run that ignores some fields, such as one without a server, is in a cell."""
    return all(own in (None, wanted) for own, wanted in zip(values, cell, strict=True))


@dataclass(frozen=True)
class Reach:
    """When the runs of a table first reach a target, by cost, cell, label and seed."""

    target: float
    scores: Cells
    """The final values of the measure."""
    costs: Mapping[str, Cells]
    """By cost, what it took to reach the target; NaN for a run that never does."""

    @property
    def measure(self) -> str:
        return self.scores.measure

    def seeds(self, cell: Cell, label: str) -> int:
        """The number of seeds of a label, also of those that diverged."""
        return len(self._by_label(self.scores, cell)[label])

    def labels(self, cell: Cell) -> list[str]:
        """The labels that were run in a cell."""
        return [one for one in self.scores.labels if one in self._by_label(self.scores, cell)]

    def took(self, cost: str, cell: Cell, label: str) -> Estimate:
        """Mean and 95 % interval over the seeds that reach the target; its count may be 0."""
        return estimate(self._by_label(self.costs[cost], cell).get(label, {0: math.nan}).values())

    def comparisons(self, cost: str, against: str) -> dict[tuple[Cell, str], Comparison]:
        """Every other label against one, over the seeds in which both reach the target."""
        cells = self.costs[cost]
        return cells.comparisons(against) if against in cells.labels else {}

    def first(self, cost: str, cell: Cell) -> "First | None":
        """The first label at the target: of those that reach it in most seeds, the one that does
        so at the least cost on average. None if no label reaches it."""
        reached = {
            label: {seed: value for seed, value in by_seed.items() if math.isfinite(value)}
            for label, by_seed in self._by_label(self.costs[cost], cell).items()
        }
        most = max(map(len, reached.values()), default=0)
        if not most:
            return None
        top = {label: found for label, found in reached.items() if len(found) == most}
        common = set.intersection(*(set(found) for found in top.values()))
        if common:  # so that the means are of the same seeds
            top = {label: {s: found[s] for s in sorted(common)} for label, found in top.items()}
        means = {label: estimate(found.values()).mean for label, found in top.items()}
        least = min(means.values())
        level = tuple(label for label, mean in means.items() if math.isclose(mean, least))
        lead = None if len(level) > 1 else find_best_label(top, lower_is_better=True)
        return First(level, least, lead)

    @cached_property
    def is_at_start(self) -> bool:
        """Whether every run that reaches the target does so before the first round."""
        parts = (part for [part] in self.costs["rounds"].readings.values())
        found = [v for part in parts for by_seed in part.values() for v in by_seed.values()]
        return bool(found) and not np.nansum(found)

    @staticmethod
    def _by_label(cells: Cells, cell: Cell) -> Mapping[str, Mapping[int, float]]:
        return cells.readings.get(cell, [{}])[0]


@dataclass(frozen=True)
class First:
    """Who reaches a target first."""

    labels: tuple[str, ...]
    """One label, or several that are level."""
    mean: float
    lead: BestLabel | None
    """The paired comparison with the second; None if labels are level or nobody else is there."""

    @property
    def is_alone(self) -> bool:
        """Whether no other label reaches the target in as many seeds."""
        return self.lead is None and len(self.labels) == 1


def reach(table: RunTable, measure: str | None = None, target: float | None = None) -> Reach:
    """When the finished runs of a table first reach a target of a measure.

    Without a target, it is a score that every run reaches. Costs that were not recorded are left
    out: seconds and joules need `with_clock`. Diverged runs count as runs that never reach it.
    """
    measure = table.check_measure(measure)
    if target is not None and not math.isfinite(target):
        raise SkerryError(
            f"{argument('target')} must be a finite number (got {target:g}). Give a score such as "
            "88, or leave it out."
        )
    target = common_target(table, measure) if target is None else target
    finished = table.finished
    diverged = [run for run in table.runs if run.status == "diverged"]
    histories = [table.histories[run.key] for run in finished.runs]
    rows = [first_at(history, measure, target) for history in histories]
    costs: dict[str, Cells] = {}
    for cost in COSTS:
        if any(_is_recorded(history, cost) for history in histories):
            values = [
                math.nan if row is None else cost_at(history, cost, row)
                for history, row in zip(histories, rows, strict=True)
            ]
            costs[cost] = finished.arrange(cost, values, diverged=diverged)
    return Reach(target, table.read_measure(measure), costs)


def undominated(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The names of the points, each a cost and a score where more is better, that no other point
    beats on both, by rising cost."""
    best = [
        name
        for name, (cost, score) in points.items()
        if not any(
            (c <= cost and s >= score) and (c < cost or s > score) for c, s in points.values()
        )
    ]
    return sorted(best, key=lambda name: points[name][0])


DRAINS = ("joules_computing", "joules_talking")
"""The measures that tell what drains devices; the rest is their idle power."""


@dataclass(frozen=True)
class Priced:
    """Runs under one clock, with who is first at a target, and at what cost."""

    clock: str
    table: RunTable
    reach: Reach

    @property
    def cells(self) -> list[Cell]:
        return list(self.reach.scores.readings)

    @cached_property
    def costs(self) -> list[str]:
        """Rounds, seconds and, where the clock has any energy, joules."""
        finals = self.finals
        return [
            cost
            for cost in MAIN_COSTS
            if cost == "rounds" or any(one.mean > 0 for one in finals[cost].values())
        ]

    @cached_property
    def finals(self) -> dict[str, dict[tuple[Cell, str], Estimate]]:
        """Costs of whole runs, the share of time that devices wait, and the energy by use."""
        finished = self.table.finished
        done = finished.arrange("rounds", [run.rounds_done for run in finished.runs])
        names = ("seconds", "joules", "waiting", *DRAINS)
        read = {name: self.table.read_measure(name) for name in names if name in finished.measures}
        return {name: cells.estimates() for name, cells in {"rounds": done, **read}.items()}

    def drains(self, cell: Cell, label: str) -> dict[str, float] | None:
        """Percent of the energy of whole runs for computing, messages and idle power; None where
        the clock has no energy."""
        joules = self.finals["joules"][cell, label].mean
        if not joules > 0 or not all(name in self.finals for name in DRAINS):
            return None
        computing, talking = (100 * self.finals[n][cell, label].mean / joules for n in DRAINS)
        return {
            "computing": computing,
            "messages": talking,
            "idle": max(0.0, 100 - computing - talking),
        }

    @cached_property
    def scores(self) -> dict[tuple[Cell, str], Estimate]:
        return self.reach.scores.estimates()

    @cached_property
    def against(self) -> str:
        """The label that the others are compared with."""
        return reference_label(self.reach.scores.labels)

    @cached_property
    def differences(self) -> dict[str, dict[tuple[Cell, str], Comparison]]:
        """By cost, every other label against the reference at the target, paired by seed."""
        return {cost: self.reach.comparisons(cost, self.against) for cost in self.costs}

    @cached_property
    def first(self) -> dict[str, dict[Cell, First | None]]:
        """By cost and cell, who reaches the target first."""
        return {
            cost: {cell: self.reach.first(cost, cell) for cell in self.cells}
            for cost in self.reach.costs
        }

    def front(self, cost: str, cell: Cell) -> list[str]:
        """The labels that no other beats both in the final score and in a cost."""
        sign = -1 if self.reach.scores.lower_is_better else 1
        return undominated(
            {
                label: (self.finals[cost][cell, label].mean, sign * self.scores[cell, label].mean)
                for label in self.reach.labels(cell)
            }
        )

    def tested(self, cost: str, cell: Cell, lead: BestLabel) -> BestLabel:
        """A lead with the test of the table of differences, where that has the two labels: it is
        corrected for all cells."""
        pair = [lead.best, lead.second]
        if self.against not in pair:
            return lead
        other = next(label for label in pair if label != self.against)
        found = self.differences[cost].get((cell, other))
        if found is None:
            return lead
        gap = found.difference
        gap = gap if other == lead.best else replace(gap, mean=-gap.mean)
        if gap.mean > 0:  # over these seeds, fewer or more than those of the lead, it is none
            return lead
        is_clear = found.verdict(lower_is_better=True) in ("win", "loss")
        return replace(lead, gap=gap, p=found.t_holm, is_clear=is_clear, untested=found.untested)

    def is_clear(self, cost: str, cell: Cell) -> bool:
        """Whether one label is first, and significantly so."""
        found = self.first[cost][cell]
        return bool(found and found.lead and self.tested(cost, cell, found.lead).is_clear)

    @cached_property
    def turned(self) -> list[Cell]:
        """The cells in which the first label in seconds is not among the first in rounds."""
        rounds, seconds = self.first["rounds"], self.first["seconds"]
        return [
            cell
            for cell in self.cells
            if (a := rounds[cell]) and (b := seconds[cell]) and not {*a.labels} & {*b.labels}
        ]
