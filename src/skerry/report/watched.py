"""A folder of runs, read beside whoever is computing there."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from skerry.config.measures import MEASURES
from skerry.errors import RecordsError, SkerryError, unknown
from skerry.records.store import FILE, Store
from skerry.report.snapshot import Seen, Snapshot, snapshot
from skerry.runs.presence import FILE as PLAN
from skerry.runs.presence import (
    UNDER_WAY,
    WORKERS,
    Plan,
    is_held,
    is_working,
    read_plan,
    read_under_way,
)


class Watched:
    """A folder that is looked at again and again. Finished runs are read once, and nothing is
    read while nothing has changed."""

    def __init__(self, folder: Path, measure: str | None = None):
        if measure is not None and measure not in MEASURES:
            raise SkerryError(unknown("measure", measure, MEASURES))
        self.folder = folder if folder.is_dir() else folder.parent
        self._path, self._measure = folder, measure
        self._finished: dict[str, Seen] = {}
        self._stamp: object = None
        self._runs: list[Seen] = []
        self._plan: Plan | None = None
        self._seen: object = None
        self._last: Snapshot | None = None

    def look(self) -> Snapshot:
        working, stores = is_working(self.folder), self._stores()
        written = _written([*stores, self.folder / UNDER_WAY])
        stamp = working, *map(_stamp, [self.folder / PLAN, *stores])
        if self._last is None or stamp != self._stamp:
            self._runs, self._plan = self._read(stores), read_plan(self.folder)
            if not self._runs and self._plan is None and not working:
                raise RecordsError(
                    f"no runs are recorded in {self.folder}, and nobody is working there. Start "
                    f"some: skerry sweep FILE --out {self.folder}"
                )
        seen = stamp, _stamp(self.folder / UNDER_WAY)
        if self._last is None or seen != self._seen:
            self._last = snapshot(
                str(self.folder),
                _as_told(self._runs, read_under_way(self.folder) if working else {}),
                self._plan,
                working=working,
                written=written,
                measure=self._measure,
            )
        self._stamp, self._seen = stamp, seen
        return _counted_down(self._last, time.time() - written)

    def _stores(self) -> list[Path]:
        """The driver's store, and those of workers that are in them right now."""
        own = self._path / FILE if self._path.is_dir() else self._path
        locks = (self.folder / WORKERS).glob("*.lock")
        inside = [lock.with_suffix("") / FILE for lock in locks if is_held(lock)]
        return [own, *(store for store in sorted(inside) if Path(f"{store}-wal").exists())]

    def _read(self, stores: Sequence[Path]) -> list[Seen]:
        """The workers' stores first: what has left them is in the driver's."""
        found: dict[str, Seen] = {}
        for path in stores[1:]:
            try:
                with Store.read(path) as store:
                    # A run is finished when the driver has recorded it.
                    under_way = [
                        replace(run, status="running", finished=None) for run in store.runs()
                    ]
                found |= {run.key: Seen(run, {}) for run in under_way}
            except (RecordsError, OSError):
                continue  # its worker is beginning, or has just ended
        with Store.read(stores[0]) as store:
            for seen in self._recorded(store):
                if seen.run.status in ("finished", "diverged") or seen.run.key not in found:
                    found[seen.run.key] = seen
        return list(found.values())

    def _recorded(self, store: Store) -> Iterator[Seen]:
        for run in store.runs():
            kept = self._finished.get(run.key)
            if kept is not None and kept.run.finished == run.finished:
                yield kept
            elif run.status == "finished":
                final = store.finals([run.key]).get(run.key, {})  # none if it is damaged
                self._finished[run.key] = Seen(run, final)
                yield self._finished[run.key]
            else:
                yield Seen(run, {})


def _as_told(runs: Sequence[Seen], rounds: Mapping[str, int]) -> Sequence[Seen]:
    """Runs under way as far as their driver says, which is further than the store knows."""
    if not rounds:
        return runs
    return [
        replace(seen, run=replace(seen.run, rounds_done=max(seen.run.rounds_done, done)))
        if seen.run.status == "running" and (done := rounds.get(seen.run.key))
        else seen
        for seen in runs
    ]


def _counted_down(found: Snapshot, since: float) -> Snapshot:
    """The store tells only now and then how far runs are; they go on in between."""
    if found.seconds_left is None:
        return found
    return replace(found, seconds_left=max(0.0, found.seconds_left - since))


def _written(stores: Sequence[Path]) -> float:
    times = [state.st_mtime for store in stores for state in _states(store)]
    return max(times, default=time.time())


def _stamp(store: Path) -> tuple[object, ...]:
    return store, *((state.st_mtime_ns, state.st_size) for state in _states(store))


def _states(store: Path) -> Iterator[os.stat_result]:
    """Of a store's two files, as far as there is something in them. A look may itself leave an
    empty one."""
    for file in (store, Path(f"{store}-wal")):
        with suppress(OSError):
            state = file.stat()
            if state.st_size:
                yield state
