"""Algorithm 1 with the extensions of the fast engine, except methods that keep arrays.

These are local epochs, sleep, clocks and deadlines, weights, optimizers, schedules of beta, K and
H, compressed messages, and private parts of models.

Methods that keep more than a model are in `oracle/methods.py`.
"""

from fnmatch import fnmatchcase
from math import ceil
from typing import ClassVar

import torch
from torch import Tensor

from oracle.clock import DeviceClock, in_time, weights_in_time
from oracle.compression import CompressedGossip, CompressedServer
from oracle.schedules import estimates, scheduled_value
from skerry.engine.participation.sampler import Sampler
from skerry.engine.reference import Reference, weighted_sum
from skerry.engine.server_schedule import ScheduledRound


class ExtendedReference(Reference):
    """Any experiment with the built-in primitives and plain SGD or fedprox."""

    supported: ClassVar = {
        "server.primitive": ("s2s", "s2a", "blend", "none"),
        "method.name": ("sgd", "fedprox"),
    }
    supports_sleep = True

    def __init__(self, world, experiment):
        super().__init__(world, experiment)
        training, server = experiment.training, experiment.server
        x0 = self.world.initial()
        self.zero = torch.zeros_like(x0)
        self.is_private = torch.zeros_like(x0, dtype=torch.bool)
        for parameter in world.layout:
            if any(fnmatchcase(parameter.name, name) for name in experiment.model.private):
                parameter.of(self.is_private).fill_(True)
        self.island = world.fleet.island_of.tolist()
        self.sleep, self.awake = world.awake(experiment), [True] * self.n
        sizes = world.partition.sizes.tolist()
        by_data = training.weights == "data"
        self.scale = [self.n * m / sum(sizes) if by_data else 1.0 for m in sizes]
        self.last = x0.clone()  # the model that the server delivered last
        self.received = list(self.x)  # by each device last, for fedprox
        self.local_memory = [{"m": self.zero, "v": self.zero} for _ in self.x]
        self.server_memory = {"y": x0, "before": x0, "m": self.zero, "v": self.zero}
        # Of X, and of an array that travels beside it.
        starts = [self.shared(x0), self.zero]
        compresses = experiment.network.compresses
        self.gossip = CompressedGossip(world, experiment, starts) if compresses else None
        self.messages = (
            CompressedServer(world, experiment, starts[0]) if server.compresses else None
        )
        self.number, self.next_server, self.last_round = 0, server.offset, -1
        self.H = server.period
        self.estimates = []
        self.adapts = server.is_adaptive("beta", "sampled", "period")
        p = 0.0
        if server.is_adaptive("beta"):
            p = self.fleet.mixing_parameters().minimum
        self.p = 1 - (1 - p) ** experiment.network.gossip_steps
        self.eta_sum = 0.0  # the stepsizes of all local steps since the last server round
        epochs = training.local_epochs
        self.sizes = sizes
        self.clock = DeviceClock(world, experiment) if experiment.clock.file else None
        # With local epochs, `eta_sum` has a stepsize for each round, not for each of these steps.
        self.steps = [epochs * ceil(m / training.batch) if epochs else 1 for m in sizes]

    # Private parts

    def shared(self, v):
        """A vector as others see it: without the private part."""
        return torch.where(self.is_private, self.zero, v)

    def with_own(self, after, before):
        """The rows of an array after messages: private parts are as they were before."""
        pairs = zip(before, after, strict=True)
        return [torch.where(self.is_private, own, new) for own, new in pairs]

    # Local steps

    def local_steps(self, t):
        self.awake = [True] * self.n if self.sleep is None else self.sleep(t).tolist()
        self.before_steps = list(self.x)
        if self.experiment.training.local_epochs is None:
            super().local_steps(t)
        else:
            self.local_epochs(t)
        self.eta_sum += self.experiment.training.local_steps * self.eta(t)
        if self.clock is not None:
            training = self.experiment.training
            steps = self.steps if training.local_epochs else [training.local_steps] * self.n
            self.clock.local_steps(t, steps, self.awake)

    def local_epochs(self, t):
        """E passes of every device over its samples, in minibatches of at most B."""
        eta, batch, last = self.eta(t), self.experiment.training.batch, 0
        orders = self.world.draws.epoch_orders(t)
        for i, m in enumerate(self.sizes):
            own, last = orders[:, last : last + m], last + m
            minibatches = [rows for order in own for rows in order.split(batch)]
            for step, rows in enumerate(minibatches):
                g = self.gradient(self.x[i], rows, self.world.noise_keys(t, step)[i])
                direction = self.direction(i, g, t * self.steps[i] + step)
                self.x[i] = self.x[i] - eta * direction

    def direction(self, i, g, steps_done):
        if not self.awake[i]:
            return self.zero
        return self.method_direction(i, g, steps_done)

    def method_direction(self, i, g, steps_done):
        """The vector that device i steps along while it is awake."""
        training, method = self.experiment.training, self.experiment.method
        g = self.scale[i] * g + training.weight_decay * self.x[i]
        direction = _local_optimizer(training, self.local_memory[i], g, steps_done + 1)
        if method.name == "fedprox":
            direction = direction + method.mu * self.shared(self.x[i] - self.received[i])
        return direction

    # Mixing

    def mix(self, t):
        if self.experiment.training.order == "adapt_then_mix":
            self.mix_arrays(t)
            return
        steps = [x_i - before for x_i, before in zip(self.x, self.before_steps, strict=True)]
        self.x = self.before_steps
        self.mix_arrays(t)
        self.x = [x_i + step for x_i, step in zip(self.x, steps, strict=True)]

    def mix_arrays(self, t):
        """Mix every array that travels: X."""
        self.x = self.mixed(self.x, t)

    def mixed(self, a, t, number=0):
        """The rows of an array after all gossip steps of a round; `number` counts the arrays."""
        network = self.experiment.network
        W = torch.from_numpy(self.fleet.matrix(t).toarray()).to(self.zero)
        mixes, before = network.mix_with_server or not self.is_server_round(t), a
        for step in range(network.gossip_steps if mixes else 0):
            if self.clock is not None:
                self.clock.gossip(self.fleet.edges(t).tolist())
            if self.gossip is None:
                a = [weighted_sum(W[:, i], a) for i in range(self.n)]
            else:
                a = self.gossip.mixed(list(map(self.shared, a)), W, t, step, number)
        return self.with_own(a, before)

    # Server rounds

    def is_server_round(self, t):
        return self.experiment.server.primitive != "none" and t == self.next_server

    def server_round(self, t):
        server = self.experiment.server
        beta = {"s2s": 0.0, "s2a": 1.0}.get(server.primitive)
        beta = self.scheduled("beta", t) if beta is None else beta
        K = round(self.scheduled("sampled", t))
        S, weights = self.sample(t, K + server.over_sample)
        if self.clock is not None and S:
            S, weights = self.timed(S, weights, beta, K)
        if self.adapts and S:
            since = t - self.last_round
            models = list(map(self.shared, self.x))
            self.estimates += estimates(self.world, self.experiment, models, S, self.awake, since)
        self.H = round(self.scheduled("period", t))
        self.last_round, self.number = t, self.number + 1
        self.next_server = t + self.H
        if S:
            before = list(self.x)
            self.aggregate(t, S, weights, beta)
            self.x = self.with_own(self.x, before)
        self.eta_sum = 0.0

    def scheduled(self, field, t):
        """The value of beta, K or H in round t."""
        estimates = tuple(self.estimates[-self.experiment.server.adapt_over :])
        return scheduled_value(self.experiment, field, t, self.number, self.H, self.p, estimates)

    def sample(self, t, K):
        """The sampled devices, and the weight of each in what S2A delivers. The fast engine's draws
        are used, as its batches are; the weights are written out."""
        away = [self.shared(x_i - self.last).double() for x_i in self.x]
        distances = torch.stack([one.norm() for one in away]).numpy()
        scheduled = ScheduledRound(
            self.experiment.server.model_copy(update={"sampled": K}), self.number, self.H
        )
        sample = Sampler(self.world, self.experiment).sample(t, distances, scheduled)
        if sample is None:
            return [], []
        S = sample.devices_k.tolist()
        if sample.weights_k is not None:
            return S, sample.weights_k.tolist()
        return S, [1 / len(S)] * len(S)

    def timed(self, called, weights, beta, K):
        """The called devices that count, and their weights: all send, and some are in time."""
        server = self.experiment.server
        call, arrived = self.clock.call(called)
        S, at = in_time(server, call, arrived, K)
        if S:
            self.clock.deliver(at, S if beta == 0 else self.reached, beta > 0)
        if len(S) == len(called):
            return called, weights
        return S, weights_in_time(server, dict(zip(called, weights, strict=True)), S, self.island)

    @property
    def reached(self):
        """The devices that S2A reaches."""
        reaches_asleep = self.experiment.availability.reach_asleep
        return [i for i in range(self.n) if self.awake[i] or reaches_asleep]

    def aggregate(self, t, S, weights, beta):
        """Average the sampled models and deliver them: S2S, S2A or blend."""
        server = self.experiment.server
        received = {i: self.x[i] for i in S}
        if self.messages is not None:
            received = self.messages.up(list(map(self.shared, self.x)), S, t)
        plain = torch.stack([received[i] for i in S]).sum(dim=0) / len(S)
        weights = [*weights, 1 - sum(weights)]  # what they lack to 1 is the weight of `last`
        estimate = weighted_sum(
            torch.tensor(weights, dtype=self.zero.dtype), [*received.values(), self.last]
        )
        if server.optimizer != "fedavg":
            y = _server_optimizer(server, self.server_memory, plain if beta == 0 else estimate)
            both = server.selection == "uniform" and server.weights == "equal"
            plain = y if beta == 0 or both else plain
            estimate = y
        self.last = plain if beta == 0 else estimate
        for i in self.reached:
            after = (1 - beta) * (plain if i in S else self.x[i]) + beta * estimate
            if self.messages is not None and (i in S or beta > 0):
                sent = after if i in S else estimate
                sent = self.shared(sent)
                after = self.messages.down(self.shared(self.x[i]), i, sent, beta, i in S, t)
            self.x[i] = after
            if i in S or beta > 0:
                self.received[i] = after

    def mean(self, a, devices):
        """The plain mean of some rows of an array."""
        return torch.stack([a[i] for i in devices]).sum(dim=0) / len(devices)

    def zeros(self):
        """A new array with a row of zeros for each device."""
        return [self.zero.clone() for _ in range(self.n)]


def _local_optimizer(training, memory: dict[str, Tensor], g: Tensor, count: int) -> Tensor:
    """The direction of a device's local step of this number, counted from 1."""
    b1, b2 = training.momentum, training.second_momentum
    match training.optimizer:
        case "momentum":
            memory["v"] = b1 * memory["v"] + g
            return memory["v"]
        case "adam":
            memory["m"] = b1 * memory["m"] + (1 - b1) * g
            memory["v"] = b2 * memory["v"] + (1 - b2) * g**2
            m, v = memory["m"] / (1 - b1**count), memory["v"] / (1 - b2**count)
            return m / (torch.sqrt(v) + training.smallest)
    return g


def _server_optimizer(server, memory: dict[str, Tensor], xhat: Tensor) -> Tensor:
    """The model that the server delivers in the place of the average xhat."""
    y, m, v = memory["y"], memory["m"], memory["v"]
    step = 1.0 if server.learning_rate is None else server.learning_rate
    match server.optimizer:
        case "fedavgm":
            v = server.momentum * v + (1 - server.dampening) * (y - xhat)
            y = y - step * v
        case "fedavgm_averages":
            v = server.momentum * v + (xhat - memory["before"])
            y = xhat + step * server.momentum * v
        case "fedadam" | "fedyogi":
            step = 0.1 if server.learning_rate is None else server.learning_rate
            b1, b2, square = server.momentum, server.second_momentum, (xhat - y) ** 2
            m = b1 * m + (1 - b1) * (xhat - y)
            if server.optimizer == "fedadam":
                v = b2 * v + (1 - b2) * square
            else:
                v = v - (1 - b2) * square * torch.sign(v - square)
            y = y + step * m / (torch.sqrt(v) + server.smallest)
    memory.update(y=y, m=m, v=v, before=xhat)
    return y
