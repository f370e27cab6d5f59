"""Calls of a method's hooks in a round: around local steps, in mixing, in server rounds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from skerry.data.holdings import Ints
from skerry.engine.compressed_messages import CompressedMixing
from skerry.engine.facts import RunFacts, run_context
from skerry.engine.participation.sampler import Sample
from skerry.engine.server_schedule import PastServerRounds, past_server_rounds
from skerry.engine.stack import MixingGroup, ServerGroup, Stack
from skerry.engine.state import COMPRESSION, Companions, Devices, State
from skerry.errors import SkerryError
from skerry.kernels import fused
from skerry.methods.method import Aggregation, Lanes, Method, Mixing, Traffic, overrides
from skerry.models.layout import Layout, set_aside
from skerry.plugins.context import Context

CPU_PIECE = 2**22
"""Bytes of X that a method mixes at once on a CPU: its temporaries stay in the cache."""
GPU_PIECE = 2**25
"""Bytes of a method's temporaries on a GPU, or this share of X if that is more."""
GPU_SHARE = 1 / 16
ALL_DEVICES = slice(None)


def start_companions(stack: Stack, X_nld: Tensor) -> Companions:
    """The arrays that the methods and compressions of a stack keep, at the start."""
    companions = Companions()
    for group in stack.mixing:
        if group.method is not None:
            first = stack.experiments[group.lanes.start]
            name = first.training.optimizer if first.method.is_plain else first.method.name
            companions.add(name, group.lanes, group.method.start(X_nld[:, group.lanes]))
    with set_aside(stack.world.private, X_nld):  # others know nothing of it
        for group in stack.mixing:
            if group.compression is not None:
                kept = group.compression.start(X_nld[:, group.lanes], group.mixed_arrays)
                companions.add(COMPRESSION, group.lanes, kept)
        for server in stack.servers:
            if server.compression is not None:
                kept = server.compression.start(X_nld[:, server.lanes])
                companions.add(COMPRESSION, server.lanes, kept)
    return companions


@contextmanager
def step_hooks(
    stack: Stack, state: State, eta_l: Tensor, devices: Devices, step: int | Tensor
) -> Iterator[Tensor]:
    """Context of one local step of some devices, with the hooks of all methods around it.

    It gives the models of these devices. Devices that are no neighbours are copied, with all that
    their methods keep, and written back at the end.
    """
    X_mld = state.X_nld[devices]
    methods = [
        (
            group,
            group.method,
            lanes_of(stack, state, eta_l, group.lanes, "step", devices, step, X_mld),
        )
        for group in stack.mixing
        if group.method is not None
    ]
    kept = [method.before_step(lanes) for _, method, lanes in methods]
    yield X_mld
    for (_, method, lanes), before in zip(methods, kept, strict=True):
        method.after_step(lanes, before)
    if isinstance(devices, slice):
        return
    state.X_nld[devices] = X_mld
    for group, _, lanes in methods:
        for name, array in state.companions.of_method(group.lanes).items():
            if array.ndim == 3:
                array[devices] = lanes.state[name]


class HookFacts(RunFacts):
    """The facts of a method's hook. Most hooks ask for none of them, and rows on a GPU would make
    it wait."""

    def __init__(self, stack: Stack, state: State, lane: int, devices: Devices):
        super().__init__(stack.world, stack.experiments[lane])
        self._state, self._lane, self._devices = state, lane, devices

    def rows(self, context: Context) -> Ints:
        some = self._devices
        rows: Ints = np.arange(self.world.n)
        return rows[some if isinstance(some, slice) else some.cpu().numpy()]

    def number(self, context: Context) -> int:
        return self._past(context).number

    def period(self, context: Context) -> int:
        return self._past(context).period

    def _past(self, context: Context) -> PastServerRounds:
        return past_server_rounds(self.experiment, self._state.memory, self._lane, context.round)


def lanes_of(
    stack: Stack,
    state: State,
    eta_l: Tensor,
    lanes: slice,
    purpose: str,
    devices: Devices = ALL_DEVICES,
    step: int | Tensor = 0,
    X_mld: Tensor | None = None,
) -> Lanes:
    """Lanes with the same method, as its hooks receive them. The `purpose` separates the random
    numbers of hooks; X_mld are the models of the devices where they were copied."""
    first, world = stack.experiments[lanes.start], stack.world
    step = step.view(-1, 1, 1) if isinstance(step, Tensor) else step
    steps = world.local_steps(devices)
    facts = {"step": state.t * steps + step, "_kind": "method", "_purpose": purpose}
    source = HookFacts(stack, state, lanes.start, devices)
    context = run_context(world, first, state.t, source=source, **facts)
    return Lanes(
        (state.X_nld[devices] if X_mld is None else X_mld)[:, lanes],
        state.companions.of_method(lanes, devices),
        eta_l[lanes, None],
        steps,
        context,
        world.shared_d if world.private else None,
    )


@dataclass(frozen=True)
class UncompressedMixing:
    """The mixing of a round, as methods call it."""

    group: MixingGroup
    t: int

    def __call__(self, A_nld: Tensor) -> None:
        for _ in range(self.group.steps_in(self.t)):
            self.group.mixer.mix(A_nld, self.t)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        for _ in range(self.group.steps_in(self.t)):
            self.group.mixer.mix_and_collect(A_nld, self.t, into_nld, scale_l1)


@dataclass(frozen=True)
class SharedMixing:
    """The mixing of a round of models with private parts, which stay as they are."""

    mixing: Mixing
    private: Layout

    def __call__(self, A_nld: Tensor) -> None:
        with set_aside(self.private, A_nld):
            self.mixing(A_nld)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        with set_aside(self.private, A_nld):
            self.mixing.collect(A_nld, into_nld, scale_l1)


class CountedMixing:
    """The mixing of a round that counts the arrays [n, l, d] that a user's own method mixes."""

    def __init__(self, mixing: Mixing, X_nld: Tensor):
        self._mixing, self._size, self.arrays = mixing, X_nld.numel(), 0

    def __call__(self, A_nld: Tensor) -> None:
        self.arrays += -(-A_nld.numel() // self._size)
        self._mixing(A_nld)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        self.arrays += -(-A_nld.numel() // self._size)
        self._mixing.collect(A_nld, into_nld, scale_l1)

    def check(self, name: str, mixed_arrays: int) -> None:
        """Raise SkerryError if messages would be counted that were not sent, or not counted."""
        if self.arrays != mixed_arrays:
            raise SkerryError(
                f"method '{name}' must mix as many arrays in each round as its attribute "
                f"mixed_arrays says, because messages are counted by it (got {self.arrays} mixed, "
                f"mixed_arrays = {mixed_arrays}). Set mixed_arrays = {self.arrays} in the class."
            )


def mix_lanes(stack: Stack, group: MixingGroup, state: State, eta_l: Tensor) -> None:
    """Mix lanes with a method or with compressed links.

    A few lanes are mixed at a time, or all at once where mixing needs no temporaries.
    """
    method, world = group.method or Method(), stack.world
    whole = group.compression is None and fused.mixes(state.X_nld, max(world.sizes))
    for piece in lane_pieces(stack, group.lanes, state, 0 if whole else world.n):
        lanes = lanes_of(stack, state, eta_l, piece, "mix")
        mixing: Mixing = UncompressedMixing(group, state.t)
        if (rule := group.compression) is not None:
            now = world, state.t, group.steps_in(state.t), state.companions.of_compression(piece)
            mixing = CompressedMixing(rule, group.mixer, *now, lanes.context)
        mixing = SharedMixing(mixing, world.private) if world.private else mixing
        name = stack.experiments[piece.start].method.name
        if ":" not in name:
            method.mix(lanes, mixing)
            continue
        counted = CountedMixing(mixing, lanes.X_nld)
        method.mix(lanes, counted)
        counted.check(name, group.mixed_arrays)


def lane_pieces(stack: Stack, lanes: slice, state: State, rows: int) -> Iterator[slice]:
    """Consecutive pieces of these lanes, each of one server, for temporaries with so many rows."""
    X_nld = state.X_nld
    rows = rows if X_nld.is_cuda else len(X_nld)
    room = piece_bytes(X_nld.nbytes, X_nld.is_cuda)
    size = max(1, room // max(1, rows * X_nld[0, 0].nbytes))
    for server in stack.servers:
        for first in range(server.lanes.start, server.lanes.stop, size):
            if lanes.start <= first < lanes.stop:
                yield slice(first, min(first + size, server.lanes.stop))


def piece_bytes(bytes_of_X: int, on_gpu: bool) -> int:
    """The bytes that a temporary may take; that of a single lane may take more."""
    return max(GPU_PIECE, int(GPU_SHARE * bytes_of_X)) if on_gpu else CPU_PIECE


def aggregate_lanes(
    stack: Stack,
    group: ServerGroup,
    state: State,
    sample: Sample,
    lanes: slice,
    deliver: Callable[[Tensor], int],
) -> Traffic:
    """Call a method's `aggregate` for some lanes."""
    assert group.method is not None
    sampled_k, weights_k = sample.devices_k, sample.weights_k
    if weights_k is None:
        weights_k = state.X_nld.new_full((len(sample),), 1 / len(sample))
    first = stack.experiments[lanes.start]
    since = past_server_rounds(first, state.memory, lanes.start, state.t).last
    etas_l1 = stack.etas_tl[since : state.t + 1, lanes].sum(dim=0)[:, None]

    def collect(A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> int:
        if group.is_plain_s2s and fused.runs_on(A_nld):
            from skerry.kernels.mixing import share_and_collect

            share_and_collect(A_nld, sampled_k, into_nld, scale_l1)
            return len(sampled_k)
        before_kld = A_nld[sampled_k]
        reached = deliver(A_nld)
        # A built-in primitive leaves the same rows on all sampled devices.
        alike = sampled_k[:1] if group.server.dial is not None else sampled_k
        into_nld.index_add_(0, sampled_k, before_kld.sub_(A_nld[alike]).mul_(scale_l1))
        return reached

    server = Aggregation(
        sampled_k,
        weights_k,
        stack.world.island_n,
        etas_l1 * stack.world.local_steps(sampled_k),
        deliver,
        collect,
        receivers(group, sample, len(state.X_nld)),
        s2a_receivers(group, sample, len(state.X_nld)),
    )
    method_lanes = lanes_of(stack, state, stack.etas_tl[state.t], lanes, "aggregate")
    context = method_lanes.context.with_facts(sampled=group.server.sampled)
    asleep = None if group.reaches_asleep or ":" not in first.method.name else sample.asleep
    kept_nld = None if asleep is None else method_lanes.X_nld[asleep]
    sent = group.method.aggregate(replace(method_lanes, context=context), server)
    if kept_nld is not None:  # a user's own method may write to all devices
        method_lanes.X_nld[asleep] = kept_nld
    return sent


def communicated_arrays(group: ServerGroup, state: State) -> Iterator[Tensor]:
    """Views of the arrays of a group that a server round may read: X, and what its method keeps."""
    yield state.X_nld[:, group.lanes]
    if group.method is not None and overrides(group.method, "aggregate"):
        yield from state.companions.of_method(group.lanes).values()


def receivers(group: ServerGroup, sample: Sample, n: int) -> Tensor:
    """The devices that the primitive reaches: for S2S the sampled ones."""
    return sample.devices_k if group.server.dial == 0 else s2a_receivers(group, sample, n)


def s2a_receivers(group: ServerGroup, sample: Sample, n: int) -> Tensor:
    """The devices that S2A and blend reach: all, or all that are awake."""
    device = sample.devices_k.device
    if sample.asleep is None or group.reaches_asleep:
        return torch.arange(n, device=device)
    reached_n = torch.ones(n, dtype=torch.bool, device=device)
    reached_n[sample.asleep] = False
    return torch.nonzero(reached_n).flatten()
