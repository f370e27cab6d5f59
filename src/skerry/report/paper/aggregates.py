"""Tables 1 and 2: gaps aggregated over topologies, as printed, recomputed, and ours."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from skerry.paper.aggregate import aggregate, recomputed, shares
from skerry.paper.printed import printed_aggregates, printed_cells
from skerry.paper.protocol import SCORED, TELLING, gaps
from skerry.paper.study import Study
from skerry.paper.targets import Along, Target
from skerry.report.paper.cells import (
    DATASETS,
    REGIMES,
    SHOWN,
    dataset_words,
    reading,
    regime_short,
)
from skerry.report.paper.numbers import NOTHING, of, plain_number, points, with_error
from skerry.report.paper.shown import Content
from skerry.report.sheets import Sheet

if TYPE_CHECKING:
    import pandas as pd

NOTE = (
    "Each row is over 12 cells: four values along the axis, three topologies. S2S/S2A/--: cells in "
    "which each is ahead, and cells whose gap is below its standard error. Gap: the mean over "
    "cells ± its standard error; p: of a t test over cells; largest: the largest gap of a cell. "
    "Recomputed rows take the cells that Tables 3 to 6 print, a dash as zero."
)
FIFTEEN = (
    "Table 1 is met by the printed cells only with three zeros added to each row, for K/n = 1, "
    "where S2S and S2A are the same: it averages 15 cells, not 12."
)


class Source(NamedTuple):
    """Where rows come from."""

    name: str
    rows: "pd.DataFrame"


def aggregates(target: Target, studies: Mapping[str, Study]) -> Content:
    """For every regime the printed row, what its cells recompute to, and ours."""
    assert target.along is not None
    printed = printed_aggregates()
    printed = printed[printed["table"] == target.name]
    sources = list(_sources(target.along, printed, studies))
    ours = [source for source in sources if source.name in SCORED.values()]
    told = "; ".join(f"{one.name} {_signs(one.rows, printed)}" for one in ours)
    sheets = [_sheet(dataset, sources) for dataset in DATASETS
              if any((one.rows["dataset"] == dataset).any() for one in ours)]  # fmt: skip
    notes = (NOTE, FIFTEEN) if target.along == "share" else (NOTE,)
    verdict = f"Mean gaps beyond {TELLING:g} points with the printed sign: {told}."
    return Content(verdict, (*sheets, _shares(sources), *notes))


def _sources(
    along: Along, printed: "pd.DataFrame", studies: Mapping[str, Study]
) -> Iterator[Source]:
    cells = printed_cells()
    yield Source("printed", printed)
    yield Source("recomputed", recomputed(cells, along))
    if along == "share":
        yield Source("recomputed, 15 cells", recomputed(cells, along, cells=15))
    for scoring in SHOWN:
        yield Source(
            SCORED[scoring], aggregate(gaps(list(studies.values()), reading(scoring)), along)
        )


def _sheet(dataset: str, sources: Sequence[Source]) -> Sheet:
    header = ("intra / inter", "from", "S2S/S2A/--", "gap", "p", "largest", "at")
    rows = []
    for regime in REGIMES.values():
        for number, source in enumerate(sources):
            row = _row_of(source.rows, (dataset, *regime))
            name = regime_short(*regime) if number == 0 else ""
            rows.append((name, source.name, *_cells(row)))
    return Sheet(dataset_words(dataset), header, tuple(rows), "llrrrrl")


def _row_of(rows: "pd.DataFrame", key: tuple[str, str, str]) -> Any | None:
    found = rows[
        (rows["dataset"] == key[0]) & (rows["intra"] == key[1]) & (rows["inter"] == key[2])
    ]
    return found.iloc[0] if len(found) else None


def _cells(row: Any | None) -> tuple[str, ...]:
    if row is None:
        return (NOTHING,) * 5
    p = row["p_value"]
    return (
        f"{row['s2s']}/{row['s2a']}/{row['tie']}",
        with_error(row["gap_mean"], row["gap_se"]),
        p if isinstance(p, str) else _p_value(p),
        points(row["gap_max"]),
        row["at"],
    )


def _p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else plain_number(p, 3)


def _signs(ours: "pd.DataFrame", printed: "pd.DataFrame") -> str:
    both = printed.merge(ours, on=["dataset", "intra", "inter"], suffixes=("_printed", ""))
    telling = both[both["gap_mean_printed"].abs() > TELLING]
    agree = (telling["gap_mean_printed"] * telling["gap_mean"] > 0).sum()
    return of(int(agree), len(telling))


def _shares(sources: Sequence[Source]) -> Sheet:
    rows = []
    for source in sources:
        if len(source.rows):
            found = shares(source.rows)
            told = (f"{one:.0f} %" if isfinite(one) else NOTHING for one in found)
            cells = int(source.rows[["s2s", "s2a", "tie"]].to_numpy().sum())
            rows.append((source.name, *told, str(cells)))
    return Sheet(
        "How often each is ahead", ("from", "S2S", "S2A", "--", "cells"), tuple(rows), "lrrrr"
    )
