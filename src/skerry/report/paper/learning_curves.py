"""Figures 5 and 9 to 13: accuracy round by round, and what the text says of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from skerry.paper.contests import UnansweredError
from skerry.paper.panels import PANELS, slice_of
from skerry.paper.protocol import SCORED
from skerry.paper.rounds import Row, rows_of
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.report.figures.panels import Panel
from skerry.report.figures.rounds import curves
from skerry.report.paper.drawing import curve_frame, not_run, page_figure
from skerry.report.paper.numbers import NOTHING, of, plain_number, points
from skerry.report.paper.shown import Content, Picture
from skerry.report.sheets import Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORINGS = ("average_accuracy", "own_accuracy")
NOTE = (
    "Gaps are S2S minus S2A, ± their standard error; clear ones exceed it. The error of a single "
    "seed is over server periods, as if they were independent. Lines are means over seeds, bands "
    "95 % intervals where there are several; seeds in which a run diverged are left out. Grey "
    "lines mark visits of the server. Devices are scored less often than the average model. What "
    "the text says in words alone is a sign here."
)
AHEAD = {1: "S2S ahead", -1: "S2A ahead"}
IN_WORDS = {
    "fig5_mnist_early": -1,
    "fig5_mnist_late": 1,
    "fig5_cifar10_early": -1,
    "fig5_cifar10_late": 1,
    "fig9_gap_r2": -1,
    "fig9_r3_early": -1,
    "fig9_r3_late": 1,
}
"""Gaps of which the text says who is ahead, without a number."""


def learning_curves(target: Target, studies: Mapping[str, Study]) -> Content:
    """A column for each setting, a row for each way of scoring; then every statement."""
    rows = {scoring: rows_of(target.name, studies, scoring) for scoring in SCORINGS}
    picture = Picture(
        target.name,
        _figure(target, studies),
        f"{target.title}: accuracy of S2S and S2A over the rounds",
    )
    return Content(_verdict(rows), (picture, _sheet(rows), NOTE))


def stated_sign(row: Row) -> int:
    """Who is ahead by the text: 1 for S2S, -1 for S2A, 0 where it does not say, or
    says a number within its own error."""
    if row.printed is not None:
        telling = row.unit == "p.p." and abs(row.printed.value) > (row.printed.error or 0)
        return (1 if row.printed.value > 0 else -1) if telling else 0
    return IN_WORDS.get(row.key, 0)


def _verdict(rows: Mapping[str, Sequence[Row]]) -> str:
    told = []
    for scoring, found in rows.items():
        checked = [row for row in found if stated_sign(row) and isfinite(row.ours)]
        clear = [row for row in checked if abs(row.ours) > row.error]
        told.append(f"{SCORED[scoring]} {_agreeing(checked)}, clear ones {_agreeing(clear)}")
    return f"Signs that agree with the text: {'; '.join(told)}."


def _agreeing(rows: Sequence[Row]) -> str:
    return of(sum(row.ours * stated_sign(row) > 0 for row in rows), len(rows))


def _figure(target: Target, studies: Mapping[str, Study]) -> "Figure":
    panels = [
        _panel(target, studies, number, scoring)
        for scoring in SCORINGS
        for number in range(len(PANELS[target.name]))
    ]
    columns = len(PANELS[target.name])
    return page_figure(panels, columns=columns, height=2.1, title=target.title)


def _panel(target: Target, studies: Mapping[str, Study], number: int, scoring: str) -> Panel:
    panel = PANELS[target.name][number]
    title = f"{panel.words}\n{SCORED[scoring]}"
    try:
        frame = curve_frame(slice_of(panel, studies), scoring)
    except UnansweredError:
        return Panel(title, not_run)
    there = scoring in frame and frame[scoring].notna().any()
    return Panel(title, partial(curves, frame, scoring) if there else not_run)


def _sheet(rows: Mapping[str, Sequence[Row]]) -> Sheet:
    """A row for every statement, and for what else the curves tell."""
    average, own = (rows[scoring] for scoring in SCORINGS)
    cells = tuple(
        (one.words, _text(one), _measured(one), _measured(other), one.note)
        for one, other in zip(average, own, strict=True)
    )
    header = ("", "the text", *(SCORED[scoring] for scoring in SCORINGS), "note")
    return Sheet("What the curves say", header, cells, "lrrrl")


def _text(row: Row) -> str:
    if row.printed is not None:
        return row.printed.value_in_words
    return AHEAD.get(stated_sign(row), "")


def _measured(row: Row) -> str:
    told = points(row.ours) if row.unit == "p.p." else plain_number(row.ours)
    if told == NOTHING:
        return told
    error = f" ± {row.error:.2f}" if isfinite(row.error) else ""
    return f"{told}{error}{' %' if row.unit == '%' else ''}"
