"""Linear models: the gradients of all devices and lanes are two batched products."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from skerry.kernels import fused, precision
from skerry.models.layers import subtract_product
from skerry.models.layout import Layout
from skerry.models.learner import ALIGNMENT, Batch, LazyBatch, Problem
from skerry.models.weights import check_names, check_shape
from skerry.plugins.context import Parameter
from skerry.tasks.task import LearningTask


def linear(problem: Problem) -> "LinearLearner | nn.Module":
    """Softmax or linear regression with a bias on flattened inputs, starting from zero.

    On tokens, the scores of the next token follow from the last token alone.
    """
    if problem.task.name == "tokens":
        table = nn.Embedding(problem.outputs, problem.outputs)
        nn.init.zeros_(table.weight)
        return table
    return LinearLearner(math.prod(problem.input_shape), problem.outputs, problem.task)


class FlattenedLinear(nn.Linear):
    """nn.Linear on flattened inputs: the module of a linear model."""

    def forward(self, x: Tensor) -> Tensor:
        """The outputs [N, outputs] for inputs [N, ...]."""
        return super().forward(x.flatten(1).to(self.weight.dtype))


class LinearLearner:
    """Learner of a linear model, with gradients in closed form.

    A row of X is `[outputs, p]`: the weights, the bias as the weight of a constant input 1, and
    padding up to the alignment, which stays zero because its inputs are zero.
    """

    classifies = True
    noisy = False
    scores_devices_at_once = True

    def __init__(self, features: int, outputs: int, task: LearningTask):
        self.features, self.outputs, self.task = features, outputs, task
        self.p = -(-(features + 1) // ALIGNMENT) * ALIGNMENT
        self.d = outputs * self.p
        self.parameters = outputs * (features + 1)
        self.score_bytes = 4 * outputs  # of one model for one sample; scoring needs no other memory
        self._initial = torch.zeros(self.d)
        self._fused = False

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Note where the models are; the learner holds no tensors that a step uses."""
        self._fused = fused.supports(device, dtype)

    def prepare(self, x: Tensor) -> Tensor:
        x = x if x.is_floating_point() else x.float()
        rows = x.new_zeros(len(x), self.p)
        rows[:, : self.features] = x.flatten(1)
        rows[:, self.features] = 1
        return rows

    def initial(self) -> Tensor:
        return self._initial

    def layout(self) -> Layout:
        """`weight` and `bias`, as in nn.Linear."""
        return (
            Parameter("weight", (self.outputs, self.features), 0, (self.p, 1)),
            Parameter("bias", (self.outputs,), self.features, (self.p,)),
        )

    def module(self) -> nn.Module:
        """A module that computes what this learner does, with `weight` and `bias` of nn.Linear."""
        return FlattenedLinear(self.features, self.outputs)

    def load(self, weights: Mapping[str, Tensor], path: str) -> None:
        """Start from `weight` [outputs, features] and `bias` [outputs], as in nn.Linear."""
        shapes = {"weight": (self.outputs, self.features), "bias": (self.outputs,)}
        check_names(path, sorted(shapes.keys() - weights.keys()), sorted(weights.keys() - shapes))
        for name, shape in shapes.items():
            check_shape(path, name, weights[name], shape)
        rows = self._initial.view(self.outputs, self.p)
        rows[:, : self.features] = weights["weight"]
        rows[:, self.features] = weights["bias"]

    def loss(self, x_d: Tensor, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        return self.task.loss(x @ x_d.view(self.outputs, self.p).T, y)

    def step(self, X_nld: Tensor, batch: Batch, eta_l: Tensor) -> Tensor:
        if isinstance(batch, LazyBatch) and self.steps_on_chip(batch.rows_nb.shape[1]):
            from skerry.kernels.linear import softmax_step

            return softmax_step(X_nld, batch.inputs, batch.targets, batch.rows_nb, eta_l)
        n, lanes, _ = X_nld.shape
        size = batch.y.shape[1]
        W = X_nld.view(n, lanes * self.outputs, self.p)
        Z = torch.bmm(W, batch.x.transpose(1, 2)).view(n, lanes, self.outputs, size)
        losses, P = self.task.loss_and_gradient(Z, batch.y, eta_l / size)
        subtract_product(W, P.reshape(n, lanes * self.outputs, size), batch.x)
        return losses

    def steps_on_chip(self, size: int) -> bool:
        """Whether one kernel does the whole step on minibatches of this size: for a small softmax
        regression whose products may be rounded."""
        plain = self.task.name == "classification" and self.task.loss_name == "cross_entropy"
        if not (self._fused and plain and precision.current() != "float32"):
            return False
        from skerry.kernels.linear import softmax_step_fits

        return softmax_step_fits(size, self.p, self.outputs)

    def scores(self, X_md: Tensor, x: Tensor) -> Tensor:
        m = len(X_md)
        W = X_md.reshape(m * self.outputs, self.p)
        return (W @ x.T).view(m, self.outputs, len(x)).transpose(1, 2)

    def scores_by_device(self, X_nld: Tensor, x_n: Tensor) -> Tensor:
        """Outputs [n, L, N, outputs] of each device's models for the device's own inputs."""
        n, lanes, _ = X_nld.shape
        W = X_nld.reshape(n, lanes * self.outputs, self.p)
        Z = torch.bmm(W, x_n.transpose(1, 2))
        return Z.view(n, lanes, self.outputs, x_n.shape[1]).transpose(2, 3)

    def test_loss(self, X_md: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return self.task.mean_loss(self.scores(X_md, x), y)

    def bytes_per_device(self, lanes: int, batch: int) -> int:
        if self.steps_on_chip(batch):
            return 4 * lanes  # the losses
        # The minibatch and its outputs; on a CPU the softmax is another array.
        arrays = 1 if self._fused else 2
        return 4 * batch * (self.p + arrays * lanes * self.outputs)
