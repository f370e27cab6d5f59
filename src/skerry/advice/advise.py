"""`skerry.advise`: recommend a primitive, a method and a selection rule for a fleet."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.advice import question as questions
from skerry.advice.candidates import Candidate, Entry, budget_of, why_equal
from skerry.advice.decision import Decision, Rival, Verdict, decide, rivals_of
from skerry.advice.pilot import AdviceProgress, Pilot, plan, race
from skerry.advice.prediction import Prediction, measure_in_time, predict, regime
from skerry.advice.question import Among, Goal, Question, Timer
from skerry.advice.sensitivity import Effect, effects, run_full_curves, run_nearby
from skerry.analysis.statistics import Estimate
from skerry.config.experiment import Experiment
from skerry.engine.world import Materials
from skerry.errors import SkerryError, writing
from skerry.files import replace_file
from skerry.measure.ledger import BYTES_PER_PARAMETER
from skerry.report.page.sections.advice import FILE
from skerry.runs.driver import Driver
from skerry.runs.executors.here import Here
from skerry.runs.materials import collect_materials, with_materials
from skerry.theory.communication import ONE_EACH, Prices
from skerry.theory.constants import Constants

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.sources.catalog import Dataset

RACE = 0.85  # fraction of the time after the theory for the race; the rest is for sensitivity
NEARBY = 0.6  # fraction of that rest for neighbouring K and H; the remainder is for prices


@dataclass(frozen=True)
class Advice:
    """The answer of `skerry.advise`: recommendation, evidence, and JSON."""

    experiment: Experiment
    sizes: tuple[int, ...]
    parameters: int  # number of parameters that a message carries
    goal: Goal
    decisions: dict[Goal, Decision]  # the decision for every goal of the task
    pilot: Pilot
    constants: Constants | None
    prediction: Prediction | None
    sensitivity: tuple[Effect, ...]
    notes: tuple[str, ...]
    seconds: float
    equal: str = ""  # why all primitives do the same, or empty

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Advice: {self.best.candidate.label} for {self.goal}, {self.verdict}>"

    def _repr_html_(self) -> str:
        from skerry.advice.screen import to_html

        return to_html(self)

    def lines(self) -> list[str]:
        """The answer in a few sentences."""
        from skerry.advice.screen import summary_lines

        return summary_lines(self)

    @property
    def decision(self) -> Decision:
        return self.decisions[self.goal]

    @property
    def best(self) -> Entry:
        return self.decision.best

    @property
    def recommendation(self) -> dict[str, Any]:
        """The recommended fields of `server` and `training`."""
        return _fields(self.best)

    @property
    def verdict(self) -> Verdict:
        return "equal" if self.equal else self.decision.verdict

    @property
    def confidence(self) -> float | None:
        return None if self.equal else self.decision.confidence

    @property
    def expected_gain(self) -> float | None:
        """Lead over the best other primitive, in the unit of the goal."""
        runner_up = self.decision.runner_up
        return runner_up.lead.mean if runner_up else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the gain; None with a single seed."""
        runner_up = self.decision.runner_up
        if runner_up is None or runner_up.lead.count < 2:
            return None
        return runner_up.lead.low, runner_up.lead.high

    @property
    def agreement(self) -> bool | None:
        """Whether the bounds and the pilot prefer the same primitive for the average model; None if
        either has no preference."""
        favoured = self.prediction.favours() if self.prediction else None
        scores, entries = self.pilot.scores, self.pilot.entries
        best = scores.best_by_primitive(entries, "global")
        if favoured is None or self.equal or not {"s2s", "s2a"} <= best.keys():
            return None
        leading = scores.best((best["s2s"], best["s2a"]), "global")
        return leading is not None and favoured == leading.candidate.primitive

    def ranking(self) -> list[tuple[Entry, dict[Goal, Estimate]]]:
        """The remaining candidates, best first, each at its best stepsize for the goal, with its
        score for every goal."""
        scores = self.pilot.scores
        found = [
            (entry, {goal: scores.estimate(entry, goal) for goal in scores.goals})
            for entry in self.pilot.tuned(self.goal)
        ]
        return sorted(found, key=lambda row: -row[1][self.goal].mean)

    def selection_alone(self) -> tuple[Entry, Rival] | None:
        """The experiment's own primitive under the best selection rule, and its lead over the
        experiment's rule; None if the rule is the same."""
        server, scores = self.experiment.server, self.pilot.scores
        own = [e for e in self.pilot.entries if e.candidate.kind == server.primitive]
        by_rule = scores.best_of_each(own, self.goal, lambda candidate: candidate.selection)
        best = scores.best(by_rule.values(), self.goal)
        before = by_rule.get(server.selection)
        if best is None or before is None or best == before:
            return None
        (gained,) = rivals_of(scores, self.goal, best, [before])
        return best, gained

    def cost(self, candidate: Candidate) -> float:
        """Cost of a candidate over the pilot's rounds, or as far as the budget goes."""
        budget = self.pilot.budget
        return budget.cost(candidate, budget.reach(candidate))

    def bytes(self, candidate: Candidate) -> float:
        """The cost in bytes, where a message is one model."""
        return self.cost(candidate) * BYTES_PER_PARAMETER * self.parameters

    def label(self, candidate: Candidate) -> str:
        """Label of a candidate, with selection, K and H where remaining candidates differ."""
        return candidate.label_among(self.pilot.candidates)

    def to_json(self) -> dict[str, Any]:
        """The advice as strict JSON; numbers that are not finite become null."""
        table = {
            "recommendation": self.recommendation,
            "goal": self.goal,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "expected_gain": self.expected_gain,
            "interval": self.interval,
            "cost": {
                "messages": self.cost(self.best.candidate),
                "bytes": self.bytes(self.best.candidate),
                "rounds": self.pilot.budget.reach(self.best.candidate),
            },
            "equal": self.equal,
            "goals": {goal: self._goal(one) for goal, one in self.decisions.items()},
            "regime": regime(self.constants) if self.constants else None,
            "constants": self.constants.to_json() if self.constants else None,
            "bounds": self.prediction.to_json() if self.prediction else None,
            "agreement": self.agreement,
            "pilot": self._pilot(),
            "sensitivity": list(map(asdict, self.sensitivity)),
            "notes": list(self.notes),
            "summary": self.lines(),
        }
        return dict(_finite(table))

    def _goal(self, decision: Decision) -> dict[str, Any]:
        return {
            "best": _fields(decision.best),
            "score": asdict(decision.score),
            "verdict": "equal" if self.equal else decision.verdict,
            "confidence": None if self.equal else decision.confidence,
            "rivals": list(map(_rival, decision.rivals)),
            "selections": list(map(_rival, decision.selections)),
            "seeds_to_settle": decision.seeds_to_settle(),
        }

    def _pilot(self) -> dict[str, Any]:
        pilot = self.pilot
        return {
            "seeds": pilot.seeds,
            "rounds": pilot.base.rounds,
            "every": pilot.base.evaluate.every,
            "runs": pilot.runs,
            "stopped": pilot.stopped,
            "seconds": self.seconds,
            "measures": {goal: list(names) for goal, names in pilot.scores.measures.items()},
            "diverged": len(pilot.scores.diverged),
            "standings": [
                {
                    **_fields(entry),
                    "cost": self.cost(entry.candidate),
                    "scores": {goal: asdict(score) for goal, score in scores.items()},
                }
                for entry, scores in self.ranking()
            ],
        }


def _fields(entry: Entry) -> dict[str, Any]:
    return entry.candidate.fields() | {"stepsize": entry.stepsize}


def _rival(rival: Rival) -> dict[str, Any]:
    return {"lane": _fields(rival.entry), "gap": asdict(rival.lead), "p": rival.p}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    minutes: float = questions.MINUTES,
    seeds: int = questions.SEEDS,
    device: str = "auto",
    graph: "nx.Graph[Any] | None" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    out: str | Path | None = None,
    progress: AdviceProgress | bool | None = None,
) -> Advice:
    """Measure an experiment's own fleet, data and model, and say which primitive to use.

    `goal` is "global" (the average model), "own" (devices on data like their own), "both" (the
    mean of the two) or "worst_tenth" (the tenth of the devices that is worst on data like their
    own). `among` lists what may be recommended: primitives such as `["s2s", "s2a", "blend:0.3"]`,
    presets and methods such as `"gradient_tracking"` and `"carry"`, and selection rules such as
    `["uniform", "one_each"]`. Without a rule, the experiment's own rule and those that sample
    every island are compared.
    With `budget` (messages), `budget_bytes` or `prices`, K and H are chosen too, and candidates
    are compared at equal cost. `graph`, `dataset` and `model` replace those of the experiment.
    With `out` the pilot's runs are recorded in that folder, and runs that are already recorded
    there are not repeated. `progress` is True for a progress bar, or lines where there is no
    terminal (the default on a terminal), False for none, or your own `AdviceProgress`.
    """
    from skerry.advice.screen import show_advice_progress

    timer = Timer(60 * minutes)
    question = Question(
        goal=questions.read_goal(goal),
        among=questions.read_among(among),
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
    with (
        nullcontext(progress)
        if isinstance(progress, AdviceProgress)
        else show_advice_progress(minutes, progress) as shown,
        Here(device=device, materials=materials) as here,
        records as folder,
    ):
        advice = advise_on(question, asked, here, Path(folder), timer, shown, materials)
    if out is not None:
        text = json.dumps(advice.to_json(), indent=1, allow_nan=False)
        with writing(file := Path(out) / FILE):
            replace_file(file, f"{text}\n".encode())
    return advice


def advise_on(
    question: Question,
    experiment: Experiment,
    here: Here,
    folder: Path,
    timer: Timer,
    progress: AdviceProgress,
    materials: Materials | None = None,
) -> Advice:
    """Answer a question within the timer, with an executor and a folder for records."""
    recording_in = partial(
        Driver,
        here,
        progress=progress,
        materials=materials,
        keep_going=False,
        checkpoint_seconds=math.inf,
    )
    question.check_fits(experiment.server)
    progress.doing("building the fleet")
    world = here.world(experiment)  # built first: an error leaves no files behind
    notes = list(questions.special_cases(question, experiment, world))
    if experiment.stop:
        notes.append("candidates are compared after equal rounds or cost, so stop is left out")
        experiment = experiment.model_copy(update={"stop": ""})
    progress.doing("measuring the theory's constants")
    constants = measure_in_time(world, timer, notes)
    prediction = (
        predict(constants, experiment.rounds, question.prices, notes) if constants else None
    )
    equal = why_equal(question, experiment, world)
    if equal:
        first = question.among.primitives[:1]
        question = replace(question, among=Among(first, (experiment.server.selection,)))
    progress.doing("timing a few rounds")
    budget = budget_of(question, experiment, world)
    with recording_in(folder) as driver:
        pilot = plan(question, experiment, budget, here, driver, timer, notes, world.sizes)
        race(pilot, driver, timer.part(RACE), progress)
        decisions = _decisions(pilot)
        if diverged := pilot.scores.diverged:
            notes.append(f"{len(diverged)} of the pilot's runs diverged")
        if not equal:
            run_nearby(pilot, driver, timer.part(NEARBY), progress)
    sensitivity: tuple[Effect, ...] = ()
    if not equal:
        # These runs are not recorded with the pilot's: they have other evaluations.
        with TemporaryDirectory(prefix="skerry-") as aside, recording_in(Path(aside)) as driver:
            curves = run_full_curves(pilot, driver, timer, progress)
        sensitivity = tuple(effects(pilot, curves, decisions[question.goal], prediction))
    return Advice(
        experiment=experiment,
        sizes=world.sizes,
        parameters=world.shared_parameters,
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
