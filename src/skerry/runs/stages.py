"""The two stages of a tuned sweep: some seeds try all values of an axis such as the stepsize, the
others run the best value of every cell."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skerry.analysis.results import Lane
from skerry.analysis.statistics import best_place
from skerry.config.experiment import Experiment
from skerry.config.measures import shown, traits
from skerry.runs.axes import Cell
from skerry.runs.sweep import Point, Sweep


@dataclass(frozen=True)
class TunedCell:
    """The best value of the tuned axis in one cell of all other axes."""

    cell: Cell
    value: Any
    point: Point


def first_runs(sweep: Sweep) -> list[Experiment]:
    """The runs of the first stage: all of them, or those of the tuning seeds."""
    return sweep.runs(seeds=_tuning_seeds(sweep))


def planned_runs(sweep: Sweep) -> list[Experiment]:
    """All runs of both stages, with the first value of each cell in place of the best one."""
    points = {_without(point.cell, sweep.tune): point for point in reversed(sweep.points)}
    first = first_runs(sweep)
    return [*first, *sweep.runs(reversed(points.values()), _other_seeds(sweep))]


def further_runs(sweep: Sweep, lanes: Iterable[Lane]) -> list[Experiment]:
    """The runs of the second stage: the best value of every cell, on the other seeds."""
    if not _other_seeds(sweep):
        return []
    return sweep.runs([choice.point for choice in tuned_cells(sweep, lanes)], _other_seeds(sweep))


def tuned_cells(sweep: Sweep, lanes: Iterable[Lane]) -> list[TunedCell]:
    """The best value of every cell, by the runs of the first stage."""
    lanes = list(lanes)
    measure = ranking_measure(sweep, lanes)
    finals = {
        lane.experiment.key(): lane.final.get(measure, math.nan)
        for lane in lanes
        if lane.status == "finished"
    }
    tried: dict[Cell, list[Point]] = {}
    for point in sweep.points if sweep.tune else ():
        tried.setdefault(_without(point.cell, sweep.tune), []).append(point)
    lower = traits(measure).lower_is_better
    found = []
    for cell, points in tried.items():
        keys = [[point.at(seed).key() for seed in _tuning_seeds(sweep)] for point in points]
        score_vs = np.array([[finals.get(key, math.nan) for key in row] for row in keys])
        ran_vs = np.ones_like(score_vs)  # all values are tried on the same seeds
        point = points[int(best_place(score_vs, ran_vs, lower_is_better=lower))]
        found.append(TunedCell(cell, dict(point.cell)[sweep.tune], point))
    return found


def ranking_measure(sweep: Sweep, lanes: Iterable[Lane]) -> str:
    """The measure that ranks values: `tune_by`, or the loss where nothing is classified."""
    return shown(sweep.tune_by, {measure for lane in lanes for measure in lane.final})


def _tuning_seeds(sweep: Sweep) -> Sequence[int]:
    return sweep.seed_numbers[: sweep.tune_seeds] if sweep.tune else sweep.seed_numbers


def _other_seeds(sweep: Sweep) -> list[int]:
    tuned_on = _tuning_seeds(sweep)
    return [seed for seed in sweep.seed_numbers if seed not in tuned_on]


def _without(cell: Cell, field: str) -> Cell:
    return tuple(pair for pair in cell if pair[0] != field)
