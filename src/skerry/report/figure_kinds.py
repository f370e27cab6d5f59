"""The kinds of figure that recorded runs have: what each shows, who draws it, what it takes."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skerry.report.figures.from_store import Asked, Drawn

MEASURED, STOOD_ON = "skerry.report.figures.kinds", "skerry.report.figures.fleet_kinds"


class Kind(NamedTuple):
    says: str
    drawn_by: str
    takes: tuple[str, ...]
    """The options that mean something for it, besides the folder, the file and the looks."""


KINDS = {
    "curves": Kind(
        "measures over the rounds, mean and 95 % band; grey lines are server rounds",
        f"{MEASURED}:curves_of",
        ("measure", "compare", "by", "lines"),
    ),
    "gap": Kind(
        "one primitive minus another as a map over two fields, unclear cells hatched",
        f"{MEASURED}:gap_of",
        ("measure", "compare", "by", "rows", "columns", "best", "last"),
    ),
    "sensitivity": Kind(
        "a measure against the sampled share K/n and the period H, or any field",
        f"{MEASURED}:sensitivity_of",
        ("measure", "compare", "by", "lines", "x", "best", "last"),
    ),
    "front": Kind(
        "two accuracies, or losses, against each other, S2S over blend to S2A, best blend ringed",
        f"{MEASURED}:front_of",
        ("measure", "compare", "by", "x"),
    ),
    "cost": Kind(
        "a measure against the messages or bytes sent so far",
        f"{MEASURED}:cost_of",
        ("measure", "compare", "by", "x"),
    ),
    "bound": Kind(
        "what the server does to disagreement and bias, measured and by the theory",
        f"{MEASURED}:bound_of",
        ("measure", "compare", "by"),
    ),
    "network": Kind(
        "the islands, their links and the sampled devices of a round",
        f"{STOOD_ON}:network_of",
        ("compare", "round"),
    ),
    "labels": Kind(
        "which labels, or data, each device holds, island by island",
        f"{STOOD_ON}:labels_of",
        ("compare",),
    ),
}


def draw(kind: str, asked: "Asked") -> "Drawn":
    module, _, name = KINDS[kind].drawn_by.partition(":")
    drawn: Drawn = getattr(import_module(module), name)(asked)
    return drawn
