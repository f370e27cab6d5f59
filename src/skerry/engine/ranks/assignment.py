"""Which rank holds which devices: a row of neighbours, with whole islands where that is even.

Devices are numbered island by island, so a border between two ranks is one number. It stands at the
edge of an island; only where no edge is near the even place is an island cut there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skerry.errors import SkerryError, argument

SLACK = 0.25
"""So much of an even share a border may move to find the edge of an island."""


@dataclass(frozen=True)
class Part:
    """The devices of one island that a rank holds."""

    island: int
    size: int
    """Of the whole island."""
    rows: slice
    """Where they are in the rank's X."""
    first: bool
    """Whether the island begins here: what counts once for an island counts there."""

    @property
    def is_whole(self) -> bool:
        return bool(self.rows.stop - self.rows.start == self.size)


@dataclass(frozen=True)
class Shares:
    """Of all ranks: every one knows what the others hold."""

    sizes: tuple[int, ...]
    borders: tuple[int, ...]
    """The first device of every rank, and the number of devices."""

    @classmethod
    def of(cls, sizes: Sequence[int], ranks: int) -> "Shares":
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
        """How many devices each rank holds."""
        return np.diff(self.borders).tolist()

    @cached_property
    def cut(self) -> tuple[int, ...]:
        """The islands that lie on several ranks."""
        inside = set(self.borders) - set(self.starts) - {sum(self.sizes)}
        return tuple(sorted({self.island_of(border) for border in inside}))

    def island_of(self, device: int) -> int:
        return int(np.searchsorted(self.starts, device, side="right")) - 1

    def devices(self, rank: int) -> slice:
        return slice(self.borders[rank], self.borders[rank + 1])

    def islands(self, rank: int) -> slice:
        """Those that it holds devices of."""
        held = self.devices(rank)
        return slice(self.island_of(held.start), self.island_of(held.stop - 1) + 1)

    def parts(self, rank: int) -> list[Part]:
        held, found = self.devices(rank), []
        for island in range(len(self.sizes))[self.islands(rank)]:
            start, size = self.starts[island], self.sizes[island]
            first, last = max(start, held.start), min(start + size, held.stop)
            rows = slice(first - held.start, last - held.start)
            found.append(Part(island, size, rows, first == start))
        return found
