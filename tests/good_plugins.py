"""Plug-ins named in tests as a user would name them: some take whatever they are given, the others
have an option of their own and leave in `TOLD` what they were told."""

from math import prod
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import nn

from skerry.engine.compression import Compression
from skerry.methods.method import Method
from skerry.network.mixing import metropolis

TOLD: dict[str, Any] = {}


def anything(*args, **options):
    return options


class AnyOptimizer:
    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld):
        return average_ld


# One of every kind, with an option of its own


def near(size, *, reach=1):
    """A ring on which devices talk to those up to `reach` places away."""
    TOLD["topology"] = reach
    return nx.circulant_graph(size, range(1, reach + 1))


def keeping(graph, *, own):
    TOLD["mixing"] = own
    return own * np.eye(len(graph)) + (1 - own) * metropolis(graph).toarray()


def points(*, noise=0.0, context):
    TOLD["dataset"] = noise
    y = np.arange(120) % 3
    x = np.eye(3)[y] + noise * context.random().normal(size=(120, 3))
    return x, y, x, y


def turned(labels, classes, sizes, *, turn=0):
    TOLD["inter partition"] = turn
    return np.array_split(np.roll(np.arange(len(labels)), turn), len(sizes))


def woven(labels, indices, size, *, turn=0):
    TOLD["intra partition"] = turn
    return [np.roll(indices, turn)[i::size] for i in range(size)]


def narrow(problem, *, width=3):
    TOLD["model"] = width
    layers = nn.Linear(prod(problem.input_shape), width), nn.Linear(width, problem.classes)
    return nn.Sequential(nn.Flatten(), *layers)


def falling(context, *, power):
    TOLD["schedule"] = power
    return (context.round + 1) ** -power


class FromThe:
    """Every batch is the `first` sample of a device, over and over."""

    def __init__(self, partition, batch, *, first=0):
        TOLD["sampling"] = first
        own = [partition.indices(i)[first] for i in range(len(partition.sizes))]
        self.rows = np.repeat(own, batch).reshape(-1, batch)

    def indices(self, t, step, steps):
        return self.rows


def pull(X_nld, sampled_k, delivered_ld, *, strength):
    """All devices go the same part of the way to the average."""
    TOLD["primitive"] = strength
    X_nld.lerp_(delivered_ld, strength)
    return len(X_nld)


class Damped:
    @staticmethod
    def start(x0_ld):
        return {"last": x0_ld.clone()}

    @staticmethod
    def deliver(memory, average_ld, *, damping=0.0):
        TOLD["server optimizer"] = damping
        return memory["last"].lerp_(average_ld, 1 - damping)


# Options that the sections declare


def by_field(size, *, degree):
    TOLD["topology"] = degree
    return nx.circulant_graph(size, range(1, degree + 1))


def half_a_blend(X_nld, sampled_k, delivered_ld, *, beta):
    TOLD["primitive"] = beta
    X_nld.lerp_(delivered_ld, beta / 2)
    return len(X_nld)


class HeavyBall(Method):
    """Momentum on the devices."""

    def __init__(self, *, momentum=0.5):
        TOLD["method"] = momentum
        self.momentum = momentum

    def start(self, X_nld):
        return {"v": torch.zeros_like(X_nld)}

    def before_step(self, lanes):
        return lanes.X_nld.clone()

    def after_step(self, lanes, before):
        eta, V = lanes.eta_l1, lanes.state["v"]
        V.mul_(self.momentum).add_((before - lanes.X_nld) / eta)
        torch.sub(before, eta * V, out=lanes.X_nld)


class PerStep(HeavyBall):
    """A method of a user's own that asks for the steps of each device."""

    local_epochs = True

    def after_step(self, lanes, before):
        assert lanes.local_steps.shape == (len(lanes.X_nld), 1, 1)
        lanes.state["v"].copy_((lanes.context.step + 1) / lanes.local_steps)

    def aggregate(self, lanes, server):
        assert server.eta_sum_l1.shape == (len(server.sampled_k), lanes.X_nld.shape[1], 1)
        return super().aggregate(lanes, server)


class Signs(Compression):
    """The sign of every number, and their mean size."""

    quality = 0.5

    def __init__(self, *, factor=1.0):
        TOLD["compression"] = factor
        self.factor = factor

    def compress(self, V_rld, draws):
        size = V_rld.abs().sum(dim=-1, keepdim=True) / draws.parameters
        V_rld.copy_(self.factor * size * V_rld.sign())

    def bytes(self, parameters):
        return 4 + -(-parameters // 8)


def until_the_end(graph, context):
    """Weights of W that may depend on the number of rounds."""
    return metropolis(graph) if context.rounds > 0 else None
