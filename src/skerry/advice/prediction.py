"""What the theory predicts for the measured problem: rounds and cost of each primitive."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from skerry.advice.contenders import nearby
from skerry.advice.ground import synchronised
from skerry.advice.timing import Timer
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.theory.communication import Prices
from skerry.theory.constants import Constants, constants_of
from skerry.theory.constants_at import Heterogeneity
from skerry.theory.gradients import gradients_and_losses, minibatch, redrawn
from skerry.theory.rounds_and_messages import Answer, ask
from skerry.theory.smoothness import known_smoothness

SHARE = 0.2
"""Of the time that measuring the constants may take."""
EFFORTS = (((0, 10, 50), 20), ((0, 10, 50), 8), ((0, 10), 4), ((0,), 3))
"""Rounds at which to measure and draws at each: the most that time allows."""
CURVATURE = 60
"""Gradients that estimating L takes at a checkpoint, about."""
CLOSE = 1.25
"""Bounds whose ratio is below this name no winner: their constants are no more exact."""


@dataclass(frozen=True)
class Prediction:
    """For epsilon = L f0/T: what T rounds of descent without any disturbance reach."""

    epsilon: float
    order: tuple[Answer, ...]
    """S2S and S2A with all constants one, at the experiment's K and H and around them."""
    certified: tuple[Answer, ...]
    """S2S, S2A and the best blend by the full recursion, at the experiment's K and H."""

    def rounds(self, mode: Literal["order", "certified"]) -> dict[str, float]:
        """By label, at the experiment's K and H."""
        answers = self.certified if mode == "certified" else self.order[:2]
        return {answer.label: answer.rounds for answer in answers}

    def favours(self, mode: Literal["order", "certified"] = "order") -> str | None:
        """s2s or s2a, where one of them needs clearly fewer rounds for the average model."""
        rounds = self.rounds(mode)
        return _clearly_fewer(rounds["s2s"], rounds["s2a"])

    @property
    def servers(self) -> list[tuple[int, int]]:
        """The K and H that the bounds with all constants one were asked for."""
        return [(int(a.parameters.sampled), int(a.parameters.period)) for a in self.order[::2]]

    def favours_at(self, K: int, H: int) -> str | None:
        """The same at another K and H, with all constants one."""
        where = 2 * self.servers.index((K, H))
        s2s, s2a = self.order[where : where + 2]
        return _clearly_fewer(s2s.rounds, s2a.rounds)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "favours": {"order": self.favours("order"), "certified": self.favours("certified")},
            "order": [_brief(answer) for answer in self.order],
            "certified": [_brief(answer) for answer in self.certified],
        }


def _clearly_fewer(s2s: float, s2a: float) -> str | None:
    if max(s2s, s2a) < CLOSE * min(s2s, s2a):
        return None
    return "s2s" if s2s < s2a else "s2a"


def measure(world: World, timer: Timer, notes: list[str]) -> Constants | None:
    """The constants, as well as time allows; None, with a note, where they cannot be had."""
    try:
        seconds = _seconds_per_gradient(world, timer)
        steep = 0 if known_smoothness(world) else CURVATURE
        for rounds, draws in EFFORTS:
            gradients = 2 * draws * len(rounds) + steep * len(rounds) + rounds[-1]
            if gradients * seconds <= SHARE * timer.seconds:
                return _constants(world, rounds, draws, notes)
        notes.append("theory left out: measuring its constants would take most of the time given")
    except SkerryError as error:
        notes.append(f"theory left out: {error.faults[0]}")
    return None


def _constants(
    world: World, rounds: Sequence[int], draws: int, notes: list[str]
) -> Constants | None:
    """Along the experiment's own run; at its start alone where that run diverges."""
    try:
        return constants_of(world, rounds=rounds, draws=draws)
    except SkerryError:
        notes.append(
            "the experiment's own run diverges, so the theory's constants are those at the start"
        )
        return constants_of(world, rounds=(0,), draws=draws)


def _seconds_per_gradient(world: World, timer: Timer) -> float:
    chunk, batch = build_stack(world, [world.experiment]).chunk(), minibatch(redrawn(world, -1))
    for _ in range(2):  # the first pays for what is done only once
        began = timer.clock()
        gradients_and_losses(world, world.initial(), batch, chunk)
        synchronised(world)
    return timer.clock() - began


def predict(constants: Constants, rounds: int, prices: Prices) -> Prediction | None:
    """None where there is nothing to bound: no error at the start."""
    L, gap = constants.smoothness.value, constants.f0.value
    epsilon = L * gap / rounds
    if not 0 < epsilon < math.inf:
        return None
    setting = constants.parameters(epsilon=epsilon, convex=False, initial_error=gap)
    servers = [(int(setting.sampled), int(setting.period))]
    servers += [(K, H) for _, K, H in nearby(int(setting.devices), *servers[0])]
    return Prediction(
        epsilon,
        order=tuple(
            ask(replace(setting, sampled=K, period=H), name, "order", False, prices=prices)
            for K, H in servers
            for name in ("s2s", "s2a")
        ),
        certified=tuple(
            ask(setting, name, "certified", False, beta="best", prices=prices)
            for name in ("s2s", "s2a", "blend")
        ),
    )


def favours_with_different_islands(
    constants: Constants, prediction: Prediction, factor: float
) -> str | None:
    """Whom the bounds favour with zeta_inter larger by a factor, all constants one."""
    setting = constants.parameters(epsilon=prediction.epsilon, initial_error=constants.f0.value)
    other = replace(setting, zeta_inter=factor * float(setting.zeta_inter))
    return _clearly_fewer(*(ask(other, name, "order", False).rounds for name in ("s2s", "s2a")))


def regime(constants: Constants) -> str:
    """The problem in words: how much islands differ, and devices inside them."""
    start = constants.points[0]
    within = _degree(start.intra)
    many = len(constants.sizes) > 1
    across = f"islands {_degree(start.inter)}" if many else "there is one island"
    if max(constants.sizes) == 1:
        return f"{across}; every device is an island of its own" if many else "a single device"
    p = constants.mixing.minimum
    mixing = "at once" if p > 0.9 else "quickly" if p > 0.3 else "slowly" if p > 0.03 else "hardly"
    within = "devices inside mix at once" if p > 1 - 1e-9 else f"devices inside one {within}"
    return f"{across}; {within}; an island agrees {mixing} (p = {p:.3g})"


def _degree(of: Heterogeneity) -> str:
    """By what full gradients differ, against what minibatches alone cause."""
    pure, noise = of.pure, of.noise
    if pure.value <= 2 * pure.error or pure.value <= 0.1 * noise.value:
        return "are alike"
    return "differ somewhat" if pure.value <= noise.value else "differ strongly"


def _brief(answer: Answer) -> dict[str, Any]:
    row = answer.to_json()
    names = ("primitive", "rounds", "messages", "stepsize", "sampled", "period")
    brief = {name: row[name] for name in names} | {"terms": row["terms"]}
    return brief | {name: row[name] for name in ("beta", "reason") if name in row}
