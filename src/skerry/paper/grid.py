"""The runs of studies as an array over cell, primitive, stepsize and seed, so that any way of
scoring them is a few array operations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.statistics import Array, best_place, estimates, moments
from skerry.paper.printed import CELL
from skerry.paper.study import FACTORS, Study

if TYPE_CHECKING:
    import pandas as pd

Mask = NDArray[np.bool_]
Stepsize = float | Literal["tuned"]

BOTH = ("s2s", "s2a")
NONE = -1
FOUND = ["s2s", "s2a", "gap", "se", "low", "high", "seeds", "stepsize_s2s", "stepsize_s2a", "tried"]


@dataclass(frozen=True)
class Grid:
    cells: "pd.DataFrame"
    """A row per cell, in the order of the paper's tables."""
    stepsizes: Array
    runs: "pd.DataFrame"
    row_cpsr: NDArray[np.int64]
    """The row in `runs` by cell, primitive (S2S, S2A), stepsize and seed; NONE if not run."""

    @property
    def ran_cpsr(self) -> Mask:
        return np.not_equal(self.row_cpsr, NONE)

    def at(self, stepsize: float) -> "Grid":
        """Only the runs with this stepsize."""
        # Studies keep six decimals of a stepsize.
        kept = np.isclose(self.stepsizes, stepsize, rtol=1e-3)
        return replace(self, stepsizes=self.stepsizes[kept], row_cpsr=self.row_cpsr[:, :, kept])

    def scores(self, column: str) -> Array:
        """A column of the runs as [c, p, s, r]; NaN where there is no run or no value."""
        if column not in self.runs or self.runs.empty:
            return np.full(self.row_cpsr.shape, np.nan)
        values = self.runs[column].to_numpy(dtype=float)
        return np.where(self.ran_cpsr, values[self.row_cpsr], np.nan)

    def gaps(self, column: str, stepsize: Stepsize) -> "pd.DataFrame":
        """A row per cell, with the columns FOUND; see `skerry.paper.protocol.gaps`."""
        import pandas as pd

        grid = self if stepsize == "tuned" else self.at(stepsize)
        if not grid.row_cpsr.size:
            return pd.DataFrame(columns=[*CELL, *FOUND])
        choice_cp, (s2s_cr, s2a_cr) = grid._paired(column)
        gap_c = estimates(s2s_cr - s2a_cr)
        found = grid.cells.assign(
            s2s=moments(s2s_cr)[0],
            s2a=moments(s2a_cr)[0],
            gap=[one.mean for one in gap_c],
            se=[one.standard_error for one in gap_c],
            low=[one.low for one in gap_c],
            high=[one.high for one in gap_c],
            seeds=[one.count for one in gap_c],
            stepsize_s2s=grid.stepsizes[choice_cp[:, 0]],
            stepsize_s2a=grid.stepsizes[choice_cp[:, 1]],
            tried=grid.ran_cpsr.any(axis=3).sum(axis=2).min(axis=1),
        )
        return found[found["seeds"] > 0].reset_index(drop=True)

    def gaps_by_seed(self, column: str) -> Array:
        """[c, r], each primitive at its best stepsize in each cell; NaN without a pair."""
        if not self.row_cpsr.size:
            return np.empty((len(self.cells), 0))
        _, score_pcr = self._paired(column)
        gap_cr: Array = score_pcr[0] - score_pcr[1]
        return gap_cr

    def _paired(self, column: str) -> tuple[NDArray[np.int64], Array]:
        """The stepsizes chosen, [c, p], and the scores with them, [p, c, r], of seeds that both
        primitives finished."""
        score_cpsr = self.scores(column)
        choice_cp = best_place(score_cpsr, self.ran_cpsr)
        score_cpr = np.take_along_axis(score_cpsr, choice_cp[..., None, None], axis=2)[:, :, 0]
        paired_c1r = np.isfinite(score_cpr).all(axis=1, keepdims=True)
        return choice_cp, np.where(paired_c1r, score_cpr, np.nan).swapaxes(0, 1)


def grid_of(studies: Sequence[Study], scaling: str) -> Grid:
    """The runs of S2S and S2A, as in the paper's tables, with inputs scaled in this way."""
    runs = table_runs(studies)
    runs = runs[runs["scaling"] == scaling].reset_index(drop=True)
    in_order = [runs["dataset"].map({name: i for i, name in enumerate(runs["dataset"].unique())})]
    in_order += [runs[name] for name in ("inter", "intra", "topology", "share", "period")]
    cell = _codes(*in_order)
    stepsizes, stepsize = np.unique(runs["stepsize"].to_numpy(dtype=float), return_inverse=True)
    seeds, seed = np.unique(runs["seed"].to_numpy(dtype=int), return_inverse=True)
    primitive = (runs["primitive"] == BOTH[1]).to_numpy(dtype=int)
    shape = (cell.max(initial=NONE) + 1, len(BOTH), len(stepsizes), len(seeds))
    row_cpsr = np.full(shape, NONE)
    row_cpsr[cell, primitive, stepsize, seed] = np.arange(len(runs))
    first_of_cell = np.unique(cell, return_index=True)[1]
    cells = runs.loc[first_of_cell, CELL].reset_index(drop=True)
    return Grid(cells, stepsizes, runs, row_cpsr)


def table_runs(studies: Sequence[Study]) -> "pd.DataFrame":
    """The runs that tables 1 to 6 could be made of: one per cell, primitive, stepsize and seed."""
    import pandas as pd

    filled = [study.runs for study in studies if len(study.runs)]
    if not filled:
        return pd.DataFrame(columns=list(FACTORS))
    runs = pd.concat(filled, ignore_index=True)
    as_printed = runs["primitive"].isin(BOTH) & (runs["optimizer"] == "fedavg")
    runs = runs[as_printed & ~runs["dynamic"].astype(bool)]
    # The same cell run longer belongs to the figures that follow a run over many rounds.
    runs = runs[runs["rounds"] == runs.groupby("dataset")["rounds"].transform("min")]
    return runs.drop_duplicates([*CELL, "scaling", "primitive", "stepsize", "seed"])


def _codes(*columns: "pd.Series[Any]") -> NDArray[np.int64]:
    """Rows numbered by their place among the distinct rows, sorted by the first column first."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        levels, place = np.unique(column.to_numpy(), return_inverse=True)
        code = np.unique(code * len(levels) + place, return_inverse=True)[1]
    return code
