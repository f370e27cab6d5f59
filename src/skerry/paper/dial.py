"""The dial between S2S and S2A: which share beta of the way should unsampled devices go?

beta = 0 is S2S, beta = 1 is S2A. Two goals pull at the dial: the accuracy of the average model,
and that of devices on their own labels.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skerry.analysis.compare import compare
from skerry.analysis.statistics import estimates
from skerry.errors import RecordsError
from skerry.paper.protocol import Timing
from skerry.paper.study import FACTORS, Study, final, lately
from skerry.paper.tuned import tuned

if TYPE_CHECKING:
    import pandas as pd

GOALS = ("average_accuracy", "own_accuracy")
ENDS = {"s2s": 0.0, "s2a": 1.0}
CELL = [name for name in FACTORS if name not in ("primitive", "beta", "stepsize", "seed")]
"""What makes a setting: all but the dial, the stepsize and chance."""


def dial(study: Study, timing: Timing = "last 20") -> "pd.DataFrame":
    """A row per setting, goal and beta, at the stepsize that is best for that goal there.

    `mean`, `se` and `half` (of the 95 % interval) are over seeds. `above_s2s` and `above_s2a` are
    what it has more than the ends, paired by seed, each with `_se` and `_half`. `beats_both`: a
    middle that is above both by more than the standard error. `p` is the larger of the two t
    tests' p-values, corrected (Holm) for all betas and settings that were compared with that end.
    `front`: whether some stepsize puts this beta on the front of both goals.
    """
    import pandas as pd

    points = operating_points(study, timing)
    front = points.groupby([*CELL, "beta"])["front"].any().reset_index()
    found = pd.concat([_towards(goal, study, timing) for goal in GOALS], ignore_index=True)
    return found.merge(front, on=[*CELL, "beta"], how="left").fillna({"front": False})


def operating_points(study: Study, timing: Timing = "last 20") -> "pd.DataFrame":
    """A row per setting, beta and stepsize, which one can run: the mean of both goals over seeds,
    and whether it is on the `front`: no other point is as good at both and better at one."""
    columns = {_column(study, goal, timing): goal for goal in GOALS}
    scores = study.runs.rename(columns=columns).groupby([*CELL, "beta", "stepsize"])[list(GOALS)]
    # One that diverges with some seeds is none that one can rely on.
    reliable = scores.count().eq(scores.size(), axis=0).all(axis=1)
    points = scores.mean()[reliable].reset_index()
    points["front"] = False
    for _, cell in points.groupby(CELL):
        points.loc[cell.index, "front"] = undominated(cell[list(GOALS)].to_numpy(float))
    return points


def undominated(points_pg: NDArray[np.float64]) -> NDArray[np.bool_]:
    """For each point (row): is there none that is as good for every goal and better for one?"""
    ours, others = points_pg[:, None], points_pg[None]
    dominated_pp = (others >= ours).all(axis=2) & (others > ours).any(axis=2)
    return np.asarray(~np.any(dominated_pp, axis=1))


def best_betas(table: "pd.DataFrame") -> "pd.DataFrame":
    """A row per setting and goal of `dial`: the beta with the best mean, the better end, the
    `lead` over that end with its paired standard error, and whether some middle beats both ends.

    The best of several is picked here, so a lead of about one standard error may be luck.
    """
    ranked = table.sort_values("mean", ascending=False, kind="stable")
    groups = [*CELL, "goal"]
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


def _towards(goal: str, study: Study, timing: Timing) -> "pd.DataFrame":
    column = _column(study, goal, timing)
    runs = tuned(study.runs, column, [*CELL, "beta"])
    values = runs.pivot(index=[*CELL, "beta", "stepsize"], columns="seed", values=column)
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


def _at_beta(values: "pd.DataFrame", beta: float) -> NDArray[np.float64]:
    """For every row, the values of its setting at this beta; NaN where it was not run."""
    import pandas as pd

    asked = values.index.to_frame(index=False)
    cells = pd.MultiIndex.from_frame(asked[CELL])
    there = values.set_axis(cells)[(asked["beta"] == beta).to_numpy()]
    return there.reindex(cells).to_numpy(float)


def _column(study: Study, goal: str, timing: Timing) -> str:
    column = final(goal) if timing == "final" else lately(goal)
    if column not in study.runs:
        raise RecordsError(
            f"the study {study.name} did not measure {goal}. Run it with evaluate.measures that "
            "hold average and devices."
        )
    return column
