"""Estimates, paired tests and corrections: by hand, against theory, and on simulated nulls."""

from math import atan, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skerry.analysis.compare import compare, variance_saved
from skerry.analysis.statistics import (
    best_place,
    best_place_elsewhere,
    estimate,
    estimates,
    holm,
    signed_rank_test,
    t_test,
    why_untested,
)

OURS, THEIRS = [12.0, 15.0, 11.0, 14.0], [10.0, 12.0, 10.0, 10.0]  # differences 2, 3, 1, 4


def test_a_comparison_by_hand():
    """d = 2, 3, 1, 4: mean 5/2, variance 5/3, t = sqrt(15) with three degrees of freedom."""
    (found,) = compare([OURS], [THEIRS])
    assert found.difference.mean == 2.5
    assert found.difference.standard_error == pytest.approx(sqrt(5 / 12))
    assert found.difference.half_width == pytest.approx(3.182446 * sqrt(5 / 12), rel=1e-6)
    assert (found.higher, found.equal, found.lower) == (4, 0, 0)
    # Student's distribution with three degrees of freedom, where t / sqrt(3) = sqrt(5):
    assert found.t_p == pytest.approx(1 - 2 / pi * (sqrt(5) / 6 + atan(sqrt(5))))
    assert found.wilcoxon_p == 2 / 16  # all four signs agree
    assert found.paired_variance == pytest.approx(5 / 3)
    assert found.unpaired_variance == pytest.approx(10 / 3 + 1)
    assert found.variance_saved == pytest.approx(2.6)
    assert found.verdict() == "win"
    assert found.verdict(lower_is_better=True) == "loss"
    assert found.verdict(level=0.03) == "tie"


def test_only_common_seeds_are_compared():
    assert compare([[*OURS, 99.0, nan]], [[*THEIRS, nan, -99.0]])[0] == compare([OURS], [THEIRS])[0]


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0], 2 / 8),
        ([1.0, 2.0, 3.0, 4.0, -5.0], 20 / 32),  # sums up to 5: 1 + 1 + 1 + 2 + 2 + 3 of 32
        ([1.0, 1.0, 2.0, -1.0], 8 / 16),  # ranks 2, 2, 2 and 4: sums up to 2 in 4 of 16
        ([0.0, 1.0, 1.0, -2.0], 1.0),  # the zero goes; 3 against 3
        ([0.0, 0.0, 4.0], 1.0),  # one pair is left: either sign is as likely
        ([0.0, 0.0], nan),
        ([3.0], nan),
        ([nan, nan], nan),
    ],
)
def test_signed_ranks_by_hand(differences, p):
    assert signed_rank_test([differences])[0] == pytest.approx(p, nan_ok=True)


def test_tests_agree_with_scipy():
    """Where scipy is exact: without ties its table, with ties all sign flips; and beyond."""
    rng = np.random.default_rng(1)
    for pairs in (3, 5, 9, 30, 60):
        d = rng.normal(0.3, 1, (4, pairs))
        assert t_test(d) == pytest.approx(stats.ttest_1samp(d, 0, axis=1).pvalue)
        assert signed_rank_test(d) == pytest.approx(stats.wilcoxon(d, axis=1).pvalue)
    tied = np.array([1.0, -1.0, 2.0, 2.0, 3.0, -3.0, 5.0])
    flips = stats.wilcoxon(tied, method=stats.PermutationMethod(n_resamples=1000))
    assert signed_rank_test([tied])[0] == pytest.approx(flips.pvalue)


@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([1.0, 2.0, 3.0], ""),
        ([nan, nan], "no common seed"),
        ([3.0, nan], "one seed"),
        ([1.0, 2.0, nan], "two seeds"),
        ([2.27, 2.27], "two seeds"),
        ([0.0, 0.0], "equal in every seed"),
        ([4.0, 4.0, 4.0], "the same difference in every seed"),
        # but for rounding
        ([91.2 - 90.1, 93.2 - 92.1, 95.2 - 94.1], "the same difference in every seed"),
    ],
)
def test_what_cannot_be_tested_says_why(differences, reason):
    assert why_untested([differences]) == [reason]
    assert np.isnan(t_test([differences])[0]) == bool(reason)
    (found,) = compare([differences], [[0.0] * len(differences)])
    expected = {"": "tie", "equal in every seed": "tie"}
    assert found.verdict() == expected.get(reason, "untested")


@pytest.mark.parametrize(
    ("raw", "corrected"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.01, nan, 0.04], [0.02, nan, 0.04]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_by_hand(raw, corrected):
    assert holm(raw) == pytest.approx(corrected, nan_ok=True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_lowers_and_keeps_the_order(raw):
    corrected = holm(raw)
    assert (corrected >= np.array(raw)).all()
    assert (corrected <= np.minimum(1, len(raw) * np.array(raw))).all()  # never above Bonferroni
    order = np.argsort(raw, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()


def test_false_positives_match_the_level():
    """Without a true difference a t test errs in 5 % of the cells, and after Holm some cell errs
    in 5 % of the families, however much the two runs of a seed have in common."""
    families, cells, seeds = 2000, 6, 5
    rng = np.random.default_rng(2)
    common = rng.normal(0, 5, (families, cells, seeds))
    ours, theirs = (common + rng.normal(0, 1, common.shape) for _ in range(2))
    p = t_test((ours - theirs).reshape(-1, seeds)).reshape(families, cells)
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.006)  # three standard errors
    assert np.mean([holm(row).min() < 0.05 for row in p]) == pytest.approx(0.05, abs=0.015)


def test_false_positives_of_signed_ranks_match_their_level():
    """With eight pairs the largest size that does not exceed 5 % is 10 of 256 sign patterns."""
    d = np.random.default_rng(3).standard_cauchy((2000, 8))
    assert np.mean(signed_rank_test(d) < 0.05) == pytest.approx(10 / 256, abs=0.013)


def test_pairing_saves_what_theory_says():
    """Runs with correlation rho and equal variances: pairing saves a factor 1 / (1 - rho)."""
    rng = np.random.default_rng(4)
    common = rng.normal(0, 3, (40, 500))
    ours, theirs = (common + rng.normal(0, 1, common.shape) for _ in range(2))
    found = compare(ours, theirs)
    assert variance_saved(found) == pytest.approx(1 / (1 - 0.9), rel=0.05)
    separate = compare(ours, rng.permuted(theirs, axis=1))
    assert variance_saved(separate) == pytest.approx(1.0, rel=0.05)


VALUES = st.floats(-100, 100).map(lambda value: round(value, 3))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=8), st.randoms())
def test_the_order_of_seeds_does_not_matter(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    first, second = (compare(*([column] for column in zip(*each, strict=True)))[0]
                     for each in (pairs, shuffled))  # fmt: skip
    close = {"rel": 1e-6, "abs": 1e-9, "nan_ok": True}
    assert first.difference.mean == pytest.approx(second.difference.mean, **close)
    assert first.difference.half_width == pytest.approx(second.difference.half_width, **close)
    assert first.t_p == pytest.approx(second.t_p, **close)
    assert first.wilcoxon_p == pytest.approx(second.wilcoxon_p, **close)
    assert first.untested == second.untested


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8))
def test_ours_and_theirs_are_treated_alike(pairs):
    ours, theirs = ([column] for column in zip(*pairs, strict=True))
    (found,), (turned,) = compare(ours, theirs), compare(theirs, ours)
    assert turned.difference.mean == -found.difference.mean
    assert (turned.higher, turned.equal) == (found.lower, found.equal)
    assert turned.t_p == pytest.approx(found.t_p, nan_ok=True)
    assert turned.wilcoxon_p == pytest.approx(found.wilcoxon_p, nan_ok=True)
    opposite = {"win": "loss", "loss": "win"}
    assert turned.verdict() == opposite.get(found.verdict(), found.verdict())


def test_many_cells_are_estimated_as_one_by_one():
    rows = [[1.0, 2.0, 4.0], [5.0, nan, nan], [nan, nan, nan], [3.0, float("inf"), 5.0]]
    together, alone = estimates(rows), [estimate(row) for row in rows]
    assert [str(one) for one in together] == [str(one) for one in alone]
    assert [one.count for one in together] == [3, 1, 0, 2]


@given(st.integers(1, 4), st.integers(2, 5), st.randoms(use_true_random=False))
def test_tuning_elsewhere_never_looks_at_the_scored_seed(values, seeds, random):
    """Whatever a seed scores, the value chosen for it is the best on the other seeds."""
    score_vs = np.array([[random.gauss(0, 1) for _ in range(seeds)] for _ in range(values)])
    chosen_s = best_place_elsewhere(score_vs)
    for s in range(seeds):
        changed = score_vs.copy()
        changed[:, s] = [random.gauss(0, 9) for _ in range(values)]
        assert best_place_elsewhere(changed)[s] == chosen_s[s]
        assert chosen_s[s] == best_place(np.delete(score_vs, s, axis=1))


def test_tuning_elsewhere_with_diverged_missing_and_single_seeds():
    """Diverged runs lose, missing seeds do not count, and a single seed is tuned on itself."""
    score_gvs = np.array([[[1.0, 1.0, 1.0], [2.0, nan, 2.0]], [[1.0, nan, nan], [2.0, nan, nan]]])
    ran_gvs = np.isfinite(score_gvs)
    ran_gvs[0, 1, 1] = True
    # Seed 1 diverged at the second value: only where it is itself scored, that does not count.
    assert best_place_elsewhere(score_gvs, ran_gvs).tolist() == [[0, 1, 0], [1, 1, 1]]
