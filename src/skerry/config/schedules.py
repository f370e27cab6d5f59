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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from skerry.errors import as_number
from skerry.plugins import registry

CONSTANT = "constant"
ADAPTIVE = "adaptive"
NEED_END = ("cosine", "step", "switch")
"""Schedules that need an end."""
TAKE_END = (*NEED_END, "double", ADAPTIVE)
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
    start: float = 0.0
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


# Values


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


def needs_spread(field: str, schedule: str) -> bool:
    """Whether a schedule of this field depends on the models (`asks_spread`)."""
    kind = f"{field} schedule"
    if registry.is_builtin(kind, schedule):
        return schedule == ADAPTIVE
    return bool(getattr(registry.resolve(kind, schedule), "asks_spread", False))


def scheduled_value(field: str, schedule: str, when: When, options: Mapping[str, Any]) -> float:
    """The value of beta, sampled or period by its schedule, rounded and clipped to its range."""
    kind, (least, most, is_whole) = f"{field} schedule", RANGES[field]
    with registry.users_own(kind, schedule):
        found = registry.resolve(kind, schedule)(when, **options)
    if not registry.is_builtin(kind, schedule):
        rule = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        rule = f"{field} schedule '{schedule}' must give server.{field}, a number {rule}"
        found = as_number(found, rule, least, most, f" in round {when.round}")
    clipped = min(max(found, least), most)
    return math.floor(clipped + 0.5) if is_whole else float(clipped)
