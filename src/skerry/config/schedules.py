"""Schedules: how the stepsize, and the server's beta, K and H, change over a run.

A stepsize schedule is `(context) -> factor` on the stepsize in round `context.round`.

A server schedule is `(context) -> number` and takes beta, K or H from `context.start` to
`context.end`. It is called in server rounds only: for beta and K before the server samples, for H
after. K and H are rounded, and every number is clipped to its range. Samples are nested: a larger K
adds devices to those of a smaller one.

A server schedule with the attribute `needs_estimates` depends on the models that the server
received in earlier rounds (`context.estimates`), so its numbers are not known before the run. The
built-in `adaptive` schedules are in `theory/adaptive.py`.

Options of all schedules are keyword-only parameters.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from skerry.errors import SkerryError, as_number, short_repr
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import bind

CONSTANT = "constant"
ADAPTIVE = "adaptive"
NEED_END = ("cosine", "step", "switch")
"""Schedules that need an end."""
TAKE_END = (*NEED_END, "double", ADAPTIVE)
MEASURABLE = ("uniform", "bernoulli", "round_robin", "per_component", "one_each")
"""Selections whose samples give an estimate of the disagreement among all devices."""


# Stepsize schedules


def constant_stepsize() -> float:
    """No change: the factor is 1."""
    return 1.0


def step_stepsize(context: Context, *, decay_every: int, decay_factor: float) -> float:
    """A drop by `decay_factor` every `decay_every` rounds."""
    return float(decay_factor ** (context.round // decay_every))


def cosine_stepsize(context: Context) -> float:
    """Half a cosine, from 1 at the start towards 0 at the end."""
    return _half_cosine(context.round, context.rounds)


def inverse_sqrt_stepsize(context: Context) -> float:
    """One over the square root of t + 1."""
    return 1 / math.sqrt(context.round + 1)


def _half_cosine(t: int, rounds: int) -> float:
    return (1 + math.cos(math.pi * t / rounds)) / 2


# Server schedules


def constant(context: Context) -> float:
    """No change: the start."""
    return context.start


def cosine(context: Context) -> float:
    """Half a cosine, from the start at t = 0 towards the end at t = T."""
    left = _half_cosine(context.round, context.rounds)
    return context.target + (context.start - context.target) * left


def inverse_sqrt(context: Context) -> float:
    """The start over the square root of the number of server rounds so far, this one included."""
    return context.start / math.sqrt(context.number + 1)


def switch(context: Context, *, switch_round: int) -> float:
    """The start before `switch_round`, the end from then on."""
    return context.start if context.round < switch_round else context.target


def step(context: Context, *, change_every: int) -> float:
    """Equal steps every `change_every` rounds; the last one reaches the end."""
    stairs = (context.rounds - 1) // change_every
    height = (context.target - context.start) / max(1, stairs)
    return context.start + height * (context.round // change_every)


def double(context: Context, *, change_every: int) -> float:
    """Twice as much every `change_every` rounds, at most the end if there is one."""
    grown = context.start * 2.0 ** min(context.round // change_every, 100)
    return grown if context.end is None else min(grown, context.end)


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


def needs_estimates(field: str, schedule: str) -> bool:
    """Whether a schedule of this field depends on the models (`needs_estimates`)."""
    kind = f"{field} schedule"
    if registry.is_builtin(kind, schedule):
        return schedule == ADAPTIVE
    return bool(getattr(registry.resolve(kind, schedule), "needs_estimates", False))


def scheduled_value(
    field: str, schedule: str, context: Context, options: Mapping[str, Any]
) -> float:
    """The value of beta, sampled or period by its schedule, rounded and clipped to its range."""
    kind, (least, most, is_whole) = f"{field} schedule", RANGES[field]
    call = bind(kind, registry.resolve(kind, schedule), options)
    with registry.users_own(kind, schedule):
        found = call(context=context)
    if not registry.is_builtin(kind, schedule):
        rule = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        rule = f"{kind} '{schedule}' must give server.{field}, a number {rule}"
        found = as_number(found, rule, least, most, f" in round {context.round}")
        with registry.users_own(kind, schedule):
            again = call(context=context)
        if again != found:
            raise SkerryError(
                f"{kind} '{schedule}' gives different results for the same round (got {found:g} "
                f"and {short_repr(again)} in round {context.round}): it must keep nothing from "
                "earlier calls. Use context.random() for draws."
            )
    clipped = min(max(found, least), most)
    return math.floor(clipped + 0.5) if is_whole else float(clipped)
