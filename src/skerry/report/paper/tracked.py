"""Figure 14: loss, disagreement and bias over the rounds, and ratios that the theory foretells."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from skerry.paper.contests import UnansweredError
from skerry.paper.panels import PANELS, slice_of
from skerry.paper.rounds import Row, rows_of
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.figures.rounds import curves
from skerry.report.paper.drawing import curve_frame, not_run, page_figure
from skerry.report.paper.numbers import plain_number
from skerry.report.paper.shown import Content, Picture
from skerry.report.sheets import Sheet
from skerry.report.style import GREY

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCORING = "average_accuracy"
"""Decides on the stepsize, where there was a choice."""
NOTE = (
    "Disagreement is the mean squared distance of devices from their average, bias the squared "
    "way that a server round moves it; the paper's errors are n times as large. D2S rounds are "
    "those in which the server calls, D2D rounds all others. S2A leaves no disagreement and S2S "
    "no bias, both up to rounding: their lines lie on zero."
)


def tracked(target: Target, studies: Mapping[str, Study]) -> Content:
    """Six panels, and the mean ratios beside the theory's."""
    (panel,) = PANELS[target.name]
    try:
        frame = curve_frame(slice_of(panel, studies), SCORING)
    except UnansweredError as reason:
        return Content(f"Not shown: {reason}.")
    rows = rows_of(target.name, studies, SCORING)
    expected = [row for row in rows if row.printed is not None]
    told = "; ".join(f"{_measured(row)} ({row.theory:.4f} by the theory)" for row in expected)
    theory = {row.key.removeprefix("fig14_"): row.theory for row in expected}
    figure = _figure(frame, theory, target.title)
    picture = Picture(target.name, figure, f"{target.title}: six panels over the rounds")
    verdict = f"Disagreement ratio of S2S, then bias ratio of S2A: {told}."
    return Content(verdict, (picture, _sheet(rows), NOTE))


def _figure(frame: "pd.DataFrame", theory: Mapping[str, float], title: str) -> "Figure":
    met = frame["bias"].notna() if "bias" in frame else frame["round"] < 0
    d2d, d2s = frame[~met], frame[met]
    panels = [
        _panel("test loss", frame, "average_loss"),
        _panel("disagreement at D2D rounds", d2d, "disagreement", from_zero=True),
        _panel("disagreement after D2S rounds", d2s, "disagreement", from_zero=True),
        _panel("bias at D2S rounds", d2s, "bias", from_zero=True),
        _panel("disagreement ratio at D2S rounds", d2s, "disagreement_ratio", theory),
        _panel("bias ratio at D2S rounds", d2s, "bias_ratio", theory),
    ]
    return page_figure(panels, columns=2, height=1.8, title=title)


def _panel(
    title: str,
    frame: "pd.DataFrame",
    measure: str,
    theory: Mapping[str, float] | None = None,
    *,
    from_zero: bool = False,
) -> Panel:
    if measure not in frame or frame[measure].isna().all():
        return Panel(title, not_run)

    def draw(axis: "Axes") -> None:
        # Without a key no server rounds are marked: these panels tell them apart already.
        curves(frame.drop(columns="key"), measure, axis)
        if from_zero or theory:
            axis.set_yscale("linear")
            axis.autoscale(axis="y")
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        if theory and measure in theory:
            axis.axhline(
                theory[measure],
                color=GREY,
                linestyle="--",
                linewidth=0.9,
                label="theory",
                gid=ASIDE,
            )

    return Panel(title, draw)


def _sheet(rows: Sequence[Row]) -> Sheet:
    cells = tuple(
        (
            row.words,
            row.printed.value_in_words if row.printed else "",
            f"{row.theory:.4f}",
            _measured(row),
            row.note,
        )
        for row in rows
    )
    header = ("", "the text", "the theory", "measured", "note")
    return Sheet("What a visit of the server leaves and moves", header, cells, "lrrrl")


def _measured(row: Row) -> str:
    return plain_number(row.ours, 4) + (f" ± {row.error:.4f}" if isfinite(row.error) else "")
