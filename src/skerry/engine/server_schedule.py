"""The schedule of server rounds: when they are, and their beta and K.

Where a schedule adapts to the models, every lane has a schedule of its own. Its memory is a row of
numbers in the state, so that a resumed run continues as it would have.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from skerry.config import schedules
from skerry.config.experiment import Experiment, Server
from skerry.config.schedules import Position, Seen
from skerry.engine.estimates import estimate_spread
from skerry.engine.world import World

BY_ISLAND = ("per_component", "one_each")
"""Selections under which every island is estimated by itself."""


@dataclass(frozen=True)
class ScheduledRound:
    """A server round that is due."""

    server: Server
    """The server with the beta and K of this round."""
    number: int
    """The number of the server round, counted from 0."""


@dataclass(frozen=True)
class ScheduleMemory:
    """The memory of an adaptive schedule, for one lane."""

    due: int
    """The round of the next server round."""
    last: int
    """Rounds done after the last server round."""
    number: int
    period: int
    seen: tuple[Seen, ...] = ()

    def to_row(self) -> list[float]:
        """The memory as a row of numbers."""
        facts = [self.due, self.last, self.number, self.period, len(self.seen)]
        return [*map(float, facts), *(value for one in self.seen for value in _numbers(one))]

    @classmethod
    def from_row(cls, row: Sequence[float]) -> "ScheduleMemory":
        """The memory that `to_row` wrote."""
        due, last, number, period, count = map(int, row[:5])
        rest, found = list(row[5:]), []
        for _ in range(count):
            one, rest = _read(rest)
            found.append(one)
        return cls(due, last, number, period, tuple(found))


class ServerSchedule:
    """The schedule of one server in one world."""

    def __init__(self, world: World, experiment: Experiment):
        self._world, self._experiment, self._server = world, experiment, experiment.server
        self.adapts = self._server.is_there and schedules.adapts(self._server, *schedules.RANGES)
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
            return (
                ScheduledRound(server.at(t, rounds), bisect_left(planned, t))
                if t in planned
                else None
            )
        if t != memory.due:
            return None
        return ScheduledRound(schedules.standing(server, self._position(t, memory)), memory.number)

    def after(
        self, t: int, memory: ScheduleMemory, X_kd: Tensor | None, sampled_k: Tensor | None
    ) -> ScheduleMemory:
        """The memory after the server round of round t.

        `X_kd` are the sampled models as the server received them; None if nobody was sampled.
        """
        found = memory.seen
        if X_kd is not None and sampled_k is not None:
            islands_n, awake = self._world.fleet.component_of, self._awake
            sizes = np.bincount(
                islands_n if awake is None else islands_n[awake(t)],
                minlength=len(self._world.sizes),
            )
            estimate = estimate_spread(
                X_kd,
                islands_n[sampled_k.cpu().numpy()],
                sizes,
                t + 1 - memory.last,
                by_island=self._server.selection in BY_ISLAND
                or self._server.weights == "stratified",
            )
            found = (*found, *([estimate] if estimate else ()))[-self._server.adapt_over :]
        now = replace(memory, last=t + 1, seen=found)
        period = schedules.next_period(self._server, self._position(t, now))
        return replace(now, due=t + period, number=memory.number + 1, period=period)

    def _position(self, t: int, memory: ScheduleMemory) -> Position:
        rate = self._mixing_rate if schedules.adapts(self._server, "beta") else 0.0
        return Position(t, self._world.rounds, memory.number, memory.period, rate, memory.seen)

    @cached_property
    def _mixing_rate(self) -> float:
        """p of a round with all its gossip steps."""
        p = self._world.fleet_of(self._experiment).mixing_parameters().minimum
        return float(1 - (1 - p) ** self._experiment.network.gossip_steps)


def _numbers(one: Seen) -> list[float]:
    sizes, counts, *rest = astuple(one)
    return [float(len(sizes)), *map(float, [*sizes, *counts, *rest])]


def _read(row: list[float]) -> tuple[Seen, list[float]]:
    islands = int(row[0])
    sizes, counts = row[1 : 1 + islands], row[1 + islands : 1 + 2 * islands]
    spread, intra, inter, bias, since, by_island = row[1 + 2 * islands : 7 + 2 * islands]
    found = Seen(
        tuple(map(int, sizes)),
        tuple(map(int, counts)),
        spread,
        intra,
        inter,
        bias,
        int(since),
        bool(by_island),
    )
    return found, row[7 + 2 * islands :]
