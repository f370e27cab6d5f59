"""What would change the answer, each computed: from the pilot's entries, or from the theory."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from skerry.advice.contenders import (
    Budget,
    Contender,
    Entry,
    can_sample,
    nearby,
    preset_contenders,
)
from skerry.advice.decision import WINDOW, Decision, Scores, decide
from skerry.advice.plan import stride
from skerry.advice.prediction import Prediction
from skerry.advice.question import Timer
from skerry.advice.race import MARGIN, AdviceWatcher, Histories, Pilot, run_entries
from skerry.config.experiment import Experiment
from skerry.report.text import plus_minus
from skerry.runs.driver import Driver, StoppedError
from skerry.theory.crossings import Stretch, stretches
from skerry.theory.operators import Array

MOST_SEEDS = 4
CURVE_LOOKS = 2
"""Evaluations of a curve in a fifth of the rounds."""
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


def try_nearby(pilot: Pilot, driver: Driver, timer: Timer, watcher: AdviceWatcher) -> None:
    """Try each primitive's best entry at neighbouring K and H, on a few of the seeds."""
    if pilot.question.chooses_server:  # then they were in the race
        return
    server, n, islands = pilot.base.server, pilot.budget.devices, len(pilot.base.network.sizes)
    best = pilot.scores.best_by_primitive(pilot.entries, pilot.question.goal)
    entries = [
        Entry(at, stepsize)
        for _, K, H in nearby(n, server.sampled, server.period)
        for contender, stepsize in best.values()
        if can_sample(contender.selection, K, islands)
        for at in _at(contender, K, H, pilot.base)
    ]
    affordable = int(MARGIN * timer.left / max(pilot.seconds_for(len(entries)), 1e-9))
    seeds = pilot.seeds[: min(MOST_SEEDS, affordable)]
    if len(seeds) < 2:
        return
    watcher.doing("trying neighbouring K and H")
    try:
        for seed in seeds:
            run_entries(pilot, entries, [seed], driver, timer.is_up)
    except StoppedError:
        return


def _at(contender: Contender, K: int, H: int, base: Experiment) -> list[Contender]:
    """The same at another K and H, as far as it lets others say them."""
    if contender.preset:
        return preset_contenders([contender.preset], [(K, H)], [contender.selection], base)
    return [replace(contender, sampled=K, period=H)]


def trace(pilot: Pilot, driver: Driver, timer: Timer, watcher: AdviceWatcher) -> Histories:
    """Contenders evaluated from their first rounds on, where the pilot looks at the last ones only:
    what they would reach if they had to end early. Every contender that is left, at its best
    stepsize, on as many seeds as time allows."""
    entries = pilot.tuned(pilot.question.goal)
    tracing = replace(pilot, base=_throughout(pilot), scores=Scores(pilot.scores.measures))
    curves = Histories()
    watcher.doing("tracing curves over all rounds")
    for seed in pilot.seeds[:MOST_SEEDS]:
        if pilot.seconds_per_seed > timer.left:
            break
        try:
            curves |= run_entries(tracing, entries, [seed], driver, timer.is_up)
        except StoppedError:
            break
    return curves


def _throughout(pilot: Pilot) -> Experiment:
    window = int(WINDOW * pilot.base.rounds)
    every = stride(window, CURVE_LOOKS, {contender.period for contender in pilot.contenders})
    evaluate = pilot.base.evaluate.model_copy(update={"every": every, "after": 0})
    return pilot.base.model_copy(update={"evaluate": evaluate})


def effects(
    pilot: Pilot, curves: Histories, decision: Decision, prediction: Prediction | None
) -> Iterator[Effect]:
    yield from _other_servers(pilot, decision, prediction)
    yield from _own_weight(pilot)
    if curves:
        yield _dearer_downlink(pilot, curves, decision)
    if prediction is not None and len(pilot.base.network.sizes) > 1:
        yield _more_different_islands(prediction)


def _other_servers(
    pilot: Pilot, decision: Decision, prediction: Prediction | None
) -> Iterator[Effect]:
    """K and H doubled and halved: from the entries that tried it, else from the bounds."""
    best = decision.best.contender
    for words, K, H in nearby(pilot.budget.devices, best.sampled, best.period):
        there = [
            entry
            for entry in pilot.scores.values
            if (entry.contender.sampled, entry.contender.period) == (K, H)
        ]
        found = decide(pilot.scores, decision.goal, there)
        if found is not None and found.rivals:
            yield _measured(f"if {words}", found, decision)
        elif (
            prediction
            and decision.goal in ("global", "both")
            and (K, H) in prediction.order_by_server
        ):
            then = prediction.favours_at(K, H)
            yield _predicted(f"if {words}", prediction.favours(), then)


def _measured(condition: str, found: Decision, decision: Decision) -> Effect:
    if all(rival.lead.mean == 0 for rival in found.rivals):
        return Effect(condition, "all primitives do the same", False, "pilot")
    other, rival = found.best.contender, found.rivals[0]
    clear = "" if found.verdict == "clear" else ", not clearly"
    lead = plus_minus(rival.lead.mean, rival.lead.half_width, ".2g")
    answer = f"{other.label}, {lead} ahead of {rival.entry.contender.label}{clear}"
    changes = other.kind != decision.best.contender.kind
    return Effect(condition, answer, changes and not clear, "pilot")


def _predicted(condition: str, now: str | None, then: str | None) -> Effect:
    """What the bounds say, which is about the average model."""
    name = then or "neither S2S nor S2A"
    still = "still " if then == now else ""
    answer = f"the bounds {still}favour {name} for the average model"
    return Effect(condition, answer, then != now, "theory")


def _own_weight(pilot: Pilot) -> Iterator[Effect]:
    """Who is best as the weight of own accuracy, or of own loss, goes from 0 to 1."""
    scores = pilot.scores
    if "own" not in scores.goals:
        return
    what = "loss" if scores.are_losses else "accuracy"
    entries = _ended_on_most(scores, pilot.entries)
    means = {entry: (scores.mean(entry, "global"), scores.mean(entry, "own")) for entry in entries}
    among = [entry.contender for entry in entries]

    def missing(weights: Array) -> dict[str, Array]:
        """Points that each contender lacks, at its best stepsize for the weight."""
        costs: dict[str, Array] = {}
        for entry, (common, own) in means.items():
            name = entry.contender.label_among(among)
            lacks = 100 - (1 - weights) * common - weights * own
            costs[name] = np.minimum(costs[name], lacks) if name in costs else lacks
        return costs

    won = [
        stretch
        for stretch in stretches(np.linspace(0, 1, 101), missing, continuous=True)
        if stretch.first < stretch.last
    ]
    if len(won) == 1:
        answer = f"{won[0].winner} whatever own {what} weighs"
    else:
        answer = ", ".join(f"{_span(stretch)} {stretch.winner}" for stretch in won)
    yield Effect(f"if own {what} weighed more or less", answer, len(won) > 1, "pilot")


def _ended_on_most(scores: Scores, entries: Sequence[Entry]) -> list[Entry]:
    """The entries that came to their end on most seeds: their means can be compared."""
    counts = {entry: scores.estimate(entry, "own").count for entry in entries}
    return [entry for entry in entries if counts[entry] == max(counts.values())]


def _span(stretch: Stretch) -> str:
    if stretch.first == 0:
        return f"up to a weight of {stretch.last:.2f}"
    return f"to {stretch.last:.2f}" if stretch.last < 1 else "above it"


def _dearer_downlink(pilot: Pilot, curves: Histories, decision: Decision) -> Effect:
    """At what price of a downlink message another primitive does better for the same money."""
    budget, best = pilot.budget, decision.best.contender
    limit = budget.limit or budget.cost(best, budget.rounds)
    for factor in DEARER:
        prices = replace(budget.prices, downlink=factor * budget.prices.downlink)
        dearer = replace(budget, prices=prices, limit=limit)
        found = _best_for(pilot, curves, decision, dearer)
        if found is not None and dearer.cost(found, 1) < dearer.cost(best, 1):
            rounds = f"{dearer.reach(best)} rounds of {best.label} for the same money"
            answer = f"{found.label}: there would be only {rounds}"
            return Effect(f"if a downlink cost {factor:g} times as much", answer, True, "pilot")
    condition = f"if a downlink cost up to {DEARER[-1]} times as much"
    return Effect(condition, f"still {best.label}, for the same money", False, "pilot")


def _best_for(
    pilot: Pilot, curves: Histories, decision: Decision, budget: Budget
) -> Contender | None:
    """The winner when every contender runs as far as the money goes."""
    scores = Scores(pilot.scores.measures)
    for (entry, seed), curve in curves.items():
        if until := budget.reach(entry.contender):
            scores.add(entry, seed, curve, until)
    found = scores.best(scores.values, decision.goal)
    return found and found.contender


def _more_different_islands(prediction: Prediction) -> Effect:
    """The first factor at which the bounds change their mind, or the largest tried."""
    for factor in MORE_DIFFERENT:
        then = prediction.favours_if_islands_differed(factor)
        if then != prediction.favours():
            break
    condition = f"if islands differed {factor:g} times as much"
    return _predicted(condition, prediction.favours(), then)
