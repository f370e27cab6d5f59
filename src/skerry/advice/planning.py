"""What the pilot tries, cut to the time there is: all of it, else less of it, else fewer rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skerry.advice.contenders import Contender, Lane, Purse, contenders, nearby, stride
from skerry.advice.ground import Ground
from skerry.advice.pilot import FIRST_SEEDS, Pilot
from skerry.advice.question import Question
from skerry.advice.readings import CLASSIFIERS, OTHERS, WINDOW, Readings
from skerry.advice.timing import Pace, Timer, probe
from skerry.errors import SkerryError
from skerry.experiment import Evaluate, Experiment
from skerry.runs.memory import footprint

MEASURED = ("average", "devices", "training", "communication")
FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5)
"""Stepsizes that are tried, as factors of the experiment's."""
FEW_FACTORS = (10**-0.5, 1.0, 10**0.5)
FIRST_STAGE = 0.35
"""Of the time left that the first stage may take."""
PROBE = 0.03
"""Of the whole time that timing each, evaluations and rounds, may take."""
PROBE_LANES = 8
"""On a CPU, where more lanes are no slower per lane. On a GPU what is timed is what will run."""
LOOKS = (5, 2, 1)
"""Evaluations in the window that a reading is the mean of: where they take long, fewer."""
LEAST_ROUNDS = 10


@dataclass(frozen=True)
class Menu:
    contenders: tuple[Contender, ...]
    stepsizes: tuple[float, ...]

    @property
    def lanes(self) -> list[Lane]:
        return [Lane(c, stepsize) for c in self.contenders for stepsize in self.stepsizes]


def plan(
    question: Question,
    experiment: Experiment,
    ground: Ground,
    purse: Purse,
    timer: Timer,
    notes: list[str],
) -> Pilot:
    """The pilot before its first stage. What it leaves out for lack of time goes to the notes."""
    menus = list(_menus(question, experiment, purse))
    base = for_pilot(experiment, purse, menus[0])
    world = ground.world(base)
    measures = CLASSIFIERS if world.learner.classifies else OTHERS
    if question.goal not in measures:
        raise SkerryError(
            f"model '{experiment.model.name}' has losses but no accuracies, so devices have no "
            "accuracy on their own labels. Ask with --goal global."
        )
    menu, rounds, looks = menus[0], experiment.rounds, LOOKS[0]
    if ground.waiting([lane.run(base, experiment.seed) for lane in menu.lanes]):
        few = PROBE_LANES if world.device.type == "cpu" else footprint(world).lanes()
        probed = [lane.run(base, experiment.seed) for lane in menu.lanes[:few]]
        pace = probe(world, probed, timer, PROBE * timer.seconds)
        seconds = FIRST_STAGE * timer.left
        menu, rounds, looks = _fit(menus, experiment, question, purse, pace, seconds)
        if not any(purse.within(rounds).reach(contender) for contender in menu.contenders):
            rounds = experiment.rounds  # the server's first visit cannot be had for a part
    purse = purse.within(rounds)
    if menu is not menus[0]:
        notes.append(
            f"for lack of time the pilot tried {len(menu.lanes)} of {len(menus[0].lanes)} "
            "combinations of primitive, K, H and stepsize"
        )
    if rounds < experiment.rounds:
        notes.append(
            f"for lack of time the pilot ran {rounds} of the experiment's {experiment.rounds} "
            "rounds; later rounds may change the order"
        )
    return Pilot(
        question=question,
        base=for_pilot(experiment, purse, menu, looks),
        purse=purse,
        readings=Readings(measures),
        lanes=[lane for lane in menu.lanes if purse.reach(lane.contender)],
    )


def for_pilot(
    experiment: Experiment, purse: Purse, menu: Menu, looks: int = LOOKS[0]
) -> Experiment:
    """The experiment over the purse's rounds, with the measures that the goals need, evaluated
    only where it is read: in the last fifth before the end, and before the first end that a budget
    sets."""
    periods = {contender.period for contender in menu.contenders}
    first = min(filter(None, map(purse.reach, menu.contenders)), default=purse.rounds)
    # No contender may end before the first evaluation.
    every = stride(min(int(WINDOW * purse.rounds), looks * first), looks, periods)
    after = min(int((1 - WINDOW) * first), first // every * every - 1)
    evaluate = Evaluate(every=every, after=after, measures=MEASURED)
    return experiment.model_copy(update={"rounds": purse.rounds, "evaluate": evaluate})


def _menus(question: Question, experiment: Experiment, purse: Purse) -> Iterator[Menu]:
    """From the fullest to the shortest."""
    eta, server = experiment.training.stepsize, experiment.server
    K, H, n = server.sampled, server.period, purse.devices
    own = (K, H)
    beside = [(k, h) for _, k, h in nearby(n, K, H)]
    wide = _product([own, *beside]) if question.chooses_server else [own]
    cross = [own, *beside] if question.chooses_server else [own]
    fixed = question.stepsizes
    for kinds, servers, factors in (
        (question.among, wide, FACTORS),
        (_one_blend(question.among), cross, FEW_FACTORS),
        (_one_blend(question.among), [own], FEW_FACTORS),
    ):
        affordable = [c for c in contenders(kinds, servers) if purse.reach(c)]
        if not affordable:
            raise SkerryError(
                f"the budget of {purse.limit:g} does not pay for a single visit of the server. "
                "Raise it, or lower server.sampled."
            )
        yield Menu(tuple(affordable), fixed or tuple(eta * factor for factor in factors))


def _product(servers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    sampled, periods = (list(dict.fromkeys(values)) for values in zip(*servers, strict=True))
    return [(k, h) for k in sampled for h in periods]


def _one_blend(
    among: Sequence[tuple[str, float | None]],
) -> list[tuple[str, float | None]]:
    """Only the middle one of several blends."""
    blends = [kind for kind in among if kind[0] == "blend"]
    middle = blends[len(blends) // 2 : len(blends) // 2 + 1]
    return [kind for kind in among if kind[0] != "blend" or kind in middle]


def _fit(
    menus: Sequence[Menu],
    experiment: Experiment,
    question: Question,
    purse: Purse,
    pace: Pace,
    seconds: float,
) -> tuple[Menu, int, int]:
    """The fullest menu whose first stage fits, looked at often or less often; else the shortest one
    with as many rounds as do, in up to twice the time: who leads early may not lead late, so
    rounds matter more than further seeds. Where nothing fits, what takes least."""
    seeds = min(FIRST_SEEDS, question.seeds)

    def needed(choice: tuple[Menu, int, int]) -> float:
        menu, rounds, looks = choice
        base = for_pilot(experiment, purse.within(rounds), menu, looks)
        return seeds * pace.seconds(len(menu.lanes), base)

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
    """Ever fewer rounds, down to a few visits of the server."""
    rounds = experiment.rounds
    while rounds > max(LEAST_ROUNDS, 2 * experiment.server.period + 1):
        rounds = int(0.9 * rounds)
        yield rounds
