"""What may be recommended, what each of it costs, and how far a budget reaches."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skerry import labels
from skerry.advice.question import PRIMITIVES, Question
from skerry.experiment import Experiment
from skerry.measure.ledger import BYTES_PER_PARAMETER
from skerry.theory.communication import Prices, server_round_cost, server_rounds

if TYPE_CHECKING:
    from skerry.engine.world import World

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

    @property
    def label(self) -> str:
        return labels.write(self.primitive, self.beta)

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
        server = {name: value for name, value in asdict(c).items() if value is not None}
        return base.model_copy(
            update={
                "seed": seed,
                "server": base.server.model_copy(update=server),
                "training": base.training.model_copy(update={"stepsize": self.stepsize}),
            }
        )


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
    if server.offset >= experiment.rounds:
        return (
            f"the first server round comes after {server.offset} rounds, and there are "
            f"{experiment.rounds}"
        )
    if server.sampled == world.n and not question.chooses_server:
        return "the server samples every device (K = n), so the sampled are all there are"
    return ""


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
        met = server_rounds(np.maximum(0, rounds - self.offset), contender.period)
        each = server_round_cost(contender.primitive, self.devices, contender.sampled, self.prices)
        return np.asarray(each * met + self.prices.d2d * 2 * self.links * rounds)


def budget_of(question: Question, experiment: Experiment, world: "World") -> Budget:
    """Prices, and how much may be spent. Prices alone mean: as much as the experiment's own
    setting costs at these prices."""
    server, fleet = experiment.server, world.fleet
    drawn = 1 if fleet.fixed else min(LINK_ROUNDS, experiment.rounds)
    links = sum(fleet.links(t) for t in range(drawn)) / drawn
    budget = Budget(question.prices, world.n, links, server.offset, experiment.rounds)
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
