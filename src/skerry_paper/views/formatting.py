"""Data sets, regimes, numbers and agreements as the tables of the reproduction write them."""

import math
from collections.abc import Iterable, Mapping

import pandas as pd

from skerry.report.text import NOTHING, plural, plus_minus
from skerry_paper.agreement import ALWAYS_S2S, ZERO, Agreement
from skerry_paper.printed import CELL, Along
from skerry_paper.protocol import SCORED, TELLING, TIMED, Protocol

DATASET_WORDS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}

SYMBOLS: dict[Along, str] = {"share": "K/n", "period": "H"}
"""What tables go along."""


def dataset_words(name: str) -> str:
    return DATASET_WORDS.get(name, name)


def regime_words(intra: str, inter: str) -> str:
    """`intra IID, inter non-IID`."""
    return f"intra {_capitals(intra)}, inter {_capitals(inter)}"


def regime_short(intra: str, inter: str) -> str:
    """`IID / non-IID`: intra first, as in the paper's tables."""
    return f"{_capitals(intra)} / {_capitals(inter)}"


def _capitals(split: str) -> str:
    return split.replace("iid", "IID")


def points(value: float, digits: int = 2) -> str:
    """`+1.20`: percentage points in favour of S2S."""
    return f"{value:+z.{digits}f}" if math.isfinite(value) else NOTHING


def with_error(value: float, error: float, digits: int = 2) -> str:
    """`+1.20 ± 0.15`; one seed has no standard error."""
    if not math.isfinite(value):
        return NOTHING
    return plus_minus(value, error, f"+z.{digits}f", f".{digits}f")


def plain_number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else NOTHING


def out_of(part: int, whole: int) -> str:
    """`40 of 44`."""
    return f"{part} of {whole}" if whole else "none to compare"


def stepsizes_tried(sizes: Iterable[float]) -> str:
    """What a choice of the best one was made of."""
    found = [f"{size:.3g}" for size in sorted({*sizes})]
    told = ", ".join(found) if len(found) > 1 else f"{''.join(found)} alone (`protocol` has others)"
    return f"Stepsizes tried in these runs: {told}."


def tried_in_words(runs: pd.DataFrame) -> str:
    """`5 seeds, 4 stepsizes`; or what was run at each stepsize, where that is not the same."""
    rising = runs.sort_values("stepsize")
    tried = {
        str(size): (len(those[CELL].drop_duplicates()), those["seed"].nunique())
        for size, those in rising.groupby(rising["stepsize"].map("{:.3g}".format), sort=False)
    }
    if len({*tried.values()}) == 1:
        return f"{plural(runs['seed'].nunique(), 'seed')}, {plural(len(tried), 'stepsize')}"
    told = (
        f"{size} in {plural(cells, 'cell')} ({plural(seeds, 'seed')})"
        for size, (cells, seeds) in tried.items()
    )
    return f"stepsize {', '.join(told)}"


# How far gaps agree with the printed ones

AGREEMENT_HEADER = ("distance", "ranks", "signs", "clear", "dashes")
AGREEMENT_SIDES = "rrrrr"
AGREEMENT_NOTE = (
    "Distance: root mean square difference from the printed gaps, in points. Ranks: Spearman's "
    "correlation between printed and found gaps. Both ± half of their 95 % interval over seeds, by "
    f"leaving out one after the other. Signs: of printed gaps beyond {TELLING:g} points, how many "
    "have the same sign here. Clear: of those, only where our gap exceeds its standard error. "
    "Dashes: of the gaps that the paper prints as -- (below their standard error), how many are "
    "within ours too. The last rows need no runs: whoever always says S2S, or always S2A, is given "
    "the one gap for all cells that comes closest; zero is no gap at all."
)


def agreement_cells(found: Agreement) -> tuple[str, ...]:
    tallies = (found.signs, found.clear, found.ties)
    return (
        give_or_take(found.rms, found.rms_half),
        give_or_take(found.rank_correlation, found.rank_half),
        *(out_of(one.agree, one.of) if one.of else NOTHING for one in tallies),
    )


def give_or_take(value: float, half: float) -> str:
    """`2.70 ± 0.12`."""
    return plus_minus(value, half, ".2f", ".2f") if math.isfinite(value) else NOTHING


def signs(found: Agreement) -> str:
    """`40 of 44`."""
    return out_of(found.signs.agree, found.signs.of)


def away(found: Agreement) -> str:
    """`0.77 (signs 24 of 26)`."""
    return f"{plain_number(found.rms)} (signs {signs(found)})"


def by_timing(found: Mapping[Protocol, Agreement]) -> str:
    """`final: devices, own labels 0.77 (signs 24 of 26), ...; last 20: ...`."""
    parts = []
    for timing in dict.fromkeys(one.timing for one in found):
        told = (
            f"{SCORED[one.scoring]} {away(met)}"
            for one, met in found.items()
            if one.timing == timing
        )
        parts.append(f"{TIMED[timing]} {', '.join(told)}")
    return "; ".join(parts)


def guesses_in_words(met: Mapping[str, Agreement]) -> str:
    """`zero 0.95, always S2S 0.74 (signs 25 of 26)`."""
    return f"{ZERO} {plain_number(met[ZERO].rms)}, {ALWAYS_S2S} {away(met[ALWAYS_S2S])}"
