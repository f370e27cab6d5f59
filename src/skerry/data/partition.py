"""Rules that deal training samples to devices: first across islands (inter), then inside (intra).

Every sample goes to exactly one device. A partition depends on the seed, the labels and the
settings alone.

An inter function is `(labels, classes, sizes, *, options)`, with `sizes` the number of devices of
each island; it gives the sample indices of each island. An intra function is
`(labels, indices, size, *, options)`; it gives the share of each device of an island.
A user's own functions have the same signatures, and their results pass the same checks.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.config.experiment import Data
from skerry.data.holdings import Ints, SamplesByDevice
from skerry.errors import DataError
from skerry.plugins import registry
from skerry.plugins.context import Context, read_only
from skerry.plugins.options import bind
from skerry.seeds import stream

Floats = NDArray[np.float64]
Shares = list[Ints]
"""Sample indices of each island or device."""

MOST_SHARDS = 10**7
"""Most shards of an island; no data set has so many samples."""


@dataclass(frozen=True, eq=False)
class Partition(SamplesByDevice):
    """The training indices of every device, devices in order of island."""

    label_counts: Ints
    """Samples by device and class."""
    own_tests: SamplesByDevice | None = None
    """Test indices that are a device's own, if there are any."""


def split(
    labels: NDArray[np.integer],
    classes: int,
    sizes: tuple[int, ...],
    data: Data,
    seed: int,
    names: Sequence[str] = (),
    test_labels: NDArray[np.integer] | None = None,
) -> Partition:
    """Deal the training samples to islands with `sizes` devices, and on to their devices, which
    are called by `names`, else by their numbers.

    With `test_labels`, test samples are dealt together with the training samples, by the same rule,
    and become the devices' own. Of all these samples `data.sample_share` is dealt.
    """
    supply = len(labels)
    if test_labels is not None:
        labels = np.concatenate([labels, test_labels])
    check_supply(supply, sum(sizes), data)
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels must be 0 to {classes - 1} (got {labels.min()} to {labels.max()})."
        )
    context = Context(
        "samples are dealt to devices",
        seed=seed,
        sizes=sizes,
        devices=tuple(names) or tuple(map(str, range(sum(sizes)))),
    )
    drawn = _draw_share(len(labels), data.sample_share, seed)
    pool = labels[drawn]
    everything = np.arange(len(pool))
    islands = _deal("inter partition", data, everything, (pool, classes, sizes), context)
    shares: Shares = []
    tests: Shares = []
    for c, (indices, size) in enumerate(zip(islands, sizes, strict=True)):
        available = int((drawn[indices] < supply).sum())
        if available < size * data.min_samples:
            raise DataError(
                f"island {c} has {available} training samples for {size} devices with at "
                f"least {data.min_samples} each. Lower data.min_samples, or use another data.inter."
            )
        now = context.with_facts(island=c, rows=sum(sizes[:c]) + np.arange(size))
        dealt = _deal("intra partition", data, indices, (pool, indices, size), now)
        dealt = [drawn[share] for share in dealt]
        train = [share[share < supply] for share in dealt]
        shares += level_shares(train, [data.min_samples] * size)
        tests += [share[share >= supply] - supply for share in dealt]
    samples = SamplesByDevice.from_shares(shares)
    counts = count_labels(labels[:supply], classes, samples)
    own_tests = None if test_labels is None else SamplesByDevice.from_shares(tests)
    return Partition(samples.order, samples.offsets, counts, own_tests)


def _draw_share(samples: int, share: float, seed: int) -> Ints:
    """The indices of the share of the samples that is dealt, in order."""
    if share == 1:
        return np.arange(samples)
    order = stream(seed, "sample share").permutation(samples)
    return np.sort(order[: round(share * samples)])


def _deal(
    kind: str, data: Data, indices: Ints, arguments: tuple[Any, ...], context: Context
) -> Shares:
    """The shares of islands or of an island's devices; a user's own function is called twice, and
    must give the same."""
    name = data.functions[kind]
    deal = bind(kind, registry.resolve(kind, name), data.options_for(kind))
    lent = [*map(read_only, arguments)]
    purpose = ("inter",) if kind == "inter partition" else ("intra", context.island)
    parts = len(context.sizes) if kind == "inter partition" else arguments[-1]

    def shares() -> Shares:
        now = context.with_facts(_generator=stream(context.seed, *purpose))
        with registry.users_own(kind, name, DataError):
            dealt = deal(*lent, context=now)
        return _check_shares(f"{kind} '{name}'", dealt, parts, indices)

    first = shares()
    if not registry.is_builtin(kind, name) and not all(map(np.array_equal, first, shares())):
        raise DataError(
            f"{kind} '{name}' gives different results for the same data: it must keep nothing from "
            "earlier calls. Use context.random() for draws."
        )
    return first


def count_labels(labels: NDArray[np.integer], classes: int, samples: SamplesByDevice) -> Ints:
    """The number of samples by device and class."""
    devices = len(samples.sizes)
    device_of = np.repeat(np.arange(devices), samples.sizes)
    cells = device_of * classes + labels[samples.order]
    return np.bincount(cells, minlength=devices * classes).reshape(devices, classes)


def check_supply(samples: int, devices: int, data: Data) -> None:
    """Raise DataError unless there is enough for every device."""
    if samples < devices * data.min_samples:
        raise DataError(
            f"{samples} training samples are too few for {devices} devices with at least "
            f"{data.min_samples} each. Lower network.devices or data.min_samples."
        )


# Across islands


def inter_iid(labels: Ints, classes: int, sizes: tuple[int, ...], context: Context) -> Shares:
    """A random share of the data for each island, in proportion to its size."""
    dealt = context.random().permutation(len(labels))
    return cut_shares(dealt, apportion(len(labels), sizes))


def inter_non_iid(labels: Ints, classes: int, sizes: tuple[int, ...], context: Context) -> Shares:
    """Disjoint sets of classes, drawn by the seed: with ten classes and two equal islands, each has
    five. Seeds differ in who holds what, so that intervals over seeds include that choice.

    An island gets one class and its share, by size, of the rest, as evenly as possible.
    """
    islands = len(sizes)
    if islands > classes:
        raise DataError(
            f'data.inter = "non_iid" gives every island classes of its own (got {islands} islands '
            f'for {classes} classes). Use data.inter = "dirichlet" or fewer islands.'
        )
    counts = 1 + apportion(classes - islands, sizes)
    island_of = np.empty(classes, dtype=np.int64)
    island_of[context.random().permutation(classes)] = np.repeat(np.arange(islands), counts)
    return [np.flatnonzero(island_of[labels] == c) for c in range(islands)]


def inter_dirichlet(
    labels: Ints,
    classes: int,
    sizes: tuple[int, ...],
    context: Context,
    *,
    alpha: float,
    inter_alpha: float | None,
    min_samples: int,
) -> Shares:
    """Each class is spread by Dirichlet weights that average to the islands' sizes; on equal
    islands they are Dirichlet(inter_alpha), or Dirichlet(alpha) if that is not given."""
    alpha = alpha if inter_alpha is None else inter_alpha
    concentration = alpha * np.array(sizes) * len(sizes) / sum(sizes)
    shares = deal_by_class(labels, np.arange(len(labels)), concentration, context.random())
    return level_shares(shares, [size * min_samples for size in sizes])


# Inside an island


def intra_iid(labels: Ints, indices: Ints, size: int, context: Context) -> Shares:
    """Random shares of equal size."""
    return cut_shares(context.random().permutation(indices), apportion(len(indices), [1] * size))


def intra_dirichlet(
    labels: Ints, indices: Ints, size: int, context: Context, *, alpha: float
) -> Shares:
    """Each class is spread over the devices by Dirichlet(alpha) weights."""
    return deal_by_class(labels, indices, np.full(size, alpha), context.random())


def intra_shards(
    labels: Ints, indices: Ints, size: int, context: Context, *, shards: int
) -> Shares:
    """The samples, sorted by label, are cut into equal shards; each device gets `shards` of them at
    random (McMahan et al., 2017)."""
    if size * shards > MOST_SHARDS:
        raise DataError(
            f"data.shards times the devices of an island must be at most {MOST_SHARDS:,} (got "
            f"{shards} x {size}). Lower data.shards."
        )
    rng = context.random()
    shuffled = rng.permutation(indices)
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = apportion(len(indices), np.ones(size * shards))
    ends = np.cumsum(counts)
    hands = rng.permutation(len(counts)).reshape(size, shards)
    return [
        # With more shards than samples, most are empty and are left out.
        np.concatenate([by_label[ends[s] - counts[s] : ends[s]] for s in hand[counts[hand] > 0]])
        if counts[hand].any()
        else by_label[:0]
        for hand in hands
    ]


# Shares


def apportion(total: int, weights: ArrayLike) -> Ints:
    """Divide `total` into whole parts in proportion to weights, by largest remainders."""
    exact: Floats = total * np.asarray(weights, dtype=np.float64) / np.sum(weights)
    parts = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(parts - exact, kind="stable")
    parts[by_remainder[: total - parts.sum()]] += 1
    return parts


def cut_shares(indices: Ints, counts: Ints) -> Shares:
    """Cut indices into consecutive pieces of the given lengths."""
    ends = np.cumsum(counts).tolist()
    return [indices[start:end] for start, end in pairwise([0, *ends])]


def level_shares(shares: Shares, floors: Sequence[int]) -> Shares:
    """Move samples, one by one, from the share furthest above its floor to those below theirs, so
    that share i has at least floors[i] samples."""
    kept = [len(share) for share in shares]
    missing = [floor - size for floor, size in zip(floors, kept, strict=True)]
    if max(missing, default=0) <= 0:
        return shares
    received: list[list[int]] = [[] for _ in shares]
    richest = [(lack, i) for i, lack in enumerate(missing)]
    heapq.heapify(richest)
    for i, lack in enumerate(missing):
        for _ in range(lack):
            rank, donor = richest[0]
            heapq.heapreplace(richest, (rank + 1, donor))
            kept[donor] -= 1
            received[i].append(int(shares[donor][kept[donor]]))
    return [
        np.concatenate([share[:size], np.array(more, dtype=np.int64)])
        for share, size, more in zip(shares, kept, received, strict=True)
    ]


def deal_by_class(
    labels: Ints, indices: Ints, concentration: Floats, rng: np.random.Generator
) -> Shares:
    """Spread each class by its own Dirichlet weights, rounded by systematic sampling: a share is
    its exact size rounded up or down, unbiased, and no sample is lost."""
    receivers: list[Shares] = [[] for _ in concentration]
    own = labels[indices]
    for label in np.unique(own):
        members = rng.permutation(indices[own == label])
        ends = np.floor(
            np.cumsum(dirichlet_weights(concentration, rng)) * len(members) + rng.random()
        )
        ends[-1] = len(members)
        for receiver, share in zip(
            receivers, np.split(members, ends[:-1].astype(np.int64)), strict=True
        ):
            receiver.append(share)
    # Shuffled, so that levelling does not take the last class first.
    return [rng.permutation(np.concatenate(receiver)) for receiver in receivers]


def dirichlet_weights(concentration: Floats, rng: np.random.Generator) -> Floats:
    """Dirichlet weights; concentrations are clipped where numpy would overflow or underflow, and
    where the limits (all weight on one receiver, or equal weights) are reached already."""
    return rng.dirichlet(np.clip(concentration, 1e-100, 1e100))


def _check_shares(who: str, dealt: Sequence[ArrayLike], parts: int, indices: Ints) -> Shares:
    """The shares as arrays; raise DataError unless they hold every index exactly once."""
    try:
        shares = [np.asarray(share, dtype=np.int64) for share in dealt]
        flat = np.concatenate([np.empty(0, np.int64), *shares])
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{who} must give {parts} arrays of sample indices.") from None
    if len(shares) != parts:
        raise DataError(f"{who} must give {parts} arrays of sample indices (got {len(shares)}).")
    if not np.array_equal(np.sort(flat), np.sort(indices)):
        raise DataError(
            f"{who} must deal every one of its {len(indices)} sample indices exactly once."
        )
    return shares
