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

from skerry.analysis.compare import LEVEL
from skerry.analysis.statistics import Array, estimate, estimates, holm, moments, t_test
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
    NO_RUN,
    StudyData,
    Timing,
    factors_of,
    index_rows,
    read_rows,
    score_column,
    tuned_places,
)

Row: TypeAlias = Mapping[Any, Any]

GOALS = ("average_accuracy", "own_accuracy")
ENDS = {"s2s": 0.0, "s2a": 1.0}
_OTHERS = ("model", "islands", "primitive", "beta", "stepsize", "seed")
BLEND_CELL = [name for name in FACTORS if name not in _OTHERS]
"""The factors of a setting: all except beta, stepsize and seed."""
NAN = float("nan")


def blend_table(study: StudyData, timing: Timing = "last 20") -> pd.DataFrame:
    """A row per setting, goal and beta, each seed at the stepsize that is best for that goal on the
    other seeds (`tuned_places`).

    `mean`, `se` and `half` (half-width of the 95 % interval) are over seeds; `by_seed` has the
    accuracy of each seed, and `elsewhere` the mean over the other seeds at the same stepsize, by
    which betas are chosen. `stepsize` is the most frequent choice, `at_edge` the number of choices
    at either end of those tried."""
    return pd.concat([_goal_rows(goal, study, timing) for goal in GOALS], ignore_index=True)


def _goal_rows(goal: str, study: StudyData, timing: Timing) -> pd.DataFrame:
    runs = study.runs
    groups = runs.groupby([*BLEND_CELL, "beta"])
    stepsizes, stepsize = np.unique(runs["stepsize"].to_numpy(float), return_inverse=True)
    seed = np.unique(runs["seed"].to_numpy(int), return_inverse=True)[1]
    row_gvs = index_rows(groups.ngroup().to_numpy(), stepsize, seed)
    score_gvs, ran_gvs = read_rows(runs, _column(study, goal, timing), row_gvs), row_gvs != NO_RUN
    choice_gs = tuned_places(score_gvs, ran_gvs)
    # At the stepsize chosen for seed s, the accuracy of every seed.
    score_gss = np.take_along_axis(score_gvs, choice_gs[..., None], axis=1)
    by_seed_gs = np.diagonal(score_gss, axis1=1, axis2=2)
    seeds = by_seed_gs.shape[1]
    others = ~np.eye(seeds, dtype=bool) | (seeds == 1)
    elsewhere = moments(np.where(others, score_gss, np.nan).reshape(-1, seeds))[0]
    ran_gv = ran_gvs.any(axis=2)
    ends_g2 = np.stack([ran_gv.argmax(axis=1), ran_gv.cumsum(axis=1).argmax(axis=1)], axis=1)
    at_edge_gs = (choice_gs[..., None] == ends_g2[:, None]).any(axis=2)
    means = estimates(by_seed_gs)
    return (
        groups.size()
        .index.to_frame(index=False)
        .assign(
            goal=goal,
            mean=[one.mean for one in means],
            se=[one.standard_error for one in means],
            half=[one.half_width for one in means],
            seeds=[one.count for one in means],
            by_seed=[*by_seed_gs],
            elsewhere=[*elsewhere.reshape(-1, seeds)],
            stepsize=[most_frequent(stepsizes[chosen]) for chosen in choice_gs],
            tried=ran_gv.sum(axis=1),
            at_edge=at_edge_gs.sum(axis=1),
        )
    )


def most_frequent(chosen: Array) -> float:
    """The value chosen for most seeds; NaN without any."""
    values, counts = np.unique(chosen[np.isfinite(chosen)], return_counts=True)
    return float(values[counts.argmax()]) if len(values) else NAN


def best_betas(table: pd.DataFrame) -> pd.DataFrame:
    """A row per setting and goal of `blend_table`, with the best beta and how far betas strictly
    between 0 and 1 rise. Every choice is made for each seed on the other seeds.

    `beta` is the best of all (the most frequent choice), with `mean` and `half` of its accuracy.
    `lead` is the best middle beta (`middle`) minus the better `end` (S2S or S2A), and `above` the
    largest distance of a middle beta (`bent`) from the straight line between both ends; both with
    `_half` and `_p` of a t test and its values `_by_seed`. `middle_wins` and `above_wins`: whether
    they are clear, with Holm's correction over the settings of a goal."""
    groups = table.groupby([*BLEND_CELL, "goal"], sort=False)
    keys = groups.size().index.to_frame(index=False)
    found = keys.join(pd.DataFrame([_best_row(rows) for _, rows in groups]))
    by_goal = found.groupby("goal", sort=False)
    for wins, name in (("middle_wins", "lead"), ("above_wins", "above")):
        clear = by_goal[f"{name}_p"].transform(holm) <= LEVEL
        found[wins] = clear & (found[name] > 0)
    return found


def _best_row(rows: pd.DataFrame) -> dict[str, Any]:
    beta = rows["beta"].to_numpy(float)
    ours_bs, others_bs = (np.stack(rows[name].to_list()) for name in ("by_seed", "elsewhere"))
    is_end = np.isin(beta, list(ENDS.values()))
    best_s, end_s, middle_s = (
        _choose(others_bs, among) for among in (np.full(len(beta), True), is_end, ~is_end)
    )
    bent_s = _choose(_above_line(others_bs, beta), ~is_end)
    lead_s = _pick(ours_bs, middle_s) - _pick(ours_bs, end_s)
    above_s = _pick(_above_line(ours_bs, beta), bent_s)
    accuracy = estimate(_pick(ours_bs, best_s))
    at = most_frequent(np.append(beta, NAN)[best_s])
    row: dict[str, Any] = {
        "beta": at,
        "stepsize": rows.loc[rows["beta"] == at, "stepsize"].iloc[0],
        "mean": accuracy.mean,
        "half": accuracy.half_width,
        "seeds": accuracy.count,
        "middle": most_frequent(np.append(beta, NAN)[middle_s]),
        "bent": most_frequent(np.append(beta, NAN)[bent_s]),
        "end": {value: name for name, value in ENDS.items()}.get(
            most_frequent(np.append(beta, NAN)[end_s]), NAN
        ),
    }
    for name, values_s in (("lead", lead_s), ("above", above_s)):
        one = estimate(values_s)
        p = float(t_test([values_s])[0])
        row |= {name: one.mean, f"{name}_half": one.half_width, f"{name}_p": p}
        row[f"{name}_by_seed"] = values_s
    return row


def bends(table: pd.DataFrame) -> pd.DataFrame:
    """How far each blend of `blend_table` lies above the straight line between S2S and S2A: a row
    per `goal`, `period` and `beta`, a mean over the settings in which islands differ.

    No beta is chosen. `above`, `half` and `p` are over seeds, `lowest` and `highest` the means of
    single settings; `clear` is a t test with Holm's correction over the rows of a goal."""
    differ = table[table["inter"] == "non-iid"]
    settings = []
    for _, rows in differ.groupby([*BLEND_CELL, "goal"], sort=False):
        beta = rows["beta"].to_numpy(float)
        above_bs = _above_line(np.stack(rows["by_seed"].to_list()), beta)
        settings.append(rows[["goal", "period", "beta"]].assign(by_seed=[*above_bs]))
    if not settings:
        return pd.DataFrame(columns=["goal", "period", "beta", "above", "half", "p", "clear"])
    every = pd.concat(settings)
    every = every[~every["beta"].isin(list(ENDS.values()))]
    keys, found = ["goal", "period", "beta"], []
    for key, rows in every.groupby(keys, sort=False):
        above_cs = np.stack(rows["by_seed"].to_list())
        above_s = moments(above_cs.T)[0]
        over_seeds, means = estimate(above_s), moments(above_cs)[0]
        found.append(
            dict(zip(keys, key, strict=True))
            | {"above": over_seeds.mean, "half": over_seeds.half_width, "settings": len(rows)}
            | {"p": float(t_test([above_s])[0]), "lowest": means.min(), "highest": means.max()}
        )
    bent = pd.DataFrame(found)
    clear = bent.groupby("goal", sort=False)["p"].transform(holm) <= LEVEL
    return bent.assign(clear=clear & (bent["above"] > 0))


def _choose(worth_bs: Array, among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each seed the row of the largest value, or -1 if there is none."""
    allowed = np.where(among[:, None] & np.isfinite(worth_bs), worth_bs, -np.inf)
    return np.where(np.isfinite(allowed).any(axis=0), allowed.argmax(axis=0), -1)


def _pick(value_bs: Array, row_s: NDArray[np.int64]) -> Array:
    """For each seed the value in its row; NaN for row -1."""
    return np.where(row_s < 0, np.nan, value_bs[row_s, np.arange(len(row_s))])


def _above_line(value_bs: Array, beta: Array) -> Array:
    """How far each value lies above the straight line from beta = 0 to beta = 1; NaN without it."""
    ends = [value_bs[beta == end] for end in ENDS.values()]
    if not all(len(one) for one in ends):
        return np.full_like(value_bs, np.nan)
    found: Array = value_bs - (1 - beta)[:, None] * ends[0] - beta[:, None] * ends[1]
    return found


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
