"""How long things take, and how much time is left."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from skerry.advice.ground import synchronised
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.experiment import Experiment
from skerry.measure.observer import Observer

PROBES, PROBE_ROUNDS = 4, 20

Clock = Callable[[], float]


class Watch:
    """What a caller may follow; every method may be left as it is."""

    def doing(self, words: str) -> None:
        """What is being done from now on."""

    def tick(self) -> None:
        """A round is done."""


@dataclass(frozen=True)
class Timer:
    seconds: float
    clock: Clock = time.monotonic
    start: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", self.clock())

    @property
    def spent(self) -> float:
        return self.clock() - self.start

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def part(self, share: float) -> "Timer":
        """A timer for a share of what is left."""
        return Timer(share * self.left, self.clock)


@dataclass(frozen=True)
class Pace:
    """Seconds per lane: of one round, and of one evaluation."""

    round: float
    evaluation: float

    def seconds(self, lanes: int, experiment: Experiment) -> float:
        rounds, evaluate = experiment.rounds, experiment.evaluate
        # The last round counts too; the start costs next to nothing.
        evaluations = rounds // evaluate.every - evaluate.after // evaluate.every + 1
        return lanes * (rounds * self.round + evaluations * self.evaluation)


def probe(world: World, lanes: Sequence[Experiment], timer: Timer, seconds: float) -> Pace:
    """Time a few rounds and evaluations of these very lanes. The quickest counts: the first pays
    for what is done only once, and on a machine with other work a single delay says little. At the
    start all devices are alike and scored once, so evaluations are timed after the rounds."""
    stack = build_stack(world, lanes)
    rounds: list[float] = []
    began = timer.clock()
    for moment in simulate(stack):
        if moment.phase == "end":
            synchronised(world)
            rounds.append(timer.clock() - began)
            if len(rounds) > 1 and (len(rounds) >= PROBE_ROUNDS or sum(rounds) > seconds):
                break
            began = timer.clock()
    observer, last = Observer(stack), replace(moment, round=world.rounds)  # always evaluated
    evaluations: list[float] = []
    while len(evaluations) < PROBES and sum(evaluations) < seconds:
        began = timer.clock()
        observer.see(last)
        synchronised(world)
        evaluations.append(timer.clock() - began)
    return Pace(min(rounds) / len(lanes), min(evaluations) / len(lanes))
