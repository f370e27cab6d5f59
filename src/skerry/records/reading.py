"""What a store tells: its runs and their histories, each checked as it is read."""

import json
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, get_args

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryWarning
from skerry.records import checksums, database, devices
from skerry.records.checksums import StoredPart
from skerry.records.damage import DamagedError, sayable
from skerry.records.parts import History, Part, join, last_values
from skerry.records.restoring import restored

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

Status = Literal["running", "finished", "diverged", "failed"]
STATUSES = frozenset(get_args(Status))

FILE = "skerry.sqlite"
MOST_NAMED = 3
"""So many damaged runs are named in one warning."""

T = TypeVar("T")

_RUNS = f"""SELECT {checksums.stored("entry")},
    (SELECT coalesce(max(last), 0) FROM parts WHERE run = runs.id), {checksums.ENTRY} FROM runs"""
_PARTS = f"""SELECT key, {checksums.stored("history")}, first, last, names, matrix FROM runs
    LEFT JOIN parts ON parts.run = runs.id LEFT JOIN measures ON measures.id = parts.measures"""


@dataclass(frozen=True)
class Run:
    key: str
    name: str
    status: Status
    experiment: Experiment
    materials: dict[str, str]
    world: str
    device: str
    versions: dict[str, str]
    started: str
    finished: str | None
    wall_seconds: float | None
    rounds_done: int
    note: str


class RecordedRuns:
    """The runs of a store. One that is damaged is refused when it is asked for by its key; where
    all are asked for, it is left out with a warning, so that the others can be seen."""

    def __init__(self, db: sqlite3.Connection, path: Path):
        self._db, self.path = db, path
        self._begun: dict[str, Experiment] = {}
        """By its text, every experiment that was begun here: it need not be restored from that."""
        self.damaged: dict[str, str] = {}
        """The runs that were left out, and why."""

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def place(self) -> Path:
        """What a command calls the store: its folder, if the file has the usual name."""
        return self.path.parent if self.path.name == FILE else self.path

    def run(self, key: str) -> Run | None:
        return next(map(self._to_run, self._select(f"{_RUNS} WHERE key = ?", key)), None)

    def runs(self) -> list[Run]:
        """All runs, in the order in which they were begun."""
        with self._leaving_out_damaged():
            return self._sound_runs()

    def sound_runs(self) -> list[Run]:
        """As `runs`, without those whose histories are damaged: for who reads them one by one."""
        with self._leaving_out_damaged():
            runs = self._sound_runs()
            sound = {
                key
                for key, rows in self._stored_histories("")
                if self._unless_damaged(key, partial(self._to_history, key, rows)) is not None
            }
        return [run for run in runs if run.key in sound]

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that need no computation: finished or diverged."""
        where, *values = _chosen(keys)
        done = self._select(
            f"SELECT key FROM runs {where} AND status IN ('finished', 'diverged')", *values
        )
        return {key for (key,) in done}

    def begun(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys of which rounds are recorded, besides the start."""
        where, *values = _chosen(keys)
        query = f"SELECT DISTINCT key FROM runs JOIN parts ON run = runs.id {where} AND last > 0"
        return {key for (key,) in self._select(query, *values)}

    def history(self, key: str) -> History:
        """The rounds and measures of a run as columns; NaN where a round has no such measure."""
        rows = self._select(f"{_PARTS} WHERE key = ? ORDER BY last", key)
        if not rows:
            raise self._no_run(key)
        return self._to_history(key, rows)

    def histories(self, keys: Iterable[str] | None = None) -> list[tuple[Run, History]]:
        """Every run, or those of the keys, with its history, all as of one moment."""
        with database.explained(self.path), database.transaction(self._db, "BEGIN"):
            if keys is None:
                with self._leaving_out_damaged():
                    runs, found = self._sound_runs(), self._sound_histories("")
            else:
                where, *values = _chosen(keys)
                rows = self._select(f"{_RUNS} {where} ORDER BY id", *values)
                runs = [self._to_run(row) for row in rows]
                found = {
                    key: self._to_history(key, rows)
                    for key, rows in self._stored_histories(where, *values)
                }
        return [(run, found[run.key]) for run in runs if run.key in found]

    def keys(self) -> set[str]:
        """Of all runs, damaged or not."""
        return {key for (key,) in self._select("SELECT key FROM runs")}

    def without_checksums(self) -> set[str]:
        """The keys of runs that were recorded, or changed, by who keeps none."""
        query = f"""SELECT key FROM runs WHERE {checksums.stored("entry")} IS NULL OR
            ({checksums.stored("history")} IS NULL AND id IN (SELECT run FROM parts))"""
        return {key for (key,) in self._select(query)}

    def copy_to(self, copy: sqlite3.Connection) -> None:
        """All of it, as it is at one moment."""
        with database.explained(self.path):
            self._db.backup(copy)

    def final(self, key: str) -> dict[str, float]:
        """The last measured value of each measure, NaN if there is none."""
        return last_values(self.history(key))

    def finals(self, keys: Iterable[str]) -> dict[str, dict[str, float]]:
        """As `final`, for those of the keys that have a history which is not damaged."""
        with self._leaving_out_damaged():
            found = self._sound_histories(*_chosen(keys))
        return {
            key: last_values(history) for key, history in found.items() if len(history["round"])
        }

    def devices(self, key: str) -> "DeviceTable | None":
        """What every device of a run scored in the last round, if it was recorded."""
        query = f"SELECT content, crc32 FROM {devices.TABLE} JOIN runs ON id = run WHERE key = ?"
        for content, crc32 in self._select(query, key):
            try:
                return devices.from_blob(content, crc32)
            except (ValueError, TypeError) as error:
                raise self._damaged(key, error) from None
        return None

    # From rows to what they tell

    def _to_run(self, row: Sequence[Any]) -> Run:
        crc32, rounds_done, *entry = row
        key, status, experiment, materials, world, device, versions, *ending = entry
        started, finished, wall_seconds, note = ending
        try:
            if crc32 not in (None, checksums.of_entry(entry)):
                raise ValueError("wrong checksum of its entry")
            if status not in STATUSES:
                raise ValueError(f"unknown status {status}")
            told = self._begun.get(experiment) or restored(experiment)
            of_materials, of_versions = dict(json.loads(materials)), dict(json.loads(versions))
            f"{key}{world}{device}{ending}".encode()  # ValueError where a text is none
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(key, error) from None
        return Run(
            key, told.name, status, told, of_materials, world, device, of_versions, started,
            finished, wall_seconds, rounds_done, note,
        )  # fmt: skip

    def _to_history(self, key: str, rows: Iterable[Any]) -> History:
        parts = []
        expected: int | None = None
        for _, crc32, *stored in rows:
            expected = crc32
            if stored[0] is not None:  # a run without a history has one row, which is empty
                parts.append(StoredPart(*stored))
        try:
            if expected not in (None, checksums.of_history(parts)):
                raise ValueError("wrong checksum of its history")
            return join(self._to_part(key, part) for part in parts)
        except (ValueError, TypeError) as error:
            raise self._damaged(key, error) from None

    def _to_part(self, key: str, part: StoredPart) -> Part:
        try:
            return Part.from_blob(_names(part.names), part.blob, part.first, part.last)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(key, error) from None

    def _stored_histories(self, where: str, *values: Any) -> Iterator[tuple[str, Iterator[Any]]]:
        """By run, the rows of its parts."""
        with database.explained(self.path):
            rows = self._db.execute(f"{_PARTS} {where} ORDER BY runs.id, last", values)
            yield from groupby(rows, key=itemgetter(0))

    def _select(self, query: str, *values: Any) -> list[Any]:
        with database.explained(self.path):
            return self._db.execute(query, values).fetchall()

    # Damage

    def _sound_runs(self) -> list[Run]:
        rows = self._select(f"{_RUNS} ORDER BY id")
        found = (self._unless_damaged(row[2], partial(self._to_run, row)) for row in rows)
        return [run for run in found if run is not None]

    def _sound_histories(self, where: str, *values: Any) -> dict[str, History]:
        found = {
            key: self._unless_damaged(key, partial(self._to_history, key, rows))
            for key, rows in self._stored_histories(where, *values)
        }
        return {key: history for key, history in found.items() if history is not None}

    def _unless_damaged(self, key: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedError as error:
            self.damaged.setdefault(key, error.reason)
            return None

    @contextmanager
    def _leaving_out_damaged(self) -> Iterator[None]:
        """One warning for all that are left out now and were not before."""
        known = set(self.damaged)
        yield
        fresh = [key for key in self.damaged if key not in known]
        if not fresh:
            return
        named = [sayable(f"{key} ({self.damaged[key]})") for key in fresh[:MOST_NAMED]]
        if len(fresh) > MOST_NAMED:
            named.append(f"{len(fresh) - MOST_NAMED} more")
        are = "1 run is" if len(fresh) == 1 else f"{len(fresh)} runs are"
        warnings.warn(
            f"{are} damaged in {self.path}, and left out: {', '.join(named)}. The others are kept, "
            f"and the damaged can be computed again, after skerry store repair {self.place}",
            SkerryWarning,
            stacklevel=4,
        )

    def _no_run(self, key: str) -> RecordsError:
        return RecordsError(f"no run {key} in {self.path}. Begin it first.")

    def _damaged(self, key: str, reason: object) -> DamagedError:
        return DamagedError(
            f"run {key} in {self.path} is damaged ({reason}). Forget the run to compute it again: "
            f"skerry store forget {self.place} {key}",
            reason=str(reason),
        )


def _chosen(keys: Iterable[str]) -> list[str]:
    """The condition that chooses runs by their keys, and its value."""
    return ["WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))]


@lru_cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
