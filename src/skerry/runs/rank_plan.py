"""What each of several ranks would hold of a run, and what they would send each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skerry.config.experiment import Experiment
from skerry.engine.ranks.assignment import DeviceAssignment, cut_island
from skerry.engine.world import World, build_world, pick_device
from skerry.runs.executors.ranks import refuse_on_ranks
from skerry.runs.grouping import stacks
from skerry.runs.materials import with_sizes
from skerry.runs.memory import footprint

WHOLE = 8
"""Bytes of a number in a sum over ranks."""


@dataclass(frozen=True)
class RankPlan:
    runs: int
    lanes: int
    """Runs that are computed side by side, at most."""
    devices: tuple[int, ...]
    """Of each rank."""
    islands: tuple[int, ...]
    """Of which each rank holds devices."""
    cut_islands: int
    """Those that lie on several ranks."""
    rank_bytes: int
    """What the largest rank takes, with all lanes."""
    free_bytes: int
    """On this machine, or on its GPU."""
    server_bytes: int
    """That a rank sends in a server round, for all lanes."""
    border_bytes: int
    """That come to a rank before each mixing, for all lanes, at most."""


class _Nobody:
    """Of an exchange only the numbers: while a plan is made, nobody is asked anything."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks = rank, ranks

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a plan exchanges nothing ({name})")


def plan_ranks(
    experiments: Sequence[Experiment], ranks: int | None = None, device: str = "auto"
) -> RankPlan:
    """Without ranks: what one process holds, which sends nothing to anybody."""
    if ranks is not None:
        refuse_on_ranks(experiments)
    experiments = with_sizes(experiments)
    group = max(stacks(experiments), key=len)
    world = _largest_share(group[0], ranks, device)
    room, shares = footprint(world).keeping(group), DeviceAssignment.of(world.sizes, ranks or 1)
    numbers = len(group) * world.learner.d
    rows = max(_border_rows(world, shares), default=0)
    return RankPlan(
        runs=len(experiments),
        lanes=len(group),
        devices=tuple(shares.counts),
        islands=tuple(len(shares.parts(rank)) for rank in range(ranks or 1)),
        cut_islands=len(shares.cut),
        rank_bytes=room.need(len(group)),
        free_bytes=room.free,
        server_bytes=0 if ranks is None else numbers * WHOLE,
        border_bytes=numbers * world.dtype.itemsize * rows,
    )


def _largest_share(experiment: Experiment, ranks: int | None, device: str) -> World:
    """The world as the rank with the most devices builds it."""
    place = pick_device(device)
    if ranks is None:
        return build_world(experiment, None, place)
    first = build_world(experiment, None, place, exchange=_Nobody(0, ranks))
    counts = DeviceAssignment.of(first.sizes, ranks).counts
    largest = counts.index(max(counts))
    if largest == 0:
        return first
    return build_world(experiment, None, place, exchange=_Nobody(largest, ranks))


def _border_rows(world: World, shares: DeviceAssignment) -> Iterator[int]:
    """The models that each rank with a part of a cut island needs from others, in round 0."""
    for rank in range(len(shares.counts)):
        rows = 0
        for part in shares.parts(rank):
            if not part.is_whole:
                block = world.fleet.blocks(0, slice(part.island, part.island + 1))[0]
                rows += sum(cut_island(shares, rank, part, block).receives.values())
        yield rows
