"""Tracking: what a store records is told to trackers too, right after it is safe.

A tracker is a class or function that takes the folder of the records and returns an object with
the methods of `Tracker`. It is told of rows after they are recorded: a run that goes on from a
checkpoint may tell some rounds again, from the checkpoint on.
"""

import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from skerry.errors import SkerryError, SkerryWarning, argument, one_line
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text
from skerry.records.parts import Column
from skerry.records.store import Run, Status, Store


class Tracker(Protocol):
    def rows(self, run: Run, columns: Mapping[str, Sequence[float]]) -> None:
        """Rounds that follow those told before: "round" and each measure as a column, NaN where
        it was not measured."""

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        """The run is over: the last value of each measure (NaN: never measured)."""

    def close(self) -> None:
        """No more will be told; runs that are not over may go on another time."""


def open_trackers(
    names: Sequence[str | type[Tracker] | Tracker], folder: Path | str | None
) -> list[Tracker]:
    """The named trackers, writing beside the records. A missing library is told here, at once."""
    if names and folder is None:
        raise SkerryError(f"trackers write beside the records. Give a folder: {argument('out')}.")
    return [
        _opened(as_text(name), Path(folder or "")) if isinstance(name, str | type) else name
        for name in names
    ]


@contextmanager
def tracked_store(folder: Path, trackers: Sequence[Tracker]) -> Iterator[Store]:
    """The store of a folder, telling trackers what it records."""
    with TrackedStore.open(folder) as store:
        store.trackers = list(trackers)
        try:
            yield store
        finally:
            store.close_trackers()


class TrackedStore(Store):
    """Tells trackers of what is recorded when it is safe: after the outermost transaction."""

    def __init__(self, db: sqlite3.Connection, path: Path):
        super().__init__(db, path)
        self.trackers: list[Tracker] = []
        self._untold: list[Callable[[Tracker], None]] = []
        self._depth = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        known = len(self._untold)
        self._depth += 1
        try:
            with super().transaction():
                yield
        except BaseException:
            del self._untold[known:]
            raise
        finally:
            self._depth -= 1
        if self._depth == 0:
            self._tell()

    def append(self, parts: Mapping[str, Mapping[str, Column]]) -> None:
        with self.transaction():
            super().append(parts)
            self._untold.append(partial(self._rows, parts))

    def finish(self, key: str, status: Status, *, wall_seconds: float, note: str = "") -> None:
        with self.transaction():
            super().finish(key, status, wall_seconds=wall_seconds, note=note)
            self._untold.append(partial(self._finish, key, status))

    def _rows(self, parts: Mapping[str, Mapping[str, Column]], tracker: Tracker) -> None:
        for key, columns in parts.items():
            if len(columns["round"]) > 0:
                plain = {name: np.asarray(column).tolist() for name, column in columns.items()}
                tracker.rows(self._known(key), plain)

    def _finish(self, key: str, status: Status, tracker: Tracker) -> None:
        tracker.finish(self._known(key), status, self.final(key))

    def _tell(self) -> None:
        told, self._untold = self._untold, []
        for tracker in list(self.trackers):
            with self._kept_going(tracker):
                for tell in told:
                    tell(tracker)

    def close_trackers(self) -> None:
        for tracker in list(self.trackers):
            with self._kept_going(tracker):
                tracker.close()

    def _known(self, key: str) -> Run:
        run = self.run(key)
        assert run is not None, f"run {key} was recorded above"
        return run

    @contextmanager
    def _kept_going(self, tracker: Tracker) -> Iterator[None]:
        """A tracker that fails is left behind: hours of computing do not hang on it."""
        try:
            yield
        except Exception as error:
            self.trackers.remove(tracker)
            warnings.warn(
                f"the tracker {type(tracker).__name__} failed and is left out from here on "
                f"({one_line(error)}); the records in {self.path} are complete",
                SkerryWarning,
                stacklevel=3,
            )


def _opened(name: str, folder: Path) -> Tracker:
    factory = registry.resolve("tracker", name)
    with registry.users_own("tracker", name):
        tracker: Tracker = factory(folder)
    return tracker
