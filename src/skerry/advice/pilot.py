"""The pilot: runs settings within the time there is, first to search and then on fresh seeds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import torch

from skerry.advice.question import Question, Timer
from skerry.advice.scores import WINDOW, PilotScores, measures_in
from skerry.advice.search import SURE, ScoreModel, Search
from skerry.advice.settings import Budget, Entry, Space
from skerry.config.experiment import Evaluate, Experiment
from skerry.engine.message_sizes import BYTES_PER_PARAMETER
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import World
from skerry.errors import SkerryError, argument
from skerry.measure.observer import Observer
from skerry.report.text import plural
from skerry.runs.driver import Driver, StoppedError
from skerry.runs.executors.here import Here
from skerry.runs.progress import Progress

SEARCHED = 0.6  # fraction of the time after which the search ends
CONFIRMED = 0.88  # fraction of the time after which no fresh seeds are begun
LATEST = 0.97  # fraction of the time after which runs are stopped
FIRST_STAGE = 0.33  # fraction of the search for the first stage
FIRST_SEEDS = 2
SEARCH_SEEDS = 4  # largest number of seeds of the search, relative to that of fresh seeds
FIRST_SETTINGS, FEWEST = 24, 6  # settings of the first stack, and with the least time
FEWEST_FRESH = 3  # fresh seeds of the settings that are named
CONFIRMED_SETTINGS = 9
SHOWN = 0.95  # probability of being level, on fresh seeds alone
EARLY_SEEDS, EARLY_LEVEL = 8, 0.002  # confirming ends early if it is as sure as this
STACK = 6.0  # a stack costs as much as this number of further lanes
FEW_LANES = 250  # with fewer lanes an answer is uncertain, and says so
FEWEST_LANES = 20  # with fewer lanes of full length, rounds are left out
LEAST_ROUNDS = 10
MEASURED = ("average", "devices", "communication")
LOOKS = (5, 3, 1)  # evaluations in the window of a score; fewer where they are slow
TARGET_LOOKS = (40, 20, 10)  # evaluations in the whole run, where a target is to be reached
LOOKING = 0.5  # largest share of evaluations in the time of a run
TARGET_LOOKING = 1.0
PROBE, PROBES, PROBE_ROUNDS, PROBE_LANES = 0.02, 3, 12, 8


class AdviceProgress(Progress):
    """Callbacks for the progress of `skerry.advise`; all do nothing by default."""

    def doing(self, words: str) -> None:
        """Called with a description of the next step."""

    def waiting(self, worlds: int) -> None:
        self.doing("waiting for runs that another process computes in this folder")


@dataclass
class Pilot:
    """The state of a pilot: its search, what it has run, and the settings that are confirmed."""

    question: Question
    base: Experiment  # the experiment with the pilot's rounds and evaluations
    search: Search
    driver: Driver
    timer: Timer
    progress: AdviceProgress
    message_bytes: int = 0  # of one model
    pace: float = 0.0  # seconds per lane; a stack counts as STACK lanes more
    paces: list[float] = field(default_factory=list)
    runs: int = 0  # number of runs computed; others were already recorded
    fresh: list[int] = field(default_factory=list)  # seeds that only confirm
    confirmed: list[Entry] = field(default_factory=list)  # by cost
    best: Entry | None = None
    cheapest: Entry | None = None
    none: Entry | None = None
    skipped: list[str] = field(default_factory=list)  # what was not tried, in sentences

    @property
    def scores(self) -> PilotScores:
        return self.search.scores

    @property
    def space(self) -> Space:
        return self.search.space

    @property
    def budget(self) -> Budget:
        return self.search.space.budget

    def lanes_in(self, seconds: float) -> float:
        return max(0.0, seconds) / max(self.pace, 1e-9)

    def run(self, entries: Sequence[Entry], seeds: Sequence[int], deadline: float) -> bool:
        """Run entries on seeds and add their scores; False if the deadline came before the end."""
        began, timer = self.timer.spent, self.timer
        runs = {(entry, seed): entry.run(self.base, seed) for seed in seeds for entry in entries}
        waiting = self.driver.waiting(list(runs.values()))
        if waiting:
            try:
                self.driver.run(waiting, lambda: timer.spent > deadline)
            except StoppedError:
                return False
            self.runs += len(waiting)
        if self.scores.target is not None and self.budget.clock is not None:
            self.budget.clock.prepare((entry.candidate for entry in entries), seeds)
        keys = {at: self.driver.key(run) for at, run in runs.items()}
        recorded = {
            run.key: history if run.status == "finished" else None
            for run, history in self.driver.store.histories(keys.values())
        }
        for (entry, seed), key in keys.items():
            self.scores.add(entry, seed, recorded[key])
        if len(waiting) == len(runs):  # a part that is recorded tells nothing about the pace
            self.paces.append((timer.spent - began) / (len(waiting) + STACK * len(seeds)))
            self.pace = median(self.paces[-3:])  # one slow stack is no reason to do less
        return True

    def next_seeds(self, count: int) -> list[int]:
        first = self.base.seed + len(self.search.seeds) + len(self.fresh)
        return list(range(first, first + count))

    def model(self) -> ScoreModel:
        return self.search.model()


def run_pilot(pilot: Pilot) -> None:
    """Search, fix the settings to name, and run them on fresh seeds."""
    _search(pilot)
    _confirm(pilot)


def _search(pilot: Pilot) -> None:
    """Run settings until the search's share of the time is spent."""
    search, timer = pilot.search, pilot.timer
    end = SEARCHED * timer.seconds
    first_end = timer.spent + FIRST_STAGE * (end - timer.spent)
    order, done = search.first(), 0
    search.seeds += pilot.next_seeds(FIRST_SEEDS)
    while done < len(order):
        # Few at first, to learn the pace; without these there is no answer.
        lanes = int(pilot.lanes_in(first_end - timer.spent) / FIRST_SEEDS - STACK)
        size = max(FEWEST, min(lanes, FIRST_SETTINGS)) if done == 0 else lanes
        if size < 1:
            break
        some = order[done : done + size]
        pilot.progress.doing(f"trying {len(some)} settings of {pilot.base.rounds} rounds")
        if not pilot.run(some, search.seeds, math.inf if done == 0 else end):
            break
        done += len(some)
    _find_stable_stepsizes(pilot)
    began, most = timer.spent, SEARCH_SEEDS * pilot.question.seeds
    while (left := end - timer.spent) > 0 and len(search.seeds) < most:
        share = (timer.spent - began) / max(end - began, 1e-9)
        share = max(share, len(search.seeds) / most)
        entries, count = search.next_batch(share)
        count = min(count, most - len(search.seeds))
        fits = pilot.lanes_in(left)
        while count > 1 and (len(entries) + STACK) * count > fits:
            count -= 1
        entries = [*entries[: max(2, int(fits - STACK)) - 1], entries[-1]]
        if (len(entries) + STACK) * count > fits:
            break
        pilot.progress.doing(
            f"comparing {plural(len(entries), 'setting')} on {plural(count, 'more seed')}"
        )
        seeds = pilot.next_seeds(count)
        if not pilot.run(entries, seeds, CONFIRMED * timer.seconds):
            break
        search.seeds += seeds
    affordable = [e for e in pilot.space.entries if pilot.budget.allows(e.candidate)]
    rest = sum(entry not in pilot.scores.values for entry in affordable)
    if rest:
        pilot.skipped.append(
            f"{rest} of {len(affordable)} combinations of primitive, K, H, selection and stepsize; "
            "their scores were estimated from the others"
        )


def _find_stable_stepsizes(pilot: Pilot) -> None:
    """Try smaller stepsizes as long as every run has exploded."""
    search, goal = pilot.search, pilot.question.goal
    while len(search.scores.exploded(goal)) == search.scores.runs:
        wider = search.space.extended("stepsize", upper=False)
        if wider is None:
            smallest = min(entry.stepsize for entry in search.scores.values)
            raise SkerryError(
                f"every run diverged, down to a stepsize of {smallest:.2g}. Lower "
                f"training.stepsize (got {pilot.base.training.stepsize:g}), or check that the "
                "data are scaled."
            )
        search.space = wider
        tried = [e for e in search.first() if e.stepsize == wider.values["stepsize"][0]]
        pilot.run(tried[:FIRST_SETTINGS], search.seeds, math.inf)


def _confirm(pilot: Pilot) -> None:
    """Run the short list on fresh seeds for the rest of the time, at least a few."""
    timer, end = pilot.timer, CONFIRMED * pilot.timer.seconds
    most = CONFIRMED_SETTINGS
    while most > 3 and pilot.lanes_in(end - timer.spent) < FEWEST_FRESH * (most + STACK):
        most -= 1
    pilot.best, pilot.cheapest, pilot.none, chosen = pilot.search.short_list(most)
    cost = {entry: pilot.budget.cost(entry.candidate) for entry in chosen}
    pilot.confirmed = sorted(chosen, key=cost.__getitem__)
    while len(pilot.fresh) < pilot.question.seeds:
        left = end - timer.spent
        count = min(
            int(pilot.lanes_in(left) / (len(chosen) + STACK)),
            pilot.question.seeds - len(pilot.fresh),
        )
        if len(pilot.fresh) < FEWEST_FRESH:
            count = min(max(count, 1), FEWEST_FRESH)  # an early measure of the pace
        if count < 1:
            break
        count = min(count, max(1, 64 // len(chosen)))
        pilot.progress.doing(
            f"confirming {plural(len(chosen), 'setting')} on {plural(count, 'fresh seed')}"
        )
        seeds = pilot.next_seeds(count)
        must = len(pilot.fresh) < 2  # one fresh seed would be no answer
        if not pilot.run(chosen, seeds, math.inf if must else LATEST * timer.seconds):
            break
        pilot.fresh += seeds
        if len(pilot.fresh) >= EARLY_SEEDS and _is_settled(pilot):
            break
    model = pilot.model()
    allowed = [e for e in chosen if pilot.budget.allows(e.candidate)]
    if not pilot.search.may_be_none:
        allowed = [e for e in allowed if e.candidate.has_server] or allowed
    pilot.best = model.best(allowed)
    level = [model.cheapest_level(pilot.best, SURE, allowed)]
    if model.best_only:
        pilot.cheapest = pilot.best
        return
    # A setting that fresh seeds alone show to be level is not called too bad by the surface.
    goal, best = pilot.question.goal, pilot.best
    gaps = {e: pilot.scores.gap(goal, best, e, pilot.fresh) for e in allowed if e != best}
    level += [e for e, gap in gaps.items() if gap.count >= EARLY_SEEDS and gap.within >= SHOWN]
    pilot.cheapest = min(level, key=lambda entry: pilot.budget.cost(entry.candidate))


def _is_settled(pilot: Pilot) -> bool:
    """Whether more seeds would not change what is said: a strict level, because of many looks."""
    goal, best = pilot.question.goal, pilot.best
    assert best is not None
    others = [entry for entry in pilot.confirmed if entry != best]
    gaps = [pilot.scores.gap(goal, best, entry, pilot.fresh) for entry in others]
    return all(min(gap.within, 1 - gap.within) < EARLY_LEVEL for gap in gaps)


# Planning: rounds and evaluations that fit the time


def plan(
    question: Question,
    experiment: Experiment,
    space: Space,
    here: Here,
    driver: Driver,
    timer: Timer,
    progress: AdviceProgress,
) -> Pilot:
    """A pilot whose runs fit the time; what it leaves out is told in `skipped`."""
    all_looks = LOOKS if question.target is None else TARGET_LOOKS
    base = for_pilot(question, experiment, all_looks[0], space)
    world = here.world(base)
    measures = measures_in(world, question.goal)
    if question.goal not in measures:
        raise SkerryError(
            f"model '{experiment.model.name}' has a loss but no accuracy, so devices have no "
            f"accuracy on their own labels (got {argument('goal')} {question.goal}). Ask with "
            f"{argument('goal')} global."
        )
    entries = [e for e in space.entries if space.budget.allows(e.candidate)]
    few = entries[:: -(-len(entries) // PROBE_LANES)]
    runs = [entry.run(base, experiment.seed) for entry in few]
    times = probe(world, runs, timer, PROBE * timer.seconds)
    if world.device.type == "cpu" and (threads := torch.get_num_threads()) > 1:
        # Where other programs use the cores, threads of one program wait for each other.
        torch.set_num_threads(1)
        alone = probe(world, runs, timer, PROBE * timer.seconds)
        if alone.seconds(base.rounds, 1) < times.seconds(base.rounds, 1):
            times = alone
        else:
            torch.set_num_threads(threads)
    skipped, seconds = [], CONFIRMED * timer.seconds - timer.spent
    most = (LOOKING if question.target is None else TARGET_LOOKING) * base.rounds * times.round
    looks = next((some for some in all_looks if some * times.evaluation <= most), all_looks[-1])
    rounds = experiment.rounds
    while rounds > LEAST_ROUNDS and times.seconds(rounds, looks) * FEWEST_LANES > seconds:
        rounds, looks = int(0.9 * rounds), 1 if question.target is None else looks
    if rounds < experiment.rounds:
        skipped.append(
            f"rounds {rounds + 1} to {experiment.rounds}, for lack of time; they may matter"
        )
        experiment = experiment.model_copy(update={"rounds": rounds})
        space = replace(space, base=experiment, budget=space.budget.for_rounds(rounds))
    scores = PilotScores(measures)
    if question.target is not None:
        target, clock = question.target.for_task(scores.are_losses), space.budget.clock
        scores = PilotScores(measures, target=target, clock=clock)
    return Pilot(
        question,
        for_pilot(question, experiment, looks, space),
        Search(space, scores, question.goal, question.among.none),
        driver,
        timer,
        progress,
        BYTES_PER_PARAMETER * world.shared_parameters,
        pace=times.seconds(rounds, looks),
        skipped=skipped,
    )


def for_pilot(question: Question, experiment: Experiment, looks: int, space: Space) -> Experiment:
    """The experiment with the measures of the goals, evaluated only in the last fifth of its
    rounds, or from the first one on where a target is to be reached."""
    window = int(WINDOW * experiment.rounds) if question.target is None else experiment.rounds
    every = stride(window, looks, map(int, space.values["period"]))
    after = max(0, experiment.rounds - window)
    measures = (*MEASURED, "fairness") if question.goal == "worst_tenth" else MEASURED
    evaluate = Evaluate(every=every, after=after, measures=measures)
    return experiment.model_copy(update={"evaluate": evaluate})


def stride(window: int, looks: int, periods: Iterable[int]) -> int:
    """Rounds between evaluations: at least `looks` in the window, and coprime to all periods, so
    that every phase of a period is evaluated. It is also coprime to 10, so that runs with the usual
    periods can be lanes of one stack."""
    apart = math.lcm(10, *periods)
    return next(s for s in range(max(1, window // looks), 0, -1) if math.gcd(s, apart) == 1)


@dataclass(frozen=True)
class LaneTimes:
    """Seconds per lane of one round and of one evaluation."""

    round: float
    evaluation: float

    def seconds(self, rounds: int, looks: int) -> float:
        return rounds * self.round + looks * self.evaluation


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
