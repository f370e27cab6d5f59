"""View of variants of CIFAR-10: the network of 1.1 million parameters, and float32."""

from typing import NamedTuple

import pandas as pd

from skerry.analysis.statistics import Estimate, estimate, t_test
from skerry.report.text import Sheet
from skerry_paper.plan import BOTH
from skerry_paper.printed import CELL
from skerry_paper.protocol import SCORINGS, SHOWN_SCORINGS, SHOWN_TIMINGS
from skerry_paper.study import Studies, StudyData, Timing, score_column
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import View

RUN = [*CELL, "scaling", "optimizer", "dynamic", "rounds", "primitive", "stepsize", "seed"]


class PairedChange(NamedTuple):
    """The change of one measure, other minus usual."""

    s2s: Estimate
    s2a: Estimate
    gap: Estimate
    """Change of S2S minus S2A, over pairs of the same cell and seed."""
    usual: Estimate
    """S2S minus S2A in the usual runs."""
    other: Estimate
    """S2S minus S2A in the other runs."""
    p: float
    """Of the t test of `gap`."""
    same_sign: int
    """Number of pairs whose gap has the same sign in both."""


def paired_change(usual: StudyData, other: StudyData, column: str) -> PairedChange | None:
    """The change of a score column between two studies, paired by run; None without common runs."""
    if not {column} <= {*usual.runs} & {*other.runs}:
        return None
    both = usual.runs[[*RUN, column]].merge(other.runs[[*RUN, column]], on=RUN, suffixes=("", "_2"))
    if both.empty:
        return None
    both["change"] = both[f"{column}_2"] - both[column]
    keys = [name for name in RUN if name != "primitive"]
    gap, gap_2 = (_primitive_gaps(both, keys, name) for name in (column, f"{column}_2"))
    s2s, s2a = (estimate(both.loc[both["primitive"] == name, "change"]) for name in BOTH)
    return PairedChange(
        s2s=s2s,
        s2a=s2a,
        gap=estimate(gap_2 - gap),
        usual=estimate(gap),
        other=estimate(gap_2),
        p=float(t_test([gap_2 - gap])[0]),
        same_sign=int((gap * gap_2 > 0).sum()),
    )


def _primitive_gaps(runs: pd.DataFrame, keys: list[str], column: str) -> "pd.Series[float]":
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
    "Both have the same cells, seeds, minibatches and samples: the ring, K/n = 0.2, H = 5 and 20, "
    "four regimes, stepsize 0.1. Changes are other minus usual, in points ± half of the 95 % "
    "interval over pairs. Rounding changes single runs of the CNN; what matters is whether their "
    "mean moves."
)


def variants_view(target: Target, studies: Studies) -> View:
    """A table per variant with a row per scoring and timing."""
    if USUAL not in studies:
        return View(target, "The usual runs, which these are compared with, are missing.")
    sheets, texts = [], []
    for name, words in OTHERS.items():
        if name in studies:
            found = paired_changes(studies, name)
            rows = tuple((f"{SCORINGS[s]}; {at}", *_cells(one)) for (s, at), one in found.items())
            sheets.append(Sheet(words.capitalize(), HEADER, rows, "lrrrrrr"))
            gaps = (
                f"{SCORINGS[s]}, {at} {fmt.estimate_text(one.gap)}"
                for (s, at), one in found.items()
            )
            texts.append(f"{words}: {', '.join(gaps)}")
    verdict = f"Change of the gap. {'; '.join(texts)}." if texts else "There are no common runs."
    return View(target, verdict, (*sheets, NOTE))


def paired_changes(studies: Studies, name: str) -> dict[tuple[str, Timing], PairedChange]:
    """The change between the usual study and this one, by scoring and timing."""
    found = {
        (scoring, timing): paired_change(
            studies[USUAL], studies[name], score_column(scoring, timing)
        )
        for timing in SHOWN_TIMINGS
        for scoring in SHOWN_SCORINGS
    }
    return {key: one for key, one in found.items() if one}


def _cells(found: PairedChange) -> tuple[str, ...]:
    parts = (found.s2s, found.s2a, found.gap, found.usual, found.other)
    return *map(fmt.estimate_text, parts), fmt.out_of(found.same_sign, found.gap.count)
