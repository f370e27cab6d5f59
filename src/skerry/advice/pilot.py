"""The pilot: contenders race on paired seeds, and most of the time goes to those that are close.

A stage runs the lanes that are left on further seeds, for the whole horizon. Between stages the
worse half of the lanes goes; the best lane of every primitive for every goal always stays, so that
the comparisons that the answer rests on gain seeds in every stage.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skerry.advice.contenders import Contender, Lane, Purse
from skerry.advice.decision import decide
from skerry.advice.ground import Ground
from skerry.advice.question import Question
from skerry.advice.readings import Readings
from skerry.advice.timing import Timer, Watch
from skerry.engine.simulate import Moment
from skerry.experiment import Experiment

FIRST_SEEDS = 2
EARLY_LEVEL = 0.01
"""A race may end early where this is clear: stricter than the level of the answer, since looking
after every stage gives chance more than one chance."""
EARLY_SEEDS = 4
MARGIN = 0.85
"""Of the time left that a stage may plan with."""
SMALLER, LARGER = 10**-0.5, 10**0.5
WIDENINGS = 2


class OutOfTimeError(Exception):
    """A stage took longer than it was planned to."""


@dataclass
class Pilot:
    """A race, and what has come of it so far."""

    question: Question
    base: Experiment
    """With the pilot's rounds and evaluations."""
    purse: Purse
    """For the pilot's rounds."""
    readings: Readings
    lanes: list[Lane]
    """Still in the race."""
    seeds: list[int] = field(default_factory=list)
    runs: int = 0
    seconds_per_seed: float = 0.0
    """Of the lanes that were last in the race."""
    stopped: str = ""
    """Why the race ended: clear, seeds, time."""

    @property
    def contenders(self) -> list[Contender]:
        return list(dict.fromkeys(lane.contender for lane in self.readings.values))


def race(pilot: Pilot, ground: Ground, timer: Timer, watch: Watch) -> None:
    """Run stages until the answer is clear, or seeds or time are used up."""
    _stage(pilot, ground, _next_seeds(pilot, FIRST_SEEDS), timer, watch)
    if pilot.question.stepsizes is None and not pilot.stopped:
        _widen(pilot, ground, timer, watch)
    while not pilot.stopped:
        decision = decide(pilot.readings, pilot.question.goal, pilot.lanes)
        if decision is None or not decision.rivals:
            pilot.stopped = "alone"
        elif len(pilot.seeds) >= EARLY_SEEDS and all(
            rival.beaten(EARLY_LEVEL) for rival in decision.rivals
        ):
            pilot.stopped = "clear"
        elif len(pilot.seeds) >= pilot.question.seeds:
            pilot.stopped = "seeds"
        else:
            _next_stage(pilot, ground, timer, watch)


def _next_stage(pilot: Pilot, ground: Ground, timer: Timer, watch: Watch) -> None:
    """As many seeds again as there were, on the lanes that are left, if time allows."""
    before = len(pilot.lanes)
    pilot.lanes = survivors(pilot.readings, pilot.lanes)
    # Fewer lanes are quicker, but never in full proportion.
    pilot.seconds_per_seed *= (1 + len(pilot.lanes) / before) / 2
    affordable = int(MARGIN * timer.left / max(pilot.seconds_per_seed, 1e-9))
    seeds = _next_seeds(pilot, min(len(pilot.seeds), affordable))
    if not seeds:
        pilot.stopped = "time"
        return
    _stage(pilot, ground, seeds, timer, watch)


def survivors(readings: Readings, lanes: Sequence[Lane]) -> list[Lane]:
    """The better half, by how far a lane is behind in the goal it does best at; and always the
    best lane of every primitive for every goal."""
    goals = readings.goals
    finalists = {lane for goal in goals for lane in readings.best_by_kind(lanes, goal).values()}
    tops = {goal: max(readings.mean(lane, goal) for lane in lanes) for goal in goals}

    def behind(lane: Lane) -> float:
        return min(tops[goal] - readings.mean(lane, goal) for goal in goals)

    better = set(sorted(lanes, key=behind)[: -(-len(lanes) // 2)])
    return [lane for lane in lanes if lane in finalists or lane in better]


def run_lanes(
    pilot: Pilot,
    lanes: Iterable[Lane],
    seeds: Sequence[int],
    ground: Ground,
    timer: Timer,
    watch: Watch,
    *,
    may_stop: bool,
) -> None:
    """Run these lanes on these seeds and read them. Where it may, it stops when time is up."""

    def progress(moment: Moment) -> None:
        if moment.phase == "end":
            watch.tick()
            if may_stop and timer.left < 0:
                raise OutOfTimeError

    lanes = list(lanes)
    for seed in seeds:
        runs = {lane: lane.run(pilot.base, seed) for lane in lanes}
        pilot.runs += len(ground.waiting(list(runs.values())))
        ground.run(list(runs.values()), progress)
        for lane, run in runs.items():
            until = pilot.purse.reach(lane.contender)
            pilot.readings.add(lane, seed, ground.history(run), until)


def _stage(pilot: Pilot, ground: Ground, seeds: Sequence[int], timer: Timer, watch: Watch) -> None:
    """The first seed runs to its end whatever it takes: without it there is no answer."""
    for seed in seeds:
        may_stop = bool(pilot.seeds)
        watch.doing(f"seed {seed}: lanes {len(pilot.lanes)}, rounds {pilot.base.rounds}")
        began = timer.clock()
        try:
            run_lanes(pilot, pilot.lanes, [seed], ground, timer, watch, may_stop=may_stop)
        except OutOfTimeError:
            pilot.stopped = "time"
            return
        pilot.seeds.append(seed)
        pilot.seconds_per_seed = timer.clock() - began


def _next_seeds(pilot: Pilot, count: int) -> list[int]:
    first = pilot.base.seed + len(pilot.seeds)
    most = pilot.question.seeds - len(pilot.seeds)
    return list(range(first, first + min(count, most)))


def _widen(pilot: Pilot, ground: Ground, timer: Timer, watch: Watch) -> None:
    """Where the best stepsize is the largest or smallest tried, try the next one."""
    for _ in range(WIDENINGS):
        wider = list(_beyond_the_edge(pilot))
        share = len(wider) / len(pilot.lanes)
        needed = (1 + share) / 2 * pilot.seconds_per_seed * len(pilot.seeds)
        if not wider or needed > MARGIN * timer.left / 2:
            return
        watch.doing(f"further stepsizes: lanes {len(wider)}")
        try:
            run_lanes(pilot, wider, pilot.seeds, ground, timer, watch, may_stop=True)
        except OutOfTimeError:
            pilot.stopped = "time"
            return
        pilot.lanes += wider


def _beyond_the_edge(pilot: Pilot) -> Iterable[Lane]:
    """The next stepsizes of contenders that lead their kind at an edge, or that all diverged."""
    readings, found = pilot.readings, dict[Lane, None]()
    leading = dict.fromkeys(
        lane
        for goal in readings.goals
        for lane in readings.best_by_kind(pilot.lanes, goal).values()
    )
    tried: dict[Contender, list[float]] = {}
    for lane in pilot.lanes:
        tried.setdefault(lane.contender, []).append(lane.stepsize)
    for lane in leading:
        if lane.stepsize == max(tried[lane.contender]):
            found[Lane(lane.contender, lane.stepsize * LARGER)] = None
        if lane.stepsize == min(tried[lane.contender]):
            found[Lane(lane.contender, lane.stepsize * SMALLER)] = None
    if not leading:
        for contender, stepsizes in tried.items():
            found |= dict.fromkeys(Lane(contender, min(stepsizes) / 10**k) for k in (1, 2))
    return found
