"""A store, read once: which runs are finished, how they lie in a grid, what they measured."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skerry.analysis import frame
from skerry.analysis.cells import Cells
from skerry.analysis.grid import Grid
from skerry.analysis.names import Where
from skerry.config.measures import MEASURES, shown
from skerry.errors import RecordsError, SkerryError, argument, unknown
from skerry.records.parts import History
from skerry.records.store import Run, Store

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Recorded:
    path: Path
    """As it was asked for: the store's folder or its file."""
    runs: tuple[Run, ...]
    histories: Mapping[str, History] = field(repr=False)
    """By the run's key."""

    @classmethod
    def read(cls, path: Path | str) -> "Recorded":
        with Store.read(path) as store:
            recorded = store.histories()
        return cls(
            Path(path),
            tuple(run for run, _ in recorded),
            {run.key: history for run, history in recorded},
        )

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs)

    @cached_property
    def all(self) -> Grid:
        """Of all runs, finished or not."""
        if not self.runs:
            raise RecordsError(
                f"no runs are recorded in {self.path}. Record some: skerry run --out {self.path}"
            )
        return Grid.of(self.runs)

    @cached_property
    def grid(self) -> Grid:
        """Of the runs that are finished."""
        finished = [run for run in self.all.runs if run.status == "finished"]
        if not finished:
            raise RecordsError(
                f"none of the runs in {self.path} is finished ({in_words(self.statuses)}). Running "
                "ones go on when the command that began them is given again."
            )
        return Grid.of(finished)

    def cells(
        self,
        measure: str | None = None,
        *,
        last: int | None = None,
        where: Where | None = None,
        compare: Sequence[str] = (),
    ) -> Cells:
        """The measure's last value in every finished run, or its mean over the last rounds. Without
        a measure: the accuracy of the average model, or its loss where nothing is classified."""
        measure = self.measure(measure)
        grid = self.grid.where(where or {}, compare)
        values = [
            value_of(self.histories[run.key], measure, run.experiment.rounds, last)
            for run in grid.runs
        ]
        if np.isnan(values).all():
            raise RecordsError(
                f"no finished run in {self.path} measured {measure} in its last {last} rounds. "
                f"Take more of them: a larger {argument('last')}."
            )
        return grid.read(
            measure,
            values,
            last=last,
            diverged=[run for run in self.runs if run.status == "diverged"],
            statuses=self.statuses,
        )

    @cached_property
    def measured(self) -> set[str]:
        """What any of the finished runs measured."""
        histories = (self.histories[run.key] for run in self.grid.runs)
        return {name for history in histories for name in history} - {"round"}

    def measure(self, asked: str | None = None) -> str:
        """The measure that is asked for, if finished runs have it; else the usual one."""
        measured = self.measured
        if asked is None:
            return shown("average_accuracy", measured)
        if asked in measured:
            return asked
        if asked in MEASURES:
            raise RecordsError(
                f"no finished run in {self.path} measured {asked}. Choose from: "
                f"{', '.join(sorted(measured))}; or add it to evaluate.measures and run again."
            )
        raise SkerryError(unknown("measure", asked, measured))

    def frame(self) -> "pd.DataFrame":
        """A row for each round of each run."""
        return frame.of_rounds(self.runs, [self.histories[run.key] for run in self.runs])

    def finals(self) -> "pd.DataFrame":
        """A row for each run."""
        return frame.of_runs(self.runs, [self.histories[run.key] for run in self.runs])


def load(path: Path | str) -> "pd.DataFrame":
    """One row for each round of each run in a store (its folder or its file).

    The columns: key, name, status and seed of the run; its experiment (the usual fields, and
    every other that differs between the runs); the round; and the measures.
    """
    return Recorded.read(path).frame()


def finals(path: Path | str) -> "pd.DataFrame":
    """One row for each run: as `load`, with the rounds done and the last value of each measure."""
    return Recorded.read(path).finals()


def read_cells(path: Path | str, measure: str | None = None, last: int | None = None) -> Cells:
    """The finished runs of a store as cells."""
    return Recorded.read(path).cells(measure, last=last)


def in_words(statuses: Mapping[str, int]) -> str:
    """`3 finished, 1 diverged`."""
    return ", ".join(f"{count:,} {status}" for status, count in statuses.items())


def value_of(history: History, measure: str, rounds: int, last: int | None = None) -> float:
    """The last value, or the mean over the last rounds; NaN if the run did not measure it then."""
    if measure not in history:
        return float("nan")
    column = history[measure]
    if last is not None:  # round 0 is the start: no round has been done
        column = column[history["round"] > max(0, rounds - last)]
    measured = column[np.isfinite(column)]
    if len(measured) == 0:
        return float("nan")
    return float(measured[-1] if last is None else measured.mean())
