"""The regimes of Figures 1 (rounds) and 6 (messages): where S2S or S2A wins, by order bounds.

The figures vary p and zeta_intra independently, although at p = 1 the definition of zeta_intra
makes it zero.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from skerry.theory.bounds import Primitive, bound
from skerry.theory.communication import ONE_EACH, Prices, setting_cost
from skerry.theory.crossings import Stretch, stretches
from skerry.theory.operators import Array
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
    costs: Mapping[str, Array]  # rounds or messages of S2S and S2A along the axis
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
    settings = [
        Parameters(
            devices=100, components=2, sampled=20.0, period=5.0, p=1.0, zeta_intra=intra,
            zeta_inter=inter, sigma2=0, smoothness=1, initial_error=1, epsilon=epsilon,
        )
        for intra, inter in HETEROGENEITY
    ]  # fmt: skip
    return tuple(
        _regime(setting, measure, axis, prices)
        for setting in settings
        for measure in get_args(Measure)
        for axis in AXES
    )


def _regime(setting: Parameters, measure: Measure, axis: Axis, prices: Prices) -> Regime:
    def costs(values: Array) -> dict[str, Array]:
        along: dict[str, Any] = {axis: values}
        parameters, found = replace(setting, **along), {}
        for primitive in get_args(Primitive):
            cost = bound(parameters, primitive, "order", convex=False).rounds
            if measure == "messages":
                cost = setting_cost(parameters, primitive, cost, prices, smooth=True)
            found[primitive] = np.asarray(cost)
        return found

    values, zetas = AXES[axis], (float(setting.zeta_intra), float(setting.zeta_inter))
    winners = stretches(values, costs, continuous=axis == "p")
    return Regime(*zetas, measure, axis, values, costs(values), winners)
