"""The published file formats, as bytes in and uint8 arrays out. Nothing here unpickles."""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.errors import DataError, one_line

Array = NDArray[Any]
Arrays = dict[str, Array]
"""x_train, y_train, x_test, y_test as published: uint8, images N,H,W or N,H,W,C."""

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Layout:
    """The files one edition of a data set consists of, and how they become arrays."""

    files: tuple[str, ...]
    """Their names; one with a * stands for all that it fits."""
    decode: Callable[[Files], Arrays]

    def found(self, files: Files) -> Files | None:
        """Those that belong to it, if it is complete."""
        mine = {name: files[name] for name in files if fits(name, self.files)}
        complete = all(any(fits(name, [wanted]) for name in mine) for wanted in self.files)
        return mine if complete else None


def fits(name: str, wanted: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def parse_idx(name: str, content: bytes) -> Array:
    """An idx file of unsigned bytes: 0 0 8 d, then d big-endian 32-bit sizes, then the values.
    Published ones have d = 1 (labels) or 3 (images)."""
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        raise DataError(f"{name} is not an idx file of bytes (it starts with {content[:4]!r}).")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise DataError(
            f"{name} is truncated or damaged: its header announces {shape} values, "
            f"{max(len(content) - start, 0)} bytes follow."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def parse_cifar(name: str, content: bytes, label_bytes: int) -> tuple[Array, Array]:
    """CIFAR's binary records: labels (the last one is the finest), then the 32x32 red, green and
    blue planes. Gives images N,32,32,3 and labels."""
    record = label_bytes + 3 * 32 * 32
    if not content or len(content) % record:
        raise DataError(
            f"{name} is truncated or damaged: its {len(content)} bytes are no whole number of "
            f"{record}-byte records."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, record)
    planes = records[:, label_bytes:].reshape(-1, 3, 32, 32)
    return planes.transpose(0, 2, 3, 1), records[:, label_bytes - 1]


def parse_cifar_png(name: str, content: bytes) -> Array:
    """A PNG whose every row is one 32x32 RGB image, pixel after pixel."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            if picture.mode != "RGB" or picture.width != 32 * 32:
                raise DataError(
                    f"{name} must be an RGB picture 1024 pixels wide "
                    f"(got {picture.mode}, {picture.width})."
                )
            pixels = np.asarray(picture)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged bytes lead a decoder to errors of any kind
        raise DataError(f"{name} is truncated or damaged ({one_line(error)}).") from None
    return pixels.reshape(-1, 32, 32, 3)


def _decode_idx(files: Files) -> Arrays:
    arrays = (parse_idx(name, files[name]) for name in IDX.files)
    return dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays, strict=True))


def _decode_cifar(label_bytes: int, train: tuple[str, ...], test: str) -> Callable[[Files], Arrays]:
    def decode(files: Files) -> Arrays:
        batches = [parse_cifar(name, files[name], label_bytes) for name in train]
        x_test, y_test = parse_cifar(test, files[test], label_bytes)
        return {
            "x_train": np.concatenate([images for images, _ in batches]),
            "y_train": np.concatenate([labels for _, labels in batches]),
            "x_test": x_test,
            "y_test": y_test,
        }

    return decode


def _decode_cifar10_png(files: Files) -> Arrays:
    *train, test, y_train, y_test = CIFAR10_PNG.files
    return {
        "x_train": np.concatenate([parse_cifar_png(name, files[name]) for name in train]),
        "y_train": _labels(y_train, files[y_train]),
        "x_test": parse_cifar_png(test, files[test]),
        "y_test": _labels(y_test, files[y_test]),
    }


def _labels(name: str, content: bytes) -> Array:
    try:
        return np.array(json.loads(content), dtype=np.uint8)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise DataError(f"{name} is damaged: it must be a list of labels 0 to 255.") from None


_CIFAR10_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))

IDX = Layout(
    (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    _decode_idx,
)
CIFAR10_BINARY = Layout(
    (*_CIFAR10_TRAIN, "test_batch.bin"), _decode_cifar(1, _CIFAR10_TRAIN, "test_batch.bin")
)
CIFAR10_PNG = Layout(
    (
        *(f"data_batch_{number}.png" for number in range(1, 6)),
        "test_batch.png",
        "train_lables.json",  # spelled so in the package
        "test_lables.json",
    ),
    _decode_cifar10_png,
)
CIFAR100_BINARY = Layout(("train.bin", "test.bin"), _decode_cifar(2, ("train.bin",), "test.bin"))
