from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skerry.errors import SkerryError
from skerry.theory.operators import (
    Pi,
    Pi_C,
    W_blend,
    W_s2a,
    W_s2s,
    best_beta,
    bias,
    delta,
    disagreement,
    exchange_matrix,
    expected_gram,
    kappa,
    q,
    split_disagreement,
)

X_ORACLE = np.array([[1.0, 2.0, 3.0, 6.0]])


def all_samples(n, K):
    return list(combinations(range(n), K))


def over_samples(n, K, value):
    """The exact mean of value(S) over all S."""
    return np.mean([value(S) for S in all_samples(n, K)], axis=0)


@st.composite
def a_server_round(draw, max_devices=7):
    """A matrix of models and a sampled set."""
    n = draw(st.integers(2, max_devices))
    models = arrays(float, (draw(st.integers(1, 3)), n), elements=st.floats(-10, 10))
    sampled = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
    return draw(models), sampled


@settings(deadline=None)
@given(a_server_round())
def test_s2s_is_a_projection_that_keeps_the_average(server_round):
    """W_S2S is symmetric, idempotent and doubly stochastic, and never moves the average."""
    X, S = server_round
    n = X.shape[1]
    W = W_s2s(n, S)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W @ W, W, atol=1e-12)
    np.testing.assert_allclose(W.sum(axis=0), 1)
    np.testing.assert_allclose(W @ Pi(n), Pi(n), atol=1e-12)
    np.testing.assert_allclose(Pi(n) @ W, Pi(n), atol=1e-12)
    assert bias(X, X @ W) == pytest.approx(0, abs=1e-20 + 1e-25 * np.sum(X**2))


@settings(deadline=None)
@given(a_server_round())
def test_s2a_is_consensus(server_round):
    """W_S2A leaves no disagreement; rows of sampled devices add up to n/K, the others to 0."""
    X, S = server_round
    n = X.shape[1]
    W = W_s2a(n, S)
    np.testing.assert_allclose(W.sum(axis=0), 1)
    expected_rows = np.zeros(n)
    expected_rows[S] = n / len(S)
    np.testing.assert_allclose(W.sum(axis=1), expected_rows)
    np.testing.assert_allclose(W @ Pi(n), W, atol=1e-12)
    np.testing.assert_allclose(Pi(n) @ W, Pi(n), atol=1e-12)
    assert disagreement(X @ W) == pytest.approx(0, abs=1e-18)


@settings(deadline=None)
@given(a_server_round(), st.floats(0, 1))
def test_blend_lies_between(server_round, beta):
    """A blend moves the average by beta of S2A's move and keeps (1-beta)^2 of S2S's rest."""
    X, S = server_round
    n = X.shape[1]
    after = X @ W_blend(n, S, beta)
    np.testing.assert_allclose(
        after.mean(axis=1) - X.mean(axis=1),
        beta * (X[:, S].mean(axis=1) - X.mean(axis=1)),
        atol=1e-12,
    )
    left = (1 - beta) ** 2 * disagreement(X @ W_s2s(n, S))
    assert disagreement(after) == pytest.approx(left, abs=1e-10)
    for end, W in ((0, W_s2s), (1, W_s2a)):
        np.testing.assert_array_equal(W_blend(n, S, end), W(n, S))


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_limits_of_sampling(n):
    """Everybody sampled: both are Pi. One sampled: S2S is nothing, S2A copies that device."""
    everybody = range(n)
    np.testing.assert_allclose(W_s2s(n, everybody), Pi(n))
    np.testing.assert_allclose(W_s2a(n, everybody), Pi(n))
    np.testing.assert_array_equal(W_s2s(n, [1]), np.eye(n))
    np.testing.assert_array_equal(X := np.arange(n) @ W_s2a(n, [1]), np.ones_like(X))
    for K in everybody[1:]:
        np.testing.assert_allclose(over_samples(n, K, lambda S: W_s2a(n, S)), Pi(n), atol=1e-12)


@pytest.mark.parametrize(
    ("K", "s2s", "s2a"),
    [(1, 14, 14), (2, 9.333333, 4.666667), (3, 4.666667, 1.555556), (4, 0, 0)],
)
def test_oracle_of_one_server_round(K, s2s, s2a):
    """X = [1, 2, 3, 6]: disagreement left by S2S and bias made by S2A, over all S."""
    assert disagreement(X_ORACLE) == 14
    left = over_samples(4, K, lambda S: disagreement(X_ORACLE @ W_s2s(4, S)))
    moved = over_samples(4, K, lambda S: bias(X_ORACLE, X_ORACLE @ W_s2a(4, S)))
    assert left == pytest.approx(s2s, abs=5e-7)
    assert left == pytest.approx(delta(4, K) * 14)
    assert moved == pytest.approx(s2a, abs=5e-7)
    assert moved == pytest.approx(kappa(4, K) * 14)


@settings(deadline=None)
@given(arrays(float, (2, 5), elements=st.floats(-10, 10)), st.integers(1, 5), st.floats(0, 1))
def test_blend_in_expectation(X, K, beta):
    """Over all S a blend leaves (1-beta)^2 delta of disagreement and makes beta^2 kappa of bias."""
    left = over_samples(5, K, lambda S: disagreement(X @ W_blend(5, S, beta)))
    moved = over_samples(5, K, lambda S: bias(X, X @ W_blend(5, S, beta)))
    D = disagreement(X)
    assert left == pytest.approx((1 - beta) ** 2 * delta(5, K) * D, abs=1e-9)
    assert moved == pytest.approx(beta**2 * kappa(5, K) * D, abs=1e-9)


@settings(deadline=None)
@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 20), st.integers(0, 20), st.floats(0, 1))
def test_best_beta_is_best(a, b, K, unsampled, other):
    """No beta has a lower weighted error after one server round than best_beta."""
    if a + b == 0:
        return
    n = K + unsampled + 1

    def error(beta):
        return a * (1 - beta) ** 2 * delta(n, K) + b * beta**2 * kappa(n, K)

    assert error(best_beta(a, b, K)) <= error(other) + 1e-12


@settings(deadline=None)
@given(arrays(float, (2, 6), elements=st.floats(-10, 10)))
def test_disagreement_splits(X):
    """Intra and inter add up to the whole; one component has no inter, lone devices no intra."""
    intra, inter = split_disagreement(X, (1, 2, 3))
    assert intra + inter == pytest.approx(disagreement(X), abs=1e-9)
    assert split_disagreement(X, (6,)).inter == pytest.approx(0, abs=1e-18)
    assert split_disagreement(X, [1] * 6).intra == pytest.approx(0, abs=1e-18)
    assert split_disagreement(X @ Pi_C((1, 2, 3)), (1, 2, 3)).intra == pytest.approx(0, abs=1e-18)


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_expected_gram_is_the_mean_over_all_samples(n, beta):
    """E[W G W] in closed form equals the mean over every S, for any centred G."""
    X = np.random.default_rng(n).normal(size=(3, n))
    X -= X.mean(axis=1, keepdims=True)
    for K in range(1, n + 1):

        def after(S):
            Y = X @ W_blend(n, S, beta)
            Y = Y - Y.mean(axis=1, keepdims=True)
            return Y.T @ Y

        mean = over_samples(n, K, after)
        np.testing.assert_allclose(expected_gram(X.T @ X, K, beta), mean, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "K", "matrix"),
    [
        ((2, 2), 2, [[0.583333, 0.166667], [0.083333, 0.500000]]),
        ((50, 50), 20, [[0.806500, 0.154960], [0.001581, 0.653121]]),
        ((2, 2, 2), 3, [[0.488889, 0.166667], [0.111111, 0.433333]]),
    ],
)
def test_exchange_oracles(sizes, K, matrix):
    """The exchange matrices of equal components, to six digits."""
    np.testing.assert_allclose(exchange_matrix(sizes, K), matrix, atol=5.1e-7)


@pytest.mark.parametrize(("C", "m"), [(2, 2), (2, 3), (3, 2), (4, 1), (1, 5)])
def test_equal_components_exchange_exactly(C, m):
    """With equal components M maps the two energies exactly, and its columns add up to delta."""
    n, sizes = C * m, [m] * C
    X = np.random.default_rng(0).normal(size=(2, n))
    before = np.array(split_disagreement(X, sizes))
    for K in range(1, n + 1):
        M = exchange_matrix(sizes, K)
        after = over_samples(n, K, lambda S: split_disagreement(X @ W_s2s(n, S), sizes))
        np.testing.assert_allclose(M @ before, after, atol=1e-12)
        if C > 1 and m > 1:
            np.testing.assert_allclose(M.sum(axis=0), delta(n, K), atol=1e-12)
        np.testing.assert_allclose(exchange_matrix(sizes, K, 0.4), 0.36 * M)


@pytest.mark.parametrize(("C", "m", "K"), [(2, 2, 2), (2, 5, 4), (3, 2, 3), (3, 3, 5)])
def test_exchange_by_hypergeometric_sums(C, m, K):
    """The leak alpha agrees with its sum over how many devices each component has in S."""
    n = C * m
    leak = 0.0
    for S in all_samples(n, K):
        counts = np.bincount(np.array(S) // m, minlength=C)
        shares = np.sum(counts**2) / K**2 - 2 * counts / K + 1
        leak += np.sum(counts * (1 - counts / m) * shares) / (m * (C - 1)) / comb(n, K)
    back = leak * (C - 1) / (n - C)
    expected = [[delta(n, K) - back, leak], [back, delta(n, K) - leak]]
    np.testing.assert_allclose(exchange_matrix([m] * C, K), expected, atol=1e-12)


@pytest.mark.parametrize("sizes", [(1, 4), (2, 3), (1, 1, 4), (1, 2, 3)])
@settings(deadline=None)
@given(X=arrays(float, (2, 6), elements=st.floats(-10, 10)), K=st.integers(1, 5))
def test_unequal_components_are_bounded(sizes, X, K):
    """With unequal components M bounds both energies from above, whatever X is."""
    n = sum(sizes)
    X = X[:, :n]
    G = X - X.mean(axis=1, keepdims=True)
    after = expected_gram(G.T @ G, K)
    intra, inter = np.eye(n) - Pi_C(sizes), Pi_C(sizes) - Pi(n)
    limit = exchange_matrix(sizes, K) @ split_disagreement(X, sizes)
    assert np.sum(after * intra) <= limit[0] + 1e-9
    assert np.sum(after * inter) <= limit[1] + 1e-9


def test_unequal_components_leak_as_their_bound_says():
    """Each entry of an unequal M is reached by some X: K = 2 of components of 2 and 4."""
    sizes, n, K = (2, 4), 6, 2
    M = exchange_matrix(sizes, K)
    small, large = np.array([[1.0, -1, 0, 0, 0, 0]]), np.array([[0.0, 0, 1, -1, 0, 0]])
    between = np.array([[2.0, 2, -1, -1, -1, -1]])

    def after(X):
        mean = over_samples(n, K, lambda S: split_disagreement(X @ W_s2s(n, S), sizes))
        return mean / disagreement(X)

    assert M[0, 0] == pytest.approx(max(after(small)[0], after(large)[0]))
    assert M[1, 0] == pytest.approx(max(after(small)[1], after(large)[1]))
    np.testing.assert_allclose(M[:, 1], after(between))


@pytest.mark.parametrize("sizes", [(1, 2), (2, 2), (5,), (1, 1, 1), (4, 1, 7)])
def test_limits_of_exchange(sizes):
    """Everybody sampled leaves nothing, one changes nothing, exactly; no entry is below 0."""
    n = sum(sizes)
    np.testing.assert_array_equal(exchange_matrix(sizes, n), np.zeros((2, 2)))
    present = np.diag([max(sizes) > 1, len(sizes) > 1])
    np.testing.assert_array_equal(exchange_matrix(sizes, 1), present)
    assert all(exchange_matrix(sizes, K).min() >= 0 for K in range(1, n + 1))


def test_intra_does_not_contract_by_delta():
    """S2S turns disagreement between components into disagreement inside them."""
    X = np.repeat([[1.0, -1.0]], 2, axis=1)
    assert split_disagreement(X, (2, 2)).intra == 0
    leaked = over_samples(4, 2, lambda S: split_disagreement(X @ W_s2s(4, S), (2, 2)).intra)
    assert leaked > 0


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_delta_kappa_q_are_one_family(n, data):
    """kappa = delta/K and q = 1/(1-delta); a lone device has nothing to disagree with."""
    K = data.draw(st.integers(1, n))
    assert kappa(n, K) == pytest.approx(delta(n, K) / K)
    if n > 1 and K == 1:
        assert q(n, K) == np.inf
    else:
        assert q(n, K) == pytest.approx(1 / (1 - delta(n, K)))
    np.testing.assert_array_equal(delta([n, n], [K, n]), [delta(n, K), 0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: delta(10, 0), "sampled must be between 1 and devices (got 0 of 10"),
        (lambda: q(10, 11), "sampled must be between 1 and devices (got 11 of 10"),
        (lambda: W_s2s(3, [0, 0]), "each once"),
        (lambda: W_s2a(3, []), "at least one device"),
        (lambda: W_blend(3, [0], 1.5), "beta must be between 0 (S2S) and 1 (S2A) (got 1.5)"),
        (lambda: exchange_matrix((0, 2), 1), "at least one device"),
        (lambda: best_beta(0, 0, 3), "not both 0"),
    ],
)
def test_wrong_input_is_explained(call, words):
    """Bad input is met with one line that says the rule."""
    with pytest.raises(SkerryError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
