"""Stop rules: the text `average_accuracy >= 90 or no gain in 20 rounds` and the conditions in it.

    rule       all ("or" all)*
    all        condition ("and" condition)*
    condition  "(" rule ")"  |  (MEASURE | "round") (">" | ">=" | "<" | "<=") NUMBER
               |  "no" "gain" ["of" NUMBER] ["in" MEASURE] "in" COUNT "rounds"

Words may have capitals; `round` is the number of rounds done.
A rule depends on the measured values of its own run only, so neither other runs in the stack nor
an interruption change the round in which it ends the run.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from skerry.config.measures import GROUPS, MEASURES, headline, traits
from skerry.errors import did_you_mean, printable
from skerry.plugins import registry
from skerry.plugins.options import call_fault

KIND = "stop rule"
EXAMPLE = '"average_accuracy >= 90 or no gain in 20 rounds"'
LONGEST = 1000
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
ROUND = "round"
WORDS = ("and", "or", "no", "gain", "of", "in", "rounds", "round")
_TOKEN = re.compile(r"\s*(>=|<=|>|<|\(|\)|[^\W\d]\w*|[-+]?[\d.][\w.]*(?:(?<=[eE])[-+]\d+)?|\S)")


class RunValues(Protocol):
    """The measured values of one run up to a round."""

    @property
    def round(self) -> int:
        """Rounds done."""

    @property
    def measured(self) -> Collection[str]:
        """The names of the measures that have a value."""

    def best(self, measure: str, after: float, until: float) -> float | None:
        """The best value in rounds after `after` up to `until`; None without one."""

    def last(self, measure: str) -> float | None:
        """The last value; None before the first."""


@dataclass(frozen=True)
class Threshold:
    """A measure, or the number of rounds done, has passed a number."""

    measure: str
    sign: str
    number: float

    def __str__(self) -> str:
        return f"{self.measure} {self.sign} {_shown(self.number)}"

    def measures(self) -> Iterator[str]:
        if self.measure != ROUND:
            yield self.measure

    def reason(self, values: RunValues) -> str:
        last = values.round if self.measure == ROUND else values.last(self.measure)
        return str(self) if last is not None and COMPARED[self.sign](last, self.number) else ""


@dataclass(frozen=True)
class NoGain:
    """The best value of the last rounds is no better than the best one before them."""

    rounds: int
    measure: str = ""
    """Empty for the most important measure that the run has."""
    least: float = 0.0
    """A smaller gain does not count."""

    def __str__(self) -> str:
        least = f" of {_shown(self.least)}" if self.least else ""
        measure = f" in {self.measure}" if self.measure else ""
        return f"no gain{least}{measure} in {self.rounds} round{'s' * (self.rounds != 1)}"

    def measures(self) -> Iterator[str]:
        yield self.measure

    def reason(self, values: RunValues) -> str:
        measure = self.measure or headline(values.measured)
        start = values.round - self.rounds
        before = values.best(measure, float("-inf"), start)
        lately = values.best(measure, start, values.round)
        if before is None or lately is None:
            return ""
        gain = before - lately if traits(measure).lower_is_better else lately - before
        # Without `of`, any gain counts, however small.
        return "" if gain > 0 and gain >= self.least else str(self)


@dataclass(frozen=True)
class Joined:
    """Several rules, of which all or any must be met."""

    word: str
    parts: tuple["Rule", ...]

    def __str__(self) -> str:
        def shown(part: "Rule") -> str:
            return f"({part})" if isinstance(part, Joined) and self.word == "and" else str(part)

        return f" {self.word} ".join(map(shown, self.parts))

    def measures(self) -> Iterator[str]:
        for part in self.parts:
            yield from part.measures()

    def reason(self, values: RunValues) -> str:
        reasons = [part.reason(values) for part in self.parts]
        if self.word == "or":
            return next(filter(None, reasons), "")
        return " and ".join(reasons) if all(reasons) else ""


Rule = Threshold | NoGain | Joined
"""A condition: `measures` are those that it names, empty for the most important one, and `reason`
the conditions that are met, as text, empty if the run goes on."""


@cache
def parse_rule(text: str) -> Rule:
    """The rule of a text; raises ValueError with the line for the user."""
    if len(text) > LONGEST:
        raise ValueError(f"stop must have at most {LONGEST} characters (got {len(text)}).")
    return _Parser(text).parse()


def check_stop(text: str) -> str:
    """The value of the field `stop` in its usual form: a rule, `package.module:function`, or
    empty."""
    text = text.strip()
    if names_function(text):
        if fault := registry.name_fault(KIND, text) or call_fault(KIND, text):
            raise ValueError(fault)
        return text
    return str(parse_rule(text)) if text else ""


def names_function(text: str) -> bool:
    """Whether a stop rule is a function of the user's own."""
    return ":" in text and " " not in text


def measure_faults(text: str, wanted: Collection[str]) -> Iterable[str]:
    """A message for each measure of a rule that the experiment does not measure."""
    if not text or names_function(text):
        return
    for name in dict.fromkeys(parse_rule(text).measures()):
        if not name and not {"average_accuracy", "average_loss"} & set(wanted):
            yield (
                "stop = 'no gain in ... rounds' needs the accuracy or the loss of the average "
                "model, which is not measured. Name a measure, no gain in MEASURE in 20 rounds, or "
                'add "average" to evaluate.measures.'
            )
        elif name in GROUPS and name not in wanted:
            one = f"one of its measures: {', '.join(GROUPS[name])}"
            yield f"stop names {name}, a group of measures (got '{text}'). Name {one}."
        elif name in MEASURES and name not in wanted:
            yield f"stop names {name}, which is not measured. Add it to evaluate.measures."
        elif name and name not in wanted:
            hint, known = did_you_mean(name, wanted), ", ".join(sorted(wanted))
            yield f"stop names an unknown measure '{name}'{hint} Measured: {known}."


def _shown(number: float) -> str:
    """All digits of a number, because the text is read again."""
    return repr(number).removesuffix(".0")


class _Parser:
    """A parser by recursive descent; an error names the place and what could stand there."""

    def __init__(self, text: str):
        self._text, self._tokens = text, _TOKEN.findall(text)
        self._at = self._depth = 0

    def parse(self) -> Rule:
        rule = self._joined("or")
        if self._next:
            raise self._expected("and, or, or the end")
        return rule

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *words: str) -> str:
        """The next token, if it is one of the words; else an empty text."""
        token = self._next if self._next in words else self._next.lower()
        if token not in words:
            return ""
        self._at += 1
        return token

    def _need(self, *words: str) -> None:
        if not self._take(*words):
            raise self._expected(f"'{words[0]}'")

    def _joined(self, word: str) -> Rule:
        parts = [self._part(word)]
        while self._take(word):
            parts.append(self._part(word))
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _part(self, word: str) -> Rule:
        return self._joined("and") if word == "or" else self._condition()

    def _condition(self) -> Rule:
        if self._take("("):
            self._depth += 1
            if self._depth > 20:
                raise self._expected("fewer parentheses")
            inside = self._joined("or")
            self._need(")")
            self._depth -= 1
            return inside
        if self._take("no"):
            return self._no_gain()
        measure = self._take(ROUND) or self._measure()
        if not (sign := self._take(*COMPARED)):
            raise self._expected(f"one of {', '.join(COMPARED)} after {measure}")
        return Threshold(measure, sign, self._number())

    def _no_gain(self) -> Rule:
        self._need("gain")
        least = self._number() if self._take("of") else 0.0
        if least < 0:
            raise self._expected("a gain of at least 0")
        self._need("in")
        measure = ""
        if self._next.isidentifier():
            measure = self._measure()
            self._need("in")
        rounds = self._number()
        if rounds < 1 or rounds != int(rounds):
            self._at -= 1
            raise self._expected("a whole number of rounds, at least 1,")
        self._need("rounds", "round")
        return NoGain(int(rounds), measure, least)

    def _measure(self) -> str:
        if not self._next.isidentifier() or self._next.lower() in WORDS:
            raise self._expected("a measure, such as average_accuracy,")
        return self._take(self._next)

    def _number(self) -> float:
        try:
            number = float(self._next)
        except ValueError:
            raise self._expected("a number") from None
        if number in (float("inf"), float("-inf")) or number != number:
            raise self._expected("a finite number")
        self._at += 1
        return number

    def _expected(self, what: str) -> ValueError:
        place = f"at '{printable(self._next)}'" if self._next else "at the end"
        got = f"{place} (got '{printable(self._text)}')"
        return ValueError(
            f"stop must have {what} {got}. A rule reads like {EXAMPLE}, or "
            '"no gain of 0.5 in own_accuracy in 20 rounds"; a function of your own is named '
            '"package.module:function".'
        )
