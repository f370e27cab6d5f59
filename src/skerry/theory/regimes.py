"""The regimes of Figures 1 (rounds) and 6 (messages): where S2S or S2A wins, by order bounds.

The figures vary p and zeta_intra independently, although at p = 1 the definition of zeta_intra
makes it zero.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from skerry.theory.bounds import Primitive, bound
from skerry.theory.communication import ONE_EACH, Prices, setting_cost
from skerry.theory.crossings import Stretch, stretches
from skerry.theory.operators import Array, Numbers
from skerry.theory.parameters import Parameters

Measure: TypeAlias = Literal["rounds", "messages"]
Axis: TypeAlias = Literal["sampled", "period", "p"]

HETEROGENEITY = ((0.1, 0.1), (1.0, 0.1), (0.1, 1.0), (1.0, 1.0))
AXES: dict[Axis, Array] = {
    "sampled": np.arange(1.0, 101),
    "period": np.arange(1.0, 51),
    "p": np.linspace(0.01, 1, 100),
}


@dataclass(frozen=True, eq=False)
class Regime:
    """One panel of a figure: costs and winners along one axis, at one heterogeneity."""

    zeta_intra: float
    zeta_inter: float
    measure: Measure
    axis: Axis
    values: Array
    costs: Mapping[str, Array]
    """Rounds or messages of S2S and S2A along the axis."""
    stretches: tuple[Stretch, ...]

    def to_json(self, *, curves: bool = True) -> dict[str, Any]:
        """Plain data for JSON; without `curves`, only the winners. Infinite costs are null."""
        row: dict[str, Any] = {
            "zeta_intra": self.zeta_intra,
            "zeta_inter": self.zeta_inter,
            "measure": self.measure,
            "axis": self.axis,
            "stretches": [asdict(stretch) for stretch in self.stretches],
        }
        if curves:
            row["values"] = self.values.tolist()
            for primitive, cost in self.costs.items():
                row[primitive] = [x if np.isfinite(x) else None for x in cost.tolist()]
        return row


def regime_table(epsilon: float = 1e-5, prices: Prices = ONE_EACH) -> tuple[Regime, ...]:
    """Every panel of Figures 1 and 6: n = 100, L = f0 = 1, sigma = 0; K = 20, H = 5 and p = 1
    off the axis; non-convex."""
    return tuple(
        _regime(*heterogeneity, measure, axis, epsilon, prices)
        for heterogeneity in HETEROGENEITY
        for measure in get_args(Measure)
        for axis in AXES
    )


def _regime(
    zeta_intra: float,
    zeta_inter: float,
    measure: Measure,
    axis: Axis,
    epsilon: float,
    prices: Prices,
) -> Regime:
    def costs(values: Array) -> dict[str, Array]:
        parameters = figure_setting(zeta_intra, zeta_inter, axis, values, epsilon)
        return {
            primitive: np.asarray(figure_value(parameters, primitive, measure, prices))
            for primitive in get_args(Primitive)
        }

    values = AXES[axis]
    winners = stretches(values, costs, continuous=axis == "p")
    return Regime(zeta_intra, zeta_inter, measure, axis, values, costs(values), winners)


def figure_setting(
    zeta_intra: float, zeta_inter: float, axis: Axis, values: Numbers, epsilon: float = 1e-5
) -> Parameters:
    """The parameters of a panel, with `values` along its axis."""
    setting: dict[Axis, Numbers] = {"sampled": 20.0, "period": 5.0, "p": 1.0, axis: values}
    return Parameters(
        devices=100,
        components=2,
        sampled=setting["sampled"],
        period=setting["period"],
        p=setting["p"],
        zeta_intra=zeta_intra,
        zeta_inter=zeta_inter,
        sigma2=0,
        smoothness=1,
        initial_error=1,
        epsilon=epsilon,
    )


def figure_value(
    parameters: Parameters, primitive: Primitive, measure: Measure, prices: Prices = ONE_EACH
) -> Numbers:
    """Value that a panel shows: rounds (Figure 1) or messages (Figure 6) to reach epsilon."""
    rounds = bound(parameters, primitive, "order", convex=False).rounds
    if measure == "rounds":
        return rounds
    return setting_cost(parameters, primitive, rounds, prices, smooth=True)
