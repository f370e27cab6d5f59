"""Paths that users type, and files that are written atomically.

A file is first written next to its final place, under a name that ends in `.partial`, and then
renamed. A process that is killed in between leaves the partial file behind; the next process that
writes there removes it. A lock, which ends with its process, marks partial files that are still
being written.
"""

import errno
import glob
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".partial"
STORE = "skerry.sqlite"  # the file of recorded runs in a folder
GRACE_SECONDS = 60.0
"""A younger partial file may be about to be locked or renamed, so it is left alone."""
SPECIAL = "a pipe, a device or a socket, not a file"
WITHOUT_LOCKS_SECONDS = 86_400.0
"""Without locks, a younger partial file may still be in use, so it is left alone."""


BESIDE = "/././"
"""Stands in a path of an experiment file between a folder and the path as the file has it. Systems
ignore it, so the whole can be opened; content keys, tables and pages have the second part only."""


def beside(folder: Path, text: str) -> str:
    """A path of an experiment file as an experiment holds it: it starts from the folder of the
    file or, if nothing is there, from the current folder if something is there."""
    with suppress(OSError):  # the current folder may be deleted
        if text and not Path(text).is_absolute() and not text.startswith("~"):
            folders = folder.absolute(), Path().absolute()
            start = next((one for one in folders if exists(one / text)), folders[0])
            return f"{start.as_posix().rstrip('/')}{BESIDE}{text}"
    return text


def written(text: str) -> str:
    """A path as its experiment file has it; any other text is unchanged."""
    return text.partition(BESIDE)[2] or text


def typed_here(text: str) -> str:
    """A path of an experiment file as one types it: as written, where that is the same file."""
    with suppress(OSError, ValueError):
        return written(text) if Path(written(text)).samefile(user_path(text)) else text
    return text


def plain_path(text: str) -> str:
    """The path of what is there, for a path of an experiment file; any other text is unchanged."""
    return str(found) if BESIDE in text and exists(found := user_path(text)) else text


def looked_at(text: str) -> str:
    """The full paths at which a path of a user was looked for, for a message."""
    with suppress(OSError):  # the current folder may be deleted
        places = dict.fromkeys(user_path(one).absolute() for one in (text, written(text)))
        return " or ".join(f"{place!s:.200}" for place in places)
    return f"{text:.200}"


def user_path(path: str | Path) -> Path:
    """A path as a user types it, with `~` expanded; `~nobody` stays as it is if there is no such
    user. A path of an experiment file that was moved is looked up in the current folder."""
    try:
        found = Path(path).expanduser()
    except RuntimeError:
        return Path(path)
    here = Path(written(str(path)))
    return here if BESIDE in str(path) and not exists(found) and exists(here) else found


def place_of(store: Path) -> Path:
    """The path to show for a store: its folder, if its file has the usual name."""
    return store.parent if store.name == STORE else store


def is_file(path: Path) -> bool:
    """Whether the path is a file; False for names that no file can have, such as too long ones, and
    for pipes, devices and sockets."""
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def exists(path: Path) -> bool:
    """Whether the path is a file or folder; False for names that no file can have."""
    with suppress(OSError, ValueError):
        return path.is_file() or path.is_dir()
    return False


def refuse_special(path: Path) -> Path:
    """The path, or an OSError if it is a pipe, a device or a socket: reading one may never end, and
    writing would replace it by a file."""
    with suppress(ValueError, FileNotFoundError):
        # /dev/stdout may lead to a file, but the name itself would be replaced.
        if str(path.parent) == "/dev" or (path.exists() and not exists(path)):
            raise OSError(errno.EINVAL, SPECIAL, str(path))
    return path


def what_is_wrong(path: str) -> str:
    """Why a path that should be a file or folder is none: "does not exist: /full/path"."""
    try:
        refuse_special(user_path(path))
    except OSError as error:
        if error.strerror == SPECIAL:
            return f"is {SPECIAL}: {looked_at(path)}"
    return f"does not exist: {looked_at(path)}"


def cache_folder() -> Path:
    """The folder for caches: $SKERRY_CACHE, or that of the platform."""
    if folder := os.environ.get("SKERRY_CACHE"):
        return user_path(folder)
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("skerry"))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: readers find the old content or the new one, also after a crash."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty partial file to write; it replaces `path` at the end of the `with` block."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    refuse_special(path)
    remove_leftovers(path.parent, path.name)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        partial.touch(exist_ok=False)
        with being_written(partial):
            yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def being_written(partial: Path) -> Iterator[None]:
    """Lock a partial file or folder, so that no other process removes it as left over."""
    try:
        descriptor = os.open(partial, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        yield
        return
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove partial files that killed processes left in a folder, of all files or of one `name`.
    Errors are ignored."""
    pattern = f".{glob.escape(name)}.*{PARTIAL}" if name is not None else f"*{PARTIAL}"
    with suppress(OSError):
        for partial in filter(_is_left_over, folder.glob(pattern)):
            with suppress(OSError):
                remove = shutil.rmtree if partial.is_dir() else os.unlink
                remove(partial)


def _is_left_over(partial: Path) -> bool:
    try:
        age = time.time() - partial.stat().st_mtime
        if age < GRACE_SECONDS or not exists(partial):  # opening a pipe may never end
            return False
        descriptor = os.open(partial, os.O_RDONLY)
    except OSError:  # gone by now, or not ours to look at
        return False
    try:
        free = _lock(descriptor)
        return age > WITHOUT_LOCKS_SECONDS if free is None else free
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether this process now holds the lock; None if the system has no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True
