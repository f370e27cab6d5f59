"""The theory's prediction for a measured problem: rounds and messages of each primitive."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skerry.advice.question import PRIMITIVES, Timer
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.theory.communication import ONE_EACH, Prices
from skerry.theory.constants import Constants, check_all_shared, constants_of
from skerry.theory.parameters import Parameters
from skerry.theory.point_constants import (
    Heterogeneity,
    draw_minibatch,
    gradients_and_losses,
    known_smoothness,
    with_other_draws,
)
from skerry.theory.rounds_and_messages import Answer, ask

MEASURING = 0.5  # fraction of the time left that measuring the constants may take
LEAST_LEFT = 0.06  # fraction of the whole time below which nothing is measured
EFFORTS = (((0, 10, 50), 20), ((0, 10, 50), 8), ((0, 10), 4), ((0,), 3))
"""(Rounds at which to measure, draws at each): the first that fits the time is used."""
CURVATURE = 60  # approximate number of gradients to estimate L at one round
CLOSE = 1.25  # bounds whose ratio is below this prefer neither: their constants are not more exact

Pair = tuple[Answer, Answer]  # bounds of S2S and S2A


@dataclass(frozen=True)
class Prediction:
    """Rounds and messages until epsilon = L f0/T, the error of T undisturbed gradient steps."""

    epsilon: float
    order: Pair
    """The bounds with all constants set to one, at the experiment's K and H. Under selection rules
    that the paper does not treat, certified bounds."""
    certified: tuple[Answer, ...]  # of S2S, S2A and the best blend, at the experiment's K and H

    def favours(self, mode: Literal["order", "certified"] = "order") -> str | None:
        """s2s or s2a, if one needs clearly fewer rounds for the average model; else None."""
        return favoured(*(self.order if mode == "order" else self.certified[:2]))

    def favours_if(self, **changes: Any) -> str | None:
        """The primitive that the bounds prefer with other parameters."""
        return favoured(*_pair(replace(self.order[0].parameters, **changes)))

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "favours": {"order": self.favours("order"), "certified": self.favours("certified")},
            "order": [_brief(answer) for answer in self.order],
            "certified": [_brief(answer) for answer in self.certified],
        }


def favoured(s2s: Answer, s2a: Answer) -> str | None:
    """The primitive whose bound needs clearly fewer rounds, or None."""
    fewer, more = sorted((s2s, s2a), key=lambda answer: answer.rounds)
    if math.isinf(fewer.rounds) or more.rounds < CLOSE * fewer.rounds:
        return None
    return fewer.primitive


def measure_in_time(world: World, timer: Timer, notes: list[str]) -> Constants | None:
    """Measure the theory's constants as accurately as time allows; None, with a note, if not."""
    if timer.left < LEAST_LEFT * timer.seconds:
        notes.append("the theory is left out: there was no time to measure its constants")
        return None
    try:
        check_all_shared(world)
        seconds = _seconds_per_gradient(world, timer)
        curvature = 0 if known_smoothness(world) else CURVATURE
        for rounds, draws in EFFORTS:
            gradients = (2 * draws + curvature) * len(rounds) + rounds[-1]
            if gradients * seconds <= MEASURING * timer.left:
                return _constants(world, rounds, draws, notes)
        notes.append("the theory is left out: there was no time to measure its constants")
    except SkerryError as error:
        notes.append(f"the theory is left out: {error.faults[0].rstrip('.')}")
    return None


def _constants(
    world: World, rounds: Sequence[int], draws: int, notes: list[str]
) -> Constants | None:
    """Constants along the experiment's own run, or only at its start if that run diverges."""
    try:
        return constants_of(world, rounds=rounds, draws=draws)
    except SkerryError:
        notes.append(
            "the experiment's own run diverges, so the theory's constants are those at the start"
        )
        return constants_of(world, rounds=(0,), draws=draws)


def _seconds_per_gradient(world: World, timer: Timer) -> float:
    chunk = build_stack(world, [world.experiment]).chunk()
    batch = draw_minibatch(with_other_draws(world, -1))
    for _ in range(2):  # the first pays for what is done only once
        began = timer.now(world)
        gradients_and_losses(world, world.initial(), batch, chunk)
    return timer.now(world) - began


def predict(
    constants: Constants, rounds: int, prices: Prices, notes: list[str]
) -> Prediction | None:
    """The prediction; None without an initial error or, with a note, if K or H changes."""
    if constants.why_no_bounds:
        notes.append(f"no bounds: {constants.why_no_bounds.rstrip('.')}")
        return None
    epsilon = constants.smoothness.value * constants.f0.value / rounds
    if not 0 < epsilon < math.inf:
        return None
    setting = constants.parameters(epsilon=epsilon)
    return Prediction(
        epsilon,
        _pair(setting, prices),
        certified=tuple(
            ask(setting, name, "certified", False, beta="best", prices=prices)
            for name in PRIMITIVES
        ),
    )


def _pair(setting: Parameters, prices: Prices = ONE_EACH) -> Pair:
    mode = "order" if setting.is_as_in_the_paper else "certified"
    s2s, s2a = (ask(setting, name, mode, False, prices=prices) for name in ("s2s", "s2a"))
    return s2s, s2a


def _brief(answer: Answer) -> dict[str, Any]:
    row = answer.to_json()
    names = ("primitive", "rounds", "messages", "stepsize", "sampled", "period", "terms")
    return {name: row[name] for name in (*names, "beta", "reason") if name in row}


def regime(constants: Constants) -> str:
    """A description of the problem: heterogeneity across and within islands, and mixing."""
    start, many = constants.points[0], len(constants.sizes) > 1
    across = f"islands {_degree(start.inter)}" if many else "there is one island"
    if max(constants.sizes) == 1:
        return f"{across}; every device is an island of its own" if many else "a single device"
    p = constants.mixing.minimum
    mixing = next(words for least, words in _MIXING.items() if p > least)
    if p > 1 - 1e-9:  # whatever devices on an island have apart is gone after every round
        return f"{across}; {mixing.format('devices on an island')} (p = {p:.3g})"
    within = f"devices on an island {_degree(start.intra)}"
    return f"{across}; {within}; {mixing.format('them')} (p = {p:.3g})"


_MIXING = {
    0.9: "mixing brings {} together at once",
    0.3: "mixing brings {} together quickly",
    0.03: "mixing brings {} together slowly",
    -math.inf: "mixing hardly brings {} together",
}
"""By the p that it takes more than."""


def _degree(of: Heterogeneity) -> str:
    """By what full gradients differ, against what minibatches alone cause."""
    pure, noise = of.pure, of.noise
    if pure.value <= 2 * pure.error or pure.value <= 0.1 * noise.value:
        return "are alike"
    return "differ somewhat" if pure.value <= noise.value else "differ strongly"
