"""Paired comparisons of two labels, seed by seed.

Runs of one seed share minibatches, graphs and sampled devices. Most random effects are therefore
common to both, and the difference of two labels varies less than either of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from skerry.analysis import statistics
from skerry.analysis.statistics import Estimate, estimate, holm, moments
from skerry.config.labels import APART

LEVEL = 0.05

Verdict = Literal["win", "tie", "loss", "untested"]


@dataclass(frozen=True)
class Comparison:
    """The difference "ours" minus "theirs" in one cell, over the seeds that both finished."""

    difference: Estimate
    higher: int  # seeds in which ours is higher
    equal: int
    lower: int
    t_p: float
    wilcoxon_p: float
    untested: str  # why there is no t test; empty if there is one
    unpaired_variance: float  # variance of the difference if the two had been run on separate seeds
    paired_variance: float
    t_holm: float  # the p-value of the t test, corrected for the family of this comparison
    wilcoxon_holm: float

    def verdict(self, lower_is_better: bool = False, level: float = LEVEL) -> Verdict:
        """Win or loss of ours if the corrected t test is significant at this level, else tie."""
        if self.untested and (self.higher or self.lower or not self.equal):
            return "untested"
        if not self.t_holm <= level:
            return "tie"
        return "win" if (self.difference.mean < 0) == lower_is_better else "loss"

    @property
    def variance_saved(self) -> float:
        """How many times pairing reduces the variance, and so the seeds that are needed."""
        return _ratio(self.unpaired_variance, self.paired_variance)


def compare(ours_cs: ArrayLike, theirs_cs: ArrayLike) -> list[Comparison]:
    """One comparison per cell (row), paired by seed (column, NaN if missing); one Holm family."""
    ours, theirs = np.asarray(ours_cs, dtype=float), np.asarray(theirs_cs, dtype=float)
    paired = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = np.where(paired, ours, np.nan), np.where(paired, theirs, np.nan)
    difference = ours - theirs
    # Separate seeds: Var(a - b) = Var(a) + Var(b). Common seeds: minus 2 Cov(a, b).
    unpaired = moments(ours)[1] + moments(theirs)[1]
    t_p, wilcoxon_p = statistics.t_test(difference), statistics.signed_rank_test(difference)
    columns = (
        statistics.estimates(difference),
        *((np.sign(difference) == sign).sum(axis=1).tolist() for sign in (1, 0, -1)),
        t_p.tolist(),
        wilcoxon_p.tolist(),
        statistics.why_untested(difference),
        unpaired.tolist(),
        moments(difference)[1].tolist(),
        holm(t_p).tolist(),
        holm(wilcoxon_p).tolist(),
    )
    return [Comparison(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class BestLabel:
    """The best label of a cell, and its margin over the second best."""

    best: str
    second: str
    gap: Estimate  # the best minus the second, over the seeds that both finished
    p: float  # the p-value of the paired t test, corrected as in the tables; NaN if it is untested
    is_clear: bool
    untested: str  # why there is no t test; empty if there is one


def reference_label(labels: Sequence[str]) -> str:
    """The label that others are compared with by default: s2a (of several folders or experiments
    that of the first), or the first label."""
    return next((one for one in labels if one.partition(APART)[0] == "s2a"), labels[0])


def find_best_label(
    readings: Mapping[str, Mapping[int, float]], lower_is_better: bool, level: float = LEVEL
) -> BestLabel | None:
    """The label with the best mean, and whether its lead is clear; None if fewer than two labels
    have a value. `readings` are values by label and seed.

    A lead is clear if the corrected test of the tables says so. If the best or the second best is
    the reference label, this is the test against the reference, corrected for all comparisons with
    it. Otherwise all labels are compared with the best one.
    """
    means = {label: estimate(found.values()).mean for label, found in readings.items()}
    ranked = sorted(
        (label for label, mean in means.items() if math.isfinite(mean)),
        key=lambda label: means[label] if lower_is_better else -means[label],
    )
    if len(ranked) < 2:
        return None
    best, second = ranked[:2]
    usual = reference_label([label for label in readings if label in ranked])
    against = usual if usual in (best, second) else best
    others = [label for label in ranked if label != against]
    seeds = sorted({seed for label in ranked for seed in readings[label]})
    ours = [[readings[label].get(seed, np.nan) for seed in seeds] for label in others]
    theirs = [[readings[against].get(seed, np.nan) for seed in seeds]] * len(others)
    found = compare(ours, theirs)[others.index(second if against == best else best)]
    gap = found.difference
    if against == best:
        gap = replace(gap, mean=-gap.mean)
    is_clear = found.verdict(lower_is_better, level) in ("win", "loss")
    return BestLabel(best, second, gap, found.t_holm, is_clear, found.untested)


def variance_saved(family: Iterable[Comparison]) -> float:
    """As `Comparison.variance_saved`, for the sums of the variances of all cells."""
    tested = [one for one in family if one.difference.count > 1]
    return _ratio(
        sum(one.unpaired_variance for one in tested), sum(one.paired_variance for one in tested)
    )


def _ratio(unpaired: float, paired: float) -> float:
    if paired == 0:
        return float("inf") if unpaired > 0 else float("nan")
    return unpaired / paired
