"""Read the runs and histories of a store, each checked as it is read."""

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

from skerry.config.experiment import Experiment, Section
from skerry.config.toml import current_names
from skerry.errors import DamagedError, RecordsError, SkerryWarning, printable, skerry_command
from skerry.files import place_of
from skerry.records import database
from skerry.records.activity import Activity, read_activity
from skerry.records.parts import (
    DEVICE_TABLE,
    ENTRY_COLUMNS,
    History,
    HistoryPart,
    StoredPart,
    decode_devices,
    entry_checksum,
    history_checksum,
    join_parts,
    last_values,
    select_checksum,
)

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

Status = Literal["running", "finished", "diverged", "failed"]
STATUSES = frozenset(get_args(Status))

SOURCE_OF = "source of "
"""Starts the names of versions that are hashes of a user's code: `source of server.primitive`."""
MOST_NAMED = 3  # damaged runs that one warning names at most

T = TypeVar("T")

_RUNS = f"""SELECT {select_checksum("entry")},
    (SELECT coalesce(max(last), 0) FROM parts WHERE run = runs.id), {ENTRY_COLUMNS} FROM runs"""
_PARTS = f"""SELECT key, {select_checksum("history")}, first, last, names, matrix FROM runs
    LEFT JOIN parts ON parts.run = runs.id LEFT JOIN measures ON measures.id = parts.measures"""


@dataclass(frozen=True)
class Run:
    """The entry of a run in a store: what was run, where, when, and how it ended."""

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

    @property
    def is_stopped(self) -> bool:
        """Whether its stop rule has ended it before its last round."""
        return self.status == "finished" and self.rounds_done < self.experiment.rounds


class RecordedRuns:
    """Read access to the runs of a store. A damaged run raises an error where it is requested by
    its key, and is left out with a warning where all runs are read."""

    def __init__(self, db: sqlite3.Connection, path: Path):
        self._db, self.path = db, path
        self._experiments: dict[str, Experiment] = {}
        """By recorded text, experiments begun through this object, which need not be parsed."""
        self._written: dict[str, tuple[Run, History]] = {}
        """By key, runs finished through this object, which need not be read back."""
        self.damaged: dict[str, str] = {}  # by key, why a run was left out

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, key: str) -> Run | None:
        """The run of a key, or None."""
        if key in self._written:
            return self._written[key][0]
        return next(map(self._to_run, self._select(f"{_RUNS} WHERE key = ?", key)), None)

    def runs(self) -> list[Run]:
        """All runs, in the order in which they started."""
        with self._warn_of_damage():
            return self._sound_runs()

    def sound_runs(self) -> list[Run]:
        """All runs whose histories are not damaged either."""
        with self._warn_of_damage():
            runs = self._sound_runs()
            sound = {
                key
                for key, rows in self._stored_histories("")
                if self._or_none(key, partial(self._to_history, key, rows)) is not None
            }
        return [run for run in runs if run.key in sound]

    def finished(self, keys: Iterable[str]) -> set[str]:
        """The keys of runs that need no computation: finished or diverged."""
        where, *values = _chosen(keys)
        done = self._select(
            f"SELECT key FROM runs {where} AND status IN ('finished', 'diverged')", *values
        )
        return {key for (key,) in done}

    def begun(self, keys: Iterable[str]) -> set[str]:
        """The keys of runs with recorded rounds besides the start."""
        where, *values = _chosen(keys)
        query = f"SELECT DISTINCT key FROM runs JOIN parts ON run = runs.id {where} AND last > 0"
        return {key for (key,) in self._select(query, *values)}

    def history(self, key: str) -> History:
        """The rounds and measures of a run as columns; NaN where a round has no such measure."""
        if key in self._written:
            return self._written[key][1]
        rows = self._select(f"{_PARTS} WHERE key = ? ORDER BY last", key)
        if not rows:
            raise self._no_run(key)
        return self._to_history(key, rows)

    def histories(self, keys: Iterable[str] | None = None) -> list[tuple[Run, History]]:
        """All runs, or those of the keys, with their histories, read in one transaction. Runs that
        were finished through this object come from memory."""
        chosen = list(keys or ())
        known = {key: self._written[key] for key in chosen if key in self._written}
        if keys is not None and len(known) == len(set(chosen)):
            return list(known.values())
        with database.translate_errors(self.path), database.transaction(self._db, "BEGIN"):
            if keys is None:
                with self._warn_of_damage():
                    runs, found = self._sound_runs(), self._sound_histories("")
            else:
                where, *values = _chosen(key for key in chosen if key not in known)
                rows = self._select(f"{_RUNS} {where} ORDER BY id", *values)
                runs = [self._to_run(row) for row in rows]
                found = {
                    key: self._to_history(key, rows)
                    for key, rows in self._stored_histories(where, *values)
                }
        return [*known.values(), *((run, found[run.key]) for run in runs if run.key in found)]

    def keys(self) -> set[str]:
        """The keys of all runs, damaged ones included."""
        return {key for (key,) in self._select("SELECT key FROM runs")}

    def without_checksums(self) -> set[str]:
        """The keys of runs recorded or changed by a program that keeps no checksums."""
        query = f"""SELECT key FROM runs WHERE {select_checksum("entry")} IS NULL OR
            ({select_checksum("history")} IS NULL AND id IN (SELECT run FROM parts))"""
        return {key for (key,) in self._select(query)}

    def copy_to(self, copy: sqlite3.Connection) -> None:
        """Copy the whole store, as of one moment."""
        with database.translate_errors(self.path):
            self._db.backup(copy)

    def final(self, key: str) -> dict[str, float]:
        """The last measured value of each measure, NaN if there is none."""
        return last_values(self.history(key))

    def finals(self, keys: Iterable[str]) -> dict[str, dict[str, float]]:
        """`final` of every run of the keys that has a sound history."""
        with self._warn_of_damage():
            keys = list(keys)
            found = {key: self._written[key][1] for key in keys if key in self._written}
            if others := [key for key in keys if key not in found]:
                found |= self._sound_histories(*_chosen(others))
        return {key: last_values(one) for key, one in found.items() if len(one["round"])}

    def devices(self, key: str) -> "DeviceTable | None":
        """Scores of every device of a run in the last round, if they were recorded."""
        query = f"SELECT content, crc32 FROM {DEVICE_TABLE} JOIN runs ON id = run WHERE key = ?"
        for content, crc32 in self._select(query, key):
            try:
                return decode_devices(content, crc32)
            except (ValueError, TypeError) as error:
                raise self._damaged(key, error) from None
        return None

    def activity(self) -> Activity:
        with database.translate_errors(self.path):
            return read_activity(self._db)

    def version_of_runs(self) -> tuple[Any, ...]:
        """Changes whenever a run of the store changes, but not with the activity of drivers."""
        [found] = self._select(
            """SELECT count(*), sum(status = 'running'), max(finished), max(started),
                (SELECT max(id) FROM parts), (SELECT count(*) FROM parts) FROM runs"""
        )
        return tuple(found)

    def _to_run(self, row: Sequence[Any]) -> Run:
        crc32, rounds_done, *entry = row
        key, status, experiment, materials, world, device, versions, *ending = entry
        started, finished, wall_seconds, note = ending
        try:
            if crc32 not in (None, entry_checksum(entry)):
                raise ValueError("wrong checksum of its entry")
            if status not in STATUSES:
                raise ValueError(f"unknown status {status}")
            parsed = self._experiments.get(experiment) or parse_recorded(experiment)
            of_materials, of_versions = dict(json.loads(materials)), dict(json.loads(versions))
            f"{key}{world}{device}{ending}".encode()  # raises ValueError for undecodable text
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(key, error) from None
        return Run(
            key, parsed.name, status, parsed, of_materials, world, device, of_versions, started,
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
            if expected not in (None, history_checksum(parts)):
                raise ValueError("wrong checksum of its history")
            return join_parts(self._to_part(key, part) for part in parts)
        except (ValueError, TypeError) as error:
            raise self._damaged(key, error) from None

    def _to_part(self, key: str, part: StoredPart) -> HistoryPart:
        try:
            return HistoryPart.from_blob(_names(part.names), part.blob, part.first, part.last)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(key, error) from None

    def _stored_histories(self, where: str, *values: Any) -> Iterator[tuple[str, Iterator[Any]]]:
        """The rows of parts, grouped by the key of their run."""
        with database.translate_errors(self.path):
            rows = self._db.execute(f"{_PARTS} {where} ORDER BY runs.id, last", values)
            yield from groupby(rows, key=itemgetter(0))

    def _select(self, query: str, *values: Any) -> list[Any]:
        with database.translate_errors(self.path):
            return self._db.execute(query, values).fetchall()

    def _sound_runs(self) -> list[Run]:
        rows = self._select(f"{_RUNS} ORDER BY id")
        found = (self._or_none(row[2], partial(self._to_run, row)) for row in rows)
        return [run for run in found if run is not None]

    def _sound_histories(self, where: str, *values: Any) -> dict[str, History]:
        found = {
            key: self._or_none(key, partial(self._to_history, key, rows))
            for key, rows in self._stored_histories(where, *values)
        }
        return {key: history for key, history in found.items() if history is not None}

    def _or_none(self, key: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedError as error:
            self.damaged.setdefault(key, error.reason)
            return None

    @contextmanager
    def _warn_of_damage(self) -> Iterator[None]:
        """Warn once of all damaged runs that the body left out first."""
        known = set(self.damaged)
        yield
        fresh = [key for key in self.damaged if key not in known]
        if not fresh:
            return
        named = [printable(f"{key} ({self.damaged[key]})") for key in fresh[:MOST_NAMED]]
        if len(fresh) > MOST_NAMED:
            named.append(f"{len(fresh) - MOST_NAMED} more")
        are = "1 run is" if len(fresh) == 1 else f"{len(fresh)} runs are"
        warnings.warn(
            f"{are} damaged in {self.path}, and left out: {', '.join(named)}. The others are kept, "
            "and the damaged can be computed again, after: "
            f"{skerry_command('store', 'repair', place_of(self.path))}",
            SkerryWarning,
            stacklevel=4,
        )

    def _no_run(self, key: str) -> RecordsError:
        return RecordsError(f"no run {key} in {self.path}. Begin it first.")

    def _damaged(self, key: str, reason: object) -> DamagedError:
        return DamagedError(
            f"run {key} in {self.path} is damaged ({reason}). Forget the run to compute it again: "
            f"{skerry_command('store', 'forget', place_of(self.path), key)}",
            reason=str(reason),
        )


def _chosen(keys: Iterable[str]) -> list[str]:
    """SQL condition that selects runs by their keys, and its value."""
    return ["WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))]


@lru_cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def parse_recorded(text: str) -> Experiment:
    """Build an experiment from its recorded text without validating it: that was done when it ran,
    and would import the user's modules that it names. Raises ValueError, TypeError or
    AttributeError where the text is no experiment."""
    table = current_names(json.loads(text))
    for name, field in Experiment.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section) and name in table:
            own = dict(table[name].items())
            # JSON has only lists; the own fields of a section, which is frozen, hold tuples.
            lists = {one for one in own if isinstance(own[one], list) and one in kind.model_fields}
            table[name] = kind.model_construct(**own | {one: tuple(own[one]) for one in lists})
    return Experiment.model_construct(**table)
