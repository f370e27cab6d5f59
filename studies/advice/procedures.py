"""Procedures to choose a setting for a fleet, judged on the generated fleets of `controls.py`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

DATA = Path(__file__).parent / "data"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Followed:
    """What following a procedure gives on the generated fleets."""

    right: int
    cheap: int
    both: int
    fleets: int
    behind: float
    """Median distance from the best setting, in tolerances."""

    def cells(self) -> list[str]:
        counts = [f"{one} of {self.fleets}" for one in (self.right, self.cheap, self.both)]
        return [*counts, f"{self.behind:.2f}"]


def tuned(row: Row, name: str) -> Row:
    """The setting of a primitive whose stepsize is best on the tuning seeds."""
    ours = [one for one in row["settings"] if one["name"] == name and one["affordable"]]
    return max(ours, key=lambda one: fmean(one["tuning"])) if ours else tuned(row, "none")


def named(row: Row, name: str) -> Row:
    """The kept setting of this name."""
    return next(one for one in row["settings"] if one["name"] == name)


def rule_of_thumb(goal: str, differ: bool) -> str:
    """S2A for the average model; for own labels S2S where any data differ; a blend for both."""
    if goal == "both":
        return "blend"
    return "s2s" if goal == "own" and differ else "s2a"


def thumb_or_none(row: Row) -> Row:
    """The rule of thumb, or no server if it is level with it on the tuning seeds."""
    ours, bare = tuned(row, rule_of_thumb(row["goal"], row["differ"])), tuned(row, "none")
    level = fmean(bare["tuning"]) >= fmean(ours["tuning"]) - row["tolerance"] / 2
    return bare if level else ours


def best_of_four(row: Row) -> Row:
    """The best of three servers and none on the tuning seeds."""
    found = [tuned(row, name) for name in ("none", "s2s", "blend", "s2a")]
    return max(found, key=lambda one: fmean(one["tuning"]))


PROCEDURES: dict[str, Callable[[Row], Row]] = {
    "skerry advise": lambda row: named(row, "skerry advise"),
    "S2S, S2A, blend or no server, the best on the tuning seeds": best_of_four,
    "rule of thumb, or no server where it is level": thumb_or_none,
    "rule of thumb": lambda row: tuned(row, rule_of_thumb(row["goal"], row["differ"])),
    "the paper's guideline": lambda row: tuned(row, "s2s" if row["differ"] else "s2a"),
    "always S2S": lambda row: tuned(row, "s2s"),
    "always S2A": lambda row: tuned(row, "s2a"),
    "no server": lambda row: tuned(row, "none"),
}


def follow(rows: Sequence[Row], procedure: Callable[[Row], Row]) -> Followed:
    """Right: within the tolerance of the best setting. Cheap: at most 1.25 times the least cost."""
    right, cheap, behind = [], [], []
    for row in rows:
        chosen, best = procedure(row), named(row, "best of the grid")
        gap = fmean(best["scored"]) - fmean(chosen["scored"])
        right.append(gap <= row["tolerance"])
        cheap.append(chosen["cost"] <= 1.25 * row["cheapest_level_cost"])
        behind.append(gap / row["tolerance"])
    both = sum(one and other for one, other in zip(right, cheap, strict=True))
    return Followed(sum(right), sum(cheap), both, len(right), median(behind))


def followed() -> dict[str, Followed]:
    """What each procedure gives over all fleets."""
    rows = json.loads((DATA / "controls.json").read_text(encoding="utf-8"))["rows"]
    return {name: follow(rows, procedure) for name, procedure in PROCEDURES.items()}


def markdown() -> list[str]:
    """The lines of a table with a row per procedure."""
    return [
        "| procedure | right | cheap | both | behind, in tolerances |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {name} | {' | '.join(one.cells())} |" for name, one in followed().items()),
    ]
