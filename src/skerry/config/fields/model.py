"""The section [model]."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from skerry.config.section import Later, Named, Names, Section, usual


class Model(Section, extra="allow"):
    """What is learnt with. Further arguments are options of the model."""

    name: Annotated[Named, Names("model")] = usual("linear")
    """linear, mlp, cnn_cifar10, cnn_cifar100, gru, transformer, quadratic, or your own
    "package.module:factory"."""
    weights: Annotated[str, Later()] = ""
    """A .safetensors file to start from; empty: as drawn by the seed."""

    if TYPE_CHECKING:

        def __init__(
            self, *, name: str | Callable[..., Any] = "linear", weights: str = "", **options: Any
        ) -> None:
            """Further arguments are options of the model."""
