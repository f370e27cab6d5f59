"""Cells: all that varies between runs but the seed and the primitive, and what was read there."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skerry import labels
from skerry.errors import SkerryError, unknown
from skerry.measures import traits
from skerry.sweep.pairing import Comparison, compare
from skerry.sweep.statistics import Array, Estimate, estimates

Cell = tuple[Any, ...]
"""The values of the fields that make a cell."""
Readings = dict[str, dict[int, float]]
"""What was read in one cell: by label (s2s, blend(0.5), ...) and by seed."""


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
        return list(dict.fromkeys(name for part in parts for name in part))

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
        return replace(self, fields=tuple(chosen), readings=in_order(coarser))

    def best(self, field: str) -> "Cells":
        """Every label of a cell at its own best value of one field, such as the stepsize: the
        values that most seeds finished, and among those the best mean over seeds."""
        name = self.field(field)
        rest = tuple(other for other in self.fields if other != name)
        sign = -1.0 if self.lower_is_better else 1.0
        found: dict[Cell, dict[str, tuple[int, float, dict[int, float]]]] = {}
        for cell, parts in self.readings.items():
            values = dict(zip(self.fields, cell, strict=True))
            here = found.setdefault(tuple(values[other] for other in rest), {})
            for label in dict.fromkeys(label for part in parts for label in part):
                by_seed = averaged(parts, label)
                one = (len(by_seed), sign * float(np.mean(list(by_seed.values()))), by_seed)
                here[label] = max(here.get(label, one), one, key=lambda choice: choice[:2])
        readings = {
            cell: [{label: by_seed for label, (_, _, by_seed) in here.items()}]
            for cell, here in found.items()
        }
        return replace(self, fields=rest, readings=readings)

    def field(self, name: str) -> str:
        """The full name of a field: `period` is `server.period`."""
        known = [*self.fields, *self.constants]
        found = [path for path in known if path == name or path.endswith(f".{name}")]
        if len(found) > 1:
            raise SkerryError(f"'{name}' may be {' or '.join(found)}. Give the full name.")
        if not found:
            raise SkerryError(unknown("field", name, self.fields or known))
        return found[0]

    def label(self, name: str) -> str:
        """The label that a user means: `blend:0.25` is `blend(0.25)`; `blend`, if there is one."""
        return labels.meant(name, self.labels)

    def estimates(self) -> dict[tuple[Cell, str], Estimate]:
        """Mean and interval over seeds of every label in every cell where it has a value."""
        values = {
            (cell, label): averaged(parts, label)
            for cell, parts in self.readings.items()
            for label in self.labels
            if any(label in part for part in parts)
        }
        return dict(zip(values, estimates(_matrix(values.values())), strict=True))

    def comparisons(self, against: str) -> dict[tuple[Cell, str], Comparison]:
        """Every other label against one, in every cell that has both. They are one family."""
        pairs = {
            (cell, label): (averaged(parts, label, against), averaged(parts, against, label))
            for cell, parts in self.readings.items()
            for label in self.labels
            if label != against and any(label in part and against in part for part in parts)
        }
        ours = _matrix(ours for ours, _ in pairs.values())
        theirs = _matrix(theirs for _, theirs in pairs.values())
        return dict(zip(pairs, compare(ours, theirs), strict=True))


def averaged(parts: Sequence[Readings], label: str, beside: str | None = None) -> dict[int, float]:
    """By seed, the mean over the parts that have this label; and `beside`, where it is named:
    an average of differences must not be one of different parts."""
    values: dict[int, list[float]] = {}
    for part in parts:
        partner = part.get(beside, {}) if beside is not None else part.get(label, {})
        for seed, value in part.get(label, {}).items():
            if seed in partner:
                values.setdefault(seed, []).append(value)
    return {seed: sum(found) / len(found) for seed, found in sorted(values.items())}


def in_order(readings: Mapping[Cell, list[Readings]]) -> dict[Cell, list[Readings]]:
    """Numbers rise, then words in the alphabet's order, then what plays no part."""

    def rank(cell: Cell) -> tuple[tuple[int, Any], ...]:
        return tuple(
            (2, "") if value is None else (1, value) if isinstance(value, str) else (0, value)
            for value in cell
        )

    return {cell: readings[cell] for cell in sorted(readings, key=rank)}


def _matrix(rows: Iterable[Mapping[int, float]]) -> Array:
    """A row per cell, a column per seed; NaN where there is no run."""
    rows = list(rows)
    seeds = sorted({seed for row in rows for seed in row})
    values = [[row.get(seed, np.nan) for seed in seeds] for row in rows]
    return np.array(values, dtype=float).reshape(len(rows), len(seeds))
