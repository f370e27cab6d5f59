"""Candidates for a recommendation, their costs, and how many rounds a budget pays for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skerry.advice.question import PRIMITIVES, Question
from skerry.config import labels
from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.errors import SkerryError
from skerry.measure.ledger import BYTES_PER_PARAMETER
from skerry.plugins import registry
from skerry.theory.communication import Prices, server_round_cost, server_rounds

if TYPE_CHECKING:
    from skerry.engine.world import World
    from skerry.network.fleet import Fleet

FACTORS = (0.1, 10**-0.5, 1.0, 10**0.5)  # stepsizes relative to that of the experiment
FEW_FACTORS = (10**-0.5, 1.0, 10**0.5)
LINK_ROUNDS = 20  # number of rounds over which changing links are averaged


@dataclass(frozen=True)
class Candidate:
    """A setting of the server that may be recommended."""

    primitive: str
    beta: float | None  # the beta of a blend, else None
    sampled: int
    period: int
    selection: str = "uniform"
    preset: str = ""  # name of its preset, if it is one; a preset may decide the other fields

    @property
    def label(self) -> str:
        return self.preset or labels.write_label(self.primitive, self.beta)

    @property
    def kind(self) -> str:
        """Preset of the candidate, or its primitive without beta."""
        return self.preset or self.primitive

    def fields(self) -> dict[str, Any]:
        """Fields of the candidate as in JSON; `preset` only if it has one."""
        return {n: v for n, v in asdict(self).items() if n != "preset" or self.preset}

    def label_among(self, others: "Sequence[Candidate]") -> str:
        """The label, with selection, K and H where they differ among the others."""
        parts = [self.label]
        for name, symbol in (("selection", ""), ("sampled", "K="), ("period", "H=")):
            if len({getattr(other, name) for other in others}) > 1:
                parts.append(f"{symbol}{getattr(self, name)}")
        return " ".join(parts)


class Entry(NamedTuple):
    """A candidate at one stepsize: a lane of the pilot."""

    candidate: Candidate
    stepsize: float

    def run(self, base: Experiment, seed: int) -> Experiment:
        """The experiment with this candidate's settings."""
        c = self.candidate
        if c.preset:
            base = preset_run(base, c.preset, c.sampled, c.period, c.selection)
        given = asdict(c).items()
        server = {name: value for name, value in given if name != "preset" and value is not None}
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


def candidates(
    primitives: Sequence[tuple[str, float | None]],
    servers: Sequence[tuple[int, int]],
    selections: Sequence[str] = ("uniform",),
    sizes: Sequence[int] = (1,),
) -> list[Candidate]:
    """Every (primitive, beta) under every selection rule, at every (K, H) of `servers`."""
    return [
        Candidate(*primitive, *server, selection)
        for selection in selections
        for server in servers
        for primitive in primitives
        if can_sample(selection, server[0], sizes)
    ]


def preset_candidates(
    presets: Sequence[str],
    servers: Sequence[tuple[int, int]],
    selections: Sequence[str],
    base: Experiment,
) -> list[Candidate]:
    """Every preset at each of these settings; presets that ignore a setting appear once."""
    found: dict[Candidate, None] = {}
    for preset, selection, (K, H) in product(presets, selections, servers):
        if not can_sample(selection, K, base.network.sizes):
            continue
        s = preset_run(base, preset, K, H, selection).server
        if s.primitive not in PRIMITIVES:
            raise SkerryError(
                f"'{preset}' has no server, and advice compares servers. Leave it out."
            )
        found[Candidate(s.primitive, None, s.sampled, s.period, s.selection, preset)] = None
    return list(found)


def can_sample(selection: str, K: int, sizes: Sequence[int]) -> bool:
    """Whether a rule can sample K devices; `one_each` needs equally many of every island."""
    fits = K % len(sizes) == 0 and len(sizes) * min(sizes) >= K
    return selection != "one_each" or fits


def nearby(n: int, K: int, H: int) -> Iterator[tuple[str, int, int]]:
    """(description, K, H) with K or H doubled or halved, one at a time."""
    for words, sampled, period in (
        ("K doubled", min(n, 2 * K), H),
        ("K halved", max(1, K // 2), H),
        ("H doubled", K, 2 * H),
        ("H halved", K, max(1, H // 2)),
    ):
        if (sampled, period) != (K, H):
            yield f"{words} to {sampled if words[0] == 'K' else period}", sampled, period


def why_equal(question: Question, experiment: Experiment, world: "World") -> str:
    """Why all primitives do the same in this experiment; empty if they differ."""
    server = experiment.server
    if question.among.presets:  # they differ in more than the server
        return ""
    if server.offset >= experiment.rounds:
        return (
            f"the first server round comes after {server.offset} rounds, and there are "
            f"{experiment.rounds}"
        )
    stays = not server.has_schedule("sampled")
    if server.sampled == world.n and stays and not question.chooses_server:
        return "the server samples every device (K = n)"
    return ""


@dataclass(frozen=True)
class Menu:
    """The entries that a pilot may run: every candidate at every stepsize."""

    candidates: tuple[Candidate, ...]
    stepsizes: tuple[float, ...]

    @property
    def entries(self) -> list[Entry]:
        return [Entry(c, stepsize) for c in self.candidates for stepsize in self.stepsizes]


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
    """Prices of messages, and the limit on what a run may cost."""

    prices: Prices
    devices: int
    links: float  # mean number of links that are up in a round
    offset: int
    rounds: int
    limit: float | None = None  # largest cost in messages at their prices; None: no limit
    presets: Mapping[str, Sends] = field(default_factory=dict)
    """Messages of presets that send other messages than their primitive."""

    def cost(self, candidate: Candidate, rounds: int) -> float:
        return float(self._costs(candidate, np.array([rounds]))[0])

    def reach(self, candidate: Candidate) -> int:
        """Number of rounds that the limit pays for, at most `rounds`."""
        if self.limit is None:
            return self.rounds
        affordable = self._costs(candidate, np.arange(1, self.rounds + 1)) <= self.limit
        return int(affordable.sum())

    def for_rounds(self, rounds: int) -> "Budget":
        """The budget of a shorter run, with the limit in proportion."""
        if rounds == self.rounds:
            return self
        limit = None if self.limit is None else self.limit * rounds / self.rounds
        return replace(self, rounds=rounds, limit=limit)

    def _costs(self, candidate: Candidate, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        K, H, prices = candidate.sampled, candidate.period, self.prices
        sends = self.presets.get(candidate.preset, Sends(2 * self.links, 1, 1, 0, False))
        offset = H - 1 if sends.ends_periods else self.offset
        met = server_rounds(np.maximum(0, rounds - offset), H)
        down = server_round_cost(candidate.primitive, self.devices, K, replace(prices, uplink=0.0))
        each = prices.uplink * sends.up * K + sends.down * down
        each = each + prices.downlink * sends.more_down * K
        return np.asarray(each * met + prices.d2d * sends.links * rounds)


def budget_of(question: Question, experiment: Experiment, world: "World") -> Budget:
    """The budget of a question; prices alone allow what the experiment's own setting costs."""
    server = experiment.server
    links, rounds = _links(experiment, world.fleet), experiment.rounds
    sends = {name: _sends(name, experiment, world) for name in question.among.presets}
    budget = Budget(question.prices, world.n, links, server.offset, rounds, presets=sends)
    if question.messages is not None:
        limit = question.messages
    elif question.bytes is not None:
        limit = question.bytes / (BYTES_PER_PARAMETER * world.shared_parameters)
    elif question.priced:
        primitive = server.primitive if server.primitive in PRIMITIVES else "s2a"
        own = Candidate(primitive, None, server.sampled, server.period)
        limit = budget.cost(own, rounds)
    else:
        return budget
    return replace(budget, limit=limit)


def _links(experiment: Experiment, fleet: "Fleet") -> float:
    rounds = 1 if fleet.fixed else min(LINK_ROUNDS, experiment.rounds)
    return sum(fleet.links(t) for t in range(rounds)) / rounds


def _sends(preset: str, experiment: Experiment, world: "World") -> Sends:
    server = experiment.server
    run = preset_run(experiment, preset, server.sampled, server.period, server.selection)
    row, steps = registry.resolve("method", run.method.name), run.network.gossip_steps
    links = _links(run, world.fleet_of(run)) if steps else 0.0
    return Sends(
        2 * row.mixed_arrays * steps * links,
        row.up,
        row.down,
        row.down_to_sampled,
        run.server.offset == run.server.period - 1 != server.offset,
    )


def menus(
    question: Question, experiment: Experiment, budget: Budget, sizes: Sequence[int]
) -> Iterator[Menu]:
    """Menus for a question, from the largest to the smallest."""
    among = question.among.primitives
    eta, server = experiment.training.stepsize, experiment.server
    own = (server.sampled, server.period)
    selections = question.among.selections_for(server, sizes)
    beside = [(K, H) for _, K, H in nearby(budget.devices, *own)]
    cross = [own, *beside] if question.chooses_server else [own]
    sampled, periods = (dict.fromkeys(values) for values in zip(*cross, strict=True))
    for primitives, servers, factors in (
        (among, [(K, H) for K in sampled for H in periods], FACTORS),
        (_one_blend(among), cross, FEW_FACTORS),
        (_one_blend(among), [own], FEW_FACTORS),
    ):
        possible = candidates(primitives, servers, selections, sizes)
        possible += preset_candidates(question.among.presets, servers, selections, experiment)
        affordable = list(filter(budget.reach, possible))
        if not affordable:
            raise SkerryError(
                f"the budget of {budget.limit:g} does not pay for a single server round. Raise it, "
                "or lower server.sampled."
            )
        stepsizes = question.stepsizes or tuple(eta * factor for factor in factors)
        yield Menu(tuple(affordable), stepsizes)


def _one_blend(among: Sequence[tuple[str, float | None]]) -> list[tuple[str, float | None]]:
    """Keep only the middle one of several blends."""
    blends = [one for one in among if one[0] == labels.BLEND]
    middle = blends[len(blends) // 2 : len(blends) // 2 + 1]
    return [one for one in among if one not in blends or one in middle]
