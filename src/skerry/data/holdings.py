"""Which device holds which samples, for data that name their devices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SamplesByDevice:
    """Sample indices by device: device i has order[offsets[i] : offsets[i + 1]]."""

    order: Ints
    offsets: Ints

    @classmethod
    def from_owners(cls, device_of: NDArray[np.integer], devices: int) -> "SamplesByDevice":
        """Group samples by the number of their device; numbers below 0 belong to no device."""
        small = device_of.astype(np.int16) if devices < 2**15 else device_of
        order = np.argsort(small, kind="stable")  # of 16-bit numbers ten times as fast
        sizes = np.bincount(device_of[device_of >= 0], minlength=devices)
        return cls(order[len(order) - sizes.sum() :], np.cumsum([0, *sizes]))

    @classmethod
    def from_shares(cls, shares: Sequence[Ints]) -> "SamplesByDevice":
        """Concatenate the sample indices of each device."""
        order = np.concatenate([np.empty(0, np.int64), *shares])
        return cls(order, np.cumsum([0, *map(len, shares)]))

    @property
    def sizes(self) -> Ints:
        """The number of samples of each device."""
        return np.diff(self.offsets)

    def indices(self, device: int) -> Ints:
        """The sample indices of one device."""
        return self.order[self.offsets[device] : self.offsets[device + 1]]

    def of_devices(self, devices: slice) -> Ints:
        """The sample indices of consecutive devices, device by device."""
        return self.order[self.offsets[devices.start] : self.offsets[devices.stop]]

    def select(self, devices: Iterable[int]) -> "SamplesByDevice":
        """The samples of these devices, in this order."""
        return SamplesByDevice.from_shares([self.indices(device) for device in devices])


@dataclass(frozen=True, eq=False)
class DeviceHoldings:
    """The named devices of a data set, and the samples that each of them holds."""

    devices: tuple[str, ...]
    train: SamplesByDevice
    tests: SamplesByDevice
    """Test samples that are a device's own. A device may have none."""
    common: int = 0
    """The first `common` test samples belong to no device: all devices are scored on them. If 0,
    all devices are scored on all test samples."""
    islands: tuple[str, ...] | None = None
    """The island of each device, if the data name it."""
    classes: tuple[str, ...] = ()
    """The names of the classes, if their labels were text."""

    def __post_init__(self) -> None:
        if len(set(self.devices)) < len(self.devices):
            twice = [d for i, d in enumerate(self.devices) if d in self.devices[:i]]
            raise DataError(
                f"device {quote_names(twice)} appears twice. Give every device its own name."
            )
        if empty := [self.devices[i] for i in np.flatnonzero(self.train.sizes == 0)]:
            raise DataError(
                f"device {quote_names(empty)} has no training samples. Leave out devices without "
                "data."
            )
        if self.islands is not None and len(self.islands) != len(self.devices):
            raise DataError(
                f"every device must have an island, or none (got {len(self.islands)} islands for "
                f"{len(self.devices)} devices)."
            )

    def fingerprint(self) -> str:
        """SHA-256 of the devices, their islands and their samples."""
        total = sha256(repr((self.devices, self.islands, self.common)).encode())
        for part in (self.train, self.tests):
            for array in (part.order, part.offsets):
                total.update(array.astype("<i8").tobytes())
        return total.hexdigest()

    def islands_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """The islands of the devices with these names; empty if the data name no islands."""
        island_of = dict(zip(self.devices, self.islands or (), strict=False))
        return tuple(island_of[name] for name in names) if island_of else ()

    def find(self, names: Sequence[str]) -> Ints:
        """The indices of the devices with these names, which must be all devices of the data."""
        index = {name: number for number, name in enumerate(self.devices)}
        wanted = set(names)
        unknown = [name for name in names if name not in index]
        absent = [name for name in self.devices if name not in wanted]
        if unknown or absent:
            sides = {"no data for": unknown, "no place in the graph for": absent}
            missing = "; ".join(f"{side} {quote_names(who)}" for side, who in sides.items() if who)
            raise DataError(
                f"devices of the graph and of the data must have the same names ({missing}). "
                "Rename them in one of the two."
            )
        return np.array([index[name] for name in names], dtype=np.int64)


def quote_names(names: Sequence[object], most: int = 5) -> str:
    """Names for an error message, such as 'a', 'b' and 7 more."""
    shown = ", ".join(f"'{name!s:.40}'" for name in names[:most])
    more = len(names) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def number_names(names: ArrayLike) -> tuple[tuple[str, ...], Ints]:
    """The distinct names in the order of their first occurrence, and the index of each name."""
    distinct, first, number = np.unique(np.asarray(names), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    return tuple(str(name) for name in distinct[order]), rank[number.ravel()]
