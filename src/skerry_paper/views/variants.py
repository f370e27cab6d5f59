"""CIFAR-10 in other ways: the network of 1.1 million parameters, and float32 instead of bf16."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from skerry.analysis.statistics import Estimate, estimate
from skerry.report.text import Sheet
from skerry_paper.plan import BOTH
from skerry_paper.printed import CELL
from skerry_paper.protocol import SCORED, SHOWN_SCORINGS, SHOWN_TIMINGS
from skerry_paper.study import Study, Timing, scored
from skerry_paper.targets import Target
from skerry_paper.views.formatting import out_of, with_error
from skerry_paper.views.view import View

RUN = [*CELL, "scaling", "optimizer", "dynamic", "rounds", "primitive", "stepsize", "seed"]


class Change(NamedTuple):
    """Of one measure, other minus usual."""

    s2s: Estimate
    s2a: Estimate
    gap: Estimate
    """Of S2S minus S2A; over pairs of the same cell and seed."""
    usual: Estimate
    other: Estimate
    """The gaps themselves."""
    same_sign: int
    """Pairs whose gap has the same sign in both ways."""


def change(usual: Study, other: Study, column: str) -> Change | None:
    """None where no run is in both."""
    if not {column} <= {*usual.runs} & {*other.runs}:
        return None
    both = usual.runs[[*RUN, column]].merge(other.runs[[*RUN, column]], on=RUN, suffixes=("", "_2"))
    if both.empty:
        return None
    both["change"] = both[f"{column}_2"] - both[column]
    keys = [name for name in RUN if name != "primitive"]
    gap, gap_2 = (_gaps(both, keys, name) for name in (column, f"{column}_2"))
    s2s, s2a = (estimate(both.loc[both["primitive"] == name, "change"]) for name in BOTH)
    return Change(
        s2s=s2s,
        s2a=s2a,
        gap=estimate(gap_2 - gap),
        usual=estimate(gap),
        other=estimate(gap_2),
        same_sign=int((gap * gap_2 > 0).sum()),
    )


def _gaps(runs: pd.DataFrame, keys: list[str], column: str) -> "pd.Series[float]":
    wide = runs.pivot_table(index=keys, columns="primitive", values=column).reindex(
        columns=list(BOTH)
    )
    found: pd.Series[float] = wide["s2s"] - wide["s2a"]
    return found


USUAL = "cifar10"
OTHERS = {
    "cifar10-main-text": "1.1 million parameters instead of 3.35",
    "cifar10-float32": "float32 instead of bf16",
}
HEADER = ("scored", "S2S changes by", "S2A", "the gap", "gap, usual", "gap, other", "same sign")
NOTE = (
    "The same cells, seeds, minibatches and samples in both ways: the ring, K/n = 0.2, H = 5 and "
    "20, four regimes, stepsize 0.1. Changes are the other way minus the usual one, ± standard "
    "error over pairs, in points. Another rounding sends single runs of the CNN elsewhere; what "
    "counts is whether their mean moves."
)


def variants(target: Target, studies: Mapping[str, Study]) -> View:
    if USUAL not in studies:
        return View(target, "The usual runs, beside which these stand, are not there.")
    sheets, told = [], []
    for name, words in OTHERS.items():
        if name in studies:
            found = changes(studies, name)
            rows = tuple((f"{SCORED[s]}; {at}", *_cells(one)) for (s, at), one in found.items())
            sheets.append(Sheet(words.capitalize(), HEADER, rows, "lrrrrrr"))
            gaps = (f"{SCORED[s]}, {at} {in_points(one)}" for (s, at), one in found.items())
            told.append(f"{words}: {', '.join(gaps)}")
    verdict = f"By how much the gap changes. {'; '.join(told)}." if told else "No run is in both."
    return View(target, verdict, (*sheets, NOTE))


def changes(studies: Mapping[str, Study], name: str) -> dict[tuple[str, Timing], Change]:
    """By how it is scored and when: what this study has otherwise than the usual one."""
    found = {
        (scoring, timing): change(studies[USUAL], studies[name], scored(scoring, timing))
        for timing in SHOWN_TIMINGS
        for scoring in SHOWN_SCORINGS
    }
    return {key: one for key, one in found.items() if one}


def in_points(one: Change) -> str:
    """The change of the gap."""
    return with_error(one.gap.mean, one.gap.standard_error)


def _cells(found: Change) -> tuple[str, ...]:
    parts = (found.s2s, found.s2a, found.gap, found.usual, found.other)
    told = (with_error(one.mean, one.standard_error) for one in parts)
    return *told, out_of(found.same_sign, found.gap.count)
