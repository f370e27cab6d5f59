"""What the paper may have scored. It prints gaps of "test accuracy" without saying of which model,
on which data, when, and at which stepsize; a protocol is one answer, and each can be judged by
how well it meets the printed tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from skerry.errors import SkerryError, unknown
from skerry.paper.grid import Stepsize, grid_of, table_runs
from skerry.paper.printed import CELL, printed_cells
from skerry.paper.study import LAST, SCORINGS, Study, final, lately

if TYPE_CHECKING:
    import pandas as pd

Timing = Literal["final", "last 20"]
Scaling = Literal["standard", "unit"]

TELLING = 0.1
"""Percentage points: printed gaps up to here are about as small as their rounding and noise."""

NEARLY_ALL = 0.9

SCORED = {
    "average_accuracy": "average model",
    "device_accuracy": "devices, all labels",
    "own_accuracy": "devices, own labels",
    "own_accuracy_weighted": "devices, own labels, by samples held",
    "component_accuracy": "devices, their island's labels",
}
_TIMED = {"final": "final round", "last 20": f"mean of the last {LAST} rounds"}
_SCALED = {"standard": "standardised inputs", "unit": "inputs in [0, 1]"}


@dataclass(frozen=True)
class Protocol:
    scoring: str
    """One of SCORINGS."""
    timing: Timing
    stepsize: Stepsize
    """Tuned: for each cell and primitive the one with the best mean over seeds of this score."""
    scaling: Scaling

    def __post_init__(self) -> None:
        for kind, got, known in (
            ("scoring", self.scoring, SCORINGS),
            ("timing", self.timing, get_args(Timing)),
            ("scaling", self.scaling, get_args(Scaling)),
        ):
            if got not in known:
                raise SkerryError(unknown(kind, str(got), known))

    @property
    def column(self) -> str:
        return final(self.scoring) if self.timing == "final" else lately(self.scoring)

    @property
    def words(self) -> str:
        """`devices, own labels; final round; stepsize 0.1; standardised inputs`"""
        stepsize = "tuned stepsize" if self.stepsize == "tuned" else f"stepsize {self.stepsize:.3g}"
        return "; ".join(
            (SCORED[self.scoring], _TIMED[self.timing], stepsize, _SCALED[self.scaling])
        )


def protocols(studies: Sequence[Study]) -> list[Protocol]:
    """All that these studies can answer; tuned only where several stepsizes were tried."""
    runs = table_runs(studies)
    found: list[Protocol] = []
    for scaling in get_args(Scaling):
        scaled = runs[runs["scaling"] == scaling]
        tried = scaled.groupby([*CELL, "primitive"])["stepsize"].nunique()
        policies: list[Stepsize] = sorted(scaled["stepsize"].unique().tolist())
        if (tried > 1).any():
            policies.insert(0, "tuned")
        for scoring in SCORINGS:
            for timing in get_args(Timing):
                some = Protocol(scoring, timing, "tuned", scaling)
                if some.column in scaled and scaled[some.column].notna().any():
                    found += [Protocol(scoring, timing, policy, scaling) for policy in policies]
    return found


def gaps(studies: Sequence[Study], protocol: Protocol) -> "pd.DataFrame":
    """A row per cell: accuracies and their gap (S2S minus S2A) in percentage points, over the
    seeds that both finished, with its paired standard error and 95 % interval; `tried` counts the
    stepsizes that were compared. Cells without a common seed are left out."""
    return grid_of(studies, protocol.scaling).gaps(protocol.column, protocol.stepsize)


# Against the printed tables


class Tally(NamedTuple):
    agree: int
    of: int

    @property
    def share(self) -> float:
        """NaN of none."""
        return self.agree / self.of if self.of else float("nan")


@dataclass(frozen=True)
class Agreement:
    """How gaps that were found meet the printed ones. A configuration that the paper prints in
    two tables counts in both."""

    protocol: Protocol | None
    cells: int
    """Printed cells, dashes included, for which a gap was found."""
    signs: Tally
    """Of printed gaps beyond TELLING: those with the same sign."""
    clear: Tally
    """The same, of those where the gap found is beyond its standard error too."""
    ties: Tally
    """Of printed dashes, where several seeds tell: those within the standard error here too."""
    rms: float
    """Root of the mean squared distance from the printed gaps, in percentage points."""
    rank_correlation: float
    """Spearman's; NaN where it is undefined."""


def agreement(
    found: "pd.DataFrame", printed: "pd.DataFrame", protocol: Protocol | None = None
) -> Agreement:
    """Over the cells that both have; `found` needs the factors of a cell, `gap` and `se`."""
    both = printed[[*CELL, "gap"]].merge(found[[*CELL, "gap", "se"]], on=CELL)
    theirs, ours, error = (both[name].to_numpy(float) for name in ("gap_x", "gap_y", "se"))
    dash = np.isnan(theirs)
    telling = np.abs(theirs) > TELLING
    clear = telling & (np.abs(ours) > error)
    same = np.sign(ours) == np.sign(theirs)
    within = np.abs(ours) <= error
    return Agreement(
        protocol=protocol,
        cells=len(both),
        signs=_tally(same, telling),
        clear=_tally(same, clear),
        ties=_tally(within, dash & np.isfinite(error)),
        rms=float(np.sqrt(np.mean((ours - theirs)[~dash] ** 2))) if (~dash).any() else np.nan,
        rank_correlation=_rank_correlation(ours[~dash], theirs[~dash]),
    )


def agreements(studies: Sequence[Study], dataset: str) -> list[Agreement]:
    """Every protocol that these studies can answer, best first: by the share of signs that agree,
    then by distance. Those that answer far fewer printed cells than others come after them."""
    printed = printed_cells()
    printed = printed[printed["dataset"] == dataset]
    studies = [study.of(dataset=dataset) for study in studies if len(study.runs)]
    grids = {scaling: grid_of(studies, scaling) for scaling in get_args(Scaling)}
    found = []
    for protocol in protocols(studies):
        cells = grids[protocol.scaling].gaps(protocol.column, protocol.stepsize)
        if protocol.stepsize == "tuned":
            cells = cells[cells["tried"] > 1]
        found.append(agreement(cells, printed, protocol))
    enough = NEARLY_ALL * max((one.cells for one in found), default=0)
    return sorted(found, key=lambda one: (one.cells < enough, *_rank(one)))


def _rank(one: Agreement) -> tuple[float, float]:
    """Low is good; what is undefined comes last."""
    share, rms = one.signs.share, one.rms
    return np.inf if np.isnan(share) else -share, np.inf if np.isnan(rms) else rms


def _tally(agree: NDArray[np.bool_], among: NDArray[np.bool_]) -> Tally:
    return Tally(int((agree & among).sum()), int(among.sum()))


def _rank_correlation(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    from scipy import stats

    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float("nan")
    return float(stats.spearmanr(ours, theirs).statistic)
