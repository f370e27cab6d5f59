"""The section [evaluate]."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from skerry.config.fields.numbers import Count, Round
from skerry.config.measures import GROUPS, MEASURES, USUAL, own_name
from skerry.config.section import Later, Names, Section, Takes, usual
from skerry.errors import unknown


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) or callable(value) else value


def _measure(name: str) -> str:
    available = [*GROUPS, *MEASURES]
    if name not in available:
        raise ValueError(unknown("measure", name, available))
    return name


class _NamesOwnMeasure(Names):
    """Built-in ones stand in another field."""

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
        return super().fault(name)


def _named_apart(names: tuple[str, ...]) -> tuple[str, ...]:
    called = [own_name(name) for name in names]
    if twice := next((one for one in called if called.count(one) > 1), None):
        raise ValueError(
            f"evaluate.own has two measures that are called {twice}: records would mix them up. "
            "Rename one."
        )
    return names


class Evaluate(Section):
    """What is measured, and how often."""

    every: Count = 1
    """Rounds between two evaluations (the last round is always evaluated)."""
    after: Round = 0
    """Rounds before the first evaluation, besides the start: 80 looks at the last of 100 only."""
    devices_every: Count = 1
    """All devices are scored only in rounds that this divides (and in the last): it is what takes
    longest."""
    device_samples: Count | None = None
    """Score devices on so many test samples only, drawn once for each seed with every class in its
    share; the average model is always scored on all."""
    measures: Annotated[
        Takes[str | Sequence[str], tuple[Annotated[str, AfterValidator(_measure)], ...]],
        BeforeValidator(_one_or_many),
        Field(min_length=1),
    ] = usual(USUAL)
    """What is measured: single names such as own_accuracy, or whole groups."""
    own: Annotated[
        Takes[
            str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
            tuple[Annotated[str, _NamesOwnMeasure("measure")], ...],
        ],
        BeforeValidator(_one_or_many),
        AfterValidator(_named_apart),
        Later(),
    ] = usual(())
    """Measures of your own beside them: "package.module:function"."""

    @property
    def wanted(self) -> frozenset[str]:
        """The single measures asked for."""
        built_in = (one for name in self.measures for one in GROUPS.get(name, (name,)))
        return frozenset([*built_in, *map(own_name, self.own)])
