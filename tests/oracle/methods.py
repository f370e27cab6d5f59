"""Methods that keep more than a model, device by device.

Schedules of beta, K and H, and server optimizers, are not part of them. fedprox, which is SGD with
another gradient, is in `oracle/extended.py`.
"""

from typing import ClassVar

import torch

from oracle.extended import ExtendedReference


class MethodReference(ExtendedReference):
    """The base of all methods here: plain SGD with access to islands and local steps."""

    supported: ClassVar = {
        "server.primitive": ("s2s", "s2a", "blend", "none"),
        "server.optimizer": ("fedavg",),
    }

    def direction(self, i, g, steps_done):
        """Along the method's own direction, except for private parts: along the gradient."""
        along = super().direction(i, g, steps_done)
        return torch.where(self.is_private & self.awake[i], g, along)

    @property
    def tau(self):
        """Local steps in a round."""
        return self.experiment.training.local_steps


class GradientTracking(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.y, self.before = self.zeros(), self.zeros()
        self.tracker = experiment.method.tracker

    def method_direction(self, i, g, steps_done):
        self.y[i] = self.y[i] + g - self.before[i]
        self.before[i] = g
        return self.y[i]

    def mix_arrays(self, t):
        self.x, self.y = self.mixed(self.x, t), self.mixed(self.y, t, number=1)

    def aggregate(self, t, S, weights, beta):
        super().aggregate(t, S, weights, beta)
        shared = self.mean(self.y, S)
        estimate = sum((w * self.y[i] for i, w in zip(S, weights, strict=True)), self.zero)
        if self.tracker == "s2s":
            for i in S:
                self.y[i] = shared
        elif self.tracker == "s2a":
            for i in self.reached:
                self.y[i] = estimate


class SdGt(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.y, self.z, self.z_next, self.g = (self.zeros() for _ in range(4))
        self.start, self.s = list(self.x), self.x[0]

    def method_direction(self, i, g, steps_done):
        self.g[i] = g
        return g + self.y[i] + self.z[i]

    def mix_arrays(self, t):
        self.x = self.mixed(self.x, t)
        sums = [g + z for g, z in zip(self.g, self.z, strict=True)]
        after = self.mixed(sums, t)
        self.z_next = [self.z_next[i] + (after[i] - sums[i]) / self.H for i in range(self.n)]

    def aggregate(self, t, S, weights, beta):
        d = {i: self.x[i] - self.start[i] + self.eta_sum * self.y[i] for i in S}
        island_mean = {
            c: sum((d[i] for i in S if self.island[i] == c), self.zero)
            / sum(self.island[i] == c for i in S)
            for c in set(self.island)
        }
        mean = sum((self.island.count(c) / self.n * m for c, m in island_mean.items()), self.zero)
        self.s = self.s + mean
        for i in S:
            self.y[i] = (island_mean[self.island[i]] - mean) / self.eta_sum
            self.x[i] = self.s
        self.z, self.start = list(self.z_next), list(self.x)


class Mtgc(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.y, self.z = self.zeros(), self.zeros()

    def method_direction(self, i, g, steps_done):
        return g + self.y[i] + self.z[i]

    def mix_arrays(self, t):
        for i in range(self.n):
            island = [j for j in range(self.n) if self.island[j] == self.island[i]]
            self.z[i] = self.z[i] + (self.x[i] - self.mean(self.x, island)) / (
                self.tau * self.eta(t)
            )
        self.x = self.mixed(self.x, t)

    def aggregate(self, t, S, weights, beta):
        average = self.mean(self.x, list(range(self.n)))
        self.y = [self.y[i] + (self.x[i] - average) / self.eta_sum for i in range(self.n)]
        self.x, self.z = [average] * self.n, self.zeros()


class Scaffold(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.own, self.all, self.x0 = self.zeros(), self.zero, self.x[0]

    def method_direction(self, i, g, steps_done):
        return g - self.own[i] + self.all

    def aggregate(self, t, S, weights, beta):
        away = {i: (self.x0 - self.x[i]) / (self.eta_sum * self.steps[i]) for i in S}
        fresh = {i: self.own[i] - self.all + away[i] for i in S}
        self.all = self.all + sum((fresh[i] - self.own[i] for i in S), self.zero) / self.n
        for i in S:
            self.own[i] = fresh[i]
        super().aggregate(t, S, weights, beta)
        self.x0 = self.x[0]


class FedVarp(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.table, self.x0 = self.zeros(), self.x[0]

    def method_direction(self, i, g, steps_done):
        return g

    def aggregate(self, t, S, weights, beta):
        went = {i: self.x0 - self.x[i] for i in S}
        v = self.mean(self.table, list(range(self.n)))
        for i, weight in zip(S, weights, strict=True):
            v = v + weight * (went[i] - self.table[i])
        for i in S:
            self.table[i] = went[i]
        self.x0 = self.x0 - v
        self.x = [self.x0] * self.n


class Mifa(FedVarp):
    def aggregate(self, t, S, weights, beta):
        for i in S:
            self.table[i] = self.x0 - self.x[i]
        self.x0 = self.x0 - self.mean(self.table, list(range(self.n)))
        self.x = [self.x0] * self.n


class Carry(MethodReference):
    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        self.z = self.zeros()

    def method_direction(self, i, g, steps_done):
        return g + self.z[i]

    def mix_arrays(self, t):
        before, self.x = self.x, self.mixed(self.x, t)
        self._give_back(before, self.tau * self.eta(t))
        if (t + 1) % 100 == 0:  # the sum of z is 0 but for rounding
            mean = self.mean(self.z, list(range(self.n)))
            self.z = [z - mean for z in self.z]

    def aggregate(self, t, S, weights, beta):
        before = list(self.x)
        super().aggregate(t, S, weights, beta)
        self._give_back(before, self.tau * self.H * self.eta(t))

    def _give_back(self, before, step):
        self.z = [self.z[i] + (before[i] - self.x[i]) / step for i in range(self.n)]


METHODS = {
    "gradient_tracking": GradientTracking,
    "sd_gt": SdGt,
    "mtgc": Mtgc,
    "scaffold": Scaffold,
    "fedvarp": FedVarp,
    "mifa": Mifa,
    "carry": Carry,
}
