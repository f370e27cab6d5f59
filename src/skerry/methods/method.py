"""The protocol of a method: arrays that it keeps beside X, and hooks in every step of a round.

A method keeps **companions** `[n, l, d]`, with a row for each device, and arrays of the server,
`[l, d]`. The engine holds and checkpoints them and passes views of some lanes at a time. A hook
changes the views in place. Lanes never see each other, so a result does not depend on how many
lanes a hook receives at once.

A built-in method is one file of this package with one class whose `name` is the name of the file.
The modules import torch inside functions, so that experiments are checked without loading it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from skerry.config.methods import ANY_COMPRESSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from skerry.clock.times import Ints, ServerMessages
    from skerry.config.methods import Rule
    from skerry.config.presets import SettingsFunction
    from skerry.plugins.context import Context

Arrays = dict[str, "Tensor"]


@dataclass(frozen=True)
class Lanes:
    """Some lanes of a stack, restricted to the devices that step now. Hooks change its tensors."""

    X_nld: Tensor
    state: Arrays
    """The arrays that the method keeps, by the names that `start` gave them."""
    eta_l1: Tensor
    """The stepsize of each lane, as a column."""
    local_steps: int
    """Local steps of a round; with `training.local_epochs` a tensor [n, 1, 1], those of each
    device."""
    context: Context
    shared_d: Tensor | None = None
    """Mask of the places that travel; None: all. In `mix` and `aggregate` nothing else may."""


class Mixing(Protocol):
    """The mixing of a round, with all its gossip steps."""

    def __call__(self, A_nld: Tensor) -> None:
        """Mix an array in place."""

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        """Mix A in place, and add (A before - A after) times the scale of its lane to `into`."""


@dataclass(frozen=True)
class Aggregation:
    """A server round, as a method sees it: the sampled devices and ways to deliver arrays."""

    sampled_k: Tensor
    weights_k: Tensor
    """The weights of the sampled devices in what S2A delivers; they sum to 1."""
    islands_n: Tensor
    """The island of every device."""
    eta_sum_l1: Tensor
    """The stepsizes of all local steps since the last server round that was planned, summed, as a
    column; with `training.local_epochs` [k, l, 1], a column for each of the sampled devices in
    their order. A server round in which nobody was sampled or in time counts, too."""
    deliver: Callable[[Tensor], int]
    """Apply the experiment's primitive to an array in place; returns how many devices receive."""
    collect: Callable[[Tensor, Tensor, Tensor], int]
    """`(A_nld, into_nld, scale_l1)`: deliver A, and add (A before - A after) of the sampled rows,
    times the scale of the lane, to those rows of `into`."""
    receivers: Tensor
    """The devices that the primitive reaches."""
    s2a_receivers: Tensor
    """The devices that S2A would reach."""

    def apply_s2s(self, A_nld: Tensor) -> None:
        """Apply S2S to any array: the sampled rows become their mean, and the mean of all stays."""
        A_nld[self.sampled_k] = A_nld[self.sampled_k].mean(dim=0)


@dataclass(frozen=True)
class Traffic:
    """Vectors of d numbers that one server round sent, up and down."""

    up: int
    down: int


class Method:
    """The base class of methods: plain SGD.

    A method overrides the hooks in which it differs. Its options are the keyword-only parameters of
    its `__init__`.
    """

    name: ClassVar[str] = ""
    """The name in an experiment, for built-in methods; it is also the name of the module."""
    rule: ClassVar[str] = ""
    """The update in one sentence."""
    keeps: ClassVar[str] = ""
    """The arrays that it keeps, in words."""
    sends: ClassVar[str] = ""
    """Vectors per round over links, and per server round up and down; E links, K sampled of n."""
    exact: ClassVar[str] = ""
    """Whether it ends at the optimum with full gradients and a constant stepsize."""
    citation: ClassVar[str] = ""
    checked: ClassVar[str] = ""
    """How the rule was checked against its source."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """The rules that an experiment with this method must keep (`skerry.config.methods`)."""
    presets: ClassVar[tuple[tuple[str, SettingsFunction, str], ...]] = ()
    """For each preset its name, the fields that it sets, and what differs from the source."""
    is_experimental: ClassVar[bool] = False
    link_compressions: ClassVar[tuple[str, ...]] = ()
    """The compressions of links under which its laws hold."""
    compresses_server: ClassVar[bool] = False
    """Whether its laws hold where messages to and from the server are compressed."""

    local_epochs: ClassVar[bool] = False
    """Whether its laws hold where devices take different numbers of local steps."""

    mixed_arrays: ClassVar[int] = 1
    """The number of arrays that are mixed over links in each round; messages are counted by it."""
    up: int = 1
    """Vectors that a sampled device sends in a server round."""
    down: int = 1
    """Vectors that each device receives that the primitive reaches."""
    down_to_sampled: int = 0
    """Vectors that each sampled device receives beside those."""
    down_to_all: int = 0
    """Vectors that each device that S2A would reach receives beside those, for any primitive."""
    allows_private: ClassVar[bool] = False
    """Whether it may be used with `model.private` although it overrides `mix` or `aggregate`. The
    `mix` that it calls leaves private parts as they are. In `aggregate` they are zero, in X and in
    what the method keeps, and come back afterwards; a correction of gradients is zero there."""
    needs_gradient: ClassVar[bool] = False
    """Whether the step before `after_step` is X - G, not scaled by eta."""

    takes_different_starts: ClassVar[bool] = False
    """Whether its laws hold where devices start at different points (`weights` by device)."""

    is_repeatable: ClassVar[bool] = False
    """Whether the local steps and the mixing of all rounds launch the same work, so that a GPU may
    replay them from a CUDA graph."""

    def repeats(self, t: int) -> bool:
        """Whether round t may be replayed from a CUDA graph. Default: as `is_repeatable` says."""
        return self.is_repeatable

    def start(self, X_nld: Tensor) -> Arrays:
        """The arrays that it keeps, for models at the initial point, which all devices share unless
        `takes_different_starts`."""
        return {}

    def before_step(self, lanes: Lanes) -> Tensor | None:
        """Called before a local step. The returned tensor is passed to `after_step` as `before`."""
        return None

    def after_step(self, lanes: Lanes, before: Tensor | None) -> None:
        """Called after a local step: X is X - eta G now."""

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        """Mix the arrays that travel, after the local steps of a round."""
        mix(lanes.X_nld)

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        """Deliver the aggregate of the sampled devices, in a server round."""
        return Traffic(len(server.sampled_k), server.deliver(lanes.X_nld))


class Sgd(Method):
    """Plain SGD, the paper's Algorithm 1."""

    name = "sgd"
    rule = "X <- X - eta G(X), then mixing, then the server: Algorithm 1."
    keeps = "nothing"
    sends = "2E over links; K up; K (S2S) or n (S2A, blend) down"
    exact = "no: data that differ between devices leave a permanent error"
    link_compressions = ANY_COMPRESSION
    compresses_server = True
    local_epochs = True
    takes_different_starts = True


def overrides(method: Method, *hooks: str) -> bool:
    """Whether a method has any of these hooks of its own."""
    kind = type(getattr(method, "inner", method))  # of a method that is adapted
    return any(getattr(kind, hook) is not getattr(Method, hook) for hook in hooks)


def traffic_of(method: Method, sampled: int, receivers: int, everyone: int) -> Traffic:
    """The vectors of a server round, as a method's attributes tell."""
    down = method.down * receivers + method.down_to_sampled * sampled
    return Traffic(method.up * sampled, down + method.down_to_all * everyone)


def server_messages(
    method: Method, up: float, down: float, receivers: Ints | None, everyone: Ints
) -> ServerMessages:
    """The messages of a server round, for vectors of so many bytes.

    The primitive reaches the `receivers`, which are all devices that S2A reaches, or only the
    sampled ones (None).
    """
    from skerry.clock.times import ServerMessages

    # Where all receive something else, what the primitive delivers is for the sampled ones alone.
    apart = receivers is None and method.down_to_all > 0
    return ServerMessages(
        up=method.up * up,
        down=(method.down_to_all + (0 if apart else method.down)) * down,
        down_to_sampled=(method.down_to_sampled + (method.down if apart else 0)) * down,
        reached=everyone if method.down_to_all else receivers,
        to_all=method.down_to_all > 0 or receivers is not None,
    )


def count_companions(method: Method) -> int:
    """How many arrays of the size of X a method keeps."""
    import torch

    return sum(array.ndim == 3 for array in method.start(torch.zeros(1, 1, 1)).values())


def inverse(eta_l1: Tensor) -> Tensor:
    """1 / eta; 0 where a schedule has reached a stepsize of 0, because nothing moves there."""
    import torch

    return torch.where(eta_l1 > 0, 1 / eta_l1, 0)
