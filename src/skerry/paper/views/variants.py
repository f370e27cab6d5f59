"""CIFAR-10 in other ways: the network of 1.1 million parameters, and float32 instead of bf16."""

from collections.abc import Mapping

from skerry.paper.pairs import Change, change
from skerry.paper.protocol import SCORED, SHOWN_SCORINGS, SHOWN_TIMINGS
from skerry.paper.study import Study, scored
from skerry.paper.targets import Target
from skerry.paper.views.in_words import out_of, with_error
from skerry.paper.views.view import View
from skerry.report.text import Sheet

USUAL = "cifar10"
OTHERS = {
    "cifar10-main-text": "1.1 million parameters instead of 3.35",
    "cifar10-float32": "float32 instead of bf16",
}
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
        if name not in studies:
            continue
        rows = []
        for timing in SHOWN_TIMINGS:
            for scoring in SHOWN_SCORINGS:
                if found := change(studies[USUAL], studies[name], scored(scoring, timing)):
                    rows.append((f"{SCORED[scoring]}; {timing}", *_cells(found)))
                    told.append(
                        f"{words}, {SCORED[scoring]}, {timing}: "
                        f"{with_error(found.gap.mean, found.gap.standard_error)}"
                    )
        header = (
            "scored",
            "S2S changes by",
            "S2A",
            "the gap",
            "gap, usual",
            "gap, other",
            "same sign",
        )
        sheets.append(Sheet(words.capitalize(), header, tuple(rows), "lrrrrrr"))
    verdict = f"By how much the gap changes. {'; '.join(told)}." if told else "No run is in both."
    return View(target, verdict, (*sheets, NOTE))


def _cells(found: Change) -> tuple[str, ...]:
    parts = (found.s2s, found.s2a, found.gap, found.usual, found.other)
    told = (with_error(one.mean, one.standard_error) for one in parts)
    return *told, out_of(found.same_sign, found.gap.count)
