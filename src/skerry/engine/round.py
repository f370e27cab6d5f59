"""One round of Algorithm 1 for all lanes: local step, D2D mixing, D2S."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.engine.server import Memory
from skerry.engine.stack import ServerGroup, Stack
from skerry.kernels.precision import arithmetic
from skerry.models.learner import Batch


@dataclass
class State:
    """Everything a round changes; with the seed it determines all that follows."""

    t: int
    """Rounds done."""
    X_nld: Tensor
    memory: Memory
    """What server optimizers remember, [L, d] each."""
    chunk: int
    """Devices that step at once, decided at the start: a resumed run repeats its arithmetic."""


@dataclass(frozen=True)
class Meeting:
    """What one D2S round of a group of lanes moved: messages up and down, per lane."""

    lanes: slice
    uplink: int
    downlink: int


def start(stack: Stack) -> State:
    """All devices of all lanes at the common initial point."""
    world, lanes = stack.world, len(stack)
    X = world.initial().expand(world.n, lanes, -1).clone()
    memory: Memory = {}
    for group in stack.servers:
        for name, start_ld in group.start(X[0, group.lanes]).items():
            memory.setdefault(name, torch.zeros_like(X[0]))[group.lanes] = start_ld
    return State(0, X, memory, stack.chunk())


@dataclass(frozen=True)
class Draws:
    """What chance and the schedule decide in one round of local steps."""

    indices_snb: Tensor
    """Training indices of every local step and device."""
    noise_sn: Tensor
    eta_l: Tensor

    def copy(self) -> "Draws":
        return Draws(self.indices_snb.clone(), self.noise_sn.clone(), self.eta_l.clone())

    def take(self, other: "Draws") -> None:
        """Become equal to another, in place."""
        self.indices_snb.copy_(other.indices_snb)
        self.noise_sn.copy_(other.noise_sn)
        self.eta_l.copy_(other.eta_l)


def draw(stack: Stack, t: int) -> Draws:
    world = stack.world
    steps = range(world.experiment.training.local_steps)
    return Draws(
        torch.stack([world.batch_indices(t, step) for step in steps]),
        torch.stack([world.noise_keys(t, step) for step in steps]),
        stack.etas_tl[t],
    )


def local_steps(stack: Stack, state: State, draws: Draws) -> Tensor:
    """X <- X - eta G(X), at each device's own model; returns the mean losses [L]."""
    world = stack.world
    total_l = state.X_nld.new_zeros(len(stack))
    with arithmetic(world.experiment.training.precision):
        for indices_nb, noise_n in zip(draws.indices_snb, draws.noise_sn, strict=True):
            for first in range(0, world.n, state.chunk):
                devices = slice(first, first + state.chunk)
                rows = indices_nb[devices]
                batch = Batch(world.x_train[rows], world.y_train[rows], noise_n[devices])
                losses = world.learner.step(state.X_nld[devices], batch, draws.eta_l)
                total_l += losses.sum(dim=0)
    return total_l / (world.n * len(draws.indices_snb))


def mix(stack: Stack, state: State) -> None:
    """X <- X W: every lane with the links of its own network."""
    with arithmetic(stack.world.experiment.training.precision):
        for group in stack.mixing:
            group.mixer.mix(state.X_nld[:, group.lanes], state.t)


def meet(stack: Stack, state: State) -> list[Meeting]:
    """The server samples, averages and delivers, in the groups whose period has come."""
    due = [group for group in stack.servers if group.meets(state.t)]
    if not due:
        return []
    order = stack.world.server_order(state.t)
    return [_meet(group, state, order) for group in due]


def _meet(group: ServerGroup, state: State, order: Tensor) -> Meeting:
    X_nld = state.X_nld[:, group.lanes]
    memory = {name: tensor[group.lanes] for name, tensor in state.memory.items()}
    sampled_k = order[: group.server.sampled]
    average_ld = X_nld[sampled_k].mean(dim=0)
    delivered_ld = group.deliver(memory, average_ld, group.server)
    downlink = group.primitive(X_nld, sampled_k, delivered_ld, group.server)
    return Meeting(group.lanes, uplink=len(sampled_k), downlink=downlink)


def keep_lanes(state: State, lanes: list[int]) -> State:
    """The state of some of the lanes only."""
    memory = {name: tensor[lanes] for name, tensor in state.memory.items()}
    return State(state.t, state.X_nld[:, lanes].contiguous(), memory, state.chunk)
