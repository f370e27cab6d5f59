"""Small problems whose constants are known exactly: from every sample, not from draws."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import build_world
from skerry.theory.operators import Pi, Pi_C


def bench(*extra):
    """Twelve devices on two islands; float64, so that only sampling is left to differ."""
    experiment = Experiment.parse(
        {},
        [
            "network.devices=12",
            "server.sampled=5",
            "server.period=3",
            "rounds=8",
            "training.batch=3",
            "data.dataset=synthetic",
            "data.samples=240",
            "data.test_samples=20",
            "data.features=5",
            "data.classes=4",
            "data.difficulty=1.5",
            *extra,
        ],
    )
    return build_world(experiment, dtype=torch.float64)


def with_seed(world, seed):
    """The same devices, data and model; other minibatches, other sampled devices."""
    return replace(world, experiment=world.experiment.model_copy(update={"seed": seed}))


@dataclass
class Exact:
    loss: float
    sigma2_n: np.ndarray
    intra_pure: float
    intra_noise: float
    inter_pure: float
    inter_noise: float


def exact_constants(world, x_d, W=None):
    """Losses and gradients of every sample at x; minibatches are drawn with replacement."""
    n, sizes, batch = world.n, world.sizes, world.experiment.training.batch
    W = world.fleet.matrix(0).toarray() if W is None else W
    losses, means, sigma2 = [], [], []
    for device in range(n):
        rows = torch.from_numpy(world.partition.indices(device))
        loss, G = sample_gradients(world, x_d, rows)
        losses.append(loss)
        means.append(G.mean(axis=0))
        sigma2.append(np.sum((G - means[-1]) ** 2) / len(G) / batch)
    g, s2 = np.array(means).T, np.array(sigma2)
    own = np.repeat(1 / np.array(sizes, float), sizes)
    return Exact(
        loss=float(np.mean(losses)),
        sigma2_n=s2,
        intra_pure=np.sum((g @ (W - Pi_C(sizes))) ** 2) / n,
        intra_noise=np.sum(s2 * (np.sum(W**2, axis=1) - own)) / n,
        inter_pure=np.sum((g @ (Pi_C(sizes) - Pi(n))) ** 2) / n,
        inter_noise=np.sum(s2 * (own - 1 / n)) / n,
    )


def sample_gradients(world, x_d, rows):
    """The mean loss over these samples, and the gradient of each, by autograd, one by one."""
    losses, gradients = [], []
    for row in rows:
        at = x_d.clone().requires_grad_()
        one = row[None]
        loss = world.learner.loss(at, world.x_train[one], world.y_train[one], torch.zeros(()))
        gradients.append(torch.autograd.grad(loss, at)[0].numpy())
        losses.append(loss.item())
    return np.mean(losses), np.array(gradients)
