"""The context of a run, which a plug-in with a parameter `context` receives."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from skerry.seeds import stream

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Parameter:
    """One parameter tensor of a model, and where its numbers are in a flat vector."""

    name: str
    """As in `module.named_parameters()`."""
    shape: tuple[int, ...]
    start: int
    """Place of its first number."""
    strides: tuple[int, ...]
    """Distance in the flat vector between neighbours along each dimension."""

    def of(self, vectors: "Tensor") -> "Tensor":
        """View of this parameter in flat vectors, `[..., d]` -> `[..., *shape]`."""
        unit = vectors.stride(-1)
        strides = (*vectors.stride()[:-1], *(stride * unit for stride in self.strides))
        shape = (*vectors.shape[:-1], *self.shape)
        return vectors.as_strided(shape, strides, vectors.storage_offset() + self.start * unit)


@dataclass(frozen=True)
class Context:
    """The round of a run, its network, and the options of the plug-in."""

    seed: int
    round: int = 0
    """t, counted from 0."""
    rounds: int = 0
    """T, the number of rounds; 0 before it is known."""
    number: int = 0
    """Number of the server round, counted from 0."""
    sizes: tuple[int, ...] = ()
    """Devices on each island."""
    names: tuple[str, ...] = ()
    """Names of the devices in the data or the graph, else their numbers."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that the experiment sets for this plug-in."""
    step: int = 0
    """Local steps of every device so far, over all rounds."""

    @cached_property
    def islands_n(self) -> NDArray[np.int64]:
        """The island of every device."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def devices(self) -> int:
        """The number of devices, n."""
        return sum(self.sizes)

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """A copy with other options."""
        return replace(self, options=options)

    def stream(self, name: str, *numbers: int) -> np.random.Generator:
        """A random generator that depends only on the seed, the name and the numbers, so it is the
        same for all lanes. Pass the round for draws that change with it."""
        return stream(self.seed, name, *numbers)
