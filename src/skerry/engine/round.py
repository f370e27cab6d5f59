"""One round of Algorithm 1 for all lanes: local steps, D2D mixing, server round."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from skerry.engine import method_hooks as hooks
from skerry.engine.compressed_messages import CompressedServerRound
from skerry.engine.minibatches import RoundDraws, minibatches
from skerry.engine.participation.sampler import Sample
from skerry.engine.plugin_results import changed_rows, check_messages
from skerry.engine.primitives import deliver
from skerry.engine.ranks.group import RankGroup
from skerry.engine.server import Memory
from skerry.engine.server_schedule import LOG, REFERENCE, ScheduledRound, ScheduleMemory
from skerry.engine.stack import ServerGroup, Stack
from skerry.engine.state import State
from skerry.engine.timing import CLOCK, StackClock, check_uplink, start_clocks
from skerry.kernels.precision import arithmetic
from skerry.methods.method import Method, Traffic
from skerry.models.layout import clear, set_aside
from skerry.models.learner import LazyBatch


@dataclass(frozen=True)
class ServerRound:
    """The result of one server round of a group of lanes: messages up and down, per lane."""

    lanes: slice
    uplink: int
    downlink: int
    islands: int
    """The number of sampled islands."""
    devices_k: Tensor
    """The sampled devices: with a deadline, those in time."""
    changed: frozenset[int] = frozenset()
    """The devices whose models a user's own primitive has changed, where a clock needs them."""


def initial_state(stack: Stack) -> State:
    """The state with the devices of all lanes at their initial point; servers start at its mean."""
    world, lanes = stack.world, len(stack)
    X = world.initial_models().unsqueeze(1).repeat(1, lanes, 1)
    x0_ld = world.initial().repeat(lanes, 1)
    memory: Memory = {}
    with set_aside(world.private, x0_ld):
        for group in stack.servers:
            starts = group.start(x0_ld[group.lanes].clone())
            if group.sampler.needs_distances:
                starts = {**starts, REFERENCE: x0_ld[group.lanes]}
            for name, start_ld in starts.items():
                memory.setdefault(name, torch.zeros_like(x0_ld))[group.lanes] = start_ld
    if adapting := [group for group in stack.servers if group.schedule.adapts]:
        width = max(group.schedule.width for group in adapting)
        memory[LOG] = torch.zeros(lanes, width, dtype=torch.float64)
        for group in adapting:
            _save_schedule(memory, group, group.schedule.start)
    start_clocks(stack, memory)
    return State(0, X, memory, stack.chunk(), hooks.start_companions(stack, X))


def local_steps(
    stack: Stack, state: State, draws: RoundDraws, counted_nl: Tensor | None = None
) -> Tensor:
    """X <- X - eta G(X), at each device's own model.

    Returns the mean losses [L] over all devices, or over those with a 1 in `counted_nl`; the loss
    of a device is the mean over its steps, or with local epochs over its samples. A rank returns
    the part of its devices.
    """
    world = stack.world
    scaled = [group for group in stack.mixing if group.scale_n is not None]
    total_l, stride_l = state.X_nld.new_zeros(len(stack)), stack.stride(draws.eta_l)
    local_nl = None if counted_nl is None else counted_nl[world.ranks.devices]
    with arithmetic(world.experiment.training.precision):
        for devices, rows, noise, step, share_m in minibatches(world, draws, state.chunk):
            batch = LazyBatch(world.x_train, world.y_train, rows, noise)
            with hooks.step_hooks(stack, state, draws.eta_l, devices, step) as X_mld:
                before = [X_mld[:, group.lanes].clone() for group in scaled]
                losses = world.learner.step(X_mld, batch, stride_l)
                for group, start_mld in zip(scaled, before, strict=True):
                    assert group.scale_n is not None  # steps are eta n p_i long, not eta
                    X_group, scale_m11 = X_mld[:, group.lanes], group.scale_n[devices, None, None]
                    X_group.sub_(start_mld).mul_(scale_m11).add_(start_mld)
            if share_m is not None:
                losses = losses * share_m[:, None]
            total_l += (losses if local_nl is None else losses * local_nl[devices]).sum(dim=0)
    counted_l = world.n if counted_nl is None else counted_nl.sum(dim=0)
    return total_l / (counted_l * len(draws.indices))


def start_loss(stack: Stack, chunk: int) -> Tensor:
    """The mean loss of all devices at the initial point, on their first minibatches."""
    world, total = stack.world, torch.zeros(1, dtype=torch.float64)
    indices_nb, noise_n = world.batch_indices(0, 0), world.noise_keys(0, 0)
    models_nd = world.initial_models()
    with arithmetic(world.experiment.training.precision):
        for first in range(0, world.local_devices, chunk):
            devices = slice(first, first + chunk)
            rows = indices_nb[devices]
            batch = LazyBatch(world.x_train, world.y_train, rows, noise_n[devices])
            X_nld = models_nd[devices].unsqueeze(1).clone()
            total += world.learner.step(X_nld, batch, X_nld.new_zeros(1)).sum().cpu()
    return world.ranks.sum_parts((total / world.n).to(world.device, world.dtype))


def train(stack: Stack, state: State, draws: RoundDraws) -> Tensor:
    """The local steps of a round and the mixing after them; returns the mean losses [L]."""
    if stack.never_needs_models_before:
        losses_l = local_steps(stack, state, draws)
        mix(stack, state, draws.eta_l)
        return losses_l
    return _train_restoring(stack, state, draws)


def _train_restoring(stack: Stack, state: State, draws: RoundDraws) -> Tensor:
    """Train where some lanes need the models from before the local steps.

    These are lanes whose devices sleep, count by their data, or mix before they adapt.
    """
    X = state.X_nld
    before = {
        i: X[:, group.lanes].clone()
        for i, group in enumerate(stack.mixing)
        if group.needs_models_before
    }
    sleeping_rows = list(_sleeping_rows(stack, state))
    losses_l = local_steps(stack, state, draws, _counted(stack, state))
    steps = {}
    for i, start_nld in before.items():
        group, X_group = stack.mixing[i], X[:, stack.mixing[i].lanes]
        if group.awake is not None:
            awake = group.awake(state.t)[stack.world.ranks.devices]
            asleep = ~torch.from_numpy(awake).to(X.device)
            X_group[asleep] = start_nld[asleep]
        if not group.adapts_first:
            steps[i] = X_group - start_nld
            X_group.copy_(start_nld)
    for array, asleep, rows in sleeping_rows:
        array[asleep] = rows
    mix(stack, state, draws.eta_l)
    for i, step_nld in steps.items():
        X[:, stack.mixing[i].lanes] += step_nld
    return losses_l


def _sleeping_rows(stack: Stack, state: State) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For each array of a method: the array, the mask of sleeping devices, and their rows."""
    for group in stack.mixing:
        if group.awake is not None and group.method is not None:
            asleep = torch.from_numpy(~group.awake(state.t)).to(state.X_nld.device)
            for array in state.companions.of_method(group.lanes).values():
                if array.ndim == 3:  # it has a row for each device
                    yield array, asleep, array[asleep]


def _counted(stack: Stack, state: State) -> Tensor:
    """[n, L]: 1 for devices whose loss counts, which are those awake."""
    counted_nl = torch.ones(stack.world.n, len(stack), dtype=state.X_nld.dtype)
    for group in stack.mixing:
        if group.awake is not None:
            awake_n1 = torch.from_numpy(group.awake(state.t))[:, None]
            counted_nl[:, group.lanes] = awake_n1.to(counted_nl)
    return counted_nl.to(state.X_nld.device)


def mix(stack: Stack, state: State, eta_l: Tensor) -> None:
    """X <- W^T X (the paper's X W), every lane with the links of its own network."""
    with arithmetic(stack.world.experiment.training.precision):
        for group in stack.mixing:
            if group.method is not None or group.compression is not None:
                hooks.mix_lanes(stack, group, state, eta_l)
                continue
            X_nld = state.X_nld[:, group.lanes]
            with set_aside(stack.world.private, X_nld):
                for _ in range(group.steps_in(state.t)):
                    group.mixer.mix(X_nld, state.t)


def run_server_rounds(stack: Stack, state: State) -> list[ServerRound]:
    """The server samples, averages and delivers, in the groups whose server round this is.

    Clocks measure the round here: the host is free while a GPU trains.
    """
    found: list[ServerRound] = []
    for clock in stack.clocks:
        clock.load(state.memory)
        clock.train(state.t)
    for group in stack.servers:
        round_ = _scheduled(group, state)
        if round_ is not None:
            with set_aside(stack.world.private, *hooks.communicated_arrays(group, state)):
                found += _run_server_round(stack, group, round_, state)
    for clock in stack.clocks:
        clock.save(state.memory)
    return found


def _run_server_round(
    stack: Stack, group: ServerGroup, scheduled: ScheduledRound, state: State
) -> list[ServerRound]:
    now = group.at(scheduled, state.t)
    calling = replace(scheduled, server=scheduled.server.calling())
    samples = list(_samples(stack, now, calling, state))
    X_kd = devices_k = None
    if group.schedule.adapts and samples:  # what it estimates from are models as received
        devices_k = samples[0][0].devices_k
        X_kd = state.X_nld[devices_k, group.lanes.start]
    found: list[ServerRound] = []
    for sample, lanes in samples:
        clock = stack.clock_of(lanes)
        if clock is None:
            found += _aggregate_pieces(stack, now, state, sample, lanes)
        else:
            found += _timed_round(stack, now, state, sample, lanes, clock)
    if group.schedule.adapts:
        memory = group.schedule.after(state.t, _read_schedule(group, state), X_kd, devices_k)
        _save_schedule(state.memory, group, memory)
    return found


def is_server_round(stack: Stack, state: State) -> bool:
    """Whether any lane is about to have a server round."""
    return any(_scheduled(group, state) for group in stack.servers)


def _scheduled(group: ServerGroup, state: State) -> ScheduledRound | None:
    memory = _read_schedule(group, state) if group.schedule.adapts else None
    return group.schedule.server_round(state.t, memory)


def _read_schedule(group: ServerGroup, state: State) -> ScheduleMemory:
    return ScheduleMemory.from_row(state.memory[LOG][group.lanes.start].tolist())


def _save_schedule(memory: Memory, group: ServerGroup, schedule: ScheduleMemory) -> None:
    row = memory[LOG].new_tensor(schedule.to_row())
    memory[LOG][group.lanes.start, : len(row)] = row


def _samples(
    stack: Stack, group: ServerGroup, scheduled: ScheduledRound, state: State
) -> Iterator[tuple[Sample, slice]]:
    """Samples and the lanes that share each: one for all lanes of a group, or one for each lane
    where the models themselves decide which devices are sampled."""
    if group.sampler.needs_distances:
        for lane in range(group.lanes.start, group.lanes.stop):
            away = state.X_nld[:, lane] - state.memory[REFERENCE][lane]
            clear(stack.world.private, away)  # of what a user's own optimizer may have put there
            distances_n = away.double().norm(dim=1).cpu().numpy()
            sample = group.sampler.sample(state.t, distances_n, scheduled)
            if sample is not None:
                yield sample, slice(lane, lane + 1)
        return
    sample = group.sampler.sample(state.t, scheduled=scheduled)
    if sample is not None:
        yield sample, group.lanes


def _timed_round(
    stack: Stack,
    group: ServerGroup,
    state: State,
    sample: Sample,
    lanes: slice,
    clock: StackClock,
) -> list[ServerRound]:
    """The server round of lanes with a clock: only devices that are in time count."""
    called_k = sample.devices_k.cpu().numpy()
    call = clock.call(group, called_k, lanes) if group.server.is_timed else None
    counted = sample if call is None else group.sampler.counted(sample, call.counted)
    method, late = group.method or Method(), len(sample) - len(counted)
    if not len(counted):  # void
        clock.upload(called_k, lanes, method)
        return [ServerRound(lanes, method.up * late, 0, 0, counted.devices_k)]
    found = _aggregate_pieces(stack, group, state, counted, lanes)
    sent = Traffic(found[0].uplink, found[0].downlink)
    if call is not None:
        check_uplink(stack.experiments[lanes.start].method.name, method, sent, len(counted))
    changed = sorted(frozenset().union(*(one.changed for one in found)))
    messages = clock.messages(group, counted, lanes, sent, np.array(changed, dtype=np.int64))
    clock.server_round(called_k, messages, lanes, call)
    return [replace(one, uplink=one.uplink + method.up * late) for one in found]


def _aggregate_pieces(
    stack: Stack, group: ServerGroup, state: State, sample: Sample, lanes: slice
) -> list[ServerRound]:
    """The server round of all lanes with one sample. With methods and compression a few lanes at a
    time, so that temporaries stay small."""
    pieces: Iterable[slice] = [lanes]
    whole = group.method is None and group.compression is None
    if not (whole or group.sampler.needs_distances):
        rows = stack.world.n if group.compression is not None else len(sample)
        pieces = hooks.lane_pieces(stack, lanes, state, rows)
    return [_aggregate(stack, group, state, sample, piece) for piece in pieces]


def _aggregate(
    stack: Stack, group: ServerGroup, state: State, sample: Sample, lanes: slice
) -> ServerRound:
    """The server round of some lanes with one sample."""
    changed: set[int] = set()
    deliver_array = partial(_deliver, stack, group, state, sample, lanes, changed)
    if group.method is None:
        sent = Traffic(len(sample), deliver_array(state.X_nld[:, lanes]))
    else:
        sent = hooks.aggregate_lanes(stack, group, state, sample, lanes, deliver_array)
    counts = sent.up, sent.down, sample.islands
    return ServerRound(lanes, *counts, sample.devices_k, frozenset(changed))


def _deliver(
    stack: Stack,
    group: ServerGroup,
    state: State,
    sample: Sample,
    lanes: slice,
    changed: set[int],
    X_nld: Tensor,
) -> int:
    """Average the sampled rows of an array and apply the primitive to those awake, in place.

    Returns the number of devices that receive. Where a clock runs, the devices whose rows a user's
    own primitive changes are added to `changed`.
    """
    own = (LOG, CLOCK)
    memory = {name: tensor[lanes] for name, tensor in state.memory.items() if name not in own}
    world, ranks, server = stack.world, stack.world.ranks, group.server
    if group.compression is not None:
        assert server.dial is not None
        assert group.context is not None
        arrays = state.companions.of_compression(lanes)
        rule, S = group.compression, sample.devices_k
        messages = CompressedServerRound(rule, world, state.t, X_nld, arrays, S, group.context)
        received_kld, unsent_kld = messages.up()
        averages = _averages(group, memory, received_kld, ranks, sample, len(sample))
        reached = hooks.receivers(group, sample, len(X_nld))
        return messages.down(*averages, unsent_kld, server.dial, reached)
    local = ranks.local_part(sample)
    asleep = None if group.reaches_asleep else local.asleep
    kept_nld = X_nld[asleep] if asleep is not None else None
    sampled_k = local.devices_k
    plain_ld, estimate_ld = _averages(group, memory, X_nld[sampled_k], ranks, local, len(sample))
    if ":" in server.primitive:
        before_nld = X_nld.clone()
        received = int(group.primitive(X_nld, sampled_k, estimate_ld, context=group.context))
        changed_n = changed_rows(before_nld, X_nld)
        check_messages("primitive", server.primitive, received, changed_n)
        if asleep is not None:  # these messages do not arrive
            received -= int(changed_n[asleep].sum())
            changed_n[asleep] = False
        if stack.clocks:
            all_n1 = ranks.gather_rows(changed_n[:, None].long())
            changed.update(torch.nonzero(all_n1.flatten()).flatten().tolist())
    elif local.weights_k is None or server.dial is None:  # equal weights, or a beta that changes
        received = group.primitive(X_nld, sampled_k, estimate_ld, context=group.context)
    else:
        received = deliver(X_nld, sampled_k, plain_ld, estimate_ld, server.dial)
    downlink = ranks.sum_counts(received)
    if kept_nld is None:
        return downlink
    X_nld[asleep] = kept_nld
    return min(downlink, sample.awake)


def _averages(
    group: ServerGroup, memory: Memory, X_kld: Tensor, ranks: RankGroup, local: Sample, sampled: int
) -> tuple[Tensor, Tensor]:
    """The models [l, d] that S2S and S2A deliver; X_kld are the local ones of `sampled` models."""
    server, plain_ld = group.server, ranks.mean(X_kld, sampled)
    if local.weights_k is None:
        delivered_ld = group.deliver(memory, plain_ld, context=group.context)
        return delivered_ld, delivered_ld
    estimate_ld = ranks.weighted_sum(X_kld, local.weights_k)
    if group.sampler.needs_distances:
        estimate_ld += (1 - local.weights_k.sum()) * memory[REFERENCE]
    if server.dial == 0:
        plain_ld = group.deliver(memory, plain_ld, context=group.context)
    else:
        estimate_ld = group.deliver(memory, estimate_ld, context=group.context)
    if group.sampler.needs_distances:
        memory[REFERENCE].copy_(plain_ld if server.dial == 0 else estimate_ld)
    return plain_ld, estimate_ld
