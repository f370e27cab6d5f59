"""How the runs of a store lie in a grid: cells, primitives, seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skerry.experiment import Experiment
from skerry.records.store import Run
from skerry.report.style import PRIMITIVES
from skerry.sweep.cells import Cell, Readings, in_order
from skerry.sweep.collect import fields_of, readings_of
from skerry.sweep.collect import varying_fields as varying

STUDY = "study"
"""The axis that tells studies apart that differ in nothing a record names."""


@dataclass(frozen=True)
class Group:
    """The runs of one cell and label, which differ in the seed only."""

    cell: int
    label: int
    runs: Mapping[int, int]
    """By seed, the place of the run among all."""


@dataclass(frozen=True)
class Grid:
    runs: Sequence[Run]
    axes: tuple[str, ...]
    """The fields that vary."""
    constants: Mapping[str, Any]
    places: Mapping[Cell, Mapping[str, Mapping[int, int]]] = field(repr=False)
    """By cell, label and seed, the place of the run among all."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "Grid":
        """All runs, finished or not."""
        fields = [fields_of(run) | {STUDY: study} for run, study in _numbered(runs)]
        axes = varying(fields)
        found = in_order(readings_of(runs, fields, axes, range(len(runs))))
        constants = {name: value for name, value in fields[0].items() if name not in axes}
        places = {cell: _whole(parts[0]) for cell, parts in found.items()}
        return cls(runs, tuple(axes), constants, places)

    @property
    def cells(self) -> list[Cell]:
        return list(self.places)

    @cached_property
    def labels(self) -> list[str]:
        """The primitives in one order everywhere, a dial's positions rising; then users' own."""
        order = list(PRIMITIVES)

        def rank(one: Experiment) -> tuple[int, float]:
            name = one.server.primitive
            return (order.index(name) if name in order else len(order)), one.server.beta

        by_label = {one.server.label: one for one in (run.experiment for run in self.runs)}
        return sorted(by_label, key=lambda name: rank(by_label[name]))

    @property
    def seeds(self) -> list[int]:
        return sorted({run.experiment.seed for run in self.runs})

    @cached_property
    def groups(self) -> list[Group]:
        labels = self.labels
        return [
            Group(cell, labels.index(name), runs)
            for cell, found in enumerate(self.places.values())
            for name, runs in found.items()
        ]

    def experiment(self, group: Group) -> Experiment:
        """Any of a group's experiments: they differ in the seed only."""
        return self.runs[next(iter(group.runs.values()))].experiment


def _numbered(runs: Sequence[Run]) -> Iterator[tuple[Run, str]]:
    """Each run, and whether it is the first, second, ... of its experiment: such runs differ in
    a data set, a model or a graph given from Python."""
    times: dict[str, int] = {}
    for run in runs:
        same = run.experiment.model_copy(update={"name": ""}).model_dump_json()
        same += run.materials.get("graph", "")
        times[same] = times.get(same, 0) + 1
        yield run, str(times[same])


def _whole(part: Readings) -> dict[str, dict[int, int]]:
    return {name: {seed: int(place) for seed, place in by.items()} for name, by in part.items()}
