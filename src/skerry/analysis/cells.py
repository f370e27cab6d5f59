"""Cells: all that varies between runs but the seed and the primitive, and what was read there."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skerry.analysis.compare import Comparison, compare
from skerry.analysis.names import Where, check_met, full_name, is_one_of
from skerry.analysis.statistics import Array, Estimate, best_place, estimates
from skerry.config import labels
from skerry.config.measures import traits

Cell = tuple[Any, ...]
"""The values of the fields that make a cell."""
Readings = dict[str, dict[int, float]]
"""What was read in one cell, by label and by seed; NaN where a run diverged."""


@dataclass(frozen=True)
class Choice:
    """A value of a tuned field, and what was read with it."""

    value: Any
    by_seed: dict[int, float]

    @property
    def has_value(self) -> bool:
        return any(map(math.isfinite, self.by_seed.values()))

    @property
    def mean(self) -> float:
        """Over the seeds that came to a value."""
        return float(np.nanmean(list(self.by_seed.values())))


@dataclass(frozen=True)
class Cells:
    """Values of one measure by cell, label and seed. A cell may stand for several finer ones;
    it is then their average, seed by seed."""

    measure: str
    last: int | None
    """The mean over that many rounds; None: the final value."""
    fields: tuple[str, ...]
    readings: dict[Cell, list[Readings]]
    constants: Mapping[str, Any]
    """The fields that are the same in all runs."""
    statuses: Counter[str]
    """How many runs are finished, diverged, running or failed."""
    unmeasured: int = 0
    """How many of the finished ones have no value of this measure."""

    @cached_property
    def labels(self) -> list[str]:
        parts = (part for parts in self.readings.values() for part in parts)
        return list(dict.fromkeys(name for part in parts for name in part if has_value(part, name)))

    @property
    def lower_is_better(self) -> bool:
        return traits(self.measure).lower_is_better

    def by(self, fields: Sequence[str]) -> "Cells":
        """Coarser cells: only these fields tell cells apart, the others are averaged over."""
        chosen = [self.field(name) for name in fields]
        coarser: dict[Cell, list[Readings]] = {}
        for cell, parts in self.readings.items():
            values = dict(self.constants) | dict(zip(self.fields, cell, strict=True))
            coarser.setdefault(tuple(values[name] for name in chosen), []).extend(parts)
        readings = {cell: coarser[cell] for cell in sorted(coarser, key=rank_of_cell)}
        return replace(self, fields=tuple(chosen), readings=readings)

    def where(self, conditions: Where) -> "Cells":
        """Only the cells in which fields have one of these values, as typed."""
        cells = self
        for name, texts in conditions.items():
            field = cells.field(name)
            if field in cells.constants:
                check_met("the store", name, texts, [cells.constants[field]])
                continue
            at = cells.fields.index(field)
            check_met("the store", name, texts, [cell[at] for cell in cells.readings])
            met = {cell: r for cell, r in cells.readings.items() if is_one_of(cell[at], texts)}
            cells = replace(cells, readings=met)
        return cells

    def best(self, field: str) -> "Cells":
        """Every label of a cell at its own best value of one field, such as the stepsize."""
        return replace(
            self,
            fields=tuple(other for other in self.fields if other != self.field(field)),
            readings={
                cell: [{label: choice.by_seed for label, choice in chosen.items()}]
                for cell, chosen in self.choices(field).items()
            },
        )

    def choices(self, field: str) -> dict[Cell, dict[str, "Choice"]]:
        """The best value of a field, for every label in every cell that is left without it: the
        rule is `best_place`."""
        name = self.field(field)
        at = self.fields.index(name) if name in self.fields else None
        tried: dict[Cell, dict[str, list[Choice]]] = {}
        for cell, parts in self.readings.items():
            value = cell[at] if at is not None else self.constants[name]
            rest = cell[:at] + cell[at + 1 :] if at is not None else cell
            here = tried.setdefault(rest, {})
            for label in dict.fromkeys(label for part in parts for label in part):
                here.setdefault(label, []).append(Choice(value, averaged(parts, label)))
        return {
            cell: {label: best for label, found in here.items() if (best := self._best(found))}
            for cell, here in tried.items()
        }

    def _best(self, tried: Sequence["Choice"]) -> "Choice | None":
        tried = [choice for choice in tried if choice.has_value]
        if not tried:
            return None
        score_vs = _matrix(choice.by_seed for choice in tried)
        seeds = sorted({seed for choice in tried for seed in choice.by_seed})
        ran_vs = np.array([[seed in choice.by_seed for seed in seeds] for choice in tried])
        return tried[int(best_place(score_vs, ran_vs, lower_is_better=self.lower_is_better))]

    def field(self, name: str) -> str:
        """The full name of a field: `period` is `server.period`."""
        return full_name(name, self.fields, list(self.constants))

    def label(self, name: str) -> str:
        """The label that a user means: `blend:0.25` is `blend(0.25)`; `blend`, if there is one."""
        return labels.find_label(name, self.labels)

    def estimates(self) -> dict[tuple[Cell, str], Estimate]:
        """Mean and interval over seeds of every label in every cell where it has a value."""
        values = {
            (cell, label): averaged(parts, label)
            for cell, parts in self.readings.items()
            for label in self.labels
            if any(label in part and has_value(part, label) for part in parts)
        }
        return dict(zip(values, estimates(_matrix(values.values())), strict=True))

    def comparisons(self, against: str) -> dict[tuple[Cell, str], Comparison]:
        """Every other label against one, in every cell that has both. They are one family."""
        pairs = {
            (cell, label): (averaged(parts, label, against), averaged(parts, against, label))
            for cell, parts in self.readings.items()
            for label in self.labels
            if label != against and any(_has_both(part, label, against) for part in parts)
        }
        # As one matrix: both halves have a column for every seed of either.
        ours = [ours for ours, _ in pairs.values()]
        theirs = [theirs for _, theirs in pairs.values()]
        ours_cs, theirs_cs = np.split(_matrix([*ours, *theirs]), 2)
        return dict(zip(pairs, compare(ours_cs, theirs_cs), strict=True))


def averaged(parts: Sequence[Readings], label: str, beside: str | None = None) -> dict[int, float]:
    """By seed, the mean over the parts that have this label; and `beside`, where it is named:
    an average of differences must not be one of different parts. NaN where all of them diverged."""
    values: dict[int, list[float]] = {}
    for part in parts:
        partner = part.get(beside, {}) if beside is not None else part.get(label, {})
        for seed, value in part.get(label, {}).items():
            found = values.setdefault(seed, [])
            if math.isfinite(value) and math.isfinite(partner.get(seed, math.nan)):
                found.append(value)
    return {
        seed: sum(found) / len(found) if found else math.nan
        for seed, found in sorted(values.items())
    }


def _has_both(part: Readings, label: str, against: str) -> bool:
    return all(one in part and has_value(part, one) for one in (label, against))


def has_value(part: Readings, label: str | None = None) -> bool:
    """Whether any run came to a value."""
    found = part.values() if label is None else (part[label],)
    return any(math.isfinite(value) for by_seed in found for value in by_seed.values())


def rank_of_cell(cell: Cell) -> tuple[tuple[int, Any], ...]:
    """Numbers rise, then words in the alphabet's order, then what plays no part."""
    return tuple(
        (2, "") if value is None else (1, value) if isinstance(value, str) else (0, value)
        for value in cell
    )


def _matrix(rows: Iterable[Mapping[int, float]]) -> Array:
    """A row per cell, a column per seed; NaN where there is no run."""
    rows = list(rows)
    seeds = sorted({seed for row in rows for seed in row})
    values = [[row.get(seed, np.nan) for seed in seeds] for row in rows]
    return np.array(values, dtype=float).reshape(len(rows), len(seeds))
