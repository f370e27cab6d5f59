"""Statistics over seeds: means with 95 % intervals, paired tests, and the choice of the best value.

In matrices, rows are cells and columns are seeds; NaN marks a missing seed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
EXACT_PAIRS = 50  # up to this number the signed-rank test is exact, beyond it asymptotic
NO_SPREAD = 1e-12  # relative: a smaller spread is rounding error
FEWEST_PAIRS = 3  # seeds to test a difference; two say too little about its spread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, with its standard error and 95 % confidence interval."""

    mean: float
    standard_error: float
    half_width: float
    """Half of the 95 % confidence interval (Student's t); NaN for a single seed."""
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def estimate(values: Iterable[float]) -> Estimate:
    """The estimate over the finite values; diverged runs have none."""
    (found,) = estimates([list(values)])
    return found


def estimates(values_cs: ArrayLike) -> list[Estimate]:
    """One estimate per cell (row) over its seeds (columns); NaN marks a missing seed."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    mean_c, variance_c, count_c = moments(values_cs)
    with np.errstate(invalid="ignore", divide="ignore"):
        error_c = np.sqrt(variance_c / count_c)
        half_c = error_c * stdtrit(count_c - 1, 0.5 + CONFIDENCE / 2)
    columns = (mean_c.tolist(), error_c.tolist(), half_c.tolist(), count_c.tolist())
    return [Estimate(*row) for row in zip(*columns, strict=True)]


def moments(values_cs: ArrayLike) -> tuple[Array, Array, NDArray[np.int64]]:
    """Mean, variance (over count - 1) and count of each row's finite values; NaN if too few."""
    values = np.asarray(values_cs, dtype=float)
    finite = np.isfinite(values)
    count_c: NDArray[Any] = finite.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_c = np.where(finite, values, 0.0).sum(axis=1) / count_c
        deviation = np.where(finite, values - mean_c[:, None], 0.0)
        sum_of_squares = (deviation**2).sum(axis=1)
        variance_c = np.where(count_c > 1, sum_of_squares / (count_c - 1), np.nan)
    return mean_c, variance_c, count_c


def carry_stopped(values_rs: Array, rounds_r: ArrayLike, last_s: ArrayLike) -> Array:
    """Values by round and run, in which runs that ended early, after `last_s`, keep their last
    value wherever the others have one. So a mean over runs is of all of them in every round."""
    rounds_r, last_s = np.asarray(rounds_r), np.asarray(last_s)
    carried_rs = values_rs.copy()
    for s, last in enumerate(last_s.tolist()):
        finite = np.flatnonzero(np.isfinite(values_rs[:, s]))
        others_r = np.isfinite(values_rs[:, last_s > last]).any(axis=1)
        if not len(finite) or not (last_s > last).any():
            continue
        carried_rs[others_r & (rounds_r > last), s] = values_rs[finite[-1], s]
        # A last round may be evaluated where the others are not.
        carried_rs[~others_r & (rounds_r == last), s] = np.nan
    return carried_rs


def best_place(
    score_vs: ArrayLike, ran_vs: ArrayLike | None = None, *, lower_is_better: bool = False
) -> Any:
    """The row of the best value of a tuned field, such as the best stepsize: the one rule for all
    tuning. Leading dimensions are those of the result.

    Only seeds that were run with every value count, or all seeds if there are none such. The best
    value is the one that finished most often on these seeds; among equals, the one with the best
    mean, then the first. `ran_vs` marks the runs that exist; a run without a finite score diverged.
    """
    score_vs = np.asarray(score_vs, dtype=float)
    ended = np.isfinite(score_vs)
    ran = ended if ran_vs is None else ended | np.asarray(ran_vs, dtype=bool)
    tried = ended.any(axis=-1, keepdims=True)
    common = (ran | ~tried).all(axis=-2, keepdims=True)
    common |= ~common.any(axis=-1, keepdims=True)
    counted = ended & common
    count_v = counted.sum(axis=-1)
    sum_v = np.where(counted, score_vs, 0.0).sum(axis=-1)
    worth_v = sum_v / np.maximum(count_v, 1) * (-1.0 if lower_is_better else 1.0)
    most = count_v.max(axis=-1, keepdims=True)
    return np.where(count_v == most, worth_v, -np.inf).argmax(axis=-1)


def best_place_elsewhere(
    score_vs: ArrayLike, ran_vs: ArrayLike | None = None, *, lower_is_better: bool = False
) -> NDArray[np.int64]:
    """For each seed, the row that `best_place` chooses on all other seeds, [..., s].

    A run scored at the chosen value was not used to choose it, so the score is not lucky by
    selection. A single seed has no others: its value is chosen on itself."""
    score_vs = np.asarray(score_vs, dtype=float)
    ended = np.isfinite(score_vs)
    ran_vs = ended if ran_vs is None else ended | np.asarray(ran_vs, dtype=bool)
    seeds = score_vs.shape[-1]
    chosen = []
    for s in range(seeds):
        others = np.arange(seeds) != s
        alone = ~(ended & others).any(axis=(-2, -1), keepdims=True)
        counted = others | alone
        scores = np.where(counted, score_vs, np.nan)
        chosen.append(best_place(scores, ran_vs & counted, lower_is_better=lower_is_better))
    return np.stack(chosen, axis=-1)


# Paired tests. A row that cannot be tested has the p-value NaN; `why_untested` gives the reason.


def t_test(differences_cs: ArrayLike) -> Array:
    """Two-sided p-values of Student's paired t test: t = mean / (s / sqrt(pairs))."""
    from scipy.special import stdtr  # scipy.stats takes a second to import

    mean_c, variance_c, count_c = moments(differences_cs)
    spread_c = np.sqrt(variance_c)
    testable = (spread_c > NO_SPREAD * np.abs(mean_c)) & (count_c >= FEWEST_PAIRS)
    with np.errstate(invalid="ignore", divide="ignore"):
        t_c = mean_c / (spread_c / np.sqrt(count_c))
        p_c = 2 * stdtr(count_c - 1, -np.abs(t_c))
    return np.where(testable, p_c, np.nan)


def signed_rank_test(differences_cs: ArrayLike) -> Array:
    """Two-sided p-values of Wilcoxon's signed-rank test. Zeros are left out, as in his
    paper; ties share their ranks. NaN where no pair differs, and for a single pair."""
    return np.array([_signed_rank(row) for row in np.asarray(differences_cs, dtype=float)])


def holm(p_values: ArrayLike) -> Array:
    """Holm's step-down correction over one family: if no cell differs, the probability that any
    corrected p-value falls below a level is at most that level. NaN (untested) does not count."""
    p = np.asarray(p_values, dtype=float)
    tested = np.flatnonzero(np.isfinite(p))
    rising = tested[np.argsort(p[tested], kind="stable")]
    remaining = len(tested) - np.arange(len(tested))
    corrected = np.full(p.shape, np.nan)
    corrected[rising] = np.minimum(np.maximum.accumulate(p[rising] * remaining), 1.0)
    return corrected


def why_untested(differences_cs: ArrayLike) -> list[str]:
    """For each row, the reason why the t test has no p-value; empty where it has one."""
    rows = np.asarray(differences_cs, dtype=float)
    return [
        "" if np.isfinite(p) else _reason(row[np.isfinite(row)])
        for row, p in zip(rows, t_test(rows), strict=True)
    ]


def _reason(differences: Array) -> str:
    if len(differences) == 0:
        return "no common seed"
    if not differences.any():
        return "equal in every seed"
    if len(differences) < FEWEST_PAIRS:
        return "one seed" if len(differences) == 1 else "two seeds"
    return "the same difference in every seed"


def _signed_rank(differences: Array) -> float:
    from scipy import stats

    differing = differences[np.isfinite(differences) & (differences != 0)]
    if len(differing) == 0 or np.isfinite(differences).sum() < 2:
        return float("nan")
    if len(differing) > EXACT_PAIRS:
        return float(stats.wilcoxon(differing).pvalue)  # asymptotic for so many
    # Tied ranks are halves: doubled, every rank is a whole number.
    ranks = np.rint(2 * stats.rankdata(np.abs(differing))).astype(int)
    smaller = min(ranks[differing > 0].sum(), ranks[differing < 0].sum())
    distribution = _rank_sums(tuple(sorted(ranks.tolist())))
    return min(1.0, 2.0 * float(distribution[: smaller + 1].sum()))


@lru_cache
def _rank_sums(ranks: tuple[int, ...]) -> Array:
    """The distribution of a sum of ranks with random signs: a factor (1 + x^r) / 2 for each."""
    chance = np.ones(1)
    for rank in ranks:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return chance
