"""Algorithm 1 of the paper, line by line: a slow loop over devices that the fast engine must match.

The loop shares its inputs with the fast engine: the data, the random draws, the stepsizes eta_t and
the mixing matrices W(t). It shares none of the arithmetic: gradients come from autograd at one
model, mixing is a sum over neighbours, and the primitives are written out.

Extensions of Algorithm 1 are refused here; `tests/oracle/` has them as subclasses of `Reference`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.stack import schedule_of
from skerry.engine.world import World
from skerry.errors import SkerryError


class Reference:
    """One run of Algorithm 1. `x[i]` is the model of device i, a flat vector of d parameters."""

    supported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "server.primitive": ("s2s", "s2a", "blend", "none"),
        "server.optimizer": ("fedavg",),
        "server.selection": ("uniform",),
        "server.weights": ("equal",),
        **{f"{path}.compression": ("none",) for path in ("server", "network")},
        **{f"server.{name}_schedule": ("constant",) for name in ("beta", "sampled", "period")},
        **{"server.deadline": (None,), "server.over_sample": (0,)},
        "training.optimizer": ("sgd",),
        **{"training.local_epochs": (None,), "training.weight_decay": (0,)},
        "training.order": ("adapt_then_mix",),
        "training.weights": ("equal",),
        "network.gossip_steps": (1,),
        "network.mix_with_server": (True,),
        "method.name": ("sgd",),
        "model.private": ((),),
    }
    """For each field of an experiment that is restricted, the values that are implemented."""
    supports_sleep = False

    def __init__(self, world: World, experiment: Experiment) -> None:
        self.check(experiment)
        if world.awake(experiment) is not None and not self.supports_sleep:
            raise SkerryError("the reference needs all devices awake. Leave [availability] out.")
        self.world, self.experiment = world, experiment
        self.fleet, self.n = world.fleet_of(experiment), world.n
        self.stepsize_factor = schedule_of(world, experiment)
        self.x = [*world.initial_models().clone()]

    @classmethod
    def check(cls, experiment: Experiment) -> None:
        """Raise a SkerryError for a field whose value is not implemented."""
        for path, values in cls.supported.items():
            section, _, field = path.partition(".")
            got = getattr(getattr(experiment, section), field)
            if got not in values:
                rule = f"{path} = {' or '.join(map(str, values))}"
                raise SkerryError(f"the reference needs {rule} (got {got}). Change {path}.")

    def run(self) -> Iterator[Tensor]:
        """Yield the models X[n, d] after every round."""
        for t in range(self.experiment.rounds):  # line 1
            self.local_steps(t)  # line 2
            self.mix(t)  # line 3
            if self.is_server_round(t):  # line 4
                self.server_round(t)  # lines 5 to 7
            yield torch.stack(self.x)

    def local_steps(self, t: int) -> None:
        """x_i <- x_i - eta_t grad F_i(x_i, B_i) for every device i."""
        eta, steps = self.eta(t), self.experiment.training.local_steps
        for step in range(steps):
            rows, noise = self.world.batch_indices(t, step), self.world.noise_keys(t, step)
            for i in range(self.n):
                g = self.gradient(self.x[i], rows[i], noise[i])
                self.x[i] = self.x[i] - eta * self.direction(i, g, t * steps + step)

    def eta(self, t: int) -> float:
        """The stepsize of round t."""
        return self.experiment.training.stepsize * self.stepsize_factor(t)

    def gradient(self, x_i: Tensor, rows: Tensor, noise: Tensor) -> Tensor:
        """The gradient of the minibatch loss at one model, by autograd."""
        at = x_i.clone().requires_grad_()
        x, y = self.world.x_train[rows], self.world.y_train[rows]
        loss = self.world.learner.loss(at, x, y, noise)
        return torch.autograd.grad(loss, at)[0]

    def direction(self, i: int, g: Tensor, steps_done: int) -> Tensor:
        """The vector that device i steps along: its gradient."""
        return g

    def mix(self, t: int) -> None:
        """x_i <- sum over j of w_ji x_j."""
        W = torch.from_numpy(self.fleet.matrix(t).toarray()).to(self.x[0])
        self.x = [weighted_sum(W[:, i], self.x) for i in range(self.n)]

    def is_server_round(self, t: int) -> bool:
        server = self.experiment.server
        is_due = t >= server.offset and (t - server.offset) % server.period == 0
        return is_due and server.primitive != "none"

    def server_round(self, t: int) -> None:
        """Sample S, average its models and deliver the average: Eq. (S2S), (S2A) or their blend."""
        server = self.experiment.server
        beta = {"s2s": 0.0, "s2a": 1.0, "blend": server.beta}[server.primitive]
        S = self.world.server_order(t)[: server.sampled].tolist()
        xhat = torch.stack([self.x[i] for i in S]).sum(dim=0) / len(S)
        for i in range(self.n):
            self.x[i] = xhat if i in S else (1 - beta) * self.x[i] + beta * xhat


def weighted_sum(weights: Tensor, x: list[Tensor]) -> Tensor:
    """The sum of w_j x_j over all j whose weight is not zero."""
    terms = [w * x_j for w, x_j in zip(weights, x, strict=True) if w != 0]
    return sum(terms, torch.zeros_like(x[0]))
