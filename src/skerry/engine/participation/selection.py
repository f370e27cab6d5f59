"""Selections: which devices the server samples, and with what weights.

A selection is a function `(context) -> devices` or `(context) -> (devices, weights)`, with options
as keyword-only parameters. It returns the sampled devices, each once, and the weights of the
estimate that S2A delivers (they sum to 1; without weights all count alike). S2S delivers the plain
mean of the same devices, whatever the weights, so it never moves the average. Samples are nested
where a selection allows it: that of a smaller K is the beginning of that of a larger one, so lanes
that differ in K are paired.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.errors import SkerryError
from skerry.plugins.context import Context
from skerry.seeds import stream

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
Sampled = Ints | tuple[Ints, Array]


def uniform(context: Context) -> Sampled:
    """K devices without replacement, all with the same probability."""
    return context.order[: context.sampled]


def per_component(context: Context) -> Sampled:
    """Every island in proportion to its size, as nearly as whole numbers allow; every device has
    probability K/n exactly."""
    phases = stream(context.seed, "sampled_phase", context.round).random(len(context.sizes))
    inside = [context.on_island(c) for c in range(len(context.sizes))]
    return place_islands(inside, phases)[: context.sampled]


def place_islands(inside: list[Ints], phases: Array) -> Ints:
    """One order of all devices from the orders inside islands.

    Islands take places one after the other, the smallest first, and fill them in the order of the
    round: of the n_left places that are left, island c takes the k-th iff
    (k n_c + u) // n_left > ((k - 1) n_c + u) // n_left, with u = floor(v n_left), v a phase.
    """
    left = np.arange(sum(map(len, inside)))
    order = np.empty(len(left), dtype=np.int64)
    for c in sorted(range(len(inside)), key=lambda c: (len(inside[c]), c)):
        size = len(inside[c])
        if not size:
            continue
        u = int(phases[c] * len(left))
        k = np.arange(1, len(left) + 1)
        takes = (k * size + u) // len(left) > ((k - 1) * size + u) // len(left)
        order[left[takes]] = inside[c]
        left = left[~takes]
    return order


def one_each(context: Context) -> Sampled:
    """Sample K/C devices of every island; the estimate weighs each island by its size."""
    islands = np.flatnonzero(context.awake_sizes)
    each, rest = divmod(context.sampled, len(context.sizes))
    if rest:
        raise SkerryError(
            "server.sampled must be a multiple of the number of islands for server.selection = "
            f'"one_each" (got {context.sampled} for {len(context.sizes)} islands). Change '
            'server.sampled, or use "per_component".'
        )
    found = [context.on_island(int(c))[:each] for c in islands]
    share = context.awake_sizes[islands] / context.awake_sizes.sum()
    weights = [np.full(len(some), w / len(some)) for some, w in zip(found, share, strict=True)]
    devices = np.concatenate([np.empty(0, dtype=np.int64), *found])
    return devices, np.concatenate([np.empty(0), *weights])


def bernoulli(context: Context, *, sample_prob: float) -> Sampled:
    """Every device with the same probability, independently; K is random and may be 0."""
    from scipy.special import bdtr

    n = len(context.order)
    chance = stream(context.seed, "sampled_count", context.round).random()
    # The smallest k with P(Binomial(n, q) <= k) above the draw.
    below = bdtr(np.arange(n + 1), n, sample_prob) <= chance
    return context.order[: int(below.sum())]


def round_robin(context: Context) -> Sampled:
    """Devices in turn, in an order drawn once: each is sampled once in n/K server rounds."""
    order = stream(context.seed, "round_robin").permutation(len(context.devices))
    rotated = np.roll(order, -context.number * context.sampled)
    return rotated[context.awake[rotated]][: context.sampled]


def weighted(context: Context) -> Sampled:
    """K draws with replacement, with probabilities in proportion to the devices' data."""
    return draw_weighted(context, context.samples * context.awake)


def importance(context: Context) -> Sampled:
    """K draws with replacement, with probabilities r_i in proportion to the distance of a device's
    model from x_ref, the model delivered last.

    The estimate is x_ref + (1/K) sum_j (x_j - x_ref) / (n r_j). What the weights lack to 1 is the
    weight of x_ref.
    """
    reach_n = np.where(context.awake, context.distances, 0.0)
    chances_n = reach_n if reach_n.sum() > 0 else context.awake.astype(float)
    found = draw_weighted(context, chances_n)
    if not isinstance(found, tuple):
        return found
    devices, share = found
    return devices, share / (context.awake.sum() * chances_n[devices] / chances_n.sum())


importance.needs_distances = True  # type: ignore[attr-defined]


def draw_weighted(context: Context, chances_n: ArrayLike) -> Sampled:
    """K draws with replacement; a device that is drawn twice has twice the weight."""
    chances_n = np.asarray(chances_n, dtype=float)
    total = chances_n.sum()
    if not total:
        return np.empty(0, dtype=np.int64)
    upto = np.cumsum(chances_n / total)
    draws = stream(context.seed, "sampled_weighted", context.round).random(len(chances_n))[
        : context.sampled
    ]
    places = np.minimum(np.searchsorted(upto, draws, side="right"), len(upto) - 1)
    devices, times = np.unique(places, return_counts=True)
    return devices, times / times.sum()
