"""Tuning: of one axis, such as the stepsize, every cell and primitive keeps its own best value."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skerry.experiment import Experiment
from skerry.measures import traits
from skerry.sweep.run import Lane
from skerry.sweep.sweep_file import Cell, Point, Sweep


@dataclass(frozen=True)
class Choice:
    """The best value of the tuned axis in one cell (all other axes, the primitive among them)."""

    cell: Cell
    value: Any
    score: float
    """The mean over the tuning seeds that finished."""
    point: Point


def first_runs(sweep: Sweep) -> list[Experiment]:
    """All runs, or, where only some seeds are tuned on, all runs of these seeds."""
    return sweep.runs(seeds=_tuning_seeds(sweep))


def planned_runs(sweep: Sweep) -> list[Experiment]:
    """All that will be run. Which value the further seeds take is not known yet: the first one
    stands for it."""
    points = {_without(point.cell, sweep.tune): point for point in reversed(sweep.points)}
    first = first_runs(sweep)
    return [*first, *sweep.runs(reversed(points.values()), _other_seeds(sweep))]


def further_runs(sweep: Sweep, lanes: Iterable[Lane]) -> list[Experiment]:
    """The best value of every cell on the seeds that were not tuned on."""
    if not _other_seeds(sweep):
        return []
    return sweep.runs([choice.point for choice in choices(sweep, lanes)], _other_seeds(sweep))


def choices(sweep: Sweep, lanes: Iterable[Lane]) -> list[Choice]:
    """Every cell's best value: the one that most seeds finished, and among those the best mean."""
    finals = {
        lane.experiment.key(): lane.final.get(sweep.tune_by, math.nan)
        for lane in lanes
        if lane.status == "finished"
    }
    best: dict[Cell, tuple[tuple[int, float], Choice]] = {}
    for point in sweep.points if sweep.tune else ():
        cell = _without(point.cell, sweep.tune)
        values = _values(point, _tuning_seeds(sweep), finals)
        score = float(np.mean(values)) if values else math.nan
        rank = len(values), -score if traits(sweep.tune_by).lower_is_better else score
        choice = Choice(cell, dict(point.cell)[sweep.tune], score, point)
        if cell not in best or rank > best[cell][0]:
            best[cell] = rank, choice
    return [choice for _, choice in best.values()]


def _tuning_seeds(sweep: Sweep) -> Sequence[int]:
    return sweep.seed_numbers[: sweep.tune_seeds] if sweep.tune else sweep.seed_numbers


def _other_seeds(sweep: Sweep) -> list[int]:
    tuned_on = _tuning_seeds(sweep)
    return [seed for seed in sweep.seed_numbers if seed not in tuned_on]


def _without(cell: Cell, field: str) -> Cell:
    return tuple(pair for pair in cell if pair[0] != field)


def _values(point: Point, seeds: Iterable[int], finals: Mapping[str, float]) -> list[float]:
    values = (finals.get(point.at(seed).key(), math.nan) for seed in seeds)
    return [value for value in values if math.isfinite(value)]
