"""One round of Algorithm 1 for all lanes: local step, D2D mixing, D2S."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.engine.compressed import Post
from skerry.engine.method_hooks import (
    LocalStep,
    meet_lanes,
    mix_lanes,
    pieces,
    receivers,
    start_companions,
)
from skerry.engine.participation.sampler import Sample
from skerry.engine.primitives import deliver
from skerry.engine.ranks.group import Party
from skerry.engine.server import Memory
from skerry.engine.server_schedule import Log, Turn
from skerry.engine.stack import MixingGroup, ServerGroup, Stack
from skerry.engine.state import State
from skerry.kernels.precision import arithmetic
from skerry.models.learner import LazyBatch

REFERENCE = "reference"
"""The server's memory of what it delivered last, for rules that ask how far devices are from it."""
LOG = "log"
"""Its memory of what it saw, a row of numbers a lane, for schedules that go by the models."""


@dataclass(frozen=True)
class Meeting:
    """What one D2S round of a group of lanes moved: messages up and down, per lane."""

    lanes: slice
    sampled: int
    """How many devices were."""
    uplink: int
    downlink: int
    islands: int = 0
    """How many islands were sampled."""
    devices_k: Tensor | None = None
    """Who was sampled."""


def start(stack: Stack) -> State:
    """All devices of all lanes at the common initial point."""
    world, lanes = stack.world, len(stack)
    X = world.initial().expand(world.held, lanes, -1).clone()
    memory: Memory = {}
    for group in stack.servers:
        for name, start_ld in group.start(X[0, group.lanes]).items():
            memory.setdefault(name, torch.zeros_like(X[0]))[group.lanes] = start_ld
        if group.sampler.asks_distances:
            memory.setdefault(REFERENCE, torch.zeros_like(X[0]))[group.lanes] = X[0, group.lanes]
    adapting = [group for group in stack.servers if group.course.adapts]
    if adapting:
        width = max(group.course.width for group in adapting)
        memory[LOG] = torch.zeros(lanes, width, dtype=torch.float64)
        for group in adapting:
            _remember(memory, group, group.course.start)
    return State(0, X, memory, stack.chunk(), start_companions(stack, X))


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
        _stacked([world.batch_indices(t, step) for step in steps]),
        _stacked([world.noise_keys(t, step) for step in steps]),
        stack.etas_tl[t],
    )


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Along a new first dimension; a single one is not copied, for it may be large."""
    return torch.stack(list(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


def local_steps(
    stack: Stack, state: State, draws: Draws, counted_nl: Tensor | None = None
) -> Tensor:
    """X <- X - eta G(X), at each device's own model; returns the mean losses [L], of all devices or
    of those that count; on one of several ranks its part of them."""
    world = stack.world
    scaled = [group for group in stack.mixing if group.scale_n is not None]
    total_l, stride_l = state.X_nld.new_zeros(len(stack)), stack.stride(draws.eta_l)
    ours_nl = None if counted_nl is None else counted_nl[world.party.devices]
    with arithmetic(world.experiment.training.precision):
        both = zip(draws.indices_snb, draws.noise_sn, strict=True)
        for step, (indices_nb, noise_n) in enumerate(both):
            for first in range(0, world.held, state.chunk):
                devices = slice(first, first + state.chunk)
                rows = indices_nb[devices]
                batch = LazyBatch(world.x_train, world.y_train, rows, noise_n[devices])
                before = [state.X_nld[devices, group.lanes].clone() for group in scaled]
                acts = stack.has_methods
                methods = LocalStep(stack, state, draws.eta_l, devices, step) if acts else None
                losses = world.learner.step(state.X_nld[devices], batch, stride_l)
                for group, start_nld in zip(scaled, before, strict=True):
                    _rescale(state.X_nld[devices, group.lanes], start_nld, group, devices)
                if methods is not None:
                    methods.over()
                total_l += (losses if ours_nl is None else losses * ours_nl[devices]).sum(dim=0)
    counted_l = world.n if counted_nl is None else counted_nl.sum(dim=0)
    return total_l / (counted_l * len(draws.indices_snb))


def _rescale(X_nld: Tensor, start_nld: Tensor, group: MixingGroup, devices: slice) -> None:
    """Steps of length eta n p_i instead of eta, where devices count by their data."""
    assert group.scale_n is not None
    X_nld.sub_(start_nld).mul_(group.scale_n[devices, None, None]).add_(start_nld)


def train(stack: Stack, state: State, draws: Draws) -> Tensor:
    """The local steps of a round and the mixing after them; returns the mean losses [L]."""
    if stack.is_steady:
        losses_l = local_steps(stack, state, draws)
        mix(stack, state, draws.eta_l)
        return losses_l
    return _train_some(stack, state, draws)


def _train_some(stack: Stack, state: State, draws: Draws) -> Tensor:
    """The same where devices sleep, count by their data, or mix before they adapt."""
    X = state.X_nld
    before = {
        i: X[:, group.lanes].clone() for i, group in enumerate(stack.mixing) if group.looks_back
    }
    waiting = list(_waiting(stack, state))
    counted_nl = _counted(stack, state)
    losses_l = local_steps(stack, state, draws, counted_nl)
    moved = {}
    for i, start_nld in before.items():
        group, ours = stack.mixing[i], X[:, stack.mixing[i].lanes]
        if group.awake is not None:
            awake = group.awake(state.t)[stack.world.party.devices]
            asleep = ~torch.from_numpy(awake).to(X.device)
            ours[asleep] = start_nld[asleep]
        if not group.adapts_first:
            moved[i] = ours - start_nld
            ours.copy_(start_nld)
    for array, asleep, rows in waiting:
        array[asleep] = rows
    mix(stack, state, draws.eta_l)
    for i, step_nld in moved.items():
        X[:, stack.mixing[i].lanes] += step_nld
    return losses_l


def _waiting(stack: Stack, state: State) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """What methods keep for devices that are asleep: an array, who, and their rows."""
    for group in stack.mixing:
        if group.awake is not None and group.method is not None:
            asleep = torch.from_numpy(~group.awake(state.t)).to(state.X_nld.device)
            for array in state.companions.rows_of(group.lanes):
                yield array, asleep, array[asleep]


def _counted(stack: Stack, state: State) -> Tensor:
    """[n, L]: 1 for devices whose loss counts, which are those awake."""
    counted_nl = torch.ones(stack.world.n, len(stack), dtype=state.X_nld.dtype)
    for group in stack.mixing:
        if group.awake is not None:
            counted_nl[:, group.lanes] = torch.from_numpy(group.awake(state.t)).to(counted_nl)[
                :, None
            ]
    return counted_nl.to(state.X_nld.device)


def mix(stack: Stack, state: State, eta_l: Tensor) -> None:
    """X <- X W: every lane with the links of its own network."""
    with arithmetic(stack.world.experiment.training.precision):
        for group in stack.mixing:
            if group.method is not None or group.compression is not None:
                mix_lanes(stack, group, state, eta_l)
                continue
            for _ in range(group.steps_in(state.t)):
                group.mixer.mix(state.X_nld[:, group.lanes], state.t)


def meet(stack: Stack, state: State) -> list[Meeting]:
    """The server samples, averages and delivers, in the groups whose period has come."""
    turns = [(group, _turn(group, state)) for group in stack.servers]
    return [
        meeting for group, turn in turns if turn for meeting in _turned(stack, group, turn, state)
    ]


def is_server_round(stack: Stack, state: State) -> bool:
    """Whether the server is about to meet any lane."""
    return any(_turn(group, state) for group in stack.servers)


def _turn(group: ServerGroup, state: State) -> Turn | None:
    return group.course.turn(state.t, _log(group, state) if group.course.adapts else None)


def _turned(stack: Stack, group: ServerGroup, turn: Turn, state: State) -> Iterator[Meeting]:
    now = group.standing(turn, state.t)
    if not group.course.adapts:
        yield from _meetings(stack, now, turn, state)
        return
    sample, received_kd = now.sampler.sample(state.t, turn=turn), None
    if sample is not None:
        received_kd = state.X_nld[sample.devices_k, group.lanes.start]
        yield _meet(stack, now, state, sample, group.lanes)
    devices_k = sample.devices_k if sample else None
    log = group.course.after(state.t, _log(group, state), received_kd, devices_k)
    _remember(state.memory, group, log)


def _log(group: ServerGroup, state: State) -> Log:
    return Log.read(state.memory[LOG][group.lanes.start].tolist())


def _remember(memory: Memory, group: ServerGroup, log: Log) -> None:
    row = memory[LOG].new_tensor(log.row())
    memory[LOG][group.lanes.start, : len(row)] = row


def _meetings(stack: Stack, group: ServerGroup, turn: Turn, state: State) -> Iterator[Meeting]:
    """One for all lanes of a group; one for each, where the models themselves decide who comes."""
    if not group.sampler.asks_distances:
        sample = group.sampler.sample(state.t, turn=turn)
        if sample is not None:
            # With more than a model a few lanes at a time: what it needs on the way stays small.
            some = [group.lanes]
            if group.method is not None or group.compression is not None:
                rows = stack.world.n if group.compression is not None else len(sample)
                some = list(pieces(stack, group.lanes, state, rows))
            for lanes in some:
                yield _meet(stack, group, state, sample, lanes)
        return
    for lane in range(group.lanes.start, group.lanes.stop):
        away = state.X_nld[:, lane] - state.memory[REFERENCE][lane]
        sample = group.sampler.sample(state.t, away.double().norm(dim=1).cpu().numpy(), turn)
        if sample is not None:
            yield _meet(stack, group, state, sample, slice(lane, lane + 1))


def _meet(stack: Stack, group: ServerGroup, state: State, sample: Sample, lanes: slice) -> Meeting:
    party = stack.world.party
    here = party.part_of(sample)
    asleep = None if group.reaches_asleep else here.asleep
    memory = {name: tensor[lanes] for name, tensor in state.memory.items()}

    def deliver_to_those_awake(X_nld: Tensor) -> int:
        if group.compression is not None:
            return _deliver_compressed(stack, group, state, memory, X_nld, sample, lanes)
        kept_nld = X_nld[asleep] if asleep is not None else None
        downlink = party.counted(_deliver(group, memory, X_nld, party, here, len(sample)))
        if kept_nld is None:
            return downlink
        X_nld[asleep] = kept_nld
        return min(downlink, sample.awake)

    if group.method is None:
        uplink, downlink = len(sample), deliver_to_those_awake(state.X_nld[:, lanes])
    else:
        sent = meet_lanes(stack, group, state, sample, lanes, deliver_to_those_awake)
        uplink, downlink = sent.up, sent.down
    return Meeting(lanes, len(sample), uplink, downlink, sample.islands, sample.devices_k)


def _deliver(
    group: ServerGroup, memory: Memory, X_nld: Tensor, party: Party, here: Sample, sampled: int
) -> int:
    """Of so many sampled devices, some or all are here. Returns how many of those here receive what
    the server delivers."""
    server, sampled_k = group.server, here.devices_k
    plain_ld, estimate_ld = _averages(group, memory, X_nld[sampled_k], party, here, sampled)
    if here.weights_k is None or server.dial is None:  # all alike, or a user's own primitive
        return group.primitive(X_nld, sampled_k, estimate_ld, server)
    return deliver(X_nld, sampled_k, plain_ld, estimate_ld, server.dial)


def _averages(
    group: ServerGroup, memory: Memory, X_kld: Tensor, party: Party, here: Sample, sampled: int
) -> tuple[Tensor, Tensor]:
    """What S2S delivers, and S2A, where the server received so many models; these are here."""
    server, plain_ld = group.server, party.mean(X_kld, sampled)
    if here.weights_k is None:
        delivered_ld = group.deliver(memory, plain_ld, server)
        return delivered_ld, delivered_ld
    estimate_ld = party.weighted(X_kld, here.weights_k)
    if group.sampler.asks_distances:
        estimate_ld += (1 - here.weights_k.sum()) * memory[REFERENCE]
    if server.dial == 0:
        plain_ld = group.deliver(memory, plain_ld, server)
    else:
        estimate_ld = group.deliver(memory, estimate_ld, server)
    if group.sampler.asks_distances and server.dial is not None:
        memory[REFERENCE].copy_(plain_ld if server.dial == 0 else estimate_ld)
    return plain_ld, estimate_ld


def _deliver_compressed(
    stack: Stack,
    group: ServerGroup,
    state: State,
    memory: Memory,
    X_nld: Tensor,
    sample: Sample,
    lanes: slice,
) -> int:
    """The same where messages to and from the server are compressed."""
    beta, kept = group.server.dial, state.companions.copies(lanes)
    assert group.compression is not None
    assert beta is not None
    post = Post(group.compression, stack.world, state.t, X_nld, kept, sample.devices_k)
    received_kld, left_kld = post.up()
    party = stack.world.party
    plain_ld, estimate_ld = _averages(group, memory, received_kld, party, sample, len(sample))
    reached = receivers(group, sample, len(X_nld))
    return post.down(plain_ld, estimate_ld, left_kld, beta, reached)
