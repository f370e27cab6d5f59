"""The folder of an advice: a store for the pilot's runs, and the answer beside it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from skerry.errors import RecordsError
from skerry.records.store import Store

if TYPE_CHECKING:
    from skerry.advice.advice import Advice

FILE = "advice.json"


@contextmanager
def open_store(out: str | Path | None) -> Iterator[Store]:
    """The folder's store, or one that is thrown away."""
    with (
        nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-") as folder,
        Store.open(folder) as store,
        _alone_in(Path(folder)),
    ):
        yield store


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two that record the same runs would get in each other's way."""
    lock = FileLock(folder / ".advice.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RecordsError(
            f"another advice is at work in {folder}. Wait for it, or choose another folder."
        ) from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def write(file: Path, advice: "Advice") -> None:
    """As a whole: a reader never sees half of it."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(advice.to_json(), indent=1, allow_nan=False) + "\n")
        os.replace(partial, file)
    except OSError as error:
        raise RecordsError(
            f"cannot write {file} ({error.strerror}). Choose a folder that can be written."
        ) from None
    finally:
        partial.unlink(missing_ok=True)
