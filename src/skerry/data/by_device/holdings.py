"""Who holds what, where the data say so: samples that lie on devices with names and islands."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.config.experiment import Network
from skerry.data.shares import Ints
from skerry.errors import DataError

MOST_NAMED = 5
"""So many names stand in a message; of the others it says how many there are."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """Samples by device: device i has order[offsets[i] : offsets[i + 1]]."""

    order: Ints
    offsets: Ints

    @classmethod
    def by(cls, device_of: NDArray[np.integer], devices: int) -> "Grouped":
        """From the number of the device of each sample; one below 0 is nobody's."""
        small = device_of.astype(np.int16) if devices < 2**15 else device_of
        order = np.argsort(small, kind="stable")  # of 16-bit numbers ten times as fast
        held = np.bincount(device_of[device_of >= 0], minlength=devices)
        return cls(order[len(order) - held.sum() :], np.cumsum([0, *held]))

    @property
    def sizes(self) -> Ints:
        """Samples of each device."""
        return np.diff(self.offsets)

    def indices(self, device: int) -> Ints:
        return self.order[self.offsets[device] : self.offsets[device + 1]]

    def of_devices(self, devices: slice) -> Ints:
        """The samples of neighbours, device by device."""
        return self.order[self.offsets[devices.start] : self.offsets[devices.stop]]

    def of(self, devices: Iterable[int]) -> "Grouped":
        """The same of these devices, in their order."""
        shares = [self.indices(device) for device in devices]
        order = np.concatenate([np.empty(0, np.int64), *shares])
        return Grouped(order, np.cumsum([0, *map(len, shares)]))


@dataclass(frozen=True, eq=False)
class Holdings:
    """The devices of a data set, and the samples that each of them holds."""

    devices: tuple[str, ...]
    train: Grouped
    tests: Grouped
    """Test samples that are a device's own. A device may have none."""
    common: int = 0
    """The first so many test samples are nobody's own: all devices are measured on them. 0: on all
    that there are."""
    islands: tuple[str, ...] | None = None
    """The island of each device, where the data say it."""

    def __post_init__(self) -> None:
        twice = _repeated(self.devices)
        if twice:
            raise DataError(
                f"device {named(twice)} is there twice. Give every device its own name."
            )
        empty = [self.devices[i] for i in np.flatnonzero(self.train.sizes == 0)]
        if empty:
            raise DataError(
                f"device {named(empty)} has no training samples. Leave out devices without data."
            )
        if self.islands is not None and len(self.islands) != len(self.devices):
            raise DataError(
                f"every device must have an island, or none (got {len(self.islands)} islands for "
                f"{len(self.devices)} devices)."
            )

    def fingerprint(self) -> str:
        total = sha256(repr((self.devices, self.islands, self.common)).encode())
        for array in (*_both(self.train), *_both(self.tests)):
            total.update(array.astype("<i8").tobytes())
        return total.hexdigest()

    def places(self, names: Sequence[str]) -> Ints:
        """Where the devices of a fleet stand here, by their names."""
        place = {name: number for number, name in enumerate(self.devices)}
        asked = set(names)
        unknown = [name for name in names if name not in place]
        absent = [name for name in self.devices if name not in asked]
        if unknown or absent:
            sides = {"no data for": unknown, "no place in the graph for": absent}
            missing = "; ".join(f"{side} {named(who)}" for side, who in sides.items() if who)
            raise DataError(
                f"devices of the graph and of the data must have the same names ({missing}). "
                "Rename them in one of the two."
            )
        return np.array([place[name] for name in names], dtype=np.int64)


def fleet_layout(holdings: Holdings, network: Network) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Where no graph says it: the sizes of the islands, and the devices' names in their order.

    Islands are those of the data, in the order in which they are first named; else the devices,
    in their order, are on as many islands as `network.components` says.
    """
    devices, asked = len(holdings.devices), network.model_fields_set
    if "devices" in asked and network.devices != devices:
        raise DataError(
            f"network.devices must match the data (got {network.devices}, the data have {devices} "
            "devices). Leave network.devices out."
        )
    if holdings.islands is None:
        wanted = network.model_copy(update={"devices": devices})
        for _, fault in wanted.size_faults():
            raise DataError(fault)
        return wanted.sizes, holdings.devices
    number_of = {island: c for c, island in enumerate(dict.fromkeys(holdings.islands))}
    grouped = Grouped.by(np.array([number_of[i] for i in holdings.islands]), len(number_of))
    sizes = tuple(grouped.sizes.tolist())
    if "components" in asked and network.components not in (sizes, len(sizes)):
        raise DataError(
            f"network.components must match the islands of the data (got {network.components!s:.60}"
            f", the data have {len(sizes)} of sizes {list(sizes)!s:.60}). Leave network.components "
            "out."
        )
    return sizes, tuple(holdings.devices[i] for i in grouped.order)


def check_islands(holdings: Holdings, places: Ints, sizes: Sequence[int]) -> None:
    """Raise DataError where the data and the graph disagree about who is on which island."""
    if holdings.islands is None:
        return
    component_of = np.repeat(np.arange(len(sizes)), sizes)
    told: dict[str, tuple[int, str]] = {}
    first: dict[int, tuple[str, str]] = {}
    for place, c in zip(places.tolist(), component_of.tolist(), strict=True):
        device, island = holdings.devices[place], holdings.islands[place]
        at, neighbour = told.setdefault(island, (c, device))
        other, another = first.setdefault(c, (island, device))
        if other != island:
            raise DataError(
                f"the data put device '{device}' on island '{island}' and '{another}' on "
                f"'{other}', but the graph links them. Leave the islands out, or the link."
            )
        if at != c:
            raise DataError(
                f"the data put devices '{neighbour}' and '{device}' on island '{island}', but the "
                "graph has no way between them. Leave the islands out, or add a link."
            )


def named(names: Sequence[object]) -> str:
    """'a', 'b' and 7 more."""
    shown = ", ".join(f"'{name!s:.40}'" for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown


def numbered(names: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names in the order in which they first come, and each one's number."""
    found, first, number = np.unique(np.asarray(names), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    return tuple(str(name) for name in found[order]), rank[number.ravel()]


def _repeated(names: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _both(grouped: Grouped) -> tuple[Ints, Ints]:
    return grouped.order, grouped.offsets
