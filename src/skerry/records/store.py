"""The store: every run of a folder in one SQLite file, and its history round by round.

The rounds of a history count what is done: 0 is the start, T the end. Several processes may write
one store at once; each opens its own (a connection must not cross a fork).
"""

import json
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Self

from skerry.errors import RecordsError
from skerry.experiment import Experiment, Section
from skerry.records import database
from skerry.records.parts import Column, History, Part, join, last_values

Status = Literal["running", "finished", "diverged", "failed"]

FILE = "skerry.sqlite"

_RUNS = """SELECT key, status, experiment, materials, world, device, versions, started, finished,
    wall_seconds, (SELECT coalesce(max(last), 0) FROM parts WHERE run = runs.id), note
    FROM runs"""
_PARTS = """SELECT key, names, matrix FROM parts
    JOIN runs ON runs.id = parts.run JOIN measures ON measures.id = parts.measures"""


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


class Store:
    """Comes from `Store.open`, to record, or from `Store.read`, to look only."""

    def __init__(self, db: sqlite3.Connection, path: Path):
        self._db, self.path = db, path
        self._begun: dict[str, Experiment] = {}
        """By its text, every experiment that was begun here: it need not be restored from that."""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """The store of a folder; both are made if they are not there."""
        path = Path(folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordsError(
                f"cannot make the folder {folder} ({error.strerror}). Choose another folder."
            ) from None
        return cls(database.create_or_open(path), path)

    @classmethod
    def read(cls, folder_or_file: Path | str) -> Self:
        """An existing store, never changed."""
        path = Path(folder_or_file)
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise RecordsError(f"no store at {path}. Give a folder that holds a {FILE}.")
        return cls(database.open_existing(path), path)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Recording

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is recorded inside is recorded together, or, after an error, not at all.

        Every method below is a transaction of its own and waits for the disk; many calls in one
        transaction wait once.
        """
        with database.explained(self.path), database.transaction(self._db):
            yield

    def begin(
        self,
        key: str,
        experiment: Experiment,
        *,
        materials: Mapping[str, str],
        world: str,
        device: str,
        versions: Mapping[str, str],
    ) -> None:
        """Enter a run as running. An interrupted one keeps its start and its history; one that
        is finished or diverged stays as it is (`forget` it to compute it again)."""
        self.begin_all(
            {key: experiment}, materials=materials, world=world, device=device, versions=versions
        )

    def begin_all(
        self,
        experiments: Mapping[str, Experiment],
        *,
        materials: Mapping[str, str],
        world: str,
        device: str,
        versions: Mapping[str, str],
    ) -> None:
        """Begin the runs of a world, each under its key."""
        texts = [json.dumps(experiment.model_dump()) for experiment in experiments.values()]
        self._begun |= zip(texts, experiments.values(), strict=True)
        shared = {
            "materials": json.dumps(dict(materials)),
            "world": world,
            "device": device,
            "versions": json.dumps(dict(versions)),
            "started": _now(),
        }
        with self.transaction():
            self._db.executemany(
                """INSERT INTO runs
                    (key, status, experiment, materials, world, device, versions, started)
                VALUES (:key, 'running', :experiment, :materials, :world, :device, :versions,
                    :started)
                ON CONFLICT (key) DO UPDATE SET status = 'running', experiment = :experiment,
                    materials = :materials, world = :world, device = :device,
                    versions = :versions, finished = NULL, wall_seconds = NULL, note = ''
                WHERE status IN ('running', 'failed')""",
                [
                    {"key": key, "experiment": text, **shared}
                    for key, text in zip(experiments, texts, strict=True)
                ],
            )

    def append(self, parts: Mapping[str, Mapping[str, Column]]) -> None:
        """Add rounds to the histories of several runs: to all of them, or to none.

        A part maps "round" and each measure to a column; its rounds follow those recorded.
        """
        checked = {key: _checked(key, columns) for key, columns in parts.items()}
        with self.transaction():
            for key, part in checked.items():
                run, last = self._open_run(key)
                if part.is_empty:
                    continue
                if part.first <= last:
                    raise RecordsError(
                        f"the rounds of run {key} must follow round {last}, the last recorded "
                        f"(got round {part.first}). Rewind the run, or see if it runs twice."
                    )
                self._insert(run, part)

    def rewind(self, keys: Iterable[str], rounds_done: int) -> None:
        """Keep only what was recorded up to there, to go on from a checkpoint; -1 keeps nothing."""
        with self.transaction():
            for key in keys:
                run, last = self._open_run(key)
                if last <= rounds_done:
                    continue
                straddling = self._parts(
                    "WHERE run = ? AND first <= ? AND last > ?", run, rounds_done, rounds_done
                )
                kept = [part.up_to(rounds_done) for _, part in straddling]
                self._db.execute("DELETE FROM parts WHERE run = ? AND last > ?", (run, rounds_done))
                for part in kept:
                    self._insert(run, part)

    def finish(self, key: str, status: Status, *, wall_seconds: float, note: str = "") -> None:
        """Close a run as finished, diverged or failed."""
        if status == "running":
            raise RecordsError(
                f"run {key} cannot finish as running. Use finished, diverged or failed."
            )
        storable = note.encode("utf-8", "backslashreplace").decode()  # an error may quote anything
        with self.transaction():
            updated = self._db.execute(
                """UPDATE runs SET status = ?, finished = ?, wall_seconds = ?, note = ?
                WHERE key = ?""",
                (status, _now(), wall_seconds, storable, key),
            )
            if updated.rowcount == 0:
                raise self._no_run(key)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove runs and their histories, for a recomputation."""
        with self.transaction():
            self._db.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in keys])

    # Reading

    def run(self, key: str) -> Run | None:
        return next(iter(self._runs("WHERE key = ?", key)), None)

    def runs(self) -> list[Run]:
        """All runs, in the order in which they were begun."""
        return self._runs("ORDER BY id")

    def finished(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that need no computation: finished or diverged."""
        where, *values = _chosen(keys)
        done = self._select(
            f"SELECT key FROM runs {where} AND status IN ('finished', 'diverged')", *values
        )
        return {key for (key,) in done}

    def history(self, key: str) -> History:
        """The rounds and measures of a run as columns; NaN where a round has no such measure."""
        parts = [part for _, part in self._parts("WHERE key = ? ORDER BY last", key)]
        if not parts and not self._select("SELECT 1 FROM runs WHERE key = ?", key):
            raise self._no_run(key)
        return join(parts)

    def histories(self, keys: Iterable[str] | None = None) -> list[tuple[Run, History]]:
        """Every run, or those of the keys, with its history, all as of one moment."""
        where, *values = _chosen(keys)
        with database.explained(self.path), database.transaction(self._db, "BEGIN"):
            runs = self._runs(f"{where} ORDER BY id", *values)
            found = self._joined(where, *values)
        return [(run, found[run.key] if run.key in found else join([])) for run in runs]

    def final(self, key: str) -> dict[str, float]:
        """The last measured value of each measure, NaN if there is none."""
        return last_values(self.history(key))

    def finals(self, keys: Iterable[str]) -> dict[str, dict[str, float]]:
        """As `final`, for those of the keys that have a history."""
        found = self._joined(*_chosen(keys))
        return {key: last_values(history) for key, history in found.items()}

    # Inside

    def _open_run(self, key: str) -> tuple[int, int]:
        """The id of a run whose history may change, and its last round (-1 if it has none)."""
        found = self._select(
            """SELECT id, status, (SELECT coalesce(max(last), -1) FROM parts WHERE run = runs.id)
            FROM runs WHERE key = ?""",
            key,
        )
        if not found:
            raise self._no_run(key)
        [(run, status, last)] = found
        if status in ("finished", "diverged"):
            raise RecordsError(
                f"run {key} is {status}, its history does not change. Forget the run to compute "
                "it again."
            )
        return run, last

    def _insert(self, run: int, part: Part) -> None:
        names = json.dumps(part.names)
        self._db.execute("INSERT OR IGNORE INTO measures (names) VALUES (?)", (names,))
        self._db.execute(
            """INSERT INTO parts (run, first, last, measures, matrix)
            SELECT ?, ?, ?, id, ? FROM measures WHERE names = ?""",
            (run, part.first, part.last, part.to_blob(), names),
        )

    def _parts(self, where: str, *values: Any) -> Iterator[tuple[str, Part]]:
        with database.explained(self.path):
            for key, names, blob in self._db.execute(f"{_PARTS} {where}", values):
                try:
                    yield key, Part.from_blob(_names(names), blob)
                except ValueError as error:
                    raise self._damaged(key, error) from None

    def _joined(self, where: str, *values: Any) -> dict[str, History]:
        """The histories of the chosen runs that have one, by their keys."""
        parts = self._parts(f"{where} ORDER BY run, last", *values)
        return {
            key: join(part for _, part in of_run)
            for key, of_run in groupby(parts, key=itemgetter(0))
        }

    def _runs(self, where: str, *values: Any) -> list[Run]:
        return [self._to_run(*row) for row in self._select(f"{_RUNS} {where}", *values)]

    def _to_run(
        self, key: str, status: Status, experiment: str, materials: str, world: str, device: str,
        versions: str, *rest: Any,
    ) -> Run:  # fmt: skip
        try:
            restored = self._begun.get(experiment) or _restored(json.loads(experiment))
            texts = json.loads(materials), json.loads(versions)
        except (ValueError, TypeError, AttributeError) as error:
            raise self._damaged(key, error) from None
        return Run(key, restored.name, status, restored, texts[0], world, device, texts[1], *rest)

    def _select(self, query: str, *values: Any) -> list[Any]:
        with database.explained(self.path):
            return self._db.execute(query, values).fetchall()

    def _no_run(self, key: str) -> RecordsError:
        return RecordsError(f"no run {key} in {self.path}. Begin it first.")

    def _damaged(self, key: str, error: Exception) -> RecordsError:
        return RecordsError(
            f"run {key} in {self.path} is damaged ({error}). Forget the run to compute it again."
        )


def versions() -> dict[str, str]:
    """What a run was computed with. Asks the installed packages; does not import them."""
    packages = {name: _version(name) for name in ("skerry", "torch", "numpy")}
    return {"python": platform.python_version(), **packages, "platform": platform.platform()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _chosen(keys: Iterable[str] | None) -> list[str]:
    """The condition that chooses runs by their keys, and its value; without keys, all runs."""
    if keys is None:
        return [""]
    return ["WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))]


@lru_cache
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _checked(key: str, columns: Mapping[str, Column]) -> Part:
    try:
        return Part.from_columns(columns)
    except ValueError as error:
        raise RecordsError(f"a part of the history of run {key} {error}.") from None


def _restored(table: dict[str, Any]) -> Experiment:
    """The experiment as it was checked when it ran. It is not checked again: that would import
    the user's modules that it names, which may not be here, nor be welcome."""
    for name, field in Experiment.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section) and name in table:
            table[name] = kind.model_construct(**_tuples(kind, table[name]))
    return Experiment.model_construct(**table)


def _tuples(section: type[Section], table: dict[str, Any]) -> dict[str, Any]:
    """Lists are tuples in a section's own fields (they are frozen); JSON knows only lists."""
    return {
        name: tuple(value) if isinstance(value, list) and name in section.model_fields else value
        for name, value in table.items()
    }
