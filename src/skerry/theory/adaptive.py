"""Adaptive schedules: beta, K and H chosen from the server's estimates of disagreement.

Before the first estimate a schedule returns its initial value. Estimates are averaged over the last
`adapt_over` server rounds.
"""

import math
from functools import lru_cache

from skerry.plugins.context import Context, SpreadEstimate
from skerry.theory.counts import CountOutcome
from skerry.theory.operators import Array, exchange_matrix
from skerry.theory.participation import exchange_from_law

ROUNDING = 1e-9  # rounding error allowed in a computed integer


def beta(context: Context, *, bias_cost: float, adapt_over: int) -> float:
    """The best beta of a server round: U / (U + lambda V), with lambda = `bias_cost`. V is the bias
    of S2A, and U = w A' + B' the disagreement that S2S would leave, where mixing reduces the part
    A' inside islands to w A' on average over the next H rounds."""
    seen = context.estimates[-adapt_over:]
    if not seen:
        return context.start
    weight = mean_intra_weight(context.mixing_rate, context.period)
    left = map(disagreement_after_s2s, seen)
    remaining = sum(weight * intra + inter for intra, inter in left)
    bias = bias_cost * sum(one.bias for one in seen)
    return remaining / (remaining + bias) if remaining + bias > 0 else context.start


def mean_intra_weight(p: float, H: int) -> float:
    """w = (1 - (1-p)^H) / (p H): mean share of disagreement inside islands left over H rounds."""
    return (1 - (1 - p) ** H) / (p * H) if p > 0 else 1.0


def disagreement_after_s2s(seen: SpreadEstimate) -> tuple[float, float]:
    """Disagreement inside and between islands that S2S would leave, M (A, B)."""
    M = _exchange_matrix(seen.sizes, seen.counts, seen.by_island)
    intra, inter = M @ (seen.intra, seen.inter)
    return float(intra), float(inter)


@lru_cache(maxsize=256)
def _exchange_matrix(sizes: tuple[int, ...], counts: tuple[int, ...], by_island: bool) -> Array:
    if not by_island:
        return exchange_matrix(sizes, sum(counts))
    return exchange_from_law(sizes, [CountOutcome(1.0, counts)]).M


def sampled(context: Context, *, sampled_target: float, adapt_over: int) -> float:
    """The smallest K with (1/K - 1/n) s2 <= target, at most the schedule's end. K is at least two,
    or two per island if islands are estimated separately, because estimates need two devices."""
    seen = context.estimates[-adapt_over:]
    if not seen:
        return context.start
    n = sum(seen[-1].sizes)
    least = sum(min(2, size) for size in seen[-1].sizes) if seen[-1].by_island else min(2, n)
    spread = sum(one.spread for one in seen) / len(seen)
    enough = math.ceil(1 / (1 / n + sampled_target / spread) - ROUNDING) if spread > 0 else 1
    most = n if context.end is None else min(n, context.end)
    return min(max(enough, least), most)


def period(context: Context, *, period_target: float, adapt_over: int) -> float:
    """H sqrt(target / B), between 1 and the schedule's end. The disagreement B between islands
    grows with the square of the rounds since the last server round."""
    seen = context.estimates[-adapt_over:]
    if not seen:
        return context.start
    growth = sum(one.inter / one.since**2 for one in seen) / len(seen)
    most = float(context.rounds if context.end is None else context.end)
    return min(max(math.sqrt(period_target / growth), 1.0), most) if growth > 0 else most
