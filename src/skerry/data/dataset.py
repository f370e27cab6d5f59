"""A data set in memory: raw arrays as published, the inputs a model sees, and its targets."""

import hashlib
import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skerry.data.holdings import DeviceHoldings
from skerry.errors import DataError

Array = NDArray[Any]
TargetKind = Literal["labels", "numbers", "tokens"]
"""Labels are whole numbers [N]; numbers are [N] or [N, outputs]; tokens, whole [N, length]."""

STRATA = 10
"""Number of strata of samples without labels, where data are dealt by label."""
MOMENT_ROWS = 2**18
"""Rows whose squares are summed at once."""

Split = Literal["train", "test"]
Scaling = Literal["standard", "unit", "raw"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their targets: labels 0..classes-1, numbers, or the next
    tokens of a text. The constructor checks that they fit together."""

    name: str
    x_train: Array
    """Images N,H,W or N,H,W,C or vectors N,F, as uint8 (pixels) or float32; tokens N,L, int64."""
    y_train: Array
    x_test: Array
    y_test: Array
    classes: int
    """Outputs of a model: the number of classes, of tokens, or of numbers in a target."""
    mean: tuple[float, ...] | None = None
    """Training mean per channel (per feature of vectors) on the unit scale; computed if None."""
    std: tuple[float, ...] | None = None
    white: float | None = None
    """The raw value that is 1 on the unit scale; by default 255 for uint8, else 1."""
    whole: bool = False
    """Whether the inputs were given as whole numbers, which raw scaling keeps."""
    holdings: DeviceHoldings | None = None
    """Which device holds which samples, if the data name their devices."""

    def __post_init__(self) -> None:
        _check_samples("train", self.x_train, self.y_train)
        _check_samples("test", self.x_test, self.y_test)
        _check_same_targets(self.y_train, self.y_test)
        _check_shapes(self.x_train, self.x_test)
        if self.targets != "numbers":
            inputs = ("x_train", "x_test") if self.targets == "tokens" else ()
            for name in ("y_train", "y_test", *inputs):
                if (largest := getattr(self, name).max()) >= self.classes:
                    raise DataError(
                        f"{name} must hold {self.targets} 0 to {self.classes - 1} (got {largest})."
                    )
            if self.classes < 2:
                raise DataError(f"a data set needs at least 2 classes (got {self.classes}).")
        _check_moments(self.x_train, self.mean, self.std)

    @property
    def targets(self) -> TargetKind:
        """Whether the targets are labels, numbers or tokens."""
        return target_kind(self.y_train)

    def strata(self, split: Split) -> NDArray[np.int64]:
        """The stratum of each training sample, or of each common test sample, by which samples are
        dealt or weighted: its label; without labels, the decile of its first number among the
        training targets; in a text, the tenth of the text that it comes from."""
        y = self.y_train if split == "train" else self.y_test[self.common_tests]
        if self.targets == "labels":
            return y
        if self.targets == "tokens":  # samples lie in the order of the text
            return np.arange(len(y)) * STRATA // len(y)
        first, ours = (part.reshape(len(part), -1)[:, 0] for part in (self.y_train, y))
        edges = np.unique(np.quantile(first, np.arange(1, STRATA) / STRATA))
        return np.searchsorted(edges, ours, side="right")

    def tokens(self, scaling: Scaling) -> int | None:
        """The number of different whole numbers that a model sees; None if it sees real ones."""
        if self.targets == "tokens":
            return self.classes
        if scaling == "raw" and self.whole and self.x_train.ndim == 2:
            return 1 + int(max(self.x_train.max(), self.x_test.max()))
        return None

    @property
    def strata_count(self) -> int:
        """The number of strata: classes, or what `strata` has without labels."""
        return self.classes if self.targets == "labels" else int(self.strata("train").max()) + 1

    def inputs(
        self, split: Split, scaling: Scaling, some: slice | NDArray[np.int64] = slice(None)
    ) -> Array:
        """The inputs of a model, of all samples or of some (large data go to a model in blocks):
        float32 with images as N,C,H,W and vectors as N,F; tokens as int64 N,L.

        Scaling "unit" divides raw values by `white`; "standard" also subtracts the training mean
        and divides by the training standard deviation, per channel or per feature; "raw" does
        nothing.
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
        """A copy with the inputs of some training samples only, for one of several processes. It
        keeps what was computed from all samples, and all targets, which are small."""
        part = copy(self)
        object.__setattr__(part, "x_train", self.x_train[samples])
        return part

    @property
    def common_tests(self) -> slice:
        """The test samples that all devices are scored on."""
        return slice(self.holdings.common or None) if self.holdings else slice(None)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as a model sees it."""
        shape = self.x_train.shape[1:]
        if len(shape) == 1:
            return shape
        height, width, *channels = shape
        return (*(channels or [1]), height, width)

    def fingerprint(self) -> str:
        """SHA-256 of all that determines the inputs and targets; the name plays no part."""
        total = hashlib.sha256(repr((self.classes, self.mean, self.std, self._white)).encode())
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            total.update(repr((array.dtype.str, array.shape)).encode())
            total.update(np.ascontiguousarray(array).data)
        if self.holdings is not None:
            total.update(self.holdings.fingerprint().encode())
        return total.hexdigest()

    @property
    def _white(self) -> float:
        return self.white or (255.0 if self.x_train.dtype == np.uint8 else 1.0)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        if self.mean is not None and self.std is not None:
            return np.array(self.mean), np.array(self.std)
        mean, std = channel_moments(self.x_train)
        return mean / self._white, std / self._white


def channel_moments(x: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation per channel or feature; a constant one has the deviation 1."""
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
    _check_targets(split, x, y)


def _is_finite(x: Array) -> bool:
    """Checked in blocks, because large data may lie on disk."""
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


# Targets


def target_kind(y: Array) -> TargetKind:
    """Whether targets are labels, numbers or tokens."""
    if np.issubdtype(y.dtype, np.floating):
        return "numbers"
    return "tokens" if y.ndim == 2 else "labels"


def _check_targets(split: str, x: Array, y: Array) -> None:
    """Raise DataError unless y are sound targets for the inputs x."""
    if np.issubdtype(y.dtype, np.floating):
        if y.ndim not in (1, 2) or not y.size:
            raise DataError(
                f"y_{split} must hold one number, or one row of numbers, for each sample (got "
                f"shape {y.shape})."
            )
        if not np.isfinite(y).all():
            raise DataError(
                f"y_{split} must be finite in float32 ({np.count_nonzero(~np.isfinite(y))} of its "
                "values are not). Drop those samples."
            )
        return
    if y.ndim == 2 and np.issubdtype(x.dtype, np.integer) and x.ndim == 2:
        if x.shape != y.shape:
            raise DataError(
                f"x_{split} and y_{split} must have the same shape, a next token for each token "
                f"(got {x.shape} and {y.shape})."
            )
    elif y.ndim != 1:
        raise DataError(
            f"y_{split} must have one dimension (got shape {y.shape}). Next tokens need whole "
            "numbers of the same shape as inputs."
        )
    if y.size and y.min() < 0:
        what = "tokens" if y.ndim == 2 else "labels"
        raise DataError(f"y_{split} must hold {what} from 0 on (got {y.min()}).")


def _check_same_targets(y_train: Array, y_test: Array) -> None:
    kinds = target_kind(y_train), target_kind(y_test)
    if kinds[0] != kinds[1]:
        raise DataError(
            "y_train and y_test must both hold whole numbers, or both numbers of a regression "
            f"(got dtype {y_train.dtype} and {y_test.dtype}). Give labels as integers in both, or "
            "amounts as floating-point numbers in both."
        )
    if kinds[0] == "numbers" and y_train.shape[1:] != y_test.shape[1:]:
        raise DataError(
            "y_train and y_test must have as many numbers for each sample (got "
            f"{y_train.shape[1:]} and {y_test.shape[1:]})."
        )
