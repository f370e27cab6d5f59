"""Changes that would change the advice, estimated from the pilot's runs or from the theory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from skerry.advice.answer import CurveAnswer
from skerry.advice.fleet_clock import ChangedClock, changed_clocks
from skerry.advice.pilot import Pilot
from skerry.advice.prediction import Prediction
from skerry.advice.question import Goal
from skerry.advice.search import CLIP, SURE, ScoreModel
from skerry.advice.settings import (
    NO_SERVER,
    Axis,
    Budget,
    Candidate,
    Entry,
    nearby,
    write_cost,
)
from skerry.advice.target import ClockUnit

DEARER = 10
MORE_DIFFERENT = 4.0
GOAL_NAMES: dict[Goal, str] = {
    "global": "only the average model counted",
    "own": "only devices on their own data counted",
    "both": "the average model and own data counted alike",
    "worst_tenth": "only the worst tenth of the devices counted",
}


@dataclass(frozen=True)
class Effect:
    """The answer under a changed condition."""

    condition: str
    answer: str
    changes: bool  # whether the answer is another setting than the recommended one
    basis: Literal["pilot", "theory"]


def effects(pilot: Pilot, answer: CurveAnswer, prediction: Prediction | None) -> Iterator[Effect]:
    """All changed conditions, in the order in which they are told."""
    chosen = answer.recommendation.entry
    if answer.best.never:  # no setting is sooner than another
        yield from _goals_that_reach(pilot)
        return
    if chosen.candidate.has_server:
        yield from _neighbours(pilot, answer.model, chosen)
    yield from _budgets(pilot, answer.model, chosen)
    yield from _goals(pilot, chosen)
    if pilot.budget.unit == "messages":
        yield _dearer_downloads(pilot, answer.model, chosen)
    if pilot.budget.unit != "messages" or pilot.scores.target is not None:
        yield from _clocks(pilot, answer.model, chosen)
    if prediction is not None:
        yield from _by_theory(prediction)


def _neighbours(pilot: Pilot, model: ScoreModel, chosen: Entry) -> Iterator[Effect]:
    """K and H doubled and halved, at the best stepsize and rule for them."""
    candidate, budget = chosen.candidate, pilot.budget
    for words, K, H in nearby(budget.devices, candidate.sampled, candidate.period):
        axis: Axis = "sampled" if words[0] == "K" else "period"
        now, wanted = getattr(candidate, axis), K if axis == "sampled" else H
        values = [int(one) for one in pilot.space.values[axis] if (one - now) * (wanted - now) > 0]
        value = min(values, key=lambda one: abs(math.log(one / wanted)), default=None)
        at = {"sampled": candidate.sampled, "period": candidate.period, axis: value or now}
        moved = replace(candidate, sampled=at["sampled"], period=at["period"])
        there = [
            entry
            for entry in model.entries
            if _same_but_rule(entry.candidate, moved, budget.devices)
        ]
        if value is None or not there:
            end = "largest" if wanted > now else "smallest"
            yield Effect(f"if {words}", f"not tried: {now} is the {end} value", False, "pilot")
            continue
        other = model.best(there)
        gain, changes = _difference(pilot, model, chosen, other)
        answer = f"{gain} for {cost_text(pilot, other)}"
        answer += "" if budget.allows(other.candidate) else ", beyond the budget"
        answer += "" if model.tried(other) else ", estimated"
        yield Effect(f"if {words.rpartition(' ')[0]} {value}", answer, changes, "pilot")


def _same_but_rule(one: Candidate, other: Candidate, n: int) -> bool:
    """Whether two candidates differ at most in the rule."""
    every = one.sampled == n and not one.preset  # then all primitives do the same
    kind = other if every else one
    same = replace(one, selection=other.selection, primitive=kind.primitive, beta=kind.beta)
    return same == other


def _difference(pilot: Pilot, model: ScoreModel, now: Entry, then: Entry) -> tuple[str, bool]:
    """How much better another setting is, and whether by clearly more than the tolerance."""
    gain_d = model.draws[:, model.index[then]] - model.draws[:, model.index[now]]
    if pilot.scores.lower_is_better:
        gain_d = -100 * np.expm1(np.minimum(-gain_d, 5e3) / 100)  # percent of the loss now
    low, high = np.quantile(gain_d, [0.025, 0.975])
    size, worse = abs(float(gain_d.mean())), gain_d.mean() < 0
    most = CLIP * model.tolerance  # the surface tells no more about scores this far below the top
    better, less = _comparatives(pilot)
    if worse and (size > most or model.is_far(then)):
        return f"more than {size_text(pilot, most)} {less}", False
    ends = " to ".join(map(brief, sorted((abs(low), abs(high)))))
    chance = ends if low * high > 0 else "within chance"
    clearly = float((gain_d > model.tolerance).mean()) >= SURE
    return f"{size_text(pilot, size)} {less if worse else better} ({chance})", clearly


def _comparatives(pilot: Pilot) -> tuple[str, str]:
    target = pilot.scores.target
    if target is None:
        return "better", "worse"
    return ("sooner", "later") if target.unit == "seconds" else ("fewer joules", "more joules")


def _budgets(pilot: Pilot, model: ScoreModel, chosen: Entry) -> Iterator[Effect]:
    """The budget halved and doubled; without a budget, half of what the answer costs."""
    budget = pilot.budget
    if budget.limit is None and pilot.scores.target is not None:
        return
    if budget.limit is None:
        least = 0.0 if budget.unit == "messages" else budget.cost(NO_SERVER)
        half = replace(budget, limit=least + (budget.cost(chosen.candidate) - least) / 2)
        if chosen.candidate.has_server:
            part = "its cost" if budget.unit == "messages" else f"the server's {budget.unit}"
            condition = f"if only half of {part} were allowed ({amount(pilot, half.limit or 0)})"
            yield _under(pilot, model, chosen, half, condition)
        return
    for words, factor in (("halved", 0.5), ("doubled", 2.0)):
        other = replace(budget, limit=factor * budget.limit)
        condition = f"if the budget were {words} ({amount(pilot, other.limit or 0)})"
        yield _under(pilot, model, chosen, other, condition)


def _under(
    pilot: Pilot, model: ScoreModel, chosen: Entry, budget: Budget, condition: str
) -> Effect:
    """The recommendation under another budget or other prices."""
    then, none = recommend(model, budget, pilot.search.may_be_none), Entry(NO_SERVER, 0.0)
    if then is None:
        answer = "no server: nothing else is affordable"
        if not budget.allows(NO_SERVER):
            answer = f"nothing is affordable: no server costs {cost_text(pilot, none, budget)}"
        return Effect(condition, answer, True, "pilot")
    if _same(then, chosen):
        return Effect(condition, f"still {then.candidate.label}", False, "pilot")
    gain, _ = _difference(pilot, model, chosen, then)
    answer = f"{then.label}: {gain} for {cost_text(pilot, then, budget)}"
    return Effect(condition, answer, True, "pilot")


def recommend(model: ScoreModel, budget: Budget, may_be_none: bool = True) -> Entry | None:
    """The cheapest tried setting that is level with the best, under a budget."""
    allowed = [
        entry
        for entry in model.entries
        if model.tried(entry)
        and budget.allows(entry.candidate)
        and (may_be_none or entry.candidate.has_server)
    ]
    if not allowed:
        return None
    best = model.best(allowed)
    if model.best_only:
        return best
    if model.is_far(best):  # all count alike on the surface, so by plain means
        return max(allowed, key=lambda entry: float(model.raw_e[model.index[entry]]))
    cost_e = np.full(len(model.entries), np.inf)
    for entry in allowed:
        cost_e[model.index[entry]] = budget.cost(entry.candidate)
    priced = replace(model, cost_e=cost_e)
    return priced.cheapest_level(best, SURE, allowed)


def _goals(pilot: Pilot, chosen: Entry) -> Iterator[Effect]:
    for goal in pilot.scores.goals:
        if (
            goal == pilot.question.goal
            or pilot.scores.measures[goal] == pilot.scores.measures[pilot.question.goal]
        ):
            continue
        model = pilot.search.model(goal)
        then = recommend(model, pilot.budget, pilot.search.may_be_none)
        condition = f"if {GOAL_NAMES[goal]}"
        if then is None or _same(then, chosen):
            yield Effect(condition, f"still {chosen.candidate.label}", False, "pilot")
            continue
        gain, _ = _difference(pilot, model, chosen, then)
        answer = f"{then.label}: {gain} for {cost_text(pilot, then)}"
        yield Effect(condition, answer, True, "pilot")


def _goals_that_reach(pilot: Pilot) -> Iterator[Effect]:
    """Where the target is never reached: whether it is by another goal."""
    target, scores = pilot.scores.target, pilot.scores
    assert target is not None
    for goal in scores.goals:
        if scores.measures[goal] != scores.measures[pilot.question.goal]:
            then = pilot.search.model(goal).best()
            spent = scores.score(then, goal)
            reached = 2 * spent.count >= len(scores.values.get(then, {})) > 0
            words = f"still never {target.text}"
            if reached:
                words = f"{then.label}: {target.text} {_after(target.unit)} "
                words += write_cost(target.unit, spent.mean)
            yield Effect(f"if {GOAL_NAMES[goal]}", words, reached, "pilot")


def _dearer_downloads(pilot: Pilot, model: ScoreModel, chosen: Entry) -> Effect:
    budget = pilot.budget
    price = DEARER * (budget.prices.downlink or budget.prices.uplink)
    other = replace(budget, prices=replace(budget.prices, downlink=price))
    times = f"{DEARER} times as much" + ("" if budget.prices.downlink else " as an upload")
    return _under(pilot, model, chosen, other, f"if a download cost {times}")


def _clocks(pilot: Pilot, model: ScoreModel, chosen: Entry) -> Iterator[Effect]:
    """A slower uplink, slower computing, and a broadcast, by the runs there are."""
    clock = pilot.budget.clock
    assert clock is not None
    for words, changed in changed_clocks(clock.clock).items():
        other, condition = clock.under(changed), f"if {words}"
        budget = replace(pilot.budget, clock=other)
        tried = [entry.candidate for entry in model.entries if model.tried(entry)]
        for one in (clock, other):
            one.prepare(tried)
        if pilot.scores.target is not None:
            yield _target_under(pilot, chosen, budget, condition)
            continue
        effect = _under(pilot, model, chosen, budget, condition)
        if not effect.changes:
            cost = cost_text(pilot, chosen, budget)
            effect = replace(effect, answer=f"{effect.answer}, for {cost}")
        yield effect


def _target_under(pilot: Pilot, chosen: Entry, budget: Budget, condition: str) -> Effect:
    """The setting that reaches the target soonest under another clock, unless the recommended one
    is level; and the time of that one on the fresh seeds, as in the answer."""
    now, clock = pilot.budget.clock, budget.clock
    target, fresh = pilot.scores.target, pilot.fresh
    assert now is not None
    assert clock is not None
    assert target is not None
    clock.prepare([chosen.candidate], fresh)
    own = {seed: pilot.scores.values[chosen][seed] for seed in fresh}
    scores = replace(pilot.scores, values={chosen: own}, clock=clock)
    time = write_cost(target.unit, scores.score(chosen, pilot.question.goal).mean)
    reached = f"{target.text} {_after(target.unit)} {time}"
    estimated = replace(pilot.scores, clock=ChangedClock(now, clock))
    search = replace(pilot.search, scores=estimated)
    model = search.model()
    then = recommend(model, budget, search.may_be_none)
    if then is None:
        return Effect(condition, "nothing is affordable", True, "pilot")
    gain_d = model.draws[:, model.index[then]] - model.draws[:, model.index[chosen]]
    is_level = budget.allows(chosen.candidate) and gain_d.mean() <= model.tolerance
    if is_level or _same(then, chosen):
        return Effect(condition, f"still {chosen.candidate.label}: {reached}", False, "pilot")
    gain, _ = _difference(pilot, model, chosen, then)
    answer = f"{then.label}: {gain} than the recommended setting, which then reaches {reached}"
    return Effect(condition, answer, True, "pilot")


def _after(unit: ClockUnit) -> str:
    return "after" if unit == "seconds" else "for"


def _by_theory(prediction: Prediction) -> Iterator[Effect]:
    """One more island, and islands that differ more, by the bounds for the average model."""
    setting, now = prediction.order[0].parameters, prediction.favours()
    sizes = setting.components
    if isinstance(sizes, tuple):
        more = (*sizes, max(1, round(sum(sizes) / len(sizes))))
        then = prediction.favours_if(devices=sum(more), components=more)
        yield _predicted("if there were one more island", now, then)
    if len(prediction.order[0].parameters.sizes) > 1:
        wider = MORE_DIFFERENT * float(setting.zeta_inter)
        then = prediction.favours_if(zeta_inter=wider)
        yield _predicted(f"if islands differed {MORE_DIFFERENT:g} times as much", now, then)


def _predicted(condition: str, now: str | None, then: str | None) -> Effect:
    """The answer of the bounds, which is about the average model."""
    name = then or "neither s2s nor s2a"
    still = "still " if then == now else ""
    answer = f"the bounds {still}favour {name} for the average model"
    return Effect(condition, answer, then != now, "theory")


def _same(one: Entry, other: Entry) -> bool:
    """Whether two entries have the same server, whatever their stepsizes."""
    return one.candidate == other.candidate


def brief(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"


def size_text(pilot: Pilot, size: float) -> str:
    """A difference of scores with its unit: `0.3 points`, `1 point`, `2 %`."""
    unit = "%" if pilot.scores.lower_is_better else "point" if brief(size) == "1" else "points"
    return f"{brief(size)} {unit}"


def cost_text(pilot: Pilot, entry: Entry, budget: Budget | None = None) -> str:
    """Cost of a whole run with its unit: `96 uploads`."""
    priced = budget or pilot.budget
    if priced.prices != pilot.budget.prices and pilot.question.bytes is None:
        return f"{priced.cost(entry.candidate):,.0f} units of cost"
    return amount(pilot, priced.cost(entry.candidate))


def amount(pilot: Pilot, cost: float) -> str:
    """A cost with its unit: `96 uploads`, `1.2 MB`."""
    if pilot.budget.unit != "messages":
        return write_cost(pilot.budget.unit, cost)
    if pilot.question.bytes is not None:
        return f"{cost * pilot.message_bytes / 1e6:,.3g} MB"
    count = f"{cost:,.0f}" if cost == int(cost) else f"{cost:,.1f}"
    unit = pilot.question.cost_unit
    return f"{count} {unit[:-1] if cost == 1 and unit.endswith('s') and ' ' not in unit else unit}"
