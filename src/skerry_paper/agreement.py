"""How far gaps meet the printed ones, beside guesses that need no runs: always S2S, always S2A,
zero. A protocol that does not beat them says nothing of how large gaps are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from skerry.analysis.statistics import Array, moments
from skerry_paper.printed import CELL, printed_cells
from skerry_paper.protocol import TELLING, Protocol, Scaling, TableGrid, answerable, table_runs
from skerry_paper.study import Study

NEARLY_ALL = 0.9
NAN = float("nan")
ALWAYS_S2S, ALWAYS_S2A, ZERO = "always S2S", "always S2A", "zero"


class Tally(NamedTuple):
    agree: int
    of: int

    @property
    def part(self) -> float:
        """NaN of none."""
        return self.agree / self.of if self.of else NAN


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
    rms_half: float = NAN
    """Half of the 95 % interval of the distance over seeds, by leaving out one after the other; NaN
    of a single seed."""
    rank_half: float = NAN
    noise: float = NAN
    """Root of the mean squared standard error of our gaps, of those from several seeds: what seeds
    alone add to the distance."""

    @property
    def without_noise(self) -> float:
        """The distance that many more seeds would come to, about."""
        return float(np.sqrt(max(self.rms**2 - np.nan_to_num(self.noise) ** 2, 0)))

    def beats(self, guess: "Agreement") -> bool:
        """Whether it is closer to the printed gaps, beyond what seeds leave open."""
        return self.rms + (0 if np.isnan(self.rms_half) else self.rms_half) < guess.rms


def agreement(found: pd.DataFrame, printed: pd.DataFrame) -> Agreement:
    """Over the cells that both have; `found` needs the factors of a cell, `gap` and `se`, and
    `by_seed` for intervals."""
    told = [name for name in ("gap", "se", "by_seed") if name in found]
    both = printed[[*CELL, "gap"]].merge(found[[*CELL, *told]], on=CELL)
    theirs, ours, error = (both[name].to_numpy(float) for name in ("gap_x", "gap_y", "se"))
    dash = np.isnan(theirs)
    telling = np.abs(theirs) > TELLING
    clear = telling & (np.abs(ours) > error)
    same = np.sign(ours) == np.sign(theirs)
    within = np.abs(ours) <= error
    known = ~dash & np.isfinite(error)
    halves = (NAN, NAN)
    if "by_seed" in both and not dash.all():
        halves = _halves(np.stack(both["by_seed"].to_list())[~dash], theirs[~dash])
    return Agreement(
        cells=len(both),
        signs=_tally(same, telling),
        clear=_tally(same, clear),
        ties=_tally(within, dash & np.isfinite(error)),
        rms=_distance(ours[~dash], theirs[~dash]),
        rank_correlation=_rank_correlation(ours[~dash], theirs[~dash]),
        rms_half=halves[0],
        rank_half=halves[1],
        noise=_distance(error[known], np.zeros(known.sum())),
    )


def guesses(printed: pd.DataFrame) -> dict[str, Agreement]:
    """What one meets without any run. Whoever always says S2S, or S2A, is given the one gap for all
    cells that comes closest."""
    theirs = printed["gap"].dropna().to_numpy(float)
    mean = float(theirs.mean()) if len(theirs) else 0.0
    telling = np.abs(theirs) > TELLING
    said = {ALWAYS_S2S: (1, max(mean, 0.0)), ALWAYS_S2A: (-1, min(mean, 0.0)), ZERO: (0, 0.0)}
    none = Tally(0, 0)
    return {
        name: Agreement(
            cells=len(printed),
            signs=_tally(np.sign(theirs) == sign, telling),
            clear=none,
            ties=none,
            rms=_distance(np.full(len(theirs), gap), theirs),
            rank_correlation=NAN,
        )
        for name, (sign, gap) in said.items()
    }


def agreements(studies: Sequence[Study], dataset: str) -> dict[Protocol, Agreement]:
    """Every protocol that these studies can answer, closest first; of two as close, the one that
    orders the cells better. Those that answer far fewer printed cells than others come after
    them."""
    printed = printed_of(dataset)
    runs = table_runs([study.of(dataset=dataset) for study in studies if len(study.runs)])
    grids = {scaling: TableGrid.of(runs, scaling) for scaling in get_args(Scaling)}
    found = {}
    for protocol in answerable(runs):
        cells = grids[protocol.scaling].gaps(protocol)
        if protocol.stepsize == "tuned":
            cells = cells[cells["tried"] > 1]
        found[protocol] = agreement(cells, printed)
    enough = NEARLY_ALL * max((one.cells for one in found.values()), default=0)
    ranked = sorted(found, key=lambda one: (found[one].cells < enough, *_rank(found[one])))
    return {protocol: found[protocol] for protocol in ranked}


def printed_of(dataset: str) -> pd.DataFrame:
    """The cells that the paper prints of a data set."""
    printed = printed_cells()
    return printed[printed["dataset"] == dataset]


def _rank(one: Agreement) -> tuple[float, float]:
    """Low is good; what is undefined comes last."""
    away, order = one.rms, one.rank_correlation
    return np.inf if np.isnan(away) else away, np.inf if np.isnan(order) else -order


def _halves(gap_cs: Array, theirs: Array) -> tuple[float, float]:
    """Of the distance and of the rank correlation: half of a 95 % interval over seeds, from what
    each becomes without one of them (the jackknife)."""
    seeds = np.flatnonzero(np.isfinite(gap_cs).any(axis=0))
    if len(seeds) < 2:
        return NAN, NAN
    found = []
    for left_out in seeds:
        rest = moments(np.delete(gap_cs, left_out, axis=1))[0]
        there = np.isfinite(rest)
        ours, printed = rest[there], theirs[there]
        found.append((_distance(ours, printed), _rank_correlation(ours, printed)))
    n, values = len(seeds), np.array(found)
    error = np.sqrt((n - 1) / n * ((values - values.mean(axis=0)) ** 2).sum(axis=0))
    away, order = stats.t.ppf(0.975, n - 1) * error
    return float(away), float(order)


def _distance(ours: Array, theirs: Array) -> float:
    found = float(np.sqrt(np.mean((ours - theirs) ** 2))) if len(theirs) else NAN
    return NAN if np.isnan(found) else found


def _tally(agree: NDArray[np.bool_], among: NDArray[np.bool_]) -> Tally:
    return Tally(int((agree & among).sum()), int(among.sum()))


def _rank_correlation(ours: Array, theirs: Array) -> float:
    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return NAN
    return float(stats.spearmanr(ours, theirs).statistic)
