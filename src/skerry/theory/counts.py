"""The law of counts of a selection rule: the distribution of sampled devices per island.

Inside an island the sampled devices are a uniform draw, so that a selection rule is determined by
the probability of sampling K_1, ..., K_C devices of the islands.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from skerry.errors import SkerryError, did_you_mean
from skerry.theory.operators import Array, check_sampled

RULES = ("uniform", "per_component", "one_each", "bernoulli")
"""Rules of `server.selection` whose law of counts is known."""

MAX_OUTCOMES = 200_000  # largest number of outcomes for which a law is enumerated


class CountOutcome(NamedTuple):
    """Possible numbers of sampled devices per island, and their probability."""

    probability: float
    counts: tuple[int, ...]


Law = Sequence[CountOutcome]


def law_of_counts(rule: str, sizes: Sequence[int], K: int) -> list[CountOutcome]:
    """All outcomes of a built-in rule that samples K devices (bernoulli: on average)."""
    check_rule(rule)
    check_sampled(sum(sizes), K)
    if rule == "uniform":
        return list(_uniform(sizes, K))
    if rule == "per_component":
        return _per_component(sizes, K)
    if rule == "one_each":
        return _one_each(sizes, K)
    totals = binomial_probabilities(sum(sizes), K / sum(sizes)).tolist()
    return [  # uniform sampling of a binomial number of devices
        CountOutcome(total * probability, counts)
        for k, total in enumerate(totals)
        for probability, counts in _uniform(sizes, k)
    ]


def check_rule(rule: str) -> None:
    if rule not in RULES:
        raise SkerryError(
            f"the theory has no law of counts for selection '{rule}'{did_you_mean(rule, RULES)} "
            f"It knows {', '.join(RULES)}."
        )


def equal_islands_law(C: int, K: int) -> Law:
    """Law of per_component on C islands of equal size, as one outcome up to permutation. K mod C of
    the islands, drawn uniformly, have one sampled device more than the others."""
    each, rest = divmod(K, C)
    return [CountOutcome(1.0, (each + 1,) * rest + (each,) * (C - rest))]


def binomial_probabilities(n: int, q: float) -> Array:
    """Probabilities that 0, 1, ..., n of n devices are sampled, each with probability q."""
    from scipy.special import betaln, xlog1py, xlogy

    k = np.arange(n + 1)
    ways = -betaln(1 + n - k, 1 + k) - math.log(n + 1)  # log of n over k
    return np.asarray(np.exp(ways + xlogy(k, q) + xlog1py(n - k, -q)))


def _uniform(sizes: Sequence[int], K: int) -> Iterator[CountOutcome]:
    """Uniform sampling without replacement: multivariate hypergeometric."""
    ways = math.comb(sum(sizes), K)
    for counts in _vectors(sizes, K):
        favourable = math.prod(math.comb(n, k) for n, k in zip(sizes, counts, strict=True))
        yield CountOutcome(favourable / ways, counts)


def _one_each(sizes: Sequence[int], K: int) -> list[CountOutcome]:
    each, rest = divmod(K, len(sizes))
    if rest:
        raise SkerryError(
            "sampled must be a multiple of the number of islands for one_each (got "
            f"{K} for {len(sizes)}). Change it, or ask about per_component."
        )
    return [CountOutcome(1.0, tuple(min(each, size) for size in sizes))]


def _per_component(sizes: Sequence[int], K: int) -> list[CountOutcome]:
    """Islands get their shares one after the other, the smallest first: of the k devices that are
    left to sample, island c gets k n_c / n_left, randomly rounded up or down."""
    order = sorted(range(len(sizes)), key=lambda c: (sizes[c], c))
    outcomes: list[CountOutcome] = [CountOutcome(1.0, ())]
    n_left = sum(sizes)
    for c in order:
        before, outcomes = outcomes, []
        for probability, counts in before:
            low, rest = divmod((K - sum(counts)) * sizes[c], n_left)
            outcomes.append(CountOutcome(probability * (1 - rest / n_left), (*counts, low)))
            if rest:
                outcomes.append(CountOutcome(probability * (rest / n_left), (*counts, low + 1)))
        if len(outcomes) > MAX_OUTCOMES:
            raise SkerryError(_too_many_message(len(sizes)))
        n_left -= sizes[c]
    inverse = np.argsort(order)
    return [CountOutcome(chance, tuple(counts[i] for i in inverse)) for chance, counts in outcomes]


def _vectors(sizes: Sequence[int], K: int) -> Iterator[tuple[int, ...]]:
    """All vectors of counts that add up to K."""
    *others, last = sizes
    if math.prod(min(n, K) + 1 for n in others) > MAX_OUTCOMES:
        raise SkerryError(_too_many_message(len(sizes)))
    for counts in product(*(range(min(n, K) + 1) for n in others)):
        if 0 <= K - sum(counts) <= last:
            yield (*counts, K - sum(counts))


def _too_many_message(islands: int) -> str:
    return (
        f"{islands} islands have too many possible counts to write out. Ask about fewer islands, "
        "or about one_each, whose counts are fixed."
    )
