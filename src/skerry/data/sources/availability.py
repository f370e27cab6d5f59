"""Convert public traces of device availability to the trace format of `availability.awake`.

The input is the JSON of FedScale's trace: by device, `active` and `inactive` are the seconds at
which it came and went, and `finish_time` is the end of its record. Nothing else of it is used.
"""

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skerry.errors import DataError, argument, one_line
from skerry.files import refuse_special, replace_file, user_path

HEADER = ("device", "from", "to")
EXAMPLE = '{"1": {"active": [0, 900], "inactive": [600, 1200], "finish_time": 3600}}'


@dataclass(frozen=True)
class AvailabilityTrace:
    """The rounds in which each device is awake."""

    devices: int
    spans: tuple[tuple[int, int, int], ...]
    """(device, first, end): the device is awake in the rounds first, ..., end - 1."""

    @property
    def rounds(self) -> int:
        """The number of rounds up to the end of the last span."""
        return max(end for _, _, end in self.spans)

    @property
    def awake_share(self) -> float:
        """The mean share of devices that are awake in a round."""
        return sum(end - first for _, first, end in self.spans) / (self.devices * self.rounds)


def convert_trace(
    source: Path, target: Path, round_seconds: float, devices: int | None
) -> AvailabilityTrace:
    """Write the trace of the first `devices` of a file (None for all), numbered from 0. A device is
    awake in a round if it was active when the round began."""
    if not 0 < round_seconds < math.inf:
        raise DataError(
            f"{argument('round_seconds')} must be above 0 (got {round_seconds:g}): how long a "
            "round takes."
        )
    records = list(_read_records(source).items())
    if devices is not None and not 1 <= devices <= len(records):
        raise DataError(
            f"{argument('devices')} must be between 1 and the {len(records):,} devices of {source} "
            f"(got {devices})."
        )
    chosen = records[:devices]
    spans = []
    for device, (name, record) in enumerate(chosen):
        times = _active_times(f"device '{name[:40]}' of {source}", record)
        rounds = [math.ceil(time / round_seconds) for time in times]
        pairs = zip(rounds[::2], rounds[1::2], strict=True)
        spans += [(device, first, end) for first, end in pairs if first < end]
    if not spans:
        raise DataError(
            f"no device of {source} is active at the beginning of a round of {round_seconds:g} "
            f"seconds. Lower {argument('round_seconds')}, or take more devices."
        )
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADER, *spans])
    try:
        replace_file(user_path(target), text.getvalue().encode())
    except OSError as error:
        raise DataError(f"cannot write {target} ({one_line(error)}). Choose another.") from None
    return AvailabilityTrace(len(chosen), tuple(spans))


def _read_records(source: Path) -> dict[str, Any]:
    try:
        records = json.loads(refuse_special(user_path(source)).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {source} as JSON ({one_line(error)}).") from None
    if not isinstance(records, dict) or not records:
        raise DataError(f"{source} must be a table of devices, such as {EXAMPLE}.")
    return records


def _active_times(where: str, record: Any) -> list[float]:
    """The seconds at which a device came and went, in turn; it may stay until its record ends."""
    if not isinstance(record, dict) or not {"active", "inactive"} <= record.keys():
        raise DataError(f"{where} must have active and inactive, such as {EXAMPLE}.")
    came, went = record["active"], record["inactive"]
    are_lists = isinstance(came, list) and isinstance(went, list)
    if are_lists and len(came) == len(went) + 1:
        went = [*went, record.get("finish_time")]
    same_length = are_lists and len(came) == len(went)
    times = [time for pair in zip(came, went, strict=True) for time in pair] if same_length else []
    is_time = [type(time) in (int, float) and math.isfinite(time) for time in times]
    if not same_length or not all(is_time):
        raise DataError(
            f"{where}: active and inactive must be two lists of seconds, as long as each other (or "
            "active by one longer, with finish_time)."
        )
    if times != sorted(times) or (times and times[0] < 0):
        raise DataError(
            f"{where}: each active time must come before its inactive time, and that before the "
            "next; all at least 0."
        )
    return times
