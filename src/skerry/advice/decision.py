"""Who is best for a goal, by how much and how surely, seed by seed: runs of a seed are paired."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import numpy as np

from skerry.advice.contenders import Contender, Entry
from skerry.advice.question import GOALS, USUAL_GOALS, Goal
from skerry.analysis.compare import LEVEL, compare
from skerry.analysis.statistics import CONFIDENCE, Array, Estimate, best_place, estimate
from skerry.config.measures import traits
from skerry.records.parts import History

if TYPE_CHECKING:
    from skerry.engine.world import World

WINDOW = 0.2
"""A run is scored over this last part of its rounds: at single rounds S2A's drops and rises would
decide."""
HOPELESS = 1000
"""More seeds than this are not worth asking for."""

Kind = TypeVar("Kind", bound=Hashable)
Verdict: TypeAlias = Literal["clear", "unclear", "equal", "alone"]
Measures: TypeAlias = Mapping[Goal, tuple[str, ...]]
"""The measures whose mean is a goal's score."""

ACCURACIES: Measures = {
    "global": ("average_accuracy",),
    "own": ("own_accuracy",),
    "both": ("average_accuracy", "own_accuracy"),
    "worst_tenth": ("own_accuracy_worst_tenth",),
}
ALL_LOSSES: Measures = {
    "global": ("average_loss",),
    "own": ("own_loss",),
    "both": ("average_loss", "own_loss"),
    "worst_tenth": ("own_loss_worst_tenth",),
}
"""For tasks without classes."""
LOSSES: Measures = {"global": ("average_loss",), "both": ("average_loss",)}
"""For models that tell a loss and nothing else."""


def measures_in(world: "World", asked: Goal) -> Measures:
    """What the usual goals, and the one that is asked for, mean for what is learnt here."""
    if not world.learner.classifies:
        return LOSSES
    all_goals = {"accuracy": ACCURACIES, "loss": ALL_LOSSES}[world.task.judged_by]
    return {goal: names for goal, names in all_goals.items() if goal in (*USUAL_GOALS, asked)}


def late_mean(history: History, measure: str, until: int) -> float:
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
class Scores:
    """What runs came to: a score for every entry, goal and seed. Higher is better."""

    measures: Measures
    values: dict[Entry, dict[int, dict[str, float]]] = field(default_factory=dict)
    """By entry, seed and measure; NaN where a run diverged."""

    @property
    def goals(self) -> list[Goal]:
        return [goal for goal in GOALS if goal in self.measures]

    @property
    def are_losses(self) -> bool:
        """With their sign turned."""
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
        """Score a run over the rounds up to `until`; one without a history has diverged."""
        self.values.setdefault(entry, {})[seed] = {
            name: late_mean(history, name, until) if history else math.nan for name in self._names
        }

    def by_seed(self, entry: Entry, goal: Goal) -> dict[int, float]:
        """NaN where it diverged."""
        names, sign = self.measures[goal], -1 if self.are_losses else 1
        return {
            seed: sign * sum(found[name] for name in names) / len(names)
            for seed, found in self.values.get(entry, {}).items()
        }

    def estimate(self, entry: Entry, goal: Goal) -> Estimate:
        return estimate(self.by_seed(entry, goal).values())

    def mean(self, entry: Entry, goal: Goal) -> float:
        """Over the seeds that it ended on; minus infinity where there is none."""
        found = self.estimate(entry, goal)
        return found.mean if found.count else -math.inf

    def matrix(self, entries: Sequence[Entry], goal: Goal) -> Array:
        """A row per entry, a column per seed; NaN where it diverged or was not run."""
        rows = [self.by_seed(entry, goal) for entry in entries]
        return np.array([[row.get(s, math.nan) for s in self._seeds(entries)] for row in rows])

    def best(self, entries: Iterable[Entry], goal: Goal) -> Entry | None:
        """The best by the rule for all that is tuned; None where all diverged."""
        tried = list(entries)
        score_es = self.matrix(tried, goal)
        if not np.isfinite(score_es).any():
            return None
        ran_es = [[s in self.values.get(one, {}) for s in self._seeds(tried)] for one in tried]
        return tried[int(best_place(score_es, ran_es))]

    def best_of_each(
        self, entries: Iterable[Entry], goal: Goal, kind: Callable[[Contender], Kind]
    ) -> dict[Kind, Entry]:
        """Each kind's best entry."""
        groups: dict[Kind, list[Entry]] = {}
        for entry in entries:
            groups.setdefault(kind(entry.contender), []).append(entry)
        best = {kind: self.best(members, goal) for kind, members in groups.items()}
        return {kind: entry for kind, entry in best.items() if entry is not None}

    def best_by_primitive(self, entries: Iterable[Entry], goal: Goal) -> dict[str, Entry]:
        return self.best_of_each(entries, goal, lambda contender: contender.kind)

    def _seeds(self, entries: Iterable[Entry]) -> list[int]:
        return sorted({seed for entry in entries for seed in self.values.get(entry, {})})


@dataclass(frozen=True)
class Rival:
    """The best entry of another primitive, or under another selection, and how far the winner is
    ahead of it."""

    entry: Entry
    lead: Estimate
    """The winner's score minus the rival's, over common seeds."""
    p: float
    """Of the paired t test, corrected for the number of rivals."""

    @property
    def is_clear(self) -> bool:
        return self.beaten(LEVEL)

    def beaten(self, level: float) -> bool:
        if self.lead.count > 1 and math.isnan(self.p):  # no spread: every seed says the same
            return self.lead.mean > 0
        return self.p <= level


@dataclass(frozen=True)
class Decision:
    goal: Goal
    best: Entry
    score: Estimate
    rivals: tuple[Rival, ...]
    """The other primitives: those that are not clearly beaten first, then the closest."""
    selections: tuple[Rival, ...] = ()
    """The same primitive under other rules of selection, in the same order."""

    @property
    def decisive(self) -> tuple[Rival, ...]:
        """The other primitives; where there is only one, the other rules of selection."""
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
        """How probable it is that the best is ahead of the closest rival: the one-sided t test's
        complement, for the rival that it is least sure of. None with a single seed."""
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
        """Seeds in all after which a lead like this one would stand clear of chance; None where
        no reasonable number would do."""
        needed = [_enough(rival.lead) for rival in self.decisive if not rival.is_clear]
        return max(needed) if needed and all(needed) else None


def decide(scores: Scores, goal: Goal, entries: Sequence[Entry]) -> Decision | None:
    """None where every entry diverged."""
    by_primitive = scores.best_by_primitive(entries, goal)
    best = scores.best(by_primitive.values(), goal)
    if best is None:
        return None
    mine = [entry for entry in entries if entry.contender.kind == best.contender.kind]
    by_selection = scores.best_of_each(mine, goal, lambda contender: contender.selection)
    return Decision(
        goal,
        best,
        scores.estimate(best, goal),
        rivals=rivals_of(scores, goal, best, by_primitive.values()),
        selections=rivals_of(scores, goal, best, by_selection.values()),
    )


def rivals_of(
    scores: Scores, goal: Goal, best: Entry, entries: Iterable[Entry]
) -> tuple[Rival, ...]:
    """How far the best is ahead of each of the others: those not clearly beaten come first."""
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
    """The fewest seeds whose 95 % interval would leave out 0 if mean and spread stayed as they
    are; 0 where that is out of reach."""
    from scipy.special import stdtrit

    if lead.count < 2 or lead.mean <= 0:
        return 0
    count = np.arange(lead.count + 1, HOPELESS + 1)
    deviation = lead.standard_error * math.sqrt(lead.count)
    half_width = stdtrit(count - 1, 0.5 + CONFIDENCE / 2) * deviation / np.sqrt(count)
    return int(next(iter(count[half_width < lead.mean]), 0))
