"""The arrays that methods and compression keep beside X, each for those lanes that have it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skerry.methods.method import Arrays

COMPRESSION = "compression."
"""What the names of arrays begin with that no method keeps, but compressed links and servers."""


@dataclass
class Companions:
    """By `method.array`, an array `[n, l, d]` or `[l, d]` and the l lanes of the stack it belongs
    to, in their order: lanes that act together are neighbours here too."""

    arrays: Arrays = field(default_factory=dict)
    lanes: dict[str, list[int]] = field(default_factory=dict)

    def add(self, method: str, lanes: slice, arrays: Arrays) -> None:
        """What a method keeps for a group that comes after all that are here."""
        for name, array in arrays.items():
            key = f"{method}.{name}"
            there = self.arrays.get(key)
            self.arrays[key] = array if there is None else torch.cat([there, array], dim=-2)
            self.lanes.setdefault(key, []).extend(range(lanes.start, lanes.stop))

    def of(self, lanes: slice, devices: slice = slice(None)) -> Arrays:
        """Views of all that the method of these neighbours keeps, of some devices."""
        return self._views(lanes, devices, of_compression=False)

    def copies(self, lanes: slice) -> Arrays:
        """Views of what both sides of their compressed messages know."""
        return self._views(lanes, slice(None), of_compression=True)

    def _views(self, lanes: slice, devices: slice, of_compression: bool) -> Arrays:
        found = {}
        for key, array in self.arrays.items():
            if key.startswith(COMPRESSION) == of_compression and lanes.start in self.lanes[key]:
                first = self.lanes[key].index(lanes.start)
                view = array[..., first : first + lanes.stop - lanes.start, :]
                found[key.rpartition(".")[2]] = view[devices] if view.ndim == 3 else view
        return found

    def rows_of(self, lanes: slice) -> list[Tensor]:
        """Of those, the ones with a row for each device."""
        return [array for array in self.of(lanes).values() if array.ndim == 3]

    def keep(self, lanes: Sequence[int]) -> "Companions":
        """Of some of the lanes only, which are numbered anew."""
        kept = Companions()
        for key, array in self.arrays.items():
            own = self.lanes[key]
            stay = [own.index(lane) for lane in lanes if lane in own]
            if stay:
                kept.arrays[key] = array[..., stay, :].contiguous()
                kept.lanes[key] = [i for i, lane in enumerate(lanes) if lane in own]
        return kept
