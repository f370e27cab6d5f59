"""The cheapest option along an axis, and the points where it changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np

from skerry.theory.operators import Array

Costs: TypeAlias = Callable[[Array], Mapping[str, Array]]
"""Costs of each option at points of an axis; infinite if the target is never reached."""

TIE = "tie"


@dataclass(frozen=True)
class Stretch:
    """A part of the axis with one winner; on a continuous axis it ends at crossing points."""

    winner: str
    first: float
    last: float


def stretches(values: Array, costs: Costs, *, continuous: bool) -> tuple[Stretch, ...]:
    """The parts of an axis with the same winner, in order."""
    found, points = costs(values), values.tolist()

    def winner_at(i: int) -> str:
        return cheapest({name: float(cost[i]) for name, cost in found.items()})

    runs = [(winner, list(run)) for winner, run in groupby(range(len(points)), key=winner_at)]
    whole = [Stretch(winner, points[run[0]], points[run[-1]]) for winner, run in runs]
    if not continuous:
        return tuple(whole)
    crossings = [_crossing(costs, left, right) for left, right in pairwise(whole)]
    starts, ends = [whole[0].first, *crossings], [*crossings, whole[-1].last]
    return tuple(
        Stretch(stretch.winner, start, end)
        for stretch, start, end in zip(whole, starts, ends, strict=True)
    )


def cheapest(costs: Mapping[str, float]) -> str:
    """Name of the cheapest option, or "tie" if several are equal up to rounding."""
    best = min(costs, key=lambda name: costs[name])
    limit = costs[best] * (1 + 1e-12)
    return TIE if sum(cost <= limit for cost in costs.values()) > 1 else best


def _crossing(costs: Costs, left: Stretch, right: Stretch) -> float:
    """Point where the winner changes, by bisection, because bounds may jump."""
    low, high = left.last, right.first
    if TIE in (left.winner, right.winner):
        return low if left.winner == TIE else high
    for _ in range(30):
        middle = (low + high) / 2
        at = costs(np.array([middle]))
        if at[left.winner][0] < at[right.winner][0]:
            low = middle
        else:
            high = middle
    return (low + high) / 2
