"""The race: contenders run on paired seeds, and most of the time goes to those that are close.

A stage runs the entries that are left on further seeds, for the whole horizon. Between stages the
worse half of the entries goes; the best entry of every primitive and preset under every rule of
selection, for every goal, always stays, so that what the answer rests on gains seeds in every
stage.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from skerry.advice.contenders import Budget, Contender, Entry
from skerry.advice.decision import Scores, decide
from skerry.advice.question import Goal, Question, Timer
from skerry.config.experiment import Experiment
from skerry.records.parts import History
from skerry.runs.driver import Driver, StoppedError
from skerry.runs.progress import Progress

FIRST_SEEDS = 2
EARLY_LEVEL = 0.01
"""A race may end early where this is clear: stricter than the level of the answer, since looking
after every stage gives chance more than one chance."""
EARLY_SEEDS = 4
MARGIN = 0.85
"""Of the time left that a stage may plan with."""
SMALLER, LARGER = 10**-0.5, 10**0.5
WIDENINGS = 2

Histories: TypeAlias = dict[tuple[Entry, int], History | None]
"""By entry and seed; None where a run diverged."""


class AdviceWatcher(Progress):
    """What a caller may follow; every method may be left as it is."""

    def doing(self, words: str) -> None:
        """What is being done from now on."""

    def waiting(self, worlds: int) -> None:
        self.doing("waiting for runs that another process computes in this folder")


@dataclass
class Pilot:
    """A race, and what has come of it so far."""

    question: Question
    base: Experiment
    """With the pilot's rounds and evaluations."""
    budget: Budget
    """For the pilot's rounds."""
    scores: Scores
    entries: list[Entry]
    """Still in the race."""
    seeds: list[int] = field(default_factory=list)
    runs: int = 0
    """Computed for it; others were recorded before."""
    seconds_per_seed: float = 0.0
    """Of the entries that were last in the race."""
    stopped: str = ""
    """Why the race ended: clear, alone, seeds, time."""

    @property
    def contenders(self) -> list[Contender]:
        """Still in the race."""
        return list(dict.fromkeys(entry.contender for entry in self.entries))

    def tuned(self, goal: Goal) -> list[Entry]:
        """Every contender that is still in the race, at its best stepsize for a goal."""
        mine = {contender: list[Entry]() for contender in self.contenders}
        for entry in self.entries:
            mine[entry.contender].append(entry)
        best = (self.scores.best(entries, goal) for entries in mine.values())
        return [entry for entry in best if entry is not None]

    def seconds_for(self, entries: int) -> float:
        """Of a seed with so many entries, about. Fewer of them are quicker, but never in full
        proportion."""
        return self.seconds_per_seed * (1 + entries / len(self.entries)) / 2


def race(pilot: Pilot, driver: Driver, timer: Timer, watcher: AdviceWatcher) -> None:
    """Run stages until the answer is clear, or seeds or time are used up."""
    _stage(pilot, _next_seeds(pilot, FIRST_SEEDS), driver, timer, watcher)
    if pilot.question.stepsizes is None and not pilot.stopped:
        _widen(pilot, driver, timer, watcher)
    while not pilot.stopped:
        decision = decide(pilot.scores, pilot.question.goal, pilot.entries)
        if decision is None or not (decision.rivals or decision.selections):
            pilot.stopped = "alone"
        elif len(pilot.seeds) >= EARLY_SEEDS and all(
            rival.beaten(EARLY_LEVEL) for rival in (*decision.rivals, *decision.selections)
        ):
            pilot.stopped = "clear"
        elif len(pilot.seeds) >= pilot.question.seeds:
            pilot.stopped = "seeds"
        else:
            _next_stage(pilot, driver, timer, watcher)


def run_entries(
    pilot: Pilot,
    entries: Sequence[Entry],
    seeds: Sequence[int],
    driver: Driver,
    until: Callable[[], bool] | None = None,
) -> Histories:
    """Run entries on these seeds, those of a seed side by side, and score them when all are done.
    StoppedError is raised when `until` is true before that."""
    runs = {(entry, seed): entry.run(pilot.base, seed) for seed in seeds for entry in entries}
    if waiting := driver.waiting(list(runs.values())):
        driver.run(waiting, until)
        pilot.runs += len(waiting)
    keys = {at: driver.key(run) for at, run in runs.items()}
    recorded = {
        run.key: history if run.status == "finished" else None
        for run, history in driver.store.histories(keys.values())
    }
    histories = {at: recorded[key] for at, key in keys.items()}
    for (entry, seed), history in histories.items():
        pilot.scores.add(entry, seed, history, pilot.budget.reach(entry.contender))
    return histories


def survivors(scores: Scores, entries: Sequence[Entry]) -> list[Entry]:
    """The better half, by how far an entry is behind in the goal it does best at; and always the
    best entry of every primitive under every selection, for every goal."""
    leading = set(_leading(scores, entries))
    tops = {goal: max(scores.mean(entry, goal) for entry in entries) for goal in scores.goals}

    def behind(entry: Entry) -> float:
        return min(tops[goal] - scores.mean(entry, goal) for goal in scores.goals)

    better = set(sorted(entries, key=behind)[: -(-len(entries) // 2)])
    return [entry for entry in entries if entry in leading or entry in better]


def _leading(scores: Scores, entries: Sequence[Entry]) -> Iterator[Entry]:
    """The best entry of every primitive under every selection, for every goal."""
    for goal in scores.goals:
        kinds = scores.best_of_each(entries, goal, lambda c: (c.kind, c.selection))
        yield from kinds.values()


def _next_stage(pilot: Pilot, driver: Driver, timer: Timer, watcher: AdviceWatcher) -> None:
    """As many seeds again as there were, on the entries that are left, if time allows."""
    left = survivors(pilot.scores, pilot.entries)
    pilot.seconds_per_seed, pilot.entries = pilot.seconds_for(len(left)), left
    affordable = int(MARGIN * timer.left / max(pilot.seconds_per_seed, 1e-9))
    seeds = _next_seeds(pilot, min(len(pilot.seeds), affordable))
    if not seeds:
        pilot.stopped = "time"
        return
    _stage(pilot, seeds, driver, timer, watcher)


def _stage(
    pilot: Pilot, seeds: Sequence[int], driver: Driver, timer: Timer, watcher: AdviceWatcher
) -> None:
    """The first seed runs to its end whatever it takes: without it there is no answer."""
    for seed in seeds:
        watcher.doing(f"seed {seed}: {len(pilot.entries)} runs of {pilot.base.rounds} rounds")
        began = timer.clock()
        try:
            until = timer.is_up if pilot.seeds else None
            run_entries(pilot, pilot.entries, [seed], driver, until)
        except StoppedError:
            pilot.stopped = "time"
            return
        pilot.seeds.append(seed)
        pilot.seconds_per_seed = timer.clock() - began


def _next_seeds(pilot: Pilot, count: int) -> list[int]:
    first = pilot.base.seed + len(pilot.seeds)
    most = pilot.question.seeds - len(pilot.seeds)
    return list(range(first, first + min(count, most)))


def _widen(pilot: Pilot, driver: Driver, timer: Timer, watcher: AdviceWatcher) -> None:
    """Where the best stepsize is the largest or smallest tried, try the next one."""
    for _ in range(WIDENINGS):
        wider = list(_beyond_the_edge(pilot))
        needed = pilot.seconds_for(len(wider)) * len(pilot.seeds)
        if not wider or needed > MARGIN * timer.left / 2:
            return
        watcher.doing("trying further stepsizes")
        try:
            run_entries(pilot, wider, pilot.seeds, driver, timer.is_up)
        except StoppedError:
            pilot.stopped = "time"
            return
        pilot.entries += wider


def _beyond_the_edge(pilot: Pilot) -> Iterable[Entry]:
    """The next stepsizes of contenders that lead their kind at an edge, or, where all have
    diverged, of all."""
    tried: dict[Contender, list[float]] = {}
    for entry in pilot.entries:
        tried.setdefault(entry.contender, []).append(entry.stepsize)
    leading = dict.fromkeys(_leading(pilot.scores, pilot.entries))
    found = dict[Entry, None]()
    for contender, stepsize in leading:
        if stepsize == max(tried[contender]):
            found[Entry(contender, stepsize * LARGER)] = None
        if stepsize == min(tried[contender]):
            found[Entry(contender, stepsize * SMALLER)] = None
    if not leading:
        for contender, stepsizes in tried.items():
            found |= dict.fromkeys(Entry(contender, min(stepsizes) / 10**k) for k in (1, 2))
    return found
