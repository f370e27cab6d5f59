"""What the paper may have scored. It prints gaps of "test accuracy" without saying of which model,
on which data, when, and at which stepsize; a protocol is one answer, and each can be judged by
how well it meets the printed tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.statistics import estimates, moments
from skerry.errors import SkerryError, unknown
from skerry.paper.plans import BOTH
from skerry.paper.printed import CELL, printed_cells
from skerry.paper.study import FACTORS, LAST, Study, Timing, at_best_stepsize, lately, scored

if TYPE_CHECKING:
    import pandas as pd

Scaling = Literal["standard", "unit"]
Stepsize = float | Literal["tuned"]

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
"""What may be called the accuracy of a fleet, in words."""
SHOWN = ("own_accuracy", "average_accuracy")
"""Two scorings that lie far apart: what a device gets on labels like its own, and what the average
of all models gets on all labels. Tables and maps show both."""

_TIMED = {"final": "final round", "last 20": f"mean of the last {LAST} rounds"}
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
    def words(self) -> str:
        """`devices, own labels; final round; stepsize 0.1; standardised inputs`"""
        stepsize = "tuned stepsize" if self.stepsize == "tuned" else f"stepsize {self.stepsize:.3g}"
        return "; ".join(
            (SCORED[self.scoring], _TIMED[self.timing], stepsize, _SCALED[self.scaling])
        )


def as_shown(scoring: str) -> Protocol:
    """How tables and maps read `test accuracy`; the protocol page compares every other way."""
    return Protocol(scoring=scoring, timing="last 20", stepsize="tuned", scaling="standard")


def shown_scorings(study: Study) -> list[str]:
    """Those that are shown, if the study measured them."""
    return [scoring for scoring in SHOWN if _measured(study.runs, lately(scoring))]


def protocols(studies: Sequence[Study]) -> list[Protocol]:
    """All that these studies can answer; tuned only where several stepsizes were tried."""
    return _answerable(table_runs(studies))


def _answerable(runs: "pd.DataFrame") -> list[Protocol]:
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


def _measured(runs: "pd.DataFrame", column: str) -> bool:
    return column in runs and bool(runs[column].notna().any())


# Gaps


@dataclass(frozen=True, eq=False)
class Pairs:
    """S2S and S2A in every cell of the tables, each at the stepsize that a protocol takes."""

    s2s: "pd.DataFrame"
    """A row per cell, a column per seed; NaN unless both primitives finished with it."""
    s2a: "pd.DataFrame"
    stepsizes: "pd.DataFrame"
    """By cell, those of S2S and S2A."""
    tried: "pd.Series[float]"
    """By cell, how many stepsizes there were to choose from."""

    @property
    def gap(self) -> "pd.DataFrame":
        return self.s2s - self.s2a


def gaps(studies: Sequence[Study], protocol: Protocol) -> "pd.DataFrame":
    """A row per cell: accuracies and their gap (S2S minus S2A) in percentage points, over the
    seeds that both finished, with its paired standard error and 95 % interval; `tried` counts the
    stepsizes that were compared. Cells without a common seed are left out."""
    return _gaps(pairs(table_runs(studies), protocol))


def _gaps(found: Pairs) -> "pd.DataFrame":
    gap_c = estimates(found.gap.to_numpy())
    cells = found.gap.index.to_frame(index=False).assign(
        s2s=moments(found.s2s)[0],
        s2a=moments(found.s2a)[0],
        gap=[one.mean for one in gap_c],
        se=[one.standard_error for one in gap_c],
        low=[one.low for one in gap_c],
        high=[one.high for one in gap_c],
        seeds=[one.count for one in gap_c],
        stepsize_s2s=found.stepsizes["s2s"].to_numpy(),
        stepsize_s2a=found.stepsizes["s2a"].to_numpy(),
        tried=found.tried.to_numpy(),
    )
    return cells[cells["seeds"] > 0].reset_index(drop=True)


def pairs(runs: "pd.DataFrame", protocol: Protocol) -> Pairs:
    """From `table_runs`."""
    import pandas as pd

    runs = runs[runs["scaling"] == protocol.scaling]
    if protocol.stepsize != "tuned":
        # Studies keep six decimals of a stepsize.
        runs = runs[np.isclose(runs["stepsize"].astype(float), protocol.stepsize, rtol=1e-3)]
    if protocol.column not in runs:
        runs = runs[:0].assign(**{protocol.column: pd.Series(dtype=float)})
    by_primitive = [*CELL, "primitive"]
    best = at_best_stepsize(runs, protocol.column, by_primitive)
    cells = pd.MultiIndex.from_frame(runs[CELL].drop_duplicates())
    seeds = sorted(runs["seed"].unique())
    s2s, s2a = (
        best[best["primitive"] == primitive]
        .pivot(index=CELL, columns="seed", values=protocol.column)
        .reindex(index=cells, columns=seeds)
        for primitive in BOTH
    )
    both = s2s.notna() & s2a.notna()
    stepsizes = best.groupby(by_primitive)["stepsize"].first().unstack()
    tried = runs.groupby(by_primitive)["stepsize"].nunique().unstack().min(axis=1)
    return Pairs(
        s2s.where(both),
        s2a.where(both),
        stepsizes.reindex(index=cells, columns=list(BOTH)),
        tried.reindex(cells),
    )


def table_runs(studies: Sequence[Study]) -> "pd.DataFrame":
    """The runs that tables 1 to 6 could be made of: one per cell, primitive, stepsize and seed.
    Data sets as they come; then inter, intra, topology, K/n and H rising."""
    import pandas as pd

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


# Against the printed tables


class Tally(NamedTuple):
    agree: int
    of: int

    @property
    def part(self) -> float:
        """NaN of none."""
        return self.agree / self.of if self.of else float("nan")


@dataclass(frozen=True)
class Agreement:
    """How gaps that were found meet the printed ones. A configuration that the paper prints in
    two tables counts in both."""

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


def agreement(found: "pd.DataFrame", printed: "pd.DataFrame") -> Agreement:
    """Over the cells that both have; `found` needs the factors of a cell, `gap` and `se`."""
    both = printed[[*CELL, "gap"]].merge(found[[*CELL, "gap", "se"]], on=CELL)
    theirs, ours, error = (both[name].to_numpy(float) for name in ("gap_x", "gap_y", "se"))
    dash = np.isnan(theirs)
    telling = np.abs(theirs) > TELLING
    clear = telling & (np.abs(ours) > error)
    same = np.sign(ours) == np.sign(theirs)
    within = np.abs(ours) <= error
    return Agreement(
        cells=len(both),
        signs=_tally(same, telling),
        clear=_tally(same, clear),
        ties=_tally(within, dash & np.isfinite(error)),
        rms=float(np.sqrt(np.mean((ours - theirs)[~dash] ** 2))) if (~dash).any() else np.nan,
        rank_correlation=_rank_correlation(ours[~dash], theirs[~dash]),
    )


def agreements(studies: Sequence[Study], dataset: str) -> dict[Protocol, Agreement]:
    """Every protocol that these studies can answer, best first: by the part of signs that agree,
    then by distance. Those that answer far fewer printed cells than others come after them."""
    printed = printed_cells()
    printed = printed[printed["dataset"] == dataset]
    runs = table_runs([study.of(dataset=dataset) for study in studies if len(study.runs)])
    found = {}
    for protocol in _answerable(runs):
        cells = _gaps(pairs(runs, protocol))
        if protocol.stepsize == "tuned":
            cells = cells[cells["tried"] > 1]
        found[protocol] = agreement(cells, printed)
    enough = NEARLY_ALL * max((one.cells for one in found.values()), default=0)
    ranked = sorted(found, key=lambda one: (found[one].cells < enough, *_rank(found[one])))
    return {protocol: found[protocol] for protocol in ranked}


def _rank(one: Agreement) -> tuple[float, float]:
    """Low is good; what is undefined comes last."""
    part, rms = one.signs.part, one.rms
    return np.inf if np.isnan(part) else -part, np.inf if np.isnan(rms) else rms


def _tally(agree: NDArray[np.bool_], among: NDArray[np.bool_]) -> Tally:
    return Tally(int((agree & among).sum()), int(among.sum()))


def _rank_correlation(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    from scipy import stats

    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float("nan")
    return float(stats.spearmanr(ours, theirs).statistic)
