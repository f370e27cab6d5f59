"""How runs are encoded in a store: parts of histories, tables of devices, and checksums.

A part of a history holds some rounds of one run as one compressed matrix. SQLite keeps no checksums
of its own, so a table of ours holds one for the entry of each run and one for its history. A
trigger removes the checksums of a run that is changed without them, by an older version or in an
SQLite shell; such a run counts as not checked. Older versions ignore both additional tables.
"""

import json
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from skerry.measure.device_scores import DeviceTable

History = dict[str, NDArray[Any]]  # columns: "round" (int64) and every measure (float64)

Column = Sequence[float] | NDArray[np.float64]

LAST_ROUND = 2**53  # whole numbers are exact in float64 up to here
LEVEL = 1  # higher levels of zlib save 2 % of space for 2.5 times the time


@dataclass(frozen=True)
class HistoryPart:
    """Some rounds of one run: row 0 of the matrix holds the rounds, each other row a measure."""

    names: tuple[str, ...]
    matrix: NDArray[np.float64]

    @classmethod
    def from_columns(cls, columns: Mapping[str, Column]) -> Self:
        """Check columns and pack them; raises ValueError with the rule that they break."""
        names = tuple(name for name in columns if name != "round")
        if "round" not in columns:
            raise ValueError('must have a column "round"')
        try:
            matrix = np.array([columns["round"], *(columns[name] for name in names)], dtype="<f8")
        except (TypeError, ValueError):
            raise ValueError("must have columns of numbers, all of one length") from None
        if matrix.ndim != 2:
            raise ValueError("must have columns of single numbers")
        rounds = matrix[0]
        # Written so that NaN fails.
        if not np.all((rounds >= 0) & (rounds <= LAST_ROUND) & (rounds == np.floor(rounds))):
            raise ValueError("must have whole rounds from 0")
        if not np.all(np.diff(rounds) > 0):
            raise ValueError("must have rounds in rising order")
        return cls(names, matrix)

    @classmethod
    def from_blob(cls, names: tuple[str, ...], blob: bytes, first: int, last: int) -> Self:
        """Unpack a blob; raises ValueError if it is damaged (zlib keeps a checksum). Its rounds
        must go from `first` to `last`, which also limits the memory it can take."""
        columns = 1 + len(names)
        if not 0 <= first <= last <= LAST_ROUND:
            raise ValueError(f"no rounds go from {first} to {last}")
        content = _decompress(blob, min(8 * columns * (last - first + 1), sys.maxsize))
        part = cls(names, np.frombuffer(content, "<f8").reshape(columns, -1))
        if part.is_empty or (part.first, part.last) != (first, last):
            raise ValueError(f"its rounds are not {first} to {last}")
        return part

    def to_blob(self) -> bytes:
        return zlib.compress(self.matrix.tobytes(), LEVEL)

    @property
    def is_empty(self) -> bool:
        return self.matrix.size == 0

    @property
    def first(self) -> int:
        return int(self.matrix[0, 0])

    @property
    def last(self) -> int:
        return int(self.matrix[0, -1])

    def up_to(self, round_: int) -> "HistoryPart":
        return HistoryPart(self.names, self.matrix[:, self.matrix[0] <= round_])


def join_parts(parts: Iterable[HistoryPart]) -> History:
    """Join parts to one history, NaN where a measure is missing; ValueError if out of order."""
    blocks = [
        (names, np.concatenate([part.matrix for part in alike], axis=1))
        for names, alike in groupby(parts, key=lambda part: part.names)
    ]
    rounds = np.concatenate([matrix[0] for _, matrix in blocks] or [np.empty(0)])
    history: History = {"round": rounds.astype(np.int64)}
    if not np.all(np.diff(rounds) > 0):
        raise ValueError("its rounds are not in rising order")
    start = 0
    for names, matrix in blocks:
        stop = start + matrix.shape[1]
        for name, row in zip(names, matrix[1:], strict=True):
            column = history.setdefault(name, np.full(len(rounds), np.nan))
            column[start:stop] = row
        start = stop
    return history


def last_values(history: History) -> dict[str, float]:
    """The last measured value of each measure, NaN if there is none."""
    measured = {name: one[~np.isnan(one)] for name, one in history.items() if name != "round"}
    return {name: float(values[-1]) if len(values) else np.nan for name, values in measured.items()}


def _decompress(blob: bytes, most: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(blob, most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof and stream.decompress(stream.unconsumed_tail, 1):
        raise ValueError("more values than it has rounds and measures")
    if not stream.eof or stream.unused_data:
        raise ValueError("its end is missing, or something follows it")
    return content


DEVICE_TABLE = "devices"
DEVICE_SCHEMA = (
    f"""CREATE TABLE {DEVICE_TABLE} (
        run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
        content BLOB NOT NULL,
        crc32 INTEGER NOT NULL
    )""",
)


def encode_devices(table: "DeviceTable") -> bytes:
    """The last evaluation of every device of a run, as compressed JSON."""
    return zlib.compress(json.dumps(table, separators=(",", ":")).encode())


def decode_devices(content: bytes, crc32: int) -> "DeviceTable":
    """The table of `encode_devices`; raises ValueError where it is damaged."""
    if zlib.crc32(content) != crc32:
        raise ValueError("wrong checksum of its devices")
    try:
        table: DeviceTable = json.loads(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not isinstance(table, dict) or len({len(column) for column in table.values()}) > 1:
        raise ValueError("a table of devices whose columns differ in length")
    return table


CHECKSUM_TABLE = "checksums"
CHECKSUM_SCHEMA = (
    f"""CREATE TABLE {CHECKSUM_TABLE} (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        part TEXT NOT NULL CHECK (part IN ('entry', 'history')),
        crc32 INTEGER NOT NULL,
        PRIMARY KEY (run, part)
    ) WITHOUT ROWID""",
    f"""CREATE TRIGGER entry_changed AFTER UPDATE ON runs
        BEGIN DELETE FROM {CHECKSUM_TABLE} WHERE run = OLD.id AND part = 'entry'; END""",
    f"""CREATE TRIGGER history_grew AFTER INSERT ON parts
        BEGIN DELETE FROM {CHECKSUM_TABLE} WHERE run = NEW.run AND part = 'history'; END""",
    f"""CREATE TRIGGER history_shrank AFTER DELETE ON parts
        BEGIN DELETE FROM {CHECKSUM_TABLE} WHERE run = OLD.run AND part = 'history'; END""",
    f"""CREATE TRIGGER history_changed AFTER UPDATE ON parts
        BEGIN DELETE FROM {CHECKSUM_TABLE} WHERE run IN (OLD.run, NEW.run) AND part = 'history';
        END""",
)

ENTRY_COLUMNS = """key, status, experiment, materials, world, device, versions, started, finished,
    wall_seconds, note"""


class StoredPart(NamedTuple):
    """A part of a history as a row of the store."""

    first: int
    last: int
    names: str
    blob: bytes


def entry_checksum(entry: Sequence[Any]) -> int:
    """Checksum of a run's entry, its values in the order of `ENTRY_COLUMNS`."""
    return zlib.crc32(json.dumps(list(entry)).encode())


def history_checksum(parts: Iterable[StoredPart], before: int = 0) -> int:
    """Checksum of parts in order, continued from `before`, that of the parts before them."""
    for first, last, names, blob in parts:
        before = zlib.crc32(blob, zlib.crc32(json.dumps([first, last, names]).encode(), before))
    return before


def store_entry_checksum(db: sqlite3.Connection, key: str) -> list[Any]:
    """Update the checksum of a run whose entry has changed; returns the entry."""
    entry: list[Any]
    [(run, *entry)] = db.execute(f"SELECT id, {ENTRY_COLUMNS} FROM runs WHERE key = ?", (key,))
    crc32 = entry_checksum(entry)
    db.execute(f"INSERT OR REPLACE INTO {CHECKSUM_TABLE} VALUES (?, 'entry', ?)", (run, crc32))
    return entry


def store_history_checksum(db: sqlite3.Connection, run: int, crc32: int) -> None:
    """Update the checksum of a run whose history has changed."""
    db.execute(f"INSERT OR REPLACE INTO {CHECKSUM_TABLE} VALUES (?, 'history', ?)", (run, crc32))


def select_checksum(part: str) -> str:
    """SQL expression in a query of runs: the checksum of a part of them, or NULL."""
    return f"(SELECT crc32 FROM {CHECKSUM_TABLE} WHERE run = runs.id AND part = '{part}')"
