"""What the paper may have scored: every protocol against the printed tables, and what follows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import isnan
from typing import TYPE_CHECKING, TypeAlias, get_args

import numpy as np

from skerry.analysis.statistics import estimate, moments
from skerry.paper.protocol import (
    SCORED,
    SHOWN_SCORINGS,
    TELLING,
    Agreement,
    Protocol,
    Scaling,
    TableGrid,
    agreements,
    as_shown,
    gaps,
    table_runs,
)
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.paper.views.in_words import (
    AGREEMENT_HEADER,
    AGREEMENT_NOTE,
    AGREEMENT_SIDES,
    agreement_cells,
    dataset_words,
    out_of,
    plain_number,
    signs,
)
from skerry.paper.views.view import Picture, View, page_figure
from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.style import GREY, OTHERS, PRIMITIVES
from skerry.report.text import Sheet, plus_minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALL = (
    "The paper prints gaps of test accuracy and leaves open of which model, on which data, in "
    "which rounds, at which stepsize and with which scaling of the inputs. A row is one answer; "
    "those that answer most printed cells come first, then those with more of the printed signs, "
    "then those closer to the printed numbers. The best of many is picked: among rows that differ "
    "little, chance may decide."
)

DECIDES = {True: "What is scored decides who wins.", False: "Both scorings agree on who wins."}
CHOOSE = (
    "Who wants devices that know their own labels chooses by the first of the last two columns; "
    "who wants one model that knows all labels, by the second."
)
LEADS = (
    "Leads are means over all cells with K < n, in points, ± 95 % interval over seeds, of the "
    "last 20 rounds at the best stepsize tried for each cell and primitive; within "
    f"{TELLING:g} points or their interval they count as none. In brackets: the cells in which the "
    "leader is ahead."
)
PICTURED = (
    "Each point is a protocol; the best fit is top left. The dotted line is what a coin would "
    "meet. Points of one colour differ in timing, stepsize and scaling."
)
TUNING = (
    "How often each stepsize scores best over the last 20 rounds, of the cells in which several "
    "were tried, S2S and S2A counted on their own. The paper's range ends at 0.1."
)
CIFAR_TUNING = (
    "On CIFAR-10 all were tried with one seed, on the ring at K/n = 0.2 and H = 5 and 20; its "
    "tables and maps are run at 0.1 alone."
)
SCALED = {"standard": "standard", "unit": "[0, 1]"}
ISLANDS = {"non-iid": "differ", "iid": "alike"}
Ranked: TypeAlias = Mapping[Protocol, Agreement]
"""The best first."""
Found: TypeAlias = Mapping[str, Ranked]
"""By data set."""


@dataclass(frozen=True)
class Lead:
    """Who is ahead on a data set, over all cells of an inter split."""

    dataset: str
    inter: str
    mean: float
    half: float
    """Of its 95 % interval over seeds: what a seed does to all cells counts once."""
    ahead: int
    cells: int

    @classmethod
    def of(cls, studies: Sequence[Study], dataset: str, inter: str, scoring: str) -> "Lead":
        protocol = as_shown(scoring)
        grid = TableGrid.of(table_runs(studies), protocol.scaling)
        asked = (grid.cells["inter"] == inter) & (grid.cells["share"] < 1)
        gap_cs = grid.gaps_by_seed(protocol)[asked.to_numpy(bool)]
        gap_c, gap_s = moments(gap_cs)[0], moments(gap_cs.T)[0]
        gap_c = gap_c[np.isfinite(gap_c)]
        over_seeds = estimate(gap_s)
        ahead = int((gap_c * over_seeds.mean > 0).sum())
        return cls(dataset, inter, over_seeds.mean, over_seeds.half_width, ahead, len(gap_c))

    @property
    def leader(self) -> str:
        """Where the lead is beyond the rounding of the printed tables and beyond its interval."""
        if abs(self.mean) <= TELLING or abs(self.mean) <= self.half:
            return "neither"
        return "S2S" if self.mean > 0 else "S2A"

    @property
    def words(self) -> str:
        """`S2S by 0.49 ± 0.08 (94 of 96)`."""
        if not self.cells:
            return "not run"
        size = plus_minus(abs(self.mean), self.half, ".2f", ".2f")
        if self.leader == "neither":
            return f"neither ({size})"
        return f"{self.leader} by {size} ({out_of(self.ahead, self.cells)})"


def protocol_table(target: Target, studies: Mapping[str, Study]) -> View:
    """What follows in words; then every protocol that the studies can answer, per data set."""
    found = found_agreements(studies)
    if not found:
        return View(target, "No run is of a cell that the paper prints.")
    best = {name: next(iter(ranked.items())) for name, ranked in found.items()}
    told = "; ".join(f"{dataset_words(name)}: {_told(*one)}" for name, one in best.items())
    sheets = [_sheet(name, ranked) for name, ranked in found.items()]
    about = "Every protocol: signs of the paper's tables that it meets, and its distance from them"
    picture = Picture(target.name, _figure(found, about), about)
    tuning = _best_stepsizes(studies, found)
    notes = (ALL, AGREEMENT_NOTE)
    parts = (*conclusions(studies, found), picture, PICTURED, *tuning, *sheets, *notes)
    return View(target, f"Best fit. {told}.", parts)


def found_agreements(studies: Mapping[str, Study]) -> Found:
    """Every protocol that meets a printed cell."""
    every = list(studies.values())
    datasets = dict.fromkeys(name for study in every for name in study.runs["dataset"])
    found = {
        name: {protocol: one for protocol, one in agreements(every, name).items() if one.cells}
        for name in datasets
    }
    return {name: ranked for name, ranked in found.items() if ranked}


def conclusions(studies: Mapping[str, Study], found: Found) -> tuple[str | Sheet, ...]:
    """Who leads where, by what is scored; what fits the printed tables, and what does not."""
    if not found:
        return ("No table of the paper has been run here.",)
    leads = [
        [Lead.of([one.of(dataset=dataset) for one in studies.values()], dataset, inter, scoring)
         for scoring in SHOWN_SCORINGS]
        for dataset in found
        for inter in ISLANDS
    ]  # fmt: skip
    fits = [line for dataset, ranked in found.items() for line in _fits(dataset, ranked)]
    return f"**{DECIDES[_depends(leads)]}** {CHOOSE}", _leads(leads), LEADS, "\n".join(fits)


def _leads(leads: Sequence[Sequence[Lead]]) -> Sheet:
    """A row per data set and split, with a lead under each scoring."""
    rows = tuple(
        (dataset_words(row[0].dataset), ISLANDS[row[0].inter], *(one.words for one in row))
        for row in leads
    )
    header = ("data set", "islands", *(SCORED[scoring] for scoring in SHOWN_SCORINGS))
    return Sheet("Who leads", header, rows, "llll")


def _best_stepsizes(studies: Mapping[str, Study], found: Found) -> tuple[str | Sheet, ...]:
    """How often each stepsize is the best, of the cells in which several were tried."""
    tried = sorted({size for study in studies.values() for size in study.runs["stepsize"]})
    rows = []
    for dataset, scaling, scoring in product(found, get_args(Scaling), SHOWN_SCORINGS):
        those = [study.of(dataset=dataset) for study in studies.values()]
        cells = gaps(those, Protocol(scoring, "last 20", "tuned", scaling))
        cells = cells[cells["tried"] > 1]
        if len(cells):
            best = Counter([*cells["stepsize_s2s"], *cells["stepsize_s2a"]])
            names = dataset_words(dataset), SCALED[scaling], SCORED[scoring]
            rows.append((*names, *(str(best[size]) for size in tried)))
    if not rows:
        return ()
    header = ("data set", "inputs", "scored", *(f"{size:.3g}" for size in tried))
    sheet = Sheet("Best stepsizes", header, tuple(rows), f"lll{'r' * len(tried)}")
    return sheet, f"{TUNING} {CIFAR_TUNING}" if "cifar10" in found else TUNING


def _fits(dataset: str, ranked: Ranked) -> list[str]:
    best, *others = _best_by_scoring(ranked)
    name = dataset_words(dataset)
    lines = [f"- {name}: the printed gaps fit best if what counts is {_told(best, ranked[best])}."]
    if others:
        lines.append(f"- {name}, other scorings at their best:")
    return lines + [f"  - {_told(one, ranked[one])}" for one in others]


def _best_by_scoring(ranked: Ranked) -> list[Protocol]:
    """The first protocol of each scoring."""
    first: dict[str, Protocol] = {}
    for protocol in ranked:
        first.setdefault(protocol.scoring, protocol)
    return list(first.values())


def _told(protocol: Protocol, found: Agreement) -> str:
    distance = "" if isnan(found.rms) else f", {plain_number(found.rms)} points away"
    return f"{protocol.words} (signs {signs(found)}{distance})"


def _depends(leads: Sequence[Sequence[Lead]]) -> bool:
    """Whether on some data set and split S2S leads under one scoring and S2A under another."""
    return any({"S2S", "S2A"} <= {one.leader for one in row} for row in leads)


def _sheet(dataset: str, ranked: Ranked) -> Sheet:
    cells = tuple(
        (*_protocol_cells(protocol), str(found.cells), *agreement_cells(found))
        for protocol, found in ranked.items()
    )
    header = ("scored", "when", "stepsize", "inputs", "cells", *AGREEMENT_HEADER)
    return Sheet(
        f"{dataset_words(dataset)}: every protocol", header, cells, f"llllr{AGREEMENT_SIDES}"
    )


def _protocol_cells(protocol: Protocol) -> tuple[str, ...]:
    stepsize = protocol.stepsize
    return (
        SCORED[protocol.scoring],
        protocol.timing,
        stepsize if isinstance(stepsize, str) else f"{stepsize:.3g}",
        SCALED[protocol.scaling],
    )


# Every protocol as a point: how many of the printed signs it has, and how far its gaps are off

COLOURS = dict(zip(SCORED, (PRIMITIVES["blend"], *OTHERS), strict=True))
"""Not those of S2S and S2A, which are not what differs here."""
MARKERS = dict(zip(SCORED, ("s", "D", "o", "^", "v"), strict=True))


def _figure(found: Found, title: str) -> "Figure":
    """A panel per data set; the best fit is top left. Hollow: inputs in [0, 1]."""
    panels = [
        Panel(dataset_words(name), partial(_scatter, ranked=ranked))
        for name, ranked in found.items()
    ]
    return page_figure(panels, columns=len(panels), height=2.8, title=title)


def _scatter(axis: "Axes", ranked: Ranked) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    comparable = {protocol: one for protocol, one in ranked.items() if one.signs.of}
    for protocol, one in comparable.items():
        hollow = protocol.scaling == "unit"
        axis.plot(
            one.rms,
            100 * one.signs.part,
            MARKERS[protocol.scoring],
            color=COLOURS[protocol.scoring],
            fillstyle="none" if hollow else "full",
            markersize=5,
            alpha=0.85,
            label=None if hollow else SCORED[protocol.scoring],
        )
    if any(protocol.scaling == "unit" for protocol in comparable):
        axis.plot([], [], "o", color=GREY, fillstyle="none", label="inputs in [0, 1]", gid=ASIDE)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(-4, 104)
    axis.axhline(50, color=GREY, linewidth=0.6, linestyle=":")
    axis.set_xlabel("distance from printed gaps (points, RMS)")
    axis.set_ylabel("printed signs met (%)")
    axis.grid(alpha=0.25, linewidth=0.5)
