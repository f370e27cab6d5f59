"""How the server's numbers change over a run: beta, K and H, each from a start to an end.

A schedule is `(when) -> number`, with options as keyword-only parameters; `when` is a `When`. It is
asked in server rounds only: for beta and K before the server samples, for H after. K and H are
rounded, and no number leaves its range. Whatever K is, the server samples the same devices first:
samples stay nested.

A schedule with the attribute `asks_spread` goes by what the server saw in the models of earlier
rounds (`When.seen`), so its numbers are not known before the run. That of the built-in `adaptive`
is in `theory/adaptive.py`.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from skerry.config import labels
from skerry.config.section import Fault
from skerry.errors import SkerryError
from skerry.plugins import registry

CONSTANT = "constant"
ADAPTIVE = "adaptive"
NEED_END = ("cosine", "step", "switch")
"""They go from a start to an end."""
TAKE_END = (*NEED_END, "double", ADAPTIVE)
NO_BETA = ("s2s", "s2a", labels.NO_SERVER)
"""Primitives that no beta plays a part in."""
TARGETS = ("sampled", "period")
"""Adaptive, they go by a target: server.sampled_target, server.period_target."""
MEASURABLE = ("uniform", "bernoulli", "round_robin", "per_component", "one_each")
"""Selections whose samples tell how far all devices are apart."""


@dataclass(frozen=True)
class Seen:
    """What the K sampled models tell of all n, in one server round before the server acts. All
    energies are per device, and estimates."""

    sizes: tuple[int, ...]
    """Devices awake on each island."""
    counts: tuple[int, ...]
    """Those of them that are sampled."""
    spread: float
    """s2: S2A would move the average by about (1/K - 1/n) s2."""
    intra: float
    """Disagreement inside islands."""
    inter: float
    """Disagreement between them."""
    bias: float
    """By how much S2A would move the average, squared."""
    since: int
    """Rounds since the server round before, or since the start."""
    by_island: bool
    """Whether every island is estimated by itself, as under per_component and one_each."""


@dataclass(frozen=True)
class When:
    """What a schedule may know."""

    round: int
    """t, counted from 0."""
    rounds: int
    """T: how many there are."""
    number: int
    """Of the server round, counted from 0."""
    start: float
    """The field itself: server.beta, server.sampled, server.period."""
    end: float | None = None
    """Where it ends: server.beta_end, ..."""
    period: int = 1
    """H, as it is so far."""
    mixing_rate: float = 0.0
    """p of a round; known only to schedules with `asks_spread`."""
    seen: tuple[Seen, ...] = ()
    """What the server saw so far, the latest last, at most server.adapt_over of it; known only to
    schedules with `asks_spread`."""

    @property
    def target(self) -> float:
        """The end, for schedules that cannot do without."""
        assert self.end is not None  # an experiment without one is not accepted
        return self.end


def constant(when: When) -> float:
    return when.start


def cosine(when: When) -> float:
    """Half a cosine, from the start at t = 0 towards the end at t = T."""
    turned = (1 + math.cos(math.pi * when.round / when.rounds)) / 2
    return when.target + (when.start - when.target) * turned


def inverse_sqrt(when: When) -> float:
    """The start over the square root of how many server rounds there were, this one included."""
    return when.start / math.sqrt(when.number + 1)


def switch(when: When, *, switch_round: int) -> float:
    """The start, and from `switch_round` on the end."""
    return when.start if when.round < switch_round else when.target


def step(when: When, *, change_every: int) -> float:
    """Stairs of `change_every` rounds, all of one height; the last one is the end."""
    stairs = (when.rounds - 1) // change_every
    height = (when.target - when.start) / max(1, stairs)
    return when.start + height * (when.round // change_every)


def double(when: When, *, change_every: int) -> float:
    """Twice as much every `change_every` rounds, up to the end where there is one."""
    grown = when.start * 2.0 ** min(when.round // change_every, 100)
    return grown if when.end is None else min(grown, when.end)


# The server's own numbers


class Dialled(Protocol):
    """The fields of [server] that are read here."""

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


S = TypeVar("S", bound=Dialled)


class Range(NamedTuple):
    least: float
    most: float
    is_whole: bool


RANGES = {
    "beta": Range(0.0, 1.0, is_whole=False),
    "sampled": Range(1.0, math.inf, is_whole=True),
    "period": Range(1.0, math.inf, is_whole=True),
}


@dataclass(frozen=True)
class Position:
    """Where a run stands: what schedules go by, besides the server's own fields."""

    round: int
    rounds: int
    number: int
    period: int = 1
    mixing_rate: float = 0.0
    seen: tuple[Seen, ...] = field(default=(), hash=False)


@lru_cache(maxsize=4096)
def server_rounds(server: Dialled, rounds: int) -> tuple[int, ...]:
    """Where H changes: the next server round is t + H(t). Of an H that follows the models only the
    first is known beforehand."""
    found: list[int] = []
    t = server.offset
    while t < rounds:
        found.append(t)
        if adapts(server, "period"):
            break
        t += next_period(server, Position(t, rounds, len(found) - 1))
    return tuple(found)


def next_period(server: Dialled, position: Position) -> int:
    """H(t): rounds from this server round to the next."""
    return int(_value(server, "period", position))


def at(server: S, t: int, rounds: int) -> S:
    """The server as it stands in round t: beta and K are numbers, not schedules."""
    return _planned(server, t, rounds) if moves(server, "beta", "sampled") else server


@lru_cache(maxsize=4096)
def _planned(server: Any, t: int, rounds: int) -> Any:
    number = bisect_left(server.server_rounds(rounds), t)
    return standing(server, Position(t, rounds, number))


def standing(server: S, position: Position) -> S:
    """The server as it stands here."""
    moving = [field for field in ("beta", "sampled") if moves(server, field)]
    still = {f"{field}_schedule": CONSTANT for field in moving}
    return server.model_copy(
        update={**still, **{field: _value(server, field, position) for field in moving}}
    )


def moves(server: Dialled, *fields: str) -> bool:
    """Whether any of beta, sampled and period has a schedule."""
    return any(_schedule(server, field) != CONSTANT for field in fields)


def moving(server: Dialled, *fields: str) -> str:
    """The first of them that has a schedule, as a user sets it; empty where all stay."""
    found = (field for field in fields if moves(server, field))
    return next((f"server.{field}_schedule = '{_schedule(server, field)}'" for field in found), "")


def most_sampled(server: Dialled, devices: int) -> int:
    """No K of a run is larger, of so many devices: all of them where a schedule has no bound."""
    schedule = server.sampled_schedule
    if schedule in (CONSTANT, "inverse_sqrt"):  # from the start, it only falls
        return server.sampled
    end = server.sampled_end
    return devices if end is None or ":" in schedule else max(server.sampled, end)


def adapts(server: Dialled, *fields: str) -> bool:
    """Whether any of them goes by what the server sees in the models."""
    told = [field for field in fields if field != "beta" or server.primitive not in NO_BETA]
    return any(_asks_spread(f"{field} schedule", _schedule(server, field)) for field in told)


def _asks_spread(kind: str, schedule: str) -> bool:
    if registry.is_builtin(kind, schedule):
        return schedule == ADAPTIVE
    return bool(getattr(registry.resolve(kind, schedule), "asks_spread", False))


def in_words(server: Dialled) -> str:
    """How beta changes: `cosine(1-0)`, `switch(1-0, switch_round 50)`."""
    schedule, words = server.beta_schedule, f"{server.beta:g}"
    if server.beta_end is not None and "beta_end" not in idle_ends(server):
        words += f"-{server.beta_end:g}"
    options = server.options_for("beta schedule") if ":" not in schedule else {}
    told = [f"{option} {value:g}" for option, value in options.items() if value is not None]
    return f"{schedule}({', '.join([words, *told])})"


def idle_ends(server: Dialled) -> set[str]:
    """The ends that no schedule goes to. A user's own may."""
    ends = {f"{field}_end": _schedule(server, field) for field in RANGES}
    idle = {end for end, name in ends.items() if ":" not in name and name not in TAKE_END}
    return idle | ({"beta_end"} if server.beta_schedule == ADAPTIVE else set())


def faults(server: Dialled) -> Iterator[Fault]:
    """What a schedule lacks: the fields it is about, and the line that tells it."""
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
        if adapts(server, name):
            yield from _faults_of_adaptive(server, name)


def _faults_of_adaptive(server: Dialled, name: str) -> Iterator[Fault]:
    asked = f"server.{name}_schedule"
    schedule = _schedule(server, name)
    if schedule == ADAPTIVE and name in TARGETS and getattr(server, f"{name}_target") is None:
        yield (
            (asked, f"server.{name}_target"),
            f'{asked} = "adaptive" goes by a target (got none). Set server.{name}_target.',
        )
    if server.selection not in MEASURABLE or server.weights == "data":
        yield (
            (asked, "server.selection", "server.weights"),
            f'{asked} = "{schedule}" goes by the spread of the sampled models, which is known for '
            f"the selections {', '.join(MEASURABLE)}, and not for weights by data (got "
            f"'{server.selection}' with weights '{server.weights}'). Change one of them.",
        )
    if name == "sampled" and server.selection == "one_each":
        yield (
            (asked, "server.selection"),
            f'{asked} = "{schedule}" may give any number, but server.selection = "one_each" needs '
            'a multiple of the islands. Use "per_component".',
        )
    if name == "sampled" and server.selection == "bernoulli":
        yield (
            (asked, "server.selection"),
            f'{asked} = "{schedule}" sets how many are sampled, but server.selection = "bernoulli" '
            'leaves that to chance. Use "uniform".',
        )


def _schedule(server: Dialled, field: str) -> str:
    return str(getattr(server, f"{field}_schedule"))


def _value(server: Dialled, field: str, position: Position) -> float:
    """What server.beta, server.sampled or server.period is here."""
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
