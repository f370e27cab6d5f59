"""Softmax regression in closed form: the gradients of all devices and lanes are two products."""

import math

import torch
from torch import Tensor

from skerry.models.learner import Batch, Problem
from skerry.models.module import cross_entropy

ALIGNMENT = 8  # matrix units want rows of a multiple of 16 or 32 bytes


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

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """It holds nothing but shapes."""

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
        # Samples last: the softmax runs along contiguous memory, and P is ready for its product.
        Z = torch.bmm(W, batch.x.transpose(1, 2)).view(n, lanes, self.classes, size)
        labels = batch.y.view(n, 1, 1, size).expand(n, lanes, 1, size)
        log_P = torch.log_softmax(Z, dim=2)
        losses = -log_P.gather(2, labels).mean(dim=(2, 3))
        # G = (P - onehot(y)) x / B; the update W -= eta G happens inside the second product.
        P = log_P.exp_()
        P.scatter_add_(2, labels, P.new_full((1,), -1.0).expand_as(labels))
        P *= (eta_l / size).view(1, lanes, 1, 1)
        W.baddbmm_(P.view(n, lanes * self.classes, size), batch.x, alpha=-1)
        return losses

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        m = len(X_md)
        W = X_md.reshape(m * self.classes, self.p)
        return (W @ x.T).view(m, self.classes, len(x)).transpose(1, 2)

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        return 4 * batch * (self.p + 3 * lanes * self.classes)
