"""The words on a figure: beside its axes, at its ticks, above its panels."""

from typing import Any

from skerry.config.measures import MEASURES, traits
from skerry.report.style import plain

FIELDS = {
    "server.sampled": "sampled devices K",
    "server.period": "server period H",
    "server.beta": "β",
    "training.stepsize": "stepsize",
    "network.devices": "devices n",
}
KEEP = "\u00a0"
"""A space at which no line is folded."""
TICK = 16
"""Letters that the name of a tick may have."""
SHARE = "sampled share K/n"


def measure_title(measure: str) -> str:
    """What stands beside an axis."""
    return traits(measure).axis if measure in MEASURES else plain(traits(measure).axis)


def field_title(field: str) -> str:
    return FIELDS.get(field) or plain(field.rpartition(".")[2].replace("_", " "))


def value_title(value: Any, longest: int = 24) -> str:
    """A value in words; long ones keep both ends, where names of files differ."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    text, head = str(value), longest // 4
    return plain(text if len(text) <= longest else f"{text[:head]}…{text[head + 1 - longest :]}")


def cell_title(fields: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """`period 5, ring`: numbers with the name of their field, words mostly speak for themselves."""
    return ", ".join(_named(field, value) for field, value in zip(fields, values, strict=True))


def _named(field: str, value: Any) -> str:
    name = field.rpartition(".")[2]
    speaks = isinstance(value, str) and name in ("topology", "dataset", "mixing", "selection")
    word = value_title(value)
    return word if speaks else f"{plain(name.replace('_', ' '))}{KEEP}{word}"


def lines_of(text: str) -> str:
    """A title of several lines, its foreign words drawn as they are."""
    return "\n".join(plain(line, 160) for line in text.splitlines())
