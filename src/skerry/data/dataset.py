"""A data set in memory: raw arrays as published, and the inputs a model sees."""

import hashlib
import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skerry.data.by_device.holdings import Holdings
from skerry.data.sources.formats import Array
from skerry.data.targets import (
    Kind,
    check_alike,
    check_targets,
    kind_of,
    strata,
    strata_count,
)
from skerry.errors import DataError

MOMENT_ROWS = 2**18
"""Of which the squares are taken at once."""

Split = Literal["train", "test"]
Scaling = Literal["standard", "unit", "raw"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their targets: labels 0..classes-1, numbers, or the next
    tokens (targets.py). One that exists is sound."""

    name: str
    x_train: Array
    """Images N,H,W or N,H,W,C, or vectors N,F; uint8 (pixels, stored small) or float32. Tokens are
    whole numbers N,L."""
    y_train: Array
    x_test: Array
    y_test: Array
    classes: int
    """What a model gives a score for: classes, or tokens; of numbers, how many a target has."""
    mean: tuple[float, ...] | None = None
    """Training mean per channel (per feature of vectors) on the unit scale; None: computed."""
    std: tuple[float, ...] | None = None
    white: float | None = None
    """The raw value that is 1 on the unit scale; None: 255 for uint8, 1 for anything else."""
    whole: bool = False
    """Whether the inputs were given as whole numbers, which raw scaling keeps."""
    holdings: Holdings | None = None
    """Which device holds which samples, if the data say so."""

    def __post_init__(self) -> None:
        for split, x, y in (
            ("train", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            _check_samples(split, x, y)
        check_alike(self.y_train, self.y_test)
        _check_shapes(self.x_train, self.x_test)
        if self.targets == "numbers":
            _check_moments(self.x_train, self.mean, self.std)
            return
        for name, part in self._counted():
            if part.max() >= self.classes:
                what = "tokens" if self.targets == "tokens" else "labels"
                raise DataError(
                    f"{name} must hold {what} 0 to {self.classes - 1} (got {part.max()})."
                )
        if self.classes < 2:
            raise DataError(f"a data set needs at least 2 classes (got {self.classes}).")
        _check_moments(self.x_train, self.mean, self.std)

    @property
    def targets(self) -> Kind:
        return kind_of(self.y_train)

    def strata(self, split: Split) -> NDArray[np.int64]:
        """The kind of each sample, where samples are dealt or weighed by kind: its label, or what
        stands for it (targets.py). Of the test samples, those that all devices are measured on."""
        common = self.y_test[self.common_tests]
        return strata(self.y_train, self.y_train if split == "train" else common)

    def tokens(self, scaling: Scaling) -> int | None:
        """How many different whole numbers a model sees; None where it sees real ones."""
        if self.targets == "tokens":
            return self.classes
        if scaling == "raw" and self.whole and self.x_train.ndim == 2:
            return 1 + int(max(self.x_train.max(), self.x_test.max()))
        return None

    @property
    def strata_count(self) -> int:
        return strata_count(self.y_train, self.classes)

    def inputs(
        self, split: Split, scaling: Scaling, some: slice | NDArray[np.int64] = slice(None)
    ) -> Array:
        """What a model sees: float32, images as N,C,H,W, vectors as N,F; tokens as int64 N,L. All
        of it, or some samples: large data go to a model in blocks.

        unit: raw values over `white`; standard: minus the training mean, over the training
        standard deviation, per channel or per feature; raw: as they are.
        """
        raw = (self.x_train if split == "train" else self.x_test)[some]
        if self.tokens(scaling) is not None:
            return raw.astype(np.int64)
        if raw.ndim == 3:
            raw = raw[..., np.newaxis]
        x = np.ascontiguousarray(np.moveaxis(raw, -1, 1)).astype(np.float32)
        if scaling == "raw":
            return x
        x /= np.float32(self._white)
        if scaling == "standard":
            per_channel = (-1,) + (1,) * (x.ndim - 2)
            mean, std = (m.astype(np.float32).reshape(per_channel) for m in self._moments)
            x -= mean
            x /= std
        return x

    def holding(self, samples: NDArray[np.int64]) -> "Dataset":
        """The same without the inputs of all other training samples, for one of several processes.
        What was computed of all of them is kept, and so are the targets, which are small."""
        held = copy(self)
        object.__setattr__(held, "x_train", self.x_train[samples])
        return held

    @property
    def common_tests(self) -> slice:
        """The test samples that all devices are measured on."""
        return slice(self.holdings.common or None) if self.holdings else slice(None)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one sample, as a model sees it."""
        shape = self.x_train.shape[1:]
        if len(shape) == 1:
            return shape
        height, width, *channels = shape
        return (*(channels or [1]), height, width)

    def fingerprint(self) -> str:
        """A sha256 over all that decides the inputs and labels; the name plays no part."""
        total = hashlib.sha256(repr((self.classes, self.mean, self.std, self._white)).encode())
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            total.update(repr((array.dtype.str, array.shape)).encode())
            total.update(np.ascontiguousarray(array).data)
        if self.holdings is not None:
            total.update(self.holdings.fingerprint().encode())
        return total.hexdigest()

    def _counted(self) -> list[tuple[str, Array]]:
        """What must stay below the number of classes or tokens."""
        targets = [("y_train", self.y_train), ("y_test", self.y_test)]
        inputs = [("x_train", self.x_train), ("x_test", self.x_test)]
        return targets + (inputs if self.targets == "tokens" else [])

    @property
    def _white(self) -> float:
        return self.white or (255.0 if self.x_train.dtype == np.uint8 else 1.0)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        if self.mean is not None and self.std is not None:
            return np.array(self.mean), np.array(self.std)
        mean, std = moments(self.x_train)
        return mean / self._white, std / self._white


def moments(x: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation per channel or feature; the latter is 1 where nothing varies."""
    images = x.ndim > 2
    flat = x.reshape(-1, x.shape[3] if x.ndim == 4 else 1) if images else x
    mean = flat.mean(axis=0, dtype=np.float64)
    # In blocks: the squares of a whole image set in float64 would take gigabytes.
    starts = range(0, len(flat), MOMENT_ROWS)
    blocks = (flat[start : start + MOMENT_ROWS] for start in starts)
    squares = sum(np.square(block - mean).sum(axis=0) for block in blocks)
    varies = flat.max(axis=0) > flat.min(axis=0)
    return mean, np.where(varies, np.sqrt(squares / len(flat)), 1.0)


def _check_samples(split: str, x: Array, y: Array) -> None:
    if y.ndim == 0:
        raise DataError(f"y_{split} must have one dimension (got shape ()).")
    if x.ndim not in (2, 3, 4):
        raise DataError(
            f"x_{split} must be vectors N,F or images N,H,W or N,H,W,C (got shape {x.shape})."
        )
    if len(x) != len(y):
        raise DataError(
            f"x_{split} and y_{split} must have the same length (got {len(x)} and {len(y)})."
        )
    if not x.size:
        raise DataError(f"x_{split} must not be empty (got shape {x.shape}).")
    if x.dtype != np.uint8 and not _is_finite(x):
        raise DataError(
            f"x_{split} must be finite in float32 (got {np.count_nonzero(~np.isfinite(x))} values "
            "that are not). Fill or drop them."
        )
    check_targets(split, x, y)


def _is_finite(x: Array) -> bool:
    """In blocks: large data may lie on disk."""
    blocks = (x[start : start + 2**16] for start in range(0, len(x), 2**16))
    return all(np.isfinite(block).all() for block in blocks)


def _check_shapes(x_train: Array, x_test: Array) -> None:
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        raise DataError(
            f"x_train and x_test must be alike (got {x_train.dtype} samples of "
            f"{x_train.shape[1:]} and {x_test.dtype} samples of {x_test.shape[1:]})."
        )
    if x_train.ndim == 4 and x_train.shape[1] in (1, 3) and x_train.shape[3] not in (1, 3, 4):
        raise DataError(
            f"images must be N,H,W,C (got shape {x_train.shape}). "
            "Move the channels last: np.moveaxis(x, 1, -1)"
        )


def _check_moments(x: Array, mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> None:
    if mean is None and std is None:
        return
    channels = {2: x.shape[1], 3: 1}.get(x.ndim, x.shape[-1])
    if mean is None or std is None or not len(mean) == len(std) == channels:
        raise DataError(f"mean and std must both hold {channels} numbers, or both be left out.")
    if not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
        raise DataError(f"mean must be finite and std above 0 (got {mean} and {std}).")
