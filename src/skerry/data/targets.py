"""What samples have beside their inputs: labels, numbers, or the next tokens of a text."""

import operator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.data.sources.formats import Array
from skerry.errors import DataError

Kind = Literal["labels", "numbers", "tokens"]
"""Whole numbers [N]; numbers [N] or [N, outputs]; whole numbers [N, length]."""

STRATA = 10
"""Parts into which samples without labels are told apart, where data are dealt by label."""


def kind_of(y: Array) -> Kind:
    """What sound targets are."""
    if np.issubdtype(y.dtype, np.floating):
        return "numbers"
    return "tokens" if y.ndim == 2 else "labels"


def as_targets(name: str, values: ArrayLike) -> Array:
    """Targets as they are kept: whole numbers as int64, all others as float32."""
    y = as_array(name, values)
    if np.issubdtype(y.dtype, np.integer):
        return y.astype(np.int64)
    if np.issubdtype(y.dtype, np.floating):
        with np.errstate(over="ignore"):  # too large for float32 is found as not finite
            return y.astype(np.float32)
    raise DataError(
        f"{name} must hold whole numbers, or for a regression floating-point ones (got dtype "
        f"{y.dtype}). Number labels from 0 on: np.unique({name}, return_inverse=True)[1]"
    )


def as_array(name: str, values: ArrayLike) -> Array:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{name} must be an array: its rows differ in length.") from None


def check_targets(split: str, x: Array, y: Array) -> None:
    """Raise DataError unless these are targets for these inputs."""
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


def check_alike(y_train: Array, y_test: Array) -> None:
    kinds = kind_of(y_train), kind_of(y_test)
    if kinds[0] != kinds[1]:
        raise DataError(
            "y_train and y_test must both hold whole numbers, or both numbers of a regression "
            f"(got dtype {y_train.dtype} and {y_test.dtype}). Give labels as integers in both, or "
            "amounts with a point in both."
        )
    if kinds[0] == "numbers" and y_train.shape[1:] != y_test.shape[1:]:
        raise DataError(
            "y_train and y_test must have as many numbers for each sample (got "
            f"{y_train.shape[1:]} and {y_test.shape[1:]})."
        )


def outputs_of(x_train: Array, y_train: Array, x_test: Array, y_test: Array) -> int:
    """What a model gives: a score for each class or token, or so many numbers."""
    kind = kind_of(y_train)
    if kind == "numbers":
        return y_train.shape[1] if y_train.ndim == 2 else 1
    if kind == "tokens":
        return 1 + int(max(part.max(initial=0) for part in (x_train, y_train, x_test, y_test)))
    return len(np.unique(y_train))


def strata(y_train: Array, y: Array) -> NDArray[np.int64]:
    """Which kind of sample each is, where samples are dealt or weighed by kind: its label; without
    labels its target's tenth of the range of the training targets, by the first number; in a text,
    which tenth of it the sample comes from, as samples lie in the text's order."""
    kind = kind_of(y_train)
    if kind == "labels":
        return y
    if kind == "tokens":
        return np.arange(len(y)) * STRATA // len(y)
    first, ours = (part.reshape(len(part), -1)[:, 0] for part in (y_train, y))
    edges = np.unique(np.quantile(first, np.arange(1, STRATA) / STRATA))
    return np.searchsorted(edges, ours, side="right")


def strata_count(y_train: Array, classes: int) -> int:
    if kind_of(y_train) == "labels":
        return classes
    return int(strata(y_train, y_train).max()) + 1


def is_whole(y: Array) -> bool:
    """Whether floating-point targets are whole numbers all the same: they may be labels."""
    return bool((y == np.round(y)).all())


def sample_targets(label: Any) -> Any:
    """One target of a torch data set: a whole label, a number, or a row of either."""
    try:
        return operator.index(label)
    except TypeError:
        return np.asarray(label)
