"""How fast runs were computed, by what a store says: when they ended, and how long they took."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from skerry.experiment import Experiment
from skerry.records.store import Run

RECENT_SECONDS = 600.0


@dataclass(frozen=True)
class Pace:
    """Of all workers together."""

    steps: float
    """Device-steps per second."""
    rounds: float
    """Rounds per second, those of every run counted."""


def pace(
    runs: Sequence[Run], steps_of: Callable[[Experiment], int], recent: float = RECENT_SECONDS
) -> Pace | None:
    """Over the last ten minutes in which something was computed; None if nothing has ended yet.

    Runs of one stack end together and took the same time, so they share one span; spans overlap
    where several workers are at work, and pauses between sweeps do not count.
    """

    def together(run: Run) -> tuple[str, str, float]:
        return run.finished or "", run.world, run.wall_seconds or 0.0

    ended = sorted(
        (run for run in runs if run.finished and run.wall_seconds), key=together, reverse=True
    )
    spans: list[tuple[float, float]] = []
    steps = rounds = 0
    for (finished, _, seconds), stack in groupby(ended, key=together):
        for run in stack:
            steps += steps_of(run.experiment)
            rounds += run.experiment.rounds
        # Records keep whole seconds: a span ends somewhere in the second that they name.
        end = datetime.fromisoformat(finished).timestamp() + 1
        spans.append((end - max(1.0, seconds), end))
        if covered(spans) >= recent:
            break
    return Pace(steps / covered(spans), rounds / covered(spans)) if spans else None


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
