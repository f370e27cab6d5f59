"""A part of a history: some rounds of one run as one compressed matrix."""

import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

History = dict[str, NDArray[Any]]
"""Columns of equal length: "round" (int64) and every measure (float64)."""

Column = Sequence[float] | NDArray[np.float64]

LAST_ROUND = 2**53  # whole numbers are exact in float64 up to here
LEVEL = 1  # higher levels of zlib save 2 % of space for 2.5 times the time


@dataclass(frozen=True)
class Part:
    """Row 0 of the matrix holds the rounds, the rows below it the named measures."""

    names: tuple[str, ...]
    matrix: NDArray[np.float64]

    @classmethod
    def from_columns(cls, columns: Mapping[str, Column]) -> Self:
        """Raises ValueError with the rule that the columns break."""
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
    def from_blob(
        cls, names: tuple[str, ...], blob: bytes, first: int | None = None, last: int | None = None
    ) -> Self:
        """Raises ValueError if the blob is damaged (zlib keeps a checksum). Where the rounds of the
        part are known, it holds those, and no blob takes more memory than their rows can."""
        columns = 1 + len(names)
        most = 0
        if first is not None and last is not None:
            if not 0 <= first <= last <= LAST_ROUND:
                raise ValueError(f"no rounds go from {first} to {last}")
            most = min(8 * columns * (last - first + 1), sys.maxsize)
        content = _decompressed(blob, most)
        part = cls(names, np.frombuffer(content, "<f8").reshape(columns, -1))
        if most and (part.is_empty or (part.first, part.last) != (first, last)):
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

    def up_to(self, round_: int) -> "Part":
        return Part(self.names, self.matrix[:, self.matrix[0] <= round_])


def join(parts: Iterable[Part]) -> History:
    """One history from parts in order; NaN where a part lacks a measure of another. Raises
    ValueError if their rounds do not follow each other."""
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
    measured = {
        name: column[~np.isnan(column)] for name, column in history.items() if name != "round"
    }
    return {name: float(values[-1]) if len(values) else np.nan for name, values in measured.items()}


def _decompressed(blob: bytes, most: int) -> bytes:
    """At most so many bytes; 0 is without an end."""
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
