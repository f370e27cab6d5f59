"""Who takes part in a server round, and how each of them counts."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.participation.selection import Array, Ints, Who
from skerry.engine.server_schedule import Turn
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import CONTEXT, asks_context
from skerry.seeds import stream


@dataclass(frozen=True)
class Sample:
    """The sampled devices, each once; S2S delivers their plain mean, S2A their weighted one."""

    devices_k: Tensor
    weights_k: Tensor | None = None
    """They sum to 1; None: all alike, so that both means are the same."""
    asleep: Tensor | None = None
    """The devices that sleep in this round; None: nobody."""
    awake: int = 0
    """How many do not."""
    islands: int = 0
    """How many islands are sampled."""

    def __len__(self) -> int:
        return len(self.devices_k)


class Sampler:
    """The rule of one server, on one world."""

    def __init__(self, world: World, experiment: Experiment):
        server = experiment.server
        self._world, self._server = world, server
        self._awake = world.awake(experiment)
        self._is_plain = (
            server.selection == "uniform" and self._awake is None and server.weights == "equal"
        )
        self._counts_islands = "sampled_islands" in world.experiment.evaluate.wanted
        self._rule: Callable[..., Any] = registry.resolve("selection", server.selection)
        self._asks_context = asks_context("selection", server.selection)

    @property
    def asks_distances(self) -> bool:
        """Whether the models themselves decide who is sampled."""
        return bool(getattr(self._rule, "asks_distances", False))

    def sample(
        self, t: int, distances_n: Array | None = None, turn: Turn | None = None
    ) -> Sample | None:
        """In round t, which is a server round (as planned, without its turn); None if there is
        nobody to sample."""
        world = self._world
        turn = turn or self._planned(t)
        if self._is_plain:
            order = world.server_order(t)[: turn.server.sampled]
            return Sample(order, awake=world.n, islands=self._islands_of(t, turn))
        who = self.who(t, distances_n, turn)
        devices, weights = self._asked(who, turn)
        if not len(devices):
            return None
        weights = self._weighed(who, devices, weights)
        return Sample(
            torch.from_numpy(devices).to(world.device),
            None if weights is None else torch.from_numpy(weights).to(world.device, world.dtype),
            None
            if self._awake is None
            else torch.from_numpy(np.flatnonzero(~who.awake_n)).to(world.device),
            int(who.awake_n.sum()),
            len(np.unique(who.islands_n[devices])),
        )

    def _islands_of(self, t: int, turn: Turn) -> int:
        """Of the usual sample; counted only where it is measured."""
        if not self._counts_islands:
            return 0
        order = stream(self._world.seed, "sampled", t).permutation(self._world.n)
        return len(np.unique(self._world.fleet.island_of[order[: turn.server.sampled]]))

    def _planned(self, t: int) -> Turn:
        server, rounds = self._server, self._world.rounds
        return Turn(server.at(t, rounds), bisect_left(server.server_rounds(rounds), t))

    def standing(self, t: int, turn: Turn, options: Mapping[str, Any]) -> Context:
        """Where the run stands, for any plug-in of this server."""
        return self._world.context(t, turn.number, options=options)

    def who(self, t: int, distances_n: Array | None = None, turn: Turn | None = None) -> Who:
        world = self._world
        turn = turn or self._planned(t)
        awake_n = np.ones(world.n, dtype=bool) if self._awake is None else self._awake(t)
        return Who(
            seed=world.seed,
            round=t,
            number=turn.number,
            sampled=turn.server.sampled,
            islands_n=world.fleet.island_of,
            samples_n=world.partition.sizes,
            names=world.fleet.labels,
            awake_n=awake_n,
            distances_n=distances_n,
        )

    def _asked(self, who: Who, turn: Turn) -> tuple[Ints, Array | None]:
        """What the rule gives, held against its contract."""
        name, options = self._server.selection, self._server.options_for("selection")
        told = {CONTEXT: self.standing(who.round, turn, options)} if self._asks_context else {}
        with registry.users_own("selection", name):
            found = self._rule(who, **options, **told)
        devices, weights = found if isinstance(found, tuple) else (found, None)
        if registry.is_builtin("selection", name):
            return devices, weights
        return _checked(name, devices, weights, who)

    def _weighed(self, who: Who, devices: Ints, weights: Array | None) -> Array | None:
        kind = self._server.weights
        if kind == "data":
            counted = who.samples_n[devices].astype(float)
            return np.asarray(counted / counted.sum())
        if kind != "stratified":
            return weights
        island = who.islands_n[devices]
        counts = np.bincount(island, minlength=who.islands)
        if (counts[who.sizes > 0] == 0).any():
            return weights  # an island is missed: there is nothing to weigh it by
        each = who.sizes / (who.sizes.sum() * np.maximum(counts, 1))
        return np.asarray(each[island])


def _checked(name: str, devices: Any, weights: Any, who: Who) -> tuple[Ints, Array | None]:
    """A user's own rule must give what the built-in ones do."""
    found = np.asarray(devices)
    if found.ndim != 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        raise SkerryError(
            f"selection '{name}' must give the numbers of the sampled devices, a list of whole "
            f"numbers (got {str(devices)[:60]})."
        )
    found = found.astype(np.int64)
    strangers = [int(i) for i in found if not 0 <= i < len(who.awake_n)]
    if strangers:
        raise SkerryError(
            f"selection '{name}' names devices that are not in the fleet, 0 to "
            f"{len(who.awake_n) - 1} (got {strangers[:5]})."
        )
    if len(np.unique(found)) < len(found):
        raise SkerryError(
            f"selection '{name}' must name each device once (got {found.tolist()[:10]}). Give one "
            "that counts twice twice the weight."
        )
    if not who.awake_n[found].all():
        asleep = found[~who.awake_n[found]].tolist()
        raise SkerryError(
            f"selection '{name}' samples devices that are asleep (got {asleep[:5]}). Choose from "
            "who.order."
        )
    if weights is None:
        return found, None
    weighed = np.asarray(weights, dtype=float)
    if weighed.shape != found.shape or not np.isclose(weighed.sum(), 1.0, atol=1e-6):
        raise SkerryError(
            f"selection '{name}' must give a weight for each sampled device, which sum to 1 (got "
            f"{weighed.size} weights for {len(found)} devices, sum {weighed.sum():.4g})."
        )
    return found, weighed
