"""The built-in data sets. Each is a plug-in `(*, options) -> Dataset`.

A user's own function has the same signature; it may also return the four arrays.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np

from skerry.config.experiment import Data
from skerry.data.by_device.tables import read_devices
from skerry.data.dataset import Array, Dataset
from skerry.data.holdings import DeviceHoldings, SamplesByDevice
from skerry.data.sources.arrays import errors_about, from_arrays, from_torch
from skerry.data.sources.fetch import cache_file, fetch, is_cached
from skerry.data.sources.formats import SPEECH_CHARACTERS, Arrays, load_npz, unpack_presidents
from skerry.data.sources.published import PUBLISHED
from skerry.errors import DataError
from skerry.files import exists, plain_path, user_path, what_is_wrong, written
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import bind
from skerry.seeds import torch_seed

__all__ = ["Dataset", "from_arrays", "from_torch", "load_dataset"]

_HOW_TO_WRITE = (
    "Write it with np.savez(path, x_train=..., y_train=..., x_test=..., y_test=...), without "
    "objects."
)

DIGITS_MEAN, DIGITS_STD = 0.3058, 0.3762
"""Of the 1,437 training images, on the unit scale."""
MEN = ("Andrew", "Bill", "David", "Mark", "Mike", "Nick", "Rich", "Tim")
SPEAKERS = (
    *("Andrew", "Bill", "David", "Mark", "Jo", "Kate", "Penny", "Rose"),
    *("Mike", "Nick", "Rich", "Tim", "Sarah", "Sue", "Wendy"),
)
"""The speakers of the vowels, in the order of the data."""
TEST_REPETITIONS = 2
"""How many of a speaker's six repetitions of every vowel, the last ones, are for testing."""


def load_dataset(data: Data, seed: int, progress: bool = True) -> Dataset:
    """Load the data set that an experiment names, and download it first if necessary."""
    if data.dataset in PUBLISHED and not data.path and not is_cached(data.dataset):
        fetch(data.dataset, progress=progress)  # here, where progress can be shown
    options = data.options_for("dataset")
    if "path" in options:
        path = plain_path(data.path)  # for a function of the user, it need not be a file
        options["path"] = path if registry.is_builtin("dataset", data.dataset) else written(path)
    with registry.users_own("dataset", data.dataset, DataError), _seeded_torch(data.dataset, seed):
        load = bind("dataset", registry.resolve("dataset", data.dataset), options)
        result = load(context=Context("a data set is loaded", seed=seed))
    if isinstance(result, Dataset):
        return result
    if isinstance(result, tuple) and len(result) == 4:
        with errors_about(f"dataset '{data.dataset}'"):
            return from_arrays(*result, name=data.dataset)
    raise DataError(
        f"dataset '{data.dataset}' must return a Dataset or (x_train, y_train, x_test, y_test) "
        f"(got {type(result).__name__})."
    )


@contextmanager
def _seeded_torch(name: str, seed: int) -> Iterator[None]:
    """Seed torch's global generator for a user's own data set, which may use a DataLoader."""
    if registry.is_builtin("dataset", name):
        yield
        return
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "dataset"))
        yield


@dataclass(frozen=True)
class DatasetInfo:
    """A line of `skerry data list`."""

    name: str
    shape: tuple[int, ...]
    train: int
    test: int
    classes: int | None
    """Number of classes or tokens; None for numbers."""
    state: Literal["embedded", "generated", "cached", "to fetch"]
    size: int
    """Bytes in the package, in the cache, or to download."""


def list_datasets() -> list[DatasetInfo]:
    """Every built-in data set, and whether it is embedded, generated, cached or to be fetched."""
    embedded = {name: _embedded(name).stat().st_size for name in ("digits", "vowels")}
    rows = [
        DatasetInfo("digits", (8, 8), 1437, 360, 10, "embedded", embedded["digits"]),
        DatasetInfo("vowels", (10,), 660, 330, 11, "embedded", embedded["vowels"]),
        DatasetInfo("synthetic", (20,), 6000, 1000, 10, "generated", 0),
        DatasetInfo("synthetic_regression", (20,), 6000, 1000, None, "generated", 0),
        DatasetInfo("synthetic_tokens", (16,), 2000, 500, 12, "generated", 0),
    ]
    for p in PUBLISHED.values():
        here = is_cached(p.name)
        size = cache_file(p.name).stat().st_size if here else p.download_bytes
        state: Literal["cached", "to fetch"] = "cached" if here else "to fetch"
        rows.append(DatasetInfo(p.name, p.image, p.train, p.test, p.classes, state, size))
    return rows


# Data that are dealt to devices


def digits() -> Dataset:
    """1,797 handwritten digits of 8x8 pixels, in the package (UCI, CC BY 4.0; see embedded/)."""
    arrays = load_npz(_embedded("digits"), "")
    return Dataset(
        "digits",
        *_hold_out_fifth(arrays["x"], arrays["y"].astype(np.int64)),
        classes=10,
        mean=(DIGITS_MEAN,),
        std=(DIGITS_STD,),
        white=16,
    )


def mnist(*, path: str) -> Dataset:
    """70,000 handwritten digits, 28x28 (LeCun, Cortes and Burges)."""
    return _published("mnist", path)


def fashion_mnist(*, path: str) -> Dataset:
    """70,000 pieces of clothing, 28x28 (Xiao, Rasul and Vollgraf, 2017)."""
    return _published("fashion_mnist", path)


def cifar10(*, path: str) -> Dataset:
    """60,000 photographs, 32x32, 10 classes (Krizhevsky, 2009)."""
    return _published("cifar10", path)


def cifar100(*, path: str) -> Dataset:
    """60,000 photographs, 32x32, 100 classes, the fine labels (Krizhevsky, 2009)."""
    return _published("cifar100", path)


def npz(*, path: str) -> Dataset:
    """The arrays of the file `path`: x_train, y_train, x_test, y_test; or x and y, of which
    every fifth sample (of each class) is held out for testing."""
    file = user_path(path)
    if not exists(file):
        raise DataError(f"data.path {what_is_wrong(path)}. Name a .npz file.")
    arrays = load_npz(file, _HOW_TO_WRITE)
    if arrays.keys() >= {"x_train", "y_train", "x_test", "y_test"}:
        parts = _parts(arrays)
    elif arrays.keys() >= {"x", "y"}:
        x, y = arrays["x"], arrays["y"]
        if 0 in (x.ndim, y.ndim) or len(x) != len(y):
            raise DataError(
                f"x and y in {path} must have the same length (got shapes {x.shape} and {y.shape})."
            )
        parts = _hold_out_fifth(x, y)
    else:
        raise DataError(
            f"{path} must hold x_train, y_train, x_test, y_test, or x and y "
            f"(got {', '.join(sorted(arrays)) or 'nothing'})."
        )
    with errors_about(path):
        return from_arrays(*parts, name=Path(path).stem)


def _embedded(name: str) -> Path:
    return Path(str(files("skerry.data"))) / "embedded" / f"{name}.npz"


def _published(name: str, path: str) -> Dataset:
    entry, arrays = PUBLISHED[name], fetch(name, path, progress=False)
    labels = {part: arrays[part].astype(np.int64) for part in ("y_train", "y_test")}
    return Dataset(name, *_parts(arrays | labels), entry.classes, entry.mean, entry.std)


def _parts(arrays: Arrays) -> tuple[Array, Array, Array, Array]:
    return arrays["x_train"], arrays["y_train"], arrays["x_test"], arrays["y_test"]


def _hold_out_fifth(x: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """A stratified 80/20 split that does not depend on the seed: every fifth sample is held out, in
    the order of the labels or numbers; of targets in rows, in their own order."""
    in_test = np.zeros(len(y), bool)
    in_test[(np.argsort(y, kind="stable") if y.ndim == 1 else np.arange(len(y)))[::5]] = True
    return x[~in_test], y[~in_test], x[in_test], y[in_test]


# Data that name their devices


def device_files(*, path: str) -> Dataset:
    """What lies on each device: a table with a column `device`, or a folder with a file for each
    (.npz, .parquet, .csv)."""
    return read_devices(path)


def vowels() -> Dataset:
    """990 vowels said by 15 speakers, in the package (UCI, CC BY 4.0; see embedded/). Islands: men
    and women. Of the six times that a speaker says a vowel, two are his or her own test samples."""
    x_srvf = load_npz(_embedded("vowels"), "")["x"].astype(np.float32) / 1000
    train, test = np.split(x_srvf, [x_srvf.shape[1] - TEST_REPETITIONS], axis=1)
    islands = tuple("men" if name in MEN else "women" for name in SPEAKERS)
    holdings = DeviceHoldings(SPEAKERS, _by_speaker(train), _by_speaker(test), islands=islands)
    arrays = (*_flatten(train), *_flatten(test))
    return Dataset("vowels", *arrays, classes=x_srvf.shape[2], holdings=holdings)


def speeches(*, path: str) -> Dataset:
    """The addresses of 43 presidents on the state of the union, in stretches of 64 characters, each
    with the next characters. Islands: parties. Every tenth stretch is for testing."""
    fetched = fetch("speeches", path, progress=False)
    names, parties = unpack_presidents(fetched.pop("presidents"))
    arrays: Arrays = {name: array.astype(np.int64) for name, array in fetched.items()}
    return Dataset(
        "speeches",
        *_parts(arrays),
        classes=SPEECH_CHARACTERS,
        whole=True,
        holdings=DeviceHoldings(
            names,
            SamplesByDevice.from_owners(arrays["whose_train"], len(names)),
            SamplesByDevice.from_owners(arrays["whose_test"], len(names)),
            islands=parties,
        ),
    )


def _flatten(x_srvf: Array) -> tuple[Array, Array]:
    """Samples and labels, speaker by speaker, from [speaker, repetition, vowel, feature]."""
    speakers, repetitions, classes, features = x_srvf.shape
    return x_srvf.reshape(-1, features), np.tile(np.arange(classes), speakers * repetitions)


def _by_speaker(x_srvf: Array) -> SamplesByDevice:
    speakers, repetitions, classes, _ = x_srvf.shape
    owners = np.repeat(np.arange(speakers), repetitions * classes)
    return SamplesByDevice.from_owners(owners, speakers)
