"""Figures 5 and 9 to 13: accuracy round by round, and what the text says of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite

from matplotlib.figure import Figure

from skerry.report.figures.panels import Panel
from skerry.report.figures.rounds import curves
from skerry.report.text import NOTHING, Sheet, plus_minus
from skerry_paper.curve_statements import Finding, findings
from skerry_paper.paired_curves import CurvePair, UnansweredError, drawn_curves, pairs_of, slice_of
from skerry_paper.protocol import SCORED
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.formatting import out_of
from skerry_paper.views.view import Picture, View, not_run, page_figure

SCORINGS = ("average_accuracy", "own_accuracy")
NOTE = (
    "Gaps are S2S minus S2A, ± their standard error; clear ones exceed it. The error of a single "
    "seed is over server periods, as if they were independent. Lines are means over seeds, bands "
    "95 % intervals where there are several; seeds in which a run diverged are left out. Grey "
    "lines mark server rounds. Devices are scored less often than the average model: their drops "
    "are from runs that score them in every round, or else from other rounds before and after. "
    "What the text says in words alone is a sign here."
)
AHEAD = {1: "S2S ahead", -1: "S2A ahead"}


def learning_curves(target: Target, studies: Mapping[str, Study]) -> View:
    """A column for each setting, a row for each way of scoring; then every statement."""
    found = {scoring: findings(target.name, studies, scoring) for scoring in SCORINGS}
    picture = Picture(
        target.name,
        _figure(target, studies),
        f"{target.title}: accuracy of S2S and S2A over the rounds",
    )
    return View(target, _verdict(found), (picture, _sheet(found), NOTE))


def _verdict(found: Mapping[str, Sequence[Finding]]) -> str:
    told = []
    for scoring, rows in found.items():
        checked = [row for row in rows if row.stated_sign and isfinite(row.ours)]
        clear = [row for row in checked if abs(row.ours) > row.error]
        told.append(f"{SCORED[scoring]} {_agreeing(checked)}, clear ones {_agreeing(clear)}")
    return f"Signs that agree with the text: {'; '.join(told)}."


def _agreeing(rows: Sequence[Finding]) -> str:
    return out_of(sum(row.ours * row.stated_sign > 0 for row in rows), len(rows))


def _figure(target: Target, studies: Mapping[str, Study]) -> Figure:
    pairs = pairs_of(target.name, studies)
    panels = [_panel(pair, studies, scoring) for scoring in SCORINGS for pair in pairs]
    return page_figure(panels, columns=len(pairs), height=2.1, title=target.title)


def _panel(pair: CurvePair, studies: Mapping[str, Study], scoring: str) -> Panel:
    title = f"{pair.words}\n{SCORED[scoring]}"
    try:
        frame = drawn_curves(slice_of(pair, studies), scoring)
    except UnansweredError:
        return Panel(title, not_run)
    there = scoring in frame and frame[scoring].notna().any()
    return Panel(title, partial(curves, frame, scoring) if there else not_run)


def _sheet(found: Mapping[str, Sequence[Finding]]) -> Sheet:
    """A row for every statement, and for what else the curves tell."""
    average, own = (found[scoring] for scoring in SCORINGS)
    cells = tuple(
        (one.words, _text(one), _measured(one), _measured(other), _note(one, other))
        for one, other in zip(average, own, strict=True)
    )
    header = ("", "the text", *(SCORED[scoring] for scoring in SCORINGS), "note")
    return Sheet("What the curves say", header, cells, "lrrrl")


def _note(average: Finding, own: Finding) -> str:
    """What the devices' number rests on is told where it is something else."""
    if not own.note or own.note == average.note:
        return average.note
    return f"{average.note}; {SCORED['own_accuracy']}: {own.note}" if average.note else own.note


def _text(row: Finding) -> str:
    if row.printed is not None:
        return row.printed.value_in_words
    return AHEAD.get(row.stated_sign, "")


def _measured(row: Finding) -> str:
    if not isfinite(row.ours):
        return NOTHING
    told = plus_minus(row.ours, row.error, "+z.2f" if row.unit == "p.p." else ".2f", ".2f")
    return f"{told} %" if row.unit == "%" else told
