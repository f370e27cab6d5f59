"""The best entry for a goal, its lead over rivals, and the confidence in it, paired by seed."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import numpy as np

from skerry.advice.candidates import Candidate, Entry
from skerry.advice.question import GOALS, USUAL_GOALS, Goal
from skerry.analysis.compare import LEVEL, compare
from skerry.analysis.statistics import CONFIDENCE, Array, Estimate, best_place, estimate
from skerry.config.measures import traits
from skerry.records.parts import History

if TYPE_CHECKING:
    from skerry.engine.world import World

WINDOW = 0.2  # fraction of last rounds over which a run is scored: accuracy varies within a period
HOPELESS = 1000  # largest number of seeds that is suggested

Kind = TypeVar("Kind", bound=Hashable)
Verdict: TypeAlias = Literal["clear", "unclear", "equal", "alone"]
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


def mean_of_last_rounds(history: History, measure: str, until: int) -> float:
    """Mean of a measure over the last fifth of the rounds to `until`, or its last value."""
    rounds, values = history["round"], history[measure]
    there = (rounds <= until) & (rounds > 0) & np.isfinite(values)
    if not there.any():
        return float("nan")
    late = there & (rounds > (1 - WINDOW) * until)
    chosen = late if late.any() else there & (rounds == rounds[there].max())
    return float(values[chosen].mean())


@dataclass
class PilotScores:
    """Scores of all runs by entry, goal and seed. Higher is better: losses are negated."""

    measures: Measures
    values: dict[Entry, dict[int, dict[str, float]]] = field(default_factory=dict)
    """Values by entry, seed and measure; NaN where a run diverged."""

    @property
    def goals(self) -> list[Goal]:
        return [goal for goal in GOALS if goal in self.measures]

    @property
    def are_losses(self) -> bool:
        return traits(self._names[0]).lower_is_better

    @property
    def diverged(self) -> list[tuple[Entry, int]]:
        return [
            (entry, seed)
            for entry, by_seed in self.values.items()
            for seed, found in by_seed.items()
            if not all(map(math.isfinite, found.values()))
        ]

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.measures.values() for name in names))

    def add(self, entry: Entry, seed: int, history: History | None, until: int) -> None:
        """Add the score of a run over the rounds up to `until`; None is a diverged run."""
        self.values.setdefault(entry, {})[seed] = {
            name: mean_of_last_rounds(history, name, until) if history else math.nan
            for name in self._names
        }

    def by_seed(self, entry: Entry, goal: Goal) -> dict[int, float]:
        """Scores of an entry by seed; NaN where it diverged."""
        names, sign = self.measures[goal], -1 if self.are_losses else 1
        return {
            seed: sign * sum(found[name] for name in names) / len(names)
            for seed, found in self.values.get(entry, {}).items()
        }

    def estimate(self, entry: Entry, goal: Goal) -> Estimate:
        return estimate(self.by_seed(entry, goal).values())

    def mean(self, entry: Entry, goal: Goal) -> float:
        """Mean score over finished seeds; minus infinity if there is none."""
        found = self.estimate(entry, goal)
        return found.mean if found.count else -math.inf

    def matrix(self, entries: Sequence[Entry], goal: Goal) -> Array:
        """A row per entry, a column per seed; NaN where it diverged or was not run."""
        rows = [self.by_seed(entry, goal) for entry in entries]
        return np.array([[row.get(s, math.nan) for s in self._seeds(entries)] for row in rows])

    def best(self, entries: Iterable[Entry], goal: Goal) -> Entry | None:
        """The best entry by `best_place`; None if all diverged."""
        tried = list(entries)
        score_es = self.matrix(tried, goal)
        if not np.isfinite(score_es).any():
            return None
        ran_es = [[s in self.values.get(one, {}) for s in self._seeds(tried)] for one in tried]
        return tried[int(best_place(score_es, ran_es))]

    def best_of_each(
        self, entries: Iterable[Entry], goal: Goal, kind: Callable[[Candidate], Kind]
    ) -> dict[Kind, Entry]:
        groups: dict[Kind, list[Entry]] = {}
        for entry in entries:
            groups.setdefault(kind(entry.candidate), []).append(entry)
        best = {kind: self.best(members, goal) for kind, members in groups.items()}
        return {kind: entry for kind, entry in best.items() if entry is not None}

    def best_by_primitive(self, entries: Iterable[Entry], goal: Goal) -> dict[str, Entry]:
        return self.best_of_each(entries, goal, lambda candidate: candidate.kind)

    def _seeds(self, entries: Iterable[Entry]) -> list[int]:
        return sorted({seed for entry in entries for seed in self.values.get(entry, {})})


@dataclass(frozen=True)
class Rival:
    """The best entry of another primitive or selection rule, and the winner's lead over it."""

    entry: Entry
    lead: Estimate  # score of the winner minus that of the rival, over common seeds
    p: float  # p-value of the paired t test, Holm-corrected for the number of rivals

    @property
    def is_clear(self) -> bool:
        return self.beaten(LEVEL)

    def beaten(self, level: float) -> bool:
        """Whether the lead is significant at this level."""
        if self.lead.count > 1 and math.isnan(self.p):  # all seeds have the same lead
            return self.lead.mean > 0
        return self.p <= level


@dataclass(frozen=True)
class Decision:
    """The best entry for a goal, and its rivals."""

    goal: Goal
    best: Entry
    score: Estimate
    rivals: tuple[Rival, ...]  # the best of other primitives: not clearly beaten, then closest
    selections: tuple[Rival, ...] = ()  # the primitive under other rules, in the same order

    @property
    def decisive(self) -> tuple[Rival, ...]:
        """Rivals with another primitive; with only one primitive, the other rules of selection."""
        return self.rivals or self.selections

    @property
    def runner_up(self) -> Rival | None:
        return self.decisive[0] if self.decisive else None

    @property
    def verdict(self) -> Verdict:
        if not self.decisive:
            return "alone"
        return "clear" if all(rival.is_clear for rival in self.decisive) else "unclear"

    @property
    def confidence(self) -> float | None:
        """1 minus the one-sided p-value against the closest rival; None for a single seed."""
        from scipy.special import stdtr  # scipy.stats takes a second to import

        found = []
        for rival in self.decisive:
            lead = rival.lead
            if lead.count < 2:
                return None
            if lead.standard_error == 0:
                found.append(0.5 if lead.mean == 0 else 1.0)
            else:
                found.append(float(stdtr(lead.count - 1, lead.mean / lead.standard_error)))
        return min(found) if found else None

    def seeds_to_settle(self) -> int | None:
        """Seeds after which such a lead would be significant; None if more than HOPELESS."""
        needed = [_enough(rival.lead) for rival in self.decisive if not rival.is_clear]
        return max(needed) if needed and all(needed) else None


def decide(scores: PilotScores, goal: Goal, entries: Sequence[Entry]) -> Decision | None:
    """The decision for a goal; None if every entry diverged."""
    by_primitive = scores.best_by_primitive(entries, goal)
    best = scores.best(by_primitive.values(), goal)
    if best is None:
        return None
    mine = [entry for entry in entries if entry.candidate.kind == best.candidate.kind]
    by_selection = scores.best_of_each(mine, goal, lambda candidate: candidate.selection)
    return Decision(
        goal,
        best,
        scores.estimate(best, goal),
        rivals=rivals_of(scores, goal, best, by_primitive.values()),
        selections=rivals_of(scores, goal, best, by_selection.values()),
    )


def rivals_of(
    scores: PilotScores, goal: Goal, best: Entry, entries: Iterable[Entry]
) -> tuple[Rival, ...]:
    """The lead of the best over each other entry, those not clearly beaten first."""
    others = [entry for entry in entries if entry != best]
    if not others:
        return ()
    ours, *theirs = scores.matrix([best, *others], goal)
    rivals = [
        Rival(entry, found.difference, found.t_holm)
        for entry, found in zip(others, compare([ours] * len(others), theirs), strict=True)
    ]
    return tuple(sorted(rivals, key=lambda rival: (rival.is_clear, rival.lead.mean)))


def _enough(lead: Estimate) -> int:
    """The fewest seeds whose 95 % interval would exclude 0 with this mean and spread, or 0."""
    from scipy.special import stdtrit

    if lead.count < 2 or lead.mean <= 0:
        return 0
    count = np.arange(lead.count + 1, HOPELESS + 1)
    deviation = lead.standard_error * math.sqrt(lead.count)
    half_width = stdtrit(count - 1, 0.5 + CONFIDENCE / 2) * deviation / np.sqrt(count)
    return int(next(iter(count[half_width < lead.mean]), 0))
