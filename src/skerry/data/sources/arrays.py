"""A data set from arrays, or from a pair of torch data sets."""

import operator
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skerry.data.dataset import Array, Dataset, target_kind
from skerry.data.holdings import DeviceHoldings
from skerry.errors import DataError, one_line

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
    holdings: DeviceHoldings | None = None,
) -> Dataset:
    """A data set from arrays: images N,H,W or N,H,W,C or vectors N,F, and whole labels from 0 on,
    floating-point targets N or N,outputs, or next tokens N,L for tokens N,L.

    uint8 is taken as pixels from 0 to 255; anything else becomes float32 and stays on its scale.
    The classes are those of y_train, each of which must occur.
    """
    y, y_later = _as_targets("y_train", y_train), _as_targets("y_test", y_test)
    if target_kind(y) == "labels" and y.ndim == 1 and y.size:
        _check_every_label(y)
    tokens = target_kind(y) == "tokens" and all(
        np.issubdtype(as_array("x_train", x).dtype, np.integer) for x in (x_train, x_test)
    )
    x, x_later = (
        as_array(part, values).astype(np.int64) if tokens else _as_inputs(part, values)
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
        classes=_count_outputs(x, y, x_later, y_later),
        whole=np.issubdtype(as_array("x_train", x_train).dtype, np.integer),
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
    x_train, y_train = stack_torch("train data set", train)
    x_test, y_test = stack_torch("test data set", test)
    return from_arrays(x_train, y_train, x_test, y_test, name=type(train).__name__.lower())


def stack_torch(who: str, dataset: "torch.utils.data.Dataset[Any]") -> tuple[Array, Array]:
    """The samples and labels of a map-style torch data set as arrays; `who` names it in errors."""
    if not isinstance(dataset, Sized):
        raise DataError(f"the {who} must be map-style: it has no length.")
    try:
        items = [
            (_channels_last(x), _target(label))
            for x, label in map(dataset.__getitem__, range(len(dataset)))
        ]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DataError(
            f"the {who} must give pairs of x and a whole label ({one_line(error)})."
        ) from None
    if len({(x.shape, np.shape(label)) for x, label in items}) > 1:
        raise DataError(f"all samples of the {who} must have the same shape.")
    return np.array([x for x, _ in items]), np.array([label for _, label in items])


def _channels_last(x: Any) -> Array:
    import torch

    array = as_array("a sample", x)
    return np.moveaxis(array, 0, -1) if isinstance(x, torch.Tensor) and x.ndim == 3 else array


def _target(label: Any) -> Any:
    """One target of a torch data set: a whole label, a number, or a row of either."""
    try:
        return operator.index(label)
    except TypeError:
        return as_array("a target", label)


@contextmanager
def errors_about(source: str) -> Iterator[None]:
    """Let data errors begin with `source`, where the data come from, unless it is empty."""
    try:
        yield
    except DataError as error:
        if not source:
            raise
        raise DataError(*(f"{source}: {fault}" for fault in error.faults)) from None


def as_array(name: str, values: ArrayLike) -> Array:
    """Convert values to a plain array; raise DataError with `name` if that would lose something.

    Gradients of tensors are left behind. Whole numbers are signed, except for pixels: NumPy takes
    uint64 beside int64 for real numbers, so labels of both would become those of a regression.
    """
    try:
        array = np.asarray(_dense(name, values))
    except (ValueError, TypeError, RuntimeError) as error:
        uneven = "inhomogeneous" in str(error)
        why = "its rows differ in length" if uneven else f"it cannot be read ({one_line(error)})"
        raise DataError(f"{name} must be an array: {why}.") from None
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = np.ma.getmaskarray(values).sum()
        raise DataError(
            f"{name} has {masked:,} masked values, whose numbers mean nothing. Fill or drop them: "
            "x.filled(0), or x.compress(~y.mask, axis=0)."
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        if array.size and array.max() >= 2**63:
            raise DataError(f"{name} must hold numbers below 2**63 (got {array.max()}).")
        return array.astype(np.int64)
    return array


def _dense(name: str, values: Any) -> Any:
    """A tensor of torch on the CPU, in a precision that NumPy has; anything else as it is."""
    layout = str(getattr(values, "layout", ""))
    if hasattr(values, "todense") or "sparse" in layout:
        how = "to_dense" if layout else "toarray"
        raise DataError(f"{name} must be dense (got a sparse array). Convert: x.{how}()")
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def _as_inputs(name: str, values: ArrayLike) -> Array:
    """Inputs as they are stored: uint8 or float32."""
    x = as_array(name, values)
    if x.dtype in (np.uint8, np.float32):
        return x
    if x.dtype.kind not in "uif":
        raise DataError(
            f"{name} must hold real numbers (got dtype {x.dtype}). Convert: "
            f"{name}.astype(np.float32)"
        )
    with np.errstate(over="ignore"):  # too large for float32 is found as not finite
        return x.astype(np.float32)


def _as_targets(name: str, values: ArrayLike) -> Array:
    """Targets as they are stored: whole numbers as int64, all others as float32."""
    y = as_array(name, values)
    if y.dtype.kind not in "buif":
        raise DataError(
            f"{name} must hold whole numbers, or for a regression floating-point ones (got dtype "
            f"{y.dtype}). Number labels from 0 on: np.unique({name}, return_inverse=True)[1]"
        )
    with np.errstate(over="ignore"):  # too large for float32 is found as not finite
        return y.astype(np.float32 if y.dtype.kind == "f" else np.int64)


def _count_outputs(x_train: Array, y_train: Array, x_test: Array, y_test: Array) -> int:
    """The number of classes, of tokens, or of numbers in a target."""
    kind = target_kind(y_train)
    if kind == "numbers":
        return y_train.shape[1] if y_train.ndim == 2 else 1
    if kind == "tokens":
        return 1 + int(max(part.max(initial=0) for part in (x_train, y_train, x_test, y_test)))
    return len(np.unique(y_train))


def _check_every_label(y: Array) -> None:
    present = np.unique(y)
    if not np.array_equal(present, np.arange(len(present))):
        raise DataError(
            f"y_train must hold every label from 0 to classes - 1 (got {len(present)} labels from "
            f"{present[0]} to {present[-1]}). Renumber: np.unique(labels, return_inverse=True)[1]; "
            "for a regression: y_train.astype(float)"
        )
