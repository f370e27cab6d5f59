"""The SQLite file under a store: its schema, how it is opened, and what its errors mean.

The format number of a store grows when an older version would misread it. A newer store is refused.
An older one is migrated: in one transaction when it is opened to record, in a copy in memory when
it is only read (`MIGRATIONS`). Tables that older versions may ignore need no new number
(`ADDITIONS`).
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from skerry.errors import DamagedError, RecordsError, skerry_command
from skerry.files import place_of
from skerry.records import activity, parts

APPLICATION = int.from_bytes(b"skry", "big")  # tells a store from other SQLite files
VERSION = 2
KEYS_SINCE = 2  # the first format with the current content keys; its tables are those of 1
BUSY_SECONDS = 30.0
LOOKS = 3

SCHEMA = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'diverged', 'failed')),
        experiment TEXT NOT NULL,
        materials TEXT NOT NULL,
        world TEXT NOT NULL,
        device TEXT NOT NULL,
        versions TEXT NOT NULL,
        started TEXT NOT NULL,
        finished TEXT,
        wall_seconds REAL,
        note TEXT NOT NULL DEFAULT '',
        CHECK ((status = 'running') = (finished IS NULL))
    )""",
    "CREATE TABLE measures (id INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE)",
    """CREATE TABLE parts (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL CHECK (last >= first),
        measures INTEGER NOT NULL REFERENCES measures,
        matrix BLOB NOT NULL,
        UNIQUE (run, last)
    )""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
ADDITIONS = {
    parts.CHECKSUM_TABLE: (parts.CHECKSUM_SCHEMA, "run, part, crc32"),
    parts.DEVICE_TABLE: (parts.DEVICE_SCHEMA, "run, content, crc32"),
    activity.DRIVER_TABLE: (activity.DRIVER_SCHEMA, activity.DRIVER_COLUMNS),
    activity.PROGRESS_TABLE: (activity.PROGRESS_SCHEMA, activity.PROGRESS_COLUMNS),
}
"""By table, the statements that add it, and its columns: a store that lacks it and may only be read
gets an empty temporary table in its place."""
MIGRATIONS: dict[int, tuple[str, ...]] = {1: ()}  # statements, by the format that they end

MEANINGS = {
    "SQLITE_BUSY": f"another program has kept it locked for {BUSY_SECONDS:.0f} s. Try again when "
    "that program is done.",
    "SQLITE_CANTOPEN": "it cannot be opened. Check that its folder exists and may be written.",
    "SQLITE_FULL": "the disk is full. Free some space; what was recorded before is safe.",
    "SQLITE_IOERR": "the disk cannot be read or written. Check its space and health; what was "
    "recorded before is safe.",
    "SQLITE_NOTADB": "it is no SQLite file. Give another folder, or move the file away.",
    "SQLITE_READONLY": "it may only be read. Choose another folder, or allow writing to this one.",
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as RecordsError with one line for people; programming errors pass."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except UnicodeDecodeError as error:  # what SQLite says of a damaged schema, it quotes
        raise damaged_store(path, str(error)) from error
    except sqlite3.Error as error:
        # Extended names such as SQLITE_IOERR_WRITE begin with the plain one.
        plain = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        if plain == "SQLITE_CORRUPT":
            raise damaged_store(path, str(error)) from error
        meaning = MEANINGS.get(plain, f"{error}.")
        raise RecordsError(f"cannot use the store {path}: {meaning}") from error


def damaged_store(path: Path, reason: str) -> DamagedError:
    """The error for a store file that is damaged as a whole."""
    return DamagedError(
        f"cannot use the store {path}: it is damaged. Restore it from a copy, or save what can be "
        f"read of it: {skerry_command('store', 'repair', place_of(path))}",
        reason=reason,
    )


def create_or_open(path: Path) -> sqlite3.Connection:
    """Open a connection that writes; creates the store if the file is missing or empty."""
    with translate_errors(path):
        db = connect(path, "mode=rwc")
        with _close_on_error(db):
            if _is_blank(db, path):
                with transaction(db):
                    # Another process may have been first, between the look and the lock.
                    if _is_blank(db, path):
                        for statement in SCHEMA:
                            db.execute(statement)
            # Only now, so that the file of another program is left as it was.
            if not has_current_keys(db):
                raise RecordsError(
                    f"{path} holds runs of an earlier skerry with other content keys: they can be "
                    "shown and exported, but not resumed or added to. Record in a new folder."
                )
            _check_integrity(db, path)
            _use_write_ahead_log(db)
            _migrate(db)
            _check_columns(db, path)
            # A checkpoint must never be ahead of the history after a loss of power.
            db.execute("PRAGMA synchronous = FULL")
    return db


def open_existing(path: Path) -> sqlite3.Connection:
    with translate_errors(path):
        # SQLite coordinates with writers through files beside the store. Where it can neither find
        # nor create them, nobody is writing, and the one file is complete.
        shares = os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists()
        db = connect(path, "mode=ro" if shares else "immutable=1")
        with _close_on_error(db):
            if _is_blank(db, path):
                raise RecordsError(f"{path} is empty, not a store. Give a folder of recorded runs.")
            _check_integrity(db, path)
            if any(MIGRATIONS[old] for old in range(_version(db), VERSION)):
                old, db = db, _configure(sqlite3.connect(":memory:", isolation_level=None))
                old.backup(db)
                old.close()
                _migrate(db)
            else:
                for table in _missing_additions(db):
                    db.execute(f"CREATE TEMP TABLE {table} ({ADDITIONS[table][1]})")
            _check_columns(db, path)
    return db


def has_current_keys(db: sqlite3.Connection) -> bool:
    """Whether the content keys in a store are those that this version computes."""
    return _version(db) >= KEYS_SINCE


def copy_version(old: sqlite3.Connection, fresh: sqlite3.Connection) -> None:
    """Mark a copy of a store's rows as a store of the same format."""
    fresh.execute(f"PRAGMA user_version = {max(1, min(_version(old), VERSION))}")


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Run the body in a transaction, or as a piece of the one that is open already."""
    if db.in_transaction:
        yield
        return
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file in a mode of SQLite's URIs, such as `mode=ro`."""
    address = f"{path.absolute().as_uri()}?{mode}"
    db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    return _configure(db)


def _configure(db: sqlite3.Connection) -> sqlite3.Connection:
    db.execute("PRAGMA foreign_keys = ON")
    # A store may come from a stranger: its schema gets to call nothing.
    db.execute("PRAGMA trusted_schema = OFF")
    # Damaged text is found run by run; it must not keep the others from being read.
    db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return db


def _check_integrity(db: sqlite3.Connection, path: Path) -> None:
    """Check every page, in a twentieth of a second for 100 MB. SQLite alone reads pages as it needs
    them, so rows that are lost with a page would not be missed."""
    [found] = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged_store(path, " ".join(found.split()))


def _check_columns(db: sqlite3.Connection, path: Path) -> None:
    """Check the columns of the main tables. SQLite trusts the file's own schema: were `id` no key
    any more, all runs would be read as if they had no rounds."""
    for table, columns in _expected_columns().items():
        if not columns <= _columns(db, table):
            raise damaged_store(path, f"its table {table} has other columns")


@cache
def _expected_columns() -> dict[str, set[Any]]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in SCHEMA:
            db.execute(statement)
        return {table: _columns(db, table) for table in ("runs", "measures", "parts")}


def _columns(db: sqlite3.Connection, table: str) -> set[Any]:
    """Position, name, type and key of every column."""
    return set(db.execute(f"PRAGMA table_info({table})"))


def _version(db: sqlite3.Connection) -> int:
    [version] = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _migrate(db: sqlite3.Connection) -> None:
    if _version(db) == VERSION and not _missing_additions(db):
        return
    with transaction(db):
        # Another process may have been first, between the look and the lock.
        for version in range(_version(db), VERSION):
            for statement in (*MIGRATIONS[version], f"PRAGMA user_version = {version + 1}"):
                db.execute(statement)
        for table in _missing_additions(db):
            for statement in ADDITIONS[table][0]:
                db.execute(statement)


def _missing_additions(db: sqlite3.Connection) -> list[str]:
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    return [table for table in ADDITIONS if table not in there]


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch on write-ahead logging, so that readers and a writer work side by side. SQLite does
    not wait for a lock here, and several processes may create a store at the same time."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def _close_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


def _is_blank(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the file was never written to; raises RecordsError if it is no store of ours."""
    for _ in range(LOOKS):
        # The size first: another process may be creating the store right now.
        size = path.stat().st_size
        application, version, page, tables = db.execute(
            """SELECT application_id, user_version, page_size, (SELECT count(*) FROM sqlite_master)
            FROM pragma_application_id, pragma_user_version, pragma_page_size"""
        ).fetchone()
        if application == version == tables == size == 0:
            return True
        if size == path.stat().st_size:
            break
        # Reading it has rolled back what a killed process left while it created the store.
    if application != APPLICATION:
        raise RecordsError(
            f"{path} was made by another program, not by skerry. Choose another folder."
        )
    if version > VERSION or not all(old in MIGRATIONS for old in range(version, VERSION)):
        age = "newer" if version > VERSION else "older"
        raise RecordsError(
            f"{path} was made by a {age} skerry (format {version}; this one reads {VERSION}). "
            "Use that version, or choose another folder."
        )
    if size % page:
        # SQLite finds missing pages by itself, but reads half a page as if zeros followed.
        raise damaged_store(path, "it ends within a page")
    return False
