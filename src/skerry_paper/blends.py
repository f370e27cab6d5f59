"""The dial between S2S and S2A: how much of the way, beta, should unsampled devices go?

beta = 0 is S2S, beta = 1 is S2A. Two goals pull at the dial: the accuracy of the average model,
and that of devices on their own labels. Beside what was measured stands what theory would choose
for the first; of the second it says nothing: its errors are those of the average model.
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
from skerry_paper.study import FACTORS, Study, Timing, at_best_stepsize, factors_of, scored

Row: TypeAlias = Mapping[Any, Any]

GOALS = ("average_accuracy", "own_accuracy")
ENDS = {"s2s": 0.0, "s2a": 1.0}
_OTHERS = ("model", "islands", "primitive", "beta", "stepsize", "seed")
DIAL_CELL = [name for name in FACTORS if name not in _OTHERS]
"""What makes a setting: all but the dial, the stepsize and chance."""
NAN = float("nan")


def dial(study: Study, timing: Timing = "last 20") -> pd.DataFrame:
    """A row per setting, goal and beta, at the stepsize that is best for that goal there.

    `mean`, `se` and `half` (of the 95 % interval) are over seeds. `above_s2s` and `above_s2a` are
    what it has more than the ends, paired by seed, each with `_se` and `_half`. `beats_both`: a
    middle that is above both by more than the standard error. `p` is the larger of the two t
    tests' p-values, corrected (Holm) for all betas and settings that were compared with that end.
    `front`: whether some stepsize puts this beta on the front of both goals.
    """
    points = operating_points(study, timing)
    front = points.groupby([*DIAL_CELL, "beta"])["front"].any().reset_index()
    found = pd.concat([_towards(goal, study, timing) for goal in GOALS], ignore_index=True)
    return found.merge(front, on=[*DIAL_CELL, "beta"], how="left").fillna({"front": False})


def operating_points(study: Study, timing: Timing = "last 20") -> pd.DataFrame:
    """A row per setting, beta and stepsize, which one can run: the mean of both goals over seeds,
    and whether it is on the `front`: no other point is as good at both and better at one."""
    columns = {_column(study, goal, timing): goal for goal in GOALS}
    scores = study.runs.rename(columns=columns).groupby([*DIAL_CELL, "beta", "stepsize"])
    goals = scores[list(GOALS)]
    # One that diverges with some seeds is none that one can rely on.
    reliable = goals.count().eq(goals.size(), axis=0).all(axis=1)
    points = goals.mean()[reliable].reset_index()
    points["front"] = False
    for _, cell in points.groupby(DIAL_CELL):
        points.loc[cell.index, "front"] = undominated(cell[list(GOALS)].to_numpy(float))
    return points


def undominated(points_pg: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each point (row): is there none that is as good for every goal and better for one?"""
    ours, others = points_pg[:, None], points_pg[None]
    dominated_pp = (others >= ours).all(axis=2) & (others > ours).any(axis=2)
    return np.asarray(~np.any(dominated_pp, axis=1))


def best_betas(table: pd.DataFrame) -> pd.DataFrame:
    """A row per setting and goal of `dial`: the beta with the best mean, the better end, the
    `lead` over that end with its paired standard error, and whether some middle beats both ends.

    The best of several is picked here, so a lead of about one standard error may be luck.
    """
    ranked = table.sort_values("mean", ascending=False, kind="stable")
    groups = [*DIAL_CELL, "goal"]
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


def _towards(goal: str, study: Study, timing: Timing) -> pd.DataFrame:
    column = _column(study, goal, timing)
    runs = at_best_stepsize(study.runs, column, [*DIAL_CELL, "beta"])
    values = runs.pivot(index=[*DIAL_CELL, "beta", "stepsize"], columns="seed", values=column)
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
    """For every row, the values of its setting at this beta; NaN where it was not run."""
    asked = values.index.to_frame(index=False)
    cells = pd.MultiIndex.from_frame(asked[DIAL_CELL])
    there = values.set_axis(cells)[(asked["beta"] == beta).to_numpy()]
    return there.reindex(cells).to_numpy(float)


def _column(study: Study, goal: str, timing: Timing) -> str:
    column = scored(goal, timing)
    if column not in study.runs:
        raise RecordsError(
            f"the study {study.name} did not measure {goal}. Run it with evaluate.measures that "
            "hold average and devices."
        )
    return column


# The theory's constants on the problems of a study: measured, where the paper's figures assume


class Constants(NamedTuple):
    smoothness: float
    initial_error: float
    """f0, the loss at the start minus its minimum."""
    zeta_intra2: float
    zeta_inter2: float
    sigma2: float
    p: float


PROBLEM = ("intra", "inter", "topology", "dynamic")
"""What a study's constants depend on: the split of the data and the graph."""
MEASURED_AFTER = (0, 10, 50)
DRAWS = 10


def measured_constants(
    experiments: Iterable[Experiment],
    *,
    device: str,
    known: pd.DataFrame | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """A row per problem: its factors, the `key` of the run along which it was measured, and its
    Constants, the largest of those after some rounds. Rows of `known` with the same key are taken.
    """
    had = {} if known is None else {row["key"]: row for row in known.to_dict("records")}
    along = _runs_to_follow(experiments)
    if new := [run for run in along if run.key() not in had]:
        tell(f"measuring the theory's constants on {len(new)} problem{'s' * (len(new) > 1)}")
    return pd.DataFrame([had.get(run.key()) or _measured_along(run, device) for run in along])


def _runs_to_follow(experiments: Iterable[Experiment]) -> list[Experiment]:
    """One of each problem: the first seed at the largest stepsize, which gets farthest."""
    found: dict[tuple[Any, ...], Experiment] = {}
    for experiment in sorted(experiments, key=lambda e: (e.seed, -e.training.stepsize)):
        factors = factors_of(experiment)
        found.setdefault(tuple(factors[name] for name in PROBLEM), experiment)
    return list(found.values())


def _measured_along(experiment: Experiment, device: str) -> dict[str, Any]:
    found = measure_constants(experiment, rounds=MEASURED_AFTER, draws=DRAWS, device=device)
    constants = Constants(
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


# What theory would choose

HETEROGENEITY = {"iid": 0.1, "non-iid": 1.0}
"""zeta of a split, as the paper's figures 1 and 6 take low and high."""

BY_THEORY = ("one_server_round", "certified", "assumed")
ASSUMES = (
    "Theory's betas are for the average model. The constants were measured along a run of each "
    "problem, after 0, 10 and 50 rounds; the largest counts. One server round: the least weighted "
    "error a D + b bias right after it, beta = a / (a + b/K), with the descent lemma's weights: "
    "disagreement counts 4 L² in each of the H rounds until the next server round, as if it stayed "
    "(a = 4 H L²), and bias counts once (b = 2 L / stepsize). Certified: the blend with the fewest "
    "rounds by the full recursion at its best stepsize, until epsilon = L f0 / T, what T rounds "
    "without any disturbance reach. Constants of one: the same with L = f0 = 1, no gradient noise, "
    "and heterogeneity 0.1 where a split is IID and 1 where it is not, as in the paper's figures. "
    "In brackets what following it costs: by how many points of accuracy the tried beta closest to "
    "it is behind the best."
)


def theory_betas(
    best: pd.DataFrame, table: pd.DataFrame, constants: pd.DataFrame | None
) -> pd.DataFrame:
    """`best_betas` with columns more: `one_server_round` and `certified` by measured constants,
    and `assumed`, certified by constants of one; beside each its `_cost`, from `table`, which
    `dial` gives. NaN for goals that theory does not speak of, and for problems without constants.
    ASSUMES says what they stand on."""
    rows = [_chosen(row, table, constants) for row in best.to_dict("records")]
    columns = [f"{name}{what}" for name in BY_THEORY for what in ("", "_cost")]
    return best.assign(**{name: [row.get(name, NAN) for row in rows] for name in columns})


def _chosen(row: Row, table: pd.DataFrame, constants: pd.DataFrame | None) -> dict[str, float]:
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


def _assumed(row: Row) -> Constants:
    return Constants(
        smoothness=1.0,
        initial_error=1.0,
        zeta_intra2=HETEROGENEITY[row["intra"]] ** 2,
        zeta_inter2=HETEROGENEITY[row["inter"]] ** 2,
        sigma2=0.0,
        p=_mixing(row["topology"], row["dynamic"]),
    )


def _constants_of(row: Row, constants: pd.DataFrame | None) -> Constants | None:
    """Those of the problem that a setting poses."""
    for one in () if constants is None else constants.to_dict("records"):
        if all(one[name] == row[name] for name in PROBLEM):
            return Constants(**{name: one[name] for name in Constants._fields})
    return None


def _cost(row: Row, beta: float, table: pd.DataFrame) -> float:
    """What the tried beta closest to this one is behind the best."""
    tried = [
        one
        for one in table.to_dict("records")
        if all(one[name] == row[name] for name in (*DIAL_CELL, "goal"))
    ]
    nearest = min(tried, key=lambda one: abs(one["beta"] - beta))
    return float(row["mean"] - nearest["mean"])


@lru_cache
def _certified(K: int, H: int, T: int, constants: Constants) -> float:
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
