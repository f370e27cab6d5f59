"""Blends between S2S (beta = 0) and S2A (beta = 1): the best beta, measured and by theory.

There are two goals: the accuracy of the average model, and that of devices on their own labels. The
theory's choice of beta is for the average model only.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skerry.analysis.compare import compare
from skerry.analysis.statistics import estimates
from skerry.config.experiment import Experiment, Network
from skerry.errors import RecordsError
from skerry.network.fleet import build_fleet
from skerry.theory.certified import best_blend
from skerry.theory.constants import measure_constants
from skerry.theory.operators import best_beta
from skerry.theory.parameters import Parameters
from skerry_paper.plan import DEVICES, SETTING
from skerry_paper.study import (
    FACTORS,
    StudyData,
    Timing,
    at_best_stepsize,
    factors_of,
    score_column,
)

Row: TypeAlias = Mapping[Any, Any]

GOALS = ("average_accuracy", "own_accuracy")
ENDS = {"s2s": 0.0, "s2a": 1.0}
_OTHERS = ("model", "islands", "primitive", "beta", "stepsize", "seed")
BLEND_CELL = [name for name in FACTORS if name not in _OTHERS]
"""The factors of a setting: all except beta, stepsize and seed."""
NAN = float("nan")


def blend_table(study: StudyData, timing: Timing = "last 20") -> pd.DataFrame:
    """A row per setting, goal and beta, at the stepsize that is best for that goal.

    `mean`, `se` and `half` (half-width of the 95 % interval) are over seeds. `above_s2s` and
    `above_s2a` are the differences from S2S and S2A, paired by seed, each with `_se` and `_half`.
    `beats_both`: a blend that is above both by more than the standard errors. `p` is the larger
    p-value of the two t tests, Holm-corrected over all betas and settings. `front`: whether this
    beta is on the Pareto front of both goals at some stepsize.
    """
    points = operating_points(study, timing)
    front = points.groupby([*BLEND_CELL, "beta"])["front"].any().reset_index()
    found = pd.concat([_goal_rows(goal, study, timing) for goal in GOALS], ignore_index=True)
    return found.merge(front, on=[*BLEND_CELL, "beta"], how="left").fillna({"front": False})


def operating_points(study: StudyData, timing: Timing = "last 20") -> pd.DataFrame:
    """A row per setting, beta and stepsize: the mean of both goals over seeds, and whether it is on
    the Pareto `front`."""
    columns = {_column(study, goal, timing): goal for goal in GOALS}
    scores = study.runs.rename(columns=columns).groupby([*BLEND_CELL, "beta", "stepsize"])
    goals = scores[list(GOALS)]
    # A point that diverges for some seeds is not usable.
    reliable = goals.count().eq(goals.size(), axis=0).all(axis=1)
    points = goals.mean()[reliable].reset_index()
    points["front"] = False
    for _, cell in points.groupby(BLEND_CELL):
        points.loc[cell.index, "front"] = pareto_front(cell[list(GOALS)].to_numpy(float))
    return points


def pareto_front(points_pg: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each point (row): whether no other is as good for every goal and better for one."""
    ours, others = points_pg[:, None], points_pg[None]
    dominated_pp = (others >= ours).all(axis=2) & (others > ours).any(axis=2)
    return np.asarray(~np.any(dominated_pp, axis=1))


def best_betas(table: pd.DataFrame) -> pd.DataFrame:
    """A row per setting and goal of `blend_table`: the beta with the best mean, the better `end`
    (S2S or S2A), the `lead` over it with its paired standard error, and whether a blend beats both.

    The best of several betas is selected, so a lead of about one standard error may be chance."""
    ranked = table.sort_values("mean", ascending=False, kind="stable")
    groups = [*BLEND_CELL, "goal"]
    best = ranked.groupby(groups).head(1).sort_index().reset_index(drop=True)
    ends = ranked[ranked["beta"].isin(ENDS.values())].groupby(groups).head(1)
    better = best[groups].merge(ends[[*groups, "beta"]], on=groups, how="left")["beta"]
    middle = table.groupby(groups)["beats_both"].any().rename("middle_wins").reset_index()
    end = better.map({beta: name for name, beta in ENDS.items()})
    of_s2s = (end == "s2s").to_numpy()
    best = best.assign(
        end=end,
        lead=np.where(of_s2s, best["above_s2s"], best["above_s2a"]),
        lead_se=np.where(of_s2s, best["above_s2s_se"], best["above_s2a_se"]),
    )
    kept = [*groups, "beta", "stepsize", "mean", "se", "end", "lead", "lead_se", "p", "seeds"]
    return best[kept].merge(middle, on=groups)


def _goal_rows(goal: str, study: StudyData, timing: Timing) -> pd.DataFrame:
    column = _column(study, goal, timing)
    runs = at_best_stepsize(study.runs, column, [*BLEND_CELL, "beta"])
    values = runs.pivot(index=[*BLEND_CELL, "beta", "stepsize"], columns="seed", values=column)
    means = estimates(values.to_numpy(float))
    rows = values.index.to_frame(index=False).assign(
        goal=goal,
        mean=[one.mean for one in means],
        se=[one.standard_error for one in means],
        half=[one.half_width for one in means],
        seeds=[one.count for one in means],
        p=0.0,
    )
    rows["beats_both"] = middle = ~rows["beta"].isin(ENDS.values())
    for end, beta in ENDS.items():
        compared = compare(values.to_numpy(float), _at_beta(values, beta))
        above = [one.difference for one in compared]
        rows[f"above_{end}"] = [one.mean for one in above]
        rows[f"above_{end}_se"] = [one.standard_error for one in above]
        rows[f"above_{end}_half"] = [one.half_width for one in above]
        # A single seed has no standard error, and nothing is above it.
        rows["beats_both"] &= rows[f"above_{end}"] > rows[f"above_{end}_se"]
        rows["p"] = np.maximum(rows["p"], [one.t_holm for one in compared])
    return rows.assign(p=rows["p"].where(middle))


def _at_beta(values: pd.DataFrame, beta: float) -> NDArray[np.float64]:
    """For each row, the values of its setting at this beta; NaN where it was not run."""
    index = values.index.to_frame(index=False)
    cells = pd.MultiIndex.from_frame(index[BLEND_CELL])
    at_beta = values.set_axis(cells)[(index["beta"] == beta).to_numpy()]
    return at_beta.reindex(cells).to_numpy(float)


def _column(study: StudyData, goal: str, timing: Timing) -> str:
    column = score_column(goal, timing)
    if column not in study.runs:
        raise RecordsError(
            f"the study {study.name} did not measure {goal}. Run it with evaluate.measures that "
            "include average and devices."
        )
    return column


# The theory's constants, measured on the problems of a study


class ProblemConstants(NamedTuple):
    """The theory's constants of one problem."""

    smoothness: float
    initial_error: float
    """f0, the loss at the start minus its minimum."""
    zeta_intra2: float
    zeta_inter2: float
    sigma2: float
    p: float


PROBLEM = ("intra", "inter", "topology", "dynamic")
"""The factors that constants depend on: the data split and the graph."""
MEASURED_AFTER = (0, 10, 50)
DRAWS = 10


def measure_problem_constants(
    experiments: Iterable[Experiment],
    *,
    device: str,
    known: pd.DataFrame | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """A row per problem: its factors, the `key` of the run along which it was measured, and its
    constants, each the largest over MEASURED_AFTER. Rows of `known` with the same key are reused.
    """
    rows = {} if known is None else {row["key"]: row for row in known.to_dict("records")}
    along = _runs_to_follow(experiments)
    if new := [run for run in along if run.key() not in rows]:
        report(f"measuring the theory's constants on {len(new)} problem{'s' * (len(new) > 1)}")
    return pd.DataFrame([rows.get(run.key()) or _measure_along(run, device) for run in along])


def _runs_to_follow(experiments: Iterable[Experiment]) -> list[Experiment]:
    """One run per problem: the first seed at the largest stepsize, which makes most progress."""
    found: dict[tuple[Any, ...], Experiment] = {}
    for experiment in sorted(experiments, key=lambda e: (e.seed, -e.training.stepsize)):
        factors = factors_of(experiment)
        found.setdefault(tuple(factors[name] for name in PROBLEM), experiment)
    return list(found.values())


def _measure_along(experiment: Experiment, device: str) -> dict[str, Any]:
    found = measure_constants(experiment, rounds=MEASURED_AFTER, draws=DRAWS, device=device)
    constants = ProblemConstants(
        smoothness=found.smoothness.value,
        initial_error=found.f0.value,
        zeta_intra2=found.zeta_intra2.value,
        zeta_inter2=found.zeta_inter2.value,
        sigma2=found.sigma2.value,
        p=found.mixing.minimum,
    )
    factors = factors_of(experiment)
    own = {name: factors[name] for name in PROBLEM}
    return own | {"key": experiment.key()} | constants._asdict()


# The theory's choice of beta

HETEROGENEITY = {"iid": 0.1, "non-iid": 1.0}
"""zeta of a split: the low and high values of the paper's figures 1 and 6."""

THEORY_CHOICES = ("one_server_round", "certified", "assumed")
THEORY_NOTE = (
    "The theory's betas are for the average model. The constants were measured along one run of "
    "each problem, after 0, 10 and 50 rounds; the largest value is used. One server round: the "
    "beta that minimises the weighted error a D + b bias right after a server round, beta = a / (a "
    "+ b/K), with the weights of the descent lemma: disagreement counts 4 L² in each of the H "
    "rounds until the next server round, as if it stayed constant (a = 4 H L²), and bias counts "
    "once (b = 2 L / stepsize). Certified: the blend with the fewest rounds by the full recursion "
    "at its best stepsize, until epsilon = L f0 / T, the error of T undisturbed rounds. Constants "
    "of one: the same with L = f0 = 1, no gradient noise, and heterogeneity 0.1 for an IID split "
    "and 1 otherwise, as in the paper's figures. In brackets: the accuracy lost by following it, "
    "in points, at the tried beta that is closest to it."
)


def theory_betas(
    best: pd.DataFrame, table: pd.DataFrame, constants: pd.DataFrame | None
) -> pd.DataFrame:
    """`best_betas` with the theory's betas: `one_server_round` and `certified` with measured
    constants, `assumed` with constants of one, and the `_cost` of each according to `table` (from
    `blend_table`). NaN for the other goal and for problems without constants. See THEORY_NOTE."""
    rows = [_theory_row(row, table, constants) for row in best.to_dict("records")]
    columns = [f"{name}{what}" for name in THEORY_CHOICES for what in ("", "_cost")]
    return best.assign(**{name: [row.get(name, NAN) for row in rows] for name in columns})


def _theory_row(row: Row, table: pd.DataFrame, constants: pd.DataFrame | None) -> dict[str, float]:
    if row["goal"] != "average_accuracy":
        return {}
    K, H, T = round(row["share"] * DEVICES), row["period"], row["rounds"]
    betas = {"assumed": _certified(K, H, T, _assumed(row))}
    if measured := _constants_of(row, constants):
        L = measured.smoothness
        betas["one_server_round"] = best_beta(4 * H * L**2, 2 * L / row["stepsize"], K)
        betas["certified"] = _certified(K, H, T, measured)
    costs = {f"{name}_cost": _cost(row, beta, table) for name, beta in betas.items()}
    return betas | costs


def _assumed(row: Row) -> ProblemConstants:
    return ProblemConstants(
        smoothness=1.0,
        initial_error=1.0,
        zeta_intra2=HETEROGENEITY[row["intra"]] ** 2,
        zeta_inter2=HETEROGENEITY[row["inter"]] ** 2,
        sigma2=0.0,
        p=_mixing(row["topology"], row["dynamic"]),
    )


def _constants_of(row: Row, constants: pd.DataFrame | None) -> ProblemConstants | None:
    """The measured constants of a setting's problem, or None."""
    for one in () if constants is None else constants.to_dict("records"):
        if all(one[name] == row[name] for name in PROBLEM):
            return ProblemConstants(**{name: one[name] for name in ProblemConstants._fields})
    return None


def _cost(row: Row, beta: float, table: pd.DataFrame) -> float:
    """Points of accuracy that the tried beta closest to this one loses against the best."""
    tried = [
        one
        for one in table.to_dict("records")
        if all(one[name] == row[name] for name in (*BLEND_CELL, "goal"))
    ]
    nearest = min(tried, key=lambda one: abs(one["beta"] - beta))
    return float(row["mean"] - nearest["mean"])


@lru_cache
def _certified(K: int, H: int, T: int, constants: ProblemConstants) -> float:
    setting = Parameters(
        **SETTING["network"],
        sampled=K,
        period=H,
        p=constants.p,
        zeta_intra=constants.zeta_intra2**0.5,
        zeta_inter=constants.zeta_inter2**0.5,
        sigma2=constants.sigma2,
        smoothness=constants.smoothness,
        initial_error=constants.initial_error,
        epsilon=constants.smoothness * constants.initial_error / T,
    )
    return best_blend(setting, convex=False).beta


@lru_cache
def _mixing(topology: str, dynamic: bool) -> float:
    network = Network(**SETTING["network"], topology=topology, dynamic=dynamic)
    return build_fleet(network, seed=0).mixing_parameters().minimum
