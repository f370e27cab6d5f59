"""Copies of a store: one to keep, and one of what can be saved from a damaged file."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from skerry.errors import RecordsError
from skerry.files import replacing
from skerry.records import checksums, database, devices
from skerry.records.store import FILE, Store
from skerry.records.verify import NO_CHECKSUM, findings_of, verify

TABLES = {
    "measures": "id, names",
    "runs": f"id, {checksums.ENTRY}",
    "parts": "id, run, first, last, measures, matrix",
    devices.TABLE: "run, content, crc32",
    checksums.TABLE: "run, part, crc32",
}
"""The columns of each; the first counts the rows. Checksums come last: rows that come after them
would remove them."""
MOST_PROBED = 1_000_000
"""So many rows between readable ones are asked for one by one."""


@dataclass(frozen=True)
class Repaired:
    kept: int
    lost: dict[str, str]
    """By key, why a run could not be kept. Runs of which no entry was left are not among them."""
    aside: Path
    """Where the damaged file is now."""


def back_up(folder: Path | str, file: Path) -> int:
    """Copy a store as it is at one moment, whoever writes to it; gives the number of its runs."""
    if file.exists():
        raise RecordsError(f"{file} is there already. Name a file that is not.")
    with Store.read(folder) as store, _writing(file), replacing(file) as partial:
        with closing(sqlite3.connect(partial)) as copy:
            store.copy_to(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
        return len(store.runs())


def repair(folder: Path) -> Repaired | None:
    """Put a store in the place of a damaged one, with all of its runs that are whole, and keep the
    damaged file beside it. None where nothing is damaged."""
    path = folder / FILE
    if not verify(folder).faults:
        return None
    aside = path.with_name(f"{FILE}.damaged-{datetime.now():%Y%m%d-%H%M%S}")
    with _writing(path), replacing(path) as partial:
        with closing(database.create_or_open(partial)) as fresh:
            lost = _copy_what_is_whole(path, fresh, partial)
            [(kept,)] = fresh.execute("SELECT count(*) FROM runs")
            fresh.execute("PRAGMA journal_mode = DELETE")
        _put_aside(path, aside)
    return Repaired(kept, lost, aside)


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordsError(
            f"cannot write {file} ({error.strerror}). Choose a folder that exists and can be "
            "written."
        ) from None


def _put_aside(path: Path, aside: Path) -> None:
    """With the file of its last changes, which must not meet the store that takes its place."""
    Path(f"{path}-shm").unlink(missing_ok=True)  # only says where to find them
    changes = Path(f"{path}-wal")
    if changes.exists() and changes.stat().st_size:
        os.replace(changes, f"{aside}-wal")
    else:
        changes.unlink(missing_ok=True)
    os.replace(path, aside)


def _copy_what_is_whole(path: Path, fresh: sqlite3.Connection, partial: Path) -> dict[str, str]:
    """Every row that can be read, and then without the runs that are not what was recorded; gives
    those, with the reasons."""
    fresh.execute("PRAGMA foreign_keys = OFF")
    with (
        database.explained(path),
        closing(database.connect(path, "mode=ro")) as old,
        database.transaction(fresh),
    ):
        all_read, lost = _copy_rows(old, fresh)
        database.keep_version(old, fresh)
    found = findings_of(Store(fresh, partial))
    lost |= found.faults
    if not all_read:  # rows may be missing, and nothing tells of which runs
        lost |= dict.fromkeys(found.not_checked.get(NO_CHECKSUM, []), "it cannot be checked")
    with database.transaction(fresh):
        for run, key in fresh.execute("SELECT id, key FROM runs").fetchall():
            if key in lost:
                fresh.execute("DELETE FROM runs WHERE id = ?", (run,))
        for table in ("parts", checksums.TABLE, devices.TABLE):
            fresh.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT id FROM runs)")
    return lost


def _copy_rows(old: sqlite3.Connection, fresh: sqlite3.Connection) -> tuple[bool, dict[str, str]]:
    """Whether all could be read, and the runs whose entry breaks the rules of the schema."""
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
    """From the start up to what cannot be read, from the end back to it, and what can be read in
    between; None stands for rows that cannot."""
    count = columns.partition(",")[0]
    select = f"SELECT {columns} FROM {table}"
    last = -1
    try:
        for row in db.execute(f"{select} ORDER BY {count}"):
            last = max(last, row[0])
            yield row
        return
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):  # a store of an older version has not all of them
            return
    yield None
    end = last + 1
    with suppress(sqlite3.DatabaseError):
        for row in db.execute(f"{select} ORDER BY {count} DESC"):
            if row[0] <= last:
                break
            end = row[0]
            yield row
    for number in range(last + 1, min(end, last + MOST_PROBED)):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute(f"{select} WHERE {count} = ?", (number,))


def _storable(value: object) -> object:
    """Text that is none goes into the copy as it was, to be found there by its checksum."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value
