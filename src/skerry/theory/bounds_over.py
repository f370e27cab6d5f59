"""The bounds in many settings at once: every combination of values, every primitive, who needs the
fewest, and where that changes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from skerry.config import labels
from skerry.theory.communication import ONE_EACH, Prices
from skerry.theory.crossings import Stretch, cheapest, stretches
from skerry.theory.operators import Array
from skerry.theory.parameters import Parameters
from skerry.theory.regimes import Measure
from skerry.theory.rounds_and_messages import Answer, ask

WHOLE = ("devices", "components", "sampled", "period")
"""The parameters that are whole numbers."""


class Contender(NamedTuple):
    primitive: str
    beta: float | Literal["best"] = 0.5
    selection: str = "uniform"

    @property
    def label(self) -> str:
        return labels.write_label(self.primitive, self.beta)


class BoundsOver:
    def __init__(
        self,
        values: Mapping[str, Sequence[Any]],
        contenders: Sequence[Contender],
        mode: str = "order",
        convex: bool = False,
        prices: Prices = ONE_EACH,
        weights: str = "equal",
    ):
        """`values` names what every parameter may be; all combinations are settings."""
        self.values, self.contenders = values, contenders
        self.mode, self.convex, self.prices = mode, convex, prices
        self.weights = weights
        self.several_rules = len({contender.selection for contender in contenders}) > 1
        self.varied = [field for field, found in values.items() if len(found) > 1]
        self._ask = cache(self._ask_once)

    @cached_property
    def answers(self) -> list[list[Answer]]:
        """For each setting, one answer for each contender."""
        return [
            [self._ask(contender, *setting) for contender in self.contenders]
            for setting in product(*self.values.values())
        ]

    def label(self, contender: Contender) -> str:
        """With the rule of selection, where several are asked about."""
        return f"{contender.label} {contender.selection}" if self.several_rules else contender.label

    def winners(self, measure: Measure) -> Counter[str]:
        """In how many settings each contender needs the fewest rounds, or messages."""
        return Counter(
            cheapest(
                {
                    self.label(contender): getattr(answer, measure)
                    for contender, answer in zip(self.contenders, answers, strict=True)
                }
            )
            for answers in self.answers
        )

    def stretches(self, measure: Measure) -> tuple[Stretch, ...]:
        """Where one parameter varies: who needs the fewest from where to where."""
        (axis,) = self.varied

        def costs(values: Array) -> dict[str, Array]:
            fixed = {field: found[0] for field, found in self.values.items()}
            settings = [tuple({**fixed, axis: value}.values()) for value in values.tolist()]
            return {
                self.label(contender): np.array(
                    [getattr(self._ask(contender, *setting), measure) for setting in settings]
                )
                for contender in self.contenders
            }

        return stretches(np.array(self.values[axis]), costs, continuous=axis not in WHOLE)

    def _ask_once(self, contender: Contender, *setting: Any) -> Answer:
        given = dict(zip(self.values, setting, strict=True))
        parameters = Parameters(**given, selection=contender.selection, weights=self.weights)
        return ask(
            parameters,
            contender.primitive,
            self.mode,
            self.convex,
            beta=contender.beta,
            prices=self.prices,
        )
