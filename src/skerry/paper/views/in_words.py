"""Data sets, regimes, numbers and agreements as the tables of the reproduction write them."""

import math

from skerry.paper.protocol import TELLING, Agreement
from skerry.report.text import NOTHING, plus_minus

DATASET_WORDS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


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


# How far gaps agree with the printed ones

AGREEMENT_HEADER = ("signs", "clear", "dashes", "distance", "ranks")
AGREEMENT_SIDES = "rrrrr"
AGREEMENT_NOTE = (
    f"Signs: of printed gaps beyond {TELLING:g} points, how many have the same sign here. Clear: "
    "of those, only where our gap exceeds its standard error. Dashes: of the gaps that the paper "
    "prints as -- (below their standard error), how many are within ours too. Distance: root mean "
    "square difference from the printed gaps, in points. Ranks: Spearman's correlation between "
    "printed and found gaps."
)


def agreement_cells(found: Agreement) -> tuple[str, ...]:
    tallies = (found.signs, found.clear, found.ties)
    return (
        *(out_of(one.agree, one.of) if one.of else NOTHING for one in tallies),
        plain_number(found.rms),
        plain_number(found.rank_correlation),
    )


def signs(found: Agreement) -> str:
    """`40 of 44`."""
    return out_of(found.signs.agree, found.signs.of)
