"""What every plug-in may know: one that has a parameter `context` is given it, of any kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skerry.seeds import stream


@dataclass(frozen=True)
class Context:
    """Where a run stands, and the fleet it runs on."""

    seed: int
    round: int = 0
    """t, counted from 0."""
    rounds: int = 0
    """T, all of them; 0 where it is not known yet."""
    number: int = 0
    """Of the server round: how many there were before."""
    sizes: tuple[int, ...] = ()
    """Devices on each island."""
    names: tuple[str, ...] = ()
    """Of the devices: as the data or a graph call them, else their numbers."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the experiment sets for this plug-in."""
    step: int = 0
    """How many local steps every device did before, of all rounds."""

    @cached_property
    def islands_n(self) -> NDArray[np.int64]:
        """The island of every device."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def devices(self) -> int:
        """How many there are."""
        return sum(self.sizes)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        return replace(self, options=options)

    def stream(self, name: str, *numbers: int) -> np.random.Generator:
        """A random generator for one purpose: the same for all lanes of a seed, and whenever the
        same numbers are asked for. Give the round, for draws that change with it."""
        return stream(self.seed, name, *numbers)
