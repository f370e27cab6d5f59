"""Read a folder of runs again and again while another process computes there."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from skerry.config.measures import MEASURES
from skerry.errors import RecordsError, SkerryError, skerry_command, unknown
from skerry.files import place_of
from skerry.records.activity import Activity
from skerry.records.store import FILE, Store
from skerry.report.snapshot import Snapshot, WatchedRun, take_snapshot


class WatchedFolder:
    """A folder for `skerry watch`: finished runs are read once, and nothing without a change."""

    def __init__(self, folder: Path, measure: str | None = None):
        if measure is not None and measure not in MEASURES:
            raise SkerryError(unknown("measure", measure, MEASURES))
        self.folder = folder if folder.is_dir() else folder.parent
        self._file = folder / FILE if folder.is_dir() else folder
        self._measure = measure
        self._finished: dict[str, WatchedRun] = {}
        self._runs: list[WatchedRun] = []
        self._version: tuple[Any, ...] | None = None
        self._stamp: tuple[Any, ...] | None = None
        self._last: tuple[Snapshot, float] | None = None

    def look(self) -> Snapshot:
        """The state of the folder now."""
        stamp = _file_stamp(self._file)
        # A driver that was killed changes nothing: while one is at work, its heartbeat is checked.
        if self._last is None or stamp != self._stamp or self._last[0].state == "working":
            with Store.read(self._file) as store:
                activity = store.activity()
                if (version := store.version_of_runs()) != self._version:
                    self._runs, self._version = list(self._read(store)), version
            self._last = self._snapshot(activity), activity.heartbeat or time.time()
            self._stamp = stamp
        snapshot, since = self._last
        if snapshot.seconds_left is None:
            return snapshot
        return replace(snapshot, seconds_left=max(0.0, snapshot.seconds_left - time.time() + since))

    def _snapshot(self, activity: Activity) -> Snapshot:
        if not self._runs and activity.plan is None and not activity.working:
            raise RecordsError(
                f"no runs are recorded in {self.folder}, and no sweep is running there. Record "
                f"some: {skerry_command('run', out=place_of(self._file))}"
            )
        rounds = activity.rounds or {}
        runs = [
            replace(one, run=replace(one.run, rounds_done=max(one.run.rounds_done, done)))
            if one.run.status == "running" and (done := rounds.get(one.run.key))
            else one
            for one in self._runs
        ]
        return take_snapshot(
            str(self.folder),
            runs,
            activity.plan,
            working=activity.working,
            written=activity.heartbeat or time.time(),
            measure=self._measure,
        )

    def _read(self, store: Store) -> Iterator[WatchedRun]:
        for run in store.runs():
            known = self._finished.get(run.key)
            if known is not None and known.run.finished == run.finished:
                yield known
            elif run.status == "finished":
                final = store.finals([run.key]).get(run.key, {})  # empty if it is damaged
                self._finished[run.key] = WatchedRun(run, final)
                yield self._finished[run.key]
            else:
                yield WatchedRun(run, {})


def _file_stamp(store: Path) -> tuple[Any, ...]:
    """Changes with the store's two files; an empty write-ahead log may come from reading."""
    found: list[Any] = []
    for file in (store, Path(f"{store}-wal")):
        with suppress(OSError):
            state: os.stat_result = file.stat()
            if state.st_size:
                found += [state.st_mtime_ns, state.st_size]
    return tuple(found)
