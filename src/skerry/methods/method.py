"""What a method may do beside plain SGD: arrays that it keeps, and a say in every step of a round.

A method keeps named arrays beside X: **companions** `[n, l, d]`, a row for each device, or what the
server remembers, `[l, d]`. The engine holds them, checkpoints them, and hands out views of some
lanes at a time: a hook changes them in place, and a temporary the size of X is a small one. Lanes
never see each other, so nothing depends on how many come at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from skerry.plugins.context import Context

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class Lanes:
    """Some lanes of a stack; in a local step, of some of the devices. All tensors are views."""

    t: int
    """The round."""
    X_nld: Tensor
    own: Arrays
    """What the method keeps: all of `start`, by name."""
    eta_l1: Tensor
    """The stepsize of each lane, as a column."""
    local_steps: int
    period: int
    """H, the rounds between two server rounds."""
    context: Context = field(default_factory=partial(Context, seed=0))
    """Where the run stands."""


class Mixing(Protocol):
    """The mixing of a round, with all its gossip steps."""

    def __call__(self, A_nld: Tensor) -> None:
        """Mix an array in place."""

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        """Mix it; what that takes from each row, times its lane's scale, is added to another."""


@dataclass(frozen=True)
class ServerRound:
    """One server round, as a method sees it."""

    sampled_k: Tensor
    weights_k: Tensor
    """How the sampled count in what S2A delivers; they sum to 1."""
    islands_n: Tensor
    """The island of every device."""
    walked_l1: Tensor
    """The stepsizes of all local steps since the last server round, summed, as a column."""
    deliver: Callable[[Tensor], int]
    """The experiment's own primitive, in place; returns how many devices receive."""
    collect: Callable[[Tensor, Tensor, Tensor], int]
    """`(A_nld, into_nld, scale_l1)`: the same; what it takes from each of the sampled, times its
    lane's scale, is added to its row of another array."""
    receivers: Tensor
    """Who they are."""
    everybody: Tensor
    """Whom S2A would reach."""

    def share(self, A_nld: Tensor) -> None:
        """S2S on any array: the sampled take their plain mean, so that the mean of all stays."""
        A_nld[self.sampled_k] = A_nld[self.sampled_k].mean(dim=0)


@dataclass(frozen=True)
class Traffic:
    """Vectors of d numbers that one server round sent, up and down."""

    up: int
    down: int


class Method:
    """Plain SGD. A method inherits from it and says what it does otherwise; its options are the
    keyword-only parameters of its `__init__`."""

    travels = 1
    """Arrays that go over every link in a mixing."""
    asks_gradient = False
    """Whether `after_step` is to find X - G, the step not scaled by eta."""

    def repeats(self, t: int) -> bool:
        """Whether the steps and the mixing of round t are those of other rounds, whatever the round
        and the values: a GPU records them once and replays them. Without a word, nothing is."""
        return False

    def start(self, X_nld: Tensor) -> Arrays:
        """The arrays it keeps, for models that are all at the initial point."""
        return {}

    def before_step(self, lanes: Lanes) -> Tensor | None:
        """Before a local step; what it returns, `after_step` is given."""
        return None

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        """After it: X is X - eta G now."""

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        """Mixing, after all local steps of a round: `mix` changes an array in place."""
        mix(lanes.X_nld)

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        """The server round."""
        return Traffic(len(server.sampled_k), server.deliver(lanes.X_nld))


def companions_of(method: Method) -> int:
    """How many arrays of the size of X it keeps."""
    return sum(array.ndim == 3 for array in method.start(torch.zeros(1, 1, 1)).values())


def inverse(eta_l1: Tensor) -> Tensor:
    """1 / eta; where a schedule has come to a stop nothing moves, and 0 takes its place."""
    return torch.where(eta_l1 > 0, 1 / eta_l1, 0)
