"""The part of methods in a round: a say before and after a local step, in mixing, at the server."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.engine.companions import COMPRESSION, Companions
from skerry.engine.compressed import CompressedLinks
from skerry.engine.participation.sampler import Sample
from skerry.engine.stack import MixingGroup, ServerGroup, Stack
from skerry.engine.state import State
from skerry.kernels import fused
from skerry.methods.method import Lanes, Method, Mixing, ServerRound, Traffic

CPU_PIECE = 2**22
"""Bytes of X that a method mixes at once on a CPU: its temporaries stay in the cache."""
GPU_PIECE = 2**25
"""On a GPU a temporary of a method may be as large as this, or the share of X."""
GPU_SHARE = 1 / 16
EVERYBODY = slice(None)


def start_companions(stack: Stack, X_nld: Tensor) -> Companions:
    """All that methods and compression of a stack keep, at the start."""
    companions, compression = Companions(), COMPRESSION.rstrip(".")
    for group in stack.mixing:
        X = X_nld[:, group.lanes]
        if group.method is not None:
            first = stack.experiments[group.lanes.start]
            name = first.training.optimizer if first.method.is_plain else first.method.name
            companions.add(name, group.lanes, group.method.start(X))
        if group.compression is not None:
            companions.add(compression, group.lanes, group.compression.start(X, group.travels))
    for server in stack.servers:
        if server.compression is not None:
            kept = server.compression.start(X_nld[:, server.lanes])
            companions.add(compression, server.lanes, kept)
    return companions


class LocalStep:
    """What methods do around one local step of some devices."""

    def __init__(self, stack: Stack, state: State, eta_l: Tensor, devices: slice, step: int = 0):
        self._acting = [
            (group.method, lanes_of(stack, state, eta_l, group.lanes, devices, step))
            for group in stack.mixing
            if group.method is not None
        ]
        self._kept = [method.before_step(lanes) for method, lanes in self._acting]

    def over(self) -> None:
        for (method, lanes), kept in zip(self._acting, self._kept, strict=True):
            method.after_step(lanes, kept)


def lanes_of(
    stack: Stack,
    state: State,
    eta_l: Tensor,
    lanes: slice,
    devices: slice = EVERYBODY,
    step: int = 0,
) -> Lanes:
    """Neighbours with the same method, as it sees them, in a local step of the round."""
    first, world = stack.experiments[lanes.start], stack.world
    number = bisect_left(first.server.server_rounds(world.rounds), state.t)
    steps = state.t * first.training.local_steps + step
    return Lanes(
        state.t,
        state.X_nld[devices, lanes],
        state.companions.of(lanes, devices),
        eta_l[lanes, None],
        first.training.local_steps,
        first.server.period,
        world.context(state.t, number, step=steps),
    )


@dataclass(frozen=True)
class Links:
    """The mixing of a round, as methods call it."""

    group: MixingGroup
    t: int

    def __call__(self, A_nld: Tensor) -> None:
        for _ in range(self.group.steps_in(self.t)):
            self.group.mixer.mix(A_nld, self.t)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        for _ in range(self.group.steps_in(self.t)):
            self.group.mixer.mix_and_collect(A_nld, self.t, into_nld, scale_l1)


def mix_lanes(stack: Stack, group: MixingGroup, state: State, eta_l: Tensor) -> None:
    """Mixing as a method has it, or as compressed links do, a few lanes at a time; all at once,
    where nothing is set aside on the way."""
    method = group.method or Method()
    whole = group.compression is None and fused.mixes(state.X_nld, max(stack.world.sizes))
    for piece in pieces(stack, group.lanes, state, 0 if whole else stack.world.n):
        method.mix(lanes_of(stack, state, eta_l, piece), _links(stack, group, state, piece))


def _links(stack: Stack, group: MixingGroup, state: State, lanes: slice) -> Mixing:
    if group.compression is None:
        return Links(group, state.t)
    steps, copies = group.steps_in(state.t), state.companions.copies(lanes)
    return CompressedLinks(group.compression, group.mixer, stack.world, state.t, steps, copies)


def pieces(stack: Stack, lanes: slice, state: State, rows: int) -> Iterator[slice]:
    """Some of these neighbours at a time, each time of one server, so that temporaries with so many
    rows for each of them stay small."""
    X_nld = state.X_nld
    rows = rows if X_nld.is_cuda else len(X_nld)
    room = room_for_a_piece(X_nld.nbytes, X_nld.is_cuda)
    size = max(1, room // max(1, rows * X_nld[0, 0].nbytes))
    for server in stack.servers:
        for first in range(server.lanes.start, server.lanes.stop, size):
            if lanes.start <= first < lanes.stop:
                yield slice(first, min(first + size, server.lanes.stop))


def room_for_a_piece(bytes_of_X: int, on_gpu: bool) -> int:
    """What a temporary may take, in bytes; that of a single lane may take more."""
    return max(GPU_PIECE, int(GPU_SHARE * bytes_of_X)) if on_gpu else CPU_PIECE


def meet_lanes(
    stack: Stack,
    group: ServerGroup,
    state: State,
    sample: Sample,
    lanes: slice,
    deliver: Callable[[Tensor], int],
) -> Traffic:
    """A server round as a method has it."""
    assert group.method is not None
    sampled_k, weights_k = sample.devices_k, sample.weights_k
    if weights_k is None:
        weights_k = state.X_nld.new_full((len(sample),), 1 / len(sample))
    planned = group.server.server_rounds(stack.world.rounds)
    number = bisect_left(planned, state.t)
    since = planned[number - 1] + 1 if number else 0
    steps_l = stack.etas_tl[since : state.t + 1, lanes].sum(dim=0)

    def collect(A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> int:
        if group.only_shares and fused.runs_on(A_nld):
            from skerry.kernels.mixing import share_and_collect

            share_and_collect(A_nld, sampled_k, into_nld, scale_l1)
            return len(sampled_k)
        taken_kld = A_nld[sampled_k]
        reached = deliver(A_nld)
        # What a primitive of ours delivers, all of the sampled hold now.
        alike = sampled_k[:1] if group.server.dial is not None else sampled_k
        into_nld.index_add_(0, sampled_k, taken_kld.sub_(A_nld[alike]).mul_(scale_l1))
        return reached

    server = ServerRound(
        sampled_k,
        weights_k,
        stack.world.island_n,
        steps_l[:, None] * stack.world.experiment.training.local_steps,
        deliver,
        collect,
        receivers(group, sample, len(state.X_nld)),
        everybody(group, sample, len(state.X_nld)),
    )
    return group.method.meet(lanes_of(stack, state, stack.etas_tl[state.t], lanes), server)


def receivers(group: ServerGroup, sample: Sample, n: int) -> Tensor:
    """Of S2S the sampled; of S2A and blend all, or all who are awake."""
    return sample.devices_k if group.server.dial == 0 else everybody(group, sample, n)


def everybody(group: ServerGroup, sample: Sample, n: int) -> Tensor:
    """Whom S2A and blend reach."""
    device = sample.devices_k.device
    if sample.asleep is None or group.reaches_asleep:
        return torch.arange(n, device=device)
    reached_n = torch.ones(n, dtype=torch.bool, device=device)
    reached_n[sample.asleep] = False
    return torch.nonzero(reached_n).flatten()
