"""`skerry.advise`: S2S, S2A, a blend or a method, and whom to sample, on a fleet of one's own. The
whole in a page."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.advice.advice import Advice
from skerry.advice.contenders import budget_of, why_equal
from skerry.advice.decision import Decision, decide
from skerry.advice.plan import plan
from skerry.advice.prediction import measure_constants, predict
from skerry.advice.question import (
    MINUTES,
    SEEDS,
    Among,
    Goal,
    Question,
    Timer,
    read_among,
    read_goal,
    remarks,
)
from skerry.advice.race import AdviceWatcher, Pilot, race
from skerry.advice.sensitivity import Effect, effects, trace, try_nearby
from skerry.config.experiment import Experiment
from skerry.engine.world import Materials
from skerry.errors import RecordsError, SkerryError
from skerry.files import replace_file
from skerry.report.page.sections.advice import FILE
from skerry.runs.driver import Driver
from skerry.runs.executors.here import Here
from skerry.runs.materials import collect_materials, with_materials
from skerry.theory.communication import ONE_EACH, Prices

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.sources.catalog import Dataset

RACE = 0.85
"""Of the time after the theory that the race may take; the rest tells what would change it."""
NEARBY = 0.6
"""Of that rest, for neighbouring K and H; then come prices."""


def advise(
    experiment: Experiment | str | Path | None = None,
    *,
    goal: str = "both",
    among: str | Sequence[str | Callable[..., Any]] | None = None,
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
    watcher: AdviceWatcher | None = None,
) -> Advice:
    """Measure an experiment's own fleet, data and model, and say which primitive to use.

    `goal` is "global" (the average model), "own" (devices on data like their own), "both" (the
    mean of the two) or "worst_tenth" (the tenth of the devices that is worst on data like their
    own, so that nobody is left behind). `among` says what may be recommended:
    `["s2s", "s2a", "blend:0.3"]`, presets, methods among them, such as `"gradient_tracking"` and
    `"carry"`, and the rules of selection, `["uniform", "one_each"]`; where no rule is named, the
    experiment's own and those that meet every island.
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
    materials = collect_materials(graph, dataset, model)
    if isinstance(experiment, str | Path):
        experiment = Experiment.load(experiment)
    (asked,) = with_materials([experiment or Experiment()], materials)
    if rounds is not None:
        asked = asked.with_settings(f"rounds={rounds}")
    records = nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-")
    with Here(device=device, materials=materials) as here, records as folder:
        advice = advise_on(
            question, asked, here, Path(folder), timer, watcher or AdviceWatcher(), materials
        )
    if out is not None:
        _write(advice, Path(out) / FILE)
    return advice


def advise_on(
    question: Question,
    experiment: Experiment,
    here: Here,
    folder: Path,
    timer: Timer,
    watcher: AdviceWatcher,
    materials: Materials | None = None,
) -> Advice:
    """The same, with the time running and a place to compute and to record."""
    recording_in = partial(
        Driver,
        here,
        progress=watcher,
        materials=materials,
        keep_going=False,
        checkpoint_seconds=math.inf,
    )
    question.check_fits(experiment.server)
    watcher.doing("building the fleet")
    world = here.world(experiment)  # before anything is written: faults leave no traces
    notes = list(remarks(question, experiment, world))
    watcher.doing("measuring the theory's constants")
    constants = measure_constants(world, timer, notes)
    prediction = (
        predict(constants, experiment.rounds, question.prices, notes) if constants else None
    )
    equal = why_equal(question, experiment, world)
    if equal:
        first = question.among.primitives[:1]
        question = replace(question, among=Among(first, (experiment.server.selection,)))
    watcher.doing("timing a few rounds")
    budget = budget_of(question, experiment, world)
    with recording_in(folder) as driver:
        pilot = plan(question, experiment, budget, here, driver, timer, notes, world.sizes)
        race(pilot, driver, timer.part(RACE), watcher)
        decisions = _decisions(pilot)
        if diverged := pilot.scores.diverged:
            notes.append(f"{len(diverged)} of the pilot's runs diverged")
        if not equal:
            try_nearby(pilot, driver, timer.part(NEARBY), watcher)
    sensitivity: tuple[Effect, ...] = ()
    if not equal:
        # These runs are not kept: beside the pilot's they would look like another study.
        with TemporaryDirectory(prefix="skerry-") as aside, recording_in(Path(aside)) as driver:
            curves = trace(pilot, driver, timer, watcher)
        sensitivity = tuple(effects(pilot, curves, decisions[question.goal], prediction))
    return Advice(
        experiment=experiment,
        sizes=world.sizes,
        parameters=world.learner.parameters,
        goal=question.goal,
        decisions=decisions,
        pilot=pilot,
        constants=constants,
        prediction=prediction,
        sensitivity=sensitivity,
        notes=tuple(notes),
        seconds=timer.spent,
        equal=equal,
    )


def _decisions(pilot: Pilot) -> dict[Goal, Decision]:
    """For every goal."""
    scores = pilot.scores
    found = {goal: decide(scores, goal, pilot.entries) for goal in scores.goals}
    decisions = {goal: decision for goal, decision in found.items() if decision is not None}
    if not decisions:
        smallest = min(entry.stepsize for entry in scores.values)
        raise SkerryError(
            f"every run diverged, down to a stepsize of {smallest:.2g}. Lower training.stepsize "
            f"(got {pilot.base.training.stepsize:g}), or check that the data are scaled."
        )
    return decisions


def _write(advice: Advice, file: Path) -> None:
    text = json.dumps(advice.to_json(), indent=1, allow_nan=False)
    try:
        replace_file(file, f"{text}\n".encode())
    except OSError as error:
        raise RecordsError(
            f"cannot write {file} ({error.strerror}). Choose a folder that can be written."
        ) from None
