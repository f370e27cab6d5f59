"""The section [task]."""

from typing import Annotated, Literal

from skerry.config.fields.numbers import Positive
from skerry.config.section import Later, Named, Names, OptionOf, Section, usual
from skerry.plugins import registry


class _NamesOrNone(Names):
    """Left empty, the task has its usual one."""

    def fault(self, name: str) -> str | None:
        return super().fault(name) if name else None


class Task(Section, extra="allow"):
    """What is learnt: classes, numbers, or the next token of a text."""

    name: Annotated[Literal["auto", "classification", "regression", "tokens"], Later()] = "auto"
    """What is learnt: classification (labels), regression (numbers), tokens (the next token of a
    text); auto: as the targets of the data say."""
    loss: Annotated[Named, _NamesOrNone("loss"), Later()] = usual("")
    """What goes down: cross_entropy, mse, mae, huber, or your own "package.module:function";
    empty: cross_entropy, for a regression mse."""
    delta: Annotated[Positive, OptionOf("loss"), Later()] = 1.0
    """huber: where the loss turns from a square into a line."""
    score: Annotated[Named, _NamesOrNone("score"), Later()] = usual("")
    """A further measure, higher is better: top5, or your own "package.module:function"."""

    @property
    def functions(self) -> dict[str, str]:
        """An empty name is none."""
        return {kind: name for kind, name in super().functions.items() if name}

    def idle_fields(self) -> frozenset[str]:
        """`delta`, where no loss is named that takes it."""
        takes = "loss" in self.functions and (
            not registry.is_builtin("loss", self.loss) or "delta" in self.options_for("loss")
        )
        return frozenset() if takes else frozenset({"delta"})
