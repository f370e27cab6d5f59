"""Local optimizers: momentum, Adam and weight decay in the local steps of devices.

A local optimizer is a function `(gradient_nld, state) -> direction_nld`, with options as
keyword-only parameters; a device steps X <- X - eta direction. `state` holds the arrays that the
attribute `keeps` of the function names. They are zero at the start, have the shape of X, and are
changed in place; neither mixing nor the server touches them.
"""

from typing import Any

import torch
from torch import Tensor

from skerry.config.experiment import Training
from skerry.engine.plugin_results import direction_fault
from skerry.engine.unpadded import plugin_call
from skerry.errors import SkerryError
from skerry.methods.method import Arrays, Lanes, Method
from skerry.models.layout import Padding
from skerry.plugins import registry
from skerry.plugins.context import Context

LOCAL_OPTIMIZER = "local optimizer"


def sgd(gradient: Tensor, state: Arrays) -> Tensor:
    """Plain SGD: step along the gradient."""
    return gradient


def momentum(gradient: Tensor, state: Arrays, *, momentum: float) -> Tensor:
    """Heavy ball: V <- momentum V + G."""
    return state["v"].mul_(momentum).add_(gradient)


def adam(
    gradient: Tensor,
    state: Arrays,
    context: Context,
    *,
    momentum: float,
    second_momentum: float,
    smallest: float,
) -> Tensor:
    """Adam: the mean gradient over the root of the mean squared gradient, both bias-corrected."""
    m, v, count = state["m"], state["v"], context.step + 1
    m.mul_(momentum).add_(gradient, alpha=1 - momentum)
    v.mul_(second_momentum).addcmul_(gradient, gradient, value=1 - second_momentum)
    root = (v / _correction(second_momentum, count, v)).sqrt_().add_(smallest)
    return (m / _correction(momentum, count, m)).div_(root)


def _correction(rate: float, count: int | Tensor, like: Tensor) -> float | Tensor:
    """1 - rate^count; with local epochs for each device, computed in double precision."""
    if isinstance(count, Tensor):
        return (1 - rate ** count.double()).to(like)
    return float(1 - rate**count)


momentum.keeps = ("v",)  # type: ignore[attr-defined]
adam.keeps = ("m", "v")  # type: ignore[attr-defined]


class LocalOptimizer(Method):
    """A local optimizer as a method."""

    needs_gradient = True
    local_epochs = True
    takes_different_starts = True

    def __init__(self, training: Training, padding: Padding | None = None):
        self.optimizer = training.optimizer
        self._decay = training.weight_decay
        rule = registry.resolve(LOCAL_OPTIMIZER, training.optimizer)
        self._keeps = _names_of(training.optimizer, getattr(rule, "keeps", ()))
        named, options = (
            (LOCAL_OPTIMIZER, training.optimizer),
            training.options_for(LOCAL_OPTIMIZER),
        )
        self._rule = plugin_call(*named, rule, padding, options, direction_fault)

    def start(self, X_nld: Tensor) -> Arrays:
        return {name: torch.zeros_like(X_nld) for name in self._keeps}

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld.clone()

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        assert before is not None
        gradient = before - lanes.X_nld  # X is X - G by now
        if self._decay:
            gradient.add_(before, alpha=self._decay)
        direction = self._rule(gradient, lanes.state, context=lanes.context)
        lanes.X_nld.copy_(before.addcmul_(direction, lanes.eta_l1, value=-1))


def _names_of(optimizer: str, keeps: Any) -> tuple[str, ...]:
    """The names of the arrays that a local optimizer keeps."""
    names = tuple(keeps) if isinstance(keeps, tuple | list | set | frozenset) else (keeps,)
    if not all(isinstance(name, str) and name for name in names):
        raise SkerryError(
            f"{LOCAL_OPTIMIZER} '{optimizer}': keeps must be names of arrays, as in ('mean',) (got "
            f"{keeps!r:.60})."
        )
    return tuple(sorted(names)) if isinstance(keeps, set | frozenset) else names
