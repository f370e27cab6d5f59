"""Everything a round changes."""

from dataclasses import dataclass, field

from torch import Tensor

from skerry.engine.companions import Companions
from skerry.engine.server import Memory


@dataclass
class State:
    """With the seed it determines all that follows."""

    t: int
    """Rounds done."""
    X_nld: Tensor
    memory: Memory
    """What server optimizers remember, [L, d] each; and what the server itself does."""
    chunk: int
    """Devices that step at once, decided at the start: a resumed run repeats its arithmetic."""
    companions: Companions = field(default_factory=Companions)
    """What methods keep."""


def keep_lanes(state: State, lanes: list[int]) -> State:
    """The state of some of the lanes only."""
    memory = {name: tensor[lanes] for name, tensor in state.memory.items()}
    return State(
        state.t,
        state.X_nld[:, lanes].contiguous(),
        memory,
        state.chunk,
        state.companions.keep(lanes),
    )
