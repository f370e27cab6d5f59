"""Changes that would change the advice, computed from the pilot's runs or from the theory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from skerry.advice.candidates import Candidate, Entry, can_sample, nearby, preset_candidates
from skerry.advice.decision import WINDOW, Decision, PilotScores, decide
from skerry.advice.pilot import MARGIN, AdviceProgress, Histories, Pilot, run_entries, stride
from skerry.advice.prediction import Prediction, favoured
from skerry.advice.question import Timer
from skerry.config.experiment import Experiment
from skerry.report.text import plus_minus
from skerry.runs.driver import Driver
from skerry.theory.crossings import Stretch, stretches
from skerry.theory.operators import Array

MOST_SEEDS = 4
CURVE_LOOKS = 2  # evaluations of a curve per fifth of the rounds
DEARER = (1.5, 2, 3, 5, 10, 20)
MORE_DIFFERENT = (2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Effect:
    """The answer under a changed condition."""

    condition: str
    answer: str
    changes: bool  # whether the answer is another primitive than the recommended one
    basis: Literal["pilot", "theory"]


def run_nearby(pilot: Pilot, driver: Driver, timer: Timer, progress: AdviceProgress) -> None:
    """Run the best entry of each primitive at neighbouring K and H, on a few seeds."""
    if pilot.question.chooses_server:  # they are candidates already
        return
    server, n, sizes = pilot.base.server, pilot.budget.devices, pilot.base.network.sizes
    best = pilot.scores.best_by_primitive(pilot.entries, pilot.question.goal)
    entries = [
        Entry(at, stepsize)
        for _, K, H in nearby(n, server.sampled, server.period)
        for candidate, stepsize in best.values()
        if can_sample(candidate.selection, K, sizes)
        for at in _at(candidate, K, H, pilot.base)
    ]
    affordable = int(MARGIN * timer.left / max(pilot.seconds_for(len(entries)), 1e-9))
    seeds = pilot.seeds[: min(MOST_SEEDS, affordable)]
    if len(seeds) < 2:
        return
    progress.doing("trying neighbouring K and H")
    for seed in seeds:
        if run_entries(pilot, entries, [seed], driver, timer.is_up) is None:
            return


def _at(candidate: Candidate, K: int, H: int, base: Experiment) -> list[Candidate]:
    """The candidate at another K and H, as far as its preset allows."""
    if candidate.preset:
        return preset_candidates([candidate.preset], [(K, H)], [candidate.selection], base)
    return [replace(candidate, sampled=K, period=H)]


def run_full_curves(
    pilot: Pilot, driver: Driver, timer: Timer, progress: AdviceProgress
) -> Histories:
    """Run the remaining candidates, evaluated from the start: scores if they ended earlier."""
    entries, window = pilot.tuned(pilot.question.goal), int(WINDOW * pilot.base.rounds)
    every = stride(window, CURVE_LOOKS, {candidate.period for candidate in pilot.candidates})
    evaluate = pilot.base.evaluate.model_copy(update={"every": every, "after": 0})
    base = pilot.base.model_copy(update={"evaluate": evaluate})
    tracing = replace(pilot, base=base, scores=PilotScores(pilot.scores.measures))
    curves = Histories()
    progress.doing("evaluating curves over all rounds")
    for seed in pilot.seeds[:MOST_SEEDS]:
        if pilot.seconds_per_seed > timer.left:
            break
        found = run_entries(tracing, entries, [seed], driver, timer.is_up)
        if found is None:
            break
        curves |= found
    return curves


def effects(
    pilot: Pilot, curves: Histories, decision: Decision, prediction: Prediction | None
) -> Iterator[Effect]:
    """All conditions that can be checked with the time and the theory at hand."""
    yield from _other_servers(pilot, decision, prediction)
    yield from _own_weight(pilot)
    if curves:
        yield _dearer_downlink(pilot, curves, decision)
    if prediction is not None and len(pilot.base.network.sizes) > 1:
        yield _more_different_islands(prediction)


def _other_servers(
    pilot: Pilot, decision: Decision, prediction: Prediction | None
) -> Iterator[Effect]:
    """K and H doubled and halved: from the pilot's runs, else from the bounds."""
    best = decision.best.candidate
    for words, K, H in nearby(pilot.budget.devices, best.sampled, best.period):
        tried = pilot.scores.values
        there = [e for e in tried if (e.candidate.sampled, e.candidate.period) == (K, H)]
        found = decide(pilot.scores, decision.goal, there)
        if found is not None and found.rivals:
            yield _measured(f"if {words}", found, decision)
        elif (
            prediction
            and decision.goal in ("global", "both")
            and (K, H) in prediction.order_by_server
        ):
            then = favoured(*prediction.order_by_server[K, H])
            yield _predicted(f"if {words}", prediction.favours(), then)


def _measured(condition: str, found: Decision, decision: Decision) -> Effect:
    if all(rival.lead.mean == 0 for rival in found.rivals):
        return Effect(condition, "all primitives do the same", False, "pilot")
    other, rival = found.best.candidate, found.rivals[0]
    clear = "" if found.verdict == "clear" else ", not clearly"
    lead = plus_minus(rival.lead.mean, rival.lead.half_width, ".2g")
    answer = f"{other.label}, {lead} ahead of {rival.entry.candidate.label}{clear}"
    changes = other.kind != decision.best.candidate.kind
    return Effect(condition, answer, changes and not clear, "pilot")


def _predicted(condition: str, now: str | None, then: str | None) -> Effect:
    """The answer of the bounds, which is about the average model."""
    name = then or "neither S2S nor S2A"
    still = "still " if then == now else ""
    answer = f"the bounds {still}favour {name} for the average model"
    return Effect(condition, answer, then != now, "theory")


def _own_weight(pilot: Pilot) -> Iterator[Effect]:
    """The best candidate as the weight of own accuracy (or own loss) goes from 0 to 1."""
    scores = pilot.scores
    if "own" not in scores.goals:
        return
    what = "loss" if scores.are_losses else "accuracy"
    # Only means over the same number of finished seeds can be compared.
    counts = {entry: scores.estimate(entry, "own").count for entry in pilot.entries}
    entries = [entry for entry in counts if counts[entry] == max(counts.values())]
    means = {entry: (scores.mean(entry, "global"), scores.mean(entry, "own")) for entry in entries}
    among = [entry.candidate for entry in entries]

    def missing(weights: Array) -> dict[str, Array]:
        """Points below 100 of each candidate, at its best stepsize for the weight."""
        costs: dict[str, Array] = {}
        for entry, (common, own) in means.items():
            name = entry.candidate.label_among(among)
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


def _span(stretch: Stretch) -> str:
    if stretch.first == 0:
        return f"up to a weight of {stretch.last:.2f}"
    return f"to {stretch.last:.2f}" if stretch.last < 1 else "above it"


def _dearer_downlink(pilot: Pilot, curves: Histories, decision: Decision) -> Effect:
    """The price of a downlink message at which another primitive is better at equal cost."""
    budget, best = pilot.budget, decision.best.candidate
    limit = budget.limit or budget.cost(best, budget.rounds)
    for factor in DEARER:
        prices = replace(budget.prices, downlink=factor * budget.prices.downlink)
        dearer = replace(budget, prices=prices, limit=limit)
        scores = PilotScores(pilot.scores.measures)
        for (entry, seed), curve in curves.items():
            if until := dearer.reach(entry.candidate):
                scores.add(entry, seed, curve, until)
        found = scores.best(scores.values, decision.goal)
        if found is not None and dearer.cost(found.candidate, 1) < dearer.cost(best, 1):
            rounds = f"{dearer.reach(best)} rounds of {best.label} at equal cost"
            answer = f"{found.candidate.label}: there would be only {rounds}"
            return Effect(f"if a downlink cost {factor:g} times as much", answer, True, "pilot")
    condition = f"if a downlink cost up to {DEARER[-1]} times as much"
    return Effect(condition, f"still {best.label}, at equal cost", False, "pilot")


def _more_different_islands(prediction: Prediction) -> Effect:
    """The first factor at which the bounds prefer another primitive, or the largest tried."""
    for factor in MORE_DIFFERENT:
        then = prediction.favours_if_islands_differed(factor)
        if then != prediction.favours():
            break
    condition = f"if islands differed {factor:g} times as much"
    return _predicted(condition, prediction.favours(), then)
