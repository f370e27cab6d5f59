"""One server round under any rule of selection: the specification's numbers, and enumeration."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

from skerry.errors import SkerryError
from skerry.theory import operators
from skerry.theory.counts import CountOutcome, equal_islands_law, law_of_counts
from skerry.theory.participation import exchange_from_law, exchange_under

X6 = np.array([1.0, 3, 0, 2, 5, 9])


class ExpectedOutcome(NamedTuple):
    """Expected disagreement after S2S, and expected bias of S2A, of one server round."""

    s2s_intra: float
    s2s_inter: float
    s2a_bias: float


def expected_outcome(sizes, law, D_c, means_cd, *, stratified=False):
    """Expected outcome from the disagreement D_c [C] inside islands and their means [C, d].

    `stratified`: S2A weighs islands by their size when every island is sampled.
    """
    n_c, D_c = np.asarray(sizes, float), np.asarray(D_c, float)
    means = np.asarray(means_cd, float).reshape(len(n_c), -1)
    mu = means - n_c @ means / n_c.sum()
    total = np.zeros(3)
    for probability, K_c in law:
        outcome = outcome_given_counts(n_c, np.array(K_c, float), D_c, mu, stratified)
        total += probability * np.array(outcome)
    return ExpectedOutcome(*total.tolist())


def outcome_given_counts(n_c, K_c, D_c, mu, stratified):
    """Disagreement inside and between islands after S2S, and bias of S2A, given the counts K_c."""
    n, K = n_c.sum(), K_c.sum()
    inter = n_c @ (mu**2).sum(axis=1)
    if K == 0:
        return float(D_c.sum()), float(inter), 0.0
    f = K_c / n_c
    theta = K_c * (n_c - K_c) / (n_c * np.maximum(n_c - 1, 1))
    mean_sampled = (K_c / K) @ mu
    whole = (
        D_c @ (1 - f + theta / K) + (n_c - K_c) @ (mu**2).sum(axis=1) + K * (mean_sampled**2).sum()
    )
    moved = (1 - f)[:, None] * mu + f[:, None] * mean_sampled
    leak = theta * ((1 - 2 * K_c / K) / n_c + (K_c**2 / n_c).sum() / K**2)
    left_inter = n_c @ (moved**2).sum(axis=1) + D_c @ leak
    if stratified and K_c.all():
        bias = (n_c**2 / K_c**2 / n) @ (theta * D_c)
    else:
        bias = n * (mean_sampled**2).sum() + n / K**2 * (theta @ D_c)
    return float(whole - left_inter), float(left_inter), float(bias)


def split(x, sizes):
    parts = np.split(x, np.cumsum(sizes)[:-1])
    return [((part - part.mean()) ** 2).sum() for part in parts], [part.mean() for part in parts]


@pytest.mark.parametrize(
    ("sizes", "rule", "K", "intra", "inter", "plain", "stratified"),
    [
        ((2, 4), "uniform", 3, 28.133333, 3.866667, 10.666667, None),
        ((2, 4), "per_component", 3, 29.166667, 2.944444, 10.888889, 10.888889),
        ((2, 4), "one_each", 2, 40.656250, 4.427083, 19.416667, 31.333333),
        ((3, 3), "one_each", 2, 28.148148, 12.296296, 14.666667, 14.666667),
        ((1, 2, 3), "one_each", 3, 24.320988, 10.790123, 10.111111, 13.833333),
        ((1, 2, 3), "per_component", 2, 24.849074, 17.262037, 19.666667, None),
        ((3, 3), "uniform", 4, None, None, 5.333333, 5.133333),
    ],
)
def test_oracles(sizes, rule, K, intra, inter, plain, stratified):
    counts = law_of_counts(rule, sizes, K)
    found = expected_outcome(sizes, counts, *split(X6, sizes))
    assert found.s2a_bias == pytest.approx(plain, abs=1e-5)
    if intra is not None:
        assert found[:2] == pytest.approx((intra, inter), abs=1e-5)
    if stratified is not None:
        weighed = expected_outcome(sizes, counts, *split(X6, sizes), stratified=True)
        assert weighed.s2a_bias == pytest.approx(stratified, abs=1e-5)


def test_bernoulli():
    """O7: q = .5, x = (1, 2, 3, 6), D = 14: S2S leaves 9.041667, S2A's bias is 5.638889."""
    x = np.array([1.0, 2, 3, 6])
    found = expected_outcome((4,), law_of_counts("bernoulli", (4,), 2), *split(x, (4,)))
    assert found.s2s_intra + found.s2s_inter == pytest.approx(9.041667, abs=1e-5)
    assert found.s2a_bias == pytest.approx(5.638889, abs=1e-5)


def test_the_law_of_peeled_counts():
    """O6: (1, 2, 3), K = 2."""
    found = {counts: chance for chance, counts in law_of_counts("per_component", (1, 2, 3), 2)}
    wanted = {(0, 0, 2): 2 / 15, (0, 1, 1): 8 / 15, (1, 0, 1): 3 / 15, (1, 1, 0): 2 / 15}
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("rule", ["uniform", "per_component", "bernoulli"])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 5), (1, 1, 4), (6,)])
def test_laws_are_laws(rule, sizes):
    for K in range(1, sum(sizes) + 1):
        counts = law_of_counts(rule, sizes, K)
        assert sum(chance for chance, _ in counts) == pytest.approx(1)
        mean = sum(chance * np.array(found) for chance, found in counts)
        assert mean == pytest.approx(K * np.array(sizes) / sum(sizes))


@pytest.mark.parametrize(
    ("sizes", "rule", "K", "kappas", "M"),
    [
        ((2, 2), "per_component", 2, (0.5, 0), [[0.625, 0.25], [0.125, 0.25]]),
        ((50, 50), "per_component", 20, (0.040816, 0), [[0.806531, 0.16], [0.001633, 0.64]]),
        ((2, 2, 2), "per_component", 3, (0.333333, 0), [[0.5, 0.25], [0.166667, 0.25]]),
        ((10,) * 10, "one_each", 10, (0.1, 0), [[0.901, 0.09], [0.009, 0.81]]),
        (
            (2, 3, 5),
            "per_component",
            4,
            (0.25, 0.0625),
            [[0.641521, 0.231387], [0.142083, 0.427609]],
        ),
    ],
)
def test_what_the_certified_recursion_needs(sizes, rule, K, kappas, M):
    found = exchange_from_law(sizes, law_of_counts(rule, sizes, K))
    assert (found.kappa_intra, found.kappa_inter) == pytest.approx(kappas, abs=1e-6)
    assert pytest.approx(np.array(M), abs=1e-6) == found.M


@pytest.mark.parametrize("sizes", [(3, 3), (4, 4, 4), (5,)])
def test_uniform_is_what_it_was(sizes):
    """delta, kappa and the exchange matrix of uniform sampling, by another way."""
    n = sum(sizes)
    for K in range(1, n + 1):
        found = exchange_from_law(sizes, law_of_counts("uniform", sizes, K))
        kappa = float(operators.kappa(n, K))
        assert found.kappa_intra == pytest.approx(kappa, abs=1e-9)
        assert pytest.approx(operators.exchange_matrix(sizes, K), abs=1e-9) == found.M
        if len(sizes) > 1:
            assert found.kappa_inter == pytest.approx(kappa, abs=1e-9)


@pytest.mark.parametrize("weights", ["equal", "stratified"])
@pytest.mark.parametrize("C", [1, 2, 3, 5])
def test_one_vector_stands_for_its_permutations(C, weights):
    """On equal islands per_component has a short way, which gives what its whole law gives."""
    sizes, stratified = (4,) * C, weights == "stratified"
    for K in range(1, 4 * C + 1):
        short = exchange_under("per_component", weights, sizes, K)
        whole = exchange_from_law(
            sizes, law_of_counts("per_component", sizes, K), stratified=stratified
        )
        assert short[:2] == pytest.approx(whole[:2], abs=1e-12)
        assert pytest.approx(whole.M, abs=1e-12) == short.M
    assert sum(equal_islands_law(C, K)[0].counts) == K


def test_counts_that_are_not_whole_leave_little_between():
    """n = 100, C = 2, K = 21: .00227 of inter disagreement becomes bias, of uniform's .0380."""
    found = exchange_under("per_component", "equal", (50, 50), 21)
    assert found.kappa_inter == pytest.approx(0.00227, abs=5e-6)
    assert float(operators.kappa(100, 21)) == pytest.approx(0.0380, abs=5e-5)
    assert exchange_under("per_component", "equal", (10,) * 100, 7).kappa_inter > 0


@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 5), (1, 1, 4), (6,), (1, 1, 1)])
def test_coins_are_uniform_samples_of_a_drawn_number(sizes):
    """Bernoulli by the moments of uniform sampling, and by its whole law."""
    for K in range(1, sum(sizes) + 1):
        short = exchange_under("bernoulli", "equal", sizes, K)
        whole = exchange_from_law(sizes, law_of_counts("bernoulli", sizes, K))
        assert pytest.approx(whole.M, abs=1e-12) == short.M
        if max(sizes) > 1:
            assert short.kappa_intra == pytest.approx(whole.kappa_intra, abs=1e-12)
        if len(sizes) > 1:
            assert short.kappa_inter == pytest.approx(whole.kappa_inter, abs=1e-12)


def test_large_fleets_by_coins():
    """Binomial coefficients beyond floating point do not matter."""
    found = exchange_under("bernoulli", "equal", (2500, 2500), 1000)
    uniform = exchange_under("uniform", "equal", (2500, 2500), 1000)
    assert found[:2] == pytest.approx(uniform[:2], rel=1e-2)
    assert pytest.approx(uniform.M, rel=1e-2) == found.M


def test_weighing_islands_after_uniform_sampling():
    """n = 100, C = 2, K = 20: kappa (.043189, 0); an island is missed with chance 1.8e-7."""
    found = exchange_under("uniform", "stratified", (50, 50), 20)
    assert found[:2] == pytest.approx((0.043189, 0), abs=1e-6)
    assert 0 < found.kappa_inter < 2e-7


@pytest.mark.parametrize(
    ("rule", "sizes", "K", "stratified"),
    [
        ("per_component", (2, 3, 5), 4, False),
        ("per_component", (1, 2, 3), 2, False),
        ("per_component", (4, 4, 4), 5, True),
        ("one_each", (2, 4, 9), 6, True),
        ("one_each", (1, 2, 3), 3, True),
        ("uniform", (4, 5), 3, False),
    ],
)
def test_no_models_exceed_the_exchange(rule, sizes, K, stratified):
    """Whatever the models: bias and what S2S leaves are at most what the recursion takes."""
    counts = law_of_counts(rule, sizes, K)
    kappa_intra, kappa_inter, M = exchange_from_law(sizes, counts, stratified=stratified)
    draw = np.random.default_rng(4)
    for _ in range(200):
        inside, between = draw.exponential(size=len(sizes)), draw.standard_normal((len(sizes), 2))
        inside *= (np.array(sizes) > 1) * draw.choice([0, 0.1, 1], size=len(sizes))
        found = expected_outcome(sizes, counts, inside, between, stratified=stratified)
        mu = between - np.array(sizes) @ between / sum(sizes)
        v = np.array([inside.sum(), np.array(sizes) @ (mu**2).sum(axis=1)])
        assert found.s2a_bias <= (kappa_intra * v[0] + kappa_inter * v[1]) * (1 + 1e-9)
        assert (np.array(found[:2]) <= M @ v * (1 + 1e-9)).all()


def test_every_sample_counted():
    """The formulas given the counts, against all samples with those counts, in two dimensions."""
    sizes, counts = (3, 4), (2, 1)
    X = np.random.default_rng(0).standard_normal((7, 2))
    parts = np.split(X, [3])
    D_c = [((part - part.mean(axis=0)) ** 2).sum() for part in parts]
    found = expected_outcome(
        sizes, [CountOutcome(1.0, counts)], D_c, [part.mean(axis=0) for part in parts]
    )
    whole, between, bias = [], [], []
    for first in combinations(range(3), 2):
        for second in range(3, 7):
            S = [*first, second]
            after = X.copy()
            after[S] = X[S].mean(axis=0)
            means = np.array([after[:3].mean(axis=0), after[3:].mean(axis=0)])
            centre = after.mean(axis=0)
            whole.append(((after - centre) ** 2).sum())
            between.append((np.array(sizes) @ ((means - centre) ** 2)).sum())
            bias.append(7 * ((X[S].mean(axis=0) - X.mean(axis=0)) ** 2).sum())
    assert found.s2s_intra + found.s2s_inter == pytest.approx(np.mean(whole))
    assert found.s2s_inter == pytest.approx(np.mean(between))
    assert found.s2a_bias == pytest.approx(np.mean(bias))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one_each", (2, 4), 3), "multiple of the number of islands"),
        (("round_robin", (2, 4), 3), "no law of counts"),
        (("uniform", (2, 4), 7), "sampled must be between"),
        (("uniform", (50,) * 10, 20), "too many possible counts"),
        (("per_component", (3, 4) * 15, 20), "too many possible counts"),
        (("per_componnt", (2, 4), 3), "did you mean 'per_component'"),
    ],
)
def test_what_has_no_answer_is_told(arguments, message):
    with pytest.raises(SkerryError, match=message):
        law_of_counts(*arguments)


def test_where_an_island_may_be_missed():
    """Islands of several sizes cannot be weighed by their size if one may be missed: on average
    S2A would then not deliver the average."""
    with pytest.raises(SkerryError, match="leans to some of them"):
        exchange_under("uniform", "stratified", (2, 4), 2)
    assert exchange_under("uniform", "stratified", (2, 4), 5).kappa_inter == 0
    assert exchange_under("uniform", "stratified", (3, 3), 2).kappa_inter > 0
