"""Files that are there as a whole or not at all.

What is written goes beside its place first, under a name that ends in `.partial`, and then into its
place at once. A process that is killed in between leaves the partial file; the next one that writes
there removes it. A lock tells what is left from what is being written: it ends with its process.
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
GRACE_SECONDS = 60.0
"""A younger partial file may be about to be locked, or to be put in its place."""
WITHOUT_LOCKS_SECONDS = 86_400.0
"""On a system whose locks cannot be asked, what is younger may be somebody's."""


def user_path(path: str | Path) -> Path:
    """A path as a user types it; `~` is home. The home of nobody stays as it is: not there."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_file(path: Path) -> bool:
    """Whether there is such a file; one that no system could have, such as one with a name of a
    thousand letters, is not there."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """The same for a file or a folder."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one piece: a reader, or a crash, finds the old one or the new one."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file beside another one, whose place it takes when it has been written."""
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    remove_leftovers(path.parent, path.name)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        partial.touch(exist_ok=False)
        with being_written(partial):
            yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, and what attempts to write it have left that were killed."""
    path.unlink(missing_ok=True)
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*{PARTIAL}"):
        partial.unlink(missing_ok=True)


@contextmanager
def being_written(partial: Path) -> Iterator[None]:
    """Keep others from removing a partial file, or a folder of them, as left behind."""
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
    """Remove what killed processes have left of files that they wrote in a folder, or of the one
    of a name. Nobody's work fails because this cannot be done."""
    pattern = f".{glob.escape(name)}.*{PARTIAL}" if name is not None else f"*{PARTIAL}"
    with suppress(OSError):
        for partial in folder.glob(pattern):
            if _is_left(partial):
                _remove(partial)


def _is_left(partial: Path) -> bool:
    try:
        age = time.time() - partial.stat().st_mtime
        if age < GRACE_SECONDS:
            return False
        descriptor = os.open(partial, os.O_RDONLY)
    except OSError:  # gone by now, or not ours to look at
        return False
    try:
        free = _lock(descriptor)
        return age > WITHOUT_LOCKS_SECONDS if free is None else free
    finally:
        os.close(descriptor)


def _remove(partial: Path) -> None:
    with suppress(OSError):
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink()


def _lock(descriptor: int) -> bool | None:
    """Whether this process has the lock now; None where there are no locks to be had."""
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
