"""Algorithm 1 line by line: a slow loop over devices, the oracle for the fast engine.

It shares with the fast engine the world (data, random draws) and the graph's W, and nothing of
the arithmetic: gradients come from autograd at one model, mixing is a sum over j, the primitives
are written out.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from skerry import registry
from skerry.engine.world import World
from skerry.experiment import Experiment


def reference(world: World, experiment: Experiment) -> Iterator[Tensor]:
    """The models X[n, d] of one run after every round."""
    training, server = experiment.training, experiment.server
    fleet = world.fleet_of(experiment)
    schedule = registry.resolve("schedule", training.schedule)
    told = training.options_for("schedule")
    x0 = world.initial()
    x = [x0.clone() for _ in range(world.n)]
    y, v = x0.clone(), torch.zeros_like(x0)  # the server's memory, for fedavgm

    for t in range(experiment.rounds):
        eta = training.stepsize * schedule(t, experiment.rounds, training, **told)
        for step in range(training.local_steps):
            indices, noise = world.batch_indices(t, step), world.noise_keys(t, step)
            for i in range(world.n):
                x[i] = x[i] - eta * _gradient(world, x[i], indices[i], noise[i])

        W = torch.from_numpy(fleet.matrix(t).toarray()).to(x0)
        x = [_weighted_sum(W[:, i], x) for i in range(world.n)]

        since = t - server.offset
        if server.primitive != "none" and since >= 0 and since % server.period == 0:
            sampled = world.server_order(t)[: server.sampled].tolist()
            xhat = torch.stack([x[i] for i in sampled]).sum(dim=0) / len(sampled)
            if server.optimizer == "fedavgm":
                v = server.momentum * v + (y - xhat)
                y = y - v
                xhat = y
            beta = {"s2s": 0.0, "s2a": 1.0, "blend": server.beta}[server.primitive]
            for i in range(world.n):
                x[i] = xhat if i in sampled else (1 - beta) * x[i] + beta * xhat
        yield torch.stack(x)


def _gradient(world: World, x_d: Tensor, rows: Tensor, noise: Tensor) -> Tensor:
    at = x_d.clone().requires_grad_()
    loss = world.learner.loss(at, world.x_train[rows], world.y_train[rows], noise)
    (gradient,) = torch.autograd.grad(loss, at)
    return gradient


def _weighted_sum(weights: Tensor, x: list[Tensor]) -> Tensor:
    total = torch.zeros_like(x[0])
    for weight, x_j in zip(weights, x, strict=True):
        if weight != 0:
            total = total + weight * x_j
    return total
