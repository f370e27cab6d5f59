"""Every protocol compared with the printed tables, and what follows from it."""

from collections import Counter
from functools import partial
from itertools import product
from typing import get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.style import GREY, OTHERS, PRIMITIVES
from skerry.report.text import Sheet
from skerry_paper import agreement as ag
from skerry_paper.agreement import Agreement, Found, Ranked
from skerry_paper.protocol import (
    SCORINGS,
    SHORT_SCALINGS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    STATED,
    TIMINGS,
    Protocol,
    Scaling,
    cell_gaps,
    table_runs,
)
from skerry_paper.study import Studies, Timing, for_dataset
from skerry_paper.targets import Target
from skerry_paper.views import conclusions
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import NamedFigure, View, page_figure

PROTOCOLS_NOTE = (
    "The paper prints gaps of test accuracy after 100 rounds. It does not say of which model, on "
    "which data, at which stepsize and with which scaling of the inputs. Each row is one answer. "
    "Rows that cover most printed cells come first, and among them those closer to the printed "
    "numbers. The best of many is selected, so between rows with similar values chance may decide."
)
FIGURE_NOTE = (
    "Each point is a protocol; the best fit is top left. Vertical lines mark two baselines that "
    "need no runs: predicting zero, and predicting the best single gap for all cells. A point to "
    "the right of a line predicts the printed gaps worse than that baseline. Bars are 95 % "
    "intervals over seeds. Points of the same colour differ in stepsize and scaling."
)
TUNING_NOTE = (
    "How often each stepsize is chosen, among cells in which several were tried, with S2S, S2A and "
    "seeds counted separately: each seed has the stepsize that is best on the other seeds. Where "
    "only one seed was run at several stepsizes, that seed is tuned on itself. At an edge: chosen "
    "at either end of the stepsizes tried in the cell. The paper's range is 0.00316 to 0.1."
)


def protocols_view(target: Target, studies: Studies) -> View:
    """Conclusions, then every protocol that the studies can answer, for each data set."""
    found = ag.all_agreements(studies)
    if not found:
        return View(target, "There are no runs of cells that the paper prints.")
    best = {name: ag.with_timing(ranked, STATED) for name, ranked in found.items()}
    closest = "; ".join(
        f"{fmt.dataset_name(name)}: {_distance(*next(iter(ranked.items())))}"
        for name, ranked in best.items()
        if ranked
    )
    leads = conclusions.all_leads(studies, found)
    about = "Every protocol: distance from the paper's tables, and rank correlation with them"
    picture = NamedFigure(target.name, _figure(found, about), about)
    parts = (
        conclusions.scoring_sentence(leads),
        conclusions.leads_sheet(leads),
        conclusions.LEADS_NOTE,
        "\n".join(conclusions.closeness_sentences(studies, found)),
        picture,
        FIGURE_NOTE,
        *_best_stepsizes(studies, found),
        *(_scorings_sheet(found, timing) for timing in SHOWN_TIMINGS),
        *(
            _sheet(name, ranked, timing)
            for timing in SHOWN_TIMINGS
            for name, ranked in found.items()
        ),
        PROTOCOLS_NOTE,
        fmt.AGREEMENT_NOTE,
    )
    return View(target, f"Closest at the stated timing. {closest}.", parts)


def _distance(protocol: Protocol, met: Agreement) -> str:
    return f"{protocol.words}, at a distance of {fmt.with_interval(met.rms, met.rms_half)} points"


def _best_stepsizes(studies: Studies, found: Found) -> tuple[str | Sheet, ...]:
    """A table of how often each stepsize is chosen, with a note."""
    tried = sorted({size for study in studies.values() for size in study.runs["stepsize"]})
    rows = []
    for dataset, scaling, scoring, timing in product(
        found, get_args(Scaling), SHOWN_SCORINGS, SHOWN_TIMINGS
    ):
        there = for_dataset(studies, dataset)
        cells = cell_gaps(there, Protocol(scoring, timing, "tuned", scaling))
        cells = cells[cells["tried"] > 1]
        if len(cells):
            best = Counter(np.concatenate([*cells["stepsize_s2s"], *cells["stepsize_s2a"]]))
            names = (fmt.dataset_name(dataset), SHORT_SCALINGS[scaling], SCORINGS[scoring], timing)
            rows.append((*names, *(str(best[size]) for size in tried), fmt.edge_choices([cells])))
    if not rows:
        return ()
    header = (
        "data set",
        "inputs",
        "scored",
        "when",
        *(f"{size:.3g}" for size in tried),
        "at an edge",
    )
    sheet = Sheet("Chosen stepsizes", header, tuple(rows), f"llll{'r' * len(tried)}r")
    runs = {name: table_runs(for_dataset(studies, name)) for name in found}
    tried_on = (f"{fmt.dataset_name(name)}, {fmt.describe_tuning(r)}" for name, r in runs.items())
    return sheet, f"{TUNING_NOTE} The runs are: {'; '.join(tried_on)}."


def _scorings_sheet(found: Found, timing: Timing) -> Sheet:
    """Each scoring at the stepsize and scaling at which it is closest."""
    rows = []
    for dataset, ranked in found.items():
        best: dict[str, Protocol] = {}
        for protocol in ag.with_timing(ranked, timing):
            best.setdefault(protocol.scoring, protocol)
        for one in best.values():
            cells = (*_protocol_cells(one), *fmt.agreement_cells(ranked[one]))
            rows.append((fmt.dataset_name(dataset), *cells))
    header = ("data set", "scored", "stepsize", "inputs", *fmt.AGREEMENT_HEADER)
    title = f"Each scoring where it is closest, {TIMINGS[timing]}"
    return Sheet(title, header, tuple(rows), f"llll{fmt.AGREEMENT_SIDES}")


def _sheet(dataset: str, ranked: Ranked, timing: Timing) -> Sheet:
    cells = [
        (*_protocol_cells(protocol), str(met.cells), *fmt.agreement_cells(met))
        for protocol, met in ag.with_timing(ranked, timing).items()
    ]
    cells += [
        (name, "", "", str(met.cells), *fmt.agreement_cells(met))
        for name, met in ag.baselines(ag.printed_of(dataset)).items()
    ]
    header = ("scored", "stepsize", "inputs", "cells", *fmt.AGREEMENT_HEADER)
    title = f"{fmt.dataset_name(dataset)}, {TIMINGS[timing]}: every protocol"
    return Sheet(title, header, tuple(cells), f"lllr{fmt.AGREEMENT_SIDES}")


def _protocol_cells(protocol: Protocol) -> tuple[str, ...]:
    stepsize = protocol.stepsize
    return (
        SCORINGS[protocol.scoring],
        stepsize if isinstance(stepsize, str) else f"{stepsize:.3g}",
        SHORT_SCALINGS[protocol.scaling],
    )


# The figure

COLOURS = dict(zip(SCORINGS, (PRIMITIVES["blend"], *OTHERS, GREY), strict=True))
"""Not the colours of S2S and S2A, which are not compared here."""
MARKERS = dict(zip(SCORINGS, ("s", "D", "o", "^", "v", "P"), strict=True))
BASELINE_LINES = {ag.ZERO: ("--", "zero"), ag.ALWAYS_S2S: (":", "one gap for all cells")}


def _figure(found: Found, title: str) -> Figure:
    """Distance and rank correlation of every protocol, a panel per timing and data set."""
    panels = [
        Panel(
            f"{fmt.dataset_name(name)}, {TIMINGS[timing]}",
            partial(
                _scatter, dataset=name, ranked=ag.with_most_cells(ag.with_timing(ranked, timing))
            ),
        )
        for timing in SHOWN_TIMINGS
        for name, ranked in found.items()
    ]
    return page_figure(panels, columns=len(found), height=2.5, title=title)


def _scatter(axis: Axes, dataset: str, ranked: Ranked) -> None:
    for protocol, one in ranked.items():
        hollow = protocol.scaling == "unit"
        axis.errorbar(
            one.rms,
            np.nan_to_num(one.rank_correlation),
            xerr=np.nan_to_num(one.rms_half),
            yerr=np.nan_to_num(one.rank_half),
            fmt=MARKERS[protocol.scoring],
            color=COLOURS[protocol.scoring],
            fillstyle="none" if hollow else "full",
            markersize=4.5,
            elinewidth=0.6,
            alpha=0.85,
            label=None if hollow else SCORINGS[protocol.scoring],
        )
    if any(protocol.scaling == "unit" for protocol in ranked):
        axis.plot([], [], "o", color=GREY, fillstyle="none", label="inputs in [0, 1]", gid=ASIDE)
    for name, met in ag.baselines(ag.printed_of(dataset)).items():
        if name in BASELINE_LINES:
            style, words = BASELINE_LINES[name]
            axis.axvline(
                met.rms, color="black", linewidth=0.9, linestyle=style, label=words, gid=ASIDE
            )
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(-1.05, 1.05)
    axis.set_xlabel("distance from printed gaps (points, RMS)")
    axis.set_ylabel("rank correlation with them")
    axis.grid(alpha=0.25, linewidth=0.5)
