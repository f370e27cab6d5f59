"""The sections [task] and [model]: what is learnt, and by which model."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from skerry.config.section import (
    KeyedIfSet,
    Named,
    Names,
    OneOrMany,
    OptionOf,
    Positive,
    Section,
    Takes,
    default,
)
from skerry.plugins import registry


class _NamesOrNone(Names):
    """A field that may be empty, for the default of the task."""

    def fault(self, name: str) -> str | None:
        return super().fault(name) if name else None


class Task(Section, extra="allow"):
    """The learning task: classes, numbers, or the next token of a text."""

    name: Literal["auto", "classification", "regression", "tokens"] = "auto"
    """What is learnt: classification (labels), regression (numbers), tokens (the next token of a
    text); auto: derived from the targets of the data."""
    loss: Annotated[Named, _NamesOrNone("loss")] = default("")
    """What is minimised: cross_entropy, mse, mae, huber, or your own "package.module:function";
    empty: cross_entropy, for a regression mse."""
    delta: Annotated[Positive, OptionOf("loss")] = 1.0
    """huber: the error at which the loss turns from quadratic to linear."""
    score: Annotated[Named, _NamesOrNone("score")] = default("")
    """A further measure of which more is better: top5, or your own "package.module:function"."""

    @property
    def functions(self) -> dict[str, str]:
        """The functions that are named; an empty name is left out."""
        return {kind: name for kind, name in super().functions.items() if name}

    def unused_fields(self) -> frozenset[str]:
        """`delta`, unless the loss takes it."""
        takes = "loss" in self.functions and (
            not registry.is_builtin("loss", self.loss) or "delta" in self.options_for("loss")
        )
        return frozenset() if takes else frozenset({"delta"})


class Model(Section, extra="allow"):
    """The model that every device trains. Further arguments are options of the model."""

    name: Annotated[Named, Names("model")] = default("linear")
    """linear, mlp, cnn_cifar10, cnn_cifar100, gru, transformer, quadratic, or your own
    "package.module:factory"."""
    weights: str = ""
    """A .safetensors file with the initial weights, or a folder with a file NAME.safetensors for
    each device; empty: drawn from the seed. A relative path is as in data.path."""
    private: Annotated[Takes[str | Sequence[str], tuple[str, ...]], OneOrMany, KeyedIfSet()] = (
        default(())
    )
    """Names of parameters that stay on their device, or patterns such as "head.*": they are trained
    there, and neither links nor the server carry them; empty: everything is shared."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str | Callable[..., Any] = "linear",
            weights: str = "",
            private: str | Sequence[str] = (),
            **options: Any,
        ) -> None:
            """Further arguments are options of the model."""
