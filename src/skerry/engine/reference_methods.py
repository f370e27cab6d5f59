"""Methods that keep more than a model, device by device: the oracle for `engine/methods/`.

As in `reference.py` nothing of the arithmetic is shared with the fast engine. Schedules of beta, K
and H, and server optimizers, are not part of it; fedprox, which is plain SGD with another gradient,
is there.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.reference_compression import CompressedGossip
from skerry.engine.reference_parts import gradient, participants, weighted_sum
from skerry.engine.world import World
from skerry.plugins import registry


class _Devices(ABC):
    """The models x, the links of the round, and what every method needs to know."""

    def __init__(self, world: World, experiment: Experiment):
        self.n, self.zero = world.n, torch.zeros_like(world.initial())
        self.x = [world.initial().clone() for _ in range(self.n)]
        self.island = world.fleet.island_of.tolist()
        self.tau, self.H = experiment.training.local_steps, experiment.server.period
        self.beta = {"s2s": 0.0, "s2a": 1.0}.get(
            experiment.server.primitive, experiment.server.beta
        )
        self.gossip_steps = 1
        self.W = torch.eye(self.n)
        self.reached = list(range(self.n))
        self.last = self.x[0]  # what the server delivered last
        starts = [self.x[0], self.zero]  # of X, and of what goes over links beside it
        compresses = experiment.network.compresses
        self.gossip = CompressedGossip(world, experiment, starts) if compresses else None
        self.t = 0

    def zeros(self) -> list[Tensor]:
        return [self.zero.clone() for _ in range(self.n)]

    def mixed(self, a: list[Tensor], number: int = 0) -> list[Tensor]:
        for step in range(self.gossip_steps):
            if self.gossip is None:
                a = [weighted_sum(self.W[:, i], a) for i in range(self.n)]
            else:
                a = self.gossip.mixed(a, self.W, self.t, step, number)
        return a

    def mean(self, a: list[Tensor], of: list[int]) -> Tensor:
        return torch.stack([a[i] for i in of]).sum(dim=0) / len(of)

    @abstractmethod
    def direction(self, i: int, g: Tensor) -> Tensor:
        """What device i, with gradient g, steps along."""

    def mix(self, t: int, eta: float) -> None:
        self.x = self.mixed(self.x)

    @abstractmethod
    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        """The server samples S; `walked` is the sum of stepsizes since it met last."""

    def deliver(self, S: list[int], weights: list[float]) -> None:
        """S2S, S2A or blend."""
        plain = self.mean(self.x, S)
        weights = [*weights, 1 - sum(weights)]  # what they lack to 1 is that of `last`
        estimate = weighted_sum(
            torch.tensor(weights, dtype=plain.dtype), [*(self.x[i] for i in S), self.last]
        )
        self.last = plain if self.beta == 0 else estimate
        for i in self.reached:
            before = plain if i in S else self.x[i]
            self.x[i] = (1 - self.beta) * before + self.beta * estimate


class _GradientTracking(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.y, self.before = self.zeros(), self.zeros()
        self.tracker = experiment.method.tracker

    def direction(self, i: int, g: Tensor) -> Tensor:
        self.y[i] = self.y[i] + g - self.before[i]
        self.before[i] = g
        return self.y[i]

    def mix(self, t: int, eta: float) -> None:
        self.x, self.y = self.mixed(self.x), self.mixed(self.y, number=1)

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        self.deliver(S, weights)
        shared = self.mean(self.y, S)
        estimate = sum((w * self.y[i] for i, w in zip(S, weights, strict=True)), self.zero)
        if self.tracker == "s2s":
            for i in S:
                self.y[i] = shared
        elif self.tracker == "s2a":
            for i in self.reached:
                self.y[i] = estimate


class _SdGt(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.y, self.z, self.z_next, self.g = (self.zeros() for _ in range(4))
        self.start, self.s = list(self.x), self.x[0]

    def direction(self, i: int, g: Tensor) -> Tensor:
        self.g[i] = g
        return g + self.y[i] + self.z[i]

    def mix(self, t: int, eta: float) -> None:
        self.x = self.mixed(self.x)
        sums = [g + z for g, z in zip(self.g, self.z, strict=True)]
        after = self.mixed(sums)
        self.z_next = [self.z_next[i] + (after[i] - sums[i]) / self.H for i in range(self.n)]

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        d = {i: self.x[i] - self.start[i] + walked * self.y[i] for i in S}
        island_mean = {
            c: sum((d[i] for i in S if self.island[i] == c), self.zero)
            / sum(self.island[i] == c for i in S)
            for c in set(self.island)
        }
        mean = sum((self.island.count(c) / self.n * m for c, m in island_mean.items()), self.zero)
        self.s = self.s + mean
        for i in S:
            self.y[i] = (island_mean[self.island[i]] - mean) / walked
            self.x[i] = self.s
        self.z, self.start = list(self.z_next), list(self.x)


class _Mtgc(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.y, self.z = self.zeros(), self.zeros()

    def direction(self, i: int, g: Tensor) -> Tensor:
        return g + self.y[i] + self.z[i]

    def mix(self, t: int, eta: float) -> None:
        for i in range(self.n):
            island = [j for j in range(self.n) if self.island[j] == self.island[i]]
            self.z[i] = self.z[i] + (self.x[i] - self.mean(self.x, island)) / (self.tau * eta)
        self.x = self.mixed(self.x)

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        average = self.mean(self.x, list(range(self.n)))
        self.y = [self.y[i] + (self.x[i] - average) / walked for i in range(self.n)]
        self.x, self.z = [average] * self.n, self.zeros()


class _Scaffold(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.own, self.all, self.x0 = self.zeros(), self.zero, self.x[0]

    def direction(self, i: int, g: Tensor) -> Tensor:
        return g - self.own[i] + self.all

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        fresh = {i: self.own[i] - self.all + (self.x0 - self.x[i]) / walked for i in S}
        self.all = self.all + sum((fresh[i] - self.own[i] for i in S), self.zero) / self.n
        for i in S:
            self.own[i] = fresh[i]
        self.deliver(S, weights)
        self.x0 = self.x[0]


class _FedVarp(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.table, self.x0 = self.zeros(), self.x[0]

    def direction(self, i: int, g: Tensor) -> Tensor:
        return g

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        went = {i: self.x0 - self.x[i] for i in S}
        v = self.mean(self.table, list(range(self.n)))
        for i, weight in zip(S, weights, strict=True):
            v = v + weight * (went[i] - self.table[i])
        for i in S:
            self.table[i] = went[i]
        self.x0 = self.x0 - v
        self.x = [self.x0] * self.n


class _Mifa(_FedVarp):
    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        for i in S:
            self.table[i] = self.x0 - self.x[i]
        self.x0 = self.x0 - self.mean(self.table, list(range(self.n)))
        self.x = [self.x0] * self.n


class _Carry(_Devices):
    def __init__(self, world: World, experiment: Experiment):
        super().__init__(world, experiment)
        self.z = self.zeros()

    def direction(self, i: int, g: Tensor) -> Tensor:
        return g + self.z[i]

    def mix(self, t: int, eta: float) -> None:
        before, self.x = self.x, self.mixed(self.x)
        self._give_back(before, self.tau * eta)
        if (t + 1) % 100 == 0:  # the sum of z is 0 but for rounding
            mean = self.mean(self.z, list(range(self.n)))
            self.z = [z - mean for z in self.z]

    def meet(self, S: list[int], weights: list[float], eta: float, walked: float) -> None:
        before = list(self.x)
        self.deliver(S, weights)
        self._give_back(before, self.tau * self.H * eta)

    def _give_back(self, before: list[Tensor], step: float) -> None:
        self.z = [self.z[i] + (before[i] - self.x[i]) / step for i in range(self.n)]


METHODS: dict[str, type[_Devices]] = {
    "gradient_tracking": _GradientTracking,
    "sd_gt": _SdGt,
    "mtgc": _Mtgc,
    "scaffold": _Scaffold,
    "fedvarp": _FedVarp,
    "mifa": _Mifa,
    "carry": _Carry,
}


def reference_method(world: World, experiment: Experiment) -> Iterator[Tensor]:
    """The models X[n, d] of one run after every round."""
    training, server = experiment.training, experiment.server
    schedule = registry.resolve("schedule", training.schedule)
    told = training.options_for("schedule")
    fleet, sleep = world.fleet_of(experiment), world.awake(experiment)
    devices = METHODS[experiment.method.name](world, experiment)
    number, walked = 0, 0.0
    for t in range(experiment.rounds):
        eta = training.stepsize * schedule(t, experiment.rounds, training, **told)
        awake = [True] * world.n if sleep is None else sleep(t).tolist()
        for step in range(training.local_steps):
            indices, noise = world.batch_indices(t, step), world.noise_keys(t, step)
            for i in range(world.n):
                if awake[i]:
                    g = gradient(world, devices.x[i], indices[i], noise[i])
                    devices.x[i] = devices.x[i] - eta * devices.direction(i, g)
        walked += training.local_steps * eta
        meets = server.meets(t, experiment.rounds)
        rests = meets and not experiment.network.mix_with_server
        devices.gossip_steps = 0 if rests else experiment.network.gossip_steps
        devices.t = t
        devices.W = torch.from_numpy(fleet.matrix(t).toarray()).to(devices.zero)
        devices.mix(t, eta)
        if meets:
            away = torch.stack([(x_i - devices.last).double().norm() for x_i in devices.x])
            S, weights = participants(world, experiment, t, number, server.sampled, away.numpy())
            to_all = experiment.fleet.reach_asleep
            devices.reached = [i for i in range(world.n) if awake[i] or to_all]
            if S:
                devices.meet(S, weights, eta, walked)
            number, walked = number + 1, 0.0
        yield torch.stack(devices.x)
