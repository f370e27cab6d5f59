"""Settings that may be recommended, what they cost, and the space of values that is searched."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from skerry.advice.question import PRIMITIVES, Question
from skerry.advice.target import CostUnit
from skerry.clock.units import write_joules, write_seconds
from skerry.config import labels
from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.engine.message_sizes import BYTES_PER_PARAMETER
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.theory.communication import Prices, server_round_cost, server_rounds

if TYPE_CHECKING:
    from skerry.advice.fleet_clock import FleetClock
    from skerry.engine.world import World
    from skerry.network.fleet import Fleet

Axis: TypeAlias = Literal["sampled", "period", "stepsize"]
AXES: tuple[Axis, ...] = ("sampled", "period", "stepsize")
PERIODS = (1, 2, 5, 10, 20)
STEP = 10**0.5  # ratio of neighbouring stepsizes
WIDENINGS = 4  # how often a range may be extended in one direction
LINK_ROUNDS = 20  # number of rounds over which changing links are averaged


@dataclass(frozen=True)
class Candidate:
    """A setting of the server, or none at all."""

    primitive: str
    beta: float | None  # the beta of a blend, else None
    sampled: int
    period: int
    selection: str = "uniform"
    preset: str = ""  # name of its preset, if it is one; a preset may decide the other fields

    @property
    def has_server(self) -> bool:
        return self.primitive != labels.NO_SERVER

    @property
    def name(self) -> str:
        """Name of the preset or primitive: `carry`, `blend(0.5)`, `no server`."""
        if not self.has_server:
            return "no server"
        return self.preset or labels.write_label(self.primitive, self.beta)

    @property
    def label(self) -> str:
        """The setting in words: `s2a, one_each, K = 8, H = 10`."""
        if not self.has_server:
            return self.name
        return f"{self.name}, {self.selection}, K = {self.sampled}, H = {self.period}"

    def fields(self) -> dict[str, Any]:
        """Fields of the setting as in JSON; null where there is no server."""
        found = {n: v for n, v in asdict(self).items() if n != "preset" or self.preset}
        if self.has_server:
            return found
        return {name: value if name == "primitive" else None for name, value in found.items()}


NO_SERVER = Candidate(labels.NO_SERVER, None, 0, 0, "")


class Entry(NamedTuple):
    """A setting of the server at one stepsize: a lane of the pilot."""

    candidate: Candidate
    stepsize: float

    @property
    def label(self) -> str:
        return f"{self.candidate.label}, stepsize {self.stepsize:.3g}"

    def fields(self) -> dict[str, Any]:
        return self.candidate.fields() | {"stepsize": self.stepsize}

    def run(self, base: Experiment, seed: int) -> Experiment:
        """The experiment with this entry's settings."""
        c = self.candidate
        if c.preset:
            base = preset_run(base, c.preset, c.sampled, c.period, c.selection)
        server = {name: value for name, value in c.fields().items() if value is not None}
        server.pop("preset", None)
        return base.model_copy(
            update={
                "seed": seed,
                "server": base.server.model_copy(update=server),
                "training": base.training.model_copy(update={"stepsize": self.stepsize}),
            }
        )


def preset_run(base: Experiment, preset: str, K: int, H: int, selection: str) -> Experiment:
    """The experiment as a preset runs it, given these settings of the server."""
    server = base.server.model_copy(update={"sampled": K, "period": H, "selection": selection})
    return with_preset(base.model_copy(update={"server": server}), preset)


def can_sample(selection: str, K: int, sizes: Sequence[int]) -> bool:
    """Whether a rule can sample K devices; `one_each` needs equally many of every island."""
    fits = K % len(sizes) == 0 and len(sizes) * min(sizes) >= K
    return sum(sizes) >= K and (selection != "one_each" or fits)


def nearby(n: int, K: int, H: int) -> Iterator[tuple[str, int, int]]:
    """(description, K, H) with K or H doubled or halved, one at a time."""
    for words, sampled, period in (
        ("K were doubled", min(n, 2 * K), H),
        ("K were halved", max(1, K // 2), H),
        ("H were doubled", K, 2 * H),
        ("H were halved", K, max(1, H // 2)),
    ):
        if (sampled, period) != (K, H):
            yield f"{words} to {sampled if words[0] == 'K' else period}", sampled, period


# What settings cost


@dataclass(frozen=True)
class Sends:
    """Messages that a preset sends."""

    links: float  # mean number of messages between devices in a round
    up: int  # models per uplink message
    down: int  # models per downlink message to those that the primitive sends to
    more_down: int  # further models to each sampled device
    ends_periods: bool  # whether its server rounds are the last of a period instead of the first


@dataclass(frozen=True)
class Budget:
    """Prices of messages or the fleet's clock, and the limit on what a run may cost."""

    prices: Prices
    devices: int
    links: float  # mean number of links that are up in a round
    offset: int
    rounds: int
    limit: float | None = None  # largest cost in its unit; None: no limit
    presets: Mapping[str, Sends] = field(default_factory=dict)
    """Messages of presets that send other messages than their primitive."""
    clock: "FleetClock | None" = None
    unit: CostUnit = "messages"  # messages at their prices, or seconds or joules by the clock

    def cost(self, candidate: Candidate) -> float:
        """Cost of a whole run in the unit of the budget."""
        if self.unit == "messages" or self.clock is None:
            return self.messages(candidate)
        return self.clock.cost(candidate, self.rounds, self.unit)

    def prepare(self, candidates: Iterable[Candidate]) -> None:
        """Compute the costs of many settings at once, where that is faster."""
        if self.unit != "messages" and self.clock is not None:
            self.clock.prepare(candidates)

    def messages(self, candidate: Candidate) -> float:
        """Messages of a whole run, at their prices."""
        K, H, prices = candidate.sampled, candidate.period, self.prices
        sends = self.presets.get(candidate.preset, Sends(2 * self.links, 1, 1, 0, False))
        links = prices.d2d * sends.links * self.rounds
        if not candidate.has_server:
            return links
        offset = H - 1 if sends.ends_periods else self.offset
        met = server_rounds(max(0, self.rounds - offset), H)
        down = server_round_cost(candidate.primitive, self.devices, K, replace(prices, uplink=0.0))
        each = prices.uplink * sends.up * K + sends.down * down
        each = each + prices.downlink * sends.more_down * K
        return float(each * met + links)

    def allows(self, candidate: Candidate, share: float = 1.0) -> bool:
        """Whether the limit, or a share of it, pays for a whole run."""
        return self.limit is None or self.cost(candidate) <= share * self.limit * (1 + 1e-9)

    def for_rounds(self, rounds: int) -> "Budget":
        """The budget of a shorter run, with the limit in proportion."""
        limit = None if self.limit is None else self.limit * rounds / self.rounds
        clock = None if self.clock is None else self.clock.for_rounds(rounds)
        return replace(self, rounds=rounds, limit=limit, clock=clock)


def budget_of(
    question: Question, experiment: Experiment, world: "World", clock: "FleetClock | None" = None
) -> Budget:
    """The budget of a question; raises SkerryError if it does not even pay for no server."""
    links, rounds = _links(experiment, world.fleet), experiment.rounds
    sends = {name: _sends(name, experiment, world) for name in question.among.presets}
    offset = experiment.server.offset
    budget = Budget(question.prices, world.n, links, offset, rounds, question.limit, sends)
    if question.bytes is not None:
        limit = question.bytes / (BYTES_PER_PARAMETER * world.shared_parameters)
        budget = replace(budget, limit=limit)
    if question.unit != "messages":
        most = question.seconds if question.unit == "seconds" else question.joules
        budget = replace(budget, limit=most, clock=clock, unit=question.unit)
        if most is not None and not budget.allows(NO_SERVER):
            least = write_cost(question.unit, budget.cost(NO_SERVER))
            raise SkerryError(
                f"the budget of {write_cost(question.unit, most)} does not pay for {rounds} "
                f"rounds without a server, which cost {least}. Raise it, or lower rounds."
            )
    budget = replace(budget, clock=clock)
    if budget.limit is not None and not budget.allows(NO_SERVER):
        raise SkerryError(
            f"the budget of {budget.limit:g} does not pay for the messages between devices, which "
            f"cost {budget.cost(NO_SERVER):g} in {rounds} rounds. Raise it, or lower rounds or the "
            "price of d2d."
        )
    return budget


def write_cost(unit: CostUnit, cost: float) -> str:
    """A cost in seconds or joules with its unit: `42 s`, `3.1 kJ`."""
    return write_seconds(cost) if unit == "seconds" else write_joules(cost)


def _links(experiment: Experiment, fleet: "Fleet") -> float:
    rounds = 1 if fleet.fixed else min(LINK_ROUNDS, experiment.rounds)
    steps = experiment.network.gossip_steps
    return steps * sum(fleet.links(t) for t in range(rounds)) / rounds


def _sends(preset: str, experiment: Experiment, world: "World") -> Sends:
    server = experiment.server
    run = preset_run(experiment, preset, server.sampled, server.period, server.selection)
    row = registry.resolve("method", run.method.name)
    return Sends(
        2 * row.mixed_arrays * _links(run, world.fleet_of(run))
        if run.network.gossip_steps
        else 0.0,
        row.up,
        row.down,
        row.down_to_sampled,
        run.server.offset == run.server.period - 1 != server.offset,
    )


# The space that is searched


@dataclass(frozen=True)
class Space:
    """The values that are combined: every primitive, K, H, selection rule and stepsize."""

    primitives: tuple[tuple[str, float | None], ...]
    presets: tuple[str, ...]
    selections: tuple[str, ...]
    values: Mapping[Axis, tuple[float, ...]]  # ascending
    open: frozenset[Axis]  # axes whose range may be extended
    base: Experiment
    budget: Budget
    sizes: tuple[int, ...]
    widened: Mapping[tuple[Axis, bool], int] = field(default_factory=dict)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All settings, affordable or not; those without a server come first."""
        found: dict[Entry, None] = {}
        candidates = [NO_SERVER]
        sampled, periods = self._whole("sampled"), self._whole("period")
        for rule, K, H in product(self.selections, sampled, periods):
            if can_sample(rule, K, self.sizes):
                # Where all devices are sampled, all primitives and rules do the same.
                every = sum(self.sizes) == K
                distinct = self.primitives[:1] if every else self.primitives
                if not every or rule == self.selections[0]:
                    candidates += [Candidate(*one, K, H, rule) for one in distinct]
                candidates += [self._preset(name, K, H, rule) for name in self.presets]
        self.budget.prepare(candidates)
        for candidate, stepsize in product(candidates, self.values["stepsize"]):
            found[Entry(candidate, stepsize)] = None
        return tuple(found)

    def _whole(self, axis: Axis) -> list[int]:
        return [int(value) for value in self.values[axis]]

    def _preset(self, name: str, K: int, H: int, rule: str) -> Candidate:
        s = preset_run(self.base, name, K, H, rule).server
        if s.primitive not in PRIMITIVES:
            raise SkerryError(f"'{name}' has no server; ask for 'none' instead.")
        return Candidate(s.primitive, None, s.sampled, s.period, s.selection, name)

    def at_end(self, entry: Entry) -> Iterator[tuple[Axis, bool]]:
        """(axis, whether it is the upper end) where an entry has the last value of a range."""
        for axis in AXES:
            if axis != "stepsize" and not entry.candidate.has_server:
                continue
            value = value_of(entry, axis)
            for upper in (False, True):
                if value == self.values[axis][-1 if upper else 0]:
                    yield axis, upper

    def extended(self, axis: Axis, upper: bool) -> "Space | None":
        """The space with one more value at an end of an axis; None where that is impossible."""
        values, times = self.values[axis], self.widened.get((axis, upper), 0)
        if axis not in self.open or times >= WIDENINGS:
            return None
        new = _next_value(axis, values[-1 if upper else 0], upper)
        most = {"sampled": sum(self.sizes), "period": self.base.rounds - 1}.get(axis, np.inf)
        new = min(new, most)
        if new in values or new <= 0:
            return None
        more = tuple(sorted({*values, new}))
        widened = {**self.widened, (axis, upper): times + 1}
        return replace(self, values={**self.values, axis: more}, widened=widened)

    def describe(self) -> dict[str, list[Any]]:
        """The values of every axis, as in JSON; rules only where they can sample one of the K."""
        names = [NO_SERVER.primitive, *(labels.write_label(*one) for one in self.primitives)]
        used = {entry.candidate.selection for entry in self.entries}
        return {
            "primitive": [*names, *self.presets],
            "sampled": self._whole("sampled"),
            "period": self._whole("period"),
            "selection": [name for name in self.selections if name in used],
            "stepsize": list(self.values["stepsize"]),
        }


def value_of(entry: Entry, axis: Axis) -> float:
    return entry.stepsize if axis == "stepsize" else float(getattr(entry.candidate, axis))


def _next_value(axis: Axis, end: float, upper: bool) -> float:
    if axis == "stepsize":
        return end * STEP if upper else end / STEP
    return 2 * end if upper else end // 2


def space_of(
    question: Question, experiment: Experiment, budget: Budget, sizes: Sequence[int]
) -> Space:
    """The space of a question: the values asked for, or ranges around the experiment's own."""
    server, n, islands = experiment.server, sum(sizes), len(sizes)
    fixed = bool(server.first_schedule("sampled", "period"))
    asked: dict[Axis, Sequence[float] | None] = {
        "sampled": (server.sampled,) if fixed else question.sampled,
        "period": (server.period,) if fixed else question.periods,
        "stepsize": question.stepsizes,
    }
    shares = [max(2, islands // 2), *(islands * 2**j for j in range(20)), n]
    eta = experiment.training.stepsize
    usual: dict[Axis, Iterable[float]] = {
        "sampled": (server.sampled, *(K for K in shares if n >= K)),
        "period": (server.period, *(H for H in PERIODS if experiment.rounds > H)),
        "stepsize": (eta / STEP, eta, eta * STEP),
    }
    values = {axis: tuple(sorted(set(asked[axis] or usual[axis]))) for axis in AXES}
    if too_many := [K for K in values["sampled"] if n < K]:
        raise SkerryError(
            f"K must be at most the number of devices (got {too_many[0]:g} of {n}). Lower it."
        )
    if too_rare := [H for H in question.periods or () if experiment.rounds <= H]:
        raise SkerryError(
            f"H must be below the number of rounds (got {too_rare[0]} of {experiment.rounds}). "
            "Lower it, or raise rounds."
        )
    space = Space(
        tuple(one for one in question.among.primitives if one[0] != labels.NO_SERVER),
        question.among.presets,
        question.among.selections_for(server, sizes),
        values,
        frozenset(axis for axis in AXES if asked[axis] is None),
        experiment,
        budget,
        tuple(sizes),
    )
    # Server rounds that are rarer than usual, where the budget pays for no others.
    while not any(budget.allows(e.candidate) for e in space.entries if e.candidate.has_server):
        wider = space.extended("period", upper=True)
        if wider is None:
            break
        space = wider
    return space


def features(entries: Sequence[Entry], space: Space) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Features of settings for the surface: quadratic in beta, log K, log H and log stepsize, with
    interactions; settings without a server and presets have their own."""
    server = np.array([entry.candidate.has_server for entry in entries], dtype=float)
    dial = (labels.dial_position(e.candidate.primitive, e.candidate.beta) for e in entries)
    beta = 2 * np.array([0.0 if place is None else place for place in dial]) - 1
    K, H, eta = (_on_unit_scale(entries, axis, space) for axis in AXES)
    common = [
        np.ones(len(entries)),
        1 - server,
        eta,
        eta**2,
        (1 - server) * eta,
        (1 - server) * eta**2,
    ]
    served = [
        beta,
        K,
        H,
        beta**2,
        K**2,
        H**2,
        beta * K,
        beta * H,
        K * H,
        beta * eta,
        K * eta,
        H * eta,
    ]
    served += [beta * eta**2, H * eta**2, beta * K * H, beta**2 * K, beta**2 * H]
    for rule in space.selections[1:]:
        has = np.array([entry.candidate.selection == rule for entry in entries], dtype=float)
        served += [has, has * beta, has * K, has * H, has * eta]
    for name in space.presets:
        has = np.array([entry.candidate.preset == name for entry in entries], dtype=float)
        served += [has, has * K, has * H, has * eta]
    return np.stack([*common, *(server * column for column in served)], axis=1)


def _on_unit_scale(
    entries: Sequence[Entry], axis: Axis, space: Space
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The logarithms of an axis, from -1 to 1 over its range."""
    low, high = np.log(space.values[axis][0]), np.log(space.values[axis][-1])
    values = np.log([max(value_of(entry, axis), 1e-12) for entry in entries])
    return np.asarray((2 * values - low - high) / max(high - low, 1e-9))
