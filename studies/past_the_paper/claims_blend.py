"""Claims on blends: two goals at once, and how far blends lie above what S2S and S2A reach.

In the plane of both goals, the accuracy of the average model and that of devices on their own
labels, S2S and S2A are two points. A blend is worth something if it lies above the straight line
between them. The control is stricter: above the upper hull of S2S and S2A at every stepsize, since
another stepsize also trades one goal for the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from evidence import STUDIES, Array, Difference, differences, spread, table

from skerry.analysis.statistics import best_place_elsewhere
from skerry_paper.study import StudyData

GOALS = ("average_accuracy", "own_accuracy")
Cell = tuple[str, str, str, int]
"""Intra split, inter split, topology and H."""
NAMES = {"iid": "islands differ", "non-iid": "both differ"}
"""The regimes in which islands differ, by the split within them."""


@dataclass(frozen=True)
class Blend:
    """One beta in one cell, in points of own labels at the same accuracy of the average model."""

    cell: Cell
    beta: float
    above_line: Difference
    above_hull: Difference


@cache
def blends() -> tuple[Blend, ...]:
    """Every beta strictly between 0 and 1 where islands differ; one family of tests per period."""
    runs = StudyData.load(STUDIES / "reproduction" / "data" / "mnist-blend.json").runs
    runs = runs[runs["inter"] == "non-iid"]
    found: list[Blend] = []
    for _, part in runs.groupby("period"):
        places, line, hull = [], [], []
        for cell, group in part.groupby(["intra", "inter", "topology", "period"]):
            points = {beta: both_goals(rows) for beta, rows in group.groupby("beta")}
            tuned = {beta: tuned_point(one) for beta, one in points.items()}
            ends = np.concatenate([points[0.0], points[1.0]], axis=1)
            for beta in points:
                if 0 < beta < 1:
                    average, own = tuned[beta]
                    places.append((cell, beta))
                    line.append((own, line_at(average, tuned[0.0], tuned[1.0])))
                    hull.append((own, hull_at(average, ends)))
        both = zip(places, differences(line), differences(hull), strict=True)
        found += [Blend(cell, beta, above, strict) for (cell, beta), above, strict in both]
    return tuple(found)


def both_goals(rows: pd.DataFrame) -> Array:
    """Both goals by stepsize and seed, [goal, stepsize, seed]."""
    tables = [rows.pivot(index="stepsize", columns="seed", values=f"{g} last 20") for g in GOALS]
    return np.stack([one.to_numpy(float) for one in tables])


def tuned_point(points_gvs: Array) -> Array:
    """Both goals by seed, at the stepsize whose mean of both goals is best on the other seeds."""
    mean = points_gvs.mean(axis=0)
    places = best_place_elsewhere(mean, np.ones_like(mean))
    found: Array = points_gvs[:, places, np.arange(mean.shape[1])]
    return found


def line_at(average_s: Array, s2s_gs: Array, s2a_gs: Array) -> Array:
    """For each seed, own labels on the straight line through S2S and S2A at a given average."""
    (x0, y0), (x1, y1) = s2s_gs, s2a_gs
    found: Array = y0 + (average_s - x0) * (y1 - y0) / (x1 - x0)
    return found


def hull_at(average_s: Array, points_gps: Array) -> Array:
    """For each seed, the upper hull of points (average, own) at a given average: the largest value
    of a segment between two points there, or of a point that is at least as good by the average.
    Beyond all points, the value of the last one, which favours the hull."""
    found = []
    for s, at in enumerate(average_s):
        points = points_gps[:, :, s].T
        reached = [own for average, own in points if average >= at]
        for one, other in combinations(points, 2):
            (left, low), (right, high) = sorted((tuple(one), tuple(other)))
            if left < at < right:
                reached.append(low + (high - low) * (at - left) / (right - left))
        found.append(max(reached, default=max(map(tuple, points))[1]))
    return np.array(found)


def with_period(H: int) -> list[Blend]:
    return [one for one in blends() if one.cell[3] == H]


def blend_table(H: int) -> Iterator[str]:
    """How far each beta lies above the line between S2S and S2A."""
    here = with_period(H)
    betas = sorted({one.beta for one in here})
    rows = []
    for cell in dict.fromkeys(one.cell for one in here):
        told = {one.beta: one.above_line.told() for one in here if one.cell == cell}
        rows.append((NAMES[cell[0]], cell[2], *(told[beta] for beta in betas)))
    yield from table(("data", "links", *(f"β = {beta:g}" for beta in betas)), rows, left=2)


def summary(H: int) -> str:
    """`+0.23 to +0.75 points above the line (16 of 20 clearly)`."""
    here = with_period(H)
    clear = sum(one.above_line.sign > 0 for one in here)
    means = [one.above_line.mean for one in here]
    return f"{spread(means)} points above the line ({clear} of {len(here)} clearly)"


def control(H: int) -> str:
    here = with_period(H)
    clear = sum(one.above_hull.sign > 0 for one in here)
    worse = sum(one.above_hull.sign < 0 for one in here)
    means = [one.above_hull.mean for one in here]
    return f"{spread(means)} points ({clear} of {len(here)} clearly above, {worse} clearly below)"
