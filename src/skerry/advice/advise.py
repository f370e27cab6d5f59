"""`skerry.advise`: S2S, S2A or a blend, on a fleet of one's own. The whole in a page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.advice.advice import Advice
from skerry.advice.curves import trace
from skerry.advice.decision import Decision, decide
from skerry.advice.ground import Ground
from skerry.advice.keeping import FILE, open_store, write
from skerry.advice.pilot import Pilot, race
from skerry.advice.planning import plan
from skerry.advice.prediction import measure, predict
from skerry.advice.question import MINUTES, SEEDS, Goal, Question, read_among, read_goal
from skerry.advice.sensitivity import Effect, effects, look_around
from skerry.advice.setting import purse_of, remarks, why_equal
from skerry.advice.timing import Timer, Watch
from skerry.errors import SkerryError
from skerry.experiment import Experiment
from skerry.runs.executors.worker import LastWorld
from skerry.runs.given import given_experiments, given_materials
from skerry.theory.communication import ONE_EACH, Prices

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.catalog import Dataset

RACE = 0.85
"""Of the time after the theory that the race may take; the rest tells what would change it."""
NEIGHBOURS = 0.6
"""Of that rest, for neighbouring K and H; then come prices."""


def advise(
    experiment: Experiment | str | Path | None = None,
    *,
    goal: str = "both",
    among: str | Sequence[str] | None = None,
    budget: float | None = None,
    budget_bytes: float | None = None,
    prices: Prices | None = None,
    rounds: int | None = None,
    stepsizes: Sequence[float] | None = None,
    minutes: float = MINUTES,
    seeds: int = SEEDS,
    device: str = "auto",
    graph: "nx.Graph[Any] | None" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    out: str | Path | None = None,
    watch: Watch | None = None,
) -> Advice:
    """Measure an experiment's own fleet, data and model, and say which primitive to use.

    `goal` is "global" (the average model), "own" (devices on their own labels) or "both" (the
    mean of the two). `among` restricts what may be recommended: `["s2s", "s2a", "blend:0.3"]`.
    With `budget` (messages), `budget_bytes` or `prices`, K and H are chosen too, and contenders
    are compared for the same money. `graph`, `dataset` and `model` take the place of what the
    experiment names. With `out` the pilot's runs are recorded in that folder, and what is
    recorded there is not run again.
    """
    timer = Timer(60 * minutes)
    question = Question(
        goal=read_goal(goal),
        among=read_among(among),
        prices=prices or ONE_EACH,
        priced=prices is not None,
        messages=budget,
        bytes=budget_bytes,
        stepsizes=tuple(stepsizes) if stepsizes is not None else None,
        seeds=seeds,
        minutes=minutes,
    )
    materials = given_materials(graph, dataset, model)
    if isinstance(experiment, str | Path):
        experiment = Experiment.load(experiment)
    (asked,) = given_experiments([experiment or Experiment()], materials)
    if rounds is not None:
        asked = asked.with_settings(f"rounds={rounds}")
    worlds = LastWorld(materials)
    worlds.of(asked, device)  # before anything is written: faults leave no traces
    with open_store(out) as store:
        ground = Ground(store, materials, device, worlds)
        advice = advise_on(question, asked, ground, timer, watch or Watch())
    if out is not None:
        write(Path(out) / FILE, advice)
    return advice


def advise_on(
    question: Question, experiment: Experiment, ground: Ground, timer: Timer, watch: Watch
) -> Advice:
    """The same where there is a ground to run on."""
    watch.doing("building the fleet")
    world = ground.world(experiment)
    notes = list(remarks(question, experiment, world))
    watch.doing("measuring the theory's constants")
    constants = measure(world, timer, notes)
    prediction = predict(constants, experiment.rounds, question.prices) if constants else None
    equal = why_equal(question, experiment, world)
    if equal:
        question = replace(question, among=question.among[:1])
    watch.doing("timing a few rounds")
    pilot = plan(question, experiment, ground, purse_of(question, experiment, world), timer, notes)
    race(pilot, ground, timer.part(RACE), watch)
    decisions = _decisions(pilot)
    if pilot.readings.diverged:
        notes.append(f"{len(pilot.readings.diverged)} of the pilot's runs diverged")
    sensitivity: Iterable[Effect] = ()
    if not equal:
        look_around(pilot, ground, timer.part(NEIGHBOURS), watch)
        curves = trace(pilot, ground, question.goal, timer, watch)
        sensitivity = effects(pilot, curves, decisions[question.goal], constants, prediction)
    return Advice(
        experiment=experiment,
        sizes=world.sizes,
        parameters=world.learner.parameters,
        goal=question.goal,
        decisions=decisions,
        pilot=pilot,
        constants=constants,
        prediction=prediction,
        sensitivity=tuple(sensitivity),
        notes=tuple(notes),
        seconds=timer.spent,
        equal=equal,
    )


def _decisions(pilot: Pilot) -> dict[Goal, Decision]:
    """For every goal."""
    readings = pilot.readings
    found = {goal: decide(readings, goal, pilot.lanes) for goal in readings.goals}
    decisions = {goal: decision for goal, decision in found.items() if decision is not None}
    if not decisions:
        smallest = min(lane.stepsize for lane in readings.values)
        raise SkerryError(
            f"every run diverged, down to a stepsize of {smallest:.2g}. Lower training.stepsize "
            f"(got {pilot.base.training.stepsize:g}), or check that the data are scaled."
        )
    return decisions
