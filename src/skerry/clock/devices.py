"""The speeds of single devices: drawn by the seed, named in the clock, or from a table."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.clock.settings import Clock
from skerry.clock.units import bytes_per_second, seconds
from skerry.errors import ExperimentError, did_you_mean
from skerry.files import looked_at, plain_path, refuse_special
from skerry.seeds import stream

Array = NDArray[np.float64]
COLUMNS: dict[str, Callable[[Any], float]] = {
    "seconds_per_step": seconds,
    "uplink": bytes_per_second,
    "downlink": bytes_per_second,
    "d2d": bytes_per_second,
}
"""The columns of a device table beside `device`, and how their cells are read."""
Rows = list[tuple[int, list[str]]]
"""The rows of a device table, that of the columns first, each with its line in the file."""


@dataclass(frozen=True)
class DeviceSpeeds:
    """Seconds of a step and of a byte on every link, for every device [n].

    A byte takes 0 seconds where a link has no limit.
    """

    step_n: Array
    d2d_n: Array
    uplink_n: Array
    downlink_n: Array
    jitter: float
    seed: int

    @property
    def devices(self) -> int:
        return len(self.step_n)

    def step_seconds(self, t: int) -> Array:
        """Seconds of one local step of every device in round t."""
        if not self.jitter:
            return self.step_n
        normal_n = stream(self.seed, "clock jitter", t).standard_normal(self.devices)
        return np.asarray(self.step_n * np.exp(self.jitter * normal_n))


def device_speeds(clock: Clock, names: Sequence[str], seed: int) -> DeviceSpeeds:
    """The speeds of the devices of a fleet, whose names are in the order of its rows.

    Draws depend on the seed alone, so that all runs of a seed have the same devices.
    """
    n, compute = len(names), clock.compute
    columns = _table(clock.devices, names, seed) if clock.devices else {}
    if "seconds_per_step" in columns:
        step_n = columns["seconds_per_step"]
    else:
        step_n = np.full(n, compute.seconds_per_step)
    if compute.spread:
        normal_n = stream(seed, "clock speeds").standard_normal(n)
        step_n = step_n * np.exp(compute.spread * normal_n)
    if compute.slow:
        step_n = step_n * _factors(compute.slow, names)

    def per_byte(column: str, usual: float | None) -> Array:
        if column in columns:
            return np.asarray(1 / columns[column])
        return np.full(n, 0.0 if usual is None else 1 / usual)

    return DeviceSpeeds(
        step_n,
        per_byte("d2d", clock.d2d.bandwidth),
        per_byte("uplink", clock.uplink.bandwidth),
        per_byte("downlink", clock.downlink.bandwidth),
        compute.jitter,
        seed,
    )


def _factors(slow: dict[str, float], names: Sequence[str]) -> Array:
    place = {name: row for row, name in enumerate(names)}
    factor_n = np.ones(len(names))
    for name, factor in slow.items():
        if name not in place:
            raise ExperimentError(
                f"compute.slow names the device '{name}', which is not in the fleet"
                f"{did_you_mean(name, place)} Devices are called {_called(names)}."
            )
        factor_n[place[name]] = factor
    return factor_n


def _called(names: Sequence[str]) -> str:
    if len(names) <= 6:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ..., {names[-1]}"


def check_table(text: str) -> int:
    """Read every cell of a device table, whose faults are raised; the number of its devices."""
    file, header, rows = _read_table(text)
    for row in rows[1:]:
        _cells(file, header, [row])
    return len(rows) - 1


def _table(text: str, names: Sequence[str], seed: int) -> dict[str, Array]:
    """The columns of a device table in the order of the rows of the fleet."""
    file, header, rows = _read_table(text)
    return _cells(file, header, _chosen(file, header, rows, names, seed))


def _read_table(text: str) -> tuple[str, list[str], Rows]:
    """The file of a device table, its columns, and its rows with that of the columns."""
    file = plain_path(text)
    rows = _rows(file)
    header = [cell.strip().lower() for cell in rows[0][1]]
    known = ("device", *COLUMNS)
    if strangers := [one for one in header if one not in known]:
        raise ExperimentError(
            f"{file} has the unknown column '{strangers[0]}'{did_you_mean(strangers[0], known)} "
            f"Columns are: {', '.join(known)}."
        )
    if not set(header) & set(COLUMNS) or len(set(header)) < len(header):
        raise ExperimentError(
            f"the first line of {file} must name each column once, and at least one of "
            f"{', '.join(COLUMNS)} (got '{','.join(header)[:60]}')."
        )
    return file, header, rows


def _cells(file: str, header: list[str], rows: Rows) -> dict[str, Array]:
    """The numbers of these rows by column."""
    return {
        column: np.array([_cell(file, line, column, row, place) for line, row in rows])
        for place, column in enumerate(header)
        if column != "device"
    }


def _rows(file: str) -> Rows:
    try:
        about = refuse_special(Path(file)).stat()
        rows = _rows_of(file, about.st_mtime_ns, about.st_size)
    except FileNotFoundError:
        raise ExperimentError(f"no device table {looked_at(file)}. Check devices.") from None
    except (OSError, ValueError, csv.Error) as error:
        raise ExperimentError(
            f"cannot read the device table {file} ({error}). Check devices."
        ) from None
    if len(rows) < 2:
        raise ExperimentError(
            f"{file} must have a line of column names and a line for each device (got "
            f"{len(rows)} in all)."
        )
    return rows


@lru_cache(maxsize=2)  # a large table takes seconds, and every fleet and seed needs it
def _rows_of(file: str, modified: int, size: int) -> Rows:
    """The rows of a file as it was when it was modified at this time and had this size."""
    with Path(file).open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        return [(reader.line_num, row) for row in reader if row]


def _chosen(file: str, header: list[str], rows: Rows, names: Sequence[str], seed: int) -> Rows:
    """The row of every device."""
    if "device" not in header:
        drawn = stream(seed, "clock devices").integers(1, len(rows), len(names))
        return [rows[place] for place in drawn]
    column = header.index("device")
    row_of: dict[str, tuple[int, list[str]]] = {}
    for line, row in rows[1:]:
        name = row[column].strip() if len(row) > column else ""
        if name in row_of:
            raise ExperimentError(
                f"line {line} of {file} names the device '{name}' again (first in line "
                f"{row_of[name][0]}). Keep one of them."
            )
        row_of[name] = line, row
    if missing := [name for name in names if name not in row_of]:
        raise ExperimentError(
            f"{file} has no row for the device '{missing[0]}' ({len(missing)} of {len(names)} "
            f"devices are missing){did_you_mean(missing[0], row_of)} Add it, or leave the column "
            "device out to draw rows by the seed."
        )
    return [row_of[name] for name in names]


def _cell(file: str, line: int, column: str, row: list[str], place: int) -> float:
    text = row[place].strip() if place < len(row) else ""
    try:
        return COLUMNS[column](text)
    except ValueError as error:
        raise ExperimentError(f"line {line} of {file}: {column} {error}") from None
