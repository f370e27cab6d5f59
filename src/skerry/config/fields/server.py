"""The section [server]."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from skerry.config import labels, schedules
from skerry.config.fields.numbers import BelowOne, Count, Positive, Round, Share, UpToOne
from skerry.config.section import Fault, Later, Named, Names, OptionOf, Section, usual

SCHEDULES = ("beta schedule", "sampled schedule", "period schedule")


class Server(Section, extra="allow"):
    """What the server does, when, and for whom."""

    name: str = ""
    """What it is called beside others, such as the name of a preset; it does not change the
    result. Without one: the primitive."""
    primitive: Annotated[Named, Names("primitive")] = usual("s2s")
    """Who receives the average: s2s (the sampled), s2a (all), blend (all, in part), none."""
    beta: Annotated[UpToOne, OptionOf("primitive")] = 0.5
    """blend: how far an unsampled device moves to the average (0 is s2s, 1 is s2a)."""
    sampled: Count = 20
    """Devices the server samples (K)."""
    period: Count = 5
    """Rounds between two server rounds (H)."""
    offset: Round = 0
    """The first server round; they are the rounds t >= offset with (t - offset) mod period = 0."""
    selection: Annotated[Named, Names("selection"), Later()] = usual("uniform")
    """Whom the server samples: uniform, per_component (every island in proportion), one_each (as
    many of every island), bernoulli, round_robin, weighted (by data), importance, or your own."""
    sample_prob: Annotated[Share, OptionOf("selection")] = 0.2
    """Chance of each device with selection = "bernoulli"."""
    weights: Annotated[Literal["equal", "stratified", "data"], Later()] = "equal"
    """How the sampled count in what S2A delivers: equal (as the selection wants it), stratified
    (islands by their size), data (devices by their samples, as FedAvg has it)."""
    optimizer: Annotated[Named, Names("server optimizer")] = usual("fedavg")
    """What the server does with the average: fedavg delivers it, fedavgm adds momentum against the
    model delivered last, fedavgm_averages against the average before; fedadam, fedyogi."""
    momentum: Annotated[BelowOne, OptionOf("server optimizer")] = 0.9
    """Momentum of fedavgm, fedavgm_averages, fedadam and fedyogi."""
    learning_rate: Annotated[Positive | None, OptionOf("server optimizer"), Later()] = None
    """How far these go along their momentum; unset: 1, for fedadam and fedyogi 0.1."""
    dampening: Annotated[BelowOne, OptionOf("server optimizer"), Later()] = 0.0
    """fedavgm: the part of a new move that momentum leaves out."""
    second_momentum: Annotated[BelowOne, OptionOf("server optimizer"), Later()] = 0.99
    """fedadam and fedyogi: momentum of the squares."""
    smallest: Annotated[Positive, OptionOf("server optimizer"), Later()] = 0.001
    """fedadam and fedyogi: added to the root of the squares (tau)."""
    compression: Annotated[Named, Names("compression"), Later()] = usual("none")
    """What of a difference goes to and from the server: none (a model goes as it is), top_k (the
    largest numbers), random_k, int8 (every number in a byte), or your own class."""
    compression_share: Annotated[Share, OptionOf("compression"), Later()] = 0.1
    """The part of the numbers that top_k and random_k send."""
    compressed: Annotated[Literal["both", "up", "down"], Later()] = "both"
    """Which way is compressed: up, to the server; down, from it; or both."""
    error_feedback: Annotated[bool, Later()] = True
    """Whether what a compressed message left out is remembered, and sent later."""
    beta_schedule: Annotated[Named, Names("beta schedule"), Later()] = usual("constant")
    """How beta changes over the run: constant, cosine, inverse_sqrt, step, switch, double,
    adaptive, or your own."""
    beta_end: Annotated[UpToOne | None, Later()] = None
    """Where beta ends, with a schedule."""
    sampled_schedule: Annotated[Named, Names("sampled schedule"), Later()] = usual("constant")
    """How the number of sampled devices changes; the same names."""
    sampled_end: Annotated[Count | None, Later()] = None
    """Where it ends."""
    period_schedule: Annotated[Named, Names("period schedule"), Later()] = usual("constant")
    """How the period changes; the same names."""
    period_end: Annotated[Count | None, Later()] = None
    """Where it ends."""
    switch_round: Annotated[Round | None, OptionOf(*SCHEDULES), Later()] = None
    """The first round in which a switch schedule is at its end."""
    change_every: Annotated[Count, OptionOf(*SCHEDULES), Later()] = 30
    """Rounds between two changes of a step or double schedule."""
    bias_cost: Annotated[Positive, OptionOf("beta schedule"), Later()] = 8.0
    """Adaptive beta: lambda, the weight of the bias against the disagreement; a larger one makes
    beta smaller. On quadratics, 1.6 / (stepsize * period) to 8 / (stepsize * period) was best."""
    sampled_target: Annotated[Positive | None, OptionOf("sampled schedule"), Later()] = None
    """Adaptive K: the bias (per device) that S2A may have; as many are sampled as that takes."""
    period_target: Annotated[Positive | None, OptionOf("period schedule"), Later()] = None
    """Adaptive H: the disagreement between islands (per device) at which the server comes."""
    adapt_over: Annotated[Count, OptionOf(*SCHEDULES), Later()] = 5
    """Adaptive schedules: the server rounds whose estimates are averaged."""

    def faults(self) -> Iterable[Fault]:
        yield from schedules.faults(self)
        if labels.read_any(self.name)[0] in labels.BUILT_IN:
            yield (
                ("server.name",),
                f"server.name must not be that of a primitive (got {self.name!r}): tables would "
                "confuse the two. Choose another name.",
            )
        if self.selection == "importance" and self.weights != "equal":
            yield (
                ("server.selection", "server.weights"),
                'server.selection = "importance" weighs the sampled itself (got server.weights = '
                f'"{self.weights}"). Leave server.weights out.',
            )

    def idle_fields(self) -> frozenset[str]:
        """Its name; ends that no schedule goes to; the schedule of a beta that plays no part.
        Without a server all but the primitive, which says so."""
        if not self.is_there:
            return frozenset(name for name, _ in self if name != "primitive")
        idle = super().idle_fields() | (
            set() if self.compresses else {"compressed", "error_feedback"}
        )
        if "beta" in idle and schedules.moves(self, "beta"):
            idle = self.model_copy(update={"beta_schedule": schedules.CONSTANT}).idle_fields()
        moot = {"name"} | ({"beta_schedule", "beta_end"} if "beta" in idle else set())
        return idle.union(moot, schedules.idle_ends(self))

    @property
    def label(self) -> str:
        """How a run is called beside others: by its name, or by its primitive, with the dial's
        position."""
        if self.name:
            return self.name
        if self.primitive == labels.BLEND and schedules.moves(self, "beta"):
            return f"{labels.BLEND} {schedules.in_words(self)}"
        return labels.write(self.primitive, self.beta)

    @property
    def dial(self) -> float | None:
        """Where the primitive stands between S2S, at 0, and S2A, at 1; None if it is neither, or
        does not stand still."""
        moves = self.primitive == labels.BLEND and schedules.moves(self, "beta")
        return None if moves else labels.dial(self.primitive, self.beta)

    @property
    def compresses(self) -> bool:
        return self.compression != "none"

    @property
    def is_there(self) -> bool:
        return self.primitive != labels.NO_SERVER

    def most_sampled(self, devices: int) -> int:
        """How many of so many devices it meets in one round at most; where coins say it, what they
        hardly ever exceed: four standard deviations above their mean."""
        if self.selection != "bernoulli":
            return schedules.most_sampled(self, devices)
        p = self.sample_prob
        return min(devices, math.ceil(devices * p + 4 * math.sqrt(devices * p * (1 - p))))

    def server_rounds(self, rounds: int) -> Sequence[int]:
        """Of so many rounds, those in which it meets devices: offset, offset + H, ..."""
        if not self.is_there:
            return range(0)
        if schedules.moves(self, "period"):
            return schedules.server_rounds(self, rounds)
        return range(self.offset, rounds, self.period)

    def known_rounds(self, rounds: int) -> Sequence[int]:
        """Those of them that are known without a user's own schedule: records may be read where it
        is not at hand."""
        own = self.is_there and ":" in self.period_schedule
        return range(self.offset, rounds)[:1] if own else self.server_rounds(rounds)

    def meets(self, t: int, rounds: int) -> bool:
        """Whether round t, of so many, is a server round."""
        return t in self.server_rounds(rounds)

    def at(self, t: int, rounds: int) -> "Server":
        """As it stands in round t, of so many: with the beta and K that its schedules give."""
        return schedules.at(self, t, rounds)
