"""One primitive against another, seed by seed.

Runs of one seed share minibatches, graphs and sampled devices, so most of what chance does to
one of them it does to the other too, and their difference varies less than either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skerry.analysis.statistics import (
    Estimate,
    estimates,
    holm,
    moments,
    signed_rank_test,
    t_test,
    why_untested,
)

LEVEL = 0.05

Verdict = Literal["win", "tie", "loss", "untested"]


@dataclass(frozen=True)
class Comparison:
    """What "ours" has more than "theirs" in one cell, over the seeds that both finished."""

    difference: Estimate
    higher: int
    """Seeds in which ours is higher."""
    equal: int
    lower: int
    t_p: float
    wilcoxon_p: float
    untested: str
    """Why there is no t test; empty if there is one."""
    unpaired_variance: float
    """Variance of the difference if the two had been run on separate seeds."""
    paired_variance: float
    t_holm: float
    """The p-value of the t test, corrected for the family that this comparison belongs to."""
    wilcoxon_holm: float

    def verdict(self, lower_is_better: bool = False, level: float = LEVEL) -> Verdict:
        """Ours wins or loses if the corrected t test says so at this level, else it is a tie."""
        if self.untested and (self.higher or self.lower or not self.equal):
            return "untested"
        if not self.t_holm <= level:
            return "tie"
        return "win" if (self.difference.mean < 0) == lower_is_better else "loss"

    @property
    def variance_saved(self) -> float:
        """How many times the variance shrinks by pairing: that many times more seeds would be
        needed without it."""
        return _ratio(self.unpaired_variance, self.paired_variance)


def compare(ours_cs: ArrayLike, theirs_cs: ArrayLike) -> list[Comparison]:
    """One comparison per cell (row), paired by seed (column); NaN marks a missing run. All rows
    together are the family over which Holm's correction goes."""
    ours, theirs = np.asarray(ours_cs, dtype=float), np.asarray(theirs_cs, dtype=float)
    paired = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = np.where(paired, ours, np.nan), np.where(paired, theirs, np.nan)
    difference = ours - theirs
    # Separate seeds: Var(a - b) = Var(a) + Var(b). Common seeds: minus 2 Cov(a, b).
    unpaired = moments(ours)[1] + moments(theirs)[1]
    t_p, wilcoxon_p = t_test(difference), signed_rank_test(difference)
    columns = (
        estimates(difference),
        (difference > 0).sum(axis=1).tolist(),
        (difference == 0).sum(axis=1).tolist(),
        (difference < 0).sum(axis=1).tolist(),
        t_p.tolist(),
        wilcoxon_p.tolist(),
        why_untested(difference),
        unpaired.tolist(),
        moments(difference)[1].tolist(),
        holm(t_p).tolist(),
        holm(wilcoxon_p).tolist(),
    )
    return [Comparison(*row) for row in zip(*columns, strict=True)]


def compare_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Comparison:
    """A single comparison from values by seed."""
    common = sorted(ours.keys() & theirs.keys())
    (found,) = compare([[ours[seed] for seed in common]], [[theirs[seed] for seed in common]])
    return found


def variance_saved(family: Iterable[Comparison]) -> float:
    """As `Comparison.variance_saved`, from the variances of all cells added up."""
    told = [one for one in family if one.difference.count > 1]
    return _ratio(
        sum(one.unpaired_variance for one in told), sum(one.paired_variance for one in told)
    )


def _ratio(unpaired: float, paired: float) -> float:
    if paired == 0:
        return float("inf") if unpaired > 0 else float("nan")
    return unpaired / paired
