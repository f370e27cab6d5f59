"""Scores of the pilot's runs by setting, seed and goal, and comparisons paired by seed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from skerry.advice.question import GOALS, USUAL_GOALS, Goal
from skerry.advice.settings import Entry
from skerry.advice.target import ScoreTarget
from skerry.analysis.statistics import CONFIDENCE, Array, Estimate, estimate
from skerry.config.measures import traits
from skerry.records.parts import History

if TYPE_CHECKING:
    from skerry.advice.fleet_clock import ChangedClock, FleetClock
    from skerry.engine.world import World

WINDOW = 0.2  # fraction of last rounds over which a run is scored: accuracy varies within a period
POINTS, PERCENT = 0.2, 1.0  # tolerance: accuracies that differ by points, losses by percent
COST_PERCENT = 5.0  # tolerance of seconds or joules until a target is reached
NEVER = 100 * math.log(100)
"""A run that never reaches the target counts as 100 times the longest that does: one in ten then
weighs about as much as twice the seconds."""
EXPLODED = 20.0  # a loss above this multiple of the median counts as exploded

Measures: TypeAlias = Mapping[Goal, tuple[str, ...]]  # their mean is the score of a goal

ACCURACIES: Measures = {
    "global": ("average_accuracy",),
    "own": ("own_accuracy",),
    "both": ("average_accuracy", "own_accuracy"),
    "worst_tenth": ("own_accuracy_worst_tenth",),
}
ALL_LOSSES: Measures = {
    goal: tuple(name.replace("accuracy", "loss") for name in names)
    for goal, names in ACCURACIES.items()
}
"""For tasks without classes."""
LOSSES: Measures = {"global": ("average_loss",), "both": ("average_loss",)}
"""For models that have only a loss."""


def measures_in(world: "World", asked: Goal) -> Measures:
    """The measures of the usual goals and of the goal asked for, in this task."""
    if not world.learner.classifies:
        return LOSSES
    all_goals = {"accuracy": ACCURACIES, "loss": ALL_LOSSES}[world.task.judged_by]
    return {goal: names for goal, names in all_goals.items() if goal in (*USUAL_GOALS, asked)}


def mean_of_last_rounds(history: History, measure: str) -> float:
    """Mean of a measure over the last fifth of the rounds, or its last value."""
    rounds, values = history["round"], history[measure]
    there = (rounds > 0) & np.isfinite(values)
    if not there.any():
        return math.nan
    late = there & (rounds > (1 - WINDOW) * rounds.max())
    chosen = late if late.any() else there & (rounds == rounds[there].max())
    return float(values[chosen].mean())


@dataclass(frozen=True)
class Gap:
    """How far one setting is behind another: a mean over common seeds, with a 95 % interval.

    It is in points of accuracy, or in percent of the loss.
    """

    mean: float
    low: float
    high: float
    count: int
    p: float = math.nan  # two-sided, of the paired t test
    within: float = math.nan  # probability that the gap is at most the tolerance

    @property
    def is_clear(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass
class PilotScores:
    """Scores of all runs by entry, goal and seed.

    A score is an accuracy in percent or a loss. A utility is an accuracy or -100 log(loss), so that
    more is better and differences are points of accuracy or percent of the loss. With a target, a
    score is the seconds or joules until it is reached, a utility is -100 log of it, and runs that
    never reach it are worse than all that do, the more so the further they stay from it.
    """

    measures: Measures
    values: dict[Entry, dict[int, dict[str, float]]] = field(default_factory=dict)
    """Values by entry, seed and measure; NaN where a run exploded. With a target also the first
    round at or past it for every goal (inf: never), and the best score of all rounds."""
    target: ScoreTarget | None = None
    clock: "FleetClock | ChangedClock | None" = None

    @property
    def goals(self) -> list[Goal]:
        return [goal for goal in GOALS if goal in self.measures]

    @property
    def are_losses(self) -> bool:
        return traits(self._names[0]).lower_is_better

    @property
    def lower_is_better(self) -> bool:
        """Whether scores are losses or costs, which differ by percent."""
        return self.are_losses or self.target is not None

    @property
    def tolerance(self) -> float:
        """The largest difference of utilities that counts as level."""
        if self.target is not None:
            return COST_PERCENT
        return PERCENT if self.are_losses else POINTS

    @property
    def runs(self) -> int:
        return sum(map(len, self.values.values()))

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.measures.values() for name in names))

    def add(self, entry: Entry, seed: int, history: History | None) -> None:
        """Add the score of a run; None is a run that exploded."""
        found = {
            name: mean_of_last_rounds(history, name) if history else math.nan
            for name in self._names
        }
        if self.target is not None:
            for goal, names in self.measures.items():
                first = top = math.nan
                if history:
                    first, top = self.target.first_round(history, names, self.are_losses)
                found |= {_reached(goal): first, _top(goal): top}
        self.values.setdefault(entry, {})[seed] = found

    def score(self, entry: Entry, goal: Goal, seeds: Iterable[int] | None = None) -> Estimate:
        """The mean score of an entry over finished seeds, or over those of `seeds`; with a target,
        over those that reached it."""
        if self.target is not None:
            until = self._until(entry, goal)
            kept = until if seeds is None else [seed for seed in seeds if seed in until]
            return estimate([until[s] if math.isfinite(until[s]) else math.nan for s in kept])
        found, names = self.values.get(entry, {}), self.measures[goal]
        chosen = found.values() if seeds is None else [found[s] for s in seeds if s in found]
        return estimate([sum(one[name] for name in names) / len(names) for one in chosen])

    def best_reached(self, entry: Entry, goal: Goal, seeds: Iterable[int]) -> Estimate:
        """With a target, the mean over seeds of the best score of all evaluated rounds."""
        found = self.values.get(entry, {})
        return estimate([found[seed][_top(goal)] for seed in seeds if seed in found])

    def seeds_of_both(
        self, one: Entry, other: Entry, goal: Goal, seeds: Sequence[int]
    ) -> list[int]:
        """The seeds on which two entries reach the target; without a target, all of these."""
        if self.target is None:
            return list(seeds)
        found = self._until(one, goal), self._until(other, goal)
        return [s for s in seeds if all(math.isfinite(until.get(s, math.inf)) for until in found)]

    def exploded(self, goal: Goal) -> list[tuple[Entry, int]]:
        """The runs that count as worst: no finite score, or a loss far above the usual ones."""
        _, limit = self._worst(goal)
        return [
            (entry, seed)
            for entry, by_seed in self.values.items()
            for seed, found in by_seed.items()
            if not self._plain(found, goal) <= limit
        ]

    def utilities(self, goal: Goal, entries: Sequence[Entry], seeds: Sequence[int]) -> Array:
        """Utilities [entries, seeds], NaN where not run; exploded runs have the worst."""
        if self.target is not None:
            return self._target_utilities(goal, entries, seeds)
        (worst, limit), column = self._worst(goal), {seed: s for s, seed in enumerate(seeds)}
        score_es = np.full((len(entries), len(seeds)), np.nan)
        for e, entry in enumerate(entries):
            for seed, found in self.values.get(entry, {}).items():
                if seed in column:
                    score = self._plain(found, goal)
                    score_es[e, column[seed]] = score if score <= limit else worst
        if self.are_losses:
            return np.asarray(-100 * np.log(np.maximum(score_es, 1e-300)))
        return score_es

    def gap(self, goal: Goal, ahead: Entry, behind: Entry, seeds: Sequence[int]) -> Gap:
        """How far `behind` is behind `ahead`, paired over these seeds."""
        from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

        ours, theirs = self.utilities(goal, [ahead, behind], seeds)
        found = estimate(ours - theirs)
        mean, error, tolerance = found.mean, found.standard_error, self.tolerance
        if found.count < 2:
            return Gap(mean, math.nan, math.nan, found.count)
        if error <= 1e-12:
            within = float(mean <= tolerance)
            return Gap(mean, mean, mean, found.count, 1.0 if abs(mean) < 1e-12 else 0.0, within)
        half = error * float(stdtrit(found.count - 1, 0.5 + CONFIDENCE / 2))
        p = 2 * float(stdtr(found.count - 1, -abs(mean) / error))
        within = float(stdtr(found.count - 1, (tolerance - mean) / error))
        return Gap(mean, mean - half, mean + half, found.count, p, within)

    def _until(self, entry: Entry, goal: Goal) -> dict[int, float]:
        """By seed, seconds or joules until the target is reached; inf: never, NaN: exploded."""
        assert self.target is not None
        assert self.clock is not None
        found = {}
        for seed, values in self.values.get(entry, {}).items():
            first = values[_reached(goal)]
            if math.isfinite(first):
                unit = self.target.unit
                first = self.clock.spent(entry.candidate, seed, int(first), unit)
            found[seed] = first
        return found

    def _target_utilities(
        self, goal: Goal, entries: Sequence[Entry], seeds: Sequence[int]
    ) -> Array:
        assert self.target is not None
        column = {seed: s for s, seed in enumerate(seeds)}
        until = {entry: self._until(entry, goal) for entry in self.values}
        spent = [one for found in until.values() for one in found.values() if math.isfinite(one)]
        longest = max(spent, default=1.0) or 1.0
        never = -100 * math.log(longest) - NEVER
        worst = never - self._far(0.0 if not self.are_losses else EXPLODED * self.target.value)
        score_es = np.full((len(entries), len(seeds)), np.nan)
        for e, entry in enumerate(entries):
            for seed, one in until.get(entry, {}).items():
                if seed not in column:
                    continue
                if math.isfinite(one):
                    utility = -100 * math.log(max(one, 1e-6 * longest))
                else:
                    far = self._far(self.values[entry][seed][_top(goal)])
                    utility = worst if math.isnan(far) else max(never - far, worst)
                score_es[e, column[seed]] = utility
        return score_es

    def _far(self, top: float) -> float:
        """How far the best score of a run stays from the target, in units of utility."""
        assert self.target is not None
        if self.are_losses:
            return COST_PERCENT / PERCENT * 100 * math.log(top / self.target.value)
        return COST_PERCENT / POINTS * (self.target.value - top)

    def _plain(self, found: Mapping[str, float], goal: Goal) -> float:
        names = self.measures[goal]
        return sum(found[name] for name in names) / len(names)

    def _worst(self, goal: Goal) -> tuple[float, float]:
        """(the score of exploded runs, the largest score that is none): a loss far above the usual
        ones counts as exploded, and accuracies have no limit."""
        runs = (found for by_seed in self.values.values() for found in by_seed.values())
        plain = [self._plain(found, goal) for found in runs]
        finite = [score for score in plain if math.isfinite(score)]
        if not self.are_losses:
            return min(finite, default=0.0), math.inf
        limit = EXPLODED * float(np.median(finite)) if finite else 1.0
        return limit, limit


def _reached(goal: Goal) -> str:
    return f"{goal}: first round at the target"


def _top(goal: Goal) -> str:
    return f"{goal}: best score"
