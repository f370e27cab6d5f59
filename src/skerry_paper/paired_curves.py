"""Curves of S2S and S2A for the paper's figures, and statistics of their differences.

Tables of values have a row per completed round and a column per seed. Row 0 is the start. Server
rounds are t = 0, H, 2H, ...; their result is recorded in row t + 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skerry.analysis.statistics import estimate, t_test
from skerry.errors import SkerryError
from skerry_paper.plan import BOTH
from skerry_paper.printed import REGIMES
from skerry_paper.study import (
    Studies,
    StudyData,
    at_best_stepsize,
    last_20_column,
    stepsize_counts,
)

NAN = float("nan")
BEFORE_AND_AFTER = "not recorded both just before and just after server rounds"


class MissingDataError(SkerryError):
    """The studies lack the runs or measures that a figure or statement needs."""


class DivergedError(MissingDataError):
    """All runs that a figure or statement needs diverged."""


@dataclass(frozen=True)
class CurveSetting:
    """The setting of one panel of a figure: which runs its curves are from."""

    name: str
    words: str
    study: str
    factors: Mapping[str, Any]
    early: int = 100
    """Last of the early rounds, in which the paper sees S2A ahead."""
    gap_rounds: tuple[int, ...] = (100, 1000)
    """Rounds at which the paper states the gap."""
    every_round: tuple[str, ...] = ("cifar10-drops", "cifar10-each-round")
    """Studies of the same setting that score devices in every round, for drops in server rounds."""
    only_if_run: bool = False
    """Whether the panel is shown only if it was run, because the paper does not have it."""


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
        CurveSetting(
            "mnist",
            "MNIST, H = 5",
            "mnist-curves",
            MNIST,
            early=20,
            gap_rounds=(100,),
            every_round=("mnist-each-round",),
        ),
        CurveSetting("cifar10", "CIFAR-10, H = 20", LONG, RING | R3),
    ),
    "fig9": (
        CurveSetting("r2", "intra non-IID, inter IID", LONG, RING | R2),
        CurveSetting("r3", "intra IID, inter non-IID", LONG, RING | R3),
    ),
    "fig10": (
        CurveSetting("h15", "H = 15", LONG, RING | HARDEST | {"period": 15}),
        CurveSetting("h20", "H = 20", LONG, RING | HARDEST),
    ),
    "fig11": (
        CurveSetting("fixed", "fixed graph", LONG, REGULAR | R3),
        CurveSetting("random", "changing graph", LONG, REGULAR | R3 | {"dynamic": True}),
    ),
    "fig12": (
        CurveSetting("fedavg", "FedAvg", LONG, RING | R3),
        CurveSetting("fedavgm", "FedAvgM", LONG, RING | R3 | {"optimizer": "fedavgm"}),
        CurveSetting(
            "fedavgm_averages",
            "FedAvgM on averages",
            LONG,
            RING | R3 | {"optimizer": "fedavgm_averages"},
            only_if_run=True,
        ),
    ),
    "fig13": (
        CurveSetting("r2", "intra non-IID, inter IID", "cifar100", COMPLETE | R2),
        CurveSetting("r3", "intra IID, inter non-IID", "cifar100", COMPLETE | R3),
    ),
    "fig14": (CurveSetting("r3", "intra IID, inter non-IID", LONG, RING | R3),),
}
"""The panels of every figure with curves."""


def settings_of(target: str, studies: Studies) -> list[CurveSetting]:
    """The settings of the panels of a figure."""

    def was_run(one: CurveSetting) -> bool:
        return one.study in studies and not studies[one.study].of(**one.factors).runs.empty

    return [one for one in CURVES[target] if not one.only_if_run or was_run(one)]


def select_runs(setting: CurveSetting, studies: Studies) -> StudyData:
    """The runs of a setting."""
    if setting.study not in studies:
        raise MissingDataError(f"the study {setting.study} is missing")
    found = studies[setting.study].of(**setting.factors)
    if found.runs.empty:
        raise MissingDataError(f"{setting.study} has no run with {setting.words}")
    return found


@dataclass(frozen=True, eq=False)
class PairedCurves:
    """The curves of S2S and S2A in one setting, a row per round and a column per seed."""

    s2s: pd.DataFrame
    s2a: pd.DataFrame
    period: int
    rounds: int
    note: str = ""
    """Tuned stepsizes, and seeds that are left out."""

    @property
    def gap(self) -> pd.DataFrame:
        """S2S minus S2A in the rounds and seeds that both recorded."""
        return drop_missing(self.s2s - self.s2a)


def pair_curves(study: StudyData, scoring: str) -> PairedCurves:
    """The curves of both primitives, of runs that differ only in primitive, stepsize and seed."""
    s2s, s2a = (primitive_curves(study, primitive, scoring) for primitive in BOTH)
    (period,), (rounds,) = study.runs["period"].unique(), study.runs["rounds"].unique()
    return PairedCurves(s2s, s2a, int(period), int(rounds), _note(study, scoring))


def primitive_curves(study: StudyData, primitive: str, measure: str) -> pd.DataFrame:
    """A measure of one primitive at its best stepsize, for the runs that finished."""
    runs = best_runs(study, measure)
    runs = runs[runs["primitive"] == primitive]
    if runs.empty:
        raise MissingDataError(f"{study.name} has no such run of {primitive.upper()}")
    kept = runs.drop(study.diverged.index, errors="ignore")
    if kept.empty:
        raise DivergedError(f"{primitive.upper()} diverged")
    if measure not in study.curves:
        raise MissingDataError(f"{study.name} did not record {measure} round by round")
    lines = study.curves[study.curves["run"].isin(kept.index)]
    values = lines.assign(seed=lines["run"].map(kept["seed"])).pivot(
        index="round", columns="seed", values=measure
    )
    if drop_missing(values).empty:
        raise MissingDataError(f"{study.name} did not record {measure} round by round")
    return drop_missing(values)


def best_runs(study: StudyData, measure: str) -> pd.DataFrame:
    """Runs of each primitive at its best stepsize, including those that diverged."""
    runs, column = study.runs, last_20_column(measure)
    choice = runs["stepsize"].nunique() > 1 and column in runs
    return at_best_stepsize(runs, column, ["primitive"]) if choice else runs


def curves_to_draw(study: StudyData, scoring: str) -> pd.DataFrame:
    """The table that figures draw: a row per run and round, each primitive at its best stepsize.

    A seed in which one primitive diverged is left out for both, if other seeds remain: a mean
    would jump where a run ends."""
    best = best_runs(study, scoring)
    ended = best.drop(study.diverged.index, errors="ignore")
    lost = best.loc[best.index.difference(ended.index), "seed"]
    paired = ended[~ended["seed"].isin(lost)]
    runs = ended if paired.empty else paired
    lines = study.curves[study.curves["run"].isin(runs.index)]
    factors = runs[["primitive", "beta", "seed"]]
    return lines.join(factors, on="run").assign(key=lines["run"])


def _note(study: StudyData, scoring: str) -> str:
    """A note on tuned stepsizes and on seeds that are left out."""
    runs = best_runs(study, scoring)
    parts = []
    if study.runs["stepsize"].nunique() > 1:
        chosen = ((name, runs.loc[runs["primitive"] == name, "stepsize"]) for name in BOTH)
        sizes = [f"{stepsize_counts(sizes)} for {name.upper()}" for name, sizes in chosen]
        parts.append(f"best stepsizes on the other seeds: {', '.join(sizes)}")
    lost = runs[runs.index.isin(study.diverged.index)]
    if len(lost):
        seeds = [f"seed {row['seed']} of {row['primitive'].upper()}" for _, row in lost.iterrows()]
        parts.append(f"without {' and '.join(seeds)}, which diverged")
    return "; ".join(parts)


# Statistics of tables of values


@dataclass(frozen=True)
class NotedMean:
    """A mean with half of its 95 % interval (NaN if unknown) and a note on both."""

    value: float
    half: float = NAN
    note: str = ""
    p: float = NAN
    """Of the t test over seeds; NaN for fewer than three."""


def drop_missing(values: pd.DataFrame) -> pd.DataFrame:
    """Drop the rounds and seeds without any value."""
    return values.dropna(how="all").dropna(how="all", axis=1)


def rounds_between(values: pd.DataFrame, after: int, until: int) -> pd.DataFrame:
    """Rounds after + 1 to until; never round 0."""
    return values[(values.index > max(after, 0)) & (values.index <= until)]


def noted_mean(values: pd.DataFrame, period: int) -> NotedMean:
    """The mean with its 95 % interval over seeds; for a single seed, over server periods, as if
    they were independent."""
    if values.empty:
        return NotedMean(NAN, NAN, "not recorded in these rounds")
    by_seed = values.mean()
    seeds = estimate(by_seed)
    if seeds.count > 1:
        p = float(t_test([by_seed])[0])
        return NotedMean(seeds.mean, seeds.half_width, f"{seeds.count} seeds", p)
    periods = estimate(values.groupby((values.index - 1) // period).mean().iloc[:, 0])
    note = f"one seed, interval over {periods.count} server periods"
    return NotedMean(
        float(by_seed.iloc[0]), periods.half_width, note if periods.count > 1 else "one seed"
    )


def mean_between(values: pd.DataFrame, after: int, until: int, period: int) -> NotedMean:
    """The mean over rounds after + 1 to until."""
    return noted_mean(rounds_between(drop_missing(values), after, until), period)


def at_round(values: pd.DataFrame, at: int, period: int) -> NotedMean:
    """The mean in one round, or in the last recorded round before it."""
    earlier = values.index[(values.index > 0) & (values.index <= at)]
    if earlier.empty:
        return NotedMean(NAN, NAN, f"nothing is recorded by round {at}")
    found = noted_mean(drop_missing(values.loc[[earlier[-1]]]), period)
    if earlier[-1] == at:
        return found
    return replace(found, note=f"{found.note}; at round {earlier[-1]}")


def server_round_drops(accuracy: pd.DataFrame, period: int) -> pd.DataFrame:
    """Accuracy lost in each server round t > 0: row t minus row t + 1, at index t + 1."""
    after = accuracy[(accuracy.index > 1) & ((accuracy.index - 1) % period == 0)]
    return drop_missing(accuracy.reindex(after.index - 1).set_axis(after.index) - after)


def mean_drop(accuracy: pd.DataFrame, period: int) -> NotedMean:
    """The mean accuracy lost in a server round."""
    lost = server_round_drops(accuracy, period)
    return NotedMean(NAN, NAN, BEFORE_AND_AFTER) if lost.empty else noted_mean(lost, period)


def drop_by_interpolation(accuracy: pd.DataFrame, period: int) -> NotedMean:
    """The mean drop where consecutive rounds were not recorded: rows just after server rounds are
    compared with an interpolation of rows just before other server rounds."""
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
    return NotedMean(lost.mean, lost.half_width, f"{note}; before and after are different rounds")


def drop_in_other_study(
    setting: CurveSetting, studies: Studies, primitive: str, scoring: str
) -> NotedMean:
    """The mean drop in the same setting of a study that scores devices in every round."""
    for name in setting.every_round:
        if name not in studies:
            continue
        study = studies[name].of(**setting.factors)
        try:
            accuracy = primitive_curves(study, primitive, scoring)
        except MissingDataError:
            continue
        found = mean_drop(accuracy, int(study.runs["period"].iloc[0]))
        if found.value == found.value:
            first, last = int(accuracy.index.min()), int(accuracy.index.max())
            return replace(found, note=f"{found.note}; rounds {first} to {last}")
    return NotedMean(NAN, NAN, BEFORE_AND_AFTER)


def percent_reduction(usual: pd.DataFrame, other: pd.DataFrame) -> NotedMean:
    """By how many percent the mean of `other` is below that of `usual`, over common values.

    The interval is that of a ratio of means r = b / a: of (b_i - r a_i) / a over seeds, or over
    rounds if there is one seed."""
    usual, other = usual.align(other, join="inner")
    both = usual.notna() & other.notna()
    usual, other = drop_missing(usual[both]), drop_missing(other[both])
    if usual.empty:
        return NotedMean(NAN, NAN, BEFORE_AND_AFTER)
    several = usual.shape[1] > 1
    a, b = (np.asarray(v.mean() if several else v.iloc[:, 0], float) for v in (usual, other))
    if not estimate(a).low > 0:
        return NotedMean(NAN, NAN, "the interval of the drop reaches zero")
    ratio = b.mean() / a.mean()
    half = estimate((b - ratio * a) / a.mean()).half_width
    note = f"{len(a)} seeds" if several else f"one seed, interval over {len(a)} server rounds"
    return NotedMean(100 * (1 - ratio), 100 * half, note)
