"""A data set from what a user already has: arrays, or a pair of torch data sets."""

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skerry.data.by_device.holdings import Holdings
from skerry.data.dataset import Dataset
from skerry.data.sources.formats import Array
from skerry.data.targets import as_array, as_targets, kind_of, outputs_of, sample_targets
from skerry.errors import DataError

if TYPE_CHECKING:
    import torch


def from_arrays(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    y_test: ArrayLike,
    name: str = "arrays",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    holdings: Holdings | None = None,
) -> Dataset:
    """A data set from arrays: images N,H,W or N,H,W,C or vectors N,F, and whole labels from 0 on,
    floating-point targets N or N,outputs, or next tokens N,L for tokens N,L.

    uint8 is taken as pixels from 0 to 255; anything else becomes float32 and stays on its scale.
    The classes are those of y_train, each of which must occur.
    """
    y, y_later = as_targets("y_train", y_train), as_targets("y_test", y_test)
    if kind_of(y) == "labels" and y.ndim == 1 and y.size:
        _check_every_label(y)
    tokens = kind_of(y) == "tokens" and all(
        np.issubdtype(as_array("x_train", x).dtype, np.integer) for x in (x_train, x_test)
    )
    x, x_later = (
        as_array(part, values).astype(np.int64) if tokens else _samples(part, values)
        for part, values in (("x_train", x_train), ("x_test", x_test))
    )
    if tokens and min(part.min(initial=0) for part in (x, x_later)) < 0:
        raise DataError("x_train and x_test must hold tokens from 0 on (got one below 0).")
    return Dataset(
        name=name,
        x_train=x,
        y_train=y,
        x_test=x_later,
        y_test=y_later,
        classes=outputs_of(x, y, x_later, y_later),
        whole=np.issubdtype(np.asarray(x_train).dtype, np.integer),
        mean=None if mean is None else tuple(float(value) for value in mean),
        std=None if std is None else tuple(float(value) for value in std),
        holdings=holdings,
    )


def from_torch(
    train: "torch.utils.data.Dataset[Any]", test: "torch.utils.data.Dataset[Any]"
) -> Dataset:
    """A data set from map-style torch data sets of (x, label).

    x is a tensor (images C,H,W or H,W; vectors F), an array, or a PIL image (images H,W,C).
    """
    x_train, y_train = stacked("train data set", train)
    x_test, y_test = stacked("test data set", test)
    return from_arrays(x_train, y_train, x_test, y_test, name=type(train).__name__.lower())


def stacked(who: str, dataset: "torch.utils.data.Dataset[Any]") -> tuple[Array, Array]:
    """The samples and labels of a map-style torch data set, as arrays."""
    if not isinstance(dataset, Sized):
        raise DataError(f"the {who} must be map-style: it has no length.")
    try:
        items = [
            (_channels_last(x), sample_targets(label))
            for x, label in map(dataset.__getitem__, range(len(dataset)))
        ]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DataError(f"the {who} must give pairs of x and a whole label ({error}).") from None
    if len({(x.shape, np.shape(label)) for x, label in items}) > 1:
        raise DataError(f"all samples of the {who} must have the same shape.")
    return np.array([x for x, _ in items]), np.array([label for _, label in items])


def _channels_last(x: Any) -> Array:
    import torch

    if isinstance(x, torch.Tensor):
        array: Array = x.detach().cpu().numpy()
        return np.moveaxis(array, 0, -1) if array.ndim == 3 else array
    return np.asarray(x)


def _samples(name: str, values: ArrayLike) -> Array:
    x = as_array(name, values)
    if x.dtype in (np.uint8, np.float32):
        return x
    if not (np.issubdtype(x.dtype, np.integer) or np.issubdtype(x.dtype, np.floating)):
        raise DataError(
            f"{name} must hold real numbers (got dtype {x.dtype}). Convert: "
            f"{name}.astype(np.float32)"
        )
    with np.errstate(over="ignore"):  # too large for float32 is found as not finite
        return x.astype(np.float32)


def _check_every_label(y: Array) -> None:
    present = np.unique(y)
    if not np.array_equal(present, np.arange(len(present))):
        raise DataError(
            f"y_train must hold every label from 0 to classes - 1 (got {len(present)} labels from "
            f"{present[0]} to {present[-1]}). Renumber: np.unique(labels, return_inverse=True)[1]; "
            "for a regression: y_train.astype(float)"
        )
