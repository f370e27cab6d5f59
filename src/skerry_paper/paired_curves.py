"""S2S against S2A round by round: which runs the curves of the paper's figures are, and what two
curves say of each other.

Tables of values have a row per round done and a column per seed. Round 0 is the start. The server
rounds are t = 0, H, 2H, ...; what they leave is recorded in row t + 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skerry.analysis.statistics import estimate
from skerry.errors import SkerryError
from skerry_paper.plan import BOTH
from skerry_paper.printed import REGIMES
from skerry_paper.study import Study, at_best_stepsize, lately

Studies = Mapping[str, Study]

NAN = float("nan")
BEFORE_AND_AFTER = "not recorded both just before and just after server rounds"


class UnansweredError(SkerryError):
    """A study without the runs or measures that a question is about."""


class DivergedError(UnansweredError):
    """All runs that a question is about diverged."""


@dataclass(frozen=True)
class CurvePair:
    """A panel of a figure: the curves of S2S and S2A in one setting."""

    name: str
    words: str
    study: str
    factors: Mapping[str, Any]
    early: int = 100
    """Where the early rounds end, in which the paper sees S2A ahead."""
    moments: tuple[int, ...] = (100, 1000)
    """Rounds whose gap the paper speaks of."""
    every_round: tuple[str, ...] = ("cifar10-drops", "cifar10-each-round")
    """Studies in which devices of the same setting are scored in every round, for what server
    rounds take from them."""
    if_there: bool = False
    """Whether it is shown only where it was run: the paper does not have it."""


def _regime(name: str) -> dict[str, Any]:
    return dict(zip(("intra", "inter"), REGIMES[name], strict=True))


R2, R3, HARDEST = (_regime(name) for name in ("R2", "R3", "R3, intra non-IID"))
RING: dict[str, Any] = {"topology": "ring", "dynamic": False, "period": 20, "optimizer": "fedavg"}
REGULAR = RING | {"topology": "regular"}
COMPLETE = RING | {"topology": "complete"}
MNIST = {**R3, "topology": "ring", "share": 0.2, "period": 5}
LONG = "cifar10-long"

CURVES = {
    "fig5": (
        CurvePair(
            "mnist",
            "MNIST, H = 5",
            "mnist-curves",
            MNIST,
            early=20,
            moments=(100,),
            every_round=("mnist-each-round",),
        ),
        CurvePair("cifar10", "CIFAR-10, H = 20", LONG, RING | R3),
    ),
    "fig9": (
        CurvePair("r2", "intra non-IID, inter IID", LONG, RING | R2),
        CurvePair("r3", "intra IID, inter non-IID", LONG, RING | R3),
    ),
    "fig10": (
        CurvePair("h15", "H = 15", LONG, RING | HARDEST | {"period": 15}),
        CurvePair("h20", "H = 20", LONG, RING | HARDEST),
    ),
    "fig11": (
        CurvePair("fixed", "fixed graph", LONG, REGULAR | R3),
        CurvePair("random", "changing graph", LONG, REGULAR | R3 | {"dynamic": True}),
    ),
    "fig12": (
        CurvePair("fedavg", "FedAvg", LONG, RING | R3),
        CurvePair("fedavgm", "FedAvgM", LONG, RING | R3 | {"optimizer": "fedavgm"}),
        CurvePair(
            "fedavgm_averages",
            "FedAvgM on averages",
            LONG,
            RING | R3 | {"optimizer": "fedavgm_averages"},
            if_there=True,
        ),
    ),
    "fig13": (
        CurvePair("r2", "intra non-IID, inter IID", "cifar100", COMPLETE | R2),
        CurvePair("r3", "intra IID, inter non-IID", "cifar100", COMPLETE | R3),
    ),
    "fig14": (CurvePair("r3", "intra IID, inter non-IID", LONG, RING | R3),),
}
"""The panels of every figure with curves."""


def pairs_of(target: str, studies: Studies) -> list[CurvePair]:
    """The panels of a figure, without those that are shown only where they were run."""
    return [pair for pair in CURVES[target] if not pair.if_there or _was_run(pair, studies)]


def _was_run(pair: CurvePair, studies: Studies) -> bool:
    return pair.study in studies and not studies[pair.study].of(**pair.factors).runs.empty


def slice_of(pair: CurvePair, studies: Studies) -> Study:
    """The runs of a pair."""
    if pair.study not in studies:
        raise UnansweredError(f"the study {pair.study} is not there")
    found = studies[pair.study].of(**pair.factors)
    if found.runs.empty:
        raise UnansweredError(f"{pair.study} has no run with {pair.words}")
    return found


# The values of a slice in which only primitive, stepsize and seed vary


@dataclass(frozen=True, eq=False)
class Contest:
    s2s: pd.DataFrame
    s2a: pd.DataFrame
    period: int
    rounds: int
    note: str = ""
    """Which stepsizes were taken, where there was a choice; which seeds are left out."""

    @property
    def gap(self) -> pd.DataFrame:
        """S2S minus S2A in the rounds and seeds that both have."""
        return recorded_part(self.s2s - self.s2a)


def contest_of(study: Study, scoring: str) -> Contest:
    """The two curves of a slice."""
    s2s, s2a = (curves_of(study, primitive, scoring) for primitive in BOTH)
    (period,), (rounds,) = study.runs["period"].unique(), study.runs["rounds"].unique()
    return Contest(s2s, s2a, int(period), int(rounds), _note(study, scoring))


def curves_of(study: Study, primitive: str, measure: str) -> pd.DataFrame:
    """One primitive's values at its best stepsize, of the runs that reached their end."""
    runs = best_runs(study, measure)
    runs = runs[runs["primitive"] == primitive]
    if runs.empty:
        raise UnansweredError(f"{study.name} has no run of {primitive.upper()} here")
    kept = runs.drop(study.diverged.index, errors="ignore")
    if kept.empty:
        raise DivergedError(f"{primitive.upper()} diverged here")
    if measure not in study.curves:
        raise UnansweredError(f"{study.name} did not record {measure} round by round")
    lines = study.curves[study.curves["run"].isin(kept.index)]
    values = lines.assign(seed=lines["run"].map(kept["seed"])).pivot(
        index="round", columns="seed", values=measure
    )
    if recorded_part(values).empty:
        raise UnansweredError(f"{study.name} did not record {measure} round by round")
    return recorded_part(values)


def best_runs(study: Study, measure: str) -> pd.DataFrame:
    """Each primitive's runs at its best stepsize, those that diverged there among them."""
    runs, column = study.runs, lately(measure)
    choice = runs["stepsize"].nunique() > 1 and column in runs
    return at_best_stepsize(runs, column, ["primitive"]) if choice else runs


def drawn_curves(study: Study, scoring: str) -> pd.DataFrame:
    """A row per run and round, as curves are drawn, each primitive at its best stepsize. A seed in
    which one diverged is left out for both, if others are left: where a run ends, a mean jumps."""
    best = best_runs(study, scoring)
    ended = best.drop(study.diverged.index, errors="ignore")
    lost = best.loc[best.index.difference(ended.index), "seed"]
    paired = ended[~ended["seed"].isin(lost)]
    runs = ended if paired.empty else paired
    lines = study.curves[study.curves["run"].isin(runs.index)]
    told = runs[["primitive", "beta", "seed"]]
    return lines.join(told, on="run").assign(key=lines["run"])


def _note(study: Study, scoring: str) -> str:
    """Which stepsizes were taken, and which seeds are left out."""
    runs = best_runs(study, scoring)
    parts = []
    if study.runs["stepsize"].nunique() > 1:
        taken = runs.groupby("primitive")["stepsize"].first()
        told = [f"{taken[name]:.3g} for {name.upper()}" for name in BOTH]
        parts.append(f"best stepsizes: {', '.join(told)}")
    lost = runs[runs.index.isin(study.diverged.index)]
    if len(lost):
        told = [
            f"seed {seed} of {name.upper()}"
            for name, seed in zip(lost["primitive"], lost["seed"], strict=True)
        ]
        parts.append(f"without {' and '.join(told)}, which diverged")
    return "; ".join(parts)


# What is read off tables of values


@dataclass(frozen=True)
class NotedMean:
    """A mean, and its standard error where there is something to tell it from."""

    value: float
    error: float = NAN
    note: str = ""


def recorded_part(values: pd.DataFrame) -> pd.DataFrame:
    """Without rounds and seeds that have no value."""
    return values.dropna(how="all").dropna(how="all", axis=1)


def between(values: pd.DataFrame, after: int, until: int) -> pd.DataFrame:
    """Rounds after + 1 to until; round 0, where nothing has been learnt, is never among them."""
    return values[(values.index > max(after, 0)) & (values.index <= until)]


def mean_of(values: pd.DataFrame, period: int) -> NotedMean:
    """The mean, with its standard error over seeds. A single seed has none: its error is that
    over server periods, which are taken for independent of each other."""
    if values.empty:
        return NotedMean(NAN, NAN, "not recorded in these rounds")
    by_seed = values.mean()
    seeds = estimate(by_seed)
    if seeds.count > 1:
        return NotedMean(seeds.mean, seeds.standard_error, f"{seeds.count} seeds")
    periods = estimate(values.groupby((values.index - 1) // period).mean().iloc[:, 0])
    note = f"one seed, error over {periods.count} server periods"
    return NotedMean(
        float(by_seed.iloc[0]), periods.standard_error, note if periods.count > 1 else "one seed"
    )


def at_round(values: pd.DataFrame, at: int, period: int) -> NotedMean:
    """The values in one round; where it was not recorded, in the closest one before it."""
    earlier = values.index[(values.index > 0) & (values.index <= at)]
    if earlier.empty:
        return NotedMean(NAN, NAN, f"nothing is recorded by round {at}")
    found = mean_of(recorded_part(values.loc[[earlier[-1]]]), period)
    if earlier[-1] == at:
        return found
    return NotedMean(found.value, found.error, f"{found.note}; at round {earlier[-1]}")


def drops(accuracy: pd.DataFrame, period: int) -> pd.DataFrame:
    """What is lost in each server round: in row t + 1, the accuracy in row t minus that in t + 1.

    The server round at t = 0, before anything is learnt, does not count.
    """
    after = accuracy[(accuracy.index > 1) & ((accuracy.index - 1) % period == 0)]
    return recorded_part(accuracy.reindex(after.index - 1).set_axis(after.index) - after)


def mean_drop(accuracy: pd.DataFrame, period: int) -> NotedMean:
    lost = drops(accuracy, period)
    return NotedMean(NAN, NAN, BEFORE_AND_AFTER) if lost.empty else mean_of(lost, period)


def drop_by_phase(accuracy: pd.DataFrame, period: int) -> NotedMean:
    """Where no two rounds in a row were looked at: rounds that a server round has just left beside
    others just before one, a line drawn between those on both sides."""
    before = accuracy[(accuracy.index > 0) & (accuracy.index % period == 0)]
    after = accuracy[(accuracy.index - 1) % period == 0]
    within = (after.index > before.index.min()) & (after.index < before.index.max())
    after = after[within] if len(before) > 1 else after[:0]
    if after.empty:
        return NotedMean(NAN, NAN, BEFORE_AND_AFTER)
    lost = estimate(
        float(np.mean(np.interp(after.index, before.index, before[seed]) - after[seed]))
        for seed in accuracy
    )
    note = f"{lost.count} seeds" if lost.count > 1 else "one seed"
    return NotedMean(lost.mean, lost.standard_error, f"{note}; before and after are other rounds")


def drop_elsewhere(pair: CurvePair, studies: Studies, primitive: str, scoring: str) -> NotedMean:
    """The mean drop of the same setting in a study that scores devices in every round."""
    for name in pair.every_round:
        if name not in studies:
            continue
        study = studies[name].of(**pair.factors)
        try:
            accuracy = curves_of(study, primitive, scoring)
        except UnansweredError:
            continue
        found = mean_drop(accuracy, int(study.runs["period"].iloc[0]))
        if found.value == found.value:
            first, last = int(accuracy.index.min()), int(accuracy.index.max())
            return NotedMean(found.value, found.error, f"{found.note}; rounds {first} to {last}")
    return NotedMean(NAN, NAN, BEFORE_AND_AFTER)


def reduction(usual: pd.DataFrame, other: pd.DataFrame) -> NotedMean:
    """By how many percent the other mean is smaller, from values of the same rounds and seeds.

    The standard error is that of a ratio of means r = b / a: of (b_i - r a_i) / a over seeds, or
    over rounds if there is one seed.
    """
    usual, other = usual.align(other, join="inner")
    both = usual.notna() & other.notna()
    usual, other = recorded_part(usual[both]), recorded_part(other[both])
    if usual.empty:
        return NotedMean(NAN, NAN, BEFORE_AND_AFTER)
    several = usual.shape[1] > 1
    a, b = (np.asarray(v.mean() if several else v.iloc[:, 0], float) for v in (usual, other))
    if a.mean() <= 0 or a.mean() < estimate(a).standard_error:
        return NotedMean(NAN, NAN, "there is no drop beyond its standard error to reduce")
    ratio = b.mean() / a.mean()
    error = estimate((b - ratio * a) / a.mean()).standard_error
    note = f"{len(a)} seeds" if several else f"one seed, error over {len(a)} server rounds"
    return NotedMean(100 * (1 - ratio), 100 * error, note)
