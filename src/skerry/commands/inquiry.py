"""A question to the bounds, with ranges: every setting, every primitive, and the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from skerry import labels
from skerry.commands.ranges import MOST, numbers
from skerry.errors import SkerryError
from skerry.theory.communication import Prices
from skerry.theory.crossings import cheapest, stretches
from skerry.theory.operators import Array
from skerry.theory.parameters import Parameters
from skerry.theory.rounds_and_messages import Answer, ask

WHOLE = ("devices", "components", "sampled", "period")
MEASURES = ("rounds", "messages")


class Contender(NamedTuple):
    primitive: str
    beta: float | Literal["best"]

    @property
    def label(self) -> str:
        return labels.write(self.primitive, self.beta)


def parse_settings(texts: Mapping[str, str]) -> dict[str, list[Any]]:
    """The values of each parameter, as the options name them."""
    return {
        field: _components(text)
        if field == "components"
        else numbers(field.replace("_", "-"), text, whole=field in WHOLE)
        for field, text in texts.items()
    }


def _components(text: str) -> list[Any]:
    """Counts, or one tuple of sizes written as 30+70."""
    if "+" not in text:
        return list(numbers("components", text, whole=True))
    sizes = (numbers("components", part, whole=True)[0] for part in text.split("+"))
    return [tuple(int(size) for size in sizes)]


class Inquiry:
    def __init__(
        self,
        values: Mapping[str, Sequence[Any]],
        mode: str,
        convex: bool,
        *,
        primitives: Sequence[str],
        beta: str,
        prices: Prices,
    ):
        count = prod(map(len, values.values()))
        if count > MOST:
            raise SkerryError(
                f"the ranges must make at most {MOST:,} settings (got {count:,}). "
                "Take larger steps or fewer ranges."
            )
        self.values = values
        self.mode, self.convex, self.prices = mode, convex, prices
        self.varied = [field for field, found in values.items() if len(found) > 1]
        self.contenders = [
            Contender(primitive, one)
            for primitive in primitives
            for one in (_betas(beta) if primitive == "blend" else [0.5])
        ]
        self._ask = cache(self._ask_once)

    @cached_property
    def answers(self) -> list[list[Answer]]:
        """One list of answers for each setting."""
        return [
            [self._ask(contender, *setting) for contender in self.contenders]
            for setting in product(*self.values.values())
        ]

    def _ask_once(self, contender: Contender, *setting: Any) -> Answer:
        parameters = Parameters(**dict(zip(self.values, setting, strict=True)))
        return ask(
            parameters,
            contender.primitive,
            self.mode,
            self.convex,
            beta=contender.beta,
            prices=self.prices,
        )

    def verdicts(self) -> list[str]:
        """Who needs the fewest rounds and messages, and where that changes."""
        from skerry.report.theory_words import along, compared, counted

        if len(self.contenders) < 2:
            return []
        if not self.varied:
            return [compared(measure, self.answers[0]) for measure in MEASURES]
        if len(self.varied) > 1:
            return [counted(measure, self._winners(measure)) for measure in MEASURES]
        (axis,) = self.varied
        values = np.array(self.values[axis])
        lines = []
        for measure in MEASURES:
            won = stretches(
                values,
                lambda at, measure=measure: self._costs(axis, measure, at),  # type: ignore[misc]
                continuous=axis not in WHOLE,
            )
            lines.append(along(measure, axis, won))
        return lines

    def _costs(self, axis: str, measure: str, values: Array) -> dict[str, Array]:
        fixed = {field: found[0] for field, found in self.values.items()}
        settings = [tuple({**fixed, axis: value}.values()) for value in values.tolist()]
        return {
            contender.label: np.array(
                [getattr(self._ask(contender, *setting), measure) for setting in settings]
            )
            for contender in self.contenders
        }

    def _winners(self, measure: str) -> Counter[str]:
        return Counter(
            cheapest(
                {
                    contender.label: getattr(answer, measure)
                    for contender, answer in zip(self.contenders, answers, strict=True)
                }
            )
            for answers in self.answers
        )

    def tell(self) -> None:
        """Print the setting, the table, the verdict and what it rests on."""
        from skerry.report.theory_tables import bounds_table, console, terms_table
        from skerry.report.theory_words import MODES, setting_in_words

        first = self.answers[0]
        out = console()
        what = "average of f - f*, convex" if self.convex else "average of ||grad f||^2, non-convex"
        out.print(f"[bold]{self.mode}[/]: {MODES[self.mode]}; {what}")
        out.print(setting_in_words(first[0].parameters, self.varied))
        out.print(bounds_table(self.answers, self.varied))
        finite = [answer for answer in first if not answer.reason]
        if finite and not self.varied:
            out.print(terms_table(finite))
        for line in [*self.verdicts(), *self._reasons()]:
            out.print(line)
        out.print("\nWhat it rests on:", style="dim")
        for words in dict.fromkeys(words for answer in first for words in answer.assumptions):
            out.print(f"- {words}", style="dim")

    def _reasons(self) -> list[str]:
        found = (answer.reason for answers in self.answers for answer in answers)
        return [f"Infinite: {reason}" for reason in dict.fromkeys(found) if reason]


def _betas(beta: str) -> list[float | Literal["best"]]:
    return ["best"] if beta == "best" else [*numbers("beta", beta, whole=False)]
