"""Everything a report tells, read from a store in one pass: never more than one group's histories
are in memory at once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from skerry.analysis.answers import Answers
from skerry.analysis.cells import Cell, Choice
from skerry.analysis.compare import reference_of
from skerry.analysis.grid import Grid, Group
from skerry.analysis.recorded import value_of
from skerry.analysis.results import Lane, Results
from skerry.config.experiment import Experiment
from skerry.config.measures import MEASURES, headline
from skerry.records.store import Run, Store
from skerry.report.page.curves import Curves, most_rounds
from skerry.report.page.packing import Array

TUNED = "training.stepsize"
RATIOS = ("disagreement_ratio", "bias_ratio")
"""Measures of which the mean over all server rounds is kept beside the last value."""


@dataclass(frozen=True)
class Study:
    """The runs of a store, finished or not."""

    path: Path
    grid: Grid
    finals: Mapping[str, Array] = field(repr=False)
    """By measure, in the order of the page, the last value in every run; NaN if unfinished."""
    mean_ratios: Mapping[str, Array] = field(repr=False)
    curves: Curves = field(repr=False)
    curve_of: Sequence[int] = field(repr=False)
    """By group, the curve that shows it."""

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.grid.runs

    @property
    def experiments(self) -> list[Experiment]:
        return [run.experiment for run in self.runs]

    @property
    def measures(self) -> list[str]:
        return list(self.finals)

    @cached_property
    def ranked(self) -> list[str]:
        """The measures that finished runs have, which can be compared."""
        return [name for name, values in self.finals.items() if np.isfinite(values).any()]

    @property
    def headline(self) -> str:
        """The measure that is looked at first, as `skerry.results` does; empty if there is none."""
        return headline(self.ranked or self.measures)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        """By ranked measure, what `skerry.results` answers."""
        cells = (self.grid.read(name, self.finals[name]) for name in self.ranked)
        return {one.measure: Answers(one, reference_of(one.labels)) for one in cells}

    @cached_property
    def choices(self) -> dict[Cell, dict[str, Choice]]:
        """Where stepsizes were tried: the best one by the headline measure, for every label in
        every cell that is left without it."""
        if TUNED not in self.grid.axes or not self.ranked:
            return {}
        return self.answers[self.headline].cells.choices(TUNED)

    def experiment(self, group: Group) -> Experiment:
        """Any of a group's experiments: they differ in the seed only."""
        return self.runs[next(iter(group.runs.values()))].experiment

    def results(self) -> Results:
        """The runs as `skerry.run` returns them, without their histories."""
        return Results(
            tuple(
                Lane(run.key, run.experiment, run.status, self._final(place), {}, run.note)
                for place, run in enumerate(self.runs)
            )
        )

    def _final(self, place: int) -> dict[str, float]:
        found = {name: float(values[place]) for name, values in self.finals.items()}
        return {name: value for name, value in found.items() if np.isfinite(value)}


def read_study(path: Path | str) -> Study:
    """The store of a folder (or the file itself)."""
    with Store.read(path) as store:
        return _read(store, Grid.with_studies(store.sound_runs()))


def _read(store: Store, grid: Grid) -> Study:
    # A run without a server stands in several groups, but is one curve.
    groups = [tuple(group.runs.values()) for group in grid.groups]
    numbers = {places: number for number, places in enumerate(dict.fromkeys(groups))}
    longest = max(grid.runs, key=lambda run: run.rounds_done, default=None)
    curves = Curves(most_rounds(len(numbers), store.history(longest.key)) if longest else 0)
    finals: dict[str, Array] = defaultdict(lambda: np.full(len(grid.runs), np.nan))
    mean_ratios = {name: np.full(len(grid.runs), np.nan) for name in RATIOS}
    for places, number in numbers.items():
        histories = {place: store.history(grid.runs[place].key) for place in places}
        begun = {place: history for place, history in histories.items() if len(history["round"])}
        finished = {place: begun[place] for place in begun if grid.runs[place].status == "finished"}
        for place, history in finished.items():
            rounds = grid.runs[place].experiment.rounds
            for name in history.keys() - {"round"}:
                finals[name][place] = value_of(history, name, rounds)
            for name in RATIOS:
                mean_ratios[name][place] = value_of(history, name, rounds, last=rounds)
        # Where no run is finished, what there is of the others is drawn.
        if shown := list((finished or begun).values()):
            curves.add(number, shown, grid.runs[places[0]].experiment.server)
    known = [name for name in MEASURES if name in curves.measures]
    measures = [*known, *sorted(set(curves.measures).difference(known))]
    return Study(
        store.path,
        grid,
        {name: finals[name] for name in measures},
        mean_ratios,
        curves,
        [numbers[places] for places in groups],
    )
