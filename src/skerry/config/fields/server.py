"""The section [server]: what the server does, when, and with which devices."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from skerry.config import labels, schedules
from skerry.config.schedules import ADAPTIVE, CONSTANT, RANGES
from skerry.config.section import (
    LARGEST,
    AtLeastZero,
    BelowOne,
    Count,
    Fault,
    KeyedIfSet,
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
from skerry.plugins.context import Context
from skerry.plugins.options import options_of

_SCHEDULES = ("beta schedule", "sampled schedule", "period schedule")


class Server(Section, extra="allow"):
    """The server: its primitive, sampling, period, optimizer and schedules."""

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
    """Adaptive beta: lambda, the weight of the bias against the disagreement; a larger one makes
    beta smaller. On quadratics, 1.6 / (stepsize * period) to 8 / (stepsize * period) was best."""
    sampled_target: Annotated[Positive | None, OptionOf("sampled schedule")] = None
    """Adaptive K: the smallest K that keeps the bias of S2A (per device) below this value."""
    period_target: Annotated[Positive | None, OptionOf("period schedule")] = None
    """Adaptive H: the disagreement between islands (per device) that a server round aims for."""
    adapt_over: Annotated[Count, OptionOf(*_SCHEDULES)] = 5
    """Adaptive schedules: the server rounds whose estimates are averaged."""
    deadline: Annotated[Positive | None, KeyedIfSet()] = None
    """Seconds after the server's call, which is when the first called device is ready to send: a
    device whose message arrives later is left out of the average. Needs a clock; unset: none."""
    at_least: Annotated[Count, KeyedIfSet()] = 1
    """Devices that must be in time for the deadline; with fewer, the server round is void."""
    over_sample: Annotated[AtLeastZero, Field(le=LARGEST), KeyedIfSet()] = 0
    """Devices that are called beyond K; the first K to arrive count. Needs a clock."""

    def faults(self) -> Iterable[Fault]:
        for field in RANGES:
            yield from self._schedule_faults(field)
        if labels.read_any_label(self.name)[0] in registry.PRIMITIVES:
            yield (
                ("server.name",),
                f"server.name must not be that of a primitive (got {self.name!r}): tables would "
                "confuse the two. Choose another name.",
            )
        if self.selection == "importance" and self.weights != "equal":
            yield (
                ("server.selection", "server.weights"),
                'server.selection = "importance" sets the weights of the sampled devices itself '
                f'(got server.weights = "{self.weights}"). Leave server.weights out.',
            )

        yield from self._deadline_faults()

    @property
    def is_timed(self) -> bool:
        """Whether the times of messages decide who counts in the average."""
        return self.deadline is not None or self.over_sample > 0

    def _deadline_faults(self) -> Iterator[Fault]:
        """Faults of fields that deadlines and over-sampling exclude."""
        if self.at_least > 1 and self.deadline is None:
            yield (
                ("server.at_least", "server.deadline"),
                f"server.at_least says how many must be in time for a deadline (got {self.at_least}"
                " without one). Set server.deadline.",
            )
        if not self.is_timed or not self.is_there:
            return
        field = "over_sample" if self.deadline is None else "deadline"
        fewest, _ = self._sampled_ends
        if self.deadline is not None and self.at_least > fewest and self.selection != "bernoulli":
            yield (
                ("server.at_least", "server.sampled", "server.sampled_end"),
                f"server.at_least must be at most the number of sampled devices (got "
                f"{self.at_least} of {fewest}). Lower server.at_least.",
            )
        if self.is_adaptive():
            yield (
                (f"server.{field}", *(f"server.{name}_schedule" for name in RANGES)),
                f"server.{field} does not go with adaptive schedules: they estimate from a random "
                "sample, and late devices are left out of it. Change one of them.",
            )
        if self.selection == "importance":
            yield (
                (f"server.{field}", "server.selection"),
                f'server.{field} does not go with server.selection = "importance", whose weights '
                "are right for the whole sample only. Change one of them.",
            )
        elif self.over_sample and self.selection in ("bernoulli", "one_each", "weighted"):
            yield (
                ("server.over_sample", "server.selection"),
                "server.over_sample takes the first K to arrive, but server.selection = "
                f'"{self.selection}" decides by itself how many count. Use "uniform", '
                '"per_component" or "round_robin".',
            )

    @property
    def _sampled_ends(self) -> tuple[int, int]:
        """The smallest and the largest K of a schedule between two ends."""
        end = self.sampled_end if self.has_schedule("sampled") else None
        low, high = sorted((self.sampled, end or self.sampled))
        return low, high

    def call_faults(self, devices: int) -> Iterator[Fault]:
        """Whether there are as many devices as are called."""
        if not self.is_there or not self.over_sample:
            return
        _, most = self._sampled_ends
        if most <= devices < most + self.over_sample:
            yield (
                ("server.over_sample", "server.sampled", "server.sampled_end", "network.devices"),
                "server.sampled + server.over_sample must be at most the number of devices (got "
                f"{most} + {self.over_sample} of {devices} devices). Lower server.over_sample.",
            )

    def island_faults(self, sizes: Sequence[int]) -> Iterator[Fault]:
        """Whether `one_each` can take the same number of devices from islands of these sizes."""
        if not self.is_there or self.selection != "one_each":
            return
        each, rest = divmod(self.sampled, len(sizes))
        if rest:
            yield (
                ("server.selection", "server.sampled"),
                "server.sampled must be a multiple of the number of islands for server.selection = "
                f'"one_each" (got {self.sampled} for {len(sizes):,} islands). Change '
                'server.sampled, or use "per_component".',
            )
        elif each > min(sizes):
            yield (
                ("server.selection", "server.sampled"),
                f'server.selection = "one_each" samples {each} devices of every island (got one of '
                f"{min(sizes)}). Lower server.sampled to {len(sizes) * min(sizes)}, or use "
                '"per_component".',
            )

    def _schedule_faults(self, name: str) -> Iterator[Fault]:
        """Missing ends and targets, and selections that an adaptive schedule cannot use."""
        schedule, field = self._schedule(name), f"server.{name}_schedule"
        if schedule in schedules.NEED_END and getattr(self, f"{name}_end") is None:
            yield (
                (field, f"server.{name}_end"),
                f'{field} = "{schedule}" goes from server.{name} to an end (got none). Set '
                f"server.{name}_end.",
            )
        if schedule == "switch" and self.switch_round is None:
            yield (
                (field, f"server.{name}_end", "server.switch_round"),
                f'{field} = "switch" changes in one round (got none). Set server.switch_round.',
            )
        if not self.is_adaptive(name):
            return
        target = f"{name}_target"
        if schedule == ADAPTIVE and name != "beta" and getattr(self, target) is None:
            yield (
                (field, f"server.{target}"),
                f'{field} = "adaptive" needs a target (got none). Set server.{target}.',
            )
        if self.selection not in schedules.MEASURABLE or self.weights == "data":
            yield (
                (field, "server.selection", "server.weights"),
                f'{field} = "{schedule}" depends on the spread of the sampled models, which is '
                f"known for the selections {', '.join(schedules.MEASURABLE)}, and not for weights "
                f"by data (got '{self.selection}' with weights '{self.weights}'). Change one of "
                "them.",
            )
        if name == "sampled" and self.selection == "one_each":
            yield (
                (field, "server.selection"),
                f'{field} = "{schedule}" may give any number, but server.selection = "one_each" '
                'needs a multiple of the islands. Use "per_component".',
            )
        if name == "sampled" and self.selection == "bernoulli":
            yield (
                (field, "server.selection"),
                f'{field} = "{schedule}" sets how many are sampled, but server.selection = '
                '"bernoulli" leaves that to chance. Use "uniform".',
            )

    def unused_fields(self) -> frozenset[str]:
        """The name, the ends that no schedule uses, and the schedule of a beta that is not used.
        Without a server, all fields but the primitive."""
        if not self.is_there:
            return frozenset(name for name, _ in self if name != "primitive")
        unused = super().unused_fields() | {"name"}
        if not self.compresses:
            unused |= {"compressed", "error_feedback"}
        if "beta" in unused and self.has_schedule("beta"):
            unused |= self.model_copy(update={"beta_schedule": CONSTANT}).unused_fields()
        if "beta" in unused:
            unused |= {"beta_schedule", "beta_end"}
        return unused | self._unused_ends()

    def _unused_ends(self) -> set[str]:
        """The end fields that no schedule uses; a user's own schedule may use any."""
        ends = {f"{field}_end": self._schedule(field) for field in RANGES}
        takers = schedules.TAKE_END
        unused = {end for end, name in ends.items() if ":" not in name and name not in takers}
        return unused | ({"beta_end"} if self.beta_schedule == ADAPTIVE else set())

    @property
    def label(self) -> str:
        """The label of a run in tables: the name, or the primitive with its beta."""
        if self.name:
            return self.name
        if self.primitive != labels.BLEND or not self.has_schedule("beta"):
            return labels.write_label(self.primitive, self.beta)
        words = f"{self.beta:g}"
        if self.beta_end is not None and "beta_end" not in self._unused_ends():
            words += f"-{self.beta_end:g}"
        options = self.options_for("beta schedule") if ":" not in self.beta_schedule else {}
        values = [f"{option} {value:g}" for option, value in options.items() if value is not None]
        return f"{labels.BLEND} {self.beta_schedule}({', '.join([words, *values])})"

    @property
    def dial(self) -> float | None:
        """The place of the primitive between S2S, at 0, and S2A, at 1; None for other primitives
        and for a beta with a schedule."""
        changes = self.primitive == labels.BLEND and self.has_schedule("beta")
        return None if changes else labels.dial_position(self.primitive, self.beta)

    @property
    def compresses(self) -> bool:
        """Whether messages to or from the server are compressed."""
        return self.compression != "none"

    @property
    def is_there(self) -> bool:
        """Whether there is a server."""
        return self.primitive != labels.NO_SERVER

    def calling(self) -> "Server":
        """The section with the number of devices that are called as K."""
        if not self.over_sample:
            return self
        return self.model_copy(update={"sampled": self.sampled + self.over_sample})

    def most_sampled(self, devices: int) -> int:
        """The largest number of sampled devices in a round; all devices where a schedule has no
        bound. Bernoulli sampling has none either: four standard deviations above its mean."""
        if self.selection == "bernoulli":
            p = self.sample_prob
            return min(devices, math.ceil(devices * p + 4 * math.sqrt(devices * p * (1 - p))))
        if self.sampled_schedule in (CONSTANT, "inverse_sqrt"):  # K never grows
            return self.sampled
        if self.sampled_end is None or ":" in self.sampled_schedule:
            return devices
        return max(self.sampled, self.sampled_end)

    def server_rounds(self, rounds: int) -> Sequence[int]:
        """The server rounds among the first `rounds`: offset, offset + H, ... With an adaptive H
        only the first is known before the run."""
        if not self.is_there:
            return range(0)
        if self.has_schedule("period"):
            return _scheduled_rounds(self, rounds)
        return range(self.offset, rounds, self.period)

    def known_rounds(self, rounds: int) -> Sequence[int]:
        """The server rounds that are known without a user's own schedule, which need not be
        importable where records are read."""
        own = self.is_there and ":" in self.period_schedule
        return range(self.offset, rounds)[:1] if own else self.server_rounds(rounds)

    # Schedules of beta, sampled and period

    def _schedule(self, field: str) -> str:
        return str(getattr(self, f"{field}_schedule"))

    def has_schedule(self, *fields: str) -> bool:
        """Whether any of these fields, of beta, sampled and period, has a schedule."""
        return any(self._schedule(field) != CONSTANT for field in fields)

    def first_schedule(self, *fields: str) -> str:
        """The first of these fields that has a schedule, as a setting; empty if none has."""
        found = (field for field in fields if self.has_schedule(field))
        return next((f"server.{field}_schedule = '{self._schedule(field)}'" for field in found), "")

    def is_adaptive(self, *fields: str) -> bool:
        """Whether any of these fields, by default all, has a schedule that depends on models."""
        used = set(fields or RANGES)
        if ":" not in self.primitive and not options_of("primitive", self.primitive).takes("beta"):
            used.discard("beta")
        return any(schedules.needs_estimates(field, self._schedule(field)) for field in used)

    def at(self, t: int, rounds: int) -> "Server":
        """The section with the beta and K of round t as constants."""
        return _server_in_round(self, t, rounds) if self.has_schedule("beta", "sampled") else self

    def at_position(self, context: Context) -> "Server":
        """The section with the beta and K of a position in the run as constants."""
        scheduled = [field for field in ("beta", "sampled") if self.has_schedule(field)]
        constants = {f"{field}_schedule": CONSTANT for field in scheduled}
        values = {field: self._value(field, context) for field in scheduled}
        return self.model_copy(update={**constants, **values})

    def next_period(self, context: Context) -> int:
        """H(t), the number of rounds from this server round to the next."""
        return int(self._value("period", context))

    def _value(self, field: str, context: Context) -> float:
        schedule = self._schedule(field)
        facts: dict[str, Any] = {
            "start": getattr(self, field),
            "end": getattr(self, f"{field}_end"),
        }
        if not context.knows("estimates") and schedules.needs_estimates(field, schedule):
            facts["estimates"] = ()  # before the run there are none
        options, context = self.options_for(f"{field} schedule"), context.with_facts(**facts)
        return schedules.scheduled_value(field, schedule, context, options)

    def period_in(self, t: int, rounds: int) -> int:
        """H in round t, as the last server round before it set it; without one, server.period."""
        planned = self.server_rounds(rounds)
        number = bisect_left(planned, t)
        if not number or not self.has_schedule("period") or self.is_adaptive("period"):
            return self.period
        if number < len(planned):
            return planned[number] - planned[number - 1]
        last = planned[-1]
        return self.next_period(_planned(last, rounds, number - 1, self.period_in(last, rounds)))


@lru_cache(maxsize=4096)
def _scheduled_rounds(server: Server, rounds: int) -> tuple[int, ...]:
    """The server rounds where H has a schedule: the one after t is t + H(t)."""
    found: list[int] = []
    t, period = server.offset, server.period
    while t < rounds:
        found.append(t)
        if server.is_adaptive("period"):
            break
        period = server.next_period(_planned(t, rounds, len(found) - 1, period))
        t += period
    return tuple(found)


@lru_cache(maxsize=4096)
def _server_in_round(server: Server, t: int, rounds: int) -> Server:
    number = bisect_left(server.server_rounds(rounds), t)
    return server.at_position(_planned(t, rounds, number, server.period_in(t, rounds)))


def _planned(t: int, rounds: int, number: int, period: int) -> Context:
    """The context of a schedule in a server round that is planned before the run."""
    facts = {"round": t, "rounds": rounds, "number": number, "period": period}
    return Context("the server rounds of all seeds are planned", **facts)
