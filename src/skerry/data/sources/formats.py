"""File formats of data sets: idx, CIFAR, JSON speeches and .npz. Nothing is ever unpickled."""

import io
import json
import math
import mmap
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from skerry.data.dataset import Array
from skerry.errors import DataError, one_line

PARTS = ("x_train", "y_train", "x_test", "y_test")
Arrays = dict[str, Array]
"""The parts as published: uint8, images N,H,W or N,H,W,C."""

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Layout:
    """The files of one edition of a data set, and the function that decodes them."""

    files: tuple[str, ...]
    """Names or patterns of the files."""
    decode: Callable[[Files], Arrays]

    def select(self, files: Files) -> Files | None:
        """The files that belong to this edition, or None if some are missing."""
        chosen = {name: files[name] for name in files if matches_pattern(name, self.files)}
        complete = all(any(fnmatchcase(name, wanted) for name in chosen) for wanted in self.files)
        return chosen if complete else None


def matches_pattern(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextmanager
def decoding(fault: str, fix: str = "") -> Iterator[None]:
    """Read data of others: damaged bytes lead decoders to errors of any kind, which become a
    DataError that begins with `fault`."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{fault} ({one_line(error)}).{fix}") from None


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

    with (
        decoding(f"{name} is truncated or damaged"),
        Image.open(io.BytesIO(content), formats=["PNG"]) as picture,
    ):
        if picture.mode != "RGB" or picture.width != 32 * 32:
            raise DataError(
                f"{name} must be an RGB picture 1024 pixels wide "
                f"(got {picture.mode}, {picture.width})."
            )
        return np.asarray(picture).reshape(-1, 32, 32, 3)


def _decode_idx(files: Files) -> Arrays:
    arrays = (parse_idx(name, files[name]) for name in IDX.files)
    return dict(zip(PARTS, arrays, strict=True))


def _decode_cifar(label_bytes: int, train: tuple[str, ...], test: str) -> Callable[[Files], Arrays]:
    def decode(files: Files) -> Arrays:
        batches = [parse_cifar(name, files[name], label_bytes) for name in train]
        training = (np.concatenate(part) for part in zip(*batches, strict=True))
        tests = parse_cifar(test, files[test], label_bytes)
        return dict(zip(PARTS, (*training, *tests), strict=True))

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

# State of the Union addresses

SPEECH_CHARACTERS = ord("~") - ord(" ") + 1
"""Number of tokens: the printable characters of ASCII, from the space on."""
SPEECH_LENGTH = 64
SPEECH_TEST_EVERY = 10
"""Every tenth excerpt is for testing."""
ADDRESS_FIELDS = ("year", "name", "party", "text")
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "‑": "-"})


def decode_speeches(files: Files) -> Arrays:
    """Decode State of the Union addresses, one JSON file each: excerpts of 64 characters in the
    order of the years, the president of each, and the presidents with their parties."""
    numbers: dict[tuple[str, str], int] = {}
    excerpts: list[Array] = []
    whose: list[int] = []
    addresses = [_parse_address(*file) for file in files.items()]
    for address in sorted(addresses, key=itemgetter("year")):
        number = numbers.setdefault((address["name"], address["party"]), len(numbers))
        tokens = _excerpts(address["text"])
        excerpts.append(tokens)
        whose += [number] * len(tokens)
    tokens, whose_all = np.concatenate(excerpts), np.array(whose, dtype=np.uint8)
    is_test = np.arange(len(tokens)) % SPEECH_TEST_EVERY == SPEECH_TEST_EVERY - 1
    arrays: Arrays = {}
    for part, rows in (("train", ~is_test), ("test", is_test)):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = tokens[rows, :-1], tokens[rows, 1:]
        arrays[f"whose_{part}"] = whose_all[rows]
    arrays["presidents"] = np.frombuffer(json.dumps([*numbers]).encode(), np.uint8)
    return arrays


def unpack_presidents(packed: Array) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the presidents and their parties."""
    names, parties = zip(*json.loads(packed.tobytes()), strict=True)
    return names, parties


def _parse_address(name: str, content: bytes) -> dict[str, Any]:
    try:
        address = json.loads(content)
        return {field: address[field] for field in ADDRESS_FIELDS}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{name} is damaged: it must hold {', '.join(ADDRESS_FIELDS)}.") from None


def _excerpts(text: str) -> Array:
    """Excerpts with one character more than a sample, the next one; the rest of the text is not
    used. Characters that are not ASCII become similar ones, or spaces."""
    codes = np.frombuffer(text.translate(_PLAIN).encode("ascii", "replace"), np.uint8)
    printable = (codes >= ord(" ")) & (codes <= ord("~"))
    tokens = np.where(printable, codes - ord(" "), 0).astype(np.uint8)
    starts = np.arange(0, len(tokens) - SPEECH_LENGTH, SPEECH_LENGTH)
    excerpts: Array = tokens[starts[:, np.newaxis] + np.arange(SPEECH_LENGTH + 1)]
    return excerpts


SPEECH_JSON = Layout(("[12]???_*.json",), decode_speeches)


# .npz files

LARGE_ARRAY = 2**20
"""Bytes from which an array is mapped instead of read."""
_LOCAL_HEADER = 30
"""Bytes before the name of a member of a zip file."""


MOST_UNPACKED, MOST_RATIO = 4 * 2**30, 100
"""Data of more bytes than the first, and of more than the second times the bytes of its file, are
refused: a small file must not fill the memory."""


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Raise DataError if a compressed file says that it unpacks to very many bytes."""
    size = path.stat().st_size
    if unpacked > max(MOST_UNPACKED, MOST_RATIO * size):
        raise DataError(
            f"{path} would unpack from {size / 2**20:,.0f} MiB to {unpacked / 2**30:,.1f} GiB; the "
            f"limit is {MOST_UNPACKED // 2**30} GiB, or {MOST_RATIO} times the file. Save such "
            "data without compression: np.savez(path, ...)"
        )


def load_npz(path: Path, how_to_write: str, mapped: bool = False) -> Arrays:
    """The arrays of a .npz file by name; `how_to_write` ends error messages. `mapped` maps large
    arrays that are not compressed into memory instead of reading them."""
    if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
        raise DataError(
            f"{path} cannot be read: it is not a .npz file, or it is truncated. {how_to_write}"
        )
    with decoding(f"{path} cannot be read", f" {how_to_write}"):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        refuse_bomb(path, sum(member.file_size for member in members))
        if len({member.filename for member in members}) < len(members):
            raise DataError(f"{path} has two arrays of the same name. {how_to_write}")
        if mapped:
            return _map_npz(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}


def _map_npz(path: Path) -> Arrays:
    arrays: Arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            is_stored = member.compress_type == zipfile.ZIP_STORED
            with archive.open(member) as stream:
                if is_stored and member.file_size > LARGE_ARRAY:
                    arrays[name] = _map_array(path, member, stream)
                else:
                    arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return arrays


def release_pages(array: Array) -> None:
    """Tell the system that the pages of a mapped array are not needed again soon."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _map_array(path: Path, member: zipfile.ZipInfo, stream: IO[bytes]) -> Array:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, fortran_order, dtype = read[version](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
    header = stream.tell()
    # Only a read to the end compares the checksum. It reads the file once, and
    # leaves the pages in the system's cache, where the training reads them.
    while stream.read(LARGE_ARRAY):
        pass
    with path.open("rb") as file:
        file.seek(member.header_offset + _LOCAL_HEADER - 4)
        lengths = file.read(4)
    skipped = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    start = member.header_offset + _LOCAL_HEADER + skipped + header
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran_order else "C")
