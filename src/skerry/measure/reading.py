"""Measures of many lanes after one round, which stay on the GPU until somebody asks for numbers.

Asking makes a GPU wait. A run that is evaluated every round asks once per checkpoint instead.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Row = dict[str, float]
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Reading:
    """Row `i` of the table and of the counted numbers is one measure of all lanes; NaN where a
    lane does not have it."""

    round: int
    keys: tuple[str, ...]
    due: tuple[int, ...]
    """The lanes that have a row."""
    names: tuple[str, ...]
    table: Tensor
    """Measured on the compute device, [measures, lanes]."""
    counted: dict[str, NDArray[Any]]
    """Known to the host, [lanes] each."""

    def rows(self) -> dict[str, Row]:
        """The rows of the due lanes by the lane's key; what a row does not measure is absent."""
        columns = columns_by_key([self])
        return {key: _row(column) for key, column in columns.items()}


def columns_by_key(readings: Sequence[Reading]) -> dict[str, Columns]:
    """Readings of successive rounds as one set of columns per lane, by the lane's key."""
    stacks = dict.fromkeys(reading.keys for reading in readings)
    lane_of = _numbered(key for keys in stacks for key in keys)
    lanes_of = {keys: np.array([lane_of[key] for key in keys], dtype=int) for keys in stacks}
    measure_of = _numbered(name for r in readings for name in (*r.names, *r.counted))
    values_lmr = np.full((len(lane_of), len(measure_of), len(readings)), np.nan)
    due_lr = np.zeros((len(lane_of), len(readings)), dtype=bool)
    for r, (reading, table) in enumerate(zip(readings, _fetched(readings), strict=True)):
        due = np.array(reading.due, dtype=int)
        lanes = lanes_of[reading.keys][due]
        due_lr[lanes, r] = True
        for name, values in (*zip(reading.names, table, strict=True), *reading.counted.items()):
            values_lmr[lanes, measure_of[name], r] = values[due]
    rounds = np.array([reading.round for reading in readings], dtype=np.float64)
    return {
        key: _columns(measure_of, rounds[due], values_mr[:, due])
        for key, values_mr, due in zip(lane_of, values_lmr, due_lr, strict=True)
        if due.any()
    }


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Each name once, with its place."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _columns(
    names: Iterable[str], rounds: NDArray[np.float64], values_mr: NDArray[np.float64]
) -> Columns:
    """What was never measured has no column."""
    times_m = np.count_nonzero(~np.isnan(values_mr), axis=1)
    return {"round": rounds} | dict(compress(zip(names, values_mr, strict=True), times_m))


def _fetched(readings: Sequence[Reading]) -> list[NDArray[np.float64]]:
    """The tables of all readings, brought from the GPU in one piece."""
    if not readings:
        return []
    flat = torch.cat([reading.table.flatten().double() for reading in readings]).cpu().numpy()
    ends = np.cumsum([reading.table.numel() for reading in readings])[:-1]
    pieces = np.split(flat, ends)
    return [
        piece.reshape(reading.table.shape) for piece, reading in zip(pieces, readings, strict=True)
    ]


def _row(columns: Columns) -> Row:
    row: Row = {name: float(column[0]) for name, column in columns.items()}
    return {name: value for name, value in row.items() if not math.isnan(value)}
