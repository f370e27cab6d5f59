"""Who holds which training samples: first across components (inter), then inside each (intra).

Every sample goes to exactly one device. A partition depends on the seed, the labels and the
settings alone.

An inter function is `(labels, classes, sizes, data, rng, *, options)`, with `sizes` the devices of
each component; it gives the sample indices of each component. An intra function is
`(labels, indices, size, data, rng, *, options)`; it gives the share of each device of a component.
A user's own functions have the same signatures, and their results pass the same checks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.config.experiment import Data
from skerry.data.by_device.holdings import Grouped
from skerry.data.shares import Ints, Shares, apportion, cut, deal_by_class, level
from skerry.errors import DataError
from skerry.plugins import registry
from skerry.seeds import stream

MOST_SHARDS = 10**7
"""Of a component; there is no data set with so many samples."""


@dataclass(frozen=True, eq=False)
class Partition(Grouped):
    """The training indices of every device, devices in order of component."""

    label_counts: Ints
    """Samples by device and class."""
    own_tests: Grouped | None = None
    """Test indices that are a device's own, where there are any."""


def split(
    labels: NDArray[np.integer], classes: int, sizes: tuple[int, ...], data: Data, seed: int
) -> Partition:
    """Deal the training samples to components of the given sizes, and on to their devices."""
    check_supply(len(labels), sum(sizes), data)
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels must be 0 to {classes - 1} (got {labels.min()} to {labels.max()})."
        )
    inter = registry.resolve("inter partition", data.inter)
    intra = registry.resolve("intra partition", data.intra)
    with registry.users_own("inter partition", data.inter, DataError):
        told = data.options_for("inter partition")
        dealt = inter(labels, classes, sizes, data, stream(seed, "inter"), **told)
    everything = np.arange(len(labels))
    components = _checked(f"inter partition '{data.inter}'", dealt, len(sizes), everything)
    shares: Shares = []
    for c, (indices, size) in enumerate(zip(components, sizes, strict=True)):
        if len(indices) < size * data.min_samples:
            raise DataError(
                f"component {c} has {len(indices)} training samples for {size} devices with at "
                f"least {data.min_samples} each. Lower data.min_samples, or use another data.inter."
            )
        with registry.users_own("intra partition", data.intra, DataError):
            told = data.options_for("intra partition")
            dealt = intra(labels, indices, size, data, stream(seed, "intra", c), **told)
        dealt = _checked(f"intra partition '{data.intra}'", dealt, size, indices)
        shares += level(dealt, [data.min_samples] * size)
    dealt_out = Grouped(np.concatenate(shares), np.cumsum([0, *map(len, shares)]))
    return Partition(dealt_out.order, dealt_out.offsets, count_labels(labels, classes, dealt_out))


def count_labels(labels: NDArray[np.integer], classes: int, held: Grouped) -> Ints:
    """Samples by device and class."""
    devices = len(held.sizes)
    device_of = np.repeat(np.arange(devices), held.sizes)
    places = device_of * classes + labels[held.order]
    return np.bincount(places, minlength=devices * classes).reshape(devices, classes)


def check_supply(samples: int, devices: int, data: Data) -> None:
    """Raise DataError unless there is enough for every device."""
    if samples < devices * data.min_samples:
        raise DataError(
            f"{samples} training samples are too few for {devices} devices with at least "
            f"{data.min_samples} each. Lower network.devices or data.min_samples."
        )


# Across components


def inter_iid(
    labels: Ints, classes: int, sizes: tuple[int, ...], data: Data, rng: np.random.Generator
) -> Shares:
    """A random share of the data for each component, in proportion to its size."""
    return cut(rng.permutation(len(labels)), apportion(len(labels), sizes))


def inter_non_iid(
    labels: Ints, classes: int, sizes: tuple[int, ...], data: Data, rng: np.random.Generator
) -> Shares:
    """Disjoint sets of classes, drawn by the seed: with ten classes and two equal components, each
    has five. Seeds differ in who holds what, so that intervals over seeds include that choice.

    A component gets one class and its share, by size, of the rest: as even as can be when the
    components are equal.
    """
    components = len(sizes)
    if components > classes:
        raise DataError(
            f'data.inter = "non_iid" gives every component classes of its own (got {components} '
            f'components for {classes} classes). Use data.inter = "dirichlet" or fewer components.'
        )
    counts = 1 + apportion(classes - components, sizes)
    holder_of = np.empty(classes, dtype=np.int64)
    holder_of[rng.permutation(classes)] = np.repeat(np.arange(components), counts)
    return [np.flatnonzero(holder_of[labels] == c) for c in range(components)]


def inter_dirichlet(
    labels: Ints,
    classes: int,
    sizes: tuple[int, ...],
    data: Data,
    rng: np.random.Generator,
    *,
    alpha: float,
    inter_alpha: float | None,
) -> Shares:
    """Each class is spread by Dirichlet weights that average to the components' sizes; with equal
    components they are Dirichlet(inter_alpha, or alpha where that is not given)."""
    alpha = alpha if inter_alpha is None else inter_alpha
    concentration = alpha * np.array(sizes) * len(sizes) / sum(sizes)
    shares = deal_by_class(labels, np.arange(len(labels)), concentration, rng)
    return level(shares, [size * data.min_samples for size in sizes])


# Inside a component


def intra_iid(
    labels: Ints, indices: Ints, size: int, data: Data, rng: np.random.Generator
) -> Shares:
    """Random shares of equal size."""
    return cut(rng.permutation(indices), apportion(len(indices), [1] * size))


def intra_dirichlet(
    labels: Ints, indices: Ints, size: int, data: Data, rng: np.random.Generator, *, alpha: float
) -> Shares:
    """Each class is spread over the devices by Dirichlet(alpha) weights."""
    return deal_by_class(labels, indices, np.full(size, alpha), rng)


def intra_shards(
    labels: Ints, indices: Ints, size: int, data: Data, rng: np.random.Generator, *, shards: int
) -> Shares:
    """The samples sorted by label are cut into equal shards; each device gets so many of them at
    random (McMahan et al., 2017)."""
    if size * shards > MOST_SHARDS:
        raise DataError(
            f"data.shards times the devices of a component must be at most {MOST_SHARDS:,} (got "
            f"{shards} x {size}). Lower data.shards."
        )
    shuffled = rng.permutation(indices)
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = apportion(len(indices), np.ones(size * shards))
    ends = np.cumsum(counts)
    hands = rng.permutation(len(counts)).reshape(size, shards)
    return [
        # Where there are more shards than samples, most are empty: those need no piece each.
        np.concatenate([by_label[ends[s] - counts[s] : ends[s]] for s in hand[counts[hand] > 0]])
        if counts[hand].any()
        else by_label[:0]
        for hand in hands
    ]


def _checked(who: str, dealt: Sequence[ArrayLike], parts: int, indices: Ints) -> Shares:
    """Every index exactly once, in the right number of shares."""
    try:
        shares = [np.asarray(share, dtype=np.int64) for share in dealt]
        flat = np.concatenate([np.empty(0, np.int64), *shares])
    except (TypeError, ValueError):
        raise DataError(f"{who} must give {parts} arrays of sample indices.") from None
    if len(shares) != parts:
        raise DataError(f"{who} must give {parts} arrays of sample indices (got {len(shares)}).")
    if not np.array_equal(np.sort(flat), np.sort(indices)):
        raise DataError(
            f"{who} must deal every one of its {len(indices)} sample indices exactly once."
        )
    return shares
