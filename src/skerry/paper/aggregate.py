"""Tables 1 and 2: the gaps of a regime along one axis, as counts, mean, test and extreme."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skerry.analysis.statistics import estimate, t_test
from skerry.paper.targets import Along

if TYPE_CHECKING:
    import pandas as pd

REGIME = ["dataset", "intra", "inter"]
ROW = [*REGIME, "cells", "s2s", "s2a", "tie", "gap_mean", "gap_se", "p_value", "gap_max", "at"]

TABLE_PERIOD = 5
TABLE_SHARE = 0.2


class Shares(NamedTuple):
    """Percent of configurations."""

    s2s: float
    s2a: float
    tie: float


def aggregate(found: "pd.DataFrame", along: Along) -> "pd.DataFrame":
    """The rows of table 1 (along K/n at H = 5) or table 2 (along H at K/n = 0.2) from gaps that
    were found. A gap below its standard error is a tie, and counts in the mean as it is."""
    tied = (found["gap"].abs() < found["se"]) | (found["gap"] == 0)
    return _rows(found.assign(tied=tied), along)


def recomputed(
    printed_cells: "pd.DataFrame", along: Along, cells: Literal[12, 15] = 12
) -> "pd.DataFrame":
    """The same rows from the cells that the paper prints, a dash as zero. With 15 cells, three
    zeros join them: the topologies at K/n = 1, where S2S and S2A are the same."""
    dash = printed_cells["gap"].isna()
    found = printed_cells.assign(gap=printed_cells["gap"].fillna(0.0), tied=dash)
    name = {"share": ("table3", "table4"), "period": ("table5", "table6")}[along]
    return _rows(found[found["table"].isin(name)], along, zeros=cells - 12)


def shares(rows: "pd.DataFrame") -> Shares:
    """How often each primitive is better, over all cells of these rows."""
    counts = rows[["s2s", "s2a", "tie"]].sum()
    return Shares(*(100 * counts / counts.sum()).tolist())


def on_table(found: "pd.DataFrame", along: Along) -> "pd.DataFrame":
    """The cells of a table: K/n at H = 5, or H at K/n = 0.2; without K = n, where S2S is S2A."""
    if along == "share":
        return found[(found["period"] == TABLE_PERIOD) & (found["share"] < 1)]
    return found[found["share"].round(6) == TABLE_SHARE]


def _rows(found: "pd.DataFrame", along: Along, zeros: int = 0) -> "pd.DataFrame":
    import pandas as pd

    regimes = on_table(found, along).groupby(REGIME, sort=False)
    rows = [[*regime, *_row(cells, along, zeros)] for regime, cells in regimes]
    return pd.DataFrame(rows, columns=ROW)


def _row(cells: "pd.DataFrame", along: Along, zeros: int) -> list[Any]:
    decided = cells.loc[~cells["tied"], "gap"]
    gaps = [*cells["gap"], *[0.0] * zeros]
    mean = estimate(gaps)
    largest = cells.iloc[int(cells["gap"].abs().to_numpy().argmax())]
    return [
        len(gaps),
        int((decided > 0).sum()),
        int((decided < 0).sum()),
        int(cells["tied"].sum()),
        mean.mean,
        mean.standard_error,
        float(t_test([gaps])[0]),
        float(largest["gap"]),
        f"{largest[along]:g}, {largest['topology']}",
    ]
