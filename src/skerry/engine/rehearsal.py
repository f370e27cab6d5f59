"""Rehearsal: call a user's own plug-ins once and check their results, before anything is recorded.

Each is called as in a run, so that a mistake becomes an error of one line at once, not a traceback
an hour later. Built-ins are not called; tests check them.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.compressed_messages import message_draws
from skerry.engine.compression import Compression, compress
from skerry.engine.facts import run_context
from skerry.engine.local_optimizers import LocalOptimizer
from skerry.engine.method_hooks import UncompressedMixing
from skerry.engine.server import Memory
from skerry.engine.server_schedule import ScheduledRound
from skerry.engine.stack import ServerGroup, build_stack, schedule_of
from skerry.engine.world import World
from skerry.errors import SkerryError, warn_once
from skerry.methods.method import Aggregation, Lanes, Method, Mixing, Traffic
from skerry.plugins import registry


def rehearse(world: World, experiments: Sequence[Experiment]) -> None:
    """Raise SkerryError if a user's own plug-in of these experiments breaks its contract."""
    for experiment in experiments:
        if not registry.is_builtin("schedule", experiment.training.schedule):
            _try_schedule(world, experiment)
    stack = build_stack(world, experiments)
    world.batch_indices(0, 0)
    for mixing in stack.mixing:
        network = mixing.mixer.fleet.network
        if ":" in network.topology or ":" in network.mixing:
            mixing.mixer.fleet.blocks(0)
        if mixing.compression is not None and ":" in network.compression:
            experiment = stack.experiments[mixing.lanes.start]
            compression = mixing.compression.compression
            _try_compression(network.compression, compression, experiment, world)
    for group in stack.servers:
        if isinstance(group.method, LocalOptimizer) and ":" in group.method.optimizer:
            _try_local_optimizer(group.method, stack.experiments[group.lanes.start], world)
        if group.method is not None and ":" in stack.experiments[group.lanes.start].method.name:
            unmixed = UncompressedMixing(replace(stack.mixing[0], steps=0), 0)
            _try_method(group.method, stack.experiments[group.lanes.start], world, unmixed)
        if group.compression is not None and ":" in group.server.compression:
            compression = group.compression.up or group.compression.down or Compression()
            experiment = stack.experiments[group.lanes.start]
            _try_compression(group.server.compression, compression, experiment, world)
        if ":" in group.server.primitive or ":" in group.server.optimizer:
            scheduled = ScheduledRound(group.server, 0, group.server.period)
            _try_server_round(group.at(scheduled, 0), world)
        _try_sampling(group, world)


def _try_local_optimizer(method: LocalOptimizer, experiment: Experiment, world: World) -> None:
    """One local step of two devices."""
    X_nld = world.initial().expand(2, 1, -1).clone()
    with registry.users_own("local optimizer", method.optimizer):
        eta_l1 = X_nld.new_full((1, 1), experiment.training.stepsize)
        context = run_context(world, experiment, 0, number=0, period=1, step=0)
        context = context.with_facts(rows=np.arange(2))
        lanes = Lanes(X_nld, method.start(X_nld), eta_l1, 1, context)
        method.after_step(lanes, method.before_step(lanes))


def _try_method(method: Method, experiment: Experiment, world: World, unmixed: Mixing) -> None:
    """One round of the K sampled devices and one more, in which models stay as they are."""
    name, sampled = experiment.method.name, min(experiment.server.sampled, world.n)
    devices = min(sampled + 1, world.n)
    X_nld = world.initial().expand(devices, 1, -1).clone()
    with registry.users_own("method", name):
        own: Any = method.start(X_nld)
    shapes = (tuple(X_nld.shape), tuple(X_nld.shape[1:]))
    if not isinstance(own, dict) or not all(
        isinstance(array, Tensor) and tuple(array.shape) in shapes for array in own.values()
    ):
        raise SkerryError(
            f"method '{name}': start must give a dict of tensors, each of the shape it gets, "
            f"[devices, lanes, parameters], or without the devices (got {_describe(own)})."
        )
    eta_l1 = X_nld.new_full((1, 1), experiment.training.stepsize)
    period = experiment.server.period
    context = run_context(world, experiment, 0, number=0, period=period, step=0)
    lanes = Lanes(X_nld, own, eta_l1, 1, context.with_facts(rows=np.arange(devices)))
    sampled_k = torch.arange(sampled, device=X_nld.device)
    server = Aggregation(
        sampled_k,
        X_nld.new_full((sampled,), 1 / sampled),
        torch.zeros(devices, dtype=torch.int64, device=X_nld.device),
        eta_l1,
        lambda A_nld: len(A_nld),
        lambda A_nld, into_nld, scale_l1: len(A_nld),
        sampled_k,
        torch.arange(devices, device=X_nld.device),
    )
    with registry.users_own("method", name):
        method.after_step(lanes, method.before_step(lanes))
        method.mix(lanes, unmixed)
        if not experiment.server.is_there:
            return
        sent: Any = method.aggregate(lanes, server)
    if not isinstance(sent, Traffic):
        raise SkerryError(
            f"method '{name}': aggregate must give a Traffic, the vectors sent up and down (got "
            f"{_describe(sent)})."
        )


def _try_compression(
    name: str, compression: Compression, experiment: Experiment, world: World
) -> None:
    """Compress a message of zeros and one of numbers from -1 to 1."""
    d = world.learner.d
    V_rld = torch.linspace(-1, 1, d, dtype=world.dtype, device=world.device).repeat(2, 1, 1)
    V_rld[0] = 0
    with registry.users_own("compression", name):
        keys_r = world.compression_keys("rehearsed", 0)[:1].repeat(2)
        context = run_context(world, experiment, 0, number=0, period=experiment.server.period)
        compress(compression, V_rld, message_draws(world, keys_r), context, torch.arange(2))
        size: Any = compression.bytes(world.learner.parameters)
    if not torch.isfinite(V_rld).all() or V_rld[0].any():
        raise SkerryError(
            f"compression '{name}': compress must leave finite numbers, and zeros of zeros."
        )
    if not isinstance(size, int | np.integer) or size < 0:
        raise SkerryError(
            f"compression '{name}': bytes must give a whole number of at least 0 (got {size!r})."
        )


def _try_schedule(world: World, experiment: Experiment) -> None:
    name, factor = experiment.training.schedule, schedule_of(world, experiment)
    for t in range(experiment.rounds):
        with registry.users_own("schedule", name):
            found = factor(t)
        if not isinstance(found, int | float | np.number) or not 0 <= found < inf:
            raise SkerryError(
                f"schedule '{name}' must give the factor on the stepsize, a number of at least 0 "
                f"(got {found!r} in round {t})."
            )


def _try_sampling(group: ServerGroup, world: World) -> None:
    """Call the schedules in every server round, and draw a sample of each size."""
    sizes: set[int] = set()
    for t in group.server.server_rounds(world.rounds):
        sampled = group.server.at(t, world.rounds).sampled
        if sampled > world.n and ":" in group.server.sampled_schedule:
            raise SkerryError(
                f"sampled schedule '{group.server.sampled_schedule}' must give server.sampled, at "
                f"most the {world.n} devices there are (got {sampled} in round {t})."
            )
        if sampled not in sizes:
            group.sampler.sample(t, np.ones(world.n))
            sizes.add(sampled)


def _try_server_round(group: ServerGroup, world: World) -> None:
    """One server round of the K sampled devices and one more."""
    server, sampled = group.server, group.server.sampled
    devices = min(sampled + 1, world.n)
    # All models differ, so that any change by a primitive is visible.
    X_nld = world.initial().expand(devices, 1, -1) + 1.0
    X_nld *= torch.arange(1, devices + 1, device=X_nld.device).view(-1, 1, 1)
    before_nld, delivered_ld = X_nld.clone(), _delivered(group, X_nld)
    with registry.users_own("primitive", server.primitive):
        receivers: Any = group.primitive(
            X_nld,
            torch.arange(sampled, device=X_nld.device),
            delivered_ld,
            context=group.context,
        )
    if not isinstance(receivers, int | np.integer) or not 0 <= receivers <= devices:
        raise SkerryError(
            f"primitive '{server.primitive}' must return how many devices received the average, "
            f"0 to {devices} (got {receivers!r})."
        )
    if ":" in server.primitive and devices > 1 and torch.equal(X_nld, before_nld):
        warn_once(
            f"primitive '{server.primitive}' leaves all models as they are: the server does "
            "nothing. Write into X_nld itself, as in X_nld[sampled_k] = delivered_ld, not into a "
            "copy."
        )


def _delivered(group: ServerGroup, X_nld: Tensor) -> Tensor:
    """The server optimizer's delivery for the average of these models, [lanes, parameters]."""
    name, average_ld = group.server.optimizer, X_nld.mean(dim=0)
    with registry.users_own("server optimizer", name):
        memory: Memory = group.start(X_nld[0])
    if not isinstance(memory, dict) or not all(_is_like(average_ld, m) for m in memory.values()):
        raise SkerryError(
            f"server optimizer '{name}': start must give a dict of tensors of the shape it gets, "
            f"[lanes, parameters], or an empty one (got {_describe(memory)})."
        )
    with registry.users_own("server optimizer", name):
        delivered_ld = group.deliver(memory, average_ld, context=group.context)
    if not _is_like(average_ld, delivered_ld):
        raise SkerryError(
            f"server optimizer '{name}': deliver must give a tensor of the average's shape, "
            f"[lanes, parameters] (got {_describe(delivered_ld)})."
        )
    return delivered_ld


def _is_like(average_ld: Tensor, found: Any) -> bool:
    return isinstance(found, Tensor) and found.shape == average_ld.shape


def _describe(found: Any) -> str:
    if isinstance(found, dict):
        return ", ".join(f"{name}: {_describe(value)}" for name, value in found.items())
    return f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
