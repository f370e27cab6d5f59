"""Conclusions of the reproduction: the protocol closest to the printed tables, and who leads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import estimate, moments, t_test
from skerry.report.text import Sheet, plus_minus
from skerry_paper import agreement as ag
from skerry_paper.agreement import Agreement, Found, Ranked
from skerry_paper.printed import TABLE_AXES, printed_cells
from skerry_paper.protocol import (
    SCORINGS,
    SHOWN_PROTOCOLS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    SMALL_GAP,
    STATED,
    TIMINGS,
    Protocol,
    TableGrid,
    cell_gaps,
    shown_protocol,
    table_runs,
)
from skerry_paper.study import Studies, StudyData, for_dataset
from skerry_paper.views import formatting as fmt

SCORING_VERDICTS = {
    True: "The winner depends on what is scored.",
    False: "Both scorings agree on the winner.",
}
CHOICE_NOTE = (
    "If devices should be good on their own labels, use the columns of own labels; if one model "
    "should be good on all labels, use those of the average model."
)
LEADS_NOTE = (
    "Leads are means over all cells with K < n, in points, ± 95 % interval over seeds, each seed "
    "at the stepsize that is best on the other seeds, for each cell and primitive. A lead counts "
    f"if a t test over seeds shows it at level {LEVEL} and it exceeds {SMALL_GAP:g} points. In "
    "brackets: the cells in which the leader is ahead. Final: after 100 rounds, the timing that "
    "the paper states; last 20: the mean over the last 20 rounds."
)
ISLANDS = {"non-iid": "differ", "iid": "alike"}


# Who leads


@dataclass(frozen=True)
class LeadSummary:
    """Mean gap on a data set over all cells with one split across islands, and who leads."""

    dataset: str
    inter: str
    mean: float
    half: float
    """Half-width of the 95 % interval of `mean` over seeds."""
    p: float
    """Of the t test over seeds; NaN for fewer than three."""
    ahead: int
    """Number of cells in which the leader is ahead."""
    cells: int

    @classmethod
    def of(
        cls, studies: Sequence[StudyData], dataset: str, inter: str, protocol: Protocol
    ) -> "LeadSummary":
        """The summary of all cells with K < n under a protocol."""
        grid = TableGrid.of(table_runs(studies), protocol.scaling)
        selected = (grid.cells["inter"] == inter) & (grid.cells["share"] < 1)
        gap_cs = grid.cell_gaps_by_seed(protocol)[selected.to_numpy(bool)]
        gap_c, gap_s = moments(gap_cs)[0], moments(gap_cs.T)[0]
        gap_c = gap_c[np.isfinite(gap_c)]
        over_seeds = estimate(gap_s)
        ahead = int((gap_c * over_seeds.mean > 0).sum())
        p = float(t_test([gap_s])[0])
        return cls(dataset, inter, over_seeds.mean, over_seeds.half_width, p, ahead, len(gap_c))

    @property
    def leader(self) -> str:
        """S2S, S2A, or neither: the lead must pass a t test and exceed SMALL_GAP."""
        if abs(self.mean) <= SMALL_GAP or not self.p <= LEVEL:
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
        return f"{self.leader} by {size} ({fmt.out_of(self.ahead, self.cells)})"


LeadTable: TypeAlias = Sequence[Sequence[LeadSummary]]


def all_leads(studies: Studies, found: Found) -> LeadTable:
    """A row per data set and split across islands, with a lead under each shown protocol."""
    rows = []
    for dataset in found:
        there = for_dataset(studies, dataset)
        for inter in ISLANDS:
            rows.append([LeadSummary.of(there, dataset, inter, one) for one in SHOWN_PROTOCOLS])
    return rows


def leads_sheet(leads: LeadTable) -> Sheet:
    rows = tuple(
        (fmt.dataset_name(row[0].dataset), ISLANDS[row[0].inter], *(one.words for one in row))
        for row in leads
    )
    header = ("data set", "islands", *(one.short for one in SHOWN_PROTOCOLS))
    return Sheet("Who leads", header, rows, "ll" + "l" * len(SHOWN_PROTOCOLS))


def scoring_sentence(leads: LeadTable) -> str:
    """A sentence on whether S2S leads under one scoring and S2A under the other."""
    at_once = [
        {
            one.leader
            for one, shown in zip(row, SHOWN_PROTOCOLS, strict=True)
            if shown.timing == timing
        }
        for row in leads
        for timing in SHOWN_TIMINGS
    ]
    return f"**{SCORING_VERDICTS[any({'S2S', 'S2A'} <= one for one in at_once)]}** {CHOICE_NOTE}"


# Distance from the printed gaps


def _without_timing(protocol: Protocol) -> str:
    scoring, _, *others = protocol.words.split("; ")
    return "; ".join((scoring, *others))


def stated_agreements(studies: Studies, dataset: str) -> dict[str, Agreement]:
    """Agreement of both shown scorings with the stated timing and tuned stepsizes."""
    there, printed = for_dataset(studies, dataset), ag.printed_of(dataset)
    return {
        scoring: ag.agreement(cell_gaps(there, shown_protocol(scoring)), printed)
        for scoring in SHOWN_SCORINGS
    }


def closeness_sentences(studies: Studies, found: Found) -> Iterator[str]:
    """A list item per data set and timing: whether any protocol beats the baselines."""
    for dataset, ranked in found.items():
        baseline = ag.baselines(ag.printed_of(dataset))
        for timing in SHOWN_TIMINGS:
            if at_timing := ag.with_timing(ranked, timing):
                closest = next(iter(at_timing))
                parts = [_verdict(at_timing, baseline), *_by_table(studies, dataset, closest)]
                when = TIMINGS[timing]
                if timing == STATED:
                    when += ", the timing that the paper states"
                    stated = (
                        f"{SCORINGS[name]} {fmt.with_interval(met.rms, met.rms_half)}"
                        for name, met in stated_agreements(studies, dataset).items()
                    )
                    parts.append(f"With tuned stepsizes, as the paper states: {', '.join(stated)}.")
                yield f"- {fmt.dataset_name(dataset)}, {when}: {' '.join(parts)}"


def _by_table(studies: Studies, dataset: str, protocol: Protocol) -> Iterator[str]:
    """A sentence if a protocol beats `always S2S` in one table of a data set but not in the
    other."""
    found = cell_gaps(for_dataset(studies, dataset), protocol)
    results: dict[bool, str] = {}
    cells = printed_cells()
    for name, printed in cells[cells["dataset"] == dataset].groupby("table"):
        met, always = ag.agreement(found, printed), ag.baselines(printed)[ag.ALWAYS_S2S]
        results[met.beats(always)] = (
            f"along {fmt.SYMBOLS[TABLE_AXES[str(name)]]} "
            f"({fmt.with_interval(met.rms, met.rms_half)} against {fmt.decimal(always.rms)})"
        )
    if len(results) > 1:
        yield f"Table by table it beats `always S2S` {results[True]}, but not {results[False]}."


def _verdict(ranked: Ranked, baseline: Mapping[str, Agreement]) -> str:
    """Sentences on the closest protocol, compared with the baselines, and on signs."""
    protocol, met = next(iter(ranked.items()))
    zero, always = baseline[ag.ZERO], baseline[ag.ALWAYS_S2S]
    closest = f"{_without_timing(protocol)}, at {fmt.with_interval(met.rms, met.rms_half)} points"
    bars = f"`zero` ({fmt.decimal(zero.rms)})", f"`always S2S` ({fmt.decimal(always.rms)})"
    beaten = [bar for bar, one in zip(bars, (zero, always), strict=True) if met.beats(one)]
    if not beaten and met.rms > zero.rms:
        text = (
            f"**no protocol is closer to the printed gaps than {bars[0]}**; the closest is "
            f"{closest}"
        )
        if met.without_noise < zero.rms:
            text += (
                f" ({fmt.decimal(met.without_noise)} without the noise of our seeds, so more seeds "
                "may bring it closer than zero)"
            )
    elif not beaten:
        text = f"no protocol is clearly closer than {' or '.join(bars)}; the closest is {closest}"
    elif len(beaten) == 1:
        (other,) = (bar for bar in bars if bar not in beaten)
        text = f"the closest, {closest}, beats {beaten[0]}, but not clearly {other}"
    else:
        text = f"the closest, {closest}, beats {' and '.join(bars)}"
    best_signs = max(
        ag.with_most_cells(ranked).values(),
        key=lambda one: one.signs.fraction if one.signs.of else -1,
    )
    return (
        f"{text}. The best protocol by signs matches {fmt.equal_signs(best_signs)} printed signs; "
        f"`always S2S` matches {fmt.equal_signs(always)}."
    )
