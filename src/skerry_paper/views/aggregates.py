"""View of tables 1 and 2: statistics of the gaps of a regime along one axis.

Each row is shown as printed, recomputed from the printed cells of tables 3 to 6, and as measured.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple

import pandas as pd

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import estimate, t_test
from skerry.report.text import NOTHING, Sheet
from skerry_paper.agreement import ALWAYS_S2S, clear_gaps
from skerry_paper.plans import DATASETS
from skerry_paper.printed import (
    REGIME,
    REGIMES,
    TABLE_AXES,
    Along,
    in_table,
    printed_aggregates,
    printed_cells,
)
from skerry_paper.protocol import SHOWN_PROTOCOLS, SMALL_GAP, cell_gaps
from skerry_paper.study import Studies
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import View

COLUMNS = [
    *(*REGIME, "cells", "s2s", "s2a", "tie", "clear"),
    *("gap_mean", "gap_se", "p_value", "gap_max", "at"),
]
NOTE = (
    "Each row is over 12 cells: four values along the axis, three topologies. S2S/S2A/--: number "
    "of cells in which each is ahead, by the paper's rule, for which a gap below its standard "
    "error is --. Clear: cells in which S2S and S2A are ahead by a paired t test over seeds at a "
    f"false discovery rate of {LEVEL} over the row. Gap: mean over cells ± its standard "
    "error, as printed. p: of a t test over cells. Largest: the largest gap of a cell. Final is "
    "the timing that the paper states; last 20 is the mean of the last 20 rounds. "
    "Recomputed rows use the cells that Tables 3 to 6 print, with dashes as zero."
)
FIFTEEN_CELLS_NOTE = (
    "Table 1 agrees with the printed cells only if three zeros are added to each row, for K/n = 1, "
    "where S2S and S2A are the same: it averages 15 cells, not 12."
)


class Source(NamedTuple):
    """Rows of a table and the name of where they come from."""

    name: str
    rows: pd.DataFrame


class Percent(NamedTuple):
    """Percentages of cells."""

    s2s: float
    s2a: float
    tie: float


def aggregates_view(target: Target, studies: Studies) -> View:
    """For every regime the printed row, the row recomputed from printed cells, and ours."""
    along = TABLE_AXES[target.name]
    printed = printed_aggregates()
    printed = printed[printed["table"] == target.name]
    theirs = list(_printed_sources(along, printed))
    there = list(studies.values())
    ours = [
        Source(one.short, aggregate_gaps(cell_gaps(there, one), along)) for one in SHOWN_PROTOCOLS
    ]
    large = printed[printed["gap_mean"].abs() > SMALL_GAP]
    always = fmt.out_of(int((large["gap_mean"] > 0).sum()), len(large))
    signs = "; ".join(
        [*(f"{one.name} {_signs(one.rows, printed)}" for one in ours), f"{ALWAYS_S2S} {always}"]
    )
    sheets = [_sheet(dataset, [*theirs, *ours]) for dataset in DATASETS
              if any((one.rows["dataset"] == dataset).any() for one in ours)]  # fmt: skip
    notes = (NOTE, FIFTEEN_CELLS_NOTE) if along == "share" else (NOTE,)
    verdict = f"Mean gaps above {SMALL_GAP:g} points with the printed sign: {signs}."
    return View(target, verdict, (*sheets, _wins_sheet([*theirs, *ours]), *notes))


def _printed_sources(along: Along, printed: pd.DataFrame) -> Iterator[Source]:
    cells = printed_cells()
    yield Source("printed", printed)
    yield Source("recomputed", recompute_aggregates(cells, along))
    if along == "share":
        yield Source("recomputed, 15 cells", recompute_aggregates(cells, along, cells=15))


# The rows


def aggregate_gaps(found: pd.DataFrame, along: Along) -> pd.DataFrame:
    """The rows of table 1 or 2 from measured gaps. By the paper's rule a gap below its standard
    error counts as a tie; it enters the mean unchanged. `clear` counts by a t test instead."""
    tied = (found["gap"].abs() < found["se"]) | (found["gap"] == 0)
    return _rows(found.assign(tied=tied), along)


def recompute_aggregates(
    printed_cells: pd.DataFrame, along: Along, cells: Literal[12, 15] = 12
) -> pd.DataFrame:
    """The rows of table 1 or 2 from printed cells, with dashes as zero. With 15 cells, three zeros
    are added: the topologies at K/n = 1."""
    dash = printed_cells["gap"].isna()
    found = printed_cells.assign(gap=printed_cells["gap"].fillna(0.0), tied=dash)
    tables = [name for name, axis in TABLE_AXES.items() if axis == along]
    return _rows(found[found["table"].isin(tables)], along, zeros=cells - 12)


def win_percentages(rows: pd.DataFrame) -> Percent:
    """Percentage of cells in which each primitive is ahead."""
    counts = rows[["s2s", "s2a", "tie"]].sum()
    return Percent(*(100 * counts / counts.sum()).tolist())


def _rows(found: pd.DataFrame, along: Along, zeros: int = 0) -> pd.DataFrame:
    regimes = in_table(found, along).groupby(REGIME, sort=False)
    rows = [[*regime, *_row(cells, along, zeros)] for regime, cells in regimes]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(cells: pd.DataFrame, along: Along, zeros: int) -> list[Any]:
    decided = cells.loc[~cells["tied"], "gap"]
    found = [*cells["gap"], *[0.0] * zeros]
    mean = estimate(found)
    largest = cells.iloc[int(cells["gap"].abs().to_numpy().argmax())]
    return [
        len(found),
        int((decided > 0).sum()),
        int((decided < 0).sum()),
        int(cells["tied"].sum()),
        _clear_leads(cells) if "p" in cells else NOTHING,
        mean.mean,
        mean.standard_error,
        float(t_test([found])[0]),
        float(largest["gap"]),
        f"{largest[along]:g}, {largest['topology']}",
    ]


def _clear_leads(cells: pd.DataFrame) -> str:
    """Numbers of cells in which S2S and S2A lead clearly, such as `3/0`."""
    leads = cells.loc[clear_gaps(cells), "gap"]
    return f"{(leads > 0).sum()}/{(leads < 0).sum()}"


# As text


def _sheet(dataset: str, sources: Sequence[Source]) -> Sheet:
    header = ("intra / inter", "from", "S2S/S2A/--", "clear", "gap", "p", "largest", "at")
    rows = []
    for regime in REGIMES.values():
        for number, source in enumerate(sources):
            row = _row_of(source.rows, (dataset, *regime))
            name = fmt.regime_short(*regime) if number == 0 else ""
            rows.append((name, source.name, *_cells(row)))
    return Sheet(fmt.dataset_name(dataset), header, tuple(rows), "llrrrrrl")


def _row_of(rows: pd.DataFrame, regime: tuple[str, ...]) -> Any | None:
    found = rows[(rows[REGIME] == list(regime)).all(axis=1)]
    return found.iloc[0] if len(found) else None


def _cells(row: Any | None) -> tuple[str, ...]:
    if row is None:
        return (NOTHING,) * 6
    p = row["p_value"]
    return (
        f"{row['s2s']}/{row['s2a']}/{row['tie']}",
        row.get("clear", NOTHING),
        fmt.with_error(row["gap_mean"], row["gap_se"]),
        p if isinstance(p, str) else _p_value(p),
        fmt.signed_points(row["gap_max"]),
        row["at"],
    )


def _p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else fmt.decimal(p, 3)


def _signs(ours: pd.DataFrame, printed: pd.DataFrame) -> str:
    both = printed.merge(ours, on=REGIME, suffixes=("_printed", ""))
    large = both[both["gap_mean_printed"].abs() > SMALL_GAP]
    agree = (large["gap_mean_printed"] * large["gap_mean"] > 0).sum()
    return fmt.out_of(int(agree), len(large))


def _wins_sheet(sources: Sequence[Source]) -> Sheet:
    rows = []
    for source in sources:
        if len(source.rows):
            percents = (
                f"{one:.0f} %" if isfinite(one) else NOTHING for one in win_percentages(source.rows)
            )
            cells = int(source.rows[["s2s", "s2a", "tie"]].to_numpy().sum())
            rows.append((source.name, *percents, str(cells)))
    return Sheet(
        "How often each is ahead", ("from", "S2S", "S2A", "--", "cells"), tuple(rows), "lrrrr"
    )
