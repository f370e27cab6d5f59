"""Schedules: how the stepsize, and the server's beta, K and H, change over a run.

A stepsize schedule is `(t, rounds, training) -> factor` on the stepsize in round t of `rounds`.

A server schedule is `(when) -> number` and takes beta, K or H from a start to an end; `when` is a
`When`. It is called in server rounds only: for beta and K before the server samples, for H after.
K and H are rounded, and every number is clipped to its range. Samples are nested: a larger K adds
devices to those of a smaller one.

A server schedule with the attribute `asks_spread` depends on the models that the server received in
earlier rounds (`When.seen`), so its numbers are not known before the run. The built-in `adaptive`
schedules are in `theory/adaptive.py`.

Options of all schedules are keyword-only parameters.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from skerry.config.section import Fault
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.options import options_of

CONSTANT = "constant"
ADAPTIVE = "adaptive"
NEED_END = ("cosine", "step", "switch")
"""Schedules that need an end."""
TAKE_END = (*NEED_END, "double", ADAPTIVE)
TARGETS = ("sampled", "period")
"""Fields whose adaptive schedule needs a target: server.sampled_target, server.period_target."""
MEASURABLE = ("uniform", "bernoulli", "round_robin", "per_component", "one_each")
"""Selections whose samples give an estimate of the disagreement among all devices."""


# Stepsize schedules


def constant_stepsize(t: int, rounds: int, training: object) -> float:
    """No change: the factor is 1."""
    return 1.0


def step_stepsize(
    t: int, rounds: int, training: object, *, decay_every: int, decay_factor: float
) -> float:
    """A drop by `decay_factor` every `decay_every` rounds."""
    return float(decay_factor ** (t // decay_every))


def cosine_stepsize(t: int, rounds: int, training: object) -> float:
    """Half a cosine, from 1 at the start towards 0 at the end."""
    return _half_cosine(t, rounds)


def inverse_sqrt_stepsize(t: int, rounds: int, training: object) -> float:
    """One over the square root of t + 1."""
    return 1 / math.sqrt(t + 1)


def _half_cosine(t: int, rounds: int) -> float:
    return (1 + math.cos(math.pi * t / rounds)) / 2


# Server schedules


@dataclass(frozen=True)
class SpreadEstimate:
    """Estimates of the spread of all n models from the K sampled ones, in one server round before
    the server acts. All squared distances are per device."""

    sizes: tuple[int, ...]
    """Devices awake on each island."""
    counts: tuple[int, ...]
    """Sampled devices of each island."""
    spread: float
    """s2: S2A would move the average by about (1/K - 1/n) s2, squared."""
    intra: float
    """Disagreement inside islands."""
    inter: float
    """Disagreement between them."""
    bias: float
    """Squared distance by which S2A would move the average."""
    since: int
    """Rounds since the previous server round, or since the start."""
    by_island: bool
    """Whether every island is estimated separately, as under per_component and one_each."""


@dataclass(frozen=True)
class When:
    """The argument of a server schedule: the round, and the start and end of the number."""

    round: int
    """t, counted from 0."""
    rounds: int
    """T, the number of rounds."""
    number: int
    """Number of the server round, counted from 0."""
    start: float
    """The value at the start: server.beta, server.sampled or server.period."""
    end: float | None = None
    """The value at the end: server.beta_end, server.sampled_end or server.period_end."""
    period: int = 1
    """H, the current period."""
    mixing_rate: float = 0.0
    """p of a round; only for schedules with `asks_spread`."""
    seen: tuple[SpreadEstimate, ...] = ()
    """Estimates of earlier server rounds, the latest last, at most server.adapt_over of them; only
    for schedules with `asks_spread`."""

    @property
    def target(self) -> float:
        """The end, for schedules that need one."""
        assert self.end is not None  # validation refuses an experiment without one
        return self.end


def constant(when: When) -> float:
    """No change: the start."""
    return when.start


def cosine(when: When) -> float:
    """Half a cosine, from the start at t = 0 towards the end at t = T."""
    return when.target + (when.start - when.target) * _half_cosine(when.round, when.rounds)


def inverse_sqrt(when: When) -> float:
    """The start over the square root of the number of server rounds so far, this one included."""
    return when.start / math.sqrt(when.number + 1)


def switch(when: When, *, switch_round: int) -> float:
    """The start before `switch_round`, the end from then on."""
    return when.start if when.round < switch_round else when.target


def step(when: When, *, change_every: int) -> float:
    """Equal steps every `change_every` rounds; the last one reaches the end."""
    stairs = (when.rounds - 1) // change_every
    height = (when.target - when.start) / max(1, stairs)
    return when.start + height * (when.round // change_every)


def double(when: When, *, change_every: int) -> float:
    """Twice as much every `change_every` rounds, at most the end if there is one."""
    grown = when.start * 2.0 ** min(when.round // change_every, 100)
    return grown if when.end is None else min(grown, when.end)


# The server with its schedules


class ScheduledServer(Protocol):
    """The fields and methods of [server] that this module uses."""

    @property
    def beta(self) -> float: ...
    @property
    def beta_schedule(self) -> str: ...
    @property
    def beta_end(self) -> float | None: ...
    @property
    def sampled(self) -> int: ...
    @property
    def sampled_schedule(self) -> str: ...
    @property
    def sampled_end(self) -> int | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def switch_round(self) -> int | None: ...
    @property
    def primitive(self) -> str: ...
    @property
    def selection(self) -> str: ...
    @property
    def weights(self) -> str: ...
    def options_for(self, kind: str) -> dict[str, Any]: ...
    def server_rounds(self, rounds: int) -> Sequence[int]: ...
    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self: ...
    def __hash__(self) -> int: ...


S = TypeVar("S", bound=ScheduledServer)


class Range(NamedTuple):
    """Smallest and largest value of a scheduled number."""

    least: float
    most: float
    is_whole: bool


RANGES = {
    "beta": Range(0.0, 1.0, is_whole=False),
    "sampled": Range(1.0, math.inf, is_whole=True),
    "period": Range(1.0, math.inf, is_whole=True),
}


@dataclass(frozen=True)
class SchedulePosition:
    """The arguments of a schedule that change from round to round (see `When`)."""

    round: int
    rounds: int
    number: int
    period: int = 1
    mixing_rate: float = 0.0
    seen: tuple[SpreadEstimate, ...] = field(default=(), hash=False)


@lru_cache(maxsize=4096)
def scheduled_rounds(server: ScheduledServer, rounds: int) -> tuple[int, ...]:
    """The server rounds where H has a schedule: the one after t is t + H(t). With an adaptive H
    only the first is known before the run."""
    found: list[int] = []
    t = server.offset
    while t < rounds:
        found.append(t)
        if is_adaptive(server, "period"):
            break
        t += next_period(server, SchedulePosition(t, rounds, len(found) - 1))
    return tuple(found)


def next_period(server: ScheduledServer, position: SchedulePosition) -> int:
    """H(t): rounds from this server round to the next."""
    return int(_value(server, "period", position))


def server_in_round(server: S, t: int, rounds: int) -> S:
    """The server with the beta and K of round t as constants."""
    return _planned(server, t, rounds) if has_schedule(server, "beta", "sampled") else server


@lru_cache(maxsize=4096)
def _planned(server: Any, t: int, rounds: int) -> Any:
    number = bisect_left(server.server_rounds(rounds), t)
    return server_at(server, SchedulePosition(t, rounds, number))


def server_at(server: S, position: SchedulePosition) -> S:
    """The server with the beta and K of a position as constants."""
    scheduled = [field for field in ("beta", "sampled") if has_schedule(server, field)]
    constants = {f"{field}_schedule": CONSTANT for field in scheduled}
    values = {field: _value(server, field, position) for field in scheduled}
    return server.model_copy(update={**constants, **values})


def has_schedule(server: ScheduledServer, *fields: str) -> bool:
    """Whether any of beta, sampled and period has a schedule."""
    return any(_schedule(server, field) != CONSTANT for field in fields)


def first_schedule(server: ScheduledServer, *fields: str) -> str:
    """The first of these fields that has a schedule, as a setting; empty if none has."""
    found = (field for field in fields if has_schedule(server, field))
    return next((f"server.{field}_schedule = '{_schedule(server, field)}'" for field in found), "")


def most_sampled(server: ScheduledServer, devices: int) -> int:
    """The largest K of a run; all devices where a schedule has no bound."""
    schedule = server.sampled_schedule
    if schedule in (CONSTANT, "inverse_sqrt"):  # from the start, it only falls
        return server.sampled
    end = server.sampled_end
    return devices if end is None or ":" in schedule else max(server.sampled, end)


def is_adaptive(server: ScheduledServer, *fields: str) -> bool:
    """Whether any of these fields has a schedule that depends on the models."""
    used = [field for field in fields if field != "beta" or _takes_beta(server.primitive)]
    return any(_asks_spread(f"{field} schedule", _schedule(server, field)) for field in used)


def _takes_beta(primitive: str) -> bool:
    """Whether beta matters; a user's own primitive may read it from the section."""
    return ":" in primitive or options_of("primitive", primitive).takes("beta")


def _asks_spread(kind: str, schedule: str) -> bool:
    if registry.is_builtin(kind, schedule):
        return schedule == ADAPTIVE
    return bool(getattr(registry.resolve(kind, schedule), "asks_spread", False))


def describe_beta(server: ScheduledServer) -> str:
    """The schedule of beta in a label: `cosine(1-0)`, `switch(1-0, switch_round 50)`."""
    schedule, words = server.beta_schedule, f"{server.beta:g}"
    if server.beta_end is not None and "beta_end" not in unused_ends(server):
        words += f"-{server.beta_end:g}"
    options = server.options_for("beta schedule") if ":" not in schedule else {}
    values = [f"{option} {value:g}" for option, value in options.items() if value is not None]
    return f"{schedule}({', '.join([words, *values])})"


def unused_ends(server: ScheduledServer) -> set[str]:
    """The end fields that no schedule uses; a user's own schedule may use any."""
    ends = {f"{field}_end": _schedule(server, field) for field in RANGES}
    idle = {end for end, name in ends.items() if ":" not in name and name not in TAKE_END}
    return idle | ({"beta_end"} if server.beta_schedule == ADAPTIVE else set())


def schedule_faults(server: ScheduledServer) -> Iterator[Fault]:
    """The broken rules about schedules: missing ends and targets, selections that do not fit."""
    for name in RANGES:
        schedule, at_field = _schedule(server, name), f"server.{name}"
        fields = (f"{at_field}_schedule", f"{at_field}_end")
        if schedule in NEED_END and getattr(server, f"{name}_end") is None:
            yield (
                fields,
                f'{at_field}_schedule = "{schedule}" goes from {at_field} to an end (got none). '
                f"Set {at_field}_end.",
            )
        if schedule == "switch" and server.switch_round is None:
            yield (
                (*fields, "server.switch_round"),
                f'{at_field}_schedule = "switch" changes in one round (got none). Set '
                "server.switch_round.",
            )
        if is_adaptive(server, name):
            yield from _adaptive_faults(server, name)


def _adaptive_faults(server: ScheduledServer, name: str) -> Iterator[Fault]:
    field = f"server.{name}_schedule"
    schedule = _schedule(server, name)
    if schedule == ADAPTIVE and name in TARGETS and getattr(server, f"{name}_target") is None:
        yield (
            (field, f"server.{name}_target"),
            f'{field} = "adaptive" goes by a target (got none). Set server.{name}_target.',
        )
    if server.selection not in MEASURABLE or server.weights == "data":
        yield (
            (field, "server.selection", "server.weights"),
            f'{field} = "{schedule}" goes by the spread of the sampled models, which is known for '
            f"the selections {', '.join(MEASURABLE)}, and not for weights by data (got "
            f"'{server.selection}' with weights '{server.weights}'). Change one of them.",
        )
    if name == "sampled" and server.selection == "one_each":
        yield (
            (field, "server.selection"),
            f'{field} = "{schedule}" may give any number, but server.selection = "one_each" needs '
            'a multiple of the islands. Use "per_component".',
        )
    if name == "sampled" and server.selection == "bernoulli":
        yield (
            (field, "server.selection"),
            f'{field} = "{schedule}" sets how many are sampled, but server.selection = "bernoulli" '
            'leaves that to chance. Use "uniform".',
        )


def _schedule(server: ScheduledServer, field: str) -> str:
    return str(getattr(server, f"{field}_schedule"))


def _value(server: ScheduledServer, field: str, position: SchedulePosition) -> float:
    """The value of server.beta, server.sampled or server.period at a position."""
    kind, schedule = f"{field} schedule", _schedule(server, field)
    when = When(
        position.round,
        position.rounds,
        position.number,
        getattr(server, field),
        getattr(server, f"{field}_end"),
        position.period,
        position.mixing_rate,
        position.seen,
    )
    with registry.users_own(kind, schedule):
        found = registry.resolve(kind, schedule)(when, **server.options_for(kind))
    if not registry.is_builtin(kind, schedule):
        _check(field, schedule, when, found)
    least, most, is_whole = RANGES[field]
    kept = min(max(found, least), most)
    return math.floor(kept + 0.5) if is_whole else float(kept)


def _check(field: str, schedule: str, when: When, found: Any) -> None:
    """A user's own schedule must stay in the range of its field."""
    least, most, _ = RANGES[field]
    sound = isinstance(found, int | float) or hasattr(found, "__float__")
    if not sound or not least <= float(found) <= most or math.isinf(found):
        rule = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        raise SkerryError(
            f"{field} schedule '{schedule}' must give server.{field}, a number {rule} (got "
            f"{found!r} in round {when.round})."
        )
