"""What would change the answer, each computed: from the pilot's lanes, or from the theory."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from skerry.advice.contenders import Contender, Lane, Purse, nearby
from skerry.advice.curves import Curves
from skerry.advice.decision import Decision, decide
from skerry.advice.ground import Ground
from skerry.advice.pilot import MARGIN, OutOfTimeError, Pilot, run_lanes
from skerry.advice.prediction import Prediction, favours_with_different_islands
from skerry.advice.readings import Readings
from skerry.advice.timing import Timer, Watch
from skerry.theory.constants import Constants
from skerry.theory.crossings import Stretch, stretches
from skerry.theory.operators import Array

LOOK_SEEDS = 4
DEARER = (1.5, 2, 3, 5, 10, 20)
MORE_DIFFERENT = (2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Effect:
    """If this were so, that would be the answer."""

    condition: str
    answer: str
    changes: bool
    """Whether it is another primitive than the one recommended."""
    basis: Literal["pilot", "theory"]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def look_around(pilot: Pilot, ground: Ground, timer: Timer, watch: Watch) -> None:
    """Try each primitive's best lane at neighbouring K and H, on a few of the seeds."""
    decision = decide(pilot.readings, pilot.question.goal, pilot.lanes)
    if decision is None or pilot.question.chooses_server:
        return
    server, n = pilot.base.server, pilot.purse.devices
    lanes = [
        Lane(replace(best.contender, sampled=K, period=H), best.stepsize)
        for _, K, H in nearby(n, server.sampled, server.period)
        for best in pilot.readings.best_by_kind(pilot.lanes, decision.goal).values()
    ]
    each = pilot.seconds_per_seed * (1 + len(lanes) / max(1, len(pilot.lanes))) / 2
    affordable = int(MARGIN * timer.left / max(each, 1e-9))
    seeds = pilot.seeds[: min(LOOK_SEEDS, affordable)]
    if len(seeds) < 2:
        return
    watch.doing(f"neighbouring K and H: lanes {len(lanes)}")
    for seed in seeds:
        try:
            run_lanes(pilot, lanes, [seed], ground, timer, watch, may_stop=True)
        except OutOfTimeError:
            return


def effects(
    pilot: Pilot,
    curves: Curves,
    decision: Decision,
    constants: Constants | None,
    prediction: Prediction | None,
) -> Iterator[Effect]:
    yield from _other_servers(pilot, decision, prediction)
    yield from _own_weight(pilot, decision)
    if curves:
        yield from _dearer_downlink(pilot, curves, decision)
    if constants is not None and prediction is not None:
        yield from _more_different_islands(constants, prediction)


def _other_servers(
    pilot: Pilot, decision: Decision, prediction: Prediction | None
) -> Iterator[Effect]:
    """K and H doubled and halved: from the lanes that tried it, else from the bounds."""
    best = decision.best.contender
    for words, K, H in nearby(pilot.purse.devices, best.sampled, best.period):
        there = [
            lane
            for lane in pilot.readings.values
            if (lane.contender.sampled, lane.contender.period) == (K, H)
        ]
        found = decide(pilot.readings, decision.goal, there)
        if found is not None and found.rivals:
            yield _server_effect(f"if {words}", found, decision)
        elif prediction is not None and decision.goal != "own" and (K, H) in prediction.servers:
            yield _by_bounds(f"if {words}", prediction.favours(), prediction.favours_at(K, H))


def _by_bounds(condition: str, now: str | None, then: str | None) -> Effect:
    """What the bounds say, which is about the average model."""
    name = then or "neither S2S nor S2A"
    still = "still " if then == now else ""
    answer = f"the bounds {still}favour {name} for the average model"
    return Effect(condition, answer, then != now, "theory")


def _server_effect(condition: str, found: Decision, decision: Decision) -> Effect:
    gap = found.rivals[0].gap
    if all(rival.gap.mean == 0 for rival in found.rivals):
        return Effect(condition, "all primitives do the same", False, "pilot")
    other = found.best.contender
    clear = "" if found.verdict == "clear" else ", not clearly"
    rival = found.rivals[0].lane.contender.label
    answer = f"{other.label}, {gap.mean:.2g} ± {gap.half_width:.2g} ahead of {rival}{clear}"
    changes = other.primitive != decision.best.contender.primitive
    return Effect(condition, answer, changes and not clear, "pilot")


def _own_weight(pilot: Pilot, decision: Decision) -> Iterator[Effect]:
    """Who is best as the weight of own accuracy goes from 0 to 1."""
    readings = pilot.readings
    if "own" not in readings.goals:
        return
    lanes = _most_seeds(readings, pilot.lanes)
    means = {lane: (readings.mean(lane, "global"), readings.mean(lane, "own")) for lane in lanes}
    among = [lane.contender for lane in lanes]

    def missing(weights: Array) -> dict[str, Array]:
        """Points that each contender lacks, at its best stepsize for the weight."""
        costs: dict[str, Array] = {}
        for lane, (common, own) in means.items():
            name = lane.contender.told(among)
            lacks = 100 - (1 - weights) * common - weights * own
            costs[name] = np.minimum(costs[name], lacks) if name in costs else lacks
        return costs

    won = [
        stretch
        for stretch in stretches(np.linspace(0, 1, 101), missing, continuous=True)
        if stretch.first < stretch.last
    ]
    if len(won) == 1:
        answer = f"{won[0].winner} whatever own accuracy weighs"
    else:
        answer = ", ".join(f"{_span(stretch)} {stretch.winner}" for stretch in won)
    yield Effect("if own accuracy weighed more or less", answer, len(won) > 1, "pilot")


def _span(stretch: Stretch) -> str:
    if stretch.first == 0:
        return f"up to a weight of {stretch.last:.2f}"
    return f"to {stretch.last:.2f}" if stretch.last < 1 else "above it"


def _dearer_downlink(pilot: Pilot, curves: Curves, decision: Decision) -> Iterator[Effect]:
    """At what price of a downlink message another primitive does better for the same money."""
    purse, best = pilot.purse, decision.best.contender
    limit = purse.limit or purse.cost(best, purse.rounds)
    for factor in DEARER:
        prices = replace(purse.prices, downlink=factor * purse.prices.downlink)
        dearer = replace(purse, prices=prices, limit=limit)
        found = _best_for(pilot, curves, decision, dearer)
        if found is not None and dearer.cost(found, 1) < dearer.cost(best, 1):
            rounds = f"{dearer.reach(best)} rounds of {best.label} for the same money"
            answer = f"{found.label}: there would be only {rounds}"
            yield Effect(f"if a downlink cost {factor:g} times as much", answer, True, "pilot")
            return
    condition = f"if a downlink cost up to {DEARER[-1]} times as much"
    yield Effect(condition, f"still {best.label}, for the same money", False, "pilot")


def _best_for(pilot: Pilot, curves: Curves, decision: Decision, purse: Purse) -> Contender | None:
    """The winner when every contender runs as far as the money goes."""
    readings = Readings(pilot.readings.measures)
    for (lane, seed), curve in curves.items():
        if until := purse.reach(lane.contender):
            readings.add(lane, seed, curve, until)
    found = readings.best(readings.values, decision.goal)
    return found and found.contender


def _more_different_islands(constants: Constants, prediction: Prediction) -> Iterator[Effect]:
    """The first factor at which the bounds change their mind, or the largest tried."""
    if len(constants.sizes) == 1:
        return
    for factor in MORE_DIFFERENT:
        then = favours_with_different_islands(constants, prediction, factor)
        if then != prediction.favours():
            break
    condition = f"if islands differed {factor:g} times as much"
    yield _by_bounds(condition, prediction.favours(), then)


def _most_seeds(readings: Readings, lanes: Sequence[Lane]) -> list[Lane]:
    """The lanes that finished on most seeds: their means can be compared."""
    most = max((len(readings.values.get(lane, {})) for lane in lanes), default=0)
    return [lane for lane in lanes if most and len(readings.values.get(lane, {})) == most]
