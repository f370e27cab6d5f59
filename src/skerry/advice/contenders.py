"""What may be recommended, what each of it costs, and how far a budget reaches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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

LINK_ROUNDS = 20
"""Rounds over which changing links are counted."""


@dataclass(frozen=True)
class Contender:
    primitive: str
    beta: float | None
    """Of a blend."""
    sampled: int
    period: int
    selection: str = "uniform"
    preset: str = ""
    """The method or other system that it is, by the name of its preset; it may have a say in all
    the rest."""

    @property
    def label(self) -> str:
        return self.preset or labels.write_label(self.primitive, self.beta)

    @property
    def kind(self) -> str:
        """What it competes as: a primitive, whatever its beta, or a preset."""
        return self.preset or self.primitive

    def fields(self) -> dict[str, Any]:
        """As they are kept; a preset only where there is one."""
        found = asdict(self)
        return found if self.preset else {n: v for n, v in found.items() if n != "preset"}

    def label_among(self, others: "Sequence[Contender]") -> str:
        """The label, with selection, K and H where they differ among the others."""
        parts = [self.label]
        if len({other.selection for other in others}) > 1:
            parts.append(self.selection)
        if len({other.sampled for other in others}) > 1:
            parts.append(f"K={self.sampled}")
        if len({other.period for other in others}) > 1:
            parts.append(f"H={self.period}")
        return " ".join(parts)


class Entry(NamedTuple):
    """A contender at one stepsize: what takes part in the race."""

    contender: Contender
    stepsize: float

    def run(self, base: Experiment, seed: int) -> Experiment:
        """The experiment under this contender."""
        c = self.contender
        if c.preset:
            base = placed(base, c.preset, c.sampled, c.period, c.selection)
        server = {
            name: getattr(c, name)
            for name in ("primitive", "beta", "sampled", "period", "selection")
            if getattr(c, name) is not None
        }
        return base.model_copy(
            update={
                "seed": seed,
                "server": base.server.model_copy(update=server),
                "training": base.training.model_copy(update={"stepsize": self.stepsize}),
            }
        )


def placed(base: Experiment, preset: str, K: int, H: int, selection: str) -> Experiment:
    """The experiment as a preset would run it, from these settings of the server on."""
    server = base.server.model_copy(update={"sampled": K, "period": H, "selection": selection})
    return with_preset(base.model_copy(update={"server": server}), preset)


def contenders(
    primitives: Sequence[tuple[str, float | None]],
    servers: Sequence[tuple[int, int]],
    selections: Sequence[str] = ("uniform",),
    islands: int = 1,
) -> list[Contender]:
    """Every primitive, with its beta, under every rule of selection, at every K and H."""
    return [
        Contender(*primitive, *server, selection)
        for selection in selections
        for server in servers
        for primitive in primitives
        if can_sample(selection, server[0], islands)
    ]


def preset_contenders(
    presets: Sequence[str],
    servers: Sequence[tuple[int, int]],
    selections: Sequence[str],
    base: Experiment,
) -> list[Contender]:
    """Every preset, as it takes each of these settings: some say themselves who is sampled."""
    found: dict[Contender, None] = {}
    for preset in presets:
        for selection in selections:
            for K, H in servers:
                if not can_sample(selection, K, len(base.network.sizes)):
                    continue
                server = placed(base, preset, K, H, selection).server
                if server.primitive not in PRIMITIVES:
                    raise SkerryError(
                        f"'{preset}' has no server, and advice is about servers. Leave it out."
                    )
                found[
                    Contender(
                        server.primitive, None, server.sampled, server.period, server.selection,
                        preset,
                    )
                ] = None  # fmt: skip
    return list(found)


def can_sample(selection: str, K: int, islands: int) -> bool:
    """Only `one_each` is particular: it takes as many from every island."""
    return selection != "one_each" or K % islands == 0


def nearby(n: int, K: int, H: int) -> Iterator[tuple[str, int, int]]:
    """K and H doubled and halved, one at a time, each with its words."""
    for words, sampled, period in (
        ("K doubled", min(n, 2 * K), H),
        ("K halved", max(1, K // 2), H),
        ("H doubled", K, 2 * H),
        ("H halved", K, max(1, H // 2)),
    ):
        if (sampled, period) != (K, H):
            yield f"{words} to {sampled if words[0] == 'K' else period}", sampled, period


def why_equal(question: Question, experiment: Experiment, world: "World") -> str:
    """Why all primitives are the same run, where they are."""
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
        return "the server samples every device (K = n), so the sampled are all there are"
    return ""


@dataclass(frozen=True)
class Sends:
    """How much a preset sends."""

    links: float
    """Messages between devices in a round, on average."""
    up: int
    down: int
    more_down: int
    ends_periods: bool
    """Whether its server rounds end a period, where others begin one."""


@dataclass(frozen=True)
class Budget:
    """What runs cost, and what may be spent."""

    prices: Prices
    devices: int
    links: float
    """Links that are up in a round, on average."""
    offset: int
    rounds: int
    limit: float | None = None
    """The most that may be spent, in messages at their prices; None: what the rounds take."""
    presets: Mapping[str, Sends] = field(default_factory=dict)
    """Those whose messages are not those of their primitive."""

    def cost(self, contender: Contender, rounds: int) -> float:
        """All messages of so many rounds at their prices."""
        return float(self._costs(contender, np.array([rounds]))[0])

    def reach(self, contender: Contender) -> int:
        """The rounds that can be paid for, at most those that there are."""
        if self.limit is None:
            return self.rounds
        affordable = self._costs(contender, np.arange(1, self.rounds + 1)) <= self.limit
        return int(affordable.sum())

    def for_rounds(self, rounds: int) -> "Budget":
        """For a shorter run, with its part of the money."""
        if rounds == self.rounds:
            return self
        limit = None if self.limit is None else self.limit * rounds / self.rounds
        return replace(self, rounds=rounds, limit=limit)

    def _costs(self, contender: Contender, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        K, H, prices = contender.sampled, contender.period, self.prices
        sends = self.presets.get(contender.preset, Sends(2 * self.links, 1, 1, 0, False))
        offset = H - 1 if sends.ends_periods else self.offset
        met = server_rounds(np.maximum(0, rounds - offset), H)
        down = server_round_cost(contender.primitive, self.devices, K, replace(prices, uplink=0.0))
        each = prices.uplink * sends.up * K + sends.down * down
        each = each + prices.downlink * sends.more_down * K
        return np.asarray(each * met + prices.d2d * sends.links * rounds)


def budget_of(question: Question, experiment: Experiment, world: "World") -> Budget:
    """Prices, and how much may be spent. Prices alone mean: as much as the experiment's own
    setting costs at these prices."""
    server = experiment.server
    links = _links(experiment, world.fleet)
    sends = {name: _sends(name, experiment, world) for name in question.among.presets}
    budget = Budget(
        question.prices, world.n, links, server.offset, experiment.rounds, presets=sends
    )
    if question.messages is not None:
        limit = question.messages
    elif question.bytes is not None:
        limit = question.bytes / (BYTES_PER_PARAMETER * world.learner.parameters)
    elif question.priced:
        primitive = server.primitive if server.primitive in PRIMITIVES else "s2a"
        own = Contender(primitive, None, server.sampled, server.period)
        limit = budget.cost(own, experiment.rounds)
    else:
        return budget
    return replace(budget, limit=limit)


def _links(experiment: Experiment, fleet: "Fleet") -> float:
    """Links that are up in a round, on average."""
    drawn = 1 if fleet.fixed else min(LINK_ROUNDS, experiment.rounds)
    return sum(fleet.links(t) for t in range(drawn)) / drawn


def _sends(preset: str, experiment: Experiment, world: "World") -> Sends:
    server = experiment.server
    run = placed(experiment, preset, server.sampled, server.period, server.selection)
    row, steps = registry.resolve("method", run.method.name), run.network.gossip_steps
    links = _links(run, world.fleet_of(run)) if steps else 0.0
    return Sends(
        2 * row.mixed_arrays * steps * links,
        row.up,
        row.down,
        row.down_to_sampled,
        run.server.offset == run.server.period - 1 != server.offset,
    )
