"""The schedule of server rounds: when they are, their beta and K, and what adaptive ones estimate.

Where a schedule adapts to the models, every lane has a schedule of its own. Its memory is a row of
numbers in the state, so that a resumed run continues as it would have.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.experiment import Experiment, Server
from skerry.engine.participation.selection import Ints
from skerry.engine.server import Memory
from skerry.engine.world import World
from skerry.plugins.context import Context, SpreadEstimate

Array = NDArray[np.float64]
LOG = "log"
"""The name of the memory of adaptive schedules, a row of numbers for each lane."""
REFERENCE = "reference"
"""The memory of the model delivered last, for selections that need distances from it."""
BY_ISLAND = ("per_component", "one_each")
"""Selections under which every island is estimated by itself."""


@dataclass(frozen=True)
class ScheduledRound:
    """A server round that is due."""

    server: Server
    """The server with the beta and K of this round."""
    number: int
    """The number of the server round, counted from 0."""
    period: int
    """H before this server round."""


@dataclass(frozen=True)
class ScheduleMemory:
    """The memory of an adaptive schedule, for one lane."""

    due: int
    """The round of the next server round."""
    last: int
    """Rounds done after the last server round."""
    number: int
    period: int
    seen: tuple[SpreadEstimate, ...] = ()

    def to_row(self) -> list[float]:
        """The memory as a row of numbers."""
        row = [self.due, self.last, self.number, self.period, len(self.seen)]
        for one in self.seen:
            sizes, counts, *rest = astuple(one)
            row += [len(sizes), *sizes, *counts, *rest]
        return [*map(float, row)]

    @classmethod
    def from_row(cls, row: Sequence[float]) -> "ScheduleMemory":
        """The memory that `to_row` wrote."""
        numbers, found = iter(row), []
        due, last, number, period, count = map(int, islice(numbers, 5))
        for _ in range(count):
            islands = int(next(numbers))
            sizes, counts = (tuple(map(int, islice(numbers, islands))) for _ in range(2))
            spread, intra, inter, bias, since, by_island = islice(numbers, 6)
            estimates = (spread, intra, inter, bias, int(since), bool(by_island))
            found.append(SpreadEstimate(sizes, counts, *estimates))
        return cls(due, last, number, period, tuple(found))


class PastServerRounds(NamedTuple):
    """The server rounds of a lane before a round."""

    number: int
    last: int
    """The round after the last one; 0 if there was none."""
    period: int
    """H, as the last one set it."""


def past_server_rounds(run: Experiment, memory: Memory, lane: int, t: int) -> PastServerRounds:
    """The server rounds of a lane before round t."""
    if LOG in memory and run.server.is_adaptive():
        known = ScheduleMemory.from_row(memory[LOG][lane].tolist())
        return PastServerRounds(known.number, known.last, known.period)
    planned = run.server.server_rounds(run.rounds)
    number = bisect_left(planned, t)
    period = run.server.period_in(t, run.rounds)
    return PastServerRounds(number, planned[number - 1] + 1 if number else 0, period)


def planned_round(server: Server, t: int, rounds: int) -> ScheduledRound:
    """The server round of round t by the plan, before any estimate."""
    number = bisect_left(server.server_rounds(rounds), t)
    return ScheduledRound(server.at(t, rounds), number, server.period_in(t, rounds))


class ServerSchedule:
    """The schedule of one server in one world."""

    def __init__(self, world: World, experiment: Experiment):
        self._world, self._experiment, self._server = world, experiment, experiment.server
        server = self._server
        self.adapts = server.is_there and server.is_adaptive()
        self._awake = world.awake(experiment)

    @property
    def start(self) -> ScheduleMemory:
        """The memory before the first round."""
        return ScheduleMemory(self._server.offset, 0, 0, self._server.period)

    @property
    def width(self) -> int:
        """The length of the longest row."""
        return 5 + self._server.adapt_over * (7 + 2 * len(self._world.sizes))

    def server_round(self, t: int, memory: ScheduleMemory | None = None) -> ScheduledRound | None:
        """The server round of round t, or None if it has none.

        Without a memory the answer is that of the plan, before any estimate.
        """
        server, rounds = self._server, self._world.rounds
        if not server.is_there:
            return None
        if memory is None:
            planned = server.server_rounds(rounds)
            return planned_round(server, t, rounds) if t in planned else None
        if t != memory.due:
            return None
        now = server.at_position(self._position(t, memory))
        return ScheduledRound(now, memory.number, memory.period)

    def after(
        self, t: int, memory: ScheduleMemory, X_kd: Tensor | None, sampled_k: Tensor | None
    ) -> ScheduleMemory:
        """The memory after the server round of round t.

        `X_kd` are the sampled models as the server received them; None if nobody was sampled.
        """
        found = memory.seen
        if X_kd is not None and sampled_k is not None:
            server, islands_n, awake = self._server, self._world.fleet.island_of, self._awake
            there_m = islands_n if awake is None else islands_n[awake(t)]
            sizes = np.bincount(there_m, minlength=len(self._world.sizes))
            by_island = server.selection in BY_ISLAND or server.weights == "stratified"
            islands_k, since = islands_n[sampled_k.cpu().numpy()], t + 1 - memory.last
            estimate = estimate_spread(X_kd, islands_k, sizes, since, by_island=by_island)
            found = (*found, *([estimate] if estimate else ()))[-self._server.adapt_over :]
        now = replace(memory, last=t + 1, seen=found)
        period = self._server.next_period(self._position(t, now))
        return replace(now, due=t + period, number=memory.number + 1, period=period)

    def _position(self, t: int, memory: ScheduleMemory) -> Context:
        return Context(
            "a schedule of the server is computed",
            self,
            round=t,
            rounds=self._world.rounds,
            number=memory.number,
            period=memory.period,
            estimates=memory.seen,
        )

    def mixing_rate(self, context: Context) -> float:
        """p of a round with all its gossip steps, for the context of a schedule."""
        return self._mixing_rate

    @cached_property
    def _mixing_rate(self) -> float:
        p = self._world.fleet_of(self._experiment).mixing_parameters().minimum
        return float(1 - (1 - p) ** self._experiment.network.gossip_steps)


def estimate_spread(
    X_kd: Tensor, islands_k: Ints, sizes: Ints, since: int, *, by_island: bool
) -> SpreadEstimate | None:
    """The estimates of one server round; None if too few devices were sampled.

    `islands_k` is the island of each sampled model and `sizes` the devices awake on each island.
    With `by_island` each island is estimated by itself, which takes two devices of each (or all it
    has); otherwise the sample is a uniform draw from all devices.
    """
    there = np.flatnonzero(sizes)  # an island may be asleep
    n_c = sizes[there].astype(float)
    belongs_ck = islands_k == there[:, None]
    K_c = belongs_ck.sum(axis=1).astype(float)
    X = X_kd.double()
    weights = X.new_tensor(belongs_ck / np.maximum(K_c, 1)[:, None])
    means_cd = weights @ X
    own = np.searchsorted(there, islands_k)
    apart_k = (X - means_cd[X.new_tensor(own).long()]).square().sum(dim=1).cpu().numpy()
    inside_c = belongs_ck @ apart_k
    if by_island:
        found = _by_island(n_c, K_c, inside_c, means_cd)
    else:
        total = float((X - X.mean(dim=0)).square().sum())
        found = _uniform(n_c, K_c, inside_c, total)
    if found is None:
        return None
    spread, intra, inter, bias = found
    n = n_c.sum()
    return SpreadEstimate(
        tuple(sizes[there].tolist()),
        tuple(K_c.astype(int).tolist()),
        float(spread),
        float(intra / n),
        max(0.0, float(inter / n)),  # a difference of estimates may be negative
        float(bias),
        since,
        by_island,
    )


def _uniform(
    n_c: Array, K_c: Array, inside_c: Array, total: float
) -> tuple[float, float, float, float] | None:
    """Unbiased estimates from a uniform sample: E (n-1) s2 is the disagreement."""
    n, K = n_c.sum(), K_c.sum()
    if K < 2:
        return None
    s2 = total / (K - 1)
    intra = n * (n - 1) / (K * (K - 1)) * (K_c / n_c) @ inside_c
    return s2, intra, (n - 1) * s2 - intra, (1 / K - 1 / n) * s2


def _by_island(
    n_c: Array, K_c: Array, inside_c: Array, means_cd: Tensor
) -> tuple[float, float, float, float] | None:
    """Estimates from s2_c inside each island and v_c = (1/K_c - 1/n_c) s2_c, its mean's error."""
    if ((K_c < 2) & (K_c < n_c)).any():
        return None
    n = n_c.sum()
    s2_c = inside_c / np.maximum(K_c - 1, 1)
    v_c = (1 / K_c - 1 / n_c) * s2_c
    share = means_cd.new_tensor(n_c / n)
    apart_c = (means_cd - share @ means_cd).square().sum(dim=1).cpu().numpy()
    inter = n_c @ apart_c - (n_c * (1 - n_c / n)) @ v_c
    bias = ((n_c / n) ** 2 * v_c).sum()
    return float((n_c / n) @ s2_c), float((n_c - 1) @ s2_c), float(inter), float(bias)
