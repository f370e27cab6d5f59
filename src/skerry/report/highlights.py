"""What stands out among the runs of a folder: every primitive's best cell, and what ended last."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from skerry.analysis.cells import Cells, Readings
from skerry.analysis.names import flat
from skerry.measures import traits
from skerry.records.store import Run

MESSAGES = 6


@dataclass(frozen=True)
class Seen:
    """What is kept of a recorded run: all that a snapshot needs."""

    run: Run
    text: str
    steps: int
    final: dict[str, float]
    """The last value of every measure; empty unless the run is finished."""

    @cached_property
    def fields(self) -> dict[str, Any]:
        """What tells cells apart, beside the seed and the primitive."""
        run = self.run
        fields = flat(run.experiment) | {
            "network.graph": run.materials.get("graph", "as named")[:8]
        }
        for name in ("name", "seed", "server.primitive"):
            del fields[name]
        if run.experiment.server.primitive in ("s2s", "s2a", "blend", "none"):
            del fields["server.beta"]  # it plays no part, or the label says it
        return fields

    @property
    def steps_done(self) -> int:
        run = self.run
        done = run.status in ("finished", "diverged")
        return self.steps if done else self.steps * run.rounds_done // run.experiment.rounds


@dataclass(frozen=True)
class Best:
    """A primitive's best cell so far."""

    measure: str
    primitive: str
    cell: dict[str, Any]
    """The fields that vary between the runs of the folder."""
    mean: float
    half_width: float | None
    """Half of the 95 % interval; None while there is one seed."""
    seeds: int


@dataclass(frozen=True)
class Message:
    time: str
    """UTC, as recorded."""
    status: str
    runs: int
    note: str
    seeds: tuple[int, ...]


def best_cells(runs: Sequence[Seen], measures: Iterable[str]) -> Iterator[Best]:
    """Every primitive's best cell by each measure: its mean over the seeds that are finished."""
    done = [seen for seen in runs if seen.final]
    varying = [
        name
        for name in dict.fromkeys(name for seen in done for name in seen.fields)
        if len({seen.fields.get(name) for seen in done} - {None}) > 1
    ]
    for measure in measures:
        readings: dict[tuple[Any, ...], list[Readings]] = {}
        for seen in done:
            value = seen.final.get(measure, math.nan)
            if math.isfinite(value):
                cell = tuple(seen.fields.get(name) for name in varying)
                (part,) = readings.setdefault(cell, [{}])
                part.setdefault(seen.run.experiment.server.label, {})[seen.run.experiment.seed] = (
                    value
                )
        cells = Cells(measure, None, tuple(varying), readings, {}, Counter())
        yield from _best_of(cells)


def _best_of(cells: Cells) -> Iterator[Best]:
    found = cells.estimates()
    sign = 1 if traits(cells.measure).lower_is_better else -1
    for name in sorted(cells.labels):
        here = [(sign * one.mean, cell, one) for (cell, of), one in found.items() if of == name]
        _, cell, one = min(here, key=lambda ranked: ranked[0])
        values = dict(zip(cells.fields, cell, strict=True))
        yield Best(
            cells.measure,
            name,
            {field: value for field, value in values.items() if value is not None},
            one.mean,
            one.half_width if one.count > 1 else None,
            one.count,
        )


def newest_messages(runs: Sequence[Run], most: int = MESSAGES) -> Iterator[Message]:
    """What has ended last: runs that ended together, and alike, are one message."""

    def event(run: Run) -> tuple[str, str, str]:
        return run.finished or "", run.status, run.note

    ended = sorted((run for run in runs if run.finished), key=event, reverse=True)
    for i, ((when, status, note), group) in enumerate(groupby(ended, key=event)):
        if i == most:
            return
        seeds = [run.experiment.seed for run in group]
        yield Message(when, status, len(seeds), note, tuple(sorted(set(seeds))))
