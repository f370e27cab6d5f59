"""The store: every run of a folder in one SQLite file, and its history round by round.

The rounds of a history count what is done: 0 is the start, T the end. Several processes may write
one store at once; each opens its own (a connection must not cross a fork).
"""

import json
import platform
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Self

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.files import remove_leftovers
from skerry.records import checksums, database, devices
from skerry.records.checksums import StoredPart
from skerry.records.parts import Column, Part
from skerry.records.reading import FILE, RecordedRuns, Run, Status

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

__all__ = ["FILE", "Run", "Status", "Store", "versions"]


class Store(RecordedRuns):
    """Comes from `Store.open`, to record, or from `Store.read`, to look only."""

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
        remove_leftovers(path.parent)
        return cls(database.create_or_open(path), path)

    @classmethod
    def read(cls, folder_or_file: Path | str) -> Self:
        """An existing store, never changed."""
        path = Path(folder_or_file)
        path = path / FILE if path.is_dir() else path
        if not path.is_file():
            raise RecordsError(f"no store at {path}. Give a folder that holds a {FILE}.")
        return cls(database.open_existing(path), path)

    @property
    def has_todays_keys(self) -> bool:
        """Whether content keys are those of today. An older store can only be read."""
        return database.has_todays_keys(self._db)

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
            done = self.finished(experiments)  # those have not changed
            for key in experiments:
                if key not in done:
                    checksums.keep_entry(self._db, key)

    def append(self, parts: Mapping[str, Mapping[str, Column]]) -> None:
        """Add rounds to the histories of several runs: to all of them, or to none.

        A part maps "round" and each measure to a column; its rounds follow those recorded.
        """
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
                    checksums.keep_history(self._db, run, checksums.of_history([stored], crc32))

    def rewind(self, keys: Iterable[str], rounds_done: int) -> None:
        """Keep only what was recorded up to there, to go on from a checkpoint; -1 keeps nothing."""
        with self.transaction():
            for key in keys:
                run, last, crc32 = self._open_run(key)
                if last <= rounds_done:
                    continue
                stored = self._stored_parts(run) if rounds_done >= 0 else []
                if stored and crc32 not in (None, checksums.of_history(stored)):
                    raise self._damaged(key, "wrong checksum of its history")
                kept = [part for part in stored if part.last <= rounds_done]
                straddling = [part for part in stored if part.first <= rounds_done < part.last]
                self._db.execute("DELETE FROM parts WHERE run = ? AND last > ?", (run, rounds_done))
                for part in straddling:
                    kept.append(self._insert(run, self._to_part(key, part).up_to(rounds_done)))
                if crc32 is not None or not kept:
                    checksums.keep_history(self._db, run, checksums.of_history(kept))

    def finish(self, key: str, status: Status, *, wall_seconds: float, note: str = "") -> None:
        """Close a run as finished, diverged or failed."""
        if status == "running":
            raise RecordsError(
                f"run {key} cannot finish as running. Use finished, diverged or failed."
            )
        storable = note.encode("utf-8", "backslashreplace").decode()  # an error may quote anything
        with self.transaction():
            if self.run(key) is None:
                raise self._no_run(key)
            self._db.execute(
                """UPDATE runs SET status = ?, finished = ?, wall_seconds = ?, note = ?
                WHERE key = ?""",
                (status, _now(), wall_seconds, storable, key),
            )
            checksums.keep_entry(self._db, key)

    def keep_devices(self, tables: Mapping[str, "DeviceTable"]) -> None:
        """Record what every device of these runs scored at the end."""
        with self.transaction():
            for key, table in tables.items():
                run, *_ = self._open_run(key)
                content = devices.to_blob(table)
                self._db.execute(
                    f"INSERT OR REPLACE INTO {devices.TABLE} VALUES (?, ?, ?)",
                    (run, content, zlib.crc32(content)),
                )

    def forget(self, keys: Iterable[str]) -> None:
        """Remove runs and their histories, for a recomputation."""
        with self.transaction():
            self._db.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in keys])

    # Inside

    def _open_run(self, key: str) -> tuple[int, int, int | None]:
        """The id of a run whose history may change, its last round (-1 if it has none), and the
        checksum of its history."""
        found = self._select(
            f"""SELECT id, status, (SELECT coalesce(max(last), -1) FROM parts WHERE run = runs.id),
            {checksums.stored("history")} FROM runs WHERE key = ?""",
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

    def _insert(self, run: int, part: Part) -> StoredPart:
        stored = StoredPart(part.first, part.last, json.dumps(part.names), part.to_blob())
        self._db.execute("INSERT OR IGNORE INTO measures (names) VALUES (?)", (stored.names,))
        self._db.execute(
            """INSERT INTO parts (run, first, last, measures, matrix)
            SELECT ?, ?, ?, id, ? FROM measures WHERE names = ?""",
            (run, stored.first, stored.last, stored.blob, stored.names),
        )
        return stored

    def _stored_parts(self, run: int) -> list[StoredPart]:
        rows = self._select(
            """SELECT first, last, names, matrix FROM parts
            LEFT JOIN measures ON measures.id = parts.measures WHERE run = ? ORDER BY last""",
            run,
        )
        return [StoredPart(*row) for row in rows]


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


def _checked(key: str, columns: Mapping[str, Column]) -> Part:
    try:
        return Part.from_columns(columns)
    except ValueError as error:
        raise RecordsError(f"a part of the history of run {key} {error}.") from None
