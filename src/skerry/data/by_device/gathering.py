"""Samples of many devices on their way into one data set: piece by piece, each checked.

Every fault names the device, and the file it comes from if there is one. A piece is copied once,
into an array that grows: at no time are there two copies of all data.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skerry.data.by_device.holdings import Grouped, Holdings, named, numbered
from skerry.data.dataset import Dataset
from skerry.data.shares import Ints
from skerry.data.sources.arrays import from_arrays
from skerry.data.sources.formats import Array
from skerry.errors import DataError

NOBODY = -1
"""The device of test samples that all are measured on."""
GROWTH = 1.1
BLOCK = 2**16
EVERY = 5
"""Without test samples, every fifth of a device's own is held out."""


class Gathering:
    """Takes samples device by device, in any order and in several pieces."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._islands: dict[str, str] = {}
        self._train, self._tests = _Pile(), _Pile()

    def add(
        self,
        device: object,
        x: ArrayLike,
        y: ArrayLike,
        *,
        where: str = "",
        test: bool = False,
    ) -> None:
        """Samples of a device: to train on, or its own test samples."""
        name = _text(device)
        who = f"device '{name}'{where and f' ({where})'}"
        number = self._number(name, where)
        pile = self._tests if test else self._train
        pile.add(number, x, y, who, self._train)

    def add_common(self, x: ArrayLike, y: ArrayLike, *, where: str = "") -> None:
        """Test samples that all devices are measured on."""
        who = f"the test set{where and f' ({where})'}"
        self._tests.add(NOBODY, x, y, who, self._train)

    def add_rows(
        self,
        devices: Array,
        x: Array,
        y: Array,
        *,
        where: str,
        names: Array | None = None,
        is_test: NDArray[np.bool_] | None = None,
        islands: Array | None = None,
    ) -> None:
        """Samples of many devices, mixed: a name for each, or its number among `names`; an empty
        name for test samples that all devices are measured on."""
        called, number = numbered(devices) if names is None else (tuple(map(str, names)), devices)
        known = [self._number(name, where) if name else NOBODY for name in called]
        number_of = np.array(known, dtype=np.int32)[number]
        if islands is not None:
            self._put_rows_on(called, number, islands, where)
        test = np.zeros(len(y), bool) if is_test is None else is_test
        lost = np.flatnonzero((number_of == NOBODY) & ~test)
        if lost.size:
            raise DataError(
                f"{where}: a training sample has no device (got {lost.size} without). Name the "
                "device of every training sample."
            )
        for pile, rows in ((self._train, ~test), (self._tests, test)):
            if rows.any():
                every = slice(None) if rows.all() else rows
                pile.add(number_of[every], x[every], y[every], where, self._train)

    def place(self, device: object, island: object, where: str = "") -> None:
        """Say the island of a device."""
        name = _text(device)
        self._put_on(name, _text(island), f"device '{name}'{where and f' ({where})'}")

    def place_all(self, islands: Mapping[Any, Any]) -> None:
        """Say the islands of all devices."""
        known = {_text(device): _text(island) for device, island in islands.items()}
        for sides, missing in (
            ("islands of devices without data", [one for one in known if one not in self._numbers]),
            ("no island for", [one for one in self._numbers if one not in known]),
        ):
            if missing:
                raise DataError(
                    f"islands must name the devices of the data ({sides}: {named(missing)}). "
                    "Name every device once."
                )
        for device, island in known.items():
            self.place(device, island)

    def dataset(self, name: str) -> Dataset:
        """All of it as one data set."""
        if not self._numbers:
            raise DataError("there are no devices. Give at least one, with samples.")
        devices = tuple(self._numbers)
        islands = None
        if self._islands:
            without = [device for device in devices if device not in self._islands]
            if without:
                raise DataError(
                    f"device {named(without)} has no island, but others have. Give every device an "
                    "island, or none."
                )
            islands = tuple(self._islands[device] for device in devices)
        train = self._train.arrays()
        if train is None:
            raise DataError("no device has training samples. Give some.")
        return assemble(name, devices, train, self._tests.arrays(), islands)

    def _number(self, name: str, where: str) -> int:
        if not name or not name.isprintable():
            raise DataError(
                f"{where or 'the data'}: a device must have a name that can be printed (got "
                f"{name!r:.60})."
            )
        return self._numbers.setdefault(name, len(self._numbers))

    def _put_rows_on(
        self, names: tuple[str, ...], number: Ints, islands: Array, where: str
    ) -> None:
        island_names, island = numbered(islands)
        pairs = np.unique(np.stack([number, island]), axis=1)
        for device, place in pairs.T.tolist():
            if name := names[device]:
                self._put_on(name, island_names[place], f"{where}: device '{name}'")

    def _put_on(self, device: str, island: str, who: str) -> None:
        before = self._islands.setdefault(device, island)
        if before != island:
            raise DataError(
                f"{who} is on two islands, '{before}' and '{island}'. A device is on one."
            )


class _Pile:
    """Samples of several devices, and whose each of them is."""

    def __init__(self) -> None:
        self._x: Array | None = None
        self._length = 0
        self._y: list[Array] = []
        self._devices: list[Ints] = []
        self._first = ""

    def add(
        self,
        number: int | NDArray[np.integer[Any]],
        x: ArrayLike,
        y: ArrayLike,
        who: str,
        first: "_Pile",
    ) -> None:
        """Samples of the device with a number, or of each of them; `first` is the pile that all
        others must be like."""
        samples, labels = _samples(x, who), _labels(y, who)
        if len(samples) != len(labels):
            raise DataError(
                f"{who} must have as many labels as samples (got {len(samples)} samples and "
                f"{len(labels)} labels)."
            )
        if not len(samples):
            return
        for pile in (first, self):
            pile._check_alike(samples, labels, who)
        self._first = self._first or who
        self._grow(samples)
        self._y.append(labels)
        self._devices.append(np.broadcast_to(np.int32(number), len(labels)))

    def _check_alike(self, x: Array, y: Array, who: str) -> None:
        if self._x is None:
            return
        if x.shape[1:] != self._x.shape[1:]:
            raise DataError(
                f"{who} has samples of shape {x.shape[1:]}, but {self._first} of shape "
                f"{self._x.shape[1:]}. All devices must have the same kind of samples."
            )
        if (x.dtype == np.uint8) != (self._x.dtype == np.uint8):
            raise DataError(
                f"{who} has samples of {x.dtype}, but {self._first} of {self._x.dtype}. uint8 "
                "counts as pixels: give all devices uint8, or none."
            )
        if y.shape[1:] != self._y[0].shape[1:] or _kind(y) != _kind(self._y[0]):
            raise DataError(
                f"{who} has labels that are {_told(y)}, but {self._first} has {_told(self._y[0])}. "
                "All devices must have the same kind of labels."
            )

    def _grow(self, x: Array) -> None:
        if self._x is None:
            self._x = np.empty((0, *x.shape[1:]), x.dtype)
        if x.dtype != self._x.dtype:
            kind = np.result_type(x.dtype, self._x.dtype)
            self._x = self._x.astype(np.float32 if kind.kind == "f" else kind)
        end = self._length + len(x)
        if end > len(self._x):
            room = max(end, int(GROWTH * len(self._x)))
            self._x.resize((room, *x.shape[1:]), refcheck=False)
        self._x[self._length : end] = x
        self._length = end

    def arrays(self) -> tuple[Array, Array, Ints] | None:
        """Samples, labels, and the number of each one's device."""
        if self._x is None:
            return None
        self._x.resize((self._length, *self._x.shape[1:]), refcheck=False)
        labels, self._y = np.concatenate(self._y), []
        numbers, self._devices = np.concatenate(self._devices), []
        return self._x, labels, numbers


def assemble(
    name: str,
    devices: tuple[str, ...],
    train: tuple[Array, Array, Ints],
    tests: tuple[Array, Array, Ints] | None,
    islands: tuple[str, ...] | None,
) -> Dataset:
    """One data set from samples, labels and the number of the device that holds each of them."""
    if tests is None:
        train, tests = _held_out(*train, devices)
    x, y, device_of = train
    x_test, y_test, tester = tests
    for part, values, whose in (
        ("training sample", x, device_of),
        ("test sample", x_test, tester),
        ("training target", y, device_of),
        ("test target", y_test, tester),
    ):
        _check_finite(part, values, whose, devices)
    common = int((tester == NOBODY).sum())
    if common and not (tester[:common] == NOBODY).all():
        order = np.argsort(tester != NOBODY, kind="stable")
        x_test, y_test, tester = x_test[order], y_test[order], tester[order]
    held = Holdings(
        devices,
        Grouped.by(device_of, len(devices)),
        Grouped.by(tester, len(devices)),
        common,
        islands,
    )
    y, y_test = _settled(y, y_test, tester, devices)
    return from_arrays(x, y, x_test, y_test, name=name, holdings=held)


def _held_out(
    x: Array, y: Array, device_of: Ints, devices: tuple[str, ...]
) -> tuple[tuple[Array, Array, Ints], tuple[Array, Array, Ints]]:
    """Every fifth sample of a device, counted label by label; those with fewer keep them all."""
    by_device = Grouped.by(device_of, len(devices))
    by_label = y if y.ndim == 1 else np.zeros(len(y), np.int8)
    is_test = np.zeros(len(y), bool)
    for device in range(len(devices)):
        rows = by_device.indices(device)
        is_test[rows[np.argsort(by_label[rows], kind="stable")][EVERY - 1 :: EVERY]] = True
    if not is_test.any():
        raise DataError(
            f"there are no test samples, and no device has {EVERY} samples of which one could be "
            "held out. Give test samples."
        )
    tests = x[is_test], y[is_test], device_of[is_test]
    return (_kept(x, ~is_test), y[~is_test], device_of[~is_test]), tests


def _kept(x: Array, rows: NDArray[np.bool_]) -> Array:
    """Some rows of an array that nobody else needs, moved together inside of it."""
    end = 0
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK][rows[start : start + BLOCK]]
        x[end : end + len(block)] = block
        end += len(block)
    x.resize((end, *x.shape[1:]), refcheck=False)
    return x


def _settled(
    y: Array, y_test: Array, tester: Ints, devices: tuple[str, ...]
) -> tuple[Array, Array]:
    """Labels that are text become numbers, in the order of the alphabet."""
    if _kind(y) not in ("whole numbers", "text") or y.ndim > 1:
        return y, y_test
    small = y.dtype.kind in "ui" and len(y) and 0 <= y.min() <= y.max() < 2**16
    known = np.flatnonzero(np.bincount(y)) if small else np.unique(y)  # without sorting all
    unknown = np.flatnonzero(~np.isin(y_test, known))
    if unknown.size:
        whose = tester[unknown[0]]
        who = "the test set" if whose == NOBODY else f"device '{devices[whose]}'"
        raise DataError(
            f"{who} has the test label {y_test[unknown[0]]!s:.60}, which no device has to train "
            "on. Leave those samples out."
        )
    if _kind(y) == "whole numbers":
        return y, y_test
    return np.searchsorted(known, y), np.searchsorted(known, y_test)


def _check_finite(part: str, x: Array, device_of: Ints, devices: tuple[str, ...]) -> None:
    if x.dtype.kind != "f":
        return
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK].reshape(len(x[start : start + BLOCK]), -1)
        with np.errstate(over="ignore"):
            bad = np.argwhere(~np.isfinite(block.astype(np.float32, copy=False)))
        if bad.size:
            whose = device_of[start + bad[0, 0]]
            who = "the test set" if whose == NOBODY else f"device '{devices[whose]}'"
            raise DataError(
                f"{who} has a {part} that is not finite ({block[tuple(bad[0])]} at place "
                f"{bad[0, 1]}). Fill or drop it."
            )


def _samples(values: ArrayLike, who: str) -> Array:
    x = _array(values, who, "samples")
    if x.dtype.kind not in "uif":
        raise DataError(f"{who} must have samples that are numbers (got {_told(x)}).")
    if x.ndim < 2:
        raise DataError(
            f"{who} must have samples in rows, as an array of at least two dimensions (got shape "
            f"{x.shape}). A single feature is a column: x.reshape(-1, 1)"
        )
    return x.astype(np.float32) if x.dtype.kind == "f" and x.dtype != np.float32 else x


def _labels(values: ArrayLike, who: str) -> Array:
    y = _array(values, who, "labels")
    if y.dtype.kind == "O" and all(isinstance(label, str) for label in y.flat):
        y = y.astype(str)
    if y.dtype.kind not in "uifU" or not y.ndim:
        raise DataError(f"{who} must have labels that are numbers or text (got {_told(y)}).")
    return y


def _array(values: ArrayLike, who: str, what: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{who} must have {what} in an array: its rows differ in length.") from None


def _kind(values: NDArray[Any]) -> str:
    kinds = {"u": "whole numbers", "i": "whole numbers", "f": "real numbers", "U": "text"}
    return kinds.get(values.dtype.kind, f"objects ({values.dtype})")


def _told(values: NDArray[Any]) -> str:
    shape = f" of shape {values.shape[1:]}" if values.ndim > 1 else ""
    return f"{_kind(values)}{shape}"


def _text(name: object) -> str:
    return name if isinstance(name, str) else str(name)
