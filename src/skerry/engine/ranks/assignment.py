"""The assignment of devices to ranks, and the mixing of islands that lie on several ranks.

Devices are numbered island by island, and a rank holds consecutive devices, so a border between two
ranks is one number. It is at the edge of an island where one is near the even place; otherwise the
island is cut there. Every rank knows W(t) of a cut island, so each knows whose models it needs and
who needs its own: models are sent without being asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from skerry.errors import SkerryError, argument
from skerry.network.fleet import Block

SLACK = 0.25
"""The part of an even share by which a border may move to the edge of an island."""

Places = NDArray[np.integer]


@dataclass(frozen=True)
class IslandPart:
    """The devices of one island that a rank holds."""

    island: int
    size: int
    """The devices of the whole island."""
    rows: slice
    """The rows of the rank's X that hold these devices."""
    first: bool
    """Whether the island begins on this rank, where it is counted once."""

    @property
    def is_whole(self) -> bool:
        return bool(self.rows.stop - self.rows.start == self.size)


@dataclass(frozen=True)
class DeviceAssignment:
    """The devices that each rank holds, known to all ranks."""

    sizes: tuple[int, ...]
    borders: tuple[int, ...]
    """The first device of every rank, and the number of devices."""

    @classmethod
    def of(cls, sizes: Sequence[int], ranks: int) -> "DeviceAssignment":
        """The assignment of islands of these sizes to a number of ranks."""
        n, even = sum(sizes), sum(sizes) / ranks
        if ranks > n:
            raise SkerryError(
                f"{argument('ranks')} must be at most the number of devices (got {ranks} ranks for "
                f"{n} devices). Ask for fewer ranks."
            )
        edges = np.cumsum([0, *sizes])
        borders = []
        for wanted in even * np.arange(ranks + 1):
            nearest = edges[np.abs(edges - wanted).argmin()]
            is_near = abs(nearest - wanted) <= SLACK * even
            borders.append(int(nearest if is_near else round(wanted)))
        return cls(tuple(sizes), tuple(borders))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first device of every island."""
        return tuple(np.cumsum([0, *self.sizes])[:-1].tolist())

    @property
    def counts(self) -> list[int]:
        """The number of devices that each rank holds."""
        return np.diff(self.borders).tolist()

    @cached_property
    def cut(self) -> tuple[int, ...]:
        """The islands that lie on several ranks."""
        inside = set(self.borders) - set(self.starts) - {sum(self.sizes)}
        return tuple(sorted({self.island_of(border) for border in inside}))

    def island_of(self, device: int) -> int:
        """The island of a device."""
        return int(np.searchsorted(self.starts, device, side="right")) - 1

    def devices(self, rank: int) -> slice:
        """The devices that a rank holds."""
        return slice(self.borders[rank], self.borders[rank + 1])

    def islands(self, rank: int) -> slice:
        """The islands that a rank holds devices of."""
        held = self.devices(rank)
        return slice(self.island_of(held.start), self.island_of(held.stop - 1) + 1)

    def parts(self, rank: int) -> list[IslandPart]:
        """The parts of islands that a rank holds."""
        held, found = self.devices(rank), []
        for island in range(len(self.sizes))[self.islands(rank)]:
            start, size = self.starts[island], self.sizes[island]
            first, last = max(start, held.start), min(start + size, held.stop)
            rows = slice(first - held.start, last - held.start)
            found.append(IslandPart(island, size, rows, first == start))
        return found


@dataclass(frozen=True)
class CutIsland:
    """One round of mixing for the local devices of an island that lies on several ranks."""

    rows: slice
    """The local rows of X."""
    W: sparse.csr_array
    """The local rows of W transposed. Its columns are the models from ranks before this one, the
    local ones, and those from ranks after: the order of the devices, as in a sum over all."""
    sends: dict[int, Tensor]
    """By rank, the rows of X that it needs from this one."""
    receives: dict[int, int]
    """By rank, in order, the number of models that it sends."""


def cut_island(
    assignment: DeviceAssignment, rank: int, part: IslandPart, block: Block
) -> CutIsland:
    """The mixing of a rank's part of an island whose weights are this block of W."""
    W = sparse.csr_array(block.W.T)
    local = _inside(assignment.devices(rank), block)
    mine = W[local]
    needed = np.unique(mine.indices)
    columns, sends, receives = [], {}, {}
    for other in range(len(assignment.counts)):
        other_rows = _inside(assignment.devices(other), block)
        if other == rank:
            columns.append(np.arange(local.start, local.stop))
            continue
        if other_rows.start >= other_rows.stop:
            continue
        if len(coming := _between(needed, other_rows)):
            receives[other] = len(coming)
            columns.append(coming)
        if len(going := _between(np.unique(W[other_rows].indices), local)):
            sends[other] = torch.from_numpy(going - local.start + part.rows.start)
    places = np.searchsorted(np.concatenate(columns), mine.indices)
    shape = (local.stop - local.start, sum(map(len, columns)))
    weights = sparse.csr_array((mine.data, places, mine.indptr), shape)
    return CutIsland(part.rows, weights, sends, receives)


def _inside(devices: slice, block: Block) -> slice:
    """The devices of a rank as places on the island of a block."""
    start, stop = devices.start - block.start, devices.stop - block.start
    return slice(max(0, start), min(block.size, stop))


def _between(places: Places, span: slice) -> Places:
    return np.asarray(places[(places >= span.start) & (places < span.stop)])
