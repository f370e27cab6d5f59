"""What one server round does under any rule of selection, exactly.

Inside an island the sampled devices are a uniform draw, so a rule is known by its *law of counts*:
how likely it is that K_1, ..., K_C devices of the islands are sampled. Given the counts everything
is a formula; averaged over the law it is what the rule does. Symbols: islands of n_c devices with
mean m_c, mu_c = m_c - xbar, D_c = sum ||x_i - m_c||^2, f_c = K_c/n_c, and
theta_c = K_c (n_c - K_c) / (n_c (n_c - 1)). Energies are sums over devices.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skerry.errors import SkerryError
from skerry.theory.operators import Array, check_sampled

MOST_COUNTS = 200_000
"""Vectors of counts that a law is written out for."""


class Likely(NamedTuple):
    chance: float
    counts: tuple[int, ...]


Law = Sequence[Likely]


class Expected(NamedTuple):
    """After one server round, on average over who is sampled."""

    s2s_intra: float
    s2s_inter: float
    s2a_bias: float

    def blend(self, beta: float) -> "Expected":
        """(1 - beta)^2 of the disagreement that S2S leaves, beta^2 of S2A's bias."""
        kept, turned = (1 - beta) ** 2, beta**2
        return Expected(kept * self.s2s_intra, kept * self.s2s_inter, turned * self.s2a_bias)


def law(
    rule: str, sizes: Sequence[int], K: int, *, sample_prob: float | None = None
) -> list[Likely]:
    """How many devices of each island a built-in rule samples, with what chance."""
    check_sampled(sum(sizes), K)
    if rule == "uniform":
        return list(_uniform(sizes, K))
    if rule == "per_component":
        return list(_peeled(sizes, K))
    if rule == "one_each":
        each, rest = divmod(K, len(sizes))
        if rest:
            raise SkerryError(
                "sampled must be a multiple of the number of islands for one_each (got "
                f"{K} for {len(sizes)}). Change it, or ask about per_component."
            )
        return [Likely(1.0, tuple(min(each, size) for size in sizes))]
    if rule == "bernoulli":
        q = K / sum(sizes) if sample_prob is None else sample_prob
        return list(_bernoulli(sizes, q))
    raise SkerryError(
        f"there is no law of counts for the rule '{rule}'. The theory knows uniform, "
        "per_component, one_each and bernoulli."
    )


def expected(
    sizes: Sequence[int],
    counts: Law,
    D_c: npt.ArrayLike,
    means_cd: npt.ArrayLike,
    *,
    stratified: bool = False,
) -> Expected:
    """From the energies inside islands and the islands' means. `stratified` weighs islands by their
    size in what S2A delivers; it needs every island in every sample."""
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
    if stratified:
        _require_all(K_c)
        bias = (n_c / n) @ (_kappa(n_c, K_c) * D_c)
    else:
        bias = n * (drawn**2).sum() + n / K**2 * (theta @ D_c)
    return float(whole - left_inter), float(left_inter), float(bias)


class Exchange(NamedTuple):
    """What the certified recursion needs of a rule: S2A's bias is at most kappa_intra A +
    kappa_inter B, and S2S makes of (A, B) at most M (A, B)."""

    kappa_intra: float
    kappa_inter: float
    M: Array


def exchange(sizes: Sequence[int], counts: Law, *, stratified: bool = False) -> Exchange:
    """Exact for equal islands; else every entry is the largest that any models reach, so that it
    bounds from above."""
    n_c = np.asarray(sizes, float)
    n, C = n_c.sum(), len(n_c)
    bias_c, kept_c, leak_c = np.zeros(C), np.zeros(C), np.zeros(C)
    bias_inter, kept_inter, from_inter = (np.zeros((C, C)) for _ in range(3))
    for chance, found in counts:
        K_c = np.array(found, float)
        K = K_c.sum()
        if K == 0:
            kept_c += chance
            kept_inter += chance * np.eye(C)
            continue
        f, theta = K_c / n_c, _theta(n_c, K_c)
        rho, h = K_c / (K * np.sqrt(n_c)), K_c / np.sqrt(n_c)
        if stratified:
            _require_all(K_c)
            bias_c += chance * theta * n_c**2 / K_c**2 / n
        else:
            bias_c += chance * theta * n / K**2
            bias_inter += chance * n * np.outer(rho, rho)
        leak = theta * ((1 - 2 * K_c / K) / n_c + (K_c**2 / n_c).sum() / K**2)
        leak_c += chance * leak
        kept_c += chance * (1 - f + theta / K - leak)
        A = np.diag(1 - f) + np.outer(np.sqrt(n_c) * f, rho)
        kept_inter += chance * A.T @ A
        from_inter += chance * (np.diag(1 - f) + np.outer(h, h) / K - A.T @ A)
    inside = n_c > 1
    M = np.array(
        [
            [_largest(kept_c[inside]), _largest_between(from_inter, n_c)],
            [_largest(leak_c[inside]), _largest_between(kept_inter, n_c)],
        ]
    )
    return Exchange(_largest(bias_c[inside]), _largest_between(bias_inter, n_c), M)


# Laws of counts


def _uniform(sizes: Sequence[int], K: int) -> Iterator[Likely]:
    """Multivariate hypergeometric."""
    ways = math.comb(sum(sizes), K)
    for found in _vectors(sizes, K):
        chosen = math.prod(math.comb(n, k) for n, k in zip(sizes, found, strict=True))
        yield Likely(chosen / ways, found)


def _bernoulli(sizes: Sequence[int], q: float) -> Iterator[Likely]:
    n = sum(sizes)
    for K in range(n + 1):
        total = math.comb(n, K) * q**K * (1 - q) ** (n - K)
        for chance, found in _uniform(sizes, K):
            yield Likely(total * chance, found)


def _peeled(sizes: Sequence[int], K: int) -> Iterator[Likely]:
    """Islands take their places one after the other, the smallest first: of k places that are left
    inside the sample, island c takes k n_c / n_left, rounded up or down by chance."""
    order = sorted(range(len(sizes)), key=lambda c: (sizes[c], c))

    def further(place: int, k: int, left: int) -> Iterator[tuple[float, dict[int, int]]]:
        if place == len(order):
            yield 1.0, {}
            return
        c = order[place]
        low, rest = divmod(k * sizes[c], left)
        for count, chance in ((low, 1 - rest / left), (low + 1, rest / left)):
            if chance > 0:
                for more, found in further(place + 1, k - count, left - sizes[c]):
                    yield chance * more, found | {c: count}

    if 2 ** (len(sizes) - 1) > MOST_COUNTS:
        raise SkerryError(_too_many(len(sizes)))
    for chance, found in further(0, K, sum(sizes)):
        yield Likely(chance, tuple(found[c] for c in range(len(sizes))))


def _vectors(sizes: Sequence[int], K: int) -> Iterator[tuple[int, ...]]:
    """All counts that add up to K."""
    if math.prod(min(n, K) + 1 for n in sizes[:-1]) > MOST_COUNTS:
        raise SkerryError(_too_many(len(sizes)))

    def further(place: int, left: int) -> Iterator[tuple[int, ...]]:
        if place == len(sizes) - 1:
            if left <= sizes[place]:
                yield (left,)
            return
        for count in range(min(sizes[place], left) + 1):
            for more in further(place + 1, left - count):
                yield (count, *more)

    yield from further(0, K)


def _too_many(islands: int) -> str:
    return (
        f"{islands} islands have too many possible counts to write out. Ask about fewer islands, "
        "or about one_each, whose counts are fixed."
    )


def _theta(n_c: Array, K_c: Array) -> Array:
    return np.asarray(K_c * (n_c - K_c) / (n_c * np.maximum(n_c - 1, 1)))


def _kappa(n_c: Array, K_c: Array) -> Array:
    return np.asarray((n_c - K_c) / (K_c * np.maximum(n_c - 1, 1)))


def _largest(values: Array) -> float:
    return float(values.max(initial=0.0))


def _largest_between(matrix: Array, n_c: Array) -> float:
    """The largest eigenvalue among differences of islands' means: off sqrt(n_c / n)."""
    if len(n_c) == 1:
        return 0.0
    z = np.sqrt(n_c / n_c.sum())
    basis = np.linalg.svd(z[None, :])[2][1:].T
    return float(np.linalg.eigvalsh(basis.T @ matrix @ basis)[-1])


def _require_all(K_c: Array) -> None:
    if (K_c == 0).any():
        raise SkerryError(
            "islands can be weighed by their size only where every one of them is sampled. Sample "
            "more devices, or use one_each."
        )
