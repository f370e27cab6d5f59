"""`skerry.advise`: recommend a server setting for a fleet, from runs on that fleet."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import torch

from skerry.advice import question as questions
from skerry.advice.answer import CurveAnswer, Verdict, answer_of, tolerance_text
from skerry.advice.answer import to_json as point_json
from skerry.advice.fleet_clock import FleetClock
from skerry.advice.pilot import AdviceProgress, Pilot, plan, run_pilot
from skerry.advice.prediction import Prediction, measure_in_time, predict, regime
from skerry.advice.question import Goal, Question, Timer
from skerry.advice.scores import Gap
from skerry.advice.sensitivity import Effect, effects
from skerry.advice.settings import Entry, budget_of, space_of
from skerry.advice.target import ClockUnit
from skerry.clock.settings import AnyClock, read_clock
from skerry.config.experiment import Experiment
from skerry.engine.world import Materials
from skerry.errors import SkerryError, skerry_command, writing
from skerry.files import plain_path, replace_file
from skerry.report.page.advice_file import FILE
from skerry.runs.driver import Driver
from skerry.runs.executors.here import Here
from skerry.runs.materials import collect_materials, with_materials
from skerry.theory.communication import ONE_EACH, Prices
from skerry.theory.constants import Constants

if TYPE_CHECKING:
    import networkx as nx

    from skerry.data.sources.catalog import Dataset

VERSION = 2  # of advice.json
RUNS = Path("runs")  # where `skerry run` records by default


@dataclass(frozen=True)
class Advice:
    """The answer of `skerry.advise`: recommendation, curve, evidence, and JSON."""

    experiment: Experiment
    sizes: tuple[int, ...]
    question: Question
    pilot: Pilot
    answer: CurveAnswer
    constants: Constants | None
    prediction: Prediction | None
    sensitivity: tuple[Effect, ...]
    notes: tuple[str, ...]
    seconds: float
    equal: str = ""  # why all settings do the same, or empty
    source: tuple[str, ...] = ()  # words of the command line that name the experiment

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Advice: {self.entry.label} for {self.goal}, {self.verdict}>"

    def _repr_html_(self) -> str:
        from skerry.advice.screen import to_html

        return to_html(self)

    def lines(self) -> list[str]:
        """The answer in a few sentences."""
        from skerry.advice.screen import summary_lines

        return summary_lines(self)

    @property
    def goal(self) -> Goal:
        return self.question.goal

    @property
    def entry(self) -> Entry:
        """The recommended setting."""
        return self.answer.recommendation.entry

    @property
    def recommendation(self) -> dict[str, Any]:
        """The recommended fields of `server` and `training`."""
        return self.entry.fields()

    @property
    def settings(self) -> list[str]:
        """The recommendation as settings of an experiment: `server.period=10`, ..."""
        fields = self.recommendation
        preset, stepsize = fields.pop("preset", ""), fields.pop("stepsize")
        if preset:
            del fields["primitive"]  # the preset sets it
        words = [f"server.{name}={value}" for name, value in fields.items() if value is not None]
        return [*words, f"training.stepsize={stepsize:.6g}"]

    @property
    def verdict(self) -> Verdict:
        return "equal" if self.equal else self.answer.verdict

    @property
    def confidence(self) -> float | None:
        """Probability of the first of `answer.statements`, which is about the recommendation."""
        found = [one.probability for one in self.answer.statements if one.probability is not None]
        return None if self.equal or not found else found[0]

    @property
    def gain(self) -> Gap | None:
        """How far "no server" is behind the best setting; None if it is the best itself."""
        return self.answer.none.behind

    def commands(self) -> dict[str, str]:
        """Commands that run the recommendation, compare it with no server, and price the runs."""
        if not self.source:
            return {}
        file = [word for word in self.source[:1] if not word.startswith("--")]
        own = self.source[len(file) :][1::2]  # of `--set FIELD=VALUE` the settings
        settings = {one.partition("=")[0].strip(): one for one in own}
        settings["rounds"] = f"rounds={self.experiment.rounds}"
        for name in ("primitive", "beta"):  # K, H and the rule stay where no server is advised
            settings.pop(f"server.{name}", None)
        settings |= {one.partition("=")[0]: one for one in self.settings}
        command = partial(skerry_command, "run", *map(Path, file), settings=settings.values())
        preset = self.entry.candidate.preset
        mine = preset or str(self.recommendation["primitive"])
        if self.recommendation["beta"] is not None:
            mine = f"{mine}:{self.recommendation['beta']:g}"
        compared = f"{mine},none" if mine != "none" else "none,s2s,s2a"
        found = {"use": command(compare=preset or None), "compare": command(compare=compared)}
        if (clock := self.question.clock_name) and "d2d_bytes" in self.experiment.wanted:
            found["price"] = skerry_command("price", RUNS, clock=clock)
        return found

    def to_json(self) -> dict[str, Any]:
        """The advice as strict JSON; numbers that are not finite become null."""
        rounds, answer, lines = self.pilot.base.rounds, self.answer, self.lines()
        messages = self.pilot.budget.messages(self.entry.candidate)
        table = {
            "version": VERSION,
            "goal": self.goal,
            "question": self._question(),
            "headline": lines[0],
            "summary": lines,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "recommended": answer.recommended,
            "recommendation": self.recommendation,
            "cost": {
                "messages": messages,
                "bytes": messages * self.pilot.message_bytes,
                "rounds": rounds,
                **self._clock_costs(),
            },
            "expected_gain": self.gain.mean if self.gain else 0.0,
            "interval": (self.gain.low, self.gain.high) if self.gain else None,
            "points": {
                name: point_json(getattr(answer, name), self.pilot)
                for name in ("best", "cheapest", "none")
            },
            "curve": [point_json(point, self.pilot) for point in answer.curve],
            "confirmed": [point_json(point, self.pilot) for point in answer.points],
            "searched": self._searched(),
            "statements": list(map(asdict, answer.statements)),
            "sensitivity": list(map(asdict, self.sensitivity)),
            "equal": self.equal,
            "regime": regime(self.constants) if self.constants else None,
            "constants": self.constants.to_json() if self.constants else None,
            "bounds": self.prediction.to_json() if self.prediction else None,
            "pilot": {
                "seeds": self.pilot.search.seeds,
                "fresh_seeds": self.pilot.fresh,
                "rounds": rounds,
                "runs": self.pilot.scores.runs,
                "diverged": len(self.pilot.scores.exploded(self.goal)),
                "seconds": self.seconds,
            },
            "commands": self.commands(),
            "notes": list(self.notes),
        }
        return dict(_finite(table))

    def _clock_costs(self) -> dict[str, float]:
        """Seconds and joules of the recommended setting, where there is a clock."""
        clock, rounds = self.pilot.budget.clock, self.pilot.base.rounds
        if clock is None:
            return {}
        units = get_args(ClockUnit)
        return {unit: clock.cost(self.entry.candidate, rounds, unit) for unit in units}

    def _question(self) -> dict[str, Any]:
        from skerry.advice.screen import ends, fixed_fields, goal_text, measure_text

        scores, prices = self.pilot.scores, self.question.prices
        best = math.nan if self.answer.best.never else self.answer.best.score.mean
        limit, clock, target = self.pilot.budget.limit, self.question.clock, scores.target
        timed: dict[str, Any] = {}
        if clock is not None:
            timed["clock"] = clock.model_dump(mode="json", exclude_none=True)
            timed["clock_name"] = self.question.clock_name
        if target is not None:
            timed["target"] = asdict(target)
            timed["measure_text"] = measure_text(self, self.goal)
        return {
            "goal": self.goal,
            "goal_text": goal_text(self, self.goal),
            "measures": list(scores.measures[self.goal]),
            "lower_is_better": scores.lower_is_better,
            "unit": "%" if scores.lower_is_better else "points",
            "tolerance": scores.tolerance * (best / 100 if scores.lower_is_better else 1),
            "tolerance_text": tolerance_text(self.pilot),
            "budget": limit,
            "cost_unit": self.question.cost_unit,
            "message_bytes": self.pilot.message_bytes,
            "prices": asdict(prices),
            "rounds": self.pilot.base.rounds,
            "minutes": self.question.minutes,
            "seconds": self.seconds,
            "varied": self.pilot.space.describe(),
            "fixed": fixed_fields(self),
            "ends": ends(self),
            "not_tried": list(self.pilot.skipped),
            **timed,
        }

    def _searched(self) -> list[dict[str, Any]]:
        """Settings that were searched but not confirmed, by cost. They ran on other seeds, so their
        scores are those of the best plus the differences from it, without the effects of seeds."""
        model, best, scores = self.answer.model, self.answer.best, self.pilot.scores
        top, found = best.score.mean, []
        for entry in scores.values:
            if entry in self.pilot.confirmed or not scores.score(entry, self.goal).count:
                continue
            e, cost = model.index[entry], self.pilot.budget.cost(entry.candidate)
            ahead, runs = (
                model.raw_e[e] - model.raw_e[model.index[best.entry]],
                len(scores.values[entry]),
            )
            score, error = top + ahead, model.surface.noise / math.sqrt(runs)
            if scores.target is not None and scores.score(entry, self.goal).count < runs:
                continue  # it has no mean
            if scores.lower_is_better:
                score, error = top * math.exp(-ahead / 100), top * error / 100
            row = {"label": entry.label, "cost": cost, "score": score, "error": error}
            found.append(row | {"runs": runs})
        return sorted(found, key=lambda row: row["cost"])


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
    goal: str = questions.DEFAULT_GOAL,
    among: str | Sequence[str | Callable[..., Any]] | None = None,
    budget: float | None = None,
    budget_uploads: float | None = None,
    budget_bytes: float | None = None,
    budget_seconds: float | str | None = None,
    budget_joules: float | str | None = None,
    clock: AnyClock | None = None,
    cost: str | None = None,
    prices: Prices | None = None,
    rounds: int | None = None,
    sampled: Sequence[int] | None = None,
    periods: Sequence[int] | None = None,
    stepsizes: Sequence[float] | None = None,
    minutes: float = questions.MINUTES,
    seeds: int = questions.SEEDS,
    device: str = "auto",
    graph: "nx.Graph[Any] | None" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    out: str | Path | None = None,
    progress: AdviceProgress | bool | None = None,
    source: Sequence[str] = (),
) -> Advice:
    """Run an experiment's own fleet, data and model, and recommend a setting of the server.

    The answer is a curve of score against cost, from no server upward. It names the best setting
    within the budget, the cheapest one that is level with it (within 0.2 points of accuracy or 1 %
    of the loss), which is recommended, and what is lost without a server.

    `goal` is "global" (the average model), "own" (devices on data like their own), "both" (the
    mean of the two) or "worst_tenth" (the tenth of the devices that is worst on data like their
    own). `among` lists what may be recommended: primitives such as `["none", "s2s", "blend:0.3"]`,
    presets and methods such as `"gradient_tracking"` and `"carry"`, and selection rules such as
    `["uniform", "one_each"]`. Without a rule, the experiment's own and `one_each` are compared.
    `sampled`, `periods` and `stepsizes` are the values of K, H and the stepsize to try; by default
    ranges around the experiment's own, which are extended where the best value lies at an end.
    `budget` limits the cost of a whole run in messages at their `prices`, `budget_uploads` counts
    uploads alone, and `budget_bytes` is in bytes. With a `clock` (a file, the name of an example,
    or tables), costs are in seconds, or in joules with `cost="joules"`; `budget_seconds` and
    `budget_joules` limit them (600, "10 min", "3 kJ"); and the goals "88% soonest" and "88% with
    fewest joules" ask for the setting that reaches a score with the fewest of them ("own 88%
    soonest" and "0.3 soonest" for other goals and for losses). `graph`, `dataset` and `model`
    replace those of the experiment. With `out` the pilot's runs are recorded in that folder, and
    runs that are already recorded there are not repeated. `progress` is True for a progress bar, or
    lines where there is no terminal (the default on a terminal), False for none, or your own
    `AdviceProgress`. `source` has the words of a command line that name the experiment, for the
    commands that the answer prints.
    """
    from skerry.advice.screen import show_advice_progress

    timer = Timer(60 * minutes)
    if budget_uploads is not None:
        if budget is not None or prices is not None:
            raise SkerryError(
                "a budget of uploads counts uploads alone (got another budget or prices too). Give "
                "one of them."
            )
        budget, prices = budget_uploads, Prices(downlink=0.0)
    name, target = questions.read_goal_and_target(goal)
    if isinstance(experiment, str | Path):
        source = source or (str(experiment),)
        experiment = Experiment.load(experiment)
    needs_clock = target or budget_seconds or budget_joules or cost in ("seconds", "joules")
    if clock is None and needs_clock and experiment and experiment.clock.file:
        clock = plain_path(experiment.clock.file)
    question = Question(
        goal=name,
        target=target,
        clock=read_clock(clock) if clock is not None else None,
        clock_name=str(clock) if isinstance(clock, str | Path) else "",
        cost=questions.read_cost(cost) if cost is not None else None,
        seconds=questions.read_budget("seconds", budget_seconds),
        joules=questions.read_budget("joules", budget_joules),
        among=questions.read_among(among),
        prices=prices or ONE_EACH,
        limit=budget,
        bytes=budget_bytes,
        sampled=tuple(sampled) if sampled is not None else None,
        periods=tuple(periods) if periods is not None else None,
        stepsizes=tuple(stepsizes) if stepsizes is not None else None,
        seeds=seeds,
        minutes=minutes,
    )
    materials = collect_materials(graph, dataset, model)
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
        advice = advise_on(
            question, asked, here, Path(folder), timer, shown, materials, tuple(source)
        )
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
    source: tuple[str, ...] = (),
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
        notes.append("settings are compared after equal rounds, so stop is left out")
        experiment = experiment.model_copy(update={"stop": ""})
    clock = None
    if question.clock is not None:
        progress.doing("computing seconds and joules")
        clock = FleetClock(question.clock, experiment, world, here.world)
    budget = budget_of(question, experiment, world, clock)
    space = space_of(question, experiment, budget, world.sizes)
    progress.doing("timing a few rounds")
    threads = torch.get_num_threads()
    try:
        with recording_in(folder) as driver:
            pilot = plan(question, experiment, space, here, driver, timer, progress)
            run_pilot(pilot)
    finally:
        torch.set_num_threads(threads)
    if exploded := pilot.scores.exploded(question.goal):
        notes.append(
            f"{len(exploded)} of {pilot.scores.runs} runs exploded and count as worst "
            f"(stepsizes from {min(entry.stepsize for entry, _ in exploded):.3g} on)"
        )
    answer = answer_of(pilot)
    progress.doing("measuring the theory's constants")
    constants = measure_in_time(world, timer, notes)
    prediction = (
        predict(constants, experiment.rounds, question.prices, notes) if constants else None
    )
    server = experiment.server
    equal = ""
    if server.offset >= experiment.rounds:
        equal = (
            f"the first server round comes after {server.offset} rounds, and there are "
            f"{experiment.rounds}"
        )
    return Advice(
        experiment=experiment,
        sizes=world.sizes,
        question=question,
        pilot=pilot,
        answer=answer,
        constants=constants,
        prediction=prediction,
        sensitivity=() if equal else tuple(effects(pilot, answer, prediction)),
        notes=tuple(notes),
        seconds=timer.spent,
        equal=equal,
        source=source,
    )
