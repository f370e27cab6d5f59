"""Named files out of a folder or a tar archive, as bytes: nothing is ever extracted to disk."""

import gzip
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import IO

from skerry.data.sources.formats import fits
from skerry.errors import DataError, one_line

# The largest published file, CIFAR-100's train.bin, has 154 MB; more is an archive gone wrong.
_LARGEST_FILE = 256 * 2**20


def gather(where: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    """The content of those `wanted` files that `where` holds, and the names of all it holds.

    `where` is a folder or a tar archive, whose own folders do not matter; either may hold a file
    compressed (.gz). A wanted name may hold a *. Links and other special members of an archive
    count as absent.
    """
    try:
        return _from_folder(where, wanted) if where.is_dir() else _from_tar(where, wanted)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged bytes lead gzip and tarfile to errors of any kind
        raise DataError(
            f"{where} cannot be read: it is truncated or damaged ({one_line(error)})."
        ) from None


def _from_folder(folder: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    found, present = {}, set()
    for path in sorted(folder.iterdir()):
        present.add(path.name)
        name = path.name.removesuffix(".gz")
        if fits(name, wanted) and name not in found and path.is_file():
            with path.open("rb") as file:
                found[name] = _content(path.name, file)
    return found, present


def _from_tar(path: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    found, present = {}, set()
    with tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                continue
            present.add(name)
            if fits(name.removesuffix(".gz"), wanted):
                found[name.removesuffix(".gz")] = _content(name, file)
    return found, present


def _content(name: str, file: IO[bytes]) -> bytes:
    if name.endswith(".gz"):
        with gzip.open(file) as unpacked:
            content = unpacked.read(_LARGEST_FILE + 1)
    else:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise DataError(f"{name} holds more than {_LARGEST_FILE} bytes; no published file does.")
    return content
