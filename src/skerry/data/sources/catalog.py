"""The built-in data sets. Each is a plug-in `(data, seed, *, options) -> Dataset`.

A user's own function has the same signature; it may also return the four arrays.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import numpy as np

from skerry.config.experiment import Data
from skerry.data.by_device.files import read_devices
from skerry.data.by_device.from_devices import from_devices
from skerry.data.dataset import Dataset
from skerry.data.sources.arrays import from_arrays, from_torch
from skerry.data.sources.fetch import cached, fetch
from skerry.data.sources.formats import Array
from skerry.data.sources.npz import npz_arrays
from skerry.data.sources.published import PUBLISHED
from skerry.errors import DataError
from skerry.files import exists, user_path
from skerry.plugins import registry

__all__ = ["Dataset", "from_arrays", "from_devices", "from_torch", "load_dataset"]

_HOW_TO_WRITE = (
    "Write it with np.savez(path, x_train=..., y_train=..., x_test=..., y_test=...), without "
    "objects."
)

DIGITS_MEAN, DIGITS_STD = 0.3058, 0.3762
"""Of the 1,437 training images, on the unit scale."""


def load_dataset(data: Data, seed: int, progress: bool = True) -> Dataset:
    """The data set that an experiment names, fetched first if need be."""
    if data.dataset in PUBLISHED and not data.path and not cached(data.dataset):
        fetch(data.dataset, progress=progress)  # here, where progress can be shown
    with registry.users_own("dataset", data.dataset, DataError):
        result = registry.resolve("dataset", data.dataset)(
            data, seed, **data.options_for("dataset")
        )
    if isinstance(result, Dataset):
        return result
    if isinstance(result, tuple) and len(result) == 4:
        with _named(f"dataset '{data.dataset}'"):
            return from_arrays(*result, name=data.dataset)
    raise DataError(
        f"dataset '{data.dataset}' must return a Dataset or (x_train, y_train, x_test, y_test) "
        f"(got {type(result).__name__})."
    )


def digits(data: Data, seed: int) -> Dataset:
    """1,797 handwritten digits of 8x8 pixels, in the package (UCI, CC BY 4.0; see embedded/)."""
    with (files("skerry.data") / "embedded" / "digits.npz").open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        x, y = arrays["x"], arrays["y"].astype(np.int64)
    return Dataset(
        "digits",
        *_hold_out_fifth(x, y),
        classes=10,
        mean=(DIGITS_MEAN,),
        std=(DIGITS_STD,),
        white=16,
    )


def mnist(data: Data, seed: int, *, path: str) -> Dataset:
    """70,000 handwritten digits, 28x28 (LeCun, Cortes and Burges)."""
    return _published("mnist", path)


def fashion_mnist(data: Data, seed: int, *, path: str) -> Dataset:
    """70,000 pieces of clothing, 28x28 (Xiao, Rasul and Vollgraf, 2017)."""
    return _published("fashion_mnist", path)


def cifar10(data: Data, seed: int, *, path: str) -> Dataset:
    """60,000 photographs, 32x32, 10 classes (Krizhevsky, 2009)."""
    return _published("cifar10", path)


def cifar100(data: Data, seed: int, *, path: str) -> Dataset:
    """60,000 photographs, 32x32, 100 classes, the fine labels (Krizhevsky, 2009)."""
    return _published("cifar100", path)


def npz(data: Data, seed: int, *, path: str) -> Dataset:
    """The arrays of the file `path`: x_train, y_train, x_test, y_test; or x and y, of which
    every fifth sample (of each class) is held out for testing."""
    arrays = _npz_arrays(user_path(path))
    name = Path(path).stem
    parts = ("x_train", "y_train", "x_test", "y_test")
    if arrays.keys() >= set(parts):
        x_train, y_train, x_test, y_test = (arrays[part] for part in parts)
        with _named(path):
            return from_arrays(x_train, y_train, x_test, y_test, name=name)
    if arrays.keys() >= {"x", "y"}:
        x, y = arrays["x"], arrays["y"]
        if 0 in (x.ndim, y.ndim) or len(x) != len(y):
            raise DataError(
                f"x and y in {path} must have the same length (got shapes {x.shape} and {y.shape})."
            )
        with _named(path):
            return from_arrays(*_hold_out_fifth(x, y), name=name)
    raise DataError(
        f"{path} must hold x_train, y_train, x_test, y_test, or x and y "
        f"(got {', '.join(sorted(arrays)) or 'nothing'})."
    )


def devices(data: Data, seed: int, *, path: str) -> Dataset:
    """What lies on each device: a table with a column `device`, or a folder with a file for each
    (.npz, .parquet, .csv)."""
    return read_devices(path)


def _published(name: str, path: str) -> Dataset:
    entry = PUBLISHED[name]
    arrays = fetch(name, path, progress=False)
    return Dataset(
        name,
        arrays["x_train"],
        arrays["y_train"].astype(np.int64),
        arrays["x_test"],
        arrays["y_test"].astype(np.int64),
        entry.classes,
        entry.mean,
        entry.std,
    )


def _hold_out_fifth(x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """A stratified 80/20 split that no seed changes: every fifth sample, counted class by class, or
    by the size of numbers; of rows, as they come."""
    in_test = np.zeros(len(y), bool)
    in_test[(np.argsort(y, kind="stable") if y.ndim == 1 else np.arange(len(y)))[::5]] = True
    return x[~in_test], y[~in_test], x[in_test], y[in_test]


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Faults of arrays say where the arrays come from."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def _npz_arrays(path: Path) -> Mapping[str, Array]:
    if not exists(path):
        raise DataError(f"data.path does not exist: {path!s:.200}. Name a .npz file.")
    return npz_arrays(path, _HOW_TO_WRITE)
