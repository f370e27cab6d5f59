"""The state of a stack: everything that a round changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from skerry.engine.server import Memory
from skerry.methods.method import Arrays

Devices = slice | Tensor
"""Rows of X: a slice, or a tensor of numbers for rows that are no neighbours."""

COMPRESSION = "compression"
"""The owner of the companions that compressed links and servers keep, in the place of a method."""


@dataclass
class Companions:
    """The arrays that methods and compression keep beside X, each for the lanes that have it.

    The key of an array is `owner.name`. Its shape is `[n, l, d]` or `[l, d]` for l lanes of the
    stack, in their order, so lanes that act together are neighbours here too.
    """

    arrays: Arrays = field(default_factory=dict)
    lanes: dict[str, list[int]] = field(default_factory=dict)

    def add(self, owner: str, lanes: slice, arrays: Arrays) -> None:
        """Add the arrays of some lanes that come after all lanes of earlier arrays."""
        for name, array in arrays.items():
            key = f"{owner}.{name}"
            known = self.arrays.get(key)
            self.arrays[key] = array if known is None else torch.cat([known, array], dim=-2)
            self.lanes.setdefault(key, []).extend(range(lanes.start, lanes.stop))

    def of_method(self, lanes: slice, devices: Devices = slice(None)) -> Arrays:
        """Views of the arrays that the method of these lanes keeps, for some devices; copies for
        devices that are no neighbours."""
        return self._views(lanes, devices, of_compression=False)

    def of_compression(self, lanes: slice) -> Arrays:
        """Views of the arrays that compressed messages of these lanes need."""
        return self._views(lanes, slice(None), of_compression=True)

    def _views(self, lanes: slice, devices: Devices, of_compression: bool) -> Arrays:
        found = {}
        for key, array in self.arrays.items():
            owner, _, name = key.rpartition(".")
            if (owner == COMPRESSION) == of_compression and lanes.start in self.lanes[key]:
                first = self.lanes[key].index(lanes.start)
                view = array[..., first : first + lanes.stop - lanes.start, :]
                found[name] = view[devices] if view.ndim == 3 else view
        return found

    def keep(self, lanes: Sequence[int]) -> "Companions":
        """The arrays of some of the lanes, which are numbered anew."""
        kept = Companions()
        for key, array in self.arrays.items():
            own = self.lanes[key]
            if stay := [own.index(lane) for lane in lanes if lane in own]:
                kept.arrays[key] = array[..., stay, :].contiguous()
                kept.lanes[key] = [i for i, lane in enumerate(lanes) if lane in own]
        return kept


@dataclass
class State:
    """The models and memories of a stack after t rounds; with the seed, it determines the rest."""

    t: int
    """Rounds done."""
    X_nld: Tensor
    memory: Memory
    """The arrays of server optimizers and of the server itself, [L, d] each."""
    chunk: int
    """Devices that step at once, decided at the start so that a resumed run repeats its
    arithmetic."""
    companions: Companions = field(default_factory=Companions)


def keep_lanes(state: State, lanes: list[int]) -> State:
    """The state of some of the lanes only."""
    X_nld, companions = state.X_nld[:, lanes].contiguous(), state.companions.keep(lanes)
    memory = {name: tensor[lanes] for name, tensor in state.memory.items()}
    return replace(state, X_nld=X_nld, memory=memory, companions=companions)
