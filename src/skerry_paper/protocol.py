"""What the paper may have scored. It prints gaps of "test accuracy" after 100 rounds without saying
of which model, on which data, and at which stepsize; a protocol is one answer, and each can be
judged by how well it meets the printed tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skerry.analysis.statistics import Array, best_place, estimates, moments
from skerry.errors import SkerryError, unknown
from skerry_paper.plan import BOTH
from skerry_paper.printed import CELL
from skerry_paper.study import (
    FACTORS,
    LAST,
    NO_RUN,
    Rows,
    Study,
    Timing,
    lately,
    read_rows,
    rows_by,
    scored,
)

Scaling = Literal["standard", "unit"]
Stepsize = float | Literal["tuned"]

TELLING = 0.1
"""Percentage points: printed gaps up to here are about as small as their rounding and noise."""

STATED: Timing = "final"
"""The appendix: each map shows the gap "after T = 100 rounds", and the gaps that it quotes "at
T = 100" are cells of Table 6."""
SHOWN_TIMINGS: tuple[Timing, ...] = (STATED, "last 20")
"""Every table has both: single rounds jump, and where a round lies between two server rounds
matters to devices."""

SCORED = {
    "average_accuracy": "average model",
    "device_accuracy": "devices, all labels",
    "own_accuracy": "devices, own labels",
    "own_accuracy_weighted": "devices, own labels, by samples held",
    "component_accuracy": "devices, their island's labels",
}
"""What may be called the accuracy of a fleet, in words."""
SHOWN_SCORINGS = ("own_accuracy", "average_accuracy")
"""Two scorings that lie far apart: what a device gets on labels like its own, and what the average
of all models gets on all labels. Tables and maps show both."""

FOUND = [
    *("s2s", "s2a", "gap", "se", "low", "high", "seeds", "by_seed"),
    *("stepsize_s2s", "stepsize_s2a", "tried"),
]
"""What `gaps` says of a cell; by_seed holds the gap of every seed, NaN without a pair."""

TIMED: dict[Timing, str] = {
    "final": "final round",
    "last 20": f"mean of the last {LAST} rounds",
}
_SCALED = {"standard": "standardised inputs", "unit": "inputs in [0, 1]"}


@dataclass(frozen=True)
class Protocol:
    scoring: str
    """One of SCORED."""
    timing: Timing
    stepsize: Stepsize
    """Tuned: for each cell and primitive the one that is best by this very score."""
    scaling: Scaling

    def __post_init__(self) -> None:
        for kind, got, known in (
            ("scoring", self.scoring, tuple(SCORED)),
            ("timing", self.timing, get_args(Timing)),
            ("scaling", self.scaling, get_args(Scaling)),
        ):
            if got not in known:
                raise SkerryError(unknown(kind, str(got), known))

    @property
    def column(self) -> str:
        return scored(self.scoring, self.timing)

    @property
    def short(self) -> str:
        """`devices, own labels; last 20`: what tables tell apart."""
        return f"{SCORED[self.scoring]}; {self.timing}"

    @property
    def words(self) -> str:
        """`devices, own labels; final round; stepsize 0.1; standardised inputs`"""
        stepsize = "tuned stepsize" if self.stepsize == "tuned" else f"stepsize {self.stepsize:.3g}"
        return "; ".join(
            (SCORED[self.scoring], TIMED[self.timing], stepsize, _SCALED[self.scaling])
        )


def as_shown(scoring: str, timing: Timing = STATED) -> Protocol:
    """How tables and maps read `test accuracy`; the protocol page compares every other way."""
    return Protocol(scoring=scoring, timing=timing, stepsize="tuned", scaling="standard")


def shown_protocols(study: Study) -> list[Protocol]:
    """What tables show, if the study measured it: the stated timing first."""
    every = (as_shown(scoring, timing) for timing in SHOWN_TIMINGS for scoring in SHOWN_SCORINGS)
    return [one for one in every if _measured(study.runs, one.column)]


def measured_scorings(study: Study) -> list[str]:
    """Those that are shown, if the study measured them."""
    return [scoring for scoring in SHOWN_SCORINGS if _measured(study.runs, lately(scoring))]


def protocols(studies: Sequence[Study]) -> list[Protocol]:
    """All that these studies can answer; tuned only where several stepsizes were tried."""
    return answerable(table_runs(studies))


def answerable(runs: pd.DataFrame) -> list[Protocol]:
    """The same, of `table_runs`."""
    found: list[Protocol] = []
    for scaling in get_args(Scaling):
        scaled = runs[runs["scaling"] == scaling]
        tried = scaled.groupby([*CELL, "primitive"])["stepsize"].nunique()
        policies: list[Stepsize] = sorted(scaled["stepsize"].unique().tolist())
        if (tried > 1).any():
            policies.insert(0, "tuned")
        for scoring in SCORED:
            for timing in get_args(Timing):
                if _measured(scaled, scored(scoring, timing)):
                    found += [Protocol(scoring, timing, policy, scaling) for policy in policies]
    return found


def _measured(runs: pd.DataFrame, column: str) -> bool:
    return column in runs and bool(runs[column].notna().any())


# Gaps


def gaps(studies: Sequence[Study], protocol: Protocol) -> pd.DataFrame:
    """A row per cell: accuracies and their gap (S2S minus S2A) in percentage points, over the
    seeds that both finished, with its paired standard error and 95 % interval; `tried` counts the
    stepsizes that were compared. Cells without a common seed are left out."""
    return TableGrid.of(table_runs(studies), protocol.scaling).gaps(protocol)


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Runs as an array over cell, primitive (S2S, S2A), stepsize and seed, so that any way of
    scoring them is a few array operations."""

    cells: pd.DataFrame
    """A row per cell, in the order of the paper's tables."""
    stepsizes: Array
    runs: pd.DataFrame
    row_cpvs: Rows
    """The row in `runs`; NO_RUN where there is none."""

    @classmethod
    def of(cls, runs: pd.DataFrame, scaling: Scaling) -> "TableGrid":
        """Of `table_runs`, those with inputs scaled in this way."""
        runs = runs[runs["scaling"] == scaling].reset_index(drop=True)
        stepsizes, stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)
        row_cpvs = rows_by(
            runs.groupby(CELL, sort=False).ngroup().to_numpy(),
            (runs["primitive"] == BOTH[1]).to_numpy(int),
            stepsize,
            np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1],
        )
        return cls(runs[CELL].drop_duplicates(ignore_index=True), stepsizes, runs, row_cpvs)

    def at(self, stepsize: Stepsize) -> "TableGrid":
        """Only the runs with this stepsize; tuned is a choice between all."""
        if stepsize == "tuned":
            return self
        kept = np.isclose(self.stepsizes, stepsize, rtol=1e-3)  # studies keep six decimals
        return replace(self, stepsizes=self.stepsizes[kept], row_cpvs=self.row_cpvs[:, :, kept])

    def gaps(self, protocol: Protocol) -> pd.DataFrame:
        """As `skerry_paper.protocol.gaps`."""
        import pandas as pd

        grid = self.at(protocol.stepsize)
        if not grid.row_cpvs.size:
            return pd.DataFrame(columns=[*CELL, *FOUND])
        choice_cp, (s2s_cs, s2a_cs) = grid._paired(protocol.column)
        gap_c = estimates(s2s_cs - s2a_cs)
        found = grid.cells.assign(
            s2s=moments(s2s_cs)[0],
            s2a=moments(s2a_cs)[0],
            gap=[one.mean for one in gap_c],
            se=[one.standard_error for one in gap_c],
            low=[one.low for one in gap_c],
            high=[one.high for one in gap_c],
            seeds=[one.count for one in gap_c],
            by_seed=[*(s2s_cs - s2a_cs)],
            stepsize_s2s=grid.stepsizes[choice_cp[:, 0]],
            stepsize_s2a=grid.stepsizes[choice_cp[:, 1]],
            tried=(grid.row_cpvs != NO_RUN).any(axis=3).sum(axis=2).min(axis=1),
        )
        return found[found["seeds"] > 0].reset_index(drop=True)

    def gaps_by_seed(self, protocol: Protocol) -> Array:
        """[c, s]; NaN without a pair."""
        grid = self.at(protocol.stepsize)
        if not grid.row_cpvs.size:
            return np.empty((len(grid.cells), 0))
        s2s_cs, s2a_cs = grid._paired(protocol.column)[1]
        gap_cs: Array = s2s_cs - s2a_cs
        return gap_cs

    def _paired(self, column: str) -> tuple[NDArray[np.int64], Array]:
        """The stepsizes chosen, [c, p], and the scores with them, [p, c, s], of seeds that both
        primitives finished."""
        score_cpvs = read_rows(self.runs, column, self.row_cpvs)
        choice_cp = best_place(score_cpvs, self.row_cpvs != NO_RUN)
        score_cps = np.take_along_axis(score_cpvs, choice_cp[..., None, None], axis=2)[:, :, 0]
        paired_c1s = np.isfinite(score_cps).all(axis=1, keepdims=True)
        return choice_cp, np.where(paired_c1s, score_cps, np.nan).swapaxes(0, 1)


def table_runs(studies: Sequence[Study]) -> pd.DataFrame:
    """The runs that tables 1 to 6 could be made of: one per cell, primitive, stepsize and seed.
    Data sets as they come; then inter, intra, topology, K/n and H rising."""
    filled = [study.runs for study in studies if len(study.runs)]
    if not filled:
        return pd.DataFrame(columns=list(FACTORS))
    runs = pd.concat(filled, ignore_index=True)
    as_printed = runs["primitive"].isin(BOTH) & (runs["optimizer"] == "fedavg")
    runs = runs[as_printed & ~runs["dynamic"].astype(bool)]
    # The same cell run longer belongs to the figures that follow a run over many rounds.
    runs = runs[runs["rounds"] == runs.groupby("dataset")["rounds"].transform("min")]
    runs = runs.drop_duplicates([*CELL, "scaling", "primitive", "stepsize", "seed"])
    come = {name: place for place, name in enumerate(runs["dataset"].unique())}
    rising = ["dataset", "inter", "intra", "topology", "share", "period"]
    ranked = runs[rising].assign(dataset=runs["dataset"].map(come))
    return runs.loc[ranked.sort_values(rising, kind="stable").index]
