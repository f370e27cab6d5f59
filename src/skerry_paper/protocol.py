"""Protocols: what the paper may have scored, and the gaps between S2S and S2A under each.

The paper prints gaps of "test accuracy" after 100 rounds, but does not say of which model, on which
data and at which stepsize. A protocol is one answer to these questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skerry.analysis.statistics import Array, estimates, moments, t_test
from skerry.errors import SkerryError, unknown
from skerry_paper.plan import BOTH
from skerry_paper.printed import CELL
from skerry_paper.study import (
    FACTORS,
    LAST,
    NO_RUN,
    RowIndex,
    StudyData,
    Timing,
    index_rows,
    read_rows,
    score_column,
    tuned_places,
)

Scaling = Literal["standard", "unit"]
Stepsize = float | Literal["tuned"]

SMALL_GAP = 0.1
"""Percentage points: printed gaps up to this size are comparable to their rounding and noise."""

STATED: Timing = "final"
"""The timing that the paper states: according to its appendix each map shows the gap "after T = 100
rounds", and the gaps that it quotes "at T = 100" are cells of Table 6."""
SHOWN_TIMINGS: tuple[Timing, ...] = (STATED, "last 20")
"""Tables show both timings: single rounds are noisy, and the accuracy of devices depends on the
number of rounds since the last server round."""

SCORINGS = {
    "average_accuracy": "average model",
    "device_accuracy": "devices, all labels",
    "own_accuracy": "devices, own labels",
    "own_accuracy_weighted": "devices, own labels, by samples held",
    "component_accuracy": "devices, their island's labels",
    "label_mix_accuracy": "devices, all tests weighted by own labels",
}
"""The measures that may be called the accuracy of a fleet, with their names in tables."""
SHOWN_SCORINGS = ("own_accuracy", "average_accuracy")
"""The two scorings that tables and maps show: devices on labels like their own, and the average
model on all labels. They differ most."""

FOUND = [
    *("s2s", "s2a", "gap", "se", "half", "p", "seeds", "by_seed"),
    *("stepsize_s2s", "stepsize_s2a", "tried", "at_edge"),
]
"""Columns of `cell_gaps` besides CELL. `by_seed` is the gap of every seed, and `stepsize_s2s` and
`stepsize_s2a` are the stepsizes chosen for every seed; NaN without a pair."""

TIMINGS: dict[Timing, str] = {"final": "final round", "last 20": f"mean of the last {LAST} rounds"}
SCALINGS = {"standard": "standardised inputs", "unit": "inputs in [0, 1]"}
SHORT_SCALINGS = {"standard": "standard", "unit": "[0, 1]"}


@dataclass(frozen=True)
class Protocol:
    """One way to score runs: what is scored, when, at which stepsize, with which inputs."""

    scoring: str
    """A key of SCORINGS."""
    timing: Timing
    stepsize: Stepsize
    """"tuned" is the best stepsize of each cell and primitive by this score, for each seed chosen
    on the other seeds (`tuned_places`)."""
    scaling: Scaling

    def __post_init__(self) -> None:
        for kind, got, known in (
            ("scoring", self.scoring, tuple(SCORINGS)),
            ("timing", self.timing, get_args(Timing)),
            ("scaling", self.scaling, get_args(Scaling)),
        ):
            if got not in known:
                raise SkerryError(unknown(kind, str(got), known))

    @property
    def column(self) -> str:
        return score_column(self.scoring, self.timing)

    @property
    def short(self) -> str:
        """Name in tables, such as `devices, own labels; last 20`."""
        return f"{SCORINGS[self.scoring]}; {self.timing}"

    @property
    def words(self) -> str:
        """Full name: `devices, own labels; final round; stepsize 0.1; standardised inputs`."""
        stepsize = "tuned stepsize" if self.stepsize == "tuned" else f"stepsize {self.stepsize:.3g}"
        return "; ".join(
            (SCORINGS[self.scoring], TIMINGS[self.timing], stepsize, SCALINGS[self.scaling])
        )


def shown_protocol(scoring: str, timing: Timing = STATED) -> Protocol:
    """The protocol that tables and maps use: tuned stepsizes and standardised inputs."""
    return Protocol(scoring, timing, "tuned", "standard")


SHOWN_PROTOCOLS = [
    shown_protocol(scoring, timing) for timing in SHOWN_TIMINGS for scoring in SHOWN_SCORINGS
]
"""The protocols that tables and maps show, the stated timing first."""


def shown_protocols(study: StudyData) -> list[Protocol]:
    """The SHOWN_PROTOCOLS whose score the study has measured."""
    return [one for one in SHOWN_PROTOCOLS if _measured(study.runs, one.column)]


def protocols(runs: pd.DataFrame) -> list[Protocol]:
    """All protocols that the runs of `table_runs` can answer; "tuned" only where several stepsizes
    were run."""
    found: list[Protocol] = []
    for scaling in get_args(Scaling):
        scaled = runs[runs["scaling"] == scaling]
        tried = scaled.groupby([*CELL, "primitive"])["stepsize"].nunique()
        policies: list[Stepsize] = sorted(scaled["stepsize"].unique().tolist())
        if (tried > 1).any():
            policies.insert(0, "tuned")
        for scoring in SCORINGS:
            for timing in get_args(Timing):
                if _measured(scaled, score_column(scoring, timing)):
                    found += [Protocol(scoring, timing, policy, scaling) for policy in policies]
    return found


def _measured(runs: pd.DataFrame, column: str) -> bool:
    return column in runs and bool(runs[column].notna().any())


# Gaps


def cell_gaps(studies: Sequence[StudyData], protocol: Protocol) -> pd.DataFrame:
    """A row per cell with the columns CELL and FOUND, over the seeds that both primitives finished.

    `gap` is S2S minus S2A in percentage points, with its paired standard error `se`, the half-width
    of its 95 % interval and the `p` of the paired t test. `tried` is the number of stepsizes, and
    `at_edge` the number of choices, of a primitive and a seed, at either end of them. Cells without
    a common seed are left out."""
    return TableGrid.of(table_runs(studies), protocol.scaling).cell_gaps(protocol)


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Runs as an array over cell, primitive (S2S, S2A), stepsize and seed."""

    cells: pd.DataFrame
    """A row per cell, in the order of the paper's tables."""
    stepsizes: Array
    runs: pd.DataFrame
    row_cpvs: RowIndex
    """Row in `runs`, or NO_RUN, of each cell, primitive, stepsize and seed."""

    @classmethod
    def of(cls, runs: pd.DataFrame, scaling: Scaling) -> "TableGrid":
        """The grid of those runs of `table_runs` whose inputs are scaled like this."""
        runs = runs[runs["scaling"] == scaling].reset_index(drop=True)
        stepsizes, stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)
        row_cpvs = index_rows(
            runs.groupby(CELL, sort=False).ngroup().to_numpy(),
            (runs["primitive"] == BOTH[1]).to_numpy(int),
            stepsize,
            np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1],
        )
        return cls(runs[CELL].drop_duplicates(ignore_index=True), stepsizes, runs, row_cpvs)

    def at(self, stepsize: Stepsize) -> "TableGrid":
        """The grid with only this stepsize; "tuned" keeps all."""
        if stepsize == "tuned":
            return self
        kept = np.isclose(self.stepsizes, stepsize, rtol=1e-3)  # studies keep six decimals
        return replace(self, stepsizes=self.stepsizes[kept], row_cpvs=self.row_cpvs[:, :, kept])

    def cell_gaps(self, protocol: Protocol) -> pd.DataFrame:
        """See the function `cell_gaps`."""
        import pandas as pd

        grid = self.at(protocol.stepsize)
        if not grid.row_cpvs.size:
            return pd.DataFrame(columns=[*CELL, *FOUND])
        choice_pcs, (s2s_cs, s2a_cs) = grid._paired(protocol.column)
        gap_cs = s2s_cs - s2a_cs
        gap_c = estimates(gap_cs)
        ran_pcv = (grid.row_cpvs != NO_RUN).any(axis=3).swapaxes(0, 1)
        tried_pc = ran_pcv.sum(axis=2)
        first_pc, last_pc = ran_pcv.argmax(axis=2), ran_pcv.cumsum(axis=2).argmax(axis=2)
        at_edge_pcs = (choice_pcs == first_pc[..., None]) | (choice_pcs == last_pc[..., None])
        at_edge_pcs &= np.isfinite(gap_cs) & (tried_pc > 1)[..., None]
        stepsize_pcs = np.where(np.isfinite(gap_cs), grid.stepsizes[choice_pcs], np.nan)
        found = grid.cells.assign(
            s2s=moments(s2s_cs)[0],
            s2a=moments(s2a_cs)[0],
            gap=[one.mean for one in gap_c],
            se=[one.standard_error for one in gap_c],
            half=[one.half_width for one in gap_c],
            p=t_test(gap_cs),
            seeds=[one.count for one in gap_c],
            by_seed=[*gap_cs],
            stepsize_s2s=[*stepsize_pcs[0]],
            stepsize_s2a=[*stepsize_pcs[1]],
            tried=tried_pc.min(axis=0),
            at_edge=at_edge_pcs.sum(axis=(0, 2)),
        )
        return found[found["seeds"] > 0].reset_index(drop=True)

    def cell_gaps_by_seed(self, protocol: Protocol) -> Array:
        """Gaps [cell, seed]; NaN where a seed has no pair."""
        grid = self.at(protocol.stepsize)
        if not grid.row_cpvs.size:
            return np.empty((len(grid.cells), 0))
        s2s_cs, s2a_cs = grid._paired(protocol.column)[1]
        gap_cs: Array = s2s_cs - s2a_cs
        return gap_cs

    def _paired(self, column: str) -> tuple[NDArray[np.int64], Array]:
        """Chosen stepsize indices and the scores there [p, c, s], for paired seeds only."""
        score_cpvs = read_rows(self.runs, column, self.row_cpvs)
        choice_cps = tuned_places(score_cpvs, self.row_cpvs != NO_RUN)
        score_cps = np.take_along_axis(score_cpvs, choice_cps[:, :, None], axis=2)[:, :, 0]
        paired_c1s = np.isfinite(score_cps).all(axis=1, keepdims=True)
        found_cps = np.where(paired_c1s, score_cps, np.nan)
        return choice_cps.swapaxes(0, 1), found_cps.swapaxes(0, 1)


def table_runs(studies: Sequence[StudyData]) -> pd.DataFrame:
    """The runs of cells of tables 1 to 6, one per cell, primitive, stepsize and seed, sorted by
    data set (in order of appearance), inter, intra, topology, K/n and H."""
    filled = [study.runs for study in studies if len(study.runs)]
    if not filled:
        return pd.DataFrame(columns=list(FACTORS))
    runs = pd.concat(filled, ignore_index=True)
    as_printed = runs["primitive"].isin(BOTH) & (runs["optimizer"] == "fedavg")
    runs = runs[as_printed & ~runs["dynamic"].astype(bool)]
    # Longer runs of the same cell belong to the figures over 1,000 rounds.
    runs = runs[runs["rounds"] == runs.groupby("dataset")["rounds"].transform("min")]
    runs = runs.drop_duplicates([*CELL, "scaling", "primitive", "stepsize", "seed"])
    order = {name: number for number, name in enumerate(runs["dataset"].unique())}
    columns = ["dataset", "inter", "intra", "topology", "share", "period"]
    keys = runs[columns].assign(dataset=runs["dataset"].map(order))
    return runs.loc[keys.sort_values(columns, kind="stable").index]
