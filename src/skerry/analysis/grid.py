"""How recorded runs lie in a grid: what varies between them makes its cells, and in every cell
stand primitives and seeds. Tables, tests, figures and the page all look at runs in this way."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skerry.analysis.cells import Cell, Cells, Readings, has_value, rank_of_cell
from skerry.analysis.names import (
    Fields,
    Where,
    check_met,
    fields_of,
    full_name,
    is_one_of,
    varying_fields,
)
from skerry.config import labels
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.records.store import Run

SEED = "seed"
STUDY = "study"
"""The axis that tells studies apart that differ in nothing a record names."""

Places = dict[str, dict[int, int]]
"""By label and seed, the place of a run among all."""


@dataclass(frozen=True)
class Group:
    """The runs of one cell and label, which differ in the seed only."""

    cell: int
    label: int
    runs: Mapping[int, int]
    """By seed, the place of the run among all."""


@dataclass(frozen=True)
class Grid:
    runs: tuple[Run, ...]
    fields: Mapping[str, Fields] = field(repr=False)
    """By the run's key, what tells it from others; None where a field plays no part."""

    @classmethod
    def of(cls, runs: Iterable[Run]) -> "Grid":
        """All these runs, finished or not; runs that no field tells apart are a fault."""
        runs = tuple(runs)
        return cls(runs, {run.key: fields_of(run) for run in runs})

    @classmethod
    def with_studies(
        cls, runs: Iterable[Run], fields: Mapping[str, Fields] | None = None
    ) -> "Grid":
        """The same, where runs that no field tells apart are in studies of their own. Who looks
        again and again may bring the runs' fields along."""
        runs = tuple(runs)
        fields = fields or {run.key: fields_of(run) for run in runs}
        return cls(
            runs, {run.key: fields[run.key] | {STUDY: n} for run, n in _numbered(runs, fields)}
        )

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The fields that vary."""
        return tuple(varying_fields([self.fields[run.key] for run in self.runs]))

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The other fields."""
        told = self.fields[self.runs[0].key]
        return {name: value for name, value in told.items() if name not in self.axes}

    @cached_property
    def places(self) -> dict[Cell, Places]:
        """Where the runs of every cell stand among all."""
        return in_order(_placed(self.runs, self.fields, self.axes))

    @property
    def cells(self) -> list[Cell]:
        return list(self.places)

    @cached_property
    def labels(self) -> list[str]:
        """S2S, S2A, the blends with their betas rising, no server; then users' own."""
        order = list(registry.PRIMITIVES)

        def rank(label: str) -> tuple[int, float]:
            name, beta = labels.read_label(label)
            return order.index(name) if name in order else len(order), beta or 0.0

        return sorted(dict.fromkeys(run.experiment.server.label for run in self.runs), key=rank)

    @property
    def seeds(self) -> list[int]:
        return sorted({run.experiment.seed for run in self.runs})

    @cached_property
    def groups(self) -> list[Group]:
        return [
            Group(cell, self.labels.index(name), runs)
            for cell, found in enumerate(self.places.values())
            for name, runs in found.items()
        ]

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs)

    def field(self, name: str) -> str:
        """The full name of a field."""
        return full_name(name, self.axes, list(self.constants))

    def where(self, conditions: Where, compare: Sequence[str] = ()) -> "Grid":
        """Only the runs that meet the conditions, and of these primitives."""
        runs = self.runs
        for name, texts in conditions.items():
            path = name if name == SEED else self.field(name)
            there = {run.key: self._value(run, path) for run in runs}
            check_met("the store", name, texts, there.values())
            runs = tuple(run for run in runs if is_one_of(there[run.key], texts))
        if compare:
            wanted = {labels.find_label(name, self.labels) for name in compare}
            runs = tuple(run for run in runs if run.experiment.server.label in wanted)
        return Grid(runs, self.fields)

    def split(self, by: Sequence[str]) -> dict[Cell, "Grid"]:
        """The runs of each combination of values. One for which a field plays no part, such as
        the period of a run without a server, stands in all of them."""
        values = {run.key: tuple(self.fields[run.key].get(f) for f in by) for run in self.runs}
        full = [cell for cell in values.values() if None not in cell] or list(values.values())
        return {
            cell: Grid(
                tuple(run for run in self.runs if _stands_in(values[run.key], cell)), self.fields
            )
            for cell in in_order(dict.fromkeys(full))
        }

    def read(
        self,
        measure: str,
        values: ArrayLike,
        *,
        last: int | None = None,
        diverged: Iterable[Run] = (),
        statuses: Counter[str] | None = None,
    ) -> Cells:
        """The values of one measure, one for each run of the grid: NaN where it has none. Runs that
        diverged have none either, but were tried; they may lie outside of the grid."""
        values = np.asarray(values, dtype=float)
        readings: dict[Cell, Readings] = {
            cell: {
                label: {
                    seed: float(values[place])
                    for seed, place in by_seed.items()
                    if self.runs[place].status in ("finished", "diverged")
                }
                for label, by_seed in found.items()
            }
            for cell, found in self.places.items()
        }
        for run in diverged:
            fields = self.fields.get(run.key) or fields_of(run)
            part = readings.get(tuple(fields.get(axis) for axis in self.axes), {})
            if run.experiment.server.label in part:
                part[run.experiment.server.label].setdefault(run.experiment.seed, math.nan)
        finished = [run.status == "finished" for run in self.runs]
        return Cells(
            measure=measure,
            last=last,
            fields=self.axes,
            readings={cell: [part] for cell, part in readings.items() if has_value(part)},
            constants=self.constants,
            statuses=statuses or self.statuses,
            unmeasured=sum(finished) - int(np.isfinite(values[finished]).sum()),
        )

    def _value(self, run: Run, path: str) -> Any:
        return run.experiment.seed if path == SEED else self.fields[run.key].get(path)


def in_order(cells: Mapping[Cell, Any]) -> dict[Cell, Any]:
    """Numbers rise, then words in the alphabet's order, then what plays no part."""
    return {cell: cells[cell] for cell in sorted(cells, key=rank_of_cell)}


def _placed(
    runs: Sequence[Run], fields: Mapping[str, Fields], axes: Sequence[str]
) -> dict[Cell, Places]:
    places: dict[Cell, Places] = {}
    for place, run in enumerate(runs):
        cell = tuple(fields[run.key].get(axis) for axis in axes)
        by_seed = places.setdefault(cell, {}).setdefault(run.experiment.server.label, {})
        other = by_seed.setdefault(run.experiment.seed, place)
        if other != place:
            raise SkerryError(
                f"runs {runs[other].key} and {run.key} differ only in a data set or model given "
                "from Python. Record such studies in folders of their own."
            )
    servers = {run.experiment.server.label: run.experiment.server for run in runs}
    return _beside_all(
        places, {label for label, one in servers.items() if one.name or not one.is_there}
    )


def _beside_all(places: Mapping[Cell, Places], free: Collection[str]) -> dict[Cell, Places]:
    """Without a server there is no period: such a run stands beside every period's runs. And so
    does that of a preset that sets the period itself."""
    full = {
        cell: dict(part) for cell, part in places.items() if None not in cell or part.keys() - free
    }
    found = {cell: dict(part) for cell, part in full.items()}
    for cell, part in places.items():
        for label in part if None in cell else ():
            if label in free:
                for target in [one for one in full if _stands_in(cell, one)] or [cell]:
                    found.setdefault(target, {})[label] = part[label]
    return found


def _numbered(runs: Sequence[Run], fields: Mapping[str, Fields]) -> Iterator[tuple[Run, str]]:
    """Each run, and whether it is the first, second, ... that no field tells apart: such runs
    differ in a data set or a model given from Python."""
    times = Counter[Cell]()
    for run in runs:
        experiment = run.experiment
        same = experiment.seed, experiment.server.label, *fields[run.key].items()
        times[same] += 1
        yield run, str(times[same])


def _stands_in(values: Cell, cell: Cell) -> bool:
    return all(mine in (None, wanted) for mine, wanted in zip(values, cell, strict=True))
