"""What the paper may have scored: every protocol against the printed tables, and what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TypeAlias

from skerry.paper.protocol import SCORED, TELLING, Agreement, Protocol, agreements, gaps
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.report.paper.agreements import HEADER, NOTE, SIDES, agreement_cells, signs
from skerry.report.paper.cells import SHOWN, dataset_words, reading
from skerry.report.paper.numbers import of, plain_number
from skerry.report.paper.protocol_picture import protocol_picture
from skerry.report.paper.shown import Content, Picture
from skerry.report.sheets import Sheet

ALL = (
    "The paper prints gaps of test accuracy and leaves open of which model, on which data, in "
    "which rounds, at which stepsize and with which scaling of the inputs. A row is one answer; "
    "those that answer most printed cells come first, then those with more of the printed signs, "
    "then those closer to the printed numbers. The best of many is picked: among rows that differ "
    "little, chance may decide."
)

DECIDES = {True: "What is scored decides who wins.", False: "Both scorings agree on who wins."}
LEADS = (
    "Leads are over all cells with K < n, means of the last 20 rounds, at the best stepsize of "
    f"each cell and primitive; up to {TELLING:g} points they count as none."
)
PICTURED = (
    "Each point is a protocol; the best fit is top left. The dotted line is what a coin would "
    "meet. Points of one colour differ in timing, stepsize and scaling."
)
ISLANDS = {"non-iid": "differ", "iid": "are alike"}
WANTED = {
    "own_accuracy": "devices that know their own labels",
    "average_accuracy": "one model that knows all labels",
}
Found: TypeAlias = Mapping[str, Sequence[Agreement]]


@dataclass(frozen=True)
class Lead:
    """Who is ahead on a data set, over all cells of an inter split."""

    dataset: str
    inter: str
    scoring: str
    mean: float
    ahead: int
    cells: int

    @classmethod
    def of(cls, studies: Sequence[Study], dataset: str, inter: str, scoring: str) -> "Lead":
        found = gaps(studies, reading(scoring))
        gap = found.loc[(found["inter"] == inter) & (found["share"] < 1), "gap"]
        mean = float(gap.mean()) if len(gap) else nan
        return cls(dataset, inter, scoring, mean, int((gap * mean > 0).sum()), len(gap))

    @property
    def leader(self) -> str:
        if abs(self.mean) <= TELLING:
            return "either"
        return "S2S" if self.mean > 0 else "S2A"

    @property
    def words(self) -> str:
        if not self.cells:
            return f"{SCORED[self.scoring]} not run"
        higher = "S2S" if self.mean > 0 else "S2A"
        points = f"{abs(self.mean):.2f} points on average"
        ahead = of(self.ahead, self.cells)
        return f"{SCORED[self.scoring]}, {higher} by {points}, ahead in {ahead} cells"


def protocol_table(target: Target, studies: Mapping[str, Study]) -> Content:
    """What follows in words; then every protocol that the studies can answer, per data set."""
    found = found_agreements(studies)
    if not found:
        return Content("No run is of a cell that the paper prints.")
    told = "; ".join(f"{dataset_words(name)}: {_told(rows[0])}" for name, rows in found.items())
    sheets = [_sheet(name, rows) for name, rows in found.items()]
    about = "Every protocol: signs of the paper's tables that it meets, and its distance from them"
    picture = Picture(target.name, protocol_picture(found, about), about)
    conclusion = conclusions(studies, found)
    return Content(f"Best fit. {told}.", (conclusion, picture, PICTURED, *sheets, ALL, NOTE))


def found_agreements(studies: Mapping[str, Study]) -> Found:
    """By data set, every protocol that meets a printed cell, the best first."""
    every = list(studies.values())
    datasets = dict.fromkeys(name for study in every for name in study.runs["dataset"])
    found = {name: [one for one in agreements(every, name) if one.cells] for name in datasets}
    return {name: rows for name, rows in found.items() if rows}


def conclusions(studies: Mapping[str, Study], found: Found) -> str:
    """In Markdown: what fits the printed tables, what does not, who leads where, what to choose."""
    lines: list[str] = []
    leads: list[Lead] = []
    for dataset, rows in found.items():
        best, *others = _best_by_scoring(rows)
        name = dataset_words(dataset)
        lines.append(f"- {name}: the printed gaps fit best if what counts is {_told(best)}.")
        if others:
            lines.append(f"- {name}, other scorings at their best:")
            lines += [f"  - {_told(one)}" for one in others]
        ours = [study.of(dataset=dataset) for study in studies.values()]
        for inter, where in ISLANDS.items():
            here = [Lead.of(ours, dataset, inter, scoring) for scoring in SHOWN]
            leads += [one for one in here if one.cells]
            told = "; ".join(one.words for one in here)
            lines.append(f"- {name}, where islands {where}: {told}.")
    told = f"{DECIDES[_depends(leads)]} {LEADS}"
    advice = [f"- {_advice(scoring, leads)}" for scoring in SHOWN]
    return "\n".join([told, "", *lines, *advice])


def _best_by_scoring(rows: Sequence[Agreement]) -> list[Agreement]:
    """The first row of each scoring, in the order of the rows."""
    first: dict[str, Agreement] = {}
    for one in rows:
        assert one.protocol is not None
        first.setdefault(one.protocol.scoring, one)
    return list(first.values())


def _told(one: Agreement) -> str:
    assert one.protocol is not None
    distance = "" if isnan(one.rms) else f", {plain_number(one.rms)} points away"
    return f"{one.protocol.words} (signs {signs(one)}{distance})"


def _advice(scoring: str, leads: Sequence[Lead]) -> str:
    """`Who wants one model that knows all labels takes S2A where islands differ, ...`."""
    told = []
    for inter, where in ISLANDS.items():
        here = [one for one in leads if (one.scoring, one.inter) == (scoring, inter)]
        who = dict.fromkeys(one.leader for one in here)
        split = ", ".join(f"{one.leader} on {dataset_words(one.dataset)}" for one in here)
        told.append(
            f"{next(iter(who)) if len(who) == 1 else split or 'not run'} where islands {where}"
        )
    return f"Who wants {WANTED[scoring]} takes {', '.join(told)}."


def _depends(leads: Sequence[Lead]) -> bool:
    """Whether on some data set and split S2S leads under one scoring and S2A under another."""
    leaders: dict[tuple[str, str], set[str]] = {}
    for one in leads:
        leaders.setdefault((one.dataset, one.inter), set()).add(one.leader)
    return any({"S2S", "S2A"} <= who for who in leaders.values())


def _sheet(dataset: str, rows: Sequence[Agreement]) -> Sheet:
    cells = []
    for one in rows:
        assert one.protocol is not None
        cells.append((*_protocol_cells(one.protocol), str(one.cells), *agreement_cells(one)))
    header = ("scored", "when", "stepsize", "inputs", "cells", *HEADER)
    title = f"{dataset_words(dataset)}: every protocol"
    return Sheet(title, header, tuple(cells), f"llllr{SIDES}")


def _protocol_cells(protocol: Protocol) -> tuple[str, ...]:
    stepsize = protocol.stepsize
    return (
        SCORED[protocol.scoring],
        protocol.timing,
        stepsize if isinstance(stepsize, str) else f"{stepsize:.3g}",
        {"standard": "standard", "unit": "[0, 1]"}[protocol.scaling],
    )
