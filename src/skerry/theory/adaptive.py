"""Schedules that go by what the server sees: the best beta of a server round, and the K and H that
a target asks for.

Until the server has seen something, every number is what it starts with. Estimates are averaged
over the last server rounds, `adapt_over` of them.
"""

import math
from functools import lru_cache

from skerry.config.schedules import SpreadEstimate, When
from skerry.theory.counts import Likely
from skerry.theory.operators import Array, exchange_matrix
from skerry.theory.participation import exchange

ROUNDING = 1e-9
"""Of a whole number that was computed."""


def beta(when: When, *, bias_cost: float, adapt_over: int) -> float:
    """U / (U + lambda V): V is the bias of S2A, U the disagreement that S2S would leave, where the
    part inside islands counts as long as mixing leaves it there: w A' + B', with
    w = (1 - (1-p)^H) / (p H) over the H rounds to come."""
    seen = when.seen[-adapt_over:]
    remains = staying(when.mixing_rate, when.period)
    left = sum(_left(one, remains) for one in seen)
    moved = bias_cost * sum(one.bias for one in seen)
    return left / (left + moved) if left + moved > 0 else when.start


def staying(p: float, H: int) -> float:
    """w: the part of the disagreement inside islands that is there on average over H rounds."""
    return (1 - (1 - p) ** H) / (p * H) if p > 0 else 1.0


def _left(seen: SpreadEstimate, remains: float) -> float:
    intra, inter = after_s2s(seen)
    return remains * intra + inter


def after_s2s(seen: SpreadEstimate) -> tuple[float, float]:
    """The disagreement inside and between islands that S2S would leave: M (A, B)."""
    intra, inter = _exchange(seen.sizes, seen.counts, seen.by_island) @ (seen.intra, seen.inter)
    return float(intra), float(inter)


@lru_cache(maxsize=256)
def _exchange(sizes: tuple[int, ...], counts: tuple[int, ...], by_island: bool) -> Array:
    if not by_island:
        return exchange_matrix(sizes, sum(counts))
    return exchange(sizes, [Likely(1.0, counts)]).M


def sampled(when: When, *, sampled_target: float, adapt_over: int) -> float:
    """The smallest K with (1/K - 1/n) s2 <= target, and not more than its end. Two at least, from
    every island where each is estimated by itself: else nothing can be seen any more."""
    seen = when.seen[-adapt_over:]
    if not seen:
        return when.start
    n = sum(seen[-1].sizes)
    least = sum(min(2, size) for size in seen[-1].sizes) if seen[-1].by_island else min(2, n)
    spread = _mean([one.spread for one in seen])
    enough = math.ceil(1 / (1 / n + sampled_target / spread) - ROUNDING) if spread > 0 else 1
    most = n if when.end is None else min(n, when.end)
    return min(max(enough, least), most)


def period(when: When, *, period_target: float, adapt_over: int) -> float:
    """H sqrt(target / B), between 1 and its end: the disagreement B between islands grows with the
    square of the rounds since the last server round."""
    seen = when.seen[-adapt_over:]
    if not seen:
        return when.start
    growth = _mean([one.inter / one.since**2 for one in seen])
    most = float(when.rounds if when.end is None else when.end)
    return min(max(math.sqrt(period_target / growth), 1.0), most) if growth > 0 else most


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
