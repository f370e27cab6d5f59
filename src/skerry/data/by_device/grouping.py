"""Samples of many devices become one data set: block by block, each block checked.

Every source (tables, folders, arrays, Hugging Face data sets) yields `DeviceRows`, which
`dataset_from_rows` turns into a data set. Every error names the device, and the file if there is
one. A block is copied once, into an array that grows: there are never two copies of all data.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.data.dataset import Array, Dataset
from skerry.data.holdings import DeviceHoldings, Ints, SamplesByDevice, number_names, quote_names
from skerry.data.sources.arrays import as_array, errors_about, from_arrays
from skerry.errors import DataError

NO_DEVICE = -1
"""The device number of test samples that all devices are scored on."""
GROWTH = 1.1
BLOCK = 2**16
HELD_OUT = 5
"""Without test samples, every fifth sample of a device is held out."""


@dataclass(frozen=True)
class DeviceRows:
    """A block of samples of one device or of several."""

    x: ArrayLike
    y: ArrayLike
    device: Any
    """The name of the device; or an array with the name of every sample's device, or its index in
    `names`. None, and an empty name in an array, stand for test samples that all devices are scored
    on."""
    where: str = ""
    """The file or part of the data, for error messages."""
    names: Array | None = None
    is_test: bool | NDArray[np.bool_] = False
    island: Any = None
    """The island of the device (a name, or a list of equal names), or an array with the island of
    every sample's device; None if the data name no islands."""


def dataset_from_rows(blocks: Iterable[DeviceRows], name: str, where: str = "") -> Dataset:
    """Gather blocks of samples, in any order, into one data set; raise DataError if they do not
    fit together. `where` begins error messages about all samples together."""
    gathered = _Gathered()
    for rows in blocks:
        gathered.add(rows)
    with errors_about(where):
        return _assemble(gathered, name)


def _assemble(gathered: "_Gathered", name: str) -> Dataset:
    devices, islands = tuple(gathered.number_of), gathered.islands()
    train, tests = gathered.train.arrays(), gathered.tests.arrays()
    if train is None:
        raise DataError("no device has training samples. Give some.")
    if tests is None:
        train, tests = _hold_out(*train, devices)
    x, y, device_of = train
    x_test, y_test, tester = tests
    for part, values, owner in (
        ("training sample", x, device_of),
        ("test sample", x_test, tester),
        ("training target", y, device_of),
        ("test target", y_test, tester),
    ):
        _check_finite(part, values, owner, devices)
    common = int((tester == NO_DEVICE).sum())
    if common and not (tester[:common] == NO_DEVICE).all():
        order = np.argsort(tester != NO_DEVICE, kind="stable")
        x_test, y_test, tester = x_test[order], y_test[order], tester[order]
    y, y_test, classes = _number_labels(y, y_test, tester, devices)
    holdings = DeviceHoldings(
        devices,
        SamplesByDevice.from_owners(device_of, len(devices)),
        SamplesByDevice.from_owners(tester, len(devices)),
        common,
        islands,
        classes,
    )
    return from_arrays(x, y, x_test, y_test, name=name, holdings=holdings)


class _Gathered:
    """The samples, devices and islands of the blocks so far."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}
        self.train, self.tests = _GrowingArrays(), _GrowingArrays()
        self._island_of: dict[str, str] = {}
        self._first: tuple[str, Array, Array] | None = None
        """The first block: its source, and one of its samples and labels."""

    def add(self, rows: DeviceRows) -> None:
        """Check a block and append its samples."""
        names, index = _devices_of(rows)
        for name in filter(None, names):
            _check_name("a device", name, rows.where)
            self.number_of.setdefault(name, len(self.number_of))
        numbers = [self.number_of.get(name, NO_DEVICE) for name in names]
        source = _source_of(rows)
        x, y = _check_x(rows.x, source), _check_y(rows.y, source)
        if len(x) != len(y):
            raise DataError(
                f"{source} must have as many labels as samples (got {len(x)} samples and {len(y)} "
                "labels)."
            )
        if rows.island is not None:
            self._set_islands(names, index, rows)
        device_of = np.broadcast_to(np.array(numbers, dtype=np.int32)[index], len(y))
        is_test = np.broadcast_to(rows.is_test, len(y))
        if without_device := np.count_nonzero((device_of == NO_DEVICE) & ~is_test):
            raise DataError(
                f"{rows.where}: a training sample has no device (got {without_device} without). "
                "Name the device of every training sample."
            )
        if len(y):
            self._check_alike(x, y, source)
        for arrays, mask in ((self.train, ~is_test), (self.tests, is_test)):
            if mask.any():
                some = slice(None) if mask.all() else mask
                arrays.append(x[some], y[some], device_of[some])

    def islands(self) -> tuple[str, ...] | None:
        """The island of each device, or None if no block named one."""
        if not self.number_of:
            raise DataError("there are no devices. Give at least one, with samples.")
        if not self._island_of:
            return None
        if without := [device for device in self.number_of if device not in self._island_of]:
            raise DataError(
                f"device {quote_names(without)} has no island, but others have. Give every device "
                "an island, or none."
            )
        return tuple(self._island_of[device] for device in self.number_of)

    def _set_islands(self, names: tuple[str, ...], index: Ints, rows: DeviceRows) -> None:
        if isinstance(rows.device, np.ndarray):
            islands, island_index = number_names(rows.island)
            pairs = np.unique(np.stack([index, island_index]), axis=1).T.tolist()
            named = [(names[device], islands[island]) for device, island in pairs]
        else:
            listed = rows.island if isinstance(rows.island, list) else [rows.island]
            named = [(names[0], str(island)) for island in listed]
        for device, island in named:
            _check_name("an island", island, rows.where)
            before = self._island_of.setdefault(device, island) if device else island
            if before != island:
                raise DataError(
                    f"{rows.where}: device '{device}' is on two islands, '{before}' and "
                    f"'{island}'. A device is on one."
                )

    def _check_alike(self, x: Array, y: Array, source: str) -> None:
        """Raise DataError unless samples and labels are of the same kind as in the first block."""
        self._first = self._first or (source, x[:1].copy(), y[:1].copy())
        first, x_first, y_first = self._first
        if x.shape[1:] != x_first.shape[1:]:
            raise DataError(
                f"{source} has samples of shape {x.shape[1:]}, but {first} of shape "
                f"{x_first.shape[1:]}. All devices must have the same kind of samples."
            )
        if (x.dtype == np.uint8) != (x_first.dtype == np.uint8):
            raise DataError(
                f"{source} has samples of {x.dtype}, but {first} of {x_first.dtype}. uint8 counts "
                "as pixels: give all devices uint8, or none."
            )
        if y.shape[1:] != y_first.shape[1:] or _kind(y) != _kind(y_first):
            raise DataError(
                f"{source} has labels that are {_describe(y)}, but {first} has "
                f"{_describe(y_first)}. All devices must have the same kind of labels."
            )


def _check_name(what: str, name: str, where: str) -> None:
    if not name.isprintable():
        raise DataError(
            f"{where or 'the data'}: {what} must have a name that can be printed (got "
            f"{name!r:.60})."
        )


class _GrowingArrays:
    """Samples, labels and device numbers that blocks are appended to."""

    def __init__(self) -> None:
        self._x: Array | None = None
        self._length = 0
        self._y: list[Array] = []
        self._device_of: list[NDArray[np.int32]] = []

    def append(self, x: Array, y: Array, device_of: NDArray[np.int32]) -> None:
        if self._x is None:
            self._x = np.empty((0, *x.shape[1:]), x.dtype)
        if x.dtype != self._x.dtype:
            dtype = np.result_type(x.dtype, self._x.dtype)
            self._x = self._x.astype(np.float32 if dtype.kind == "f" else dtype)
        end = self._length + len(x)
        if end > len(self._x):
            capacity = max(end, int(GROWTH * len(self._x)))
            self._x.resize((capacity, *x.shape[1:]), refcheck=False)
        self._x[self._length : end] = x
        self._length = end
        self._y.append(y)
        self._device_of.append(device_of)

    def arrays(self) -> tuple[Array, Array, NDArray[np.int32]] | None:
        """All samples, their labels and device numbers, or None if there are no samples."""
        if self._x is None:
            return None
        self._x.resize((self._length, *self._x.shape[1:]), refcheck=False)
        y, self._y = np.concatenate(self._y), []
        return self._x, y, np.concatenate(self._device_of)


def _devices_of(rows: DeviceRows) -> tuple[tuple[str, ...], Ints]:
    """The names of the devices of a block, and the index of every sample's name; "" stands for no
    device."""
    if not isinstance(rows.device, np.ndarray):
        if rows.device == "":
            raise DataError(f"{rows.where or 'the data'}: a device must have a name (got '').")
        return ("" if rows.device is None else str(rows.device),), np.array(0)
    if rows.names is None:
        return number_names(rows.device)
    return tuple(map(str, rows.names)), rows.device


def _source_of(rows: DeviceRows) -> str:
    """The subject of error messages about a block."""
    if isinstance(rows.device, np.ndarray):
        return rows.where
    subject = "the test set" if rows.device is None else f"device '{rows.device}'"
    return f"{subject} ({rows.where})" if rows.where else subject


def _owner(number: int, devices: tuple[str, ...]) -> str:
    return "the test set" if number == NO_DEVICE else f"device '{devices[number]}'"


def _hold_out(
    x: Array, y: Array, device_of: NDArray[np.int32], devices: tuple[str, ...]
) -> tuple[tuple[Array, Array, NDArray[np.int32]], tuple[Array, Array, NDArray[np.int32]]]:
    """Hold out every fifth sample of a device, counted label by label, for testing; devices with
    fewer samples keep them all."""
    by_device = SamplesByDevice.from_owners(device_of, len(devices))
    by_label = y if y.ndim == 1 else np.zeros(len(y), np.int8)
    is_test = np.zeros(len(y), bool)
    for device in range(len(devices)):
        rows = by_device.indices(device)
        by_rank = rows[np.argsort(by_label[rows], kind="stable")]
        is_test[by_rank[HELD_OUT - 1 :: HELD_OUT]] = True
    if not is_test.any():
        raise DataError(
            f"there are no test samples, and no device has {HELD_OUT} samples of which one could "
            "be held out. Give test samples."
        )
    tests = x[is_test], y[is_test], device_of[is_test]
    return (_keep_rows(x, ~is_test), y[~is_test], device_of[~is_test]), tests


def _keep_rows(x: Array, rows: NDArray[np.bool_]) -> Array:
    """Keep some rows of an array in place, without a copy of the whole."""
    end = 0
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK][rows[start : start + BLOCK]]
        x[end : end + len(block)] = block
        end += len(block)
    x.resize((end, *x.shape[1:]), refcheck=False)
    return x


def _number_labels(
    y: Array, y_test: Array, tester: NDArray[np.int32], devices: tuple[str, ...]
) -> tuple[Array, Array, tuple[str, ...]]:
    """Check that test labels occur in training; number labels that are text alphabetically. The
    last result are these texts."""
    if _kind(y) not in ("whole numbers", "text") or y.ndim > 1:
        return y, y_test, ()
    small = y.dtype.kind in "ui" and len(y) and 0 <= y.min() <= y.max() < 2**16
    known = np.flatnonzero(np.bincount(y)) if small else np.unique(y)  # without sorting all
    unknown = np.flatnonzero(~np.isin(y_test, known))
    if unknown.size:
        raise DataError(
            f"{_owner(tester[unknown[0]], devices)} has the test label "
            f"{y_test[unknown[0]]!s:.60}, which no device has to train on. Leave those samples out."
        )
    if _kind(y) == "whole numbers":
        return y, y_test, ()
    return np.searchsorted(known, y), np.searchsorted(known, y_test), tuple(map(str, known))


def _check_finite(
    part: str, x: Array, device_of: NDArray[np.int32], devices: tuple[str, ...]
) -> None:
    if x.dtype.kind != "f":
        return
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK].reshape(len(x[start : start + BLOCK]), -1)
        with np.errstate(over="ignore"):
            bad = np.argwhere(~np.isfinite(block.astype(np.float32, copy=False)))
        if bad.size:
            value = block[tuple(bad[0])]
            why = "too large for float32" if np.isfinite(value) else "not finite"
            raise DataError(
                f"{_owner(device_of[start + bad[0, 0]], devices)} has a {part} that is {why} "
                f"({value} at position {bad[0, 1]}). Fill or drop it."
            )


def _check_x(values: ArrayLike, source: str) -> Array:
    x = as_array(f"the samples of {source}", values)
    if x.dtype.kind not in "uif":
        raise DataError(f"{source} must have samples that are numbers (got {_describe(x)}).")
    if x.ndim < 2:
        raise DataError(
            f"{source} must have samples in rows, as an array of at least two dimensions (got "
            f"shape {x.shape}). A single feature is a column: x.reshape(-1, 1)"
        )
    if x.dtype.kind != "f" or x.dtype == np.float32:
        return x
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    if (infinite := np.isinf(single)).any() and (large := x[infinite & np.isfinite(x)]).size:
        raise DataError(
            f"{source} has the number {large[0]:g} among its samples, which is too large for "
            "float32 (at most 3.4e38). Rescale or drop it."
        )
    return single


def _check_y(values: ArrayLike, source: str) -> Array:
    y = as_array(f"the labels of {source}", values)
    if y.dtype.kind == "O" and all(isinstance(label, str) for label in y.flat):
        y = y.astype(str)
    y = y.astype(np.int64) if y.dtype.kind == "b" else y
    if y.dtype.kind not in "uifU" or not y.ndim:
        raise DataError(f"{source} must have labels that are numbers or text (got {_describe(y)}).")
    return y


def _kind(values: NDArray[Any]) -> str:
    kinds = {"u": "whole numbers", "i": "whole numbers", "f": "real numbers", "U": "text"}
    return kinds.get(values.dtype.kind, f"objects ({values.dtype})")


def _describe(values: NDArray[Any]) -> str:
    shape = f" of shape {values.shape[1:]}" if values.ndim > 1 else ""
    return f"{_kind(values)}{shape}"
