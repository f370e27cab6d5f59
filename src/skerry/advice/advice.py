"""The answer as data; it prints as a few lines."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from skerry.advice.contenders import Contender, Lane
from skerry.advice.decision import Decision, Verdict
from skerry.advice.pilot import Pilot
from skerry.advice.prediction import Prediction, regime
from skerry.advice.question import Goal
from skerry.advice.sensitivity import Effect
from skerry.analysis.statistics import Estimate, estimate
from skerry.experiment import Experiment
from skerry.measure.ledger import BYTES_PER_PARAMETER
from skerry.theory.constants import Constants


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
        from skerry.advice.words import lines

        return "\n".join(lines(self))

    @property
    def decision(self) -> Decision:
        return self.decisions[self.goal]

    @property
    def best(self) -> Lane:
        return self.decision.best

    @property
    def recommendation(self) -> dict[str, Any]:
        """As fields of an experiment's server and training."""
        return _lane(self.best)

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
        return runner_up.gap.mean if runner_up else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the gain, 95 %; None with a single seed."""
        runner_up = self.decision.runner_up
        if runner_up is None or runner_up.gap.count < 2:
            return None
        return runner_up.gap.low, runner_up.gap.high

    @property
    def agreement(self) -> bool | None:
        """Whether bounds and pilot prefer the same of S2S and S2A for the average model; None
        where either has no preference."""
        favoured = self.prediction.favours() if self.prediction else None
        scores = {
            kind: self.pilot.readings.mean(lane, "global")
            for kind, lane in self.pilot.readings.best_by_kind(self.pilot.lanes, "global").items()
        }
        if favoured is None or self.equal or not {"s2s", "s2a"} <= scores.keys():
            return None
        return favoured == max(("s2s", "s2a"), key=lambda kind: scores[kind])

    def standings(self) -> list[tuple[Lane, dict[Goal, Estimate]]]:
        """Every contender still in the race, at its best stepsize for the goal that decides, and
        its score for every goal there; best first."""
        readings, lanes = self.pilot.readings, self.pilot.lanes
        found = []
        for contender in dict.fromkeys(lane.contender for lane in lanes):
            mine = [lane for lane in lanes if lane.contender == contender]
            if lane := readings.best(mine, self.goal):
                scores = {goal: readings.scores(lane, goal) for goal in readings.goals}
                found.append((lane, {goal: estimate(s.values()) for goal, s in scores.items()}))
        return sorted(found, key=lambda row: -row[1][self.goal].mean)

    def cost(self, contender: Contender) -> float:
        """Messages at their prices, over the pilot's rounds or as far as the budget goes."""
        purse = self.pilot.purse
        return purse.cost(contender, purse.reach(contender))

    def bytes(self, contender: Contender) -> float:
        """The same in bytes, a message being one model."""
        return self.cost(contender) * BYTES_PER_PARAMETER * self.parameters

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
                "rounds": self.pilot.purse.reach(self.best.contender),
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
            "summary": str(self).splitlines(),
        }
        found: dict[str, Any] = _finite(table)
        return found

    def _goal(self, decision: Decision) -> dict[str, Any]:
        return {
            "best": _lane(decision.best),
            "score": asdict(decision.score),
            "verdict": "equal" if self.equal else decision.verdict,
            "confidence": None if self.equal else decision.confidence,
            "rivals": [
                {"lane": _lane(rival.lane), "gap": asdict(rival.gap), "p": rival.p}
                for rival in decision.rivals
            ],
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
            "measures": {goal: list(names) for goal, names in pilot.readings.measures.items()},
            "diverged": len(pilot.readings.diverged),
            "standings": [
                {
                    **_lane(lane),
                    "cost": self.cost(lane.contender),
                    "scores": {goal: asdict(score) for goal, score in scores.items()},
                }
                for lane, scores in self.standings()
            ],
        }


def _lane(lane: Lane) -> dict[str, Any]:
    return asdict(lane.contender) | {"stepsize": lane.stepsize}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
