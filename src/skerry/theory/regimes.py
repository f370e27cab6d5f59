"""Who wins where: Figures 1 (rounds) and 6 (messages), from the bounds with all constants one.

The figures take p and zeta_intra as free of each other; at p = 1 the definition of zeta_intra
forces it to zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal, TypeAlias

import numpy as np

from skerry.theory.bounds import Primitive, bound
from skerry.theory.communication import ONE_EACH, Prices, communication_cost
from skerry.theory.operators import Array, Numbers
from skerry.theory.parameters import Parameters

Measure: TypeAlias = Literal["rounds", "messages"]
Axis: TypeAlias = Literal["sampled", "period", "p"]
Winner: TypeAlias = Literal["s2s", "s2a", "tie"]

HETEROGENEITY = ((0.1, 0.1), (1.0, 0.1), (0.1, 1.0), (1.0, 1.0))
AXES: dict[Axis, Array] = {
    "sampled": np.arange(1.0, 101),
    "period": np.arange(1.0, 51),
    "p": np.linspace(0.01, 1, 100),
}


@dataclass(frozen=True)
class Stretch:
    """A primitive wins from `first` to `last`; on the p axis these are the crossing points."""

    winner: Winner
    first: float
    last: float


@dataclass(frozen=True)
class Regime:
    """Who wins along one axis of one figure, at one heterogeneity."""

    zeta_intra: float
    zeta_inter: float
    measure: Measure
    axis: Axis
    stretches: tuple[Stretch, ...]


def regime_table(epsilon: float = 1e-5, prices: Prices = ONE_EACH) -> tuple[Regime, ...]:
    """Every panel of Figures 1 and 6: n = 100, L = f0 = 1, sigma = 0; K = 20, H = 5 and p = 1
    off the axis; non-convex."""
    measures: tuple[Measure, ...] = ("rounds", "messages")
    return tuple(
        Regime(zeta_intra, zeta_inter, measure, axis, _stretches(axis, log_ratio))
        for zeta_intra, zeta_inter in HETEROGENEITY
        for measure in measures
        for axis in AXES
        for log_ratio in [_log_ratio(zeta_intra, zeta_inter, measure, axis, epsilon, prices)]
    )


def figure_setting(
    zeta_intra: float, zeta_inter: float, axis: Axis, values: Numbers, epsilon: float = 1e-5
) -> Parameters:
    """The parameters of a panel, with `values` along its axis."""
    setting: dict[str, Numbers] = {"sampled": 20.0, "period": 5.0, "p": 1.0, axis: values}
    return Parameters(
        devices=100,
        components=2,
        **setting,
        zeta_intra=zeta_intra,
        zeta_inter=zeta_inter,
        sigma2=0,
        smoothness=1,
        gap=1,
        epsilon=epsilon,
    )


def figure_value(
    parameters: Parameters, primitive: Primitive, measure: Measure, prices: Prices = ONE_EACH
) -> Numbers:
    """What a panel draws: rounds (Figure 1) or messages (Figure 6) to reach epsilon."""
    rounds = bound(parameters, primitive, "order", convex=False).rounds
    if measure == "rounds":
        return rounds
    return communication_cost(
        primitive,
        rounds=rounds,
        devices=parameters.devices,
        sampled=parameters.sampled,
        period=parameters.period,
        prices=prices,
        smooth=True,
    )


def _log_ratio(
    zeta_intra: float,
    zeta_inter: float,
    measure: Measure,
    axis: Axis,
    epsilon: float,
    prices: Prices,
) -> Callable[[Numbers], Numbers]:
    """log(S2S/S2A) along an axis: negative where S2S wins."""

    def log_ratio(values: Numbers) -> Numbers:
        parameters = figure_setting(zeta_intra, zeta_inter, axis, values, epsilon)
        s2s, s2a = (figure_value(parameters, one, measure, prices) for one in ("s2s", "s2a"))
        return np.log(s2s / s2a)

    return log_ratio


def _stretches(axis: Axis, log_ratio: Callable[[Numbers], Numbers]) -> tuple[Stretch, ...]:
    values = AXES[axis]
    winners = [_winner(ratio) for ratio in np.atleast_1d(log_ratio(values))]
    runs = [
        (winner, [float(value) for value, _ in run])
        for winner, run in groupby(zip(values, winners, strict=True), key=lambda pair: pair[1])
    ]
    stretches = [Stretch(winner, run[0], run[-1]) for winner, run in runs]
    if axis != "p":
        return tuple(stretches)
    crossings = [
        _crossing(log_ratio, left.last, right.first) for left, right in pairwise(stretches)
    ]
    starts, ends = [values[0], *crossings], [*crossings, values[-1]]
    return tuple(
        Stretch(stretch.winner, float(start), float(end))
        for stretch, start, end in zip(stretches, starts, ends, strict=True)
    )


def _crossing(log_ratio: Callable[[Numbers], Numbers], left: float, right: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda value: float(log_ratio(value)), left, right))


def _winner(log_ratio: float) -> Winner:
    if abs(log_ratio) < 1e-12:
        return "tie"
    return "s2s" if log_ratio < 0 else "s2a"
