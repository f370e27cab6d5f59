"""Which devices are awake: a function of the seed and the round.

A sleeping device takes no local step, has all its links down, cannot be sampled, and receives
nothing unless `availability.reach_asleep` is set. Its minibatches are drawn all the same, so that
lanes stay paired.
"""

import csv
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.config.fields import Availability
from skerry.errors import ExperimentError, did_you_mean
from skerry.files import looked_at, plain_path, refuse_special
from skerry.seeds import stream

Mask = NDArray[np.bool_]
COLUMNS = ("device", "from", "to")
MOST_ROUNDS = 10**6
AwakeSpan = tuple[int, int, int]
"""A device, and the rounds in which it is awake: from the first up to and without the last."""


class Awake:
    """The mask of the devices that are awake in round t."""

    def __init__(
        self,
        availability: Availability,
        seed: int,
        islands_n: NDArray[np.int64],
        names: tuple[str, ...],
    ):
        self._when, self._seed = availability, seed
        self._islands_n, self._names = islands_n, names
        self._chances_n = _chances(availability, len(islands_n))
        awake = availability.awake
        self._spans = _spans(awake, names) if isinstance(awake, str) else []

    @property
    def always(self) -> bool:
        """Whether no device ever sleeps."""
        return self._when.on is None and not self._spans and bool(self._chances_n.min() >= 1)

    def __call__(self, t: int) -> Mask:
        awake_n: Mask = self._draw_each(stream(self._seed, "awake", t).random) < self._chances_n
        if self._spans:
            awake_n = awake_n & self._table_tn[t % len(self._table_tn)]
        on, off = self._when.on, self._when.off
        if on is not None and off is not None:
            awake_n = awake_n & ((t + self._phases_n) % (on + off) < on)
        return awake_n

    @cached_property
    def _phases_n(self) -> NDArray[np.int64]:
        """The position of each device in its cycle of `on` + `off` rounds at round 0."""
        cycle = (self._when.on or 0) + (self._when.off or 0)
        rng = stream(self._seed, "awake_phase")
        return self._draw_each(lambda count: rng.integers(0, cycle, count))

    @cached_property
    def _table_tn(self) -> Mask:
        """The trace as a mask [rounds, devices]; after its last round it starts again."""
        rounds = max(last for _, _, last in self._spans)
        table = np.zeros((rounds, len(self._names)), dtype=bool)
        for device, first, last in self._spans:
            table[first:last, device] = True
        return table

    def _draw_each(self, draw: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
        """One draw for each device; where whole islands sleep together, one for each island."""
        if self._when.together == "devices":
            return draw(len(self._islands_n))
        return np.asarray(draw(int(self._islands_n.max()) + 1)[self._islands_n])


def _chances(availability: Availability, n: int) -> NDArray[np.float64]:
    if isinstance(availability.awake, tuple):
        if len(availability.awake) != n:
            raise ExperimentError(
                f"availability.awake must have a chance for each of the {n} devices (got "
                f"{len(availability.awake)}). Give one number for all, or {n} of them."
            )
        return np.array(availability.awake)
    return np.full(n, 1.0 if isinstance(availability.awake, str) else availability.awake)


def _spans(file: str, names: tuple[str, ...]) -> list[AwakeSpan]:
    """The spans of a trace file; every error names its line."""
    number = {name: device for device, name in enumerate(names)}
    file = plain_path(file)
    try:
        with refuse_special(Path(file)).open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.reader(lines))
    except FileNotFoundError:
        raise ExperimentError(
            f"no trace file {looked_at(file)}. Check availability.awake."
        ) from None
    except (OSError, ValueError, csv.Error) as error:
        raise ExperimentError(
            f"cannot read the trace {file} ({error}). Check availability.awake."
        ) from None
    if not rows or tuple(cell.strip().lower() for cell in rows[0]) != COLUMNS:
        raise ExperimentError(
            f"the first line of {file} must read device,from,to (got "
            f"'{','.join(rows[0])[:60] if rows else ''}'). Each further line gives the "
            "first round in which a device is awake, and the first in which it no longer is."
        )
    found = [_span(file, line, row, number) for line, row in enumerate(rows[1:], start=2) if row]
    if not found:
        raise ExperimentError(f"{file} has no rows, so no device would ever be awake. Add some.")
    return found


def _span(file: str, line: int, row: list[str], number: dict[str, int]) -> AwakeSpan:
    where = f"line {line} of {file}"
    if len(row) != len(COLUMNS):
        raise ExperimentError(f"{where} must have three columns, device,from,to (got {len(row)}).")
    name = row[0].strip()
    if name not in number:
        raise ExperimentError(
            f"{where} names the device '{name}', which is not in the fleet"
            f"{did_you_mean(name, number)} Devices are called as in the graph, else 0 to "
            f"{len(number) - 1}."
        )
    try:
        first, last = int(row[1]), int(row[2])
    except ValueError:
        raise ExperimentError(
            f"{where}: from and to must be whole rounds (got '{row[1]}' and '{row[2]}')."
        ) from None
    if not 0 <= first < last <= MOST_ROUNDS:
        raise ExperimentError(
            f"{where}: from must be at least 0, and below to, which is at most {MOST_ROUNDS:,} "
            f"(got {first} and {last})."
        )
    return number[name], first, last
