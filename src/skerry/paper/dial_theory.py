"""Which beta theory would choose for the average model, beside what was measured.

It says nothing of devices on their own labels: its errors are those of the average model.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from skerry.paper.plans import SETTING

if TYPE_CHECKING:
    import pandas as pd

Row: TypeAlias = Mapping[Any, Any]
SETTING_OF = ("intra", "inter", "topology", "dynamic", "share", "period")

HETEROGENEITY = {"iid": 0.1, "non-iid": 1.0}
"""zeta of a split, as the paper's figures 1 and 6 take low and high."""
FINE = 1e-5
"""The accuracy epsilon of the paper's figures 1 and 6."""

ASSUMES = (
    "Theory's betas are for the average model, with all constants one: L = f0 = 1, no gradient "
    "noise, heterogeneity 0.1 where a split is IID and 1 where it is not; p is that of the graph. "
    "The constants of the real problem were not measured. One visit: the least weighted error "
    "a D + b bias right after a visit, beta = a / (a + b/K), with the descent lemma's weights: "
    "disagreement counts 4 L² in each of the H rounds until the next visit, as if it stayed "
    "(a = 4 H L²), and bias counts once (b = 2 L / stepsize); a larger L moves beta towards 1. "
    "Certified: the blend with the fewest rounds by the full recursion at its best stepsize, until "
    "epsilon = 1/T (coarse: what T rounds without any disturbance reach) or "
    f"{FINE:g} (fine: as in the paper's figures)."
)


def theory_betas(best: "pd.DataFrame") -> "pd.DataFrame":
    """`best_betas` with three columns more: `one_visit`, `certified_coarse`, `certified_fine`;
    NaN for goals that theory does not speak of. ASSUMES says what they stand on."""
    rows = best.to_dict("records")
    return best.assign(
        one_visit=[_if_global(row, _one_visit) for row in rows],
        certified_coarse=[_if_global(row, _coarse) for row in rows],
        certified_fine=[_if_global(row, _fine) for row in rows],
    )


def _if_global(row: Row, beta: Callable[[Row], float]) -> float:
    return beta(row) if row["goal"] == "average_accuracy" else float("nan")


def _one_visit(row: Row) -> float:
    from skerry.theory.operators import best_beta

    return best_beta(4 * row["period"], 2 / row["stepsize"], _sampled(row["share"]))


def _coarse(row: Row) -> float:
    return _certified(*(row[name] for name in SETTING_OF), 1 / row["rounds"])


def _fine(row: Row) -> float:
    return _certified(*(row[name] for name in SETTING_OF), FINE)


@lru_cache
def _certified(
    intra: str,
    inter: str,
    topology: str,
    dynamic: bool,
    share: float,
    period: int,
    epsilon: float,
) -> float:
    from skerry.theory.certified import best_blend
    from skerry.theory.parameters import Parameters

    setting = Parameters(
        **SETTING["network"],
        sampled=_sampled(share),
        period=period,
        p=_mixing(topology, dynamic),
        zeta_intra=HETEROGENEITY[intra],
        zeta_inter=HETEROGENEITY[inter],
        sigma2=0,
        smoothness=1,
        gap=1,
        epsilon=epsilon,
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
