"""Files: where they are, and that they are there as a whole or not at all."""

import glob
import os
import secrets
from pathlib import Path


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
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, and what attempts to write it have left that were killed."""
    path.unlink(missing_ok=True)
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        partial.unlink(missing_ok=True)
