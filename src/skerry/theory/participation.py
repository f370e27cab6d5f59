"""The exact expected effect of one server round under a selection rule.

There is a formula given the number of sampled devices per island, which is averaged over the law of
counts of the rule. Symbols: islands of n_c devices with mean m_c, K_c of them sampled,
f_c = K_c/n_c, and theta_c = K_c (n_c - K_c) / (n_c (n_c - 1)). Disagreement and bias are sums over
devices.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.linalg import eigvalsh

from skerry.errors import SkerryError
from skerry.theory import counts, operators
from skerry.theory.counts import Law
from skerry.theory.operators import Array

WEIGHTS = ("equal", "stratified")
"""Weights in the average that S2A delivers: of devices equally, or of islands by their size."""


class ExchangeCoefficients(NamedTuple):
    """Expected effect of a server round on the disagreement (A, B) inside and between islands. S2S
    leaves at most M (A, B); the bias of S2A is at most kappa_intra A + kappa_inter B."""

    kappa_intra: float
    kappa_inter: float
    M: Array


@lru_cache(maxsize=1000)
def exchange_under(rule: str, weights: str, sizes: tuple[int, ...], K: int) -> ExchangeCoefficients:
    """Coefficients of a built-in selection rule: exact for equal islands, else upper bounds.
    `sizes` are those of the islands; with bernoulli, K is the mean number of sampled devices."""
    counts.check_rule(rule)
    n, C = sum(sizes), len(sizes)
    # one_each always weighs islands by their size, because its sampling probabilities differ.
    stratified = weights == "stratified" or rule == "one_each"
    if rule == "uniform" and not stratified:
        kappa = float(operators.kappa(n, K))
        return ExchangeCoefficients(kappa, kappa, operators.exchange_matrix(sizes, K))
    if rule == "bernoulli" and not stratified:
        return _bernoulli_exchange(sizes, K / n)
    symmetric = rule == "per_component" and len(set(sizes)) == 1
    law = counts.equal_islands_law(C, K) if symmetric else counts.law_of_counts(rule, sizes, K)
    return exchange_from_law(sizes, law, stratified=stratified, symmetric=symmetric)


def has_exchange(rule: str, weights: str, sizes: tuple[int, ...], K: int) -> bool:
    """Whether `exchange_under` covers the rule, with a law short enough to enumerate."""
    try:
        exchange_under(rule, weights, sizes, K)
    except SkerryError:
        return False
    return weights in WEIGHTS


def _bernoulli_exchange(sizes: tuple[int, ...], q: float) -> ExchangeCoefficients:
    """Bernoulli sampling with probability q: uniform sampling of a binomial number of devices."""
    n = sum(sizes)
    idle, *probabilities = counts.binomial_probabilities(n, q).tolist()
    moments = np.array([operators.sampling_moments(n, K) for K in range(1, n + 1)])
    a, b, c = probabilities @ moments
    kappa = float(probabilities @ operators.kappa(n, np.arange(1, n + 1)))
    M = operators.exchange_by_moments(sizes, (a + idle, b, c))
    return ExchangeCoefficients(kappa, kappa, M)


def exchange_from_law(
    sizes: Sequence[int], law: Law, *, stratified: bool = False, symmetric: bool = False
) -> ExchangeCoefficients:
    """Coefficients of a law of counts: exact for equal islands, else upper bounds.

    For unequal islands every entry is the largest over all models. `stratified`: S2A weighs islands
    by their size when every island is sampled. `symmetric`: islands have equal size and the rule
    treats them alike, so that an outcome represents all of its permutations.
    """
    n_c = np.asarray(sizes, float)
    chance_m = np.array([probability for probability, _ in law])
    K_mc = np.array([K_c for _, K_c in law], float)
    somebody = K_mc.any(axis=1)
    idle = chance_m[~somebody].sum()
    chance_m, K_mc = chance_m[somebody], K_mc[somebody]
    K_m1, n = K_mc.sum(axis=1, keepdims=True), n_c.sum()
    f, theta = K_mc / n_c, K_mc * (n_c - K_mc) / (n_c * np.maximum(n_c - 1, 1))
    by_size = _has_every_island(n_c, K_mc) if stratified else np.zeros(len(K_mc), bool)
    weight_mc = np.where(by_size[:, None], n_c / np.maximum(K_mc, 1) / n, 1 / K_m1)

    # With h = K_c / sqrt(n_c), the mean of the sampled devices is sum h_c (sqrt(n_c) m_c) / K; S2S
    # replaces the share f_c of island c by it.
    h = K_mc / np.sqrt(n_c)
    square_m1 = (h**2).sum(axis=1, keepdims=True)
    leak = theta * ((1 - 2 * K_mc / K_m1) / n_c + square_m1 / K_m1**2)

    def mean(x_mc: Array) -> Array:
        return np.asarray(chance_m @ x_mc)

    def outer(x_mc: Array, y_mc: Array) -> Array:
        return np.asarray((chance_m[:, None] * x_mc).T @ y_mc)

    crossed = outer((1 - f) * h, h / K_m1)
    kept_inter = (
        np.diag(mean((1 - f) ** 2)) + crossed + crossed.T + outer(square_m1 * h / K_m1, h / K_m1)
    )
    after = np.diag(mean(1 - f)) + outer(h / K_m1, h)
    moved = outer(np.where(by_size[:, None], 0, n * h / K_m1), h / K_m1)
    kept_c = mean(1 - f + theta / K_m1 - leak) + idle

    def inside(x_c: Array) -> float:
        x_c = x_c[n_c > 1]
        return float(x_c.mean() if symmetric and len(x_c) else x_c.max(initial=0.0))

    between = partial(_between, n_c=n_c, symmetric=symmetric)
    to_intra = inside(kept_c), between(after - kept_inter)
    to_inter = inside(mean(leak)), between(kept_inter + idle * np.eye(len(n_c)))
    kappas = inside(mean(theta * weight_mc**2 * n)), between(moved)
    return ExchangeCoefficients(*kappas, np.array([to_intra, to_inter]))


def _has_every_island(n_c: Array, K_mc: Array) -> npt.NDArray[np.bool_]:
    """Mask of the outcomes with a device of every island. The others use the plain mean, which on
    islands of unequal sizes is biased towards some of them, and that is refused."""
    complete = np.asarray(K_mc.all(axis=1))
    if not complete.all() and len(set(n_c)) > 1:
        raise SkerryError(
            "stratified weights on islands of several sizes have bounds only where every island is "
            "in every sample: else what S2A delivers leans to some of them. Sample more devices, "
            "or use one_each."
        )
    return complete


def _between(matrix: Array, n_c: Array, symmetric: bool) -> float:
    """Largest (symmetric: mean) eigenvalue of a matrix among differences of island means."""
    if len(n_c) == 1:
        return 0.0
    basis = operators.differences_of_means(n_c)
    restricted = basis.T @ matrix @ basis
    found = np.trace(restricted) / (len(n_c) - 1) if symmetric else eigvalsh(restricted)[-1]
    return max(0.0, float(found))  # negative by rounding only
