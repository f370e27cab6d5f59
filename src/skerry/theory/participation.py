"""What one server round does under any rule of selection, exactly.

Given how many devices of each island are sampled everything is a formula; averaged over the rule's
law of counts it is what the rule does. Symbols: islands of n_c devices with mean m_c,
mu_c = m_c - xbar, D_c = sum ||x_i - m_c||^2, f_c = K_c/n_c, and
theta_c = K_c (n_c - K_c) / (n_c (n_c - 1)). Energies are sums over devices.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skerry.errors import SkerryError
from skerry.theory import operators
from skerry.theory.counts import Law, binomial, check_rule, law, one_for_all
from skerry.theory.operators import Array

WEIGHTS = ("equal", "stratified")
"""What S2A delivers: the mean of the sampled devices, or islands weighed by their size."""


class Expected(NamedTuple):
    """After one server round, on average over who is sampled."""

    s2s_intra: float
    s2s_inter: float
    s2a_bias: float

    def blend(self, beta: float) -> "Expected":
        """(1 - beta)^2 of the disagreement that S2S leaves, beta^2 of S2A's bias."""
        kept, turned = (1 - beta) ** 2, beta**2
        return Expected(kept * self.s2s_intra, kept * self.s2s_inter, turned * self.s2a_bias)


def expected(
    sizes: Sequence[int],
    counts: Law,
    D_c: npt.ArrayLike,
    means_cd: npt.ArrayLike,
    *,
    stratified: bool = False,
) -> Expected:
    """From the energies inside islands and the islands' means. `stratified` weighs islands by their
    size in what S2A delivers, where every one of them is sampled."""
    n_c, D_c = np.asarray(sizes, float), np.asarray(D_c, float)
    means = np.asarray(means_cd, float).reshape(len(n_c), -1)
    mu = means - n_c @ means / n_c.sum()
    total = np.zeros(3)
    for chance, found in counts:
        total += chance * np.array(_given(n_c, np.array(found, float), D_c, mu, stratified))
    return Expected(*total.tolist())


def _given(
    n_c: Array, K_c: Array, D_c: Array, mu: Array, stratified: bool
) -> tuple[float, float, float]:
    """Given how many were sampled of each island."""
    n, K = n_c.sum(), K_c.sum()
    inter = n_c @ (mu**2).sum(axis=1)
    if K == 0:
        return float(D_c.sum()), float(inter), 0.0
    f, theta = K_c / n_c, _theta(n_c, K_c)
    drawn = (K_c / K) @ mu
    whole = D_c @ (1 - f + theta / K) + (n_c - K_c) @ (mu**2).sum(axis=1) + K * (drawn**2).sum()
    moved = (1 - f)[:, None] * mu + f[:, None] * drawn
    leak = theta * ((1 - 2 * K_c / K) / n_c + (K_c**2 / n_c).sum() / K**2)
    left_inter = n_c @ (moved**2).sum(axis=1) + D_c @ leak
    if stratified and K_c.all():
        bias = (n_c**2 / K_c**2 / n) @ (theta * D_c)
    else:
        bias = n * (drawn**2).sum() + n / K**2 * (theta @ D_c)
    return float(whole - left_inter), float(left_inter), float(bias)


class Exchange(NamedTuple):
    """What the certified recursion needs of a rule: S2A's bias is at most kappa_intra A +
    kappa_inter B, and S2S makes of (A, B) at most M (A, B)."""

    kappa_intra: float
    kappa_inter: float
    M: Array


@lru_cache(maxsize=1000)
def exchange_under(rule: str, weights: str, sizes: tuple[int, ...], K: int) -> Exchange:
    """Of a built-in rule of selection: exact for equal islands, else an upper bound.

    With bernoulli K is the mean number of sampled devices.
    """
    check_rule(rule)
    n, C = sum(sizes), len(sizes)
    # one_each weighs islands by their size itself: its chances are not equal.
    stratified = weights == "stratified" or rule == "one_each"
    if rule == "uniform" and not stratified:
        kappa = float(operators.kappa(n, K))
        return Exchange(kappa, kappa, operators.exchange_matrix(sizes, K))
    if rule == "bernoulli" and not stratified:
        return _by_coins(sizes, K / n)
    if rule == "per_component" and len(set(sizes)) == 1:
        return exchange(sizes, one_for_all(C, K), stratified=stratified, alike=True)
    return exchange(sizes, law(rule, sizes, K), stratified=stratified)


def has_bounds(rule: str, weights: str, sizes: tuple[int, ...], K: int) -> bool:
    """Whether there is a law of counts, short enough to write out, and an exchange under it."""
    try:
        exchange_under(rule, weights, sizes, K)
    except SkerryError:
        return False
    return weights in WEIGHTS


def _by_coins(sizes: tuple[int, ...], q: float) -> Exchange:
    """Bernoulli sampling: uniform sampling of a number of devices that is drawn first."""
    n = sum(sizes)
    idle, *chances = binomial(n, q).tolist()
    moments = np.array([operators.sampling_moments(n, K) for K in range(1, n + 1)])
    a, b, c = chances @ moments
    kappa = float(chances @ operators.kappa(n, np.arange(1, n + 1)))
    return Exchange(kappa, kappa, operators.exchange_by_moments(sizes, (a + idle, b, c)))


def exchange(
    sizes: Sequence[int], counts: Law, *, stratified: bool = False, alike: bool = False
) -> Exchange:
    """Exact for equal islands; else every entry is the largest that any models reach, so that it
    bounds from above. `alike` says that islands are of equal size and that the rule treats them
    alike: one vector of counts then stands for all of its permutations.

    `stratified` weighs islands by their size where every one of them is sampled; else all devices
    weigh alike, as in a run.
    """
    n_c = np.asarray(sizes, float)
    chance_m = np.array([chance for chance, _ in counts])
    K_mc = np.array([found for _, found in counts], float)
    somebody = K_mc.any(axis=1)
    idle = chance_m[~somebody].sum()
    chance_m, K_mc = chance_m[somebody], K_mc[somebody]
    K_m1, n = K_mc.sum(axis=1, keepdims=True), n_c.sum()
    f, theta = K_mc / n_c, _theta(n_c, K_mc)
    by_size = _weighed_by_size(n_c, K_mc) if stratified else np.zeros(len(K_mc), bool)
    weight_mc = np.where(by_size[:, None], n_c / np.maximum(K_mc, 1) / n, 1 / K_m1)

    # h is K_c / sqrt(n_c): the mean of the sampled is sum h_c (sqrt(n_c) m_c) / K, S2S puts it
    # in the place of f_c of island c.
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
    inside, between = (_mean, _mean_between) if alike else (_largest, _largest_between)
    has_inside = n_c > 1
    return Exchange(
        inside(mean(theta * weight_mc**2 * n)[has_inside]),
        between(moved, n_c),
        np.array(
            [
                [inside(kept_c[has_inside]), between(after - kept_inter, n_c)],
                [
                    inside(mean(leak)[has_inside]),
                    between(kept_inter + idle * np.eye(len(n_c)), n_c),
                ],
            ]
        ),
    )


def _weighed_by_size(n_c: Array, K_mc: Array) -> npt.NDArray[np.bool_]:
    """Which counts have a device of every island. Where one may be missed, the plain mean takes
    over; on islands of several sizes this leans to some of them."""
    complete = np.asarray(K_mc.all(axis=1))
    if not complete.all() and len(set(n_c)) > 1:
        raise SkerryError(
            "stratified weights on islands of several sizes have bounds only where every island is "
            "in every sample: else what S2A delivers leans to some of them. Sample more devices, "
            "or use one_each."
        )
    return complete


def _theta(n_c: Array, K_c: Array) -> Array:
    return np.asarray(K_c * (n_c - K_c) / (n_c * np.maximum(n_c - 1, 1)))


def _largest(values: Array) -> float:
    return float(values.max(initial=0.0))


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


def _largest_between(matrix: Array, n_c: Array) -> float:
    """The largest eigenvalue among differences of islands' means: off sqrt(n_c / n)."""
    if len(n_c) == 1:
        return 0.0
    largest = np.linalg.eigvalsh(_among_differences(matrix, n_c))[-1]
    return max(0.0, float(largest))  # energies: below 0 is rounding


def _mean_between(matrix: Array, n_c: Array) -> float:
    if len(n_c) == 1:
        return 0.0
    return max(0.0, float(np.trace(_among_differences(matrix, n_c)) / (len(n_c) - 1)))


def _among_differences(matrix: Array, n_c: Array) -> Array:
    z = np.sqrt(n_c / n_c.sum())
    basis = np.linalg.svd(z[None, :])[2][1:].T
    return np.asarray(basis.T @ matrix @ basis)
