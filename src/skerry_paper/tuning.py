"""Runs at their best stepsize: the rule is `best_place`, as everywhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.statistics import Array, best_place

if TYPE_CHECKING:
    import pandas as pd

Rows = NDArray[np.int64]

NO_RUN = -1


def at_best_stepsize(runs: "pd.DataFrame", column: str, by: Sequence[str] = ()) -> "pd.DataFrame":
    """Of each group of runs those at the stepsize that is best for this very column, as one would
    choose it who tried several on the same seeds: the rule is `best_place`."""
    if runs.empty:
        return runs
    group = runs.groupby([*by]).ngroup().to_numpy() if by else np.zeros(len(runs), dtype=int)
    stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)[1]
    seed = np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1]
    row_gvs = rows_by(group, stepsize, seed)
    choice_g = best_place(read_rows(runs, column, row_gvs), row_gvs != NO_RUN)
    best: pd.DataFrame = runs[stepsize == choice_g[group]]
    return best


def rows_by(*codes: NDArray[Any]) -> Rows:
    """Rows as an array, by their number along each axis; NO_RUN where there is none."""
    rows = np.full([code.max(initial=-1) + 1 for code in codes], NO_RUN)
    rows[codes] = np.arange(len(codes[0]))
    return rows


def read_rows(runs: "pd.DataFrame", column: str, rows: Rows) -> Array:
    """A column in the places of the rows; NaN where there is no run or no value."""
    if column not in runs or runs.empty:
        return np.full(rows.shape, np.nan)
    return np.where(rows != NO_RUN, runs[column].to_numpy(dtype=float)[rows], np.nan)
