"""When the server meets the lanes of a group, and with what beta and K: as its schedules say.

Where a schedule goes by the models, every lane has a course of its own. What the server remembers
for it is a row of numbers in the state, so that a run that was stopped goes on as it would have.
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
from skerry.engine.estimates import seen
from skerry.engine.world import World

BY_ISLAND = ("per_component", "one_each")
"""Selections under which every island is estimated by itself."""


@dataclass(frozen=True)
class Turn:
    """One server round."""

    server: Server
    """As it stands: beta and K are numbers."""
    number: int
    """Of the server round, counted from 0."""


@dataclass(frozen=True)
class Log:
    """What the server remembers of one lane, where a schedule goes by the models."""

    due: int
    """The next server round."""
    last: int
    """Rounds that were done when the last one was over."""
    number: int
    period: int
    seen: tuple[Seen, ...] = ()

    def row(self) -> list[float]:
        facts = [self.due, self.last, self.number, self.period, len(self.seen)]
        return [*map(float, facts), *(value for one in self.seen for value in _numbers(one))]

    @classmethod
    def read(cls, row: Sequence[float]) -> "Log":
        due, last, number, period, count = map(int, row[:5])
        rest, found = list(row[5:]), []
        for _ in range(count):
            one, rest = _read(rest)
            found.append(one)
        return cls(due, last, number, period, tuple(found))


class Course:
    """Of one server, on one world."""

    def __init__(self, world: World, experiment: Experiment):
        self._world, self._experiment, self._server = world, experiment, experiment.server
        self.adapts = self._server.is_there and schedules.adapts(self._server, *schedules.RANGES)
        self._awake = world.awake(experiment)

    @property
    def start(self) -> Log:
        return Log(self._server.offset, 0, 0, self._server.period)

    @property
    def width(self) -> int:
        """Numbers of the longest log."""
        return 5 + self._server.adapt_over * (7 + 2 * len(self._world.sizes))

    def turn(self, t: int, log: Log | None = None) -> Turn | None:
        """The server round that round t is, if it is one. Without a log: as planned, before
        anything was seen."""
        server, rounds = self._server, self._world.rounds
        if not server.is_there:
            return None
        if log is None:
            planned = server.server_rounds(rounds)
            return Turn(server.at(t, rounds), bisect_left(planned, t)) if t in planned else None
        if t != log.due:
            return None
        return Turn(schedules.standing(server, self._position(t, log)), log.number)

    def after(self, t: int, log: Log, X_kd: Tensor | None, sampled_k: Tensor | None) -> Log:
        """What is remembered when round t, a server round, is over. The models are those of the
        sampled devices, as the server received them; None: nobody was there."""
        found = log.seen
        if X_kd is not None and sampled_k is not None:
            islands_n, awake = self._world.fleet.island_of, self._awake
            sizes = np.bincount(
                islands_n if awake is None else islands_n[awake(t)],
                minlength=len(self._world.sizes),
            )
            one = seen(
                X_kd,
                islands_n[sampled_k.cpu().numpy()],
                sizes,
                t + 1 - log.last,
                by_island=self._server.selection in BY_ISLAND
                or self._server.weights == "stratified",
            )
            found = (*found, *([one] if one else ()))[-self._server.adapt_over :]
        now = replace(log, last=t + 1, seen=found)
        period = schedules.next_period(self._server, self._position(t, now))
        return replace(now, due=t + period, number=log.number + 1, period=period)

    def _position(self, t: int, log: Log) -> Position:
        rate = self._mixing_rate if schedules.adapts(self._server, "beta") else 0.0
        return Position(t, self._world.rounds, log.number, log.period, rate, log.seen)

    @cached_property
    def _mixing_rate(self) -> float:
        """p of a round, with all its gossip steps."""
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
