"""The section [server]: what the server does, when, and with which devices."""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from skerry.config import labels, schedules
from skerry.config.section import (
    BelowOne,
    Count,
    Fault,
    Named,
    Names,
    OptionOf,
    Positive,
    Round,
    Section,
    Share,
    UpToOne,
    default,
)
from skerry.plugins import registry

_SCHEDULES = ("beta schedule", "sampled schedule", "period schedule")


class Server(Section, extra="allow"):
    """What the server does, when, and for whom."""

    name: str = ""
    """A label in tables and figures, such as the name of a preset; it does not change the result.
    Empty: the primitive."""
    primitive: Annotated[Named, Names("primitive")] = default("s2s")
    """Who receives the average: s2s (the sampled), s2a (all), blend (all, in part), none."""
    beta: Annotated[UpToOne, OptionOf("primitive")] = 0.5
    """blend: how far an unsampled device moves to the average (0 is s2s, 1 is s2a)."""
    sampled: Count = 20
    """Devices the server samples (K)."""
    period: Count = 5
    """Rounds between two server rounds (H)."""
    offset: Round = 0
    """The first server round; they are the rounds t >= offset with (t - offset) mod period = 0."""
    selection: Annotated[Named, Names("selection")] = default("uniform")
    """How the server samples devices: uniform, per_component (every island in proportion), one_each
    (as many of every island), bernoulli, round_robin, weighted (by data), importance, or your
    own."""
    sample_prob: Annotated[Share, OptionOf("selection")] = 0.2
    """Probability of each device with selection = "bernoulli"."""
    weights: Literal["equal", "stratified", "data"] = "equal"
    """Weights of sampled devices in what S2A delivers: equal (or as the selection sets them),
    stratified (islands by their size), data (devices by their samples, as in FedAvg)."""
    optimizer: Annotated[Named, Names("server optimizer")] = default("fedavg")
    """What the server does with the average: fedavg delivers it, fedavgm adds momentum against the
    model delivered last, fedavgm_averages against the average before; fedadam, fedyogi."""
    momentum: Annotated[BelowOne, OptionOf("server optimizer")] = 0.9
    """Momentum of fedavgm, fedavgm_averages, fedadam and fedyogi."""
    learning_rate: Annotated[Positive | None, OptionOf("server optimizer")] = None
    """Learning rate of these optimizers; unset: 1, for fedadam and fedyogi 0.1."""
    dampening: Annotated[BelowOne, OptionOf("server optimizer")] = 0.0
    """fedavgm: the share of a new update that momentum leaves out."""
    second_momentum: Annotated[BelowOne, OptionOf("server optimizer")] = 0.99
    """fedadam and fedyogi: decay rate of the mean of squares."""
    smallest: Annotated[Positive, OptionOf("server optimizer")] = 0.001
    """fedadam and fedyogi: constant added to the root of the mean square (tau)."""
    compression: Annotated[Named, Names("compression")] = default("none")
    """Compression of messages to and from the server: none (whole models), top_k (the largest
    numbers of a difference), random_k, int8 (every number in a byte), or your own class."""
    compression_share: Annotated[Share, OptionOf("compression")] = 0.1
    """The share of the numbers that top_k and random_k send."""
    compressed: Literal["both", "up", "down"] = "both"
    """Which messages are compressed: up (to the server), down (from it), or both."""
    error_feedback: bool = True
    """Whether what compression left out of a message is stored and sent later."""
    beta_schedule: Annotated[Named, Names("beta schedule")] = default("constant")
    """How beta changes over the run: constant, cosine, inverse_sqrt, step, switch, double,
    adaptive, or your own."""
    beta_end: UpToOne | None = None
    """Value of beta at the end of its schedule."""
    sampled_schedule: Annotated[Named, Names("sampled schedule")] = default("constant")
    """How the number of sampled devices changes over the run."""
    sampled_end: Count | None = None
    """Number of sampled devices at the end of its schedule."""
    period_schedule: Annotated[Named, Names("period schedule")] = default("constant")
    """How the period changes over the run."""
    period_end: Count | None = None
    """Period at the end of its schedule."""
    switch_round: Annotated[Round | None, OptionOf(*_SCHEDULES)] = None
    """The first round with the end value of a switch schedule."""
    change_every: Annotated[Count, OptionOf(*_SCHEDULES)] = 30
    """Rounds between two changes of a step or double schedule."""
    bias_cost: Annotated[Positive, OptionOf("beta schedule")] = 8.0
    """Adaptive beta: what a move of the average costs against disagreement (lambda). Between 1.6
    and 8, over stepsize times period, was best on quadratics."""
    sampled_target: Annotated[Positive | None, OptionOf("sampled schedule")] = None
    """Adaptive K: the bias (per device) that S2A may have; as many are sampled as that takes."""
    period_target: Annotated[Positive | None, OptionOf("period schedule")] = None
    """Adaptive H: the disagreement between islands (per device) at which the server comes."""
    adapt_over: Annotated[Count, OptionOf(*_SCHEDULES)] = 5
    """Adaptive schedules: the server rounds whose estimates are averaged."""

    def faults(self) -> Iterable[Fault]:
        yield from schedules.schedule_faults(self)
        if labels.read_any_label(self.name)[0] in registry.PRIMITIVES:
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

    def unused_fields(self) -> frozenset[str]:
        """The name, the ends that no schedule uses, and the schedule of a beta that is not used.
        Without a server, all fields but the primitive."""
        if not self.is_there:
            return frozenset(name for name, _ in self if name != "primitive")
        idle = super().unused_fields() | (
            set() if self.compresses else {"compressed", "error_feedback"}
        )
        if "beta" in idle and schedules.has_schedule(self, "beta"):
            idle = self.model_copy(update={"beta_schedule": schedules.CONSTANT}).unused_fields()
        unused = {"name"} | ({"beta_schedule", "beta_end"} if "beta" in idle else set())
        return idle.union(unused, schedules.unused_ends(self))

    @property
    def label(self) -> str:
        """The label of a run in tables: the name, or the primitive with its beta."""
        if self.name:
            return self.name
        if self.primitive == labels.BLEND and schedules.has_schedule(self, "beta"):
            return f"{labels.BLEND} {schedules.describe_beta(self)}"
        return labels.write_label(self.primitive, self.beta)

    @property
    def dial(self) -> float | None:
        """The place of the primitive between S2S, at 0, and S2A, at 1; None for other primitives
        and for a beta with a schedule."""
        changes = self.primitive == labels.BLEND and schedules.has_schedule(self, "beta")
        return None if changes else labels.dial_position(self.primitive, self.beta)

    @property
    def compresses(self) -> bool:
        """Whether messages to or from the server are compressed."""
        return self.compression != "none"

    @property
    def is_there(self) -> bool:
        """Whether there is a server."""
        return self.primitive != labels.NO_SERVER

    def most_sampled(self, devices: int) -> int:
        """The largest number of sampled devices in a round. Under bernoulli sampling, which has no
        limit, four standard deviations above the mean."""
        if self.selection != "bernoulli":
            return schedules.most_sampled(self, devices)
        p = self.sample_prob
        return min(devices, math.ceil(devices * p + 4 * math.sqrt(devices * p * (1 - p))))

    def server_rounds(self, rounds: int) -> Sequence[int]:
        """The server rounds among the first `rounds`: offset, offset + H, ..."""
        if not self.is_there:
            return range(0)
        if schedules.has_schedule(self, "period"):
            return schedules.scheduled_rounds(self, rounds)
        return range(self.offset, rounds, self.period)

    def known_rounds(self, rounds: int) -> Sequence[int]:
        """The server rounds that are known without a user's own schedule, which need not be
        importable where records are read."""
        own = self.is_there and ":" in self.period_schedule
        return range(self.offset, rounds)[:1] if own else self.server_rounds(rounds)

    def meets(self, t: int, rounds: int) -> bool:
        """Whether round t is a server round."""
        return t in self.server_rounds(rounds)

    def at(self, t: int, rounds: int) -> "Server":
        """The section with the beta and K of round t as constants."""
        return schedules.server_in_round(self, t, rounds)
