"""The answer: as data, as strict JSON, and in a few lines."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from skerry.advice.contenders import Contender, Entry
from skerry.advice.decision import Decision, Rival, Verdict, rivals_of
from skerry.advice.prediction import Prediction, regime
from skerry.advice.question import Goal
from skerry.advice.race import Pilot
from skerry.advice.sensitivity import Effect
from skerry.analysis.statistics import Estimate
from skerry.config.experiment import Experiment
from skerry.measure.ledger import BYTES_PER_PARAMETER
from skerry.report.text import plus_minus
from skerry.theory.constants import Constants

GOALS_IN_WORDS: dict[Goal, str] = {
    "global": "accuracy of the average model",
    "own": "accuracy of devices on their own labels",
    "both": "mean of global and own accuracy",
    "worst_tenth": "accuracy of the worst tenth of the devices on their own labels",
}
LOSSES_IN_WORDS: dict[Goal, str] = {
    "global": "loss of the average model",
    "own": "loss of devices on data like their own",
    "both": "mean of global and own loss",
    "worst_tenth": "loss of the worst tenth of the devices on data like their own",
}


@dataclass(frozen=True)
class Advice:
    experiment: Experiment
    sizes: tuple[int, ...]
    parameters: int
    """Of the model: what a message carries."""
    goal: Goal
    decisions: dict[Goal, Decision]
    """For every goal that the model has."""
    pilot: Pilot
    constants: Constants | None
    prediction: Prediction | None
    sensitivity: tuple[Effect, ...]
    notes: tuple[str, ...]
    seconds: float
    equal: str = ""
    """Why all primitives do the same, where they do."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Advice: {self.best.contender.label} for {self.goal}, {self.verdict}>"

    def _repr_html_(self) -> str:
        from skerry.advice.screen import to_html

        return to_html(self)

    def lines(self) -> list[str]:
        """The recommendation, what it gains, whom to sample, the other goals, and the theory."""
        return [*_headline(self), *_selection(self), *_other_goals(self), *_theory(self)]

    @property
    def decision(self) -> Decision:
        return self.decisions[self.goal]

    @property
    def best(self) -> Entry:
        return self.decision.best

    @property
    def recommendation(self) -> dict[str, Any]:
        """As fields of an experiment's server and training."""
        return _fields(self.best)

    @property
    def verdict(self) -> Verdict:
        return "equal" if self.equal else self.decision.verdict

    @property
    def confidence(self) -> float | None:
        return None if self.equal else self.decision.confidence

    @property
    def expected_gain(self) -> float | None:
        """Over the best of the other primitives, in the goal's own unit."""
        runner_up = self.decision.runner_up
        return runner_up.lead.mean if runner_up else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the gain, 95 %; None with a single seed."""
        runner_up = self.decision.runner_up
        if runner_up is None or runner_up.lead.count < 2:
            return None
        return runner_up.lead.low, runner_up.lead.high

    @property
    def agreement(self) -> bool | None:
        """Whether bounds and pilot prefer the same of S2S and S2A for the average model; None
        where either has no preference."""
        favoured = self.prediction.favours() if self.prediction else None
        scores, entries = self.pilot.scores, self.pilot.entries
        best = scores.best_by_primitive(entries, "global")
        if favoured is None or self.equal or not {"s2s", "s2a"} <= best.keys():
            return None
        leading = scores.best((best["s2s"], best["s2a"]), "global")
        return leading is not None and favoured == leading.contender.primitive

    def standings(self) -> list[tuple[Entry, dict[Goal, Estimate]]]:
        """Every contender still in the race, at its best stepsize for the goal that decides, and
        its score for every goal there; best first."""
        scores = self.pilot.scores
        found = [
            (entry, {goal: scores.estimate(entry, goal) for goal in scores.goals})
            for entry in self.pilot.tuned(self.goal)
        ]
        return sorted(found, key=lambda row: -row[1][self.goal].mean)

    def selection_alone(self) -> tuple[Entry, Rival] | None:
        """What a change of the selection alone would give: the experiment's own primitive under
        the best rule, and its lead over the experiment's rule. None where that is no change."""
        server, scores = self.experiment.server, self.pilot.scores
        own = [e for e in self.pilot.entries if e.contender.kind == server.primitive]
        by_rule = scores.best_of_each(own, self.goal, lambda contender: contender.selection)
        best = scores.best(by_rule.values(), self.goal)
        before = by_rule.get(server.selection)
        if best is None or before is None or best == before:
            return None
        (gained,) = rivals_of(scores, self.goal, best, [before])
        return best, gained

    def cost(self, contender: Contender) -> float:
        """Messages at their prices, over the pilot's rounds or as far as the budget goes."""
        budget = self.pilot.budget
        return budget.cost(contender, budget.reach(contender))

    def bytes(self, contender: Contender) -> float:
        """The same in bytes, a message being one model."""
        return self.cost(contender) * BYTES_PER_PARAMETER * self.parameters

    def label(self, contender: Contender) -> str:
        """With selection, K and H where contenders that are left differ in them."""
        return contender.label_among(self.pilot.contenders)

    def to_json(self) -> dict[str, Any]:
        """Strict JSON: what is not a finite number is null."""
        interval = self.interval
        table = {
            "recommendation": self.recommendation,
            "goal": self.goal,
            "verdict": self.verdict,
            "confidence": self.confidence,
            "expected_gain": self.expected_gain,
            "interval": list(interval) if interval else None,
            "cost": {
                "messages": self.cost(self.best.contender),
                "bytes": self.bytes(self.best.contender),
                "rounds": self.pilot.budget.reach(self.best.contender),
            },
            "equal": self.equal,
            "goals": {goal: self._goal(one) for goal, one in self.decisions.items()},
            "regime": regime(self.constants) if self.constants else None,
            "constants": self.constants.to_json() if self.constants else None,
            "bounds": self.prediction.to_json() if self.prediction else None,
            "agreement": self.agreement,
            "pilot": self._pilot(),
            "sensitivity": [effect.to_json() for effect in self.sensitivity],
            "notes": list(self.notes),
            "summary": self.lines(),
        }
        found: dict[str, Any] = _finite(table)
        return found

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
                    "cost": self.cost(entry.contender),
                    "scores": {goal: asdict(score) for goal, score in scores.items()},
                }
                for entry, scores in self.standings()
            ],
        }


def _fields(entry: Entry) -> dict[str, Any]:
    return entry.contender.fields() | {"stepsize": entry.stepsize}


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


# In words


def _headline(advice: Advice) -> Iterator[str]:
    best, decision = advice.best, advice.decision
    contender = best.contender
    setting = (
        f"{contender.label}, sampled by {contender.selection}, K = {contender.sampled}, "
        f"H = {contender.period}, stepsize {best.stepsize:.3g}"
    )
    if advice.equal:
        yield f"All primitives do the same: {advice.equal}. Take {setting}."
        return
    if decision.verdict == "unclear":
        yield f"No clear winner. Best so far: {setting}."
    else:
        yield f"Recommendation: {setting}."
    yield _gain(advice, decision)
    if decision.verdict == "unclear":
        yield from _doubt(advice, decision)
    yield _cost(advice)


def _gain(advice: Advice, decision: Decision) -> str:
    """`Mean of global and own accuracy 94.8 %: 0.52 ± 0.21 points above s2a, the runner-up (seeds:
    20, confidence 98 %).`"""
    words, score = _goal_in_words(advice, decision.goal), decision.score
    told = f"{-score.mean:.4g}" if advice.pilot.scores.are_losses else f"{score.mean:.2f} %"
    text = f"{words[0].upper()}{words[1:]} {told}"
    rival = decision.runner_up
    if rival is None:
        return f"{text}; nothing else was compared."
    lead = _lead_in_words(advice, rival)
    return f"{text}: {lead}, the runner-up (seeds: {score.count}{_sure(decision)})."


def _sure(decision: Decision) -> str:
    """Never 100 %: a test leaves some doubt."""
    sure = decision.confidence
    if sure is None:
        return ""
    return ", confidence above 99 %" if sure > 0.99 else f", confidence {100 * sure:.0f} %"


def _goal_in_words(advice: Advice, goal: Goal) -> str:
    if "own" not in advice.pilot.scores.goals:
        return LOSSES_IN_WORDS["global"]
    return (LOSSES_IN_WORDS if advice.pilot.scores.are_losses else GOALS_IN_WORDS)[goal]


def _selection(advice: Advice) -> Iterator[str]:
    """Whom to sample: what the rule gives under the recommended primitive, and what it alone would
    give under the experiment's own."""
    rivals, best = advice.decision.selections, advice.best.contender
    if advice.equal or not rivals:
        return
    told = not advice.decision.rivals  # as the runner-up
    if not told and all(rival.is_clear for rival in rivals):
        yield (
            f"Whom to sample: {best.selection}, {_lead_in_words(advice, rivals[0])}, the same "
            "primitive under the closest other rule."
        )
    elif not told:
        level = [rival for rival in rivals if not rival.is_clear]
        others = " and ".join(rival.entry.contender.selection for rival in level)
        most = max(max(-rival.lead.low, rival.lead.high) for rival in level)
        unit = "" if advice.pilot.scores.are_losses else " points"
        within = f" (they differ by at most {most:.2g}{unit}, 95 %)" if math.isfinite(most) else ""
        yield f"Whom to sample: {best.selection} is not clearly better than {others}{within}."
    if (alone := advice.selection_alone()) and alone[1].is_clear:
        entry, gained = alone
        yield (
            f"The cheapest change: keep {advice.experiment.server.primitive} and sample by "
            f"{entry.contender.selection}, which alone is {_lead_in_words(advice, gained)}."
        )


def _lead_in_words(advice: Advice, rival: Rival) -> str:
    """`0.52 ± 0.21 points above s2a`, or for losses `0.012 ± 0.004 below s2a`."""
    losses, lead = advice.pilot.scores.are_losses, rival.lead
    style = ".3g" if losses else ".2f"
    told = plus_minus(lead.mean, lead.half_width, style, style)
    return f"{told} {'below' if losses else 'points above'} {advice.label(rival.entry.contender)}"


def _doubt(advice: Advice, decision: Decision) -> Iterator[str]:
    """What would settle it, and what is cheaper meanwhile."""
    needed, lead = decision.seeds_to_settle(), decision.decisive[0].lead
    if lead.count < 2:
        yield "One seed says nothing about chance: give more seeds or minutes."
        return
    unit = "" if advice.pilot.scores.are_losses else " points"
    most = f"The two differ by at most {max(-lead.low, lead.high):.2g}{unit} (95 %)"
    if needed is None:
        yield f"{most}; no reasonable number of seeds would tell them apart."
    else:
        minutes = (needed - decision.score.count) * advice.pilot.seconds_per_seed / 60
        yield (
            f"{most}. To settle it, give {needed} seeds: about {max(0.1, minutes):.1f} minutes "
            "more here."
        )
    level = [rival.entry.contender for rival in decision.decisive if not rival.is_clear]
    cheaper = min(level, key=advice.cost, default=None)
    if cheaper and advice.cost(cheaper) < advice.cost(advice.best.contender):
        told = f"{advice.label(cheaper)}, {_spent(advice.cost(cheaper))}"
        yield f"Level with it and cheaper: {told}."


def _cost(advice: Advice) -> str:
    contender, budget = advice.best.contender, advice.pilot.budget
    rounds = budget.reach(contender)
    text = f"Cost over {rounds} rounds: {_spent(advice.cost(contender))}"
    text += f", {advice.bytes(contender) / 1e6:,.3g} MB"
    rival = advice.decision.runner_up
    if rival is not None:
        other = rival.entry.contender
        text += f"; {advice.label(other)} {_spent(advice.cost(other))}"
        if budget.reach(other) != rounds:
            text += f" over {budget.reach(other)} rounds"
    return f"{text}."


def _spent(cost: float) -> str:
    return f"{cost:,.0f} messages" if cost == int(cost) else f"{cost:,.1f} messages' worth"


def _other_goals(advice: Advice) -> Iterator[str]:
    """The goals that did not decide."""
    if advice.equal or "own" not in advice.pilot.scores.goals:
        return
    for goal, decision in advice.decisions.items():
        rival = decision.runner_up
        if goal == advice.goal or rival is None:
            continue
        clear = "" if decision.verdict == "clear" else " (not a clear lead)"
        yield (
            f"For the {_goal_in_words(advice, goal)} alone: "
            f"{advice.label(decision.best.contender)}, {_lead_in_words(advice, rival)}{clear}."
        )


def _theory(advice: Advice) -> Iterator[str]:
    if advice.constants is not None:
        yield f"Your problem: {regime(advice.constants)}."
    if advice.prediction is None or advice.equal:
        return
    if advice.prediction.favours() is None:
        yield "Theory: the bounds of S2S and S2A are too close to prefer either."
        return
    fewer, more = sorted(advice.prediction.order, key=lambda answer: answer.rounds)
    times = f"{more.rounds / fewer.rounds:.3g} times as many"
    many = "infinitely many" if math.isinf(more.rounds) else times
    agree = {
        True: "; the pilot agrees",
        False: "; the pilot disagrees, and it ran your problem: trust it",
        None: "",
    }[advice.agreement]
    yield (
        f"Theory: for the average model the bounds favour {fewer.primitive} ({more.primitive} "
        f"needs {many} rounds){agree}."
    )
