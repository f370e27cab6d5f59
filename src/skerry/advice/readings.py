"""What the pilot has measured: a score for every lane, goal and seed. Higher is better."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from skerry.advice.contenders import Contender, Lane
from skerry.advice.question import GOALS, Goal
from skerry.measures import traits
from skerry.records.parts import History

WINDOW = 0.2
"""A reading is the mean over this last share of the rounds: at single rounds S2A's drops and
rises would decide."""

CLASSIFIERS: Mapping[Goal, tuple[str, ...]] = {
    "global": ("average_accuracy",),
    "own": ("own_accuracy",),
    "both": ("average_accuracy", "own_accuracy"),
}
OTHERS: Mapping[Goal, tuple[str, ...]] = {"global": ("average_loss",), "both": ("average_loss",)}


def reading(history: History, measure: str, until: int) -> float:
    """The mean over the evaluations in the last fifth of the rounds up to `until`, or else the
    last evaluation before them."""
    rounds, values = history["round"], history[measure]
    there = (rounds <= until) & (rounds > 0) & np.isfinite(values)
    if not there.any():
        return float("nan")
    late = there & (rounds > (1 - WINDOW) * until)
    chosen = late if late.any() else there & (rounds == rounds[there].max())
    return float(values[chosen].mean())


@dataclass
class Readings:
    measures: Mapping[Goal, tuple[str, ...]]
    """The measures whose mean is a goal's score."""
    values: dict[Lane, dict[int, dict[str, float]]] = field(default_factory=dict)
    """By lane, seed and measure; a run that diverged has none."""
    diverged: set[tuple[Lane, int]] = field(default_factory=set)

    @property
    def goals(self) -> list[Goal]:
        return [goal for goal in GOALS if goal in self.measures]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.measures.values() for name in names))

    @property
    def loss(self) -> bool:
        """Whether scores are losses with their sign turned."""
        return traits(self.names[0]).lower_is_better

    def add(self, lane: Lane, seed: int, history: History | None, until: int) -> None:
        seeds = self.values.setdefault(lane, {})
        found = {name: reading(history, name, until) for name in self.names} if history else {}
        if found and all(map(np.isfinite, found.values())):
            seeds[seed] = found
        else:
            self.diverged.add((lane, seed))

    def scores(self, lane: Lane, goal: Goal) -> dict[int, float]:
        names, sign = self.measures[goal], -1 if self.loss else 1
        return {
            seed: sign * sum(found[name] for name in names) / len(names)
            for seed, found in self.values.get(lane, {}).items()
        }

    def mean(self, lane: Lane, goal: Goal) -> float:
        scores = self.scores(lane, goal)
        return sum(scores.values()) / len(scores) if scores else -np.inf

    def best(self, lanes: Iterable[Lane], goal: Goal) -> Lane | None:
        """The lane with the best mean among those that finished on most seeds."""
        rated = [(len(self.scores(lane, goal)), self.mean(lane, goal), lane) for lane in lanes]
        rated = [one for one in rated if one[0]]
        return max(rated, key=lambda one: one[:2])[2] if rated else None

    def best_by_kind(self, lanes: Iterable[Lane], goal: Goal) -> dict[str, Lane]:
        """Each primitive's best lane."""
        kinds: dict[str, list[Lane]] = {}
        for lane in lanes:
            kinds.setdefault(lane.contender.primitive, []).append(lane)
        best = {kind: self.best(members, goal) for kind, members in kinds.items()}
        return {kind: lane for kind, lane in best.items() if lane is not None}

    def tuned(self, contender: Contender, goal: Goal) -> Lane | None:
        """A contender at its best stepsize."""
        return self.best((lane for lane in self.values if lane.contender == contender), goal)
