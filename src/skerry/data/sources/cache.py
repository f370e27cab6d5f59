"""Fetched data sets on disk: one safetensors file each, written atomically, verified on loading."""

import os
from pathlib import Path

from skerry.data.sources.formats import Arrays
from skerry.data.sources.published import Published, digest
from skerry.errors import DataError
from skerry.files import replace_file, user_path


def cache_folder() -> Path:
    """$SKERRY_CACHE, or the platform's folder for caches."""
    if folder := os.environ.get("SKERRY_CACHE"):
        return user_path(folder)
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("skerry"))


def cache_file(name: str) -> Path:
    return cache_folder() / f"{name}.safetensors"


def prepared_folder() -> Path:
    """The cache folder, made if need be."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    return folder


def store(published: Published, arrays: Arrays) -> None:
    """Keep arrays with their sha256; readers see the whole file or none."""
    import numpy as np
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = save(whole, metadata={name: digest(array) for name, array in whole.items()})
    folder = prepared_folder()
    try:
        replace_file(cache_file(published.name), content)
    except OSError as error:
        raise _cannot_write(folder, error) from None


def load(published: Published) -> Arrays:
    """The stored arrays, if they are still the published ones; a damaged file is removed."""
    from safetensors import safe_open

    path = cache_file(published.name)
    try:
        with safe_open(path, framework="numpy") as file:
            stored = file.metadata() or {}
            arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        published.verify(arrays, str(path))
        if any(digest(array) != stored.get(name) for name, array in arrays.items()):
            raise DataError("a stored checksum differs")
    except OSError as error:
        raise DataError(f"the cached file {path} cannot be read ({error}).") from None
    except MemoryError:
        raise
    except Exception:  # not the arrays that are stored here: of other names, sizes or kinds
        path.unlink(missing_ok=True)
        raise DataError(
            f"the cached file {path} was damaged and has been removed. "
            f"Fetch it anew: skerry data fetch {published.name}"
        ) from None
    return arrays


def _cannot_write(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the cache folder {folder} cannot be written ({error.strerror}). "
        "Set SKERRY_CACHE to a folder that can."
    )
