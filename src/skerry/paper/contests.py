"""S2S against S2A round by round, in one setting.

Tables of values have a row per round done and a column per seed. Round 0 is the start. The server
calls in rounds t = 0, H, 2H, ..., so the row right after a visit is t + 1.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skerry.analysis.statistics import estimate
from skerry.errors import SkerryError
from skerry.paper.study import Study, lately
from skerry.paper.tuned import tuned

if TYPE_CHECKING:
    import pandas as pd

NAN = float("nan")


class UnansweredError(SkerryError):
    """A study without the runs or measures that a question is about."""


@dataclass(frozen=True)
class Measured:
    """A mean, and its standard error where there is something to tell it from."""

    value: float
    error: float = NAN
    note: str = ""


@dataclass(frozen=True, eq=False)
class Contest:
    s2s: "pd.DataFrame"
    s2a: "pd.DataFrame"
    period: int
    rounds: int
    note: str = ""
    """Which stepsizes were taken, where there was a choice; which seeds are left out."""

    @property
    def gap(self) -> "pd.DataFrame":
        """S2S minus S2A in the rounds and seeds that both have."""
        return shared(self.s2s - self.s2a)


def contest_of(study: Study, scoring: str) -> Contest:
    """The two curves of a slice in which only primitive, stepsize and seed vary."""
    s2s, s2a = (curves_of(study, primitive, scoring) for primitive in ("s2s", "s2a"))
    (period,), (rounds,) = study.runs["period"].unique(), study.runs["rounds"].unique()
    return Contest(s2s, s2a, int(period), int(rounds), _note(study, scoring))


def curves_of(study: Study, primitive: str, measure: str) -> "pd.DataFrame":
    """One primitive's values at its best stepsize, of the runs that reached their end."""
    runs = best_runs(study, measure)
    runs = runs[runs["primitive"] == primitive]
    if runs.empty:
        raise UnansweredError(f"{study.name} has no run of {primitive.upper()} here")
    kept = runs.drop(study.diverged.index, errors="ignore")
    if kept.empty:
        raise UnansweredError(f"{primitive.upper()} diverged here")
    if measure not in study.curves:
        raise UnansweredError(f"{study.name} did not record {measure} round by round")
    lines = study.curves[study.curves["run"].isin(kept.index)]
    values = lines.assign(seed=lines["run"].map(kept["seed"])).pivot(
        index="round", columns="seed", values=measure
    )
    if shared(values).empty:
        raise UnansweredError(f"{study.name} did not record {measure} round by round")
    return shared(values)


def best_runs(study: Study, measure: str) -> "pd.DataFrame":
    """Each primitive's runs at its best stepsize, those that diverged there among them."""
    runs, column = study.runs, lately(measure)
    choice = runs["stepsize"].nunique() > 1 and column in runs
    return tuned(runs, column, ["primitive"]) if choice else runs


def _note(study: Study, scoring: str) -> str:
    """Which stepsizes were taken, and which seeds are left out."""
    runs = best_runs(study, scoring)
    parts = []
    if study.runs["stepsize"].nunique() > 1:
        taken = runs.groupby("primitive")["stepsize"].first()
        told = [f"{taken[name]:.3g} for {name.upper()}" for name in ("s2s", "s2a")]
        parts.append(f"best stepsizes: {', '.join(told)}")
    lost = runs[runs.index.isin(study.diverged.index)]
    if len(lost):
        told = [
            f"seed {seed} of {name.upper()}"
            for name, seed in zip(lost["primitive"], lost["seed"], strict=True)
        ]
        parts.append(f"without {' and '.join(told)}, which diverged")
    return "; ".join(parts)


def shared(values: "pd.DataFrame") -> "pd.DataFrame":
    """Without rounds and seeds that have no value."""
    return values.dropna(how="all").dropna(how="all", axis=1)


def mean_of(values: "pd.DataFrame", period: int) -> Measured:
    """The mean, with its standard error over seeds. A single seed has none: its error is that
    over server periods, which are taken for independent of each other."""
    if values.empty:
        return Measured(NAN, NAN, "not recorded in these rounds")
    by_seed = values.mean()
    seeds = estimate(by_seed)
    if seeds.count > 1:
        return Measured(seeds.mean, seeds.standard_error, f"{seeds.count} seeds")
    periods = estimate(values.groupby((values.index - 1) // period).mean().iloc[:, 0])
    note = f"one seed, error over {periods.count} server periods"
    return Measured(
        float(by_seed.iloc[0]), periods.standard_error, note if periods.count > 1 else "one seed"
    )


def at_round(values: "pd.DataFrame", at: int, period: int) -> Measured:
    """The values in one round; where it was not recorded, in the closest one before it."""
    earlier = values.index[(values.index > 0) & (values.index <= at)]
    if earlier.empty:
        return Measured(NAN, NAN, f"nothing is recorded by round {at}")
    found = mean_of(shared(values.loc[[earlier[-1]]]), period)
    if earlier[-1] == at:
        return found
    return Measured(found.value, found.error, f"{found.note}; at round {earlier[-1]}")


def between(values: "pd.DataFrame", after: int, until: int) -> "pd.DataFrame":
    """Rounds after + 1 to until; round 0, where nothing has been learnt, is never among them."""
    return values[(values.index > max(after, 0)) & (values.index <= until)]


def drops(accuracy: "pd.DataFrame", period: int) -> "pd.DataFrame":
    """What is lost at each visit: in row t + 1, the accuracy in round t minus that in t + 1.

    The visit at t = 0, before anything is learnt, does not count.
    """
    after = accuracy[(accuracy.index > 1) & ((accuracy.index - 1) % period == 0)]
    return shared(accuracy.reindex(after.index - 1).set_axis(after.index) - after)


def reduction(usual: "pd.DataFrame", other: "pd.DataFrame") -> Measured:
    """By how many percent the other mean is smaller, from values of the same rounds and seeds.

    The standard error is that of a ratio of means r = b / a: of (b_i - r a_i) / a over seeds, or
    over rounds if there is one seed.
    """
    usual, other = usual.align(other, join="inner")
    both = usual.notna() & other.notna()
    usual, other = shared(usual[both]), shared(other[both])
    if usual.empty:
        return Measured(NAN, NAN, "not recorded both just before and just after visits")
    several = usual.shape[1] > 1
    a, b = (np.asarray(v.mean() if several else v.iloc[:, 0], float) for v in (usual, other))
    if a.mean() <= 0 or a.mean() < estimate(a).standard_error:
        return Measured(NAN, NAN, "there is no drop beyond its standard error to reduce")
    ratio = b.mean() / a.mean()
    error = estimate((b - ratio * a) / a.mean()).standard_error
    note = f"{len(a)} seeds" if several else f"one seed, error over {len(a)} visits"
    return Measured(100 * (1 - ratio), 100 * error, note)
