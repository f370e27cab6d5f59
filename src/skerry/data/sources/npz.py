"""Arrays out of .npz files, without pickles; large ones stay on disk until they are read."""

import mmap
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from skerry.data.sources.formats import Array, Arrays
from skerry.errors import DataError, one_line

LARGE = 2**20
"""Bytes; smaller arrays are read at once."""
_LOCAL_HEADER = 30
"""Bytes before the name of a member of a zip file."""


def npz_arrays(path: Path, how_to_write: str, mapped: bool = False) -> Arrays:
    """The arrays by name. `mapped` leaves those that are not compressed in the file."""
    if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
        raise DataError(f"{path} cannot be read: it is no .npz file, or cut off. {how_to_write}")
    try:
        return _mapped(path) if mapped else _loaded(path)
    except (MemoryError, DataError):
        raise
    except Exception as error:  # damaged bytes lead zipfile and NumPy to errors of any kind
        raise DataError(f"{path} cannot be read ({one_line(error)}). {how_to_write}") from None


def _loaded(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as file:
        return {name: np.asarray(file[name]) for name in file.files}


def _mapped(path: Path) -> Arrays:
    found: Arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                large = member.compress_type == zipfile.ZIP_STORED and member.file_size > LARGE
                name = member.filename.removesuffix(".npy")
                found[name] = (
                    _in_place(path, member, stream)
                    if large
                    else np.lib.format.read_array(stream, allow_pickle=False)
                )
    return found


def let_go(array: Array) -> None:
    """Tell the system that what was read of a mapped array is not needed again soon."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _in_place(path: Path, member: zipfile.ZipInfo, stream: IO[bytes]) -> Array:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, by_columns, dtype = read[version](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
    with path.open("rb") as file:
        file.seek(member.header_offset + _LOCAL_HEADER - 4)
        lengths = file.read(4)
    skipped = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    start = member.header_offset + _LOCAL_HEADER + skipped + stream.tell()
    return np.memmap(path, dtype, "r", start, shape, "F" if by_columns else "C")
