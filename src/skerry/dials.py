"""How the server's numbers change over a run: beta, K and H, each from a start to an end.

A schedule is `(when) -> number`, with options as keyword-only parameters; `when` is a `When`. It is
asked in server rounds only. K and H are rounded, and no number leaves its range. Whatever K is, the
server samples the same devices first: samples stay nested.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from skerry import registry
from skerry.errors import SkerryError

CONSTANT = "constant"
NEED_END = ("cosine", "step", "switch")
"""They go from a start to an end."""
TAKE_END = (*NEED_END, "double")


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
    def offset(self) -> int: ...
    @property
    def switch_round(self) -> int | None: ...
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


@lru_cache(maxsize=4096)
def server_rounds(server: Dialled, rounds: int) -> tuple[int, ...]:
    """Where H changes: the next server round is t + H(t)."""
    found: list[int] = []
    t = server.offset
    while t < rounds:
        t_next = t + int(_value(server, "period", t, rounds, len(found)))
        found.append(t)
        t = t_next
    return tuple(found)


def at(server: S, t: int, rounds: int) -> S:
    """The server as it stands in round t: beta and K are numbers, not schedules."""
    moving = tuple(field for field in ("beta", "sampled") if moves(server, field))
    return _standing(server, t, rounds, moving) if moving else server


def moves(server: Dialled, field: str) -> bool:
    """Whether beta, sampled or period has a schedule."""
    return _schedule(server, field) != CONSTANT


@lru_cache(maxsize=4096)
def _standing(server: Any, t: int, rounds: int, moving: tuple[str, ...]) -> Any:
    number = bisect_left(server.server_rounds(rounds), t)
    still = {f"{field}_schedule": CONSTANT for field in moving}
    now = {field: _value(server, field, t, rounds, number) for field in moving}
    return server.model_copy(update={**still, **now})


def in_words(server: Dialled) -> str:
    """How beta changes: `cosine(1-0)`, `switch(1-0, switch_round 50)`."""
    schedule, words = server.beta_schedule, f"{server.beta:g}"
    if server.beta_end is not None and "beta_end" not in idle_ends(server):
        words += f"-{server.beta_end:g}"
    options = server.options_for("beta schedule") if ":" not in schedule else {}
    return f"{schedule}({', '.join([words, *(f'{o} {value}' for o, value in options.items())])})"


def idle_ends(server: Dialled) -> set[str]:
    """The ends that no schedule goes to. A user's own may."""
    ends = {f"{field}_end": _schedule(server, field) for field in RANGES}
    return {end for end, name in ends.items() if ":" not in name and name not in TAKE_END}


def faults(server: Dialled) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a schedule lacks: the fields it is about, and the line that tells it."""
    for field in RANGES:
        schedule, end = _schedule(server, field), getattr(server, f"{field}_end")
        fields = (f"server.{field}_schedule", f"server.{field}_end")
        if schedule in NEED_END and end is None:
            yield (
                fields,
                f'server.{field}_schedule = "{schedule}" goes from server.{field} to an end (got '
                f"none). Set server.{field}_end.",
            )
        if schedule == "switch" and server.switch_round is None:
            yield (
                (*fields, "server.switch_round"),
                f'server.{field}_schedule = "switch" changes in one round (got none). Set '
                "server.switch_round.",
            )


def _schedule(server: Dialled, field: str) -> str:
    return str(getattr(server, f"{field}_schedule"))


def _value(server: Dialled, field: str, t: int, rounds: int, number: int) -> float:
    """What server.beta, server.sampled or server.period is in round t, the server round of this
    number."""
    kind, schedule = f"{field} schedule", _schedule(server, field)
    when = When(t, rounds, number, getattr(server, field), getattr(server, f"{field}_end"))
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
