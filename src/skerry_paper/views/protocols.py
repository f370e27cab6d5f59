"""What the paper may have scored: every protocol against the printed tables, and what follows."""

from collections import Counter
from collections.abc import Mapping
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
from skerry_paper.agreement import ALWAYS_S2S, ZERO, Agreement, guesses, printed_of
from skerry_paper.protocol import (
    SCORED,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    STATED,
    TIMED,
    Protocol,
    Scaling,
    gaps,
    table_runs,
)
from skerry_paper.study import Study, Timing
from skerry_paper.targets import Target
from skerry_paper.views.conclusions import (
    LEADS,
    Found,
    Ranked,
    all_leads,
    at_timing,
    decides,
    found_agreements,
    leads_sheet,
    scorings_sheet,
    verdicts,
)
from skerry_paper.views.formatting import (
    AGREEMENT_HEADER,
    AGREEMENT_NOTE,
    AGREEMENT_SIDES,
    agreement_cells,
    dataset_words,
    give_or_take,
    tried_in_words,
)
from skerry_paper.views.view import Picture, View, page_figure

ALL = (
    "The paper prints gaps of test accuracy after 100 rounds, and leaves open of which model, on "
    "which data, at which stepsize and with which scaling of the inputs. A row is one answer; "
    "those that answer most printed cells come first, then those closer to the printed numbers. "
    "The best of many is picked: among rows that differ little, chance may decide."
)
PICTURED = (
    "Each point is a protocol; the best fit is top left. Lines mark what needs no runs: predicting "
    "zero, and one gap for all cells, the best that always saying S2S can do; points to the right "
    "of a line explain less than it. Bars are 95 % intervals over seeds. Points of one colour "
    "differ in stepsize and scaling."
)
TUNING = (
    "How often each stepsize scores best, of the cells in which several were tried, S2S and S2A "
    "counted on their own. The paper's range is 0.00316 to 0.1."
)
SCALED = {"standard": "standard", "unit": "[0, 1]"}


def protocol_table(target: Target, studies: Mapping[str, Study]) -> View:
    """What follows in words; then every protocol that the studies can answer, per data set."""
    found = found_agreements(studies)
    if not found:
        return View(target, "No run is of a cell that the paper prints.")
    best = {name: at_timing(ranked, STATED) for name, ranked in found.items()}
    told = "; ".join(
        f"{dataset_words(name)}: {_told(*next(iter(ranked.items())))}"
        for name, ranked in best.items()
        if ranked
    )
    leads = all_leads(studies, found)
    about = "Every protocol: distance from the paper's tables, and how far it orders their cells"
    picture = Picture(target.name, _figure(found, about), about)
    parts = (
        decides(leads),
        leads_sheet(leads),
        LEADS,
        "\n".join(verdicts(studies, found)),
        picture,
        PICTURED,
        *_best_stepsizes(studies, found),
        *(scorings_sheet(found, timing) for timing in SHOWN_TIMINGS),
        *(
            _sheet(name, ranked, timing)
            for timing in SHOWN_TIMINGS
            for name, ranked in found.items()
        ),
        ALL,
        AGREEMENT_NOTE,
    )
    return View(target, f"Closest at the stated timing. {told}.", parts)


def _told(protocol: Protocol, met: Agreement) -> str:
    return f"{protocol.words}, {give_or_take(met.rms, met.rms_half)} points away"


def _best_stepsizes(studies: Mapping[str, Study], found: Found) -> tuple[str | Sheet, ...]:
    """How often each stepsize is the best, of the cells in which several were tried."""
    tried = sorted({size for study in studies.values() for size in study.runs["stepsize"]})
    rows = []
    for dataset, scaling, scoring, timing in product(
        found, get_args(Scaling), SHOWN_SCORINGS, SHOWN_TIMINGS
    ):
        those = [study.of(dataset=dataset) for study in studies.values()]
        cells = gaps(those, Protocol(scoring, timing, "tuned", scaling))
        cells = cells[cells["tried"] > 1]
        if len(cells):
            best = Counter([*cells["stepsize_s2s"], *cells["stepsize_s2a"]])
            names = dataset_words(dataset), SCALED[scaling], SCORED[scoring], timing
            rows.append((*names, *(str(best[size]) for size in tried)))
    if not rows:
        return ()
    header = ("data set", "inputs", "scored", "when", *(f"{size:.3g}" for size in tried))
    sheet = Sheet("Best stepsizes", header, tuple(rows), f"llll{'r' * len(tried)}")
    runs = {name: table_runs([one.of(dataset=name) for one in studies.values()]) for name in found}
    tried_of = (f"{dataset_words(name)}, {tried_in_words(those)}" for name, those in runs.items())
    return sheet, f"{TUNING} Run were: {'; '.join(tried_of)}."


def _sheet(dataset: str, ranked: Ranked, timing: Timing) -> Sheet:
    cells = [
        (*_protocol_cells(protocol), str(met.cells), *agreement_cells(met))
        for protocol, met in at_timing(ranked, timing).items()
    ]
    cells += [
        (name, "", "", str(met.cells), *agreement_cells(met))
        for name, met in guesses(printed_of(dataset)).items()
    ]
    header = ("scored", "stepsize", "inputs", "cells", *AGREEMENT_HEADER)
    title = f"{dataset_words(dataset)}, {TIMED[timing]}: every protocol"
    return Sheet(title, header, tuple(cells), f"lllr{AGREEMENT_SIDES}")


def _protocol_cells(protocol: Protocol) -> tuple[str, ...]:
    stepsize = protocol.stepsize
    return (
        SCORED[protocol.scoring],
        stepsize if isinstance(stepsize, str) else f"{stepsize:.3g}",
        SCALED[protocol.scaling],
    )


# Every protocol as a point: how far its gaps are off, and how well it orders the cells

COLOURS = dict(zip(SCORED, (PRIMITIVES["blend"], *OTHERS), strict=True))
"""Not those of S2S and S2A, which are not what differs here."""
MARKERS = dict(zip(SCORED, ("s", "D", "o", "^", "v"), strict=True))
GUESS_LINES = {ZERO: ("--", "zero"), ALWAYS_S2S: (":", "one gap for all cells")}


def _figure(found: Found, title: str) -> Figure:
    """A row per timing, a panel per data set; the best fit is top left. Hollow: inputs in
    [0, 1]."""
    panels = [
        Panel(
            f"{dataset_words(name)}, {TIMED[timing]}",
            partial(_scatter, dataset=name, ranked=_with_most_cells(at_timing(ranked, timing))),
        )
        for timing in SHOWN_TIMINGS
        for name, ranked in found.items()
    ]
    return page_figure(panels, columns=len(found), height=2.5, title=title)


def _with_most_cells(ranked: Ranked) -> Ranked:
    """Distances over other cells cannot be compared."""
    most = max((one.cells for one in ranked.values()), default=0)
    return {protocol: one for protocol, one in ranked.items() if one.cells > 0.9 * most}


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
            label=None if hollow else SCORED[protocol.scoring],
        )
    if any(protocol.scaling == "unit" for protocol in ranked):
        axis.plot([], [], "o", color=GREY, fillstyle="none", label="inputs in [0, 1]", gid=ASIDE)
    for name, met in guesses(printed_of(dataset)).items():
        if name in GUESS_LINES:
            style, words = GUESS_LINES[name]
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
