"""Goals with a target: reach a score soonest, or with the fewest joules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from skerry.analysis.reach import first_at
from skerry.errors import SkerryError
from skerry.records.parts import History

ClockUnit: TypeAlias = Literal["seconds", "joules"]
CostUnit: TypeAlias = Literal["messages", "seconds", "joules"]
ENDINGS: dict[str, ClockUnit] = {"soonest": "seconds", "with fewest joules": "joules"}
EXAMPLES = tuple(f"88% {ending}" for ending in ENDINGS)


@dataclass(frozen=True)
class ScoreTarget:
    """A score to reach, and whether seconds or joules until then are counted."""

    value: float  # an accuracy in percent, or a loss
    unit: ClockUnit
    is_percent: bool  # whether it was written with a percent sign
    goal: str = ""  # as it was asked for: `88% soonest`

    @property
    def text(self) -> str:
        """The score: `88 %`, `0.3`."""
        return f"{self.value:g} %" if self.is_percent else f"{self.value:g}"

    def for_task(self, are_losses: bool) -> "ScoreTarget":
        """The target in a task that is judged by losses or accuracies, if it can be one."""
        if are_losses and self.is_percent:
            raise SkerryError(
                f"this experiment is judged by a loss, so a target is a loss such as '0.3 "
                f"{self._ending}' (got {self.text})."
            )
        if not are_losses and not (self.is_percent or self.value > 1):
            raise SkerryError(
                f"this experiment is judged by an accuracy, so a target is a percentage such as "
                f"'88% {self._ending}' (got {self.text})."
            )
        return replace(self, is_percent=not are_losses)

    @property
    def _ending(self) -> str:
        return next(words for words, unit in ENDINGS.items() if unit == self.unit)

    def first_round(
        self, history: History, names: Sequence[str], are_losses: bool
    ) -> tuple[float, float]:
        """(the first evaluated round at or past the target, or inf; the best score of all)."""
        score_r = np.mean([history[name] for name in names], axis=0)
        there_r = np.isfinite(score_r)
        if not there_r.any():
            return math.nan, math.nan
        best = score_r[there_r].min() if are_losses else score_r[there_r].max()
        row = first_at({names[0]: score_r}, names[0], self.value)
        return math.inf if row is None else float(history["round"][row]), float(best)


def read_target(words: str) -> tuple[str, ScoreTarget] | None:
    """(the name of the goal, or empty; the target) of a goal such as `88% soonest` or `own 0.3 with
    fewest joules`; None for a goal without a target."""
    text = " ".join(words.lower().replace(" %", "%").split())
    ending = next((one for one in ENDINGS if text.endswith(f" {one}") or text == one), None)
    if ending is None:
        return None
    given = text.removesuffix(ending).split()
    given = [word for word in given if word not in ("accuracy", "loss")]
    number = given.pop() if given else ""
    try:
        value = float(number.removesuffix("%"))
    except ValueError:
        value = math.nan
    percent = number.endswith("%")
    if len(given) > 1 or not 0 < value < math.inf or (percent and value > 100):
        raise SkerryError(
            f"the target of a goal must be a score such as '88% {ending}' or, of a loss, '0.3 "
            f"{ending}' (got '{words}')."
        )
    return (given[0] if given else ""), ScoreTarget(value, ENDINGS[ending], percent, words)
