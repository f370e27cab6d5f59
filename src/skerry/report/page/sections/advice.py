"""The section with the advice that `skerry advise --out` wrote into the folder (advice.json)."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from skerry.analysis.statistics import Estimate
from skerry.config import labels
from skerry.errors import RecordsError, typed
from skerry.report.page.blocks import Block, PageSection, bullets, note, table, text
from skerry.report.page.report_data import ReportData
from skerry.report.text import plus_minus

FILE = "advice.json"
HEADINGS = {
    "global": ("average\nmodel %", "average\nloss"),
    "own": ("own\nlabels %", "own\nloss"),
    "both": ("mean of\nboth %", "mean of\nboth"),
    "worst_tenth": ("worst\ntenth %", "worst\ntenth"),
}
"""By goal, the column headings of accuracies and of losses."""


def headings(goals: Iterable[str], losses: bool) -> dict[str, str]:
    """Column headings by goal. Without own scores of devices, there is only the first goal."""
    goals = list(goals)
    shown = goals if "own" in goals else goals[:1]
    return {goal: HEADINGS[goal][losses] for goal in shown}


def read_advice(data: ReportData) -> dict[str, Any] | None:
    """The content of advice.json; None if there is no such file, or if there are several stores."""
    file = data.folder / FILE
    if len(data.grid.paths) > 1 or not file.is_file():
        return None
    try:
        return {**json.loads(file.read_text(encoding="utf-8"))}
    except (OSError, TypeError, ValueError, RecursionError):
        raise _unreadable(file) from None


def advice_section(data: ReportData) -> PageSection | None:
    file, answer = data.folder / FILE, read_advice(data)
    if answer is None:
        return None
    try:
        first, *rest = map(str, answer["summary"])
        summary = [text(first), *([bullets(rest)] if rest else [])]
        blocks = [*summary, _standings(answer), *_sensitivity(answer)]
        blocks += [note(f"{words}.") for words in answer["notes"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unreadable(file) from None
    return PageSection("advice", "Advice", blocks)


def _unreadable(file: Path) -> RecordsError:
    return RecordsError(
        f"{file} cannot be read as advice. Make it again with the same command, or delete it: "
        f"rm {typed(file)}"
    )


def _standings(answer: dict[str, Any]) -> Block:
    """The table of all remaining candidates, each at its best stepsize for the chosen goal."""
    rows, measures = answer["pilot"]["standings"], answer["pilot"]["measures"]
    losses = measures["global"] == ["average_loss"]
    columns = headings(measures, losses)
    scored = (name.replace("\n", " ") for name in columns.values())
    return table(
        "Standings",
        ("primitive", "sampled by", "K", "H", *scored, "stepsize", "messages"),
        [
            (
                str(row.get("preset") or labels.write_label(str(row["primitive"]), row["beta"])),
                str(row.get("selection", "uniform")),  # older files have no selection
                str(row["sampled"]),
                str(row["period"]),
                *(score_text(_estimate(row["scores"][goal]), losses) for goal in columns),
                f"{row['stepsize']:.3g}",
                f"{row['cost']:,.0f}",
            )
            for row in rows
        ],
        "ll" + "r" * (len(columns) + 4),
    )


def _estimate(score: dict[str, Any]) -> Estimate:
    """An estimate from JSON, in which NaN, such as the error of a single seed, is null."""
    mean, error, half = (
        float("nan") if score[name] is None else float(score[name])
        for name in ("mean", "standard_error", "half_width")
    )
    return Estimate(mean, error, half, int(score["count"]))


def score_text(score: Estimate, is_loss: bool) -> str:
    """A score as `94.81 ± 0.21`. That of a loss is negative, and shown as a positive loss."""
    if is_loss:
        return plus_minus(-score.mean, score.half_width)
    return plus_minus(score.mean, score.half_width, ".2f", ".2f")


def _sensitivity(answer: dict[str, Any]) -> list[Block]:
    effects = answer["sensitivity"]
    if not effects:
        return []
    rows = [
        (str(one["condition"]), str(one["answer"]), "yes" if one["changes"] else "no",
         str(one["basis"]))
        for one in effects
    ]  # fmt: skip
    header = ("if", "the answer is", "does it change?", "based on")
    return [table("What would change the answer", header, rows, "llll")]
