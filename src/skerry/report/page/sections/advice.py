"""The section that opens the page of a folder with an advice (advice.json)."""

from collections.abc import Iterable

from skerry.analysis.statistics import Estimate
from skerry.report.page import advice_file
from skerry.report.page.blocks import PageSection
from skerry.report.page.report_data import ReportData
from skerry.report.text import plus_minus

FILE = advice_file.FILE
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


def score_text(score: Estimate, is_loss: bool) -> str:
    """A score as `94.81 ± 0.21`. That of a loss is negative, and shown as a positive loss."""
    if is_loss:
        return plus_minus(-score.mean, score.half_width)
    return plus_minus(score.mean, score.half_width, ".2f", ".2f")


def advice_section(data: ReportData) -> PageSection | None:
    """The advice, which `assets/advice.js` shows: score against cost first, then the question."""
    advice = advice_file.read_advice(data.grid.paths)
    return PageSection("advice", "Advice", [{"kind": "advice"}]) if advice else None
