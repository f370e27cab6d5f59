"""What the pilot tries, cut to the time there is: all of it, else less of it, else fewer rounds."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from skerry.advice.contenders import (
    Budget,
    Contender,
    Entry,
    contenders,
    nearby,
    preset_contenders,
)
from skerry.advice.decision import WINDOW, Scores, measures_in
from skerry.advice.question import Goal, Question, Timer
from skerry.advice.race import FIRST_SEEDS, Pilot
from skerry.config import labels
from skerry.config.experiment import Evaluate, Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError, argument
from skerry.measure.observer import Observer
from skerry.runs.driver import Driver
from skerry.runs.executors.here import Here
from skerry.runs.memory import footprint

MEASURED = ("average", "devices", "training", "communication")
FURTHER: dict[Goal, tuple[str, ...]] = {"worst_tenth": ("fairness",)}
"""What a goal needs besides."""
FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5)
"""Stepsizes that are tried, as factors of the experiment's."""
FEW_FACTORS = (10**-0.5, 1.0, 10**0.5)
FIRST_STAGE = 0.35
"""Of the time left that the first stage may take."""
PROBE = 0.03
"""Of the whole time that timing each, evaluations and rounds, may take."""
PROBES, PROBE_ROUNDS = 4, 20
PROBE_LANES = 8
"""On a CPU, where more lanes are no slower per lane. On a GPU what is timed is what will run."""
LOOKS = (5, 2, 1)
"""Evaluations in the window that a score is the mean of: where they take long, fewer."""
LEAST_ROUNDS = 10


@dataclass(frozen=True)
class Menu:
    """What may be tried: every contender at every stepsize."""

    contenders: tuple[Contender, ...]
    stepsizes: tuple[float, ...]

    @property
    def entries(self) -> list[Entry]:
        return [Entry(c, stepsize) for c in self.contenders for stepsize in self.stepsizes]


def plan(
    question: Question,
    experiment: Experiment,
    budget: Budget,
    here: Here,
    driver: Driver,
    timer: Timer,
    notes: list[str],
    sizes: Sequence[int],
) -> Pilot:
    """The pilot before its first stage. What it leaves out for lack of time goes to the notes."""
    menus = list(_menus(question, experiment, budget, sizes))
    fullest = menus[0]
    base = for_pilot(question, experiment, budget, fullest)
    world = here.world(base)
    measures = measures_in(world, question.goal)
    if question.goal not in measures:
        raise SkerryError(
            f"model '{experiment.model.name}' has losses but no accuracies, so devices have no "
            f"accuracy on their own labels (got {argument('goal')} {question.goal}). Ask with "
            f"{argument('goal')} global."
        )
    menu, rounds, looks = fullest, experiment.rounds, LOOKS[0]
    runs = [entry.run(base, experiment.seed) for entry in fullest.entries]
    if driver.waiting(runs):
        on_cpu = world.device.type == "cpu"
        few = PROBE_LANES if on_cpu else footprint(world).keeping(runs).lanes()
        pace = probe(world, runs[:: -(-len(runs) // few)], timer, PROBE * timer.seconds)
        seconds = FIRST_STAGE * timer.left
        menu, rounds, looks = _fit(menus, experiment, question, budget, pace, seconds)
        if not any(map(budget.for_rounds(rounds).reach, menu.contenders)):
            rounds = experiment.rounds  # the first server round cannot be had for a part
    budget = budget.for_rounds(rounds)
    if menu is not fullest:
        notes.append(
            f"for lack of time the pilot tried {len(menu.entries)} of {len(fullest.entries)} "
            "combinations of primitive, selection, K, H and stepsize"
        )
    if rounds < experiment.rounds:
        notes.append(
            f"for lack of time the pilot ran {rounds} of the experiment's {experiment.rounds} "
            "rounds; later rounds may change the order"
        )
    return Pilot(
        question=question,
        base=for_pilot(question, experiment, budget, menu, looks),
        budget=budget,
        scores=Scores(measures),
        entries=[entry for entry in menu.entries if budget.reach(entry.contender)],
    )


def for_pilot(
    question: Question, experiment: Experiment, budget: Budget, menu: Menu, looks: int = LOOKS[0]
) -> Experiment:
    """The experiment over the budget's rounds, with the measures that the goals need, evaluated
    only where it is read: in the last fifth before the end, and before the first end that a budget
    sets."""
    periods = {contender.period for contender in menu.contenders}
    first = min(filter(None, map(budget.reach, menu.contenders)), default=budget.rounds)
    # No contender may end before the first evaluation.
    every = stride(min(int(WINDOW * budget.rounds), looks * first), looks, periods)
    after = min(int((1 - WINDOW) * first), first // every * every - 1)
    measures = (*MEASURED, *FURTHER.get(question.goal, ()))
    evaluate = Evaluate(every=every, after=after, measures=measures)
    return experiment.model_copy(update={"rounds": budget.rounds, "evaluate": evaluate})


def stride(window: int, looks: int, periods: Iterable[int]) -> int:
    """Rounds between evaluations: at least so many looks in the window, and never in step with the
    server, whose rounds show in some rounds of a period and not in others. Common to 2 and 5 it
    has nothing either, so that runs with the usual periods can be lanes of one stack."""
    apart = math.lcm(10, *periods)
    return next(s for s in range(max(1, window // looks), 0, -1) if math.gcd(s, apart) == 1)


def _menus(
    question: Question, experiment: Experiment, budget: Budget, sizes: Sequence[int]
) -> Iterator[Menu]:
    """From the fullest to the shortest."""
    among = question.among.primitives
    eta, server = experiment.training.stepsize, experiment.server
    own = (server.sampled, server.period)
    selections = question.among.selections_for(server, sizes)
    beside = [(K, H) for _, K, H in nearby(budget.devices, *own)]
    cross = [own, *beside] if question.chooses_server else [own]
    for primitives, servers, factors in (
        (among, _product(cross), FACTORS),
        (_one_blend(among), cross, FEW_FACTORS),
        (_one_blend(among), [own], FEW_FACTORS),
    ):
        possible = contenders(primitives, servers, selections, len(sizes))
        possible += preset_contenders(question.among.presets, servers, selections, experiment)
        affordable = list(filter(budget.reach, possible))
        if not affordable:
            raise SkerryError(
                f"the budget of {budget.limit:g} does not pay for a single server round. Raise it, "
                "or lower server.sampled."
            )
        stepsizes = question.stepsizes or tuple(eta * factor for factor in factors)
        yield Menu(tuple(affordable), stepsizes)


def _product(servers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    sampled, periods = (list(dict.fromkeys(values)) for values in zip(*servers, strict=True))
    return [(K, H) for K in sampled for H in periods]


def _one_blend(
    among: Sequence[tuple[str, float | None]],
) -> list[tuple[str, float | None]]:
    """Only the middle one of several blends."""
    blends = [one for one in among if one[0] == labels.BLEND]
    middle = blends[len(blends) // 2 : len(blends) // 2 + 1]
    return [one for one in among if one not in blends or one in middle]


def _fit(
    menus: Sequence[Menu],
    experiment: Experiment,
    question: Question,
    budget: Budget,
    pace: "Pace",
    seconds: float,
) -> tuple[Menu, int, int]:
    """The fullest menu whose first stage fits, looked at often or less often; else the shortest one
    with as many rounds as do, in up to twice the time: who leads early may not lead late, so
    rounds matter more than further seeds. Where nothing fits, what takes least."""
    seeds = min(FIRST_SEEDS, question.seeds)

    def needed(choice: tuple[Menu, int, int]) -> float:
        menu, rounds, looks = choice
        base = for_pilot(question, experiment, budget.for_rounds(rounds), menu, looks)
        return seeds * pace.seconds(len(menu.entries), base)

    shortest = menus[-1]
    choices = [(menu, experiment.rounds, looks) for menu in menus for looks in LOOKS]
    choices += [(shortest, rounds, LOOKS[-1]) for rounds in _shorter(experiment)]
    fitting = (
        choice
        for choice in choices
        if needed(choice) <= seconds * (2 if choice[0] is shortest else 1)
    )
    return next(fitting, min(choices, key=needed))


def _shorter(experiment: Experiment) -> Iterator[int]:
    """Ever fewer rounds, down to a few server rounds."""
    rounds = experiment.rounds
    while rounds > max(LEAST_ROUNDS, 2 * experiment.server.period + 1):
        rounds = int(0.9 * rounds)
        yield rounds


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
    began = timer.now(world)
    for moment in simulate(stack):
        if moment.phase == "end":
            ended = timer.now(world)
            rounds.append(ended - began)
            if len(rounds) > 1 and (len(rounds) >= PROBE_ROUNDS or sum(rounds) > seconds):
                break
            began = ended
    observer, last = Observer(stack), replace(moment, round=world.rounds)  # always evaluated
    evaluations: list[float] = []
    while len(evaluations) < PROBES and sum(evaluations) < seconds:
        began = timer.now(world)
        observer.rows(last)
        evaluations.append(timer.now(world) - began)
    return Pace(min(rounds) / len(lanes), min(evaluations) / len(lanes))
