"""The base class of learning tasks: the outputs of a model, its loss, and how it is judged.

Tasks differ in the targets of their data: labels, numbers, or the next tokens of a text. A model's
outputs are class scores, numbers or token scores; m models on N samples give [m, N, ...].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

Function = Callable[[Tensor, Tensor], Tensor]
"""A loss or score: from outputs and targets of a minibatch to their mean, one number."""


@dataclass(frozen=True)
class LearningTask:
    """A learning task and its loss. This base class computes losses by automatic
    differentiation; tasks override it where a closed form is known."""

    loss_name: str
    loss: Function
    """The loss of one model on one minibatch, differentiable."""
    score: Function | None = None
    """A further measure, or None."""
    delta: float = 1.0
    """Threshold of the huber loss."""

    name: ClassVar[str]
    judged_by: ClassVar[Literal["accuracy", "loss"]] = "loss"
    """The quantity by which models are compared."""
    in_percent: ClassVar[bool] = False
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)
    """The built-in losses, the default one first."""

    @property
    def description(self) -> str:
        """The task and its loss, such as `regression (mse)`."""
        return f"{self.name} ({self.loss_name})"

    def curvature(self, outputs: int) -> float | None:
        """The largest second derivative of a sample's loss at its outputs, or None if unknown."""
        return None

    def output_shape(self, input_shape: tuple[int, ...], outputs: int) -> tuple[int, ...]:
        """Shape of a model's output for one sample; `outputs` counts classes, tokens or numbers."""
        return (outputs,)

    def targets(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert the targets of a data set to those that losses take."""
        return y.long()

    def loss_and_gradient(
        self, Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean losses [n, L] of outputs [n, L, outputs, B], and the gradient at them of the loss
        summed over the minibatch, times scale_l. Z may be overwritten."""

        def of_one(Z_cb: Tensor, y_b: Tensor) -> Tensor:
            return self.loss(Z_cb.mT, y_b)

        gradients, losses = vmap(vmap(grad_and_value(of_one)))(Z_nlcb, over_lanes(y_nb, Z_nlcb))
        return losses, gradients * (Z_nlcb.shape[-1] * scale_l).view(1, -1, 1, 1)

    def judge(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        """The quantity `judged_by` of every model and sample, [m, N]; 1 for a correct class."""
        return _of_samples(self.loss, outputs_mn, y_n)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        """Sums over the samples for every model, [m] each, from which `measures` are computed."""
        found = {"loss": self.judge(outputs_mn, y_n).sum(dim=1)}
        return found | self._score_sums(outputs_mn, y_n)

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        """The measures by name, from sums over the samples with targets y_n."""
        return {name: sums[name] / len(y_n) for name in ("loss", "score") if name in sums}

    def mean_loss(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        """The mean loss of every model over the samples, [m]."""
        return self.measures(self.sums(outputs_mn, y_n), y_n)["loss"]

    def _score_sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        if self.score is None:
            return {}
        return {"score": _of_samples(self.score, outputs_mn, y_n).sum(dim=1)}


def _of_samples(function: Function, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
    """Evaluate a loss or score on every single sample, as a minibatch of one."""

    def of_one(output: Tensor, target: Tensor) -> Tensor:
        return function(output.unsqueeze(0), target.unsqueeze(0))

    y_mn = y_n.expand(len(outputs_mn), *y_n.shape)
    return vmap(vmap(of_one))(outputs_mn, y_mn)


def over_lanes(y_nb: Tensor, X_nl: Tensor) -> Tensor:
    """Repeat the targets of each device for every lane. Under vmap some of torch's losses need
    outputs and targets with the same batch dimensions."""
    n, lanes = X_nl.shape[:2]
    return y_nb.unsqueeze(1).expand(n, lanes, *y_nb.shape[1:])
