"""L: how fast gradients change, exactly where the model's form gives it, estimated elsewhere."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from skerry.engine.world import World
from skerry.models.linear import LinearLearner
from skerry.models.quadratic import QuadraticLearner
from skerry.theory.gradients import largest_curvatures, minibatch, redrawn


@dataclass(frozen=True)
class Smoothness:
    """L of the worst device."""

    value: float
    """Holds on average over minibatches: the bounds use it."""
    of_losses: float
    """Of the devices' whole losses."""
    method: Literal["exact", "upper bound", "estimate"]


def known_smoothness(world: World) -> Smoothness | None:
    """L at every x, where a formula gives it."""
    learner = world.learner
    if isinstance(learner, QuadraticLearner):
        L = float(learner.a_d.max())
        return Smoothness(L, L, "exact")
    if isinstance(learner, LinearLearner):
        curvature = world.task.curvature(learner.outputs)
        return None if curvature is None else _linear_model(world, curvature)
    return None


def estimated_smoothness(world: World, x_d: Tensor, round_: int, chunk: int) -> Smoothness:
    """The largest curvature at x of one minibatch of every device: a lower estimate of L."""
    batch = minibatch(redrawn(world, round_, -1))
    L = float(largest_curvatures(world, x_d, batch, chunk).max())
    return Smoothness(L, L, "estimate")


def _linear_model(world: World, curvature: float) -> Smoothness:
    """The largest eigenvalue of the second moment of (x, 1) times the curvature of the loss at the
    outputs: the Hessian of one sample is S (x) xx^T. In softmax regression S = diag(P) - P P^T, and
    none of its eigenvalues exceeds 1/2.

    For minibatches of B, drawn with replacement, (1 - 1/B) L + L_sample/B takes its place: then
    E||grad f_B(x) - grad f_B(y)||^2 <= L^2 ||x - y||^2 (expected smoothness; Gower et al. 2019).
    """
    shares = (world.x_train[_indices(world, device)] for device in range(world.n))
    of_losses = max(_largest_eigenvalue(x.double()) for x in shares) * curvature
    of_sample = float(world.x_train.double().square().sum(dim=1).max()) * curvature
    size = world.experiment.training.batch
    value = (1 - 1 / size) * of_losses + of_sample / size
    return Smoothness(value, of_losses, "upper bound")


def _largest_eigenvalue(x: Tensor) -> float:
    """Of x^T x / samples, through the smaller of the two Gram matrices."""
    gram = x.T @ x if len(x) > x.shape[1] else x @ x.T
    return float(torch.linalg.eigvalsh(gram)[-1]) / len(x)


def _indices(world: World, device: int) -> Tensor:
    return torch.from_numpy(world.partition.indices(device)).to(world.device)
