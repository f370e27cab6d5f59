"""Figure 14: loss, disagreement and bias over the rounds, and what a server round leaves of them
beside what the theory foretells."""

from collections.abc import Mapping, Sequence
from math import isfinite

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.figures.rounds import curves
from skerry.report.style import GREY
from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper.curve_statements import Finding, findings
from skerry_paper.paired_curves import CURVES, UnansweredError, drawn_curves, slice_of
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.view import Picture, View, not_run, page_figure

SCORING = "average_accuracy"
"""Decides on the stepsize, where there was a choice."""
NOTE = (
    "Disagreement is the mean squared distance of devices from their average, bias the squared "
    "way that a server round moves it; the paper's errors are n times as large. S2A leaves no "
    "disagreement and S2S no bias, both up to rounding: their lines lie on zero."
)


def server_rounds(target: Target, studies: Mapping[str, Study]) -> View:
    """Six panels, and the mean ratios beside the theory's."""
    (pair,) = CURVES[target.name]
    try:
        frame = drawn_curves(slice_of(pair, studies), SCORING)
    except UnansweredError as reason:
        return View(target, f"Not shown: {reason}.")
    rows = findings(target.name, studies, SCORING)
    expected = [row for row in rows if row.printed is not None]
    told = "; ".join(f"{_measured(row)} ({row.theory:.4f} by the theory)" for row in expected)
    theory = {row.key.removeprefix("fig14_"): row.theory for row in expected}
    figure = _figure(frame, theory, target.title)
    picture = Picture(target.name, figure, f"{target.title}: six panels over the rounds")
    verdict = f"Disagreement ratio of S2S, then bias ratio of S2A: {told}."
    return View(target, verdict, (picture, _sheet(rows), NOTE))


def _figure(frame: pd.DataFrame, theory: Mapping[str, float], title: str) -> Figure:
    met = frame["bias"].notna() if "bias" in frame else frame["round"] < 0
    between, after = frame[~met], frame[met]
    panels = [
        _panel("test loss", frame, "average_loss"),
        _panel("disagreement between server rounds", between, "disagreement", from_zero=True),
        _panel("disagreement after server rounds", after, "disagreement", from_zero=True),
        _panel("bias of server rounds", after, "bias", from_zero=True),
        _panel("disagreement ratio of server rounds", after, "disagreement_ratio", theory),
        _panel("bias ratio of server rounds", after, "bias_ratio", theory),
    ]
    return page_figure(panels, columns=2, height=1.8, title=title)


def _panel(
    title: str,
    frame: pd.DataFrame,
    measure: str,
    theory: Mapping[str, float] | None = None,
    *,
    from_zero: bool = False,
) -> Panel:
    if measure not in frame or frame[measure].isna().all():
        return Panel(title, not_run)

    def draw(axis: Axes) -> None:
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


def _sheet(rows: Sequence[Finding]) -> Sheet:
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
    return Sheet("What a server round leaves and moves", header, cells, "lrrrl")


def _measured(row: Finding) -> str:
    return plus_minus(row.ours, row.error, ".4f", ".4f") if isfinite(row.ours) else NOTHING
