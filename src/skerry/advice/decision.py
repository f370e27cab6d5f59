"""Who is best for a goal, by how much and how surely, seed by seed: runs of a seed are paired."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from skerry.advice.contenders import Lane
from skerry.advice.question import Goal
from skerry.advice.readings import Readings
from skerry.analysis.compare import Comparison, compare
from skerry.analysis.statistics import CONFIDENCE, Estimate, estimate

LEVEL = 0.05
HOPELESS = 1000
"""More seeds than this are not worth asking for."""

Verdict: TypeAlias = Literal["clear", "unclear", "equal", "alone"]


@dataclass(frozen=True)
class Rival:
    """The best lane of another primitive, and what it is behind by."""

    lane: Lane
    gap: Estimate
    """The winner's score minus the rival's, over common seeds."""
    p: float
    """Of the paired t test, corrected for the number of rivals."""

    @property
    def is_clear(self) -> bool:
        return self.beaten(LEVEL)

    def beaten(self, level: float) -> bool:
        if self.gap.count > 1 and math.isnan(self.p):  # no spread: every seed says the same
            return self.gap.mean > 0
        return self.p <= level


@dataclass(frozen=True)
class Decision:
    goal: Goal
    best: Lane
    score: Estimate
    rivals: tuple[Rival, ...]
    """The other primitives: those that are not clearly beaten first, then by their gap."""

    @property
    def runner_up(self) -> Rival | None:
        return self.rivals[0] if self.rivals else None

    @property
    def verdict(self) -> Verdict:
        if not self.rivals:
            return "alone"
        return "clear" if all(rival.is_clear for rival in self.rivals) else "unclear"

    @property
    def confidence(self) -> float | None:
        """How probable it is that the best is ahead of the closest rival: the one-sided t test's
        complement, for the rival that it is least sure of. None with a single seed."""
        from scipy import stats

        found = []
        for rival in self.rivals:
            gap = rival.gap
            if gap.count < 2:
                return None
            if gap.standard_error == 0:
                found.append(0.5 if gap.mean == 0 else 1.0)
            else:
                found.append(float(stats.t.cdf(gap.mean / gap.standard_error, gap.count - 1)))
        return min(found) if found else None

    def seeds_to_settle(self) -> int | None:
        """Seeds in all after which a gap like this one would stand clear of chance; None where
        no reasonable number would do."""
        needed = [_enough(rival.gap) for rival in self.rivals if not rival.is_clear]
        return max(needed) if needed and all(needed) else None


def decide(readings: Readings, goal: Goal, lanes: Sequence[Lane]) -> Decision | None:
    """None where every lane diverged."""
    by_kind = readings.best_by_kind(lanes, goal)
    best = readings.best(by_kind.values(), goal)
    if best is None:
        return None
    ours = readings.scores(best, goal)
    others = [lane for lane in by_kind.values() if lane != best]
    rivals = [
        Rival(lane, found.difference, found.t_holm)
        for lane, found in zip(others, _compared(readings, goal, best, others), strict=True)
    ]
    rivals.sort(key=lambda rival: (rival.is_clear, rival.gap.mean))
    return Decision(goal, best, estimate(ours.values()), tuple(rivals))


def _compared(
    readings: Readings, goal: Goal, best: Lane, others: Sequence[Lane]
) -> list[Comparison]:
    if not others:
        return []
    scores = {lane: readings.scores(lane, goal) for lane in (best, *others)}
    seeds = sorted({seed for found in scores.values() for seed in found})
    rows = {lane: [found.get(seed, math.nan) for seed in seeds] for lane, found in scores.items()}
    return compare([rows[best]] * len(others), [rows[lane] for lane in others])


def _enough(gap: Estimate) -> int:
    """The fewest seeds whose 95 % interval would leave out 0 if mean and spread stayed as they
    are; 0 where that is out of reach."""
    from scipy import stats

    if gap.count < 2 or gap.mean <= 0:
        return 0
    count = np.arange(gap.count + 1, HOPELESS + 1)
    deviation = gap.standard_error * math.sqrt(gap.count)
    half_width = stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1) * deviation / np.sqrt(count)
    return int(next(iter(count[half_width < gap.mean]), 0))
