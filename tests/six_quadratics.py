"""Six devices on two islands with f_i = a_i (x - b_i)^2 / 2: everything is known."""

from dataclasses import replace

import numpy as np
import torch

from skerry.config.experiment import Experiment
from skerry.data.partition import Partition
from skerry.data.sources.catalog import from_arrays
from skerry.engine.world import Materials, build_world

A, B = (1, 2, 0.5, 1.5, 1, 3), (1, 2, 4, 7, 9, 5)
BEST = float(np.dot(A, B) / sum(A))


class Quadratics:
    """f_i = a (x - b)^2 / 2: a device's one sample is (a, b)."""

    d = parameters = 1
    classifies = noisy = False

    def to(self, device, dtype):
        pass

    def prepare(self, x):
        return x.flatten(1)

    def initial(self):
        return torch.zeros(1)

    def loss(self, x_d, x, y, noise):
        return (0.5 * x[:, 0] * (x_d - x[:, 1]).square()).mean()

    def step(self, X_nld, batch, eta_l):
        a, b = batch.x[:, :1, :1], batch.x[:, :1, 1:]
        losses = 0.5 * a * (X_nld - b).square()
        X_nld.sub_(eta_l.view(1, -1, 1) * a * (X_nld - b))
        return losses[:, :, 0]

    def scores(self, X_md, x):
        raise TypeError

    def test_loss(self, X_md, x, y):
        return torch.stack([self.loss(x_d, x, y, y) for x_d in X_md])

    def bytes_per_device(self, lanes, batch):
        return 8 * lanes


def named(context):
    """The devices of the worked example: {1, 3} after t = 1, {0, 5} after t = 3."""
    return np.array([1, 3] if context.round == 1 else [0, 5])


def six(*settings, rounds=5):
    """Six quadratics on two paths of three."""
    return Experiment.parse(
        {},
        [
            f"rounds={rounds}",
            "network.devices=6",
            "network.topology=path",
            "data.scaling=unit",
            "training.batch=1",
            "training.stepsize=0.1",
            "server.sampled=2",
            "server.period=2",
            "server.offset=1",
            "server.selection=six_quadratics:named",
            *settings,
        ],
    )


def six_world(experiment):
    samples = np.array([A, B], dtype=float).T
    dataset = from_arrays(samples, np.arange(6), samples, np.arange(6))
    given = Materials(dataset=dataset, model=Quadratics)
    world = build_world(experiment, given, dtype=torch.float64)
    return replace(
        world, partition=Partition(np.arange(6), np.arange(7), np.eye(6, dtype=np.int64))
    )


def one_island(context):
    return np.array([0, 1])
