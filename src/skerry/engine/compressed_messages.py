"""Compressed messages in a round: differences to the copies that both sides hold.

**Links** (CHOCO). Every device has a public copy, which its neighbours hold too. The copy starts
at the common initial point, and moves by what the device sends. With Q the compression and
gamma the consensus stepsize, a mixing is

    C <- C + Q(X - C),    X <- X + gamma (W C - C)

W keeps averages, so the average of X stays, whatever Q does. What Q left out is still in X - C and
is sent later.

**Server**. Both sides know the model that a device received last (`heard`, h), at first the initial
point. With e (`unsent`) and s (`undelivered`), what earlier messages up and down left out,

    up      q = Q(x - h + e),  r = x - h + e - q;  the server uses h + s + q in the place of x
    down    h' = h + Q(y - h),  s' = y - h'
    S2S     x' = h' + r
    S2A     x' = h',  e' = r
    blend   (1 - beta) times S2S plus beta times S2A

Under S2S the mean of x + e + s over all devices does not change, whatever Q does. Under S2A devices
with the same `heard` receive the same.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.config.fields import Network, Server
from skerry.engine.compression import Compression, MessageDraws, compress
from skerry.engine.mixer import Mixer
from skerry.engine.plugin_results import COMPRESSION_RULES
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.methods.method import Arrays
from skerry.plugins import registry
from skerry.plugins.calls import guard_methods
from skerry.plugins.context import Context


@dataclass(frozen=True)
class LinkCompression:
    """The compression of the links of some lanes."""

    compression: Compression
    stepsize: float
    """Gamma, the consensus stepsize."""

    def start(self, X_nld: Tensor, mixed_arrays: int) -> Arrays:
        """A public copy of every array that travels: of X, and of arrays that start at zero."""
        others = {f"public_{i}": torch.zeros_like(X_nld) for i in range(1, mixed_arrays)}
        return {"public_0": X_nld.clone(), **others}


@dataclass(frozen=True)
class ServerCompression:
    """The compression of messages to and from the server of some lanes."""

    up: Compression | None
    down: Compression | None
    feeds_back: bool
    """Whether what messages left out is sent later (error feedback)."""
    keeps_unsent: bool
    """Whether what was not sent is kept beside the models; under S2S it stays in them."""

    def start(self, X_nld: Tensor) -> Arrays:
        """The arrays that both sides keep, for models at the initial point."""
        arrays = {"heard": X_nld.clone()}
        if self.feeds_back and self.up and self.keeps_unsent:
            arrays["unsent"] = torch.zeros_like(X_nld)
        if self.feeds_back and self.down:
            arrays["undelivered"] = torch.zeros_like(X_nld)
        return arrays


def link_compression(experiment: Experiment) -> LinkCompression | None:
    """The compression of an experiment's links; None if links carry whole models."""
    network = experiment.network
    if not network.compresses or not network.gossip_steps:
        return None
    made = build_compression(network)
    gamma = network.consensus_stepsize
    return LinkCompression(made, made.quality if gamma is None else gamma)


def server_compression(experiment: Experiment) -> ServerCompression | None:
    """The compression at an experiment's server; None if messages are whole models."""
    server = experiment.server
    if not server.compresses or not server.is_there:
        return None
    made, ways = build_compression(server), server.compressed
    return ServerCompression(
        made if ways != "down" else None,
        made if ways != "up" else None,
        server.error_feedback,
        server.primitive != "s2s",
    )


def count_compression_arrays(experiment: Experiment, mixed_arrays: int) -> int:
    """The number of arrays of the size of X that compression keeps for a lane."""
    links, server = link_compression(experiment), server_compression(experiment)
    nothing = torch.zeros(1, 1, 1)
    return (mixed_arrays if links else 0) + (len(server.start(nothing)) if server else 0)


def compression_temporaries(experiment: Experiment, devices: int) -> tuple[float, float, float]:
    """Temporary arrays in a round, in sizes of X for the lanes at hand: the one that is compressed,
    all of them at that time, and the most at any time."""
    server = experiment.server
    if server_compression(experiment) is None:
        return (1.0, 1.0, 2.0) if link_compression(experiment) else (0.0, 0.0, 0.0)
    met = server.most_sampled(devices) / devices
    reached = met if server.dial == 0 else 1.0
    # Two arrays of the sampled devices are kept through CompressedServerRound.down.
    return reached, 2 * met + 3 * reached, 2 * met + 5 * reached


def build_compression(section: Network | Server) -> Compression:
    """The compression that a section names."""
    options = section.options_for("compression")
    made = registry.build("compression", section.compression, options, Compression)
    if not isinstance(made.quality, int | float | np.number) or not 0 < made.quality <= 1:
        raise SkerryError(
            f"compression '{section.compression}': quality must be a number above 0, at most 1 "
            f"(got {made.quality!r:.60})."
        )
    return guard_methods("compression", section.compression, made, COMPRESSION_RULES)


@dataclass
class CompressedMixing:
    """The mixing of a round over compressed links, called once for every array that travels."""

    rule: LinkCompression
    mixer: Mixer
    world: World
    t: int
    steps: int
    copies: Arrays
    context: Context
    number: int = 0
    """Arrays that were mixed before."""

    def __call__(self, A_nld: Tensor) -> None:
        public, isolated = self.copies[f"public_{self.number}"], self._isolated()
        for step in range(self.steps):
            message = A_nld - public
            keys_n = self.world.compression_keys("links", self.t, step, self.number)
            context = self.context.with_facts(_purpose=f"links {step} {self.number}")
            compress(self.rule.compression, message, message_draws(self.world, keys_n), context)
            if isolated is not None:
                message[isolated] = 0
            public.add_(message)
            mixed = public.clone()
            self.mixer.mix(mixed, self.t)
            A_nld.add_(mixed.sub_(public), alpha=self.rule.stepsize)
        self.number += 1

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        before_nld = A_nld.clone()
        self(A_nld)
        into_nld.addcmul_(before_nld.sub_(A_nld), scale_l1)

    def _isolated(self) -> Tensor | None:
        """Mask of the devices without a link in this round, which send nothing.

        None where links never change: there it would make no difference to any model.
        """
        fleet = self.mixer.fleet
        if fleet.fixed:
            return None
        isolated = torch.ones(fleet.devices, dtype=torch.bool)
        isolated[torch.from_numpy(fleet.edges(self.t)).flatten()] = False
        return isolated.to(self.world.device)


@dataclass(frozen=True)
class CompressedServerRound:
    """The messages of one server round of some lanes, up and down."""

    rule: ServerCompression
    world: World
    t: int
    X_nld: Tensor
    kept: Arrays
    sampled_k: Tensor
    context: Context

    def up(self) -> tuple[Tensor, Tensor]:
        """The sampled models as the server receives them, and what was not sent, [K, l, d] each."""
        S, heard_kld = self.sampled_k, self.kept["heard"][self.sampled_k]
        unsent_kld = self.X_nld[S] - heard_kld
        if "unsent" in self.kept:
            unsent_kld += self.kept["unsent"][S]
        message_kld = unsent_kld.clone()
        if self.rule.up is not None:
            keys_k = self.world.compression_keys("up", self.t)[S]
            draws = message_draws(self.world, keys_k)
            compress(self.rule.up, message_kld, draws, self.context.with_facts(_purpose="up"), S)
        unsent_kld -= message_kld
        message_kld += heard_kld
        if "undelivered" in self.kept:
            message_kld += self.kept["undelivered"][S]
        return message_kld, unsent_kld

    def down(
        self,
        plain_ld: Tensor,
        estimate_ld: Tensor,
        unsent_kld: Tensor,
        beta: float,
        reached: Tensor,
    ) -> int:
        """Deliver the averages of S2S and S2A to the devices that are reached; returns how many."""
        X, S, kept = self.X_nld, self.sampled_k, self.kept
        sent_rld = estimate_ld.expand(len(reached), -1, -1).clone()
        among_r = torch.isin(reached, S)
        sent_rld[among_r] = torch.lerp(plain_ld, estimate_ld, beta)
        received_rld = self._received(sent_rld, reached)
        kept["heard"][reached] = received_rld
        if "undelivered" in kept:
            missing_rld = sent_rld.sub_(received_rld)
            before_rld = kept["undelivered"][reached]
            part_r11 = X.new_full((len(reached), 1, 1), beta)
            part_r11[among_r] = 1
            kept["undelivered"][reached] = torch.lerp(before_rld, missing_rld, part_r11)
        if beta > 0:
            X[reached] = torch.lerp(X[reached], received_rld, beta)
        X[S] = kept["heard"][S]
        if self.rule.feeds_back and self.rule.up is not None:
            X[S] += (1 - beta) * unsent_kld
            if "unsent" in kept:
                kept["unsent"][S] = beta * unsent_kld
        return len(reached)

    def _received(self, sent_rld: Tensor, reached: Tensor) -> Tensor:
        """The models as they arrive: devices with the same `heard` receive the same."""
        if self.rule.down is None:
            return sent_rld.clone()
        heard_rld = self.kept["heard"][reached]
        key = self.world.compression_keys("down", self.t)[:1]
        message_rld = sent_rld - heard_rld
        draws = message_draws(self.world, key.expand(len(reached)))
        context = self.context.with_facts(_purpose="down")
        compress(self.rule.down, message_rld, draws, context, reached)
        return heard_rld.add_(message_rld)


def message_draws(world: World, keys_r: Tensor) -> MessageDraws:
    """The random numbers of messages, from a key for each."""
    return MessageDraws(keys_r, world.shared_d, world.shared_parameters, world.padding)
