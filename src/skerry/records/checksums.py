"""Checksums of what a store holds: of each run's entry, and of its history.

SQLite keeps none of its own, and a flipped bit in a seed or in a measure's name would not be seen.
They lie in a table that older versions overlook. Who changes a run without them, an older version
or a person with an SQLite shell, removes them by a trigger: the run then counts as not checked.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

TABLE = "checksums"
SCHEMA = (
    f"""CREATE TABLE {TABLE} (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        part TEXT NOT NULL CHECK (part IN ('entry', 'history')),
        crc32 INTEGER NOT NULL,
        PRIMARY KEY (run, part)
    ) WITHOUT ROWID""",
    f"""CREATE TRIGGER entry_changed AFTER UPDATE ON runs
        BEGIN DELETE FROM {TABLE} WHERE run = OLD.id AND part = 'entry'; END""",
    f"""CREATE TRIGGER history_grew AFTER INSERT ON parts
        BEGIN DELETE FROM {TABLE} WHERE run = NEW.run AND part = 'history'; END""",
    f"""CREATE TRIGGER history_shrank AFTER DELETE ON parts
        BEGIN DELETE FROM {TABLE} WHERE run = OLD.run AND part = 'history'; END""",
    f"""CREATE TRIGGER history_changed AFTER UPDATE ON parts
        BEGIN DELETE FROM {TABLE} WHERE run IN (OLD.run, NEW.run) AND part = 'history'; END""",
)
NONE = f"CREATE TEMP TABLE {TABLE} (run, part, crc32)"
"""For a store without any, which may only be read."""

ENTRY = """key, status, experiment, materials, world, device, versions, started, finished,
    wall_seconds, note"""


class StoredPart(NamedTuple):
    """A part of a history, as it lies in the store."""

    first: int
    last: int
    names: str
    blob: bytes


def of_entry(entry: Sequence[Any]) -> int:
    """Of a run's entry, in the order of `ENTRY`."""
    return zlib.crc32(json.dumps(list(entry)).encode())


def of_history(parts: Iterable[StoredPart], before: int = 0) -> int:
    """Of parts in order; `before` is that of the parts before them."""
    for first, last, names, blob in parts:
        before = zlib.crc32(blob, zlib.crc32(json.dumps([first, last, names]).encode(), before))
    return before


def keep_entry(db: sqlite3.Connection, key: str) -> None:
    """After the entry of a run has changed."""
    [(run, *entry)] = db.execute(f"SELECT id, {ENTRY} FROM runs WHERE key = ?", (key,))
    db.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, 'entry', ?)", (run, of_entry(entry)))


def keep_history(db: sqlite3.Connection, run: int, crc32: int) -> None:
    """After the history of a run has changed."""
    db.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, 'history', ?)", (run, crc32))


def stored(part: str) -> str:
    """In a query of runs: their checksums, NULL where there is none."""
    return f"(SELECT crc32 FROM {TABLE} WHERE run = runs.id AND part = '{part}')"
