"""Paired tests, one per cell (row) over its seeds (columns): may a difference be chance?

NaN marks a seed without a pair. A row that cannot be tested has the p-value NaN;
`why_untested` says why.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from skerry.sweep.statistics import Array, moments

EXACT_PAIRS = 50  # up to here the signed-rank distribution is counted out, beyond it is normal
NO_SPREAD = 1e-12  # relative: what rounding leaves of a spread that is none


def t_test(differences_cs: ArrayLike) -> Array:
    """Two-sided p-values of Student's paired t test: t = mean / (s / sqrt(pairs))."""
    from scipy.special import stdtr  # scipy.stats takes a second to import

    mean_c, variance_c, count_c = moments(differences_cs)
    spread_c = np.sqrt(variance_c)
    testable = spread_c > NO_SPREAD * np.abs(mean_c)  # NaN, a single pair, fails too
    with np.errstate(invalid="ignore", divide="ignore"):
        t_c = mean_c / (spread_c / np.sqrt(count_c))
        p_c = 2 * stdtr(count_c - 1, -np.abs(t_c))
    return np.where(testable, p_c, np.nan)


def signed_rank_test(differences_cs: ArrayLike) -> Array:
    """Two-sided p-values of Wilcoxon's signed-rank test. Zeros are left out, as he did; ties
    share their ranks. NaN where no pair differs, and for a single pair."""
    return np.array([_signed_rank(row) for row in np.asarray(differences_cs, dtype=float)])


def holm(p_values: ArrayLike) -> Array:
    """Holm's step-down correction over one family: if no cell differs, some corrected p falls
    below the level with at most that probability. Untested members (NaN) do not count."""
    p = np.asarray(p_values, dtype=float)
    tested = np.flatnonzero(np.isfinite(p))
    rising = tested[np.argsort(p[tested], kind="stable")]
    remaining = len(tested) - np.arange(len(tested))
    corrected = np.full(p.shape, np.nan)
    corrected[rising] = np.minimum(np.maximum.accumulate(p[rising] * remaining), 1.0)
    return corrected


def why_untested(differences_cs: ArrayLike) -> list[str]:
    """Why the t test has no p-value in each row; empty where it has one."""
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
    return "one seed" if len(differences) == 1 else "the same difference in every seed"


def _signed_rank(differences: Array) -> float:
    from scipy import stats

    apart = differences[np.isfinite(differences) & (differences != 0)]
    if len(apart) == 0 or np.isfinite(differences).sum() < 2:
        return float("nan")
    if len(apart) > EXACT_PAIRS:
        return float(stats.wilcoxon(apart).pvalue)  # asymptotic for so many
    # Tied ranks are halves: doubled, every rank is a whole number.
    ranks = np.rint(2 * stats.rankdata(np.abs(apart))).astype(int)
    smaller = min(ranks[apart > 0].sum(), ranks[apart < 0].sum())
    distribution = _rank_sums(tuple(sorted(ranks.tolist())))
    return min(1.0, 2.0 * float(distribution[: smaller + 1].sum()))


@lru_cache
def _rank_sums(ranks: tuple[int, ...]) -> Array:
    """The probability of each sum of ranks whose signs are fair coins: every rank r multiplies
    the generating function by (1 + x^r) / 2."""
    chance = np.ones(1)
    for rank in ranks:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    return chance
