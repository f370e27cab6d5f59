"""The sampled devices of a server round and their weights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.facts import run_context
from skerry.engine.participation.selection import Array, Ints
from skerry.engine.server_schedule import ScheduledRound, planned_round
from skerry.engine.unpadded import plugin_call
from skerry.engine.world import World
from skerry.errors import SkerryError, short_repr
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.seeds import stream


@dataclass(frozen=True)
class Sample:
    """The sampled devices, each once; S2S delivers their plain mean, S2A their weighted one."""

    devices_k: Tensor
    weights_k: Tensor | None = None
    """The weights sum to 1; None if all count alike, so that both means are the same."""
    asleep: Tensor | None = None
    """The devices that sleep in this round; None if nobody ever sleeps."""
    awake: int = 0
    """The number of devices that are awake."""
    islands: int = 0
    """The number of islands that are sampled."""

    def __len__(self) -> int:
        return len(self.devices_k)


class Sampler:
    """Samples devices for one server in one world, by its selection."""

    def __init__(self, world: World, experiment: Experiment):
        server = experiment.server
        self._world, self._experiment, self._server = world, experiment, server
        self._awake = world.awake(experiment)
        self._is_plain = (
            server.selection == "uniform" and self._awake is None and server.weights == "equal"
        )
        self._counts_islands = "sampled_islands" in world.experiment.evaluate.wanted
        selection = registry.resolve("selection", server.selection)
        if not registry.is_builtin("selection", server.selection):
            selection = _as_list(selection)
        options = server.options_for("selection")
        self._select = plugin_call("selection", server.selection, selection, options=options)
        self.needs_distances = bool(getattr(selection, "needs_distances", False))
        """Whether the models themselves decide who is sampled."""

    def sample(
        self, t: int, distances_n: Array | None = None, scheduled: ScheduledRound | None = None
    ) -> Sample | None:
        """The sample of round t, a server round; None if there is nobody to sample."""
        world = self._world
        scheduled = scheduled or planned_round(self._server, t, world.rounds)
        if self._is_plain:
            order = world.server_order(t)[: scheduled.server.sampled]
            return Sample(order, awake=world.n, islands=self._sampled_islands(t, scheduled))
        context = self.context(t, scheduled)
        if self.needs_distances and distances_n is not None:
            context = context.with_facts(distances=distances_n)
        awake_n, islands_n, name = context.awake, context.islands, self._server.selection
        with registry.users_own("selection", name):
            found = self._select(context=context)
        devices, weights = found if isinstance(found, tuple) else (found, None)
        if not registry.is_builtin("selection", name):
            devices, weights = _check_selection(name, devices, weights, context)
        devices = np.array(devices)
        if not len(devices):
            return None
        weights = self._weights(context, devices, weights)
        asleep = None if self._awake is None else np.flatnonzero(~awake_n)
        return Sample(
            torch.from_numpy(devices).to(world.device),
            None if weights is None else torch.from_numpy(weights).to(world.device, world.dtype),
            None if asleep is None else torch.from_numpy(asleep).to(world.device),
            int(awake_n.sum()),
            len(np.unique(islands_n[devices])),
        )

    def counted(self, sample: Sample, places: Ints) -> Sample:
        """The part of a sample that is in time, at these places.

        Its weights sum to 1 again. Where islands have weights, each keeps its own as long as one of
        its devices is in time.
        """
        if len(places) == len(sample):
            return sample
        rows = torch.from_numpy(places).to(sample.devices_k.device)
        devices_k, weights_k = sample.devices_k[rows], sample.weights_k
        islands_k = self._world.fleet.island_of[sample.devices_k.cpu().numpy()]
        if weights_k is not None:
            weights = weights_k.double().cpu().numpy()
            left = weights[places]
            if self._server.selection == "one_each" or self._server.weights == "stratified":
                before_c = np.bincount(islands_k, weights)
                left_c = np.bincount(islands_k[places], left, minlength=len(before_c))
                left = left * (before_c / np.maximum(left_c, 1e-300))[islands_k[places]]
            total = left.sum()
            weights_k = torch.from_numpy(left / total).to(weights_k) if total > 0 else None
        islands = len(np.unique(islands_k[places]))
        return replace(sample, devices_k=devices_k, weights_k=weights_k, islands=islands)

    def _sampled_islands(self, t: int, scheduled: ScheduledRound) -> int:
        """The islands of a uniform sample, counted only where they are measured."""
        if not self._counts_islands:
            return 0
        order = stream(self._world.seed, "sampled", t).permutation(self._world.n)
        return len(np.unique(self._world.fleet.island_of[order[: scheduled.server.sampled]]))

    def context(self, t: int, scheduled: ScheduledRound) -> Context:
        """The context of a server round, for any plug-in of this server."""
        return run_context(
            self._world,
            self._experiment,
            t,
            number=scheduled.number,
            period=scheduled.period,
            sampled=scheduled.server.sampled,
        )

    def _weights(self, context: Context, devices: Ints, weights: Array | None) -> Array | None:
        kind = self._server.weights
        if kind == "data":
            counted = context.samples[devices].astype(float)
            return np.asarray(counted / counted.sum())
        if kind != "stratified":
            return weights
        island = context.islands[devices]
        counts = np.bincount(island, minlength=len(context.sizes))
        if (counts[context.awake_sizes > 0] == 0).any():
            return weights  # an island is missing: nothing can stand for it
        each = context.awake_sizes / (context.awake_sizes.sum() * np.maximum(counts, 1))
        return np.asarray(each[island])


def _as_list(selection: Callable[..., Any]) -> Callable[..., Any]:
    """A selection that may also give the devices as a tuple, a set or a generator."""

    @wraps(selection)
    def call(*arguments: Any, **options: Any) -> Any:
        found = selection(*arguments, **options)
        if isinstance(found, set | frozenset):
            return sorted(found)
        has_weights = isinstance(found, tuple) and len(found) == 2 and np.ndim(found[0])
        return list(found) if isinstance(found, tuple | Iterator) and not has_weights else found

    return call


def _check_selection(
    name: str, devices: Any, weights: Any, context: Context
) -> tuple[Ints, Array | None]:
    """The result of a user's own selection, or a SkerryError if it breaks the contract."""
    try:
        found = np.asarray(devices)
    except ValueError:  # lists of different lengths
        found = np.array(None)
    if found.ndim != 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        hint = " Use np.flatnonzero(mask)." if found.dtype == bool else ""
        raise SkerryError(
            f"selection '{name}' must give the numbers of the sampled devices, a list of whole "
            f"numbers (got {short_repr(devices)}).{hint}"
        )
    found = found.astype(np.int64)
    if strangers := [int(i) for i in found if not 0 <= i < len(context.awake)]:
        raise SkerryError(
            f"selection '{name}' names devices that are not in the fleet, 0 to "
            f"{len(context.awake) - 1} (got {strangers[:5]})."
        )
    if len(np.unique(found)) < len(found):
        raise SkerryError(
            f"selection '{name}' must name each device once (got {found.tolist()[:10]}). To "
            "count a device twice, double its weight."
        )
    if not context.awake[found].all():
        asleep = found[~context.awake[found]].tolist()
        raise SkerryError(
            f"selection '{name}' samples devices that are asleep (got {asleep[:5]}). Choose from "
            "context.order."
        )
    if weights is None:
        return found, None
    try:
        weighed = np.asarray(weights, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise SkerryError(
            f"selection '{name}' must give weights that are numbers (got {short_repr(weights)})."
        ) from None
    if not (weighed >= 0).all():
        raise SkerryError(
            f"selection '{name}' must give weights of at least 0 (got "
            f"{weighed[~(weighed >= 0)][0]:.4g}). Give weights from 0 to 1 that sum to 1."
        )
    if weighed.shape != found.shape or not np.isclose(weighed.sum(), 1.0, atol=1e-6):
        raise SkerryError(
            f"selection '{name}' must give a weight for each sampled device, which sum to 1 (got "
            f"{weighed.size} weights for {len(found)} devices, sum {weighed.sum():.4g})."
        )
    return found, weighed
