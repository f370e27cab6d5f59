"""The SQLite file under a store: its schema, how it is opened, and what its errors mean.

Formats. The number of a store's format grows when a version that knows only the one before would
misread it. A newer store is refused. An older one is brought up to date: in one transaction when it
is opened to record, in a copy in memory when it is only read (`MIGRATIONS`). What older versions
may overlook is added without a new number (`ADDITIONS`).
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from skerry.errors import RecordsError
from skerry.records import checksums, devices
from skerry.records.damage import DamagedError

APPLICATION = int.from_bytes(b"skry", "big")  # tells a store from other SQLite files
VERSION = 2
KEYS_SINCE = 2
"""The first format whose runs have the content keys of today; its tables are those of format 1."""
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
    checksums.TABLE: (checksums.SCHEMA, checksums.NONE),
    devices.TABLE: (devices.SCHEMA, devices.NONE),
}
"""By table, the statements that add it, and the one that stands for it where nothing may be."""
MIGRATIONS: dict[int, tuple[str, ...]] = {1: ()}
"""By format, the statements that turn a store of it into one of the next."""

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
def explained(path: Path) -> Iterator[None]:
    """SQLite's errors as one line for people; misuse by a program stays what it is."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except UnicodeDecodeError as error:  # what SQLite says of a damaged schema, it quotes
        raise damaged(path, str(error)) from error
    except sqlite3.Error as error:
        # Extended names such as SQLITE_IOERR_WRITE begin with the plain one.
        plain = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        if plain == "SQLITE_CORRUPT":
            raise damaged(path, str(error)) from error
        meaning = MEANINGS.get(plain, f"{error}.")
        raise RecordsError(f"cannot use the store {path}: {meaning}") from error


def damaged(path: Path, reason: str) -> DamagedError:
    return DamagedError(
        f"cannot use the store {path}: it is damaged. Restore it from a copy, or save what can be "
        f"read of it: skerry store repair {path.parent}",
        reason=reason,
    )


def create_or_open(path: Path) -> sqlite3.Connection:
    """A connection that writes, to a store that is made if the file is not there or empty."""
    with explained(path):
        db = connect(path, "mode=rwc")
        with _closed_on_error(db):
            if _is_blank(db, path):
                with transaction(db):
                    # Another process may have been first, between the look and the lock.
                    if _is_blank(db, path):
                        for statement in SCHEMA:
                            db.execute(statement)
            # Only now, so that the file of another program is left as it was.
            if not has_todays_keys(db):
                raise RecordsError(
                    f"{path} holds runs of an earlier skerry with other content keys: they can be "
                    "shown and exported, but not resumed or added to. Record in a new folder."
                )
            _check_whole(db, path)
            _write_ahead(db)
            _bring_up_to_date(db)
            _check_columns(db, path)
            # A checkpoint must never be ahead of the history after a loss of power.
            db.execute("PRAGMA synchronous = FULL")
    return db


def open_existing(path: Path) -> sqlite3.Connection:
    """A connection that only reads."""
    with explained(path):
        db = connect(path, "mode=ro" if _can_share(path) else "immutable=1")
        with _closed_on_error(db):
            if _is_blank(db, path):
                raise RecordsError(f"{path} is empty, not a store. Give a folder of recorded runs.")
            _check_whole(db, path)
            if any(MIGRATIONS[old] for old in range(_version(db), VERSION)):
                db = _copied_to_memory(db)
                _bring_up_to_date(db)
            else:
                for table in _missing_additions(db):
                    db.execute(ADDITIONS[table][1])
            _check_columns(db, path)
    return db


@contextmanager
def transaction(db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """All or nothing; inside another transaction, a piece of that one."""
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
    return _set_up(
        sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )
    )


def _set_up(db: sqlite3.Connection) -> sqlite3.Connection:
    db.execute("PRAGMA foreign_keys = ON")
    # A store may come from a stranger: its schema gets to call nothing.
    db.execute("PRAGMA trusted_schema = OFF")
    # Damaged text is found run by run; it must not keep the others from being read.
    db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return db


def _check_whole(db: sqlite3.Connection, path: Path) -> None:
    """SQLite looks at pages as it needs them: rows that are lost with a page would not be missed.
    This looks at all of them, in a twentieth of a second for 100 MB."""
    [found] = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, " ".join(found.split()))


def _check_columns(db: sqlite3.Connection, path: Path) -> None:
    """SQLite believes what the file says of its own tables: where `id` is no key any more, all runs
    would be read as if they had no rounds."""
    for table, columns in _columns_as_made().items():
        if not columns <= _columns(db, table):
            raise damaged(path, f"its table {table} has other columns")


@cache
def _columns_as_made() -> dict[str, set[Any]]:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in SCHEMA:
            db.execute(statement)
        return {table: _columns(db, table) for table in ("runs", "measures", "parts")}


def _columns(db: sqlite3.Connection, table: str) -> set[Any]:
    """Their places, names, types and keys."""
    return set(db.execute(f"PRAGMA table_info({table})"))


def _version(db: sqlite3.Connection) -> int:
    [version] = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def has_todays_keys(db: sqlite3.Connection) -> bool:
    """Whether the content keys in a store are those that this version computes."""
    return _version(db) >= KEYS_SINCE


def keep_version(old: sqlite3.Connection, fresh: sqlite3.Connection) -> None:
    """Mark a copy of a store's rows as a store of the same format."""
    fresh.execute(f"PRAGMA user_version = {max(1, min(_version(old), VERSION))}")


def _bring_up_to_date(db: sqlite3.Connection) -> None:
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


def _copied_to_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    copy = _set_up(sqlite3.connect(":memory:", isolation_level=None))
    db.backup(copy)
    db.close()
    return copy


def _write_ahead(db: sqlite3.Connection) -> None:
    """Let readers and a writer work side by side. SQLite does not wait for a lock to make this
    switch, which several processes may ask for when they make a store together."""
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
def _closed_on_error(db: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


def _can_share(path: Path) -> bool:
    """Whether SQLite can coordinate with writers, through files beside the store. Where it can
    neither find nor make them, nobody is writing, and the store is complete in one file."""
    return os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists()


def _is_blank(db: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing was ever written to the file; RecordsError if it is not a store of ours."""
    for _ in range(LOOKS):
        # The size first: a rival that makes the store now can only be seen as the store it made.
        size = path.stat().st_size
        application, version, page, tables = db.execute(
            """SELECT application_id, user_version, page_size, (SELECT count(*) FROM sqlite_master)
            FROM pragma_application_id, pragma_user_version, pragma_page_size"""
        ).fetchone()
        if application == version == tables == size == 0:
            return True
        if size == path.stat().st_size:
            break
        # The look itself has undone what a program left that was killed while it made the store.
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
        raise damaged(path, "it ends within a page")
    return False
