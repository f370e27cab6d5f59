"""Text of data sets, regimes, numbers and agreements in the tables of the reproduction."""

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import Estimate
from skerry.report.text import NOTHING, plural, plus_minus
from skerry_paper.agreement import ALWAYS_S2S, ZERO, Agreement
from skerry_paper.printed import CELL, Along
from skerry_paper.protocol import SCORINGS, SMALL_GAP, TIMINGS, Protocol

DATASET_NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}

SYMBOLS: dict[Along, str] = {"share": "K/n", "period": "H"}
"""Symbol of the axis of a table."""


def dataset_name(name: str) -> str:
    return DATASET_NAMES.get(name, name)


def regime_name(intra: str, inter: str) -> str:
    """`intra IID, inter non-IID`."""
    return f"intra {_capitals(intra)}, inter {_capitals(inter)}"


def regime_short(intra: str, inter: str) -> str:
    """`IID / non-IID`: intra first, as in the paper's tables."""
    return f"{_capitals(intra)} / {_capitals(inter)}"


def _capitals(split: str) -> str:
    return split.replace("iid", "IID")


def signed_points(value: float, digits: int = 2) -> str:
    """Percentage points with a sign, such as `+1.20`."""
    return f"{value:+z.{digits}f}" if math.isfinite(value) else NOTHING


def with_error(value: float, error: float, digits: int = 2) -> str:
    """Points with half of their 95 % interval, or with an error, such as `+1.20 ± 0.15`."""
    if not math.isfinite(value):
        return NOTHING
    return plus_minus(value, error, f"+z.{digits}f", f".{digits}f")


def estimate_text(found: Estimate) -> str:
    """A mean in points with half of its 95 % interval, such as `+1.20 ± 0.15`."""
    return with_error(found.mean, found.half_width)


def decimal(value: float, digits: int = 2) -> str:
    """A number with fixed decimals, such as `1.20`."""
    return f"{value:z.{digits}f}" if math.isfinite(value) else NOTHING


def out_of(part: int, whole: int) -> str:
    """A count, such as `40 of 44`."""
    return f"{part} of {whole}" if whole else "none to compare"


def stepsizes_tried(sizes: Iterable[float]) -> str:
    """A sentence with the stepsizes that were tried."""
    tried = [f"{size:.3g}" for size in sorted({*sizes})]
    text = ", ".join(tried) if len(tried) > 1 else f"only {''.join(tried)} (`protocol` has others)"
    return f"Stepsizes tried in these runs: {text}."


def edge_choices(cells: Iterable[pd.DataFrame], primitives: int = 2) -> str:
    """How many choices of a stepsize in frames of `cell_gaps` are at an end of the tried range."""
    tried = [one[one["tried"] > 1] for one in cells if len(one)]
    of = primitives * sum(int(one["seeds"].sum()) for one in tried)
    return out_of(sum(int(one["at_edge"].sum()) for one in tried), of) if of else ""


def edges_sentence(cells: Iterable[pd.DataFrame], primitives: int = 2) -> str:
    """A sentence with `edge_choices`, or nothing where there was no choice."""
    found = edge_choices(cells, primitives)
    return f" Choices of the smallest or largest stepsize tried: {found}." if found else ""


def describe_tuning(runs: pd.DataFrame) -> str:
    """`5 seeds, 4 stepsizes`, or the cells and seeds of each stepsize where they differ."""
    rising = runs.sort_values("stepsize")
    tried = {
        str(size): (len(those[CELL].drop_duplicates()), those["seed"].nunique())
        for size, those in rising.groupby(rising["stepsize"].map("{:.3g}".format), sort=False)
    }
    if len({*tried.values()}) == 1:
        return f"{plural(runs['seed'].nunique(), 'seed')}, {plural(len(tried), 'stepsize')}"
    parts = (
        f"{size} in {plural(cells, 'cell')} ({plural(seeds, 'seed')})"
        for size, (cells, seeds) in tried.items()
    )
    return f"stepsize {', '.join(parts)}"


# Agreement with the printed gaps

AGREEMENT_HEADER = ("distance", "ranks", "signs", "clear", "dashes")
AGREEMENT_SIDES = "rrrrr"
AGREEMENT_NOTE = (
    "Distance: root mean square difference from the printed gaps, in points. Ranks: Spearman's "
    "correlation of printed and measured gaps. Both ± half of the 95 % interval over seeds "
    f"(jackknife). Signs: how many of the printed gaps above {SMALL_GAP:g} points have the same "
    "sign here. Clear: the same, only where our gap is clear: a paired t test over seeds at a "
    f"false discovery rate of {LEVEL} over the cells. Dashes: how many of the gaps that the paper "
    "prints as -- (below their standard error) are not clear here either. The last rows are "
    "baselines that need no runs: `always S2S` and `always S2A` predict the same gap for all "
    "cells, the best value with that sign; `zero` predicts no gap. A configuration that is "
    "printed in two tables (K/n = 0.2, H = 5) counts once, with the mean of both values."
)


def agreement_cells(found: Agreement) -> tuple[str, ...]:
    """The cells of a table row under AGREEMENT_HEADER."""
    tallies = (found.signs, found.clear, found.ties)
    return (
        with_interval(found.rms, found.rms_half),
        with_interval(found.rank_correlation, found.rank_half),
        *(out_of(one.agree, one.of) if one.of else NOTHING for one in tallies),
    )


def with_interval(value: float, half: float) -> str:
    """A number with the half-width of its interval, such as `2.70 ± 0.12`."""
    return plus_minus(value, half, ".2f", ".2f") if math.isfinite(value) else NOTHING


def equal_signs(found: Agreement) -> str:
    """Number of equal signs, such as `40 of 44`."""
    return out_of(found.signs.agree, found.signs.of)


def distance_and_signs(found: Agreement) -> str:
    """Distance and equal signs, such as `0.77 (signs 24 of 26)`."""
    return f"{decimal(found.rms)} (signs {equal_signs(found)})"


def distances_by_timing(found: Mapping[Protocol, Agreement]) -> str:
    """`final round devices, own labels 0.77 (signs 24 of 26), ...; ...`."""
    parts = []
    for timing in dict.fromkeys(one.timing for one in found):
        distances = (
            f"{SCORINGS[one.scoring]} {distance_and_signs(met)}"
            for one, met in found.items()
            if one.timing == timing
        )
        parts.append(f"{TIMINGS[timing]} {', '.join(distances)}")
    return "; ".join(parts)


def baseline_distances(met: Mapping[str, Agreement]) -> str:
    """Distances of two baselines: `zero 0.95, always S2S 0.74 (signs 25 of 26)`."""
    return f"{ZERO} {decimal(met[ZERO].rms)}, {ALWAYS_S2S} {distance_and_signs(met[ALWAYS_S2S])}"
