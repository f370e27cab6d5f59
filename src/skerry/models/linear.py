"""Softmax regression in closed form: the gradients of all devices and lanes are two products."""

import math

import torch
from torch import Tensor

from skerry.kernels import fused
from skerry.models.learner import ALIGNMENT, Batch, Problem
from skerry.models.loss import cross_entropy, loss_and_gradient
from skerry.models.update import subtract_product


def linear(problem: Problem) -> "LinearLearner":
    """Softmax regression on flattened inputs, with a bias, from zero."""
    return LinearLearner(math.prod(problem.input_shape), problem.classes)


class LinearLearner:
    """Rows of X are `[classes, p]`: the weights, the bias as the weight of a constant input 1,
    and zero padding up to the alignment, which stays zero because its inputs are zero."""

    classifies = True
    noisy = False

    def __init__(self, features: int, classes: int):
        self.features, self.classes = features, classes
        self.p = -(-(features + 1) // ALIGNMENT) * ALIGNMENT
        self.d = classes * self.p
        self.parameters = classes * (features + 1)

        self._fused = False

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """It holds nothing but shapes."""
        self._fused = fused.serves(device, dtype)

    def prepare(self, x: Tensor) -> Tensor:
        rows = x.new_zeros(len(x), self.p)
        rows[:, : self.features] = x.flatten(1)
        rows[:, self.features] = 1
        return rows

    def initial(self) -> Tensor:
        return torch.zeros(self.d)

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(x @ x_d.view(self.classes, self.p).T, y)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        n, lanes, _ = X_nld.shape
        size = batch.y.shape[1]
        W = X_nld.view(n, lanes * self.classes, self.p)
        Z = torch.bmm(W, batch.x.transpose(1, 2)).view(n, lanes, self.classes, size)
        losses, P = loss_and_gradient(Z, batch.y, eta_l / size)
        subtract_product(W, P.view(n, lanes * self.classes, size), batch.x)
        return losses

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        m = len(X_md)
        W = X_md.reshape(m * self.classes, self.p)
        return (W @ x.T).view(m, self.classes, len(x)).transpose(1, 2)

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        # The minibatch and its class scores; on a CPU their softmax is another array.
        arrays = 1 if self._fused else 2
        return 4 * batch * (self.p + arrays * lanes * self.classes)
