"""Which beta theory would choose for the average model, beside what was measured.

It says nothing of devices on their own labels: its errors are those of the average model.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from skerry.paper.dial import CELL
from skerry.paper.plans import SETTING
from skerry.paper.problems import CONSTANTS, PROBLEM

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = Mapping[Any, Any]

HETEROGENEITY = {"iid": 0.1, "non-iid": 1.0}
"""zeta of a split, as the paper's figures 1 and 6 take low and high."""

NAN = float("nan")
NAMED = ("one_visit", "certified", "assumed")

ASSUMES = (
    "Theory's betas are for the average model. The constants were measured along a run of each "
    "problem, after 0, 10 and 50 rounds; the largest counts. One visit: the least weighted error "
    "a D + b bias right after a visit, beta = a / (a + b/K), with the descent lemma's weights: "
    "disagreement counts 4 L² in each of the H rounds until the next visit, as if it stayed "
    "(a = 4 H L²), and bias counts once (b = 2 L / stepsize). Certified: the blend with the fewest "
    "rounds by the full recursion at its best stepsize, until epsilon = L f0 / T, what T rounds "
    "without any disturbance reach. Constants of one: the same with L = f0 = 1, no gradient noise, "
    "and heterogeneity 0.1 where a split is IID and 1 where it is not, as in the paper's figures. "
    "In brackets what following it costs: by how many points of accuracy the tried beta closest to "
    "it is behind the best."
)


def theory_betas(
    best: "pd.DataFrame", table: "pd.DataFrame", constants: "pd.DataFrame | None"
) -> "pd.DataFrame":
    """`best_betas` with columns more: `one_visit` and `certified` by measured constants, and
    `assumed`, certified by constants of one; beside each its `_cost`, from `table`, which `dial`
    gives. NaN for goals that theory does not speak of, and for problems without constants.
    ASSUMES says what they stand on."""
    rows = [_row(row, table, constants) for row in best.to_dict("records")]
    columns = [f"{name}{what}" for name in NAMED for what in ("", "_cost")]
    return best.assign(**{name: [row.get(name, NAN) for row in rows] for name in columns})


def _row(row: Row, table: "pd.DataFrame", constants: "pd.DataFrame | None") -> dict[str, float]:
    if row["goal"] != "average_accuracy":
        return {}
    named = _named(row, constants)
    costs = {f"{name}_cost": _cost(row, beta, table) for name, beta in named.items()}
    return named | costs


def _named(row: Row, constants: "pd.DataFrame | None") -> dict[str, float]:
    from skerry.theory.operators import best_beta

    assumed = _certified(
        row["share"], row["period"], row["rounds"], 1.0, 1.0,
        HETEROGENEITY[row["intra"]], HETEROGENEITY[row["inter"]], 0.0,
        _mixing(row["topology"], row["dynamic"]),
    )  # fmt: skip
    if (found := _constants(row, constants)) is None:
        return {"assumed": assumed}
    L, gap, intra2, inter2, sigma2, p = (found[name] for name in CONSTANTS)
    return {
        "one_visit": best_beta(
            4 * row["period"] * L**2, 2 * L / row["stepsize"], _sampled(row["share"])
        ),
        "certified": _certified(
            row["share"], row["period"], row["rounds"], L, gap, intra2**0.5, inter2**0.5, sigma2, p
        ),
        "assumed": assumed,
    }


def _constants(row: Row, constants: "pd.DataFrame | None") -> Row | None:
    """Those of the problem that a setting poses."""
    for one in () if constants is None else constants.to_dict("records"):
        if all(one[name] == row[name] for name in PROBLEM):
            return one
    return None


def _cost(row: Row, beta: float, table: "pd.DataFrame") -> float:
    """What the tried beta closest to this one is behind the best."""
    tried = [
        one
        for one in table.to_dict("records")
        if all(one[name] == row[name] for name in (*CELL, "goal"))
    ]
    nearest = min(tried, key=lambda one: abs(one["beta"] - beta))
    return float(row["mean"] - nearest["mean"])


@lru_cache
def _certified(
    share: float,
    period: int,
    rounds: int,
    smoothness: float,
    gap: float,
    zeta_intra: float,
    zeta_inter: float,
    sigma2: float,
    p: float,
) -> float:
    from skerry.theory.certified import best_blend
    from skerry.theory.parameters import Parameters

    setting = Parameters(
        **SETTING["network"],
        sampled=_sampled(share),
        period=period,
        p=p,
        zeta_intra=zeta_intra,
        zeta_inter=zeta_inter,
        sigma2=sigma2,
        smoothness=smoothness,
        initial_error=gap,
        epsilon=smoothness * gap / rounds,
    )
    return best_blend(setting, convex=False).beta


def _sampled(share: float) -> int:
    return round(share * int(SETTING["network"]["devices"]))


@lru_cache
def _mixing(topology: str, dynamic: bool) -> float:
    from skerry.experiment import Network
    from skerry.network.fleet import build_fleet

    network = Network(**SETTING["network"], topology=topology, dynamic=dynamic)
    return build_fleet(network, seed=0).mixing_parameters().minimum
