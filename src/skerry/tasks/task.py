"""A task: what a model is to give for a sample, what its loss is, and how it is judged.

The three tasks differ in the targets of their data: labels, numbers, or the next tokens of a text.
`choice.py` finds the task of an experiment and its data. A model's outputs are class scores,
numbers or token scores; m models on N samples give [m, N, ...].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

Function = Callable[[Tensor, Tensor], Tensor]
"""Outputs and targets of a minibatch to one number, their mean."""


@dataclass(frozen=True)
class Task:
    """What all tasks have in common. A loss without a closed form goes through here."""

    loss_name: str
    loss: Function
    """Of one model on one minibatch, differentiable."""
    score: Function | None = None
    """A further measure."""
    delta: float = 1.0
    """Of the huber loss."""

    name: ClassVar[str]
    judged_by: ClassVar[Literal["accuracy", "loss"]] = "loss"
    """The quantity that says who is best."""
    in_percent: ClassVar[bool] = False

    @property
    def in_words(self) -> str:
        """`regression (mse)`."""
        return f"{self.name} ({self.loss_name})"

    def curvature(self, outputs: int) -> float | None:
        """The largest second derivative of a sample's loss at its outputs, where it is known."""
        return None

    def output_shape(self, input_shape: tuple[int, ...], outputs: int) -> tuple[int, ...]:
        """Of what a model gives for one sample; `outputs` are classes, tokens or numbers."""
        return (outputs,)

    def targets(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """The targets of a data set as losses take them."""
        return y.long()

    def loss_and_gradient(
        self, Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean losses [n, L] of outputs [n, L, outputs, B], and the gradient at them of the loss
        summed over the minibatch, times scale_l. Z is used up."""

        def of_one(Z_cb: Tensor, y_b: Tensor) -> Tensor:
            return self.loss(Z_cb.mT, y_b)

        gradients, losses = vmap(vmap(grad_and_value(of_one)))(Z_nlcb, over_lanes(y_nb, Z_nlcb))
        return losses, gradients * (Z_nlcb.shape[-1] * scale_l).view(1, -1, 1, 1)

    def judged(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        """Of every model and sample the quantity that judges, [m, N]; 1 for a right class."""
        return _of_samples(self.loss, outputs_mn, y_n)

    def sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        """Of every model, sums over the samples, [m] each: what `measures` needs."""
        found = {"loss": self.judged(outputs_mn, y_n).sum(dim=1)}
        return found | self._score_sums(outputs_mn, y_n)

    def measures(self, sums: dict[str, Tensor], y_n: Tensor) -> dict[str, Tensor]:
        """By name, from sums over the samples with these targets."""
        return {name: sums[name] / len(y_n) for name in ("loss", "score") if name in sums}

    def mean_loss(self, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
        """Of every model over the samples, [m]."""
        return self.measures(self.sums(outputs_mn, y_n), y_n)["loss"]

    def _score_sums(self, outputs_mn: Tensor, y_n: Tensor) -> dict[str, Tensor]:
        if self.score is None:
            return {}
        return {"score": _of_samples(self.score, outputs_mn, y_n).sum(dim=1)}


def _of_samples(function: Function, outputs_mn: Tensor, y_n: Tensor) -> Tensor:
    """A user's function of every single sample, a minibatch of one."""

    def of_one(output: Tensor, target: Tensor) -> Tensor:
        return function(output.unsqueeze(0), target.unsqueeze(0))

    y_mn = y_n.expand(len(outputs_mn), *y_n.shape)
    return vmap(vmap(of_one))(outputs_mn, y_mn)


def over_lanes(y_nb: Tensor, X_nl: Tensor) -> Tensor:
    """The targets of each device once for every lane. Under vmap some of torch's losses want
    outputs and targets that are spread alike."""
    n, lanes = X_nl.shape[:2]
    return y_nb.unsqueeze(1).expand(n, lanes, *y_nb.shape[1:])
