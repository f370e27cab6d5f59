"""Rounds whose messages are compressed: what travels is a difference to what both sides know.

**Links** (CHOCO). Every device has a public copy of itself, which its neighbours know too: it
begins at the common initial point, and moves by what the device sends. With Q the compression and
gamma the consensus stepsize, a mixing is

    C <- C + Q(X - C),    X <- X + gamma (W C - C)

W keeps averages, so X's average stays, whatever Q does. What Q left out is still in X - C: it is
sent later.

**Server**. What both sides know of a device is what it was sent last (`heard`, h), from the initial
point on. With e (`unsent`) and s (`undelivered`), what earlier messages up and down left out,

    up      q = Q(x - h + e),  r = x - h + e - q;  the server takes x for h + s + q
    down    h' = h + Q(y - h),  s' = y - h'
    S2S     x' = h' + r
    S2A     x' = h',  e' = r
    blend   (1 - beta) of the one and beta of the other

Under S2S the mean of x + e + s over all devices stays as it is, whatever Q does; under S2A all who
know the same receive the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.config.fields import Network, Server
from skerry.engine.compression import Compression, Draws, squeezed
from skerry.engine.mixer import Mixer
from skerry.engine.world import World
from skerry.errors import SkerryError
from skerry.methods.method import Arrays
from skerry.plugins import registry


@dataclass(frozen=True)
class LinkRule:
    """How links of some lanes are compressed."""

    compression: Compression
    stepsize: float
    """Gamma."""

    def start(self, X_nld: Tensor, travels: int) -> Arrays:
        """A public copy of every array that goes over links: of X, and of what begins at zero."""
        others = {f"public_{i}": torch.zeros_like(X_nld) for i in range(1, travels)}
        return {"public_0": X_nld.clone(), **others}


@dataclass(frozen=True)
class ServerRule:
    """How what goes to and from a server is."""

    up: Compression | None
    down: Compression | None
    remembers: bool
    """Whether what messages left out is sent later."""
    sets_aside: bool
    """Whether any of it is kept beside models: not under S2S."""

    def start(self, X_nld: Tensor) -> Arrays:
        arrays = {"heard": X_nld.clone()}
        if self.remembers and self.up and self.sets_aside:
            arrays["unsent"] = torch.zeros_like(X_nld)
        if self.remembers and self.down:
            arrays["undelivered"] = torch.zeros_like(X_nld)
        return arrays


def link_rule(experiment: Experiment) -> LinkRule | None:
    """None: models go as they are."""
    network = experiment.network
    if not network.compresses or not network.gossip_steps:
        return None
    made = _made(network)
    gamma = network.consensus_stepsize
    return LinkRule(made, made.quality if gamma is None else gamma)


def server_rule(experiment: Experiment) -> ServerRule | None:
    """None: models go as they are."""
    server = experiment.server
    if not server.compresses or not server.is_there:
        return None
    made, ways = _made(server), server.compressed
    return ServerRule(
        made if ways != "down" else None,
        made if ways != "up" else None,
        server.error_feedback,
        server.primitive != "s2s",
    )


def copies_of(experiment: Experiment, travels: int) -> int:
    """Arrays of the size of X that compression keeps for a lane."""
    links, server = link_rule(experiment), server_rule(experiment)
    nothing = torch.zeros(1, 1, 1)
    return (travels if links else 0) + (len(server.start(nothing)) if server else 0)


def passing_of(experiment: Experiment, devices: int) -> tuple[float, float, float]:
    """Arrays of the size of X, for the lanes at hand, that are there for a while in a round: what
    is compressed, all that is there meanwhile, and the most that ever is."""
    server = experiment.server
    if server_rule(experiment) is None:
        return (1.0, 1.0, 2.0) if link_rule(experiment) else (0.0, 0.0, 0.0)
    met = server.most_sampled(devices) / devices
    reached = met if server.dial == 0 else 1.0
    # Two arrays of the sampled wait for what is sent to those who are reached, in Post.down.
    return reached, 2 * met + 3 * reached, 2 * met + 5 * reached


def _made(section: Network | Server) -> Compression:
    name = section.compression
    with registry.users_own("compression", name):
        made = registry.resolve("compression", name)(**section.options_for("compression"))
    if not isinstance(made, Compression):
        raise SkerryError(
            f"compression '{name}' must be a class that inherits from "
            f"skerry.engine.compression.Compression (got {type(made).__name__})."
        )
    return made


class CompressedLinks:
    """The mixing of a round, as methods call it: once for every array that travels."""

    def __init__(
        self, rule: LinkRule, mixer: Mixer, world: World, t: int, steps: int, copies: Arrays
    ):
        self._rule, self._mixer, self._world, self._t, self._steps = rule, mixer, world, t, steps
        self._copies: Iterator[tuple[int, Tensor]] = enumerate(
            copies[name] for name in sorted(copies) if name.startswith("public_")
        )

    def __call__(self, A_nld: Tensor) -> None:
        number, public = next(self._copies)
        for step in range(self._steps):
            self._tell(A_nld, public, step, number)
            moved = public.clone()
            self._mixer.mix(moved, self._t)
            A_nld.add_(moved.sub_(public), alpha=self._rule.stepsize)

    def collect(self, A_nld: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
        before_nld = A_nld.clone()
        self(A_nld)
        into_nld.addcmul_(before_nld.sub_(A_nld), scale_l1)

    def _tell(self, A_nld: Tensor, public: Tensor, step: int, number: int) -> None:
        """Devices with a link send, and their public copies move."""
        world = self._world
        told = A_nld - public
        keys_n = world.compression_keys("links", self._t, step, number)
        squeezed(self._rule.compression, told, draws(world, keys_n))
        alone = self._alone()
        if alone is not None:
            told[alone] = 0
        public.add_(told)

    def _alone(self) -> Tensor | None:
        """Those without a link in this round; None where links stay as they are: there it would
        make no difference to any model."""
        fleet = self._mixer.fleet
        if fleet.fixed:
            return None
        alone = torch.ones(fleet.devices, dtype=torch.bool)
        alone[torch.from_numpy(fleet.edges(self._t)).flatten()] = False
        return alone.to(self._world.device)


@dataclass(frozen=True)
class Post:
    """One server round of some lanes, compressed: up comes what devices send, down goes what they
    receive."""

    rule: ServerRule
    world: World
    t: int
    X_nld: Tensor
    kept: Arrays
    sampled_k: Tensor

    def up(self) -> tuple[Tensor, Tensor]:
        """What the server takes the sampled models for, and what they did not send, [K, l, d]."""
        S, heard_kld = self.sampled_k, self.kept["heard"][self.sampled_k]
        left_kld = self.X_nld[S] - heard_kld
        if "unsent" in self.kept:
            left_kld += self.kept["unsent"][S]
        told_kld = left_kld.clone()
        if self.rule.up is not None:
            keys_k = self.world.compression_keys("up", self.t)[S]
            squeezed(self.rule.up, told_kld, draws(self.world, keys_k))
        left_kld -= told_kld
        told_kld += heard_kld
        if "undelivered" in self.kept:
            told_kld += self.kept["undelivered"][S]
        return told_kld, left_kld

    def down(
        self, plain_ld: Tensor, estimate_ld: Tensor, left_kld: Tensor, beta: float, reached: Tensor
    ) -> int:
        """Deliver what S2S and S2A do, to those who receive: the sampled, or all who are reached.
        Returns how many."""
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
        if self.rule.remembers and self.rule.up is not None:
            X[S] += (1 - beta) * left_kld
            if "unsent" in kept:
                kept["unsent"][S] = beta * left_kld
        return len(reached)

    def _received(self, sent_rld: Tensor, reached: Tensor) -> Tensor:
        """What arrives of it: all who know the same receive the same."""
        if self.rule.down is None:
            return sent_rld.clone()
        heard_rld = self.kept["heard"][reached]
        key = self.world.compression_keys("down", self.t)[:1]
        told_rld = sent_rld - heard_rld
        squeezed(self.rule.down, told_rld, draws(self.world, key.expand(len(reached))))
        return heard_rld.add_(told_rld)


def draws(world: World, keys_r: Tensor) -> Draws:
    return Draws(keys_r, world.real_d, world.learner.parameters)
