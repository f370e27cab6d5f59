"""Views of figures 5 and 9 to 14: curves over the rounds, and the text's statements about them."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import holm
from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.figures.rounds import curves
from skerry.report.style import GREY
from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper import paired_curves as pc
from skerry_paper.curve_statements import Finding, curve_findings
from skerry_paper.protocol import SCORINGS
from skerry_paper.study import Studies
from skerry_paper.targets import Target
from skerry_paper.views.drops import momentum_parts
from skerry_paper.views.formatting import out_of
from skerry_paper.views.view import NamedFigure, Part, View, not_run, page_figure

# Figures 5 and 9 to 13: accuracy

CURVE_SCORINGS = ("average_accuracy", "own_accuracy")
ACCURACY_NOTE = (
    "Gaps are S2S minus S2A, ± half of their 95 % interval over seeds; clear ones pass a t test "
    f"over seeds at level {LEVEL}, with Holm's correction over the statements. The interval of a "
    "single seed is over server periods, as if they were independent, and it is never clear. Lines "
    "are means over seeds, bands 95 % intervals; seeds in which a run diverged are left out. Grey "
    "lines mark server rounds. Devices are scored less often than the average model: their drops "
    "come from runs that score them in every round, or else from different rounds before and "
    "after. A statement of the text without a number is compared by its sign."
)
AHEAD = {1: "S2S ahead", -1: "S2A ahead"}


def learning_curves_view(target: Target, studies: Studies) -> View:
    """Accuracy over the rounds: a column per setting, a row per scoring; then every statement."""
    found = {scoring: curve_findings(target.name, studies, scoring) for scoring in CURVE_SCORINGS}
    settings = pc.settings_of(target.name, studies)
    panels = [_accuracy_panel(one, studies, s) for s in CURVE_SCORINGS for one in settings]
    figure = page_figure(panels, columns=len(settings), height=2.1, title=target.title)
    about = f"{target.title}: accuracy of S2S and S2A over the rounds"
    momentum = momentum_parts(studies) if target.name == "fig12" else []
    picture = NamedFigure(target.name, figure, about)
    parts: list[Part] = [picture, *momentum, _accuracy_sheet(found), ACCURACY_NOTE]
    return View(target, _accuracy_verdict(found), tuple(parts))


def _accuracy_verdict(found: Mapping[str, Sequence[Finding]]) -> str:
    parts = []
    for scoring, rows in found.items():
        checked = [row for row in rows if row.stated_sign and isfinite(row.ours)]
        corrected = holm([row.p for row in checked])
        clear = [row for row, p in zip(checked, corrected, strict=True) if p <= LEVEL]
        parts.append(f"{SCORINGS[scoring]} {_agreeing(checked)}, clear ones {_agreeing(clear)}")
    return f"Signs that agree with the text: {'; '.join(parts)}."


def _agreeing(rows: Sequence[Finding]) -> str:
    return out_of(sum(row.ours * row.stated_sign > 0 for row in rows), len(rows))


def _accuracy_panel(setting: pc.CurveSetting, studies: Studies, scoring: str) -> Panel:
    title = f"{setting.words}\n{SCORINGS[scoring]}"
    try:
        frame = pc.curves_to_draw(pc.select_runs(setting, studies), scoring)
    except pc.MissingDataError:
        return Panel(title, not_run)
    recorded = scoring in frame and frame[scoring].notna().any()
    return Panel(title, partial(curves, frame, scoring) if recorded else not_run)


def _accuracy_sheet(found: Mapping[str, Sequence[Finding]]) -> Sheet:
    """A row for every statement and every further finding."""
    average, own = (found[scoring] for scoring in CURVE_SCORINGS)
    cells = tuple(
        (one.words, _text(one), _measured(one), _measured(other), _note(one, other))
        for one, other in zip(average, own, strict=True)
    )
    header = ("", "the text", *(SCORINGS[scoring] for scoring in CURVE_SCORINGS), "note")
    return Sheet("Statements of the text, and our curves", header, cells, "lrrrl")


def _note(average: Finding, own: Finding) -> str:
    """The note of the average model, and that of the devices where it differs."""
    if not own.note or own.note == average.note:
        return average.note
    return f"{average.note}; {SCORINGS['own_accuracy']}: {own.note}" if average.note else own.note


def _text(row: Finding) -> str:
    return row.printed.value_in_words if row.printed else AHEAD.get(row.stated_sign, "")


def _measured(row: Finding) -> str:
    if not isfinite(row.ours):
        return NOTHING
    value = plus_minus(row.ours, row.half, "+z.2f" if row.unit == "p.p." else ".2f", ".2f")
    return f"{value} %" if row.unit == "%" else value


# Figure 14: loss, disagreement and bias

STEPSIZE_SCORING = "average_accuracy"
"""The scoring by which the stepsize is tuned, if several were run."""
SERVER_ROUND_NOTE = (
    "Disagreement is the mean squared distance of devices from their average, bias the squared "
    "distance by which a server round moves the average; the paper's errors are n times as large. "
    "S2A leaves no disagreement and S2S causes no bias, up to rounding: these lines are at zero."
)


def server_rounds_view(target: Target, studies: Studies) -> View:
    """Six panels, and the mean ratios of server rounds compared with the theory."""
    (setting,) = pc.CURVES[target.name]
    try:
        frame = pc.curves_to_draw(pc.select_runs(setting, studies), STEPSIZE_SCORING)
    except pc.MissingDataError as reason:
        return View(target, f"Not shown: {reason}.")
    rows = curve_findings(target.name, studies, STEPSIZE_SCORING)
    expected = [row for row in rows if row.printed is not None]
    ratios = "; ".join(f"{_ratio(row)} ({row.theory:.4f} by the theory)" for row in expected)
    theory = {row.key.removeprefix("fig14_"): row.theory for row in expected}
    figure = _server_round_figure(frame, theory, target.title)
    picture = NamedFigure(target.name, figure, f"{target.title}: six panels over the rounds")
    verdict = f"Disagreement ratio of S2S, then bias ratio of S2A: {ratios}."
    return View(target, verdict, (picture, _ratio_sheet(rows), SERVER_ROUND_NOTE))


def _server_round_figure(frame: pd.DataFrame, theory: Mapping[str, float], title: str) -> Figure:
    is_server_round = frame["bias"].notna() if "bias" in frame else frame["round"] < 0
    between, after = frame[~is_server_round], frame[is_server_round]
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
        # Without the column `key` server rounds are not marked: these panels separate them already.
        curves(frame.drop(columns="key"), measure, axis)
        if from_zero or theory:
            axis.set_yscale("linear")
            axis.autoscale(axis="y")
            axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
        if theory and measure in theory:
            y = theory[measure]
            axis.axhline(y, color=GREY, ls="--", lw=0.9, label="theory", gid=ASIDE)

    return Panel(title, draw)


def _ratio_sheet(rows: Sequence[Finding]) -> Sheet:
    cells = tuple(
        (row.words, _text(row), f"{row.theory:.4f}", _ratio(row), row.note) for row in rows
    )
    header = ("", "the text", "the theory", "measured", "note")
    return Sheet("Disagreement and bias after server rounds", header, cells, "lrrrl")


def _ratio(row: Finding) -> str:
    return plus_minus(row.ours, row.half, ".4f", ".4f") if isfinite(row.ours) else NOTHING
