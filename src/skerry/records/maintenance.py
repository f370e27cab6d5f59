"""Verify, back up and repair stores."""

import os
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from skerry.config.experiment import Experiment, Section
from skerry.errors import DamagedError, RecordsError, SkerryWarning, writing
from skerry.files import is_file, replacing
from skerry.records import database
from skerry.records.parts import CHECKSUM_TABLE, DEVICE_TABLE, ENTRY_COLUMNS, History
from skerry.records.reading import Run
from skerry.records.store import FILE, MODELS, Store, models_file

# Messages about what is not checked; {} is the number of runs.
NO_CHECKSUM = "the checksums of {} that an older version recorded"
OLD_KEYS = "the keys of {} that an earlier version computed in another way"
OWN_CODE = "the keys of {} that count code of their own, which is not imported"
OTHER_FIELDS = "the keys of {} that a version with other fields recorded"

THE_FILE = "the file"

TABLES = {
    "measures": "id, names",
    "runs": f"id, {ENTRY_COLUMNS}",
    "parts": "id, run, first, last, measures, matrix",
    DEVICE_TABLE: "run, content, crc32",
    CHECKSUM_TABLE: "run, part, crc32",
}
"""By table, its columns, of which the first numbers the rows. Checksums come last, because triggers
remove them when other rows follow."""
MOST_PROBED = 1_000_000  # rows between readable ones that are tried one by one, at most


@dataclass
class Findings:
    """Result of `verify_store`: the runs of a store, and the damage found."""

    path: Path
    runs: int = 0
    faults: dict[str, str] = field(default_factory=dict)  # by key, or THE_FILE, what is wrong
    not_checked: dict[str, list[str]] = field(default_factory=dict)
    """By reason, the keys of runs that could not be checked completely."""
    models: dict[str, str] = field(default_factory=dict)
    """By key of a run whose kept models are damaged, what is wrong with them."""


def verify_store(folder: Path | str) -> Findings:
    """Check the file, every run and every key of a store, without importing what runs name."""
    try:
        with Store.read(folder) as store:
            found = check_store(store)
            found.models = _damaged_models(store.path.parent)
            return found
    except DamagedError as error:
        return Findings(Path(folder), faults={THE_FILE: error.reason})


def check_store(store: Store) -> Findings:
    """`verify_store` for a store that is open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkerryWarning)  # the findings name each with its fault
        recorded = store.histories()
    found = Findings(store.path, len(recorded) + len(store.damaged), dict(store.damaged))
    unsealed = store.without_checksums()
    current = store.has_current_keys
    for run, history in recorded:
        fault = _fault(run, history, current)
        try:
            store.devices(run.key)
        except DamagedError as error:
            fault = fault or error.reason
        if fault:
            found.faults[run.key] = fault
            continue
        if run.key in unsealed:
            found.not_checked.setdefault(NO_CHECKSUM, []).append(run.key)
        if reason := _why_no_key(run.experiment) if current else OLD_KEYS:
            found.not_checked.setdefault(reason, []).append(run.key)
    return found


def _fault(run: Run, history: History, current: bool) -> str | None:
    """The fault in the rows or the key of a run, or None."""
    try:
        if (fault := _fault_of_rows(run, history)) or not current or _why_no_key(run.experiment):
            return fault
        key = run.experiment.key(run.materials)
        return f"its experiment and materials belong to run {key}" if key != run.key else None
    except (TypeError, ValueError, AttributeError) as error:  # a field with an impossible value
        return f"its experiment is none ({error})"


def _fault_of_rows(run: Run, history: History) -> str | None:
    rounds, evaluate = history["round"], run.experiment.evaluate
    last = int(rounds[-1]) if len(rounds) else 0
    stopped = run.experiment.stop and run.note.startswith(f"stopped after round {last} of ")
    if run.status == "finished" and last != run.experiment.rounds and not stopped:
        return f"finished, but recorded up to round {last} of {run.experiment.rounds} only"
    evaluated = (rounds % evaluate.every == 0) & (rounds > evaluate.after)
    expected = max(0, last // evaluate.every - evaluate.after // evaluate.every)
    if missing := expected - int(evaluated.sum()):
        return f"{missing} rows are missing before round {last}"
    return None


def _why_no_key(experiment: Experiment) -> str | None:
    """Why the key cannot be computed from the recorded experiment, or None."""
    if any(True for _ in experiment.users_own()):
        return OWN_CODE
    sections = (experiment, *(value for _, value in experiment if isinstance(value, Section)))
    # A field that was not recorded has today's default, not that of then.
    complete = all(one.model_fields_set >= type(one).model_fields.keys() for one in sections)
    return None if complete else OTHER_FIELDS


@dataclass(frozen=True)
class Repaired:
    """Result of `repair_store`: the runs that were kept and lost."""

    kept: int
    lost: dict[str, str]  # by key, why; runs with an unreadable entry are missing here
    aside: Path  # the path of the damaged file, which is kept


def back_up_store(folder: Path | str, file: Path) -> int:
    """Copy a store as of one moment, also while it is written to; returns the number of runs."""
    if file.exists():
        raise RecordsError(f"{file} is there already. Name a file that is not.")
    with Store.read(folder) as store, writing(file), replacing(file) as partial:
        with closing(sqlite3.connect(partial)) as copy:
            store.copy_to(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
        return len(store.runs())


def repair_store(folder: Path) -> Repaired | None:
    """Replace a damaged store by its sound runs, and keep the file aside; None if undamaged."""
    path = folder if is_file(folder) else folder / FILE
    if not verify_store(folder).faults:
        return None
    aside = path.with_name(f"{path.name}.damaged-{datetime.now():%Y%m%d-%H%M%S}")
    with writing(path), replacing(path) as partial:
        with closing(database.create_or_open(partial)) as fresh:
            lost = _copy_sound_runs(path, fresh, partial)
            [(kept,)] = fresh.execute("SELECT count(*) FROM runs")
            fresh.execute("PRAGMA journal_mode = DELETE")
        _put_aside(path, aside)
    return Repaired(kept, lost, aside)


def put_models_aside(folder: Path) -> dict[str, str]:
    """Rename the files of damaged models to `.damaged`; returns what is wrong, by run key."""
    faults = _damaged_models(folder)
    for file in (models_file(folder, key) for key in faults):
        with writing(file):
            os.replace(file, f"{file}.damaged")
    return faults


def _damaged_models(folder: Path) -> dict[str, str]:
    """By key, what is wrong with the models that were kept in the folder of a store."""
    faults = {}
    for file in sorted((folder / MODELS).glob("*.safetensors")):
        from skerry.records.final_models import FinalModels  # torch, only where it is needed

        try:
            FinalModels.load(folder, file.stem)
        except DamagedError as error:
            faults[file.stem] = error.reason
    return faults


def _put_aside(path: Path, aside: Path) -> None:
    """Rename the store and its write-ahead log, which must not be applied to the new store."""
    Path(f"{path}-shm").unlink(missing_ok=True)  # an index of the log
    changes = Path(f"{path}-wal")
    if changes.exists() and changes.stat().st_size:
        os.replace(changes, f"{aside}-wal")
    else:
        changes.unlink(missing_ok=True)
    os.replace(path, aside)


def _copy_sound_runs(path: Path, fresh: sqlite3.Connection, partial: Path) -> dict[str, str]:
    """Copy every readable row, then delete damaged runs; returns why, by key."""
    fresh.execute("PRAGMA foreign_keys = OFF")
    with (
        database.translate_errors(path),
        closing(database.connect(path, "mode=ro")) as old,
        database.transaction(fresh),
    ):
        old.execute("PRAGMA writable_schema = ON")  # a file that was cut off is read to its end
        all_read, lost = _copy_rows(old, fresh)
        database.copy_version(old, fresh)
    found = check_store(Store(fresh, partial))
    lost |= found.faults
    if not all_read:  # rows may be missing, and it is unknown of which runs
        lost |= dict.fromkeys(found.not_checked.get(NO_CHECKSUM, []), "it cannot be checked")
    with database.transaction(fresh):
        for run, key in fresh.execute("SELECT id, key FROM runs").fetchall():
            if key in lost:
                fresh.execute("DELETE FROM runs WHERE id = ?", (run,))
        for table in ("parts", CHECKSUM_TABLE, DEVICE_TABLE):
            fresh.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT id FROM runs)")
    return lost


def _copy_rows(old: sqlite3.Connection, fresh: sqlite3.Connection) -> tuple[bool, dict[str, str]]:
    """Copy rows; returns whether all could be read, and runs that violate the schema."""
    all_read, refused = True, {}
    for table, columns in TABLES.items():
        places = ", ".join("?" * (columns.count(",") + 1))
        insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({places})"
        for row in _readable_rows(old, table, columns):
            if row is None:
                all_read = False
                continue
            done = fresh.execute(insert, [_storable(value) for value in row])
            if done.rowcount == 0 and table == "runs":
                refused[str(row[1])] = "its entry breaks the rules"
    return all_read, refused


def _readable_rows(
    db: sqlite3.Connection, table: str, columns: str
) -> Iterator[tuple[object, ...] | None]:
    """Rows up to damage, from the end back to it, and readable ones between; None: unreadable."""
    count = columns.partition(",")[0]
    select = f"SELECT {columns} FROM {table}"
    last = -1
    try:
        for row in db.execute(f"{select} ORDER BY {count}"):
            if isinstance(row[0], int):  # damage may leave anything in its place
                last = max(last, row[0])
                yield row
            else:
                yield None
        return
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):  # a store of an older version has not all of them
            return
    yield None
    end = last + 1
    with suppress(sqlite3.DatabaseError):
        for row in db.execute(f"{select} ORDER BY {count} DESC"):
            if not isinstance(row[0], int) or row[0] <= last:
                break
            end = row[0]
            yield row
    for number in range(last + 1, min(end, last + MOST_PROBED)):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute(f"{select} WHERE {count} = ?", (number,))


def _storable(value: object) -> object:
    """Undecodable text is copied as it is, so that its checksum reveals it there."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value
