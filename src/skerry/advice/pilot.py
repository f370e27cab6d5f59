"""The pilot: which candidates run, in the time there is, and the race between them.

A stage runs the remaining entries on further seeds, for the whole number of rounds. After a stage
the worse half of the entries is dropped. The best entry of every primitive and preset under every
selection rule, for every goal, always stays, so that the entries that decide gain seeds in every
stage.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from skerry.advice.candidates import Budget, Candidate, Entry, Menu, menus
from skerry.advice.decision import WINDOW, PilotScores, decide, measures_in
from skerry.advice.question import Goal, Question, Timer
from skerry.config.experiment import Evaluate, Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError, argument
from skerry.measure.observer import Observer
from skerry.records.parts import History
from skerry.runs.driver import Driver, StoppedError
from skerry.runs.executors.here import Here
from skerry.runs.memory import measure_footprint
from skerry.runs.progress import Progress

FIRST_SEEDS = 2
EARLY_LEVEL = 0.01  # stricter than the answer's: looking often raises the false-alarm rate
EARLY_SEEDS = 4
MARGIN = 0.85  # fraction of the remaining time that a stage may use
SMALLER, LARGER = 10**-0.5, 10**0.5
WIDENINGS = 2

Histories: TypeAlias = dict[tuple[Entry, int], History | None]  # None: diverged


class AdviceProgress(Progress):
    """Callbacks for the progress of `skerry.advise`; all do nothing by default."""

    def doing(self, words: str) -> None:
        """Called with a description of the next step."""

    def waiting(self, worlds: int) -> None:
        self.doing("waiting for runs that another process computes in this folder")


@dataclass
class Pilot:
    """The state of a pilot: its settings, its scores and the entries that remain."""

    question: Question
    base: Experiment  # the experiment with the pilot's rounds and evaluations
    budget: Budget  # the budget of the pilot's rounds
    scores: PilotScores
    entries: list[Entry]  # entries still in the race
    seeds: list[int] = field(default_factory=list)
    runs: int = 0  # number of runs computed; others were already recorded
    seconds_per_seed: float = 0.0  # seconds per seed of the remaining entries
    stopped: str = ""  # why the race ended: clear, alone, seeds, time

    @property
    def candidates(self) -> list[Candidate]:
        return list(dict.fromkeys(entry.candidate for entry in self.entries))

    def tuned(self, goal: Goal) -> list[Entry]:
        """Each remaining candidate at its best stepsize for a goal."""
        return list(self.scores.best_of_each(self.entries, goal, lambda c: c).values())

    def seconds_for(self, entries: int) -> float:
        """Estimated seconds of a seed with this many entries; less than proportional."""
        return self.seconds_per_seed * (1 + entries / len(self.entries)) / 2


def race(pilot: Pilot, driver: Driver, timer: Timer, progress: AdviceProgress) -> None:
    """Run stages until the answer is clear or the seeds or the time are used up."""
    _stage(pilot, _next_seeds(pilot, FIRST_SEEDS), driver, timer, progress)
    if pilot.question.stepsizes is None and not pilot.stopped:
        _widen(pilot, driver, timer, progress)
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
            _next_stage(pilot, driver, timer, progress)


def run_entries(
    pilot: Pilot,
    entries: Sequence[Entry],
    seeds: Sequence[int],
    driver: Driver,
    until: Callable[[], bool] | None = None,
) -> Histories | None:
    """Run entries on seeds and add their scores; None if `until()` is true before the end."""
    runs = {(entry, seed): entry.run(pilot.base, seed) for seed in seeds for entry in entries}
    if waiting := driver.waiting(list(runs.values())):
        try:
            driver.run(waiting, until)
        except StoppedError:
            return None
        pilot.runs += len(waiting)
    keys = {at: driver.key(run) for at, run in runs.items()}
    recorded = {
        run.key: history if run.status == "finished" else None
        for run, history in driver.store.histories(keys.values())
    }
    histories = {at: recorded[key] for at, key in keys.items()}
    for (entry, seed), history in histories.items():
        pilot.scores.add(entry, seed, history, pilot.budget.reach(entry.candidate))
    return histories


def keep_best(scores: PilotScores, entries: Sequence[Entry]) -> list[Entry]:
    """The better half of the entries, by their distance from the best in their best goal, and the
    best entry of every primitive under every selection rule for every goal."""
    leading = set(_leading(scores, entries))
    tops = {goal: max(scores.mean(entry, goal) for entry in entries) for goal in scores.goals}

    def behind(entry: Entry) -> float:
        return min(tops[goal] - scores.mean(entry, goal) for goal in scores.goals)

    better = set(sorted(entries, key=behind)[: -(-len(entries) // 2)])
    return [entry for entry in entries if entry in leading or entry in better]


def _leading(scores: PilotScores, entries: Sequence[Entry]) -> Iterator[Entry]:
    """The best entry of every primitive under every selection rule, for every goal."""
    for goal in scores.goals:
        kinds = scores.best_of_each(entries, goal, lambda c: (c.kind, c.selection))
        yield from kinds.values()


def _next_stage(pilot: Pilot, driver: Driver, timer: Timer, progress: AdviceProgress) -> None:
    """Double the number of seeds for the remaining entries, if time allows."""
    left = keep_best(pilot.scores, pilot.entries)
    pilot.seconds_per_seed, pilot.entries = pilot.seconds_for(len(left)), left
    affordable = int(MARGIN * timer.left / max(pilot.seconds_per_seed, 1e-9))
    seeds = _next_seeds(pilot, min(len(pilot.seeds), affordable))
    if seeds:
        _stage(pilot, seeds, driver, timer, progress)
    else:
        pilot.stopped = "time"


def _stage(
    pilot: Pilot, seeds: Sequence[int], driver: Driver, timer: Timer, progress: AdviceProgress
) -> None:
    """Run the remaining entries on these seeds. The first always finishes, to have an answer."""
    for seed in seeds:
        progress.doing(f"seed {seed}: {len(pilot.entries)} runs of {pilot.base.rounds} rounds")
        began = timer.clock()
        until = timer.is_up if pilot.seeds else None
        if run_entries(pilot, pilot.entries, [seed], driver, until) is None:
            pilot.stopped = "time"
            return
        pilot.seeds.append(seed)
        pilot.seconds_per_seed = timer.clock() - began


def _next_seeds(pilot: Pilot, count: int) -> list[int]:
    first = pilot.base.seed + len(pilot.seeds)
    most = pilot.question.seeds - len(pilot.seeds)
    return list(range(first, first + min(count, most)))


def _widen(pilot: Pilot, driver: Driver, timer: Timer, progress: AdviceProgress) -> None:
    """Run further stepsizes where the best one is the largest or smallest so far."""
    for _ in range(WIDENINGS):
        wider = list(dict.fromkeys(_next_stepsizes(pilot)))
        needed = pilot.seconds_for(len(wider)) * len(pilot.seeds)
        if not wider or needed > MARGIN * timer.left / 2:
            return
        progress.doing("trying further stepsizes")
        if run_entries(pilot, wider, pilot.seeds, driver, timer.is_up) is None:
            pilot.stopped = "time"
            return
        pilot.entries += wider


def _next_stepsizes(pilot: Pilot) -> Iterator[Entry]:
    """The next stepsizes of leading candidates; smaller ones of all if all diverged."""
    tried: dict[Candidate, list[float]] = {}
    for entry in pilot.entries:
        tried.setdefault(entry.candidate, []).append(entry.stepsize)
    leading = dict.fromkeys(_leading(pilot.scores, pilot.entries))
    for candidate, stepsize in leading:
        if stepsize == max(tried[candidate]):
            yield Entry(candidate, stepsize * LARGER)
        if stepsize == min(tried[candidate]):
            yield Entry(candidate, stepsize * SMALLER)
    if not leading:
        for candidate, stepsizes in tried.items():
            yield from (Entry(candidate, min(stepsizes) / 10**k) for k in (1, 2))


MEASURED = ("average", "devices", "training", "communication")
FIRST_STAGE = 0.35  # fraction of the remaining time for the first stage
PROBE = 0.03  # fraction of the whole time for timing rounds, and for timing evaluations
PROBES, PROBE_ROUNDS = 4, 20
PROBE_LANES = 8  # on a CPU, where the time per lane is constant; on a GPU all that will run
LOOKS = (5, 2, 1)  # evaluations in the window of a score; fewer where they are slow
LEAST_ROUNDS = 10


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
    """A pilot that fits the time; what it omits for lack of time is added to the notes."""
    choices = list(menus(question, experiment, budget, sizes))
    fullest = choices[0]
    base = for_pilot(question, experiment, budget, fullest)
    world = here.world(base)
    measures = measures_in(world, question.goal)
    if question.goal not in measures:
        raise SkerryError(
            f"model '{experiment.model.name}' has a loss but no accuracy, so devices have no "
            f"accuracy on their own labels (got {argument('goal')} {question.goal}). Ask with "
            f"{argument('goal')} global."
        )
    menu, rounds, looks = fullest, experiment.rounds, LOOKS[0]
    runs = [entry.run(base, experiment.seed) for entry in fullest.entries]
    if driver.waiting(runs):
        on_cpu = world.device.type == "cpu"
        few = PROBE_LANES if on_cpu else measure_footprint(world).for_lanes(runs).lanes()
        times = probe(world, runs[:: -(-len(runs) // few)], timer, PROBE * timer.seconds)
        seconds = FIRST_STAGE * timer.left
        menu, rounds, looks = _fit(choices, experiment, question, budget, times, seconds)
        if not any(map(budget.for_rounds(rounds).reach, menu.candidates)):
            rounds = experiment.rounds  # a part of the budget does not pay for a server round
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
        scores=PilotScores(measures),
        entries=[entry for entry in menu.entries if budget.reach(entry.candidate)],
    )


def for_pilot(
    question: Question, experiment: Experiment, budget: Budget, menu: Menu, looks: int = LOOKS[0]
) -> Experiment:
    """The experiment with the budget's rounds and the measures of the goals, evaluated only where
    scores need it: in the last fifth of the rounds of any candidate."""
    periods = {candidate.period for candidate in menu.candidates}
    first = min(filter(None, map(budget.reach, menu.candidates)), default=budget.rounds)
    # No candidate may end before the first evaluation.
    every = stride(min(int(WINDOW * budget.rounds), looks * first), looks, periods)
    after = min(int((1 - WINDOW) * first), first // every * every - 1)
    measures = (*MEASURED, "fairness") if question.goal == "worst_tenth" else MEASURED
    evaluate = Evaluate(every=every, after=after, measures=measures)
    return experiment.model_copy(update={"rounds": budget.rounds, "evaluate": evaluate})


def stride(window: int, looks: int, periods: Iterable[int]) -> int:
    """Rounds between evaluations: at least `looks` in the window, and coprime to all periods, so
    that every phase of a period is evaluated. It is also coprime to 10, so that runs with the usual
    periods can be lanes of one stack."""
    apart = math.lcm(10, *periods)
    return next(s for s in range(max(1, window // looks), 0, -1) if math.gcd(s, apart) == 1)


def _fit(
    choices: Sequence[Menu],
    experiment: Experiment,
    question: Question,
    budget: Budget,
    times: "LaneTimes",
    seconds: float,
) -> tuple[Menu, int, int]:
    """(menu, rounds, looks) whose first stage fits: the largest menu with the most looks, else the
    smallest menu with as many rounds as fit in twice the time (an early leader may lose, so rounds
    matter more than seeds), else whatever is fastest."""
    seeds = min(FIRST_SEEDS, question.seeds)

    def needed(choice: tuple[Menu, int, int]) -> float:
        menu, rounds, looks = choice
        base = for_pilot(question, experiment, budget.for_rounds(rounds), menu, looks)
        return seeds * times.seconds(len(menu.entries), base)

    def fits(choice: tuple[Menu, int, int]) -> bool:
        return needed(choice) <= seconds * (2 if choice[0] is choices[-1] else 1)

    plans = [(menu, experiment.rounds, looks) for menu in choices for looks in LOOKS]
    plans += [(choices[-1], rounds, LOOKS[-1]) for rounds in _shorter(experiment)]
    return next(filter(fits, plans), min(plans, key=needed))


def _shorter(experiment: Experiment) -> Iterator[int]:
    """Decreasing numbers of rounds, down to a few server rounds."""
    rounds = experiment.rounds
    while rounds > max(LEAST_ROUNDS, 2 * experiment.server.period + 1):
        rounds = int(0.9 * rounds)
        yield rounds


@dataclass(frozen=True)
class LaneTimes:
    """Seconds per lane of one round and of one evaluation."""

    round: float
    evaluation: float

    def seconds(self, lanes: int, experiment: Experiment) -> float:
        rounds, evaluate = experiment.rounds, experiment.evaluate
        # The last round is always evaluated; the evaluation at the start is cheap.
        evaluations = rounds // evaluate.every - evaluate.after // evaluate.every + 1
        return lanes * (rounds * self.round + evaluations * self.evaluation)


def probe(world: World, lanes: Sequence[Experiment], timer: Timer, seconds: float) -> LaneTimes:
    """Time a few rounds and evaluations of these lanes and return the fastest of each, which
    excludes warm-up and delays by other processes. Evaluations are timed after the rounds: at the
    start all devices are equal and scored only once."""
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
    return LaneTimes(min(rounds) / len(lanes), min(evaluations) / len(lanes))
