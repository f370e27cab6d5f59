"""What devices make of their gradients before they step: momentum, Adam, weight decay.

A rule is `(gradient_nld, kept, context) -> direction_nld`, with options as keyword-only parameters;
a device steps X <- X - eta direction. `kept` holds the arrays that the rule's attribute `keeps`
names, zero at the start, each as large as X: they are changed in place, stay on their device, and
neither mixing nor the server touches them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from skerry.config.experiment import Training
from skerry.errors import SkerryError
from skerry.methods.method import Arrays, Lanes, Method
from skerry.plugins import registry
from skerry.plugins.context import Context

KIND = "local optimizer"


def sgd(gradient: Tensor, kept: Arrays, context: Context) -> Tensor:
    """The gradient itself."""
    return gradient


def momentum(gradient: Tensor, kept: Arrays, context: Context, *, momentum: float) -> Tensor:
    """Heavy ball: V <- momentum V + G."""
    return kept["v"].mul_(momentum).add_(gradient)


def adam(
    gradient: Tensor,
    kept: Arrays,
    context: Context,
    *,
    momentum: float,
    second_momentum: float,
    smallest: float,
) -> Tensor:
    """Adam: the mean of gradients over the root of the mean of their squares, both without the bias
    of having started at 0."""
    m, v, count = kept["m"], kept["v"], context.step + 1
    m.mul_(momentum).add_(gradient, alpha=1 - momentum)
    v.mul_(second_momentum).addcmul_(gradient, gradient, value=1 - second_momentum)
    root = (v / (1 - second_momentum**count)).sqrt_().add_(smallest)
    return (m / (1 - momentum**count)).div_(root)


momentum.keeps = ("v",)  # type: ignore[attr-defined]
adam.keeps = ("m", "v")  # type: ignore[attr-defined]


class LocalOptimizer(Method):
    """One of these rules in the place of a method."""

    asks_gradient = True

    def __init__(self, training: Training):
        self.name = training.optimizer
        self._decay = training.weight_decay
        self._options: Mapping[str, Any] = training.options_for(KIND)
        rule = registry.resolve(KIND, training.optimizer)
        self._keeps = tuple(getattr(rule, "keeps", ()))
        self._rule: Callable[..., Any] = partial(rule, **self._options)

    def start(self, X_nld: Tensor) -> Arrays:
        return {name: torch.zeros_like(X_nld) for name in self._keeps}

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld.clone()

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        assert kept is not None
        gradient = kept - lanes.X_nld  # X is X - G by now
        if self._decay:
            gradient.add_(kept, alpha=self._decay)
        context = lanes.context.with_options(self._options)
        direction = self._rule(gradient, lanes.own, context)
        if not isinstance(direction, Tensor) or direction.shape != gradient.shape:
            got = getattr(direction, "shape", None)
            raise SkerryError(
                f"{KIND} '{self.name}' must give the direction to step along, a tensor of the "
                f"gradient's shape {tuple(gradient.shape)} (got "
                f"{type(direction).__name__ if got is None else tuple(got)})."
            )
        lanes.X_nld.copy_(kept.addcmul_(direction, lanes.eta_l1, value=-1))
