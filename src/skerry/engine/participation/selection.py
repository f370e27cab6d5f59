"""Selections: which devices the server samples, and with what weights.

A selection is a function `(who) -> devices` or `(who) -> (devices, weights)`, with options as
keyword-only parameters; `who` is a `Who`. It returns the sampled devices, each once, and the
weights of the estimate that S2A delivers (they sum to 1; without weights all count alike). S2S
delivers the plain mean of the same devices, whatever the weights, so it never moves the average.
Samples are nested where a selection allows it: that of a smaller K is the beginning of that of a
larger one, so lanes that differ in K are paired.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.errors import SkerryError
from skerry.seeds import stream

Ints = NDArray[np.int64]
Array = NDArray[np.float64]
Sampled = Ints | tuple[Ints, Array]


@dataclass(frozen=True)
class Who:
    """The argument of a selection: the fleet, the round, and random streams."""

    seed: int
    round: int
    """t, counted from 0."""
    number: int
    """The number of the server round, counted from 0."""
    sampled: int
    """K: how many devices are wanted."""
    islands_n: Ints
    """The island of every device."""
    samples_n: Ints
    """How many training samples every device has."""
    names: tuple[str, ...]
    awake_n: NDArray[np.bool_]
    distances_n: Array | None = None
    """The distance of every device's model from the model delivered last, for selections with the
    attribute `asks_distances`. It costs a number from each device in every server round."""

    def stream(self, name: str, *numbers: int) -> np.random.Generator:
        """A random generator for one purpose: the same for all lanes of a seed."""
        return stream(self.seed, name, *numbers)

    @cached_property
    def order(self) -> Ints:
        """The devices that are awake, in the order of this round's permutation."""
        order: Ints = self.stream("sampled", self.round).permutation(len(self.awake_n))
        return np.asarray(order[self.awake_n[order]])

    @cached_property
    def sizes(self) -> Ints:
        """The number of devices awake on each island."""
        return np.bincount(self.islands_n[self.awake_n], minlength=self.islands)

    @property
    def islands(self) -> int:
        return int(self.islands_n.max()) + 1

    def on_island(self, c: int) -> Ints:
        """The devices of an island that are awake, in the order of this round."""
        return np.asarray(self.order[self.islands_n[self.order] == c])


def uniform(who: Who) -> Sampled:
    """K devices without replacement, all with the same probability."""
    return who.order[: who.sampled]


def per_component(who: Who) -> Sampled:
    """Every island in proportion to its size, as nearly as whole numbers allow; every device has
    probability K/n exactly."""
    phases = who.stream("sampled_phase", who.round).random(who.islands)
    inside = [who.on_island(c) for c in range(who.islands)]
    return place_islands(inside, phases)[: who.sampled]


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


def one_each(who: Who) -> Sampled:
    """Sample K/C devices of every island; the estimate weighs each island by its size."""
    islands = np.flatnonzero(who.sizes)
    each, rest = divmod(who.sampled, who.islands)
    if rest:
        raise SkerryError(
            "server.sampled must be a multiple of the number of islands for server.selection = "
            f'"one_each" (got {who.sampled} for {who.islands} islands). Change server.sampled, or '
            'use "per_component".'
        )
    found = [who.on_island(int(c))[:each] for c in islands]
    share = who.sizes[islands] / who.sizes.sum()
    weights = [np.full(len(some), w / len(some)) for some, w in zip(found, share, strict=True)]
    devices = np.concatenate([np.empty(0, dtype=np.int64), *found])
    return devices, np.concatenate([np.empty(0), *weights])


def bernoulli(who: Who, *, sample_prob: float) -> Sampled:
    """Every device with the same probability, independently; K is random and may be 0."""
    from scipy.special import bdtr

    n = len(who.order)
    chance = who.stream("sampled_count", who.round).random()
    # The smallest k with P(Binomial(n, q) <= k) above the draw.
    below = bdtr(np.arange(n + 1), n, sample_prob) <= chance
    return who.order[: int(below.sum())]


def round_robin(who: Who) -> Sampled:
    """Devices in turn, in an order drawn once: each is sampled once in n/K server rounds."""
    order = who.stream("round_robin").permutation(len(who.awake_n))
    rotated = np.roll(order, -who.number * who.sampled)
    return rotated[who.awake_n[rotated]][: who.sampled]


def weighted(who: Who) -> Sampled:
    """K draws with replacement, with probabilities in proportion to the devices' data."""
    return draw_weighted(who, who.samples_n * who.awake_n)


def importance(who: Who) -> Sampled:
    """K draws with replacement, with probabilities r_i in proportion to the distance of a device's
    model from x_ref, the model delivered last.

    The estimate is x_ref + (1/K) sum_j (x_j - x_ref) / (n r_j). What the weights lack to 1 is the
    weight of x_ref.
    """
    assert who.distances_n is not None
    reach_n = np.where(who.awake_n, who.distances_n, 0.0)
    chances_n = reach_n if reach_n.sum() > 0 else who.awake_n.astype(float)
    found = draw_weighted(who, chances_n)
    if not isinstance(found, tuple):
        return found
    devices, share = found
    return devices, share / (who.awake_n.sum() * chances_n[devices] / chances_n.sum())


importance.asks_distances = True  # type: ignore[attr-defined]


def draw_weighted(who: Who, chances_n: ArrayLike) -> Sampled:
    """K draws with replacement; a device that is drawn twice has twice the weight."""
    chances_n = np.asarray(chances_n, dtype=float)
    total = chances_n.sum()
    if not total:
        return np.empty(0, dtype=np.int64)
    upto = np.cumsum(chances_n / total)
    draws = who.stream("sampled_weighted", who.round).random(len(chances_n))[: who.sampled]
    places = np.minimum(np.searchsorted(upto, draws, side="right"), len(upto) - 1)
    devices, times = np.unique(places, return_counts=True)
    return devices, times / times.sum()
