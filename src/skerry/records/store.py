"""The store: all runs of a folder and their histories, in one SQLite file.

The column `round` of a history counts rounds done: 0 is the start, T the end. Several processes may
write to one store at once; each opens its own object (a connection must not cross a fork).
"""

import json
import platform
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.files import STORE as FILE
from skerry.files import exists, remove_leftovers
from skerry.records import database
from skerry.records.parts import (
    DEVICE_TABLE,
    Column,
    HistoryPart,
    StoredPart,
    encode_devices,
    history_checksum,
    join_parts,
    select_checksum,
    store_entry_checksum,
    store_history_checksum,
)
from skerry.records.reading import SOURCE_OF, RecordedRuns, Run, Status

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

__all__ = ["FILE", "Run", "Status", "Store", "versions"]

MODELS = "models"  # the folder beside a store with the final models of runs

_STORED_PARTS = """SELECT first, last, names, matrix FROM parts
    LEFT JOIN measures ON measures.id = parts.measures WHERE run = ? ORDER BY last"""


class Store(RecordedRuns):
    """The runs of a folder: `Store.open` to record, `Store.read` to read only."""

    def __init__(self, db: sqlite3.Connection, path: Path):
        super().__init__(db, path)
        self._appended: dict[str, list[HistoryPart]] = {}
        """By key, the parts of runs whose whole history was appended through this object."""

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the store of a folder to record; creates both if they do not exist."""
        path = Path(folder) / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordsError(
                f"cannot make the folder {folder} ({error.strerror}). Choose another folder."
            ) from None
        if path.exists() and not exists(path):  # a pipe: reading from it would never end
            raise RecordsError(f"{path} is not a file. Choose another folder.")
        remove_leftovers(path.parent)
        return cls(database.create_or_open(path), path)

    @classmethod
    def read(cls, folder_or_file: Path | str) -> Self:
        """Open an existing store to read; it is never changed."""
        path = Path(folder_or_file)
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise RecordsError(f"no store at {path}. Give a folder that holds a {FILE}.")
        return cls(database.open_existing(path), path)

    @property
    def has_current_keys(self) -> bool:
        """Whether content keys are the current ones. An older store can only be read."""
        return database.has_current_keys(self._db)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Record everything in the body together or, after an error, nothing. Every method below is
        a transaction of its own and waits for the disk; many calls in one transaction wait once."""
        try:
            with database.translate_errors(self.path), database.transaction(self._db):
                yield
        except BaseException:
            self._written.clear()  # some of it may have been taken back
            self._appended.clear()
            raise

    def begin(
        self,
        experiments: Mapping[str, Experiment],
        *,
        materials: Mapping[str, str],
        world: str,
        versions: Mapping[str, str],
        device: str = "",
    ) -> None:
        """Record runs of one world, by key, as running. An interrupted run keeps its start and
        history; a finished or diverged one stays as it is (`forget` it to compute it again)."""
        texts = [json.dumps(experiment.model_dump()) for experiment in experiments.values()]
        sources = [
            {f"{SOURCE_OF}{path}": source for path, source in experiment.sources().items()}
            for experiment in experiments.values()
        ]
        self._experiments |= zip(texts, experiments.values(), strict=True)
        shared = {
            "materials": json.dumps(dict(materials)),
            "world": world,
            "device": device,
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
                    {
                        "key": key,
                        "experiment": text,
                        "versions": json.dumps({**versions, **source}),
                        **shared,
                    }
                    for key, text, source in zip(experiments, texts, sources, strict=True)
                ],
            )
            done = self.finished(experiments)  # these have not changed
            for key in experiments:
                if key not in done:
                    store_entry_checksum(self._db, key)

    def append(self, parts: Mapping[str, Mapping[str, Column]]) -> None:
        """Add rounds to the histories of several runs, to all of them or to none. A part maps
        "round" and each measure to a column; its rounds follow those recorded."""
        checked = {key: _checked(key, columns) for key, columns in parts.items()}
        with self.transaction():
            for key, part in checked.items():
                run, last, crc32 = self._open_run(key)
                if part.is_empty:
                    continue
                if part.first <= last:
                    raise RecordsError(
                        f"the rounds of run {key} must follow round {last}, the last recorded "
                        f"(got round {part.first}). Rewind the run, or see if it runs twice."
                    )
                stored = self._insert(run, part)
                if crc32 is not None:
                    store_history_checksum(self._db, run, history_checksum([stored], crc32))
                if last < 0:
                    self._appended[key] = []
                if key in self._appended:
                    self._appended[key].append(part)

    def rewind(self, keys: Iterable[str], rounds_done: int) -> None:
        """Remove rounds after `rounds_done`, to resume from a checkpoint; -1 removes all."""
        with self.transaction():
            for key in keys:
                self._appended.pop(key, None)
                run, last, crc32 = self._open_run(key)
                if last <= rounds_done:
                    continue
                rows = self._select(_STORED_PARTS, run) if rounds_done >= 0 else []
                stored = [StoredPart(*row) for row in rows]
                if stored and crc32 not in (None, history_checksum(stored)):
                    raise self._damaged(key, "wrong checksum of its history")
                kept = [part for part in stored if part.last <= rounds_done]
                straddling = [part for part in stored if part.first <= rounds_done < part.last]
                self._db.execute("DELETE FROM parts WHERE run = ? AND last > ?", (run, rounds_done))
                for part in straddling:
                    kept.append(self._insert(run, self._to_part(key, part).up_to(rounds_done)))
                if crc32 is not None or not kept:
                    store_history_checksum(self._db, run, history_checksum(kept))

    def finish(self, key: str, status: Status, *, wall_seconds: float, note: str = "") -> None:
        if status == "running":
            raise RecordsError(
                f"run {key} cannot finish as running. Use finished, diverged or failed."
            )
        storable = note.encode("utf-8", "backslashreplace").decode()  # an error may quote anything
        with self.transaction():
            changed = self._db.execute(
                """UPDATE runs SET status = ?, finished = ?, wall_seconds = ?, note = ?
                WHERE key = ?""",
                (status, _now(), wall_seconds, storable, key),
            )
            if not changed.rowcount:
                raise self._no_run(key)
            entry = store_entry_checksum(self._db, key)
            self._written.pop(key, None)
            if (parts := self._appended.pop(key, None)) and status != "failed":
                run = self._to_run([None, parts[-1].last, *entry])
                self._written[key] = run, join_parts(parts)

    def annotate(self, key: str, note: str) -> None:
        """Record a note about a run that is not finished; its next start removes the note."""
        with self.transaction():
            self._open_run(key)
            self._db.execute("UPDATE runs SET note = ? WHERE key = ?", (note, key))
            store_entry_checksum(self._db, key)

    def keep_devices(self, tables: Mapping[str, "DeviceTable"]) -> None:
        with self.transaction():
            for key, table in tables.items():
                run, *_ = self._open_run(key)
                content = encode_devices(table)
                self._db.execute(
                    f"INSERT OR REPLACE INTO {DEVICE_TABLE} VALUES (?, ?, ?)",
                    (run, content, zlib.crc32(content)),
                )

    def forget(self, keys: Iterable[str]) -> None:
        """Remove runs with their histories and models, to compute them again."""
        keys = list(keys)
        with self.transaction():
            self._db.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in keys])
        for key in keys:
            self._written.pop(key, None)
            self._appended.pop(key, None)
        if (self.path.parent / MODELS).is_dir():
            for file in (models_file(self.path.parent, key) for key in keys):
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    raise RecordsError(f"cannot remove {file} ({error.strerror}).") from None

    def _open_run(self, key: str) -> tuple[int, int, int | None]:
        """Id, last round (-1: none) and history checksum of a run that is not finished."""
        found = self._select(
            f"""SELECT id, status, (SELECT coalesce(max(last), -1) FROM parts WHERE run = runs.id),
            {select_checksum("history")} FROM runs WHERE key = ?""",
            key,
        )
        if not found:
            raise self._no_run(key)
        [(run, status, last, crc32)] = found
        if status in ("finished", "diverged"):
            raise RecordsError(
                f"run {key} is {status}, its history does not change. Forget the run to compute "
                "it again."
            )
        return run, last, 0 if last < 0 else crc32

    def _insert(self, run: int, part: HistoryPart) -> StoredPart:
        stored = StoredPart(part.first, part.last, json.dumps(part.names), part.to_blob())
        self._db.execute("INSERT OR IGNORE INTO measures (names) VALUES (?)", (stored.names,))
        self._db.execute(
            """INSERT INTO parts (run, first, last, measures, matrix)
            SELECT ?, ?, ?, id, ? FROM measures WHERE names = ?""",
            (run, stored.first, stored.last, stored.blob, stored.names),
        )
        return stored


def models_file(folder: Path, key: str) -> Path:
    """The file with a run's final models, in the folder of its store."""
    return folder / MODELS / f"{quote(key, safe='')}.safetensors"  # a store may come from anywhere


def versions() -> dict[str, str]:
    """Versions of Python, packages and platform that runs are computed with, without imports."""
    packages = {name: _version(name) for name in ("skerry", "torch", "numpy")}
    return {"python": platform.python_version(), **packages, "platform": platform.platform()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked(key: str, columns: Mapping[str, Column]) -> HistoryPart:
    try:
        return HistoryPart.from_columns(columns)
    except ValueError as error:
        raise RecordsError(f"a part of the history of run {key} {error}.") from None
