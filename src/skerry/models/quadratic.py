"""Quadratic losses: the loss of a device is the mean of (x - z)^T A (x - z) / 2 over its samples z.

All quantities of the theory are known in closed form: the optimum of device i is the mean b_i of
its samples, the gradient at x is A (x - b_i), minibatches add sampling noise, and the smoothness L
is the largest entry of the diagonal A. Labels are not used.
"""

import math

import torch
from torch import Tensor

from skerry.errors import ModelError
from skerry.models.learner import Batch, Problem

LARGEST = 1e30
"""Largest curvature for which losses are finite in float32."""


def quadratic(
    problem: Problem, *, curvature: float = 1.0, conditioning: float = 1.0
) -> "QuadraticLearner":
    """Quadratic whose diagonal A falls from `curvature` (L) to `curvature / conditioning`."""
    if not all(isinstance(number, int | float) for number in (curvature, conditioning)) or not (
        0 < curvature <= LARGEST and 1 <= conditioning <= LARGEST
    ):
        raise ModelError(
            "model.curvature must be a number above 0 and model.conditioning one of at least 1, "
            f"both at most {LARGEST:g} (got {curvature!r} and {conditioning!r})."
        )
    d = math.prod(problem.input_shape)
    return QuadraticLearner(torch.logspace(0, -math.log10(conditioning), d) * float(curvature))


class QuadraticLearner:
    """Learner of the quadratic with diagonal A = diag(a_d)."""

    classifies = False
    noisy = False

    def __init__(self, a_d: Tensor):
        self.a_d = a_d
        self.d = self.parameters = len(a_d)

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        self.a_d = self.a_d.to(device, dtype)

    def prepare(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def initial(self) -> Tensor:
        return torch.zeros(self.d)

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return 0.5 * ((x_d - x).square() @ self.a_d).mean()

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        z_n1d = batch.x.mean(dim=1, keepdim=True)
        spread_n1 = 0.5 * ((batch.x - z_n1d).square() @ self.a_d).mean(dim=1, keepdim=True)
        away_nld = X_nld - z_n1d
        losses = 0.5 * (away_nld.square() @ self.a_d) + spread_n1
        X_nld.addcmul_(away_nld * self.a_d, eta_l.view(1, -1, 1), value=-1)
        return losses

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        raise TypeError("the quadratic has losses, not class scores")

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([self.loss(x_d, x, y, y) for x_d in X_md])

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        return 4 * self.d * (batch + 3 * lanes)
