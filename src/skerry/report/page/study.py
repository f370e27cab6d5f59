"""Everything a report tells, read from a store in one pass: never more than one cell's histories
are in memory at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from skerry.analysis.answers import Answers, usual
from skerry.analysis.grid import Grid, Group
from skerry.analysis.recorded import value_of
from skerry.analysis.results import Lane, Results
from skerry.experiment import Experiment
from skerry.measures import MEASURES
from skerry.records.parts import History
from skerry.records.store import Run, Store
from skerry.report.page.curves import Curves, most_rounds
from skerry.report.page.packing import Array

RATIOS = ("disagreement_ratio", "bias_ratio")
"""Measures of which the mean over all server rounds is kept beside the last value."""


class Study:
    """The runs of a store. `grid` is there only if there are any."""

    def __init__(self, path: Path, runs: Sequence[Run], grid: Grid | None):
        self.path, self.runs = path, runs
        self._grid = grid
        self.measures: list[str] = []
        self.finals: dict[str, Array] = {}
        """By measure, the last value in every run; NaN if it is not finished."""
        self.mean_ratios: dict[str, Array] = {}
        self.curves = Curves(0)
        self._answers: dict[str, Answers] = {}
        self.curve_of: list[int] = []
        """By group, the curve that shows it."""

    @property
    def grid(self) -> Grid:
        assert self._grid is not None, "sections of an empty store are not asked"
        return self._grid

    @property
    def is_empty(self) -> bool:
        return self._grid is None

    @cached_property
    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs)

    @property
    def has_finished(self) -> bool:
        return self.statuses["finished"] > 0

    @property
    def experiments(self) -> list[Experiment]:
        return [run.experiment for run in self.runs]

    @cached_property
    def ranked(self) -> list[str]:
        """The measures that finished runs have, which can be compared."""
        return [name for name in self.measures if np.isfinite(self.finals[name]).any()]

    @property
    def headline(self) -> str | None:
        """The measure that is looked at first, as `skerry.results` does."""
        for name in ("average_accuracy", "average_loss", *self.ranked, *self.measures):
            if name in self.measures:
                return name
        return None

    def answers(self, measure: str) -> Answers:
        """As `skerry.results` answers."""
        if measure not in self._answers:
            cells = self.grid.read(measure, self.finals[measure])
            self._answers[measure] = Answers(cells, usual(cells))
        return self._answers[measure]

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
        runs = store.sound_runs()
        study = Study(store.path, runs, Grid.with_studies(runs) if runs else None)
        if runs:
            _read_histories(study, store)
    return study


def _read_histories(study: Study, store: Store) -> None:
    # A run without a server stands in several groups, but is one curve.
    groups = [tuple(group.runs.values()) for group in study.grid.groups]
    curves = {places: curve for curve, places in enumerate(dict.fromkeys(groups))}
    study.curve_of = [curves[places] for places in groups]
    longest = max(study.runs, key=lambda run: run.rounds_done)
    study.curves = Curves(most_rounds(len(curves), store.history(longest.key)))
    study.mean_ratios = {name: np.full(len(study.runs), np.nan) for name in RATIOS}
    for places, curve in curves.items():
        histories = {place: store.history(study.runs[place].key) for place in places}
        for place, history in histories.items():
            if study.runs[place].status == "finished":
                _take_finals(study, place, history)
        if shown := _shown(study, histories):
            study.curves.add(curve, shown, study.runs[places[0]].experiment.server)
    there = set(study.curves.measures)
    known = [name for name in MEASURES if name in there]
    study.measures = [*known, *sorted(there.difference(known))]
    for name in study.measures:
        study.finals.setdefault(name, np.full(len(study.runs), np.nan))


def _take_finals(study: Study, place: int, history: History) -> None:
    for name in history:
        if name != "round":
            column = study.finals.setdefault(name, np.full(len(study.runs), np.nan))
            column[place] = value_of(history, name, study.runs[place].experiment.rounds, None)
    for name in RATIOS:
        measured = history.get(name, np.empty(0))
        if np.isfinite(measured).any():
            study.mean_ratios[name][place] = np.mean(measured[np.isfinite(measured)])


def _shown(study: Study, histories: Mapping[int, History]) -> list[History]:
    """The finished runs of a group; where none is, what there is of the others."""
    begun = {place: history for place, history in histories.items() if len(history["round"])}
    finished = [begun[place] for place in begun if study.runs[place].status == "finished"]
    return finished or list(begun.values())
