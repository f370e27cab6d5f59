"""Measures of many lanes after one round, which stay on the GPU until somebody asks for numbers.

Asking makes a GPU wait. A run that is evaluated every round asks once per checkpoint instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
    rows: dict[str, list[int]] = {}
    names = dict.fromkeys(name for r in readings for name in (*r.names, *r.counted))
    lanes = max((len(reading.keys) for reading in readings), default=0)
    cube = np.full((len(readings), len(names), lanes), np.nan)
    place = {name: number for number, name in enumerate(names)}
    lane_of: dict[str, list[int]] = {}
    for number, (reading, table) in enumerate(zip(readings, _fetched(readings), strict=True)):
        width = len(reading.keys)
        cube[number, [place[name] for name in reading.names], :width] = table
        for name, values in reading.counted.items():
            cube[number, place[name], :width] = values
        for lane in reading.due:
            rows.setdefault(reading.keys[lane], []).append(number)
            lane_of.setdefault(reading.keys[lane], []).append(lane)
    rounds = np.array([reading.round for reading in readings])
    return {
        key: _columns(tuple(names), rounds[numbers], cube[numbers, :, lane_of[key]])
        for key, numbers in rows.items()
    }


def _columns(names: tuple[str, ...], rounds: NDArray[Any], values: NDArray[np.float64]) -> Columns:
    found = {"round": rounds.astype(np.float64)}
    for name, column in zip(names, values.T, strict=True):
        if not np.isnan(column).all():
            found[name] = column
    return found


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
