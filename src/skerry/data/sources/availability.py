"""Public traces of when devices were there, as a trace that `fleet.awake` reads.

What is read is the JSON of FedScale's trace: by device, `active` and `inactive`, the seconds at
which it came and went, and `finish_time`, where its record ends. Nothing else of it is used.
"""

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from skerry.errors import DataError, argument, one_line
from skerry.files import replace_file, user_path

HEADER = ("device", "from", "to")
EXAMPLE = '{"1": {"active": [0, 900], "inactive": [600, 1200], "finish_time": 3600}}'


class Span(NamedTuple):
    """Rounds in which a device is awake: from the first up to the last, which no longer counts."""

    device: int
    first: int
    last: int


@dataclass(frozen=True)
class Converted:
    devices: int
    rounds: int
    spans: tuple[Span, ...]

    @property
    def awake_share(self) -> float:
        """Of all devices and rounds."""
        awake = sum(span.last - span.first for span in self.spans)
        return awake / (self.devices * self.rounds)


def convert(source: Path, target: Path, round_seconds: float, devices: int | None) -> Converted:
    """Write the trace of the first `devices` of a file (of all: None), numbered from 0. A device is
    awake in a round if it was there when the round began."""
    if not 0 < round_seconds < math.inf:
        raise DataError(
            f"{argument('round_seconds')} must be above 0 (got {round_seconds:g}): how long a "
            "round takes."
        )
    records = list(_records(source).items())
    if devices is not None and not 1 <= devices <= len(records):
        raise DataError(
            f"{argument('devices')} must be between 1 and the {len(records):,} devices of {source} "
            f"(got {devices})."
        )
    chosen = records[:devices]
    spans = [
        span
        for device, (name, record) in enumerate(chosen)
        for span in _in_rounds(device, _seconds(source, name, record), round_seconds)
    ]
    if not spans:
        raise DataError(
            f"no device of {source} is there at the beginning of a round of {round_seconds:g} "
            f"seconds. Lower {argument('round_seconds')}, or take more devices."
        )
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADER, *spans])
    try:
        replace_file(user_path(target), text.getvalue().encode())
    except OSError as error:
        raise DataError(f"cannot write {target} ({one_line(error)}). Choose another.") from None
    return Converted(len(chosen), max(span.last for span in spans), tuple(spans))


def _in_rounds(device: int, seconds: Iterator[tuple[float, float]], each: float) -> Iterator[Span]:
    for came, went in seconds:
        first, last = math.ceil(came / each), math.ceil(went / each)
        if first < last:
            yield Span(device, first, last)


def _records(source: Path) -> dict[str, Any]:
    try:
        found = json.loads(user_path(source).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {source} as JSON ({one_line(error)}).") from None
    if not isinstance(found, dict) or not found:
        raise DataError(f"{source} must be a table of devices, such as {EXAMPLE}.")
    return found


def _seconds(source: Path, name: str, record: Any) -> Iterator[tuple[float, float]]:
    """When a device came and when it went; it may still be there when its record ends."""
    where = f"device '{name[:40]}' of {source}"
    if not isinstance(record, dict) or not {"active", "inactive"} <= record.keys():
        raise DataError(f"{where} must have active and inactive, such as {EXAMPLE}.")
    came, went = record["active"], record["inactive"]
    if isinstance(came, list) and isinstance(went, list) and len(came) == len(went) + 1:
        went = [*went, record.get("finish_time")]
    times = _times(came, went)
    if times is None:
        raise DataError(
            f"{where}: active and inactive must be two lists of seconds, as long as each other (or "
            "active by one longer, with finish_time)."
        )
    if times != sorted(times) or (times and times[0] < 0):
        raise DataError(
            f"{where}: each active time must come before its inactive time, and that before the "
            "next; all at least 0."
        )
    return zip(times[::2], times[1::2], strict=True)


def _times(came: Any, went: Any) -> list[float] | None:
    """All of them in turn; None if they are not what they should be."""
    if not isinstance(came, list) or not isinstance(went, list) or len(came) != len(went):
        return None
    times = [time for pair in zip(came, went, strict=True) for time in pair]
    sound = all(
        isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time)
        for time in times
    )
    return times if sound else None
