"""What the loops of the reference have in common: a gradient, a weighted sum, who is sampled."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.participation.sampler import Sampler
from skerry.engine.server_schedule import Turn
from skerry.engine.world import World


def gradient(world: World, x_d: Tensor, rows: Tensor, noise: Tensor) -> Tensor:
    at = x_d.clone().requires_grad_()
    loss = world.learner.loss(at, world.x_train[rows], world.y_train[rows], noise)
    (found,) = torch.autograd.grad(loss, at)
    return found


def weighted_sum(weights: Tensor, x: list[Tensor]) -> Tensor:
    total = torch.zeros_like(x[0])
    for weight, x_j in zip(weights, x, strict=True):
        if weight != 0:
            total = total + weight * x_j
    return total


def participants(
    world: World, experiment: Experiment, t: int, number: int, K: int, away: NDArray[np.float64]
) -> tuple[list[int], list[float]]:
    """Who is sampled, and the weight of each in what S2A delivers. Draws are shared with the fast
    engine, as batches are; the weights are written out."""
    turn = Turn(experiment.server.model_copy(update={"sampled": K}), number)
    sample = Sampler(world, experiment).sample(t, away, turn)
    if sample is None:
        return [], []
    sampled = sample.devices_k.tolist()
    if sample.weights_k is not None:
        return sampled, sample.weights_k.tolist()
    return sampled, [1 / len(sampled)] * len(sampled)
