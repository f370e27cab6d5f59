"""Agreement of measured gaps with the printed ones, compared with baselines that need no runs.

The baselines are: always S2S, always S2A, and zero. A protocol that does not beat them carries no
information on the size of the gaps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import Array, moments
from skerry_paper.printed import CELL, printed_cells
from skerry_paper.protocol import SMALL_GAP, Protocol, Scaling, TableGrid, protocols, table_runs
from skerry_paper.study import Studies, StudyData, Timing

NEARLY_ALL = 0.9
NAN = float("nan")
ALWAYS_S2S, ALWAYS_S2A, ZERO = "always S2S", "always S2A", "zero"


class Tally(NamedTuple):
    """A count of cells that agree, out of a total."""

    agree: int
    of: int

    @property
    def fraction(self) -> float:
        """agree / of; NaN if the total is 0."""
        return self.agree / self.of if self.of else NAN


@dataclass(frozen=True)
class Agreement:
    """Agreement of measured gaps with the printed ones."""

    cells: int
    """Number of printed cells, dashes included, for which a gap was measured."""
    signs: Tally
    """Printed gaps above SMALL_GAP: how many measured gaps have the same sign."""
    clear: Tally
    """The same, among cells whose measured gap is clear (`clear_gaps`)."""
    ties: Tally
    """Printed dashes: how many measured gaps are not clear either, of those tested."""
    rms: float
    """Root mean square difference from the printed gaps, in percentage points."""
    rank_correlation: float
    """Spearman's rank correlation with the printed gaps; NaN where undefined."""
    rms_half: float = NAN
    """Half-width of the 95 % interval of `rms` over seeds (jackknife); NaN for a single seed."""
    rank_half: float = NAN
    """The same for `rank_correlation`."""
    noise: float = NAN
    """Root mean square standard error of our gaps: what the noise of seeds adds to `rms`."""

    @property
    def without_noise(self) -> float:
        """Estimate of `rms` for very many seeds: `rms` with the noise of our seeds removed."""
        return float(np.sqrt(max(self.rms**2 - np.nan_to_num(self.noise) ** 2, 0)))

    def beats(self, baseline: "Agreement") -> bool:
        """Whether it is closer to the printed gaps by more than its interval over seeds."""
        return self.rms + (0 if np.isnan(self.rms_half) else self.rms_half) < baseline.rms


Ranked: TypeAlias = Mapping[Protocol, Agreement]
"""Agreement of protocols, the closest first."""
Found: TypeAlias = Mapping[str, Ranked]
"""Ranked protocols by data set."""


def agreement(found: pd.DataFrame, printed: pd.DataFrame) -> Agreement:
    """Compare measured gaps with printed ones over their common cells.

    `found` has the columns CELL, `gap`, `se`, `p` and `by_seed`."""
    columns = ["gap", "se", "p", "by_seed"]
    both = printed[[*CELL, "gap"]].merge(found[[*CELL, *columns]], on=CELL)
    theirs, ours, error = (both[name].to_numpy(float) for name in ("gap_x", "gap_y", "se"))
    dash = np.isnan(theirs)
    large = np.abs(theirs) > SMALL_GAP
    clear = clear_gaps(both)
    same = np.sign(ours) == np.sign(theirs)
    known = ~dash & np.isfinite(error)
    halves = (NAN, NAN)
    if not dash.all():
        halves = _halves(np.stack(both["by_seed"].to_list())[~dash], theirs[~dash])
    return Agreement(
        cells=len(both),
        signs=_tally(same, large),
        clear=_tally(same, large & clear),
        ties=_tally(~clear, dash & both["p"].notna().to_numpy()),
        rms=_distance(ours[~dash], theirs[~dash]),
        rank_correlation=_rank_correlation(ours[~dash], theirs[~dash]),
        rms_half=halves[0],
        rank_half=halves[1],
        noise=_distance(error[known], np.zeros(known.sum())),
    )


def clear_gaps(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Which gaps of `cell_gaps` differ from zero by a paired t test over seeds, at a false
    discovery rate of 0.05 over these cells (Benjamini and Hochberg), given three seeds.

    Clear cells are counted, so the share of false ones among them is what matters. Holm's
    correction guards against a single false one, and leaves hardly any of 192 cells to count."""
    from scipy.stats import false_discovery_control

    p = cells["p"].to_numpy(float)
    tested = np.isfinite(p)
    clear = np.zeros(len(p), dtype=bool)
    if tested.any():
        clear[tested] = false_discovery_control(p[tested]) <= LEVEL
    return clear


def baselines(printed: pd.DataFrame) -> dict[str, Agreement]:
    """Agreement of the baselines. "always S2S" and "always S2A" predict the same gap for all cells,
    the best one with that sign."""
    theirs = printed["gap"].dropna().to_numpy(float)
    mean = float(theirs.mean()) if len(theirs) else 0.0
    large = np.abs(theirs) > SMALL_GAP
    predicted = {ALWAYS_S2S: (1, max(mean, 0.0)), ALWAYS_S2A: (-1, min(mean, 0.0)), ZERO: (0, 0.0)}
    none = Tally(0, 0)
    return {
        name: Agreement(
            cells=len(printed),
            signs=_tally(np.sign(theirs) == sign, large),
            clear=none,
            ties=none,
            rms=_distance(np.full(len(theirs), gap), theirs),
            rank_correlation=NAN,
        )
        for name, (sign, gap) in predicted.items()
    }


def rank_protocols(studies: Sequence[StudyData], dataset: str) -> dict[Protocol, Agreement]:
    """The agreement of every protocol that these studies can answer, the closest first.

    Ties are broken by the rank correlation. Protocols that cover far fewer printed cells than
    others come last."""
    printed = printed_of(dataset)
    runs = table_runs([study.of(dataset=dataset) for study in studies if len(study.runs)])
    grids = {scaling: TableGrid.of(runs, scaling) for scaling in get_args(Scaling)}
    found = {}
    for protocol in protocols(runs):
        cells = grids[protocol.scaling].cell_gaps(protocol)
        if protocol.stepsize == "tuned":
            cells = cells[cells["tried"] > 1]
        found[protocol] = agreement(cells, printed)
    enough = NEARLY_ALL * max((one.cells for one in found.values()), default=0)
    ranked = sorted(found, key=lambda one: (found[one].cells < enough, *_rank(found[one])))
    return {protocol: found[protocol] for protocol in ranked}


def all_agreements(studies: Studies) -> Found:
    """The agreement of every protocol that covers a printed cell, by data set."""
    every = list(studies.values())
    datasets = dict.fromkeys(name for study in every for name in study.runs["dataset"])
    found = {
        name: {protocol: one for protocol, one in rank_protocols(every, name).items() if one.cells}
        for name in datasets
    }
    return {name: ranked for name, ranked in found.items() if ranked}


def with_timing(ranked: Ranked, timing: Timing) -> Ranked:
    """Only the protocols with this timing."""
    return {one: met for one, met in ranked.items() if one.timing == timing}


def with_most_cells(ranked: Ranked) -> Ranked:
    """Drop protocols that cover far fewer cells than others: their distances differ in kind."""
    most = max((one.cells for one in ranked.values()), default=0)
    return {protocol: one for protocol, one in ranked.items() if one.cells > NEARLY_ALL * most}


def printed_of(dataset: str) -> pd.DataFrame:
    """The printed gap of each configuration of a data set, once: K/n = 0.2, H = 5 is printed in two
    tables, and has the mean of both values. There a dash counts as 0, unless both are dashes."""
    printed = printed_cells()
    printed = printed[printed["dataset"] == dataset]
    gaps = printed.assign(gap=printed["gap"].fillna(0.0)).groupby(CELL, sort=False)["gap"].mean()
    number = printed.groupby(CELL, sort=False)["gap"].count() > 0
    return gaps.where(number).reset_index()


class DistanceChange(NamedTuple):
    """How much farther from the printed gaps one way of measuring is than another."""

    base: float
    """Distance of the base, over the cells and seeds that both have."""
    change: float
    half: float
    """Half of the 95 % interval of `change` over seeds (jackknife); NaN for a single seed."""
    p: float
    """Of the t test over seeds that belongs to the interval."""
    cells: int


def distance_change(
    base: pd.DataFrame, other: pd.DataFrame, printed: pd.DataFrame
) -> DistanceChange:
    """The distance of `other` minus that of `base`, from printed gaps, over the cells and the seeds
    that both have. Both are frames of `cell_gaps` whose seeds are numbered alike."""
    both = base[[*CELL, "by_seed"]].merge(other[[*CELL, "by_seed"]], on=CELL)
    both = both.merge(printed[[*CELL, "gap"]].dropna(), on=CELL)
    if both.empty:
        return DistanceChange(NAN, NAN, NAN, NAN, 0)
    ours_cs, theirs_cs = (np.stack(both[name].to_list()) for name in ("by_seed_x", "by_seed_y"))
    seeds = min(ours_cs.shape[1], theirs_cs.shape[1])
    ours_cs, theirs_cs = ours_cs[:, :seeds], theirs_cs[:, :seeds]
    common = np.isfinite(ours_cs) & np.isfinite(theirs_cs)
    printed_c = both["gap"].to_numpy(float)

    def distances(seeds_kept: NDArray[np.bool_]) -> tuple[float, float]:
        kept = common & seeds_kept
        means = [moments(np.where(kept, one, np.nan))[0] for one in (ours_cs, theirs_cs)]
        known = kept.any(axis=1)
        first, second = (_distance(one[known], printed_c[known]) for one in means)
        return first, second

    used = np.flatnonzero(common.any(axis=0))
    first, second = distances(np.full(seeds, True))
    change, half, p = second - first, NAN, NAN
    if len(used) > 1:
        without = [distances(np.arange(seeds) != seed) for seed in used]
        error = _jackknife_error(np.array([two - one for one, two in without]))
        half = float(stats.t.ppf(0.975, len(used) - 1) * error)
        p = float(2 * stats.t.sf(abs(change) / error, len(used) - 1)) if error else NAN
    return DistanceChange(first, change, half, p, int(common.any(axis=1).sum()))


def _rank(one: Agreement) -> tuple[float, float]:
    """Sort key: small distances first, then high rank correlations, NaN last."""
    rms, order = one.rms, one.rank_correlation
    return np.inf if np.isnan(rms) else rms, np.inf if np.isnan(order) else -order


def _halves(gap_cs: Array, theirs: Array) -> tuple[float, float]:
    """Jackknife half-widths of the 95 % intervals of distance and rank correlation over seeds."""
    seeds = np.flatnonzero(np.isfinite(gap_cs).any(axis=0))
    if len(seeds) < 2:
        return NAN, NAN
    found = []
    for seed in seeds:
        mean_c = moments(np.delete(gap_cs, seed, axis=1))[0]
        known = np.isfinite(mean_c)
        ours, printed = mean_c[known], theirs[known]
        found.append((_distance(ours, printed), _rank_correlation(ours, printed)))
    factor = stats.t.ppf(0.975, len(seeds) - 1)
    distance, order = (float(factor * _jackknife_error(one)) for one in np.array(found).T)
    return distance, order


def _jackknife_error(values_s: Array) -> float:
    """Standard error of a statistic, from its values without each of the seeds."""
    n = len(values_s)
    return float(np.sqrt((n - 1) / n * ((values_s - values_s.mean()) ** 2).sum()))


def _distance(ours: Array, theirs: Array) -> float:
    found = float(np.sqrt(np.mean((ours - theirs) ** 2))) if len(theirs) else NAN
    return NAN if np.isnan(found) else found


def _tally(agree: NDArray[np.bool_], among: NDArray[np.bool_]) -> Tally:
    return Tally(int((agree & among).sum()), int(among.sum()))


def _rank_correlation(ours: Array, theirs: Array) -> float:
    if len(ours) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return NAN
    return float(stats.spearmanr(ours, theirs).statistic)
