"""The layout of flat parameter vectors: which numbers belong to which parameter, and padding."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from skerry.errors import ModelError
from skerry.plugins.context import Parameter

Layout = tuple[Parameter, ...]

LISTED = 12
"""Names of parameters in a message, at most."""


def contiguous(name: str, shape: Sequence[int], start: int = 0) -> Parameter:
    """A parameter whose numbers lie side by side, in the order of torch."""
    lengths = accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1) if shape else ()
    return Parameter(name, tuple(shape), start, tuple(reversed([*lengths])))


def parameters_of(learner: Any) -> Layout:
    """The parameters of a learner by name; one called `parameters` if it has no layout."""
    layout = getattr(learner, "layout", None)  # optional for a user's own learner
    return layout() if layout is not None else (contiguous("parameters", (learner.d,)),)


def parameter_mask(layout: Layout, d: int) -> Tensor:
    """Mask [d] of the places that hold parameters; the others are padding."""
    mask = torch.zeros(d, dtype=torch.bool)
    for parameter in layout:
        parameter.of(mask).fill_(True)
    return mask


def without_padding(layout: Layout, d: int) -> Layout:
    """The layout of vectors whose padding has been removed."""
    place_d = parameter_mask(layout, d).long().cumsum(0) - 1

    def moved(parameter: Parameter) -> Parameter:
        places = parameter.of(place_d)
        if not places.numel():
            return parameter
        first = places[(0,) * places.ndim]
        strides = tuple(
            int(places.select(axis, min(1, size - 1)).flatten()[0] - first)
            for axis, size in enumerate(places.shape)
        )
        return Parameter(parameter.name, parameter.shape, int(first), strides)

    return tuple(map(moved, layout))


def named_tensors(layout: Layout, vector_d: Tensor) -> dict[str, Tensor]:
    """The parameters of one flat vector by name, as views."""
    return {parameter.name: parameter.of(vector_d) for parameter in layout}


def count(layout: Layout) -> int:
    """The number of parameters."""
    return sum(math.prod(parameter.shape) for parameter in layout)


def private_parameters(layout: Layout, patterns: Sequence[str]) -> Layout:
    """The parameters that `model.private` names; the others are shared."""
    names = [parameter.name for parameter in layout]
    listed = f"{', '.join(names[:LISTED])}{', ...' if len(names) > LISTED else ''}"
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ModelError(
                f"model.private: '{pattern}' is no parameter of the model (it has {listed}). Give "
                "a name, or a pattern such as 'head.*'."
            )
    private = tuple(p for p in layout if any(fnmatchcase(p.name, one) for one in patterns))
    if private and count(private) == count(layout):
        raise ModelError(
            f"model.private must leave a parameter that devices share (got {list(patterns)}, which "
            f"is all of {listed}). Shorten the list."
        )
    return private


@contextmanager
def set_aside(private: Layout, *arrays: Tensor) -> Iterator[list[Tensor]]:
    """Context in which these parameters are zero in arrays `[..., d]`, as padding is; the values
    that they had, which come back at its end, are its result."""
    places = [parameter.of(array) for array in arrays for parameter in private]
    kept = [place.clone() for place in places]
    clear(private, *arrays)
    try:
        yield kept
    finally:
        for place, values in zip(places, kept, strict=True):
            place.copy_(values)


def clear(parameters: Layout, *arrays: Tensor) -> None:
    """Set parameters to zero in arrays `[..., d]`."""
    for array in arrays:
        for parameter in parameters:
            parameter.of(array).zero_()


class Padding:
    """Removes the padding of flat vectors, and adds it again as zeros."""

    def __init__(self, real_d: Tensor):
        """`real_d` masks the places that hold parameters."""
        self.d, self.parameters = len(real_d), int(real_d.sum())
        self._places = real_d.nonzero().flatten()  # once: a captured CUDA graph cannot compute it

    def remove(self, A: Tensor) -> Tensor:
        """A copy without padding, [..., d] -> [..., parameters]."""
        return A.index_select(-1, self._places)

    def write(self, compact: Tensor, into: Tensor) -> None:
        """Write vectors without padding into others that have it."""
        into.index_copy_(-1, self._places, compact)

    def add(self, found: Any) -> Any:
        """A copy with padding; what is no tensor of vectors without padding is returned as it is,
        and a check that knows the shapes reports it."""
        if not isinstance(found, Tensor) or not found.ndim or found.shape[-1] != self.parameters:
            return found
        padded = found.new_zeros(*found.shape[:-1], self.d)
        self.write(found, padded)
        return padded

    @contextmanager
    def added(self, *arrays: Tensor) -> Iterator[list[Tensor]]:
        """Context with padded copies of arrays, whose changes are written back at its end."""
        padded = [self.add(array) for array in arrays]
        yield padded
        for array, changed in zip(arrays, padded, strict=True):
            if changed is not array:
                array.copy_(self.remove(changed))
