"""A clock file to start from: every field with its description and a value."""

from collections.abc import Mapping
from typing import Any

from skerry.clock.settings import Clock, example_text
from skerry.config.section import Section
from skerry.config.toml import parse_tables, toml_value

STARTING_POINT = "wifi_home"
"""The example whose values a new clock file has."""
_HEAD = f"""\
# How long steps and messages take on a fleet, and what they cost in energy. The values are those
# of the example {STARTING_POINT}: replace them by yours. Numbers are in seconds, bytes per second,
# watts and joules; durations and bandwidths may have units: "5 ms", "20 MB/s", "10 Mbit/s".
"""
_UNSET = {"devices": '"devices.csv"', "broadcast": '"5 MB/s"'}
"""Examples for fields that are left out."""


def commented_clock(seconds_per_step: float | None = None, about: str = "") -> str:
    """A complete clock file with comments, and with a given duration of a step and words on it."""
    values = parse_tables(example_text(STARTING_POINT), STARTING_POINT)
    if seconds_per_step is not None:
        values["compute"]["seconds_per_step"] = seconds_per_step
    said = {"seconds_per_step": about} if about else {}
    lines = [_HEAD, *_lines(Clock, values, said)]
    for name, field in Clock.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            title = f"# {(kind.__doc__ or '').splitlines()[0]}"
            lines += ["", title, f"[{name}]", *_lines(kind, values.get(name, {}), said)]
    return "\n".join(lines) + "\n"


def _lines(kind: type[Section], values: Mapping[str, Any], said: Mapping[str, str]) -> list[str]:
    lines = []
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            continue
        told = [*kind.describe(name).splitlines(), *said.get(name, "").splitlines()]
        lines += [f"# {line.strip()}" for line in told]
        value = values.get(name, field.get_default(call_default_factory=True))
        if value is None or value == "":
            lines.append(f"# {name} = {_UNSET[name]}")
        else:
            lines.append(f"{name} = {toml_value(value)}")
    return lines
