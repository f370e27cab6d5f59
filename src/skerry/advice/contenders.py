"""What may be recommended, and what each of it costs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skerry import labels
from skerry.experiment import Experiment
from skerry.theory.communication import Prices, server_round_cost, server_rounds


@dataclass(frozen=True)
class Contender:
    primitive: str
    beta: float | None
    """The share that a blend moves."""
    sampled: int
    period: int

    @property
    def label(self) -> str:
        return labels.write(self.primitive, self.beta)

    def told(self, among: "Sequence[Contender]") -> str:
        """The label, with K and H where they differ among the others."""
        parts = [self.label]
        if len({other.sampled for other in among}) > 1:
            parts.append(f"K={self.sampled}")
        if len({other.period for other in among}) > 1:
            parts.append(f"H={self.period}")
        return " ".join(parts)


class Lane(NamedTuple):
    """A contender at one stepsize."""

    contender: Contender
    stepsize: float

    def run(self, base: Experiment, seed: int) -> Experiment:
        """The experiment under this contender."""
        c = self.contender
        server = {"primitive": c.primitive, "sampled": c.sampled, "period": c.period}
        if c.beta is not None:
            server["beta"] = c.beta
        return base.model_copy(
            update={
                "seed": seed,
                "server": base.server.model_copy(update=server),
                "training": base.training.model_copy(update={"stepsize": self.stepsize}),
            }
        )


def contenders(
    kinds: Sequence[tuple[str, float | None]], servers: Sequence[tuple[int, int]]
) -> list[Contender]:
    """Every primitive with every K and H."""
    return [Contender(*kind, *server) for server in servers for kind in kinds]


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


@dataclass(frozen=True)
class Purse:
    """What a run costs and how far a budget reaches."""

    prices: Prices
    devices: int
    links: float
    """Links that are up in a round, on average."""
    offset: int
    rounds: int
    limit: float | None = None
    """The most that may be spent; None: as much as the rounds take."""

    def cost(self, contender: Contender, rounds: int) -> float:
        """All messages of so many rounds at their prices."""
        return float(self._costs(contender, np.array([rounds]))[0])

    def reach(self, contender: Contender) -> int:
        """The rounds that can be paid for, at most those that there are."""
        if self.limit is None:
            return self.rounds
        affordable = self._costs(contender, np.arange(1, self.rounds + 1)) <= self.limit
        return int(affordable.sum())

    def within(self, rounds: int) -> "Purse":
        """For a shorter run, with its share of the money."""
        if rounds == self.rounds:
            return self
        limit = None if self.limit is None else self.limit * rounds / self.rounds
        return replace(self, rounds=rounds, limit=limit)

    def _costs(self, contender: Contender, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
        visits = server_rounds(np.maximum(0, rounds - self.offset), contender.period)
        each = server_round_cost(contender.primitive, self.devices, contender.sampled, self.prices)
        return np.asarray(each * visits + self.prices.d2d * 2 * self.links * rounds)


def stride(window: int, looks: int, periods: Iterable[int]) -> int:
    """Rounds between evaluations: at least so many looks in the window, and never in step with the
    server, whose visits show in some rounds of a period and not in others. Common to 2 and 5 it
    has nothing either, so that runs with the usual periods can be lanes of one stack."""
    apart = math.lcm(10, *periods)
    return next(s for s in range(max(1, window // looks), 0, -1) if math.gcd(s, apart) == 1)
