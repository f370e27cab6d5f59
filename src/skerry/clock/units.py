"""Durations, bandwidths and energies with units, as users write them: "5 ms", "20 MB/s"."""

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_DURATIONS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_ENERGIES = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_BANDWIDTHS = (
    {f"{prefix}B/s": factor for prefix, factor in (_PREFIXES | _BINARY).items()}
    | {f"{prefix}bit/s": factor / 8 for prefix, factor in _PREFIXES.items()}
    | {f"{prefix}bps": factor / 8 for prefix, factor in _PREFIXES.items()}
)
_TEXT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*")


def _read(value: Any, units: dict[str, float], what: str, example: str) -> float:
    """The value in SI units, such as bytes per second; a bare number is in SI units already."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a {what} such as {example!r} (got {value!r}).")
    if not isinstance(value, str):
        return float(value)
    found = _TEXT.fullmatch(value)
    if found is None:
        raise ValueError(f"must be a {what} such as {example!r} (got {value!r}).")
    number, unit = found.groups()
    if unit and unit not in units:
        hint = f"; did you mean '{meant}'?" if (meant := _meant(unit, units)) else "."
        raise ValueError(f"has the unknown unit {unit!r}{hint} Units are: {', '.join(units)}.")
    return float(number) * units.get(unit, 1.0)


def _meant(unit: str, units: dict[str, float]) -> str:
    """The known unit that a misspelt one stands for; in bandwidths b is a bit and B a byte."""
    if found := re.fullmatch(r"([kKmMgG]?)([bB])(/s|ps)", unit):
        prefix, what, _ = found.groups()
        prefix = prefix if prefix == "k" else prefix.upper()
        guess = f"{prefix}{'bit' if what == 'b' else 'B'}/s"
        return guess if guess in units else ""
    return next((known for known in units if known.lower() == unit.lower()), "")


def seconds(value: Any) -> float:
    """A duration in seconds: 0.05, "50 ms", "2 min"."""
    found = _read(value, _DURATIONS, "duration", "5 ms")
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"must be at least 0 (got {value!r}).")
    return found


def joules(value: Any) -> float:
    """An energy in joules: 50, "3 kJ", "2 Wh"."""
    found = _read(value, _ENERGIES, "energy", "3 kJ")
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"must be at least 0 (got {value!r}).")
    return found


def bytes_per_second(value: Any) -> float:
    """A bandwidth in bytes per second: 2e7, "20 MB/s", "10 Mbit/s"."""
    found = _read(value, _BANDWIDTHS, "bandwidth", "20 MB/s")
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"must be above 0 (got {value!r}). Leave it out if it is no limit.")
    return found


Duration = Annotated[float, BeforeValidator(seconds)]
Bandwidth = Annotated[float, BeforeValidator(bytes_per_second)]


Scale = tuple[tuple[float, float, str], ...]
"""Units in which a quantity is written: the value below which, the size and the name of each."""
_SECONDS: Scale = (
    (0.1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"),
    (math.inf, 86_400, "days"),
)  # fmt: skip
_JOULES: Scale = ((0.1, 1e-3, "mJ"), (1e3, 1, "J"), (1e6, 1e3, "kJ"), (1e9, 1e6, "MJ"),
    (math.inf, 1e9, "GJ"))  # fmt: skip
SCALES: dict[str, Scale] = {"seconds": _SECONDS, "joules": _JOULES}


def readable_unit(cost: str, value: float) -> tuple[float, str]:
    """The size and the name of a unit in which people read a number of seconds or joules."""
    return next((size, unit) for limit, size, unit in SCALES[cost] if not value >= limit)


def write_seconds(value: float) -> str:
    """`5 ms`, `42.3 s`, `3.1 min`, `2.5 h` or `8.2 days`."""
    return _write("seconds", value)


def write_joules(value: float) -> str:
    """`5 mJ`, `42.3 J`, `3.1 kJ` or `2.5 MJ`."""
    return _write("joules", value)


def _write(cost: str, value: float) -> str:
    size, unit = readable_unit(cost, value) if value else (1.0, SCALES[cost][1][2])
    number = value / size
    return f"{number:,.0f} {unit}" if number >= 1000 else f"{number:.3g} {unit}"
