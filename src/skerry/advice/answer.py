"""The answer: the curve of score against cost, and the points on it that are named."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from skerry.advice.pilot import FEW_LANES, Pilot
from skerry.advice.scores import COST_PERCENT, Gap
from skerry.advice.search import ScoreModel
from skerry.advice.settings import Entry
from skerry.advice.target import ClockUnit
from skerry.analysis.statistics import Estimate, holm

Role: TypeAlias = Literal["best", "cheapest", "none"]
Verdict: TypeAlias = Literal["clear", "unclear", "equal", "alone", "never"]
CLEAR = 0.95  # probability from which a statement is called clear


@dataclass(frozen=True)
class CurvePoint:
    """A confirmed setting: its cost, its score on fresh seeds, and its gap to the best."""

    entry: Entry
    cost: float  # of a whole run, in the unit of the budget
    score: Estimate
    behind: Gap | None  # None for the best itself; never reaching a target counts
    roles: tuple[str, ...]
    top: Estimate | None = None  # with a target, the best score that was reached
    apart: Gap | None = None  # as `behind`, on the seeds on which both reach a target

    @property
    def never(self) -> bool:
        """Whether a target was not reached on most of the fresh seeds."""
        return self.top is not None and 2 * self.score.count < self.top.count

    @property
    def always(self) -> bool:
        """Whether there is no target, or it was reached on all fresh seeds."""
        return self.top is None or self.score.count == self.top.count


@dataclass(frozen=True)
class AdviceClaim:
    """A sentence with how sure it is."""

    text: str
    probability: float | None = None
    p: float | None = None  # of a paired t test, Holm-corrected


@dataclass(frozen=True)
class CurveAnswer:
    """The points that are named, the curve, and what is said about them."""

    best: CurvePoint
    cheapest: CurvePoint
    none: CurvePoint
    recommended: Role
    points: tuple[CurvePoint, ...]  # all confirmed settings, by cost
    statements: tuple[AdviceClaim, ...]
    verdict: Verdict
    model: ScoreModel

    @property
    def recommendation(self) -> CurvePoint:
        return {"best": self.best, "cheapest": self.cheapest, "none": self.none}[self.recommended]

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        """The points that are better than all cheaper ones, and those that are named."""
        found: list[CurvePoint] = []
        top = -math.inf
        for point in self.points:
            height = 0.0 if point.behind is None else -point.behind.mean
            if height > top or point.roles:
                found.append(point)
            top = max(top, height)
        return tuple(found)

    @property
    def none_is_level(self) -> bool:
        """Whether no server is more likely than not within the tolerance of the best."""
        gap = self.none.behind
        return gap is None or gap.within >= 0.5


def answer_of(pilot: Pilot) -> CurveAnswer:
    """The answer of a pilot, with intervals and tests from fresh seeds alone."""
    best, cheapest, none = pilot.best, pilot.cheapest, pilot.none
    assert best is not None
    assert cheapest is not None
    assert none is not None
    scores, goal = pilot.scores, pilot.question.goal
    if nearest := _nearest_to_target(pilot):
        best = cheapest = nearest
    recommended: Role = "none" if cheapest == none else "best" if cheapest == best else "cheapest"

    def point(entry: Entry) -> CurvePoint:
        named = {"recommended": cheapest, "best": best, "cheapest": cheapest, "none": none}
        both = scores.seeds_of_both(best, entry, goal, pilot.fresh)
        both = both if 2 * len(both) >= len(pilot.fresh) else []
        return CurvePoint(
            entry,
            pilot.budget.cost(entry.candidate),
            scores.score(entry, goal, pilot.fresh),
            None if entry == best else _behind(pilot, best, entry, pilot.fresh),
            tuple(role for role, holder in named.items() if holder == entry),
            None if scores.target is None else scores.best_reached(entry, goal, pilot.fresh),
            None if entry == best else _behind(pilot, best, entry, both),
        )

    points = tuple(map(point, pilot.confirmed))
    by_entry = {one.entry: one for one in points}
    named = by_entry[best], by_entry[cheapest], by_entry[none]
    statements = _statements(pilot, *named, points)
    lanes = pilot.scores.runs
    sure = [one.probability for one in statements if one.probability is not None]
    clear = all(chance >= CLEAR for chance in sure[:1]) and lanes >= FEW_LANES
    allowed = (e.candidate for e in pilot.space.entries if pilot.budget.allows(e.candidate))
    alone = not any(candidate.has_server for candidate in allowed)
    verdict: Verdict = "alone" if alone else "clear" if clear else "unclear"
    verdict = "never" if by_entry[best].never else verdict
    return CurveAnswer(*named, recommended, points, statements, verdict, pilot.model())


def _nearest_to_target(pilot: Pilot) -> Entry | None:
    """The confirmed setting with the best score, where none reaches the target on most seeds."""
    scores, goal, fresh = pilot.scores, pilot.question.goal, pilot.fresh
    if scores.target is None:
        return None
    tops = {entry: scores.best_reached(entry, goal, fresh) for entry in pilot.confirmed}
    reached = {entry: scores.score(entry, goal, fresh).count for entry in tops}
    if any(2 * reached[entry] >= top.count for entry, top in tops.items()):
        return None
    sign = -1 if scores.are_losses else 1
    return max(tops, key=lambda entry: sign * tops[entry].mean)


def _behind(pilot: Pilot, best: Entry, entry: Entry, seeds: Sequence[int]) -> Gap:
    """The gap on these seeds; of losses, by how many percent of the best one they are higher."""
    gap = pilot.scores.gap(pilot.question.goal, best, entry, seeds)
    if not pilot.scores.lower_is_better:
        return gap
    ends = (min(one, 5e3) / 100 for one in (gap.mean, gap.low, gap.high))
    mean, low, high = (100 * math.expm1(one) for one in ends)
    return replace(gap, mean=mean, low=low, high=high)


def _statements(
    pilot: Pilot,
    best: CurvePoint,
    cheapest: CurvePoint,
    none: CurvePoint,
    points: tuple[CurvePoint, ...],
) -> tuple[AdviceClaim, ...]:
    """Claims of the answer, each with its probability or its corrected p-value."""
    level, found = tolerance_text(pilot), []
    scores, others = pilot.scores, [one.entry for one in points if one.entry != best.entry]
    if best.never:
        return ()
    if scores.target is not None:
        word = {"seconds": "sooner", "joules": "thriftier"}[scores.target.unit]
        chances = [
            scores.gap(pilot.question.goal, other, best.entry, pilot.fresh).within
            for other in others
        ]
        text = f"no other setting that was confirmed is more than {COST_PERCENT:g} % {word}"
        return (AdviceClaim(text, min(chances)),) if chances else ()
    if cheapest.entry != best.entry and cheapest.behind is not None:
        text = f"the recommended setting is within {level} of the best one found"
        found.append(AdviceClaim(text, cheapest.behind.within))
    else:
        cheaper = [
            one.behind.within
            for one in points
            if one.behind is not None and one.cost < best.cost and not math.isnan(one.behind.within)
        ]
        if cheaper:
            text = f"no cheaper setting that was confirmed is within {level} of it"
            found.append(AdviceClaim(text, 1 - max(cheaper)))
    gaps = {
        "the best setting is better than no server": none.behind,
        "the best setting is better than the cheapest level one": cheapest.behind,
    }
    tested = {text: gap for text, gap in gaps.items() if gap is not None and not math.isnan(gap.p)}
    if cheapest.entry == none.entry:
        tested.pop("the best setting is better than the cheapest level one", None)
    corrected = holm([gap.p for gap in tested.values()])
    for (text, gap), p in zip(tested.items(), corrected, strict=True):
        verb = text if gap.mean > 0 else text.replace("better", "not better")
        found.append(AdviceClaim(verb, None, float(p)))
    if none.behind is not None and cheapest.entry != none.entry:
        found.append(AdviceClaim(f"no server is within {level} of the best", none.behind.within))
    return tuple(found)


def tolerance_text(pilot: Pilot) -> str:
    if pilot.scores.target is not None:
        return f"{COST_PERCENT:g} % of the {pilot.scores.target.unit}"
    return "1 % of the loss" if pilot.scores.are_losses else f"{pilot.scores.tolerance:g} points"


def to_json(point: CurvePoint, pilot: Pilot) -> dict[str, Any]:
    """A point as in advice.json."""
    gap, top, clock = point.apart, point.top, pilot.budget.clock
    found: dict[str, Any] = {}
    if top is not None:
        found = {"never": point.never, "best_reached": top.mean, "seeds": top.count}
    score, rounds = point.score, pilot.base.rounds
    if clock is not None:
        for unit in get_args(ClockUnit):
            found[unit] = clock.cost(point.entry.candidate, rounds, unit)
    return {
        "label": point.entry.label,
        "fields": point.entry.fields(),
        "cost": point.cost,
        "rounds": rounds,
        "score": {
            "mean": math.nan if point.never else score.mean,
            "half_width": math.nan if point.never else score.half_width,
            "count": score.count,
        },
        "behind": None if gap is None else {"mean": gap.mean, "low": gap.low, "high": gap.high},
        "roles": list(point.roles),
        **found,
    }
