"""Arrays out of .npz files, without pickles; large ones stay on disk until they are read."""

import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from skerry.data.formats import Array, Arrays
from skerry.errors import DataError, one_line

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
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as loaded:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type == zipfile.ZIP_STORED and member.file_size > 2**16:
                with archive.open(member) as stream:
                    found[name] = _in_place(path, member, stream)
            else:
                found[name] = np.asarray(loaded[name])
    return found


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
