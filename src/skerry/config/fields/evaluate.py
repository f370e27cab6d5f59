"""The section [evaluate]: what is measured, and when."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from skerry.config.measures import GROUPS, MEASURES, USUAL, own_name
from skerry.config.section import Count, Names, Round, Section, Takes, default
from skerry.errors import unknown
from skerry.plugins.options import call_fault


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) or callable(value) else value


def _measure(name: str) -> str:
    available = [*GROUPS, *MEASURES]
    if name not in available:
        raise ValueError(unknown("measure", name, available))
    return name


class _NamesOwnMeasure(Names):
    """A measure of the user's own; built-in ones are set in `measures`."""

    def fault(self, name: str) -> str | None:
        if ":" not in name:
            return (
                "evaluate.own takes measures of your own, as package.module:function (got "
                f"'{name}'). Built-in ones go into evaluate.measures."
            )
        if own_name(name) in {*GROUPS, *MEASURES, "round"}:
            return (
                f"measure '{name}' must not be called {own_name(name)}, as a built-in one is. "
                "Rename the function."
            )
        return super().fault(name) or call_fault(self.kind, name)


def _named_apart(names: tuple[str, ...]) -> tuple[str, ...]:
    called = [own_name(name) for name in names]
    if twice := next((one for one in called if called.count(one) > 1), None):
        raise ValueError(
            f"evaluate.own has two measures that are called {twice}: records would mix them up. "
            "Rename one."
        )
    return names


class Evaluate(Section):
    """The measures of a run, and how often they are computed."""

    every: Count = 1
    """Rounds between two evaluations (the last round is always evaluated)."""
    after: Round = 0
    """Rounds before the first evaluation after the start: 80 evaluates the last 20 of 100."""
    devices_every: Count = 1
    """Rounds between two evaluations of all devices, the slowest part (the last round is always
    evaluated)."""
    device_samples: Count | None = None
    """Test samples on which devices are evaluated, drawn once for each seed with the classes in
    proportion; unset: all. The average model is always evaluated on all."""
    measures: Annotated[
        Takes[str | Sequence[str], tuple[Annotated[str, AfterValidator(_measure)], ...]],
        BeforeValidator(_one_or_many),
        Field(min_length=1),
    ] = default(USUAL)
    """What is measured: single names such as own_accuracy, or whole groups."""
    own: Annotated[
        Takes[
            str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
            tuple[Annotated[str, _NamesOwnMeasure("measure")], ...],
        ],
        BeforeValidator(_one_or_many),
        AfterValidator(_named_apart),
    ] = default(())
    """Measures of your own in addition: "package.module:function"."""

    @property
    def wanted(self) -> frozenset[str]:
        """The names of all measures that are to be measured."""
        built_in = (one for name in self.measures for one in GROUPS.get(name, (name,)))
        return frozenset([*built_in, *map(own_name, self.own)])
