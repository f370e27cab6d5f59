"""How many devices of each island a rule samples: its *law of counts*.

Inside an island the sampled devices are a uniform draw, so all that a rule of selection decides is
how likely it is that K_1, ..., K_C devices of the islands are sampled.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from skerry.errors import SkerryError, did_you_mean
from skerry.theory.operators import Array, check_sampled

RULES = ("uniform", "per_component", "one_each", "bernoulli")
"""The rules of `server.selection` that have a law."""

MOST_COUNTS = 200_000
"""Vectors of counts that a law is written out for."""


class Likely(NamedTuple):
    chance: float
    counts: tuple[int, ...]


Law = Sequence[Likely]


def law(
    rule: str, sizes: Sequence[int], K: int, *, sample_prob: float | None = None
) -> list[Likely]:
    """How many devices of each island a built-in rule samples, with what chance."""
    check_rule(rule)
    check_sampled(sum(sizes), K)
    if rule == "uniform":
        return list(_uniform(sizes, K))
    if rule == "per_component":
        return _peeled(sizes, K)
    if rule == "one_each":
        return [Likely(1.0, _one_each(sizes, K))]
    return list(_bernoulli(sizes, K / sum(sizes) if sample_prob is None else sample_prob))


def check_rule(rule: str) -> None:
    if rule not in RULES:
        raise SkerryError(
            f"the theory has no law of counts for selection '{rule}'{did_you_mean(rule, RULES)} "
            f"It knows {', '.join(RULES)}."
        )


def one_for_all(C: int, K: int) -> Law:
    """per_component on C islands of the same size: K mod C of them, drawn uniformly, have one
    device more. One vector stands for all of its permutations."""
    each, rest = divmod(K, C)
    return [Likely(1.0, (each + 1,) * rest + (each,) * (C - rest))]


def binomial(n: int, q: float) -> Array:
    """The chances that 0, 1, ..., n of n devices are sampled, each with chance q."""
    from scipy.special import betaln, xlog1py, xlogy

    k = np.arange(n + 1)
    ways = -betaln(1 + n - k, 1 + k) - math.log(n + 1)  # log of n over k
    return np.asarray(np.exp(ways + xlogy(k, q) + xlog1py(n - k, -q)))


def _uniform(sizes: Sequence[int], K: int) -> Iterator[Likely]:
    """Multivariate hypergeometric."""
    ways = math.comb(sum(sizes), K)
    for found in _vectors(sizes, K):
        chosen = math.prod(math.comb(n, k) for n, k in zip(sizes, found, strict=True))
        yield Likely(chosen / ways, found)


def _bernoulli(sizes: Sequence[int], q: float) -> Iterator[Likely]:
    for K, total in enumerate(binomial(sum(sizes), q).tolist()):
        for chance, found in _uniform(sizes, K):
            yield Likely(total * chance, found)


def _one_each(sizes: Sequence[int], K: int) -> tuple[int, ...]:
    each, rest = divmod(K, len(sizes))
    if rest:
        raise SkerryError(
            "sampled must be a multiple of the number of islands for one_each (got "
            f"{K} for {len(sizes)}). Change it, or ask about per_component."
        )
    return tuple(min(each, size) for size in sizes)


def _peeled(sizes: Sequence[int], K: int) -> list[Likely]:
    """Islands take their places one after the other, the smallest first: of k places that are left
    inside the sample, island c takes k n_c / n_left, rounded up or down by chance."""
    order = sorted(range(len(sizes)), key=lambda c: (sizes[c], c))
    grown: list[Likely] = [Likely(1.0, ())]
    n_left = sum(sizes)
    for c in order:
        before, grown = grown, []
        for chance, counts in before:
            low, rest = divmod((K - sum(counts)) * sizes[c], n_left)
            grown.append(Likely(chance * (1 - rest / n_left), (*counts, low)))
            if rest:
                grown.append(Likely(chance * (rest / n_left), (*counts, low + 1)))
        if len(grown) > MOST_COUNTS:
            raise SkerryError(_too_many(len(sizes)))
        n_left -= sizes[c]
    place = np.argsort(order)
    return [Likely(chance, tuple(counts[i] for i in place)) for chance, counts in grown]


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
