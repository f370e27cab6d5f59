"""Forecasts of sweeps and of runs on ranks: how many stacks, how much memory, how long."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch

from skerry.config.experiment import Experiment
from skerry.engine.ranks.assignment import DeviceAssignment, cut_island
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import World, build_world, pick_device
from skerry.measure.observer import Observer
from skerry.records.store import FILE, Store
from skerry.runs.executors.executor import (
    Executor,
    WorldSurvey,
    choose_stack_size,
    group_by_world,
    memory_shape,
    split_lanes,
)
from skerry.runs.executors.ranks import refuse_on_ranks
from skerry.runs.materials import with_sizes
from skerry.runs.memory import measure_footprint
from skerry.runs.process import DETERMINISTIC_LANES, DETERMINISTIC_THREADS
from skerry.runs.stages import planned_runs
from skerry.runs.sweep import Sweep

SUM_BYTES = 8  # bytes of a number in an exact sum over ranks
StackKind: TypeAlias = tuple[str, frozenset[tuple[str, str, str]]]
PROBE_SECONDS = 1.0
PROBE_LANES = 8


@dataclass(frozen=True)
class Forecast:
    """Expected runs, memory and time of a sweep or of the runs of an experiment."""

    cells: int
    seeds: int
    runs: int
    recorded: int  # runs that are finished already
    worlds: int  # worlds that have runs to compute
    stacks: int
    lanes: int  # lanes of the largest stack
    stack_bytes: int  # what the largest stack needs, with its world
    free_bytes: int
    at_once: int
    seconds: float
    stops: bool = False  # whether runs have a stop rule, so that all this is needed at most


def forecast(
    asked: Sweep | Sequence[Experiment],
    executor: Executor,
    out: Path,
    device: str = "auto",
    deterministic: bool = False,
) -> Forecast:
    """Plan runs as a driver does, and time one stack of every kind, for a second in all."""
    runs = planned_runs(asked) if isinstance(asked, Sweep) else with_sizes(asked)
    seeds = asked.seed_numbers if isinstance(asked, Sweep) else {run.seed for run in runs}
    groups = group_by_world(runs)
    with executor:
        surveys = [executor.survey(group[0]).for_lanes(group) for group in groups]
        waiting = _waiting(groups, surveys, out)
        plans = []
        for lanes, survey in zip(waiting, surveys, strict=True):
            size = choose_stack_size(len(lanes), len(groups), survey, executor)
            plans.append(split_lanes(lanes, DETERMINISTIC_LANES if deterministic else size))
        at_once = executor.slots
    pieces = [piece for plan in plans for piece in plan]
    threads = DETERMINISTIC_THREADS if deterministic else max(1, torch.get_num_threads() // at_once)
    seconds_of = _round_seconds(pieces, device, threads)
    seconds = sum(seconds_of[_kind(piece)] * len(piece) * piece[0].rounds for piece in pieces)
    sizes = [
        (survey.footprint.need(len(piece)), len(piece), survey.footprint.free)
        for plan, survey in zip(plans, surveys, strict=True)
        for piece in plan
    ]
    need, largest, free = max(sizes, default=(0, 0, surveys[0].footprint.free))
    return Forecast(
        cells=len(asked.points) if isinstance(asked, Sweep) else len(runs) // len(seeds),
        seeds=len(seeds),
        runs=len(runs),
        recorded=len(runs) - sum(map(len, waiting)),
        worlds=sum(map(bool, waiting)),
        stacks=len(pieces),
        lanes=largest,
        stack_bytes=need,
        free_bytes=free,
        at_once=at_once,
        seconds=seconds / max(1, min(at_once, len(pieces))),
        stops=any(one.stop for piece in pieces for one in piece),
    )


def _waiting(
    groups: Sequence[Sequence[Experiment]], surveys: Sequence[WorldSurvey], out: Path
) -> list[list[Experiment]]:
    """The experiments of every group that are not finished in the store."""
    pairs = zip(groups, surveys, strict=True)
    by_key = [{one.key(survey.fingerprints): one for one in group} for group, survey in pairs]
    done: set[str] = set()
    if (out / FILE).is_file():
        with Store.read(out) as store:
            done = store.finished(chain.from_iterable(by_key))
    return [[one for key, one in group.items() if key not in done] for group in by_key]


def _round_seconds(
    pieces: Sequence[Sequence[Experiment]], device: str, threads: int
) -> dict[StackKind, float]:
    first = {_kind(piece): piece for piece in reversed(pieces)}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return {
            name: _time_rounds(piece, device, PROBE_SECONDS / len(first))
            for name, piece in first.items()
        }
    finally:
        torch.set_num_threads(before)


def _kind(piece: Sequence[Experiment]) -> StackKind:
    """Key of runs whose rounds take equally long: world shape, methods and compression."""
    kinds = {(e.method.name, e.network.compression, e.server.compression) for e in piece}
    return memory_shape(piece[0]), frozenset(kinds)


def _time_rounds(experiments: Sequence[Experiment], device: str, seconds: float) -> float:
    """Seconds of a round per lane, timed on some lanes; a full stack is rather faster. The first
    round includes one-time work, so it counts only if there is no other."""
    world = build_world(experiments[0], None, pick_device(device))
    some = experiments[:: -(-len(experiments) // PROBE_LANES)]  # spread over all methods
    stack = build_stack(world, some)
    observer = Observer(stack)
    ends = []
    for moment in simulate(stack):
        observer.rows(moment)
        if moment.phase != "before_server":
            ends.append(time.monotonic())
        if len(ends) > 1 and ends[-1] - ends[0] >= seconds:
            break
    first = 1 if len(ends) > 2 else 0
    return (ends[-1] - ends[first]) / (len(ends) - 1 - first) / len(stack)


@dataclass(frozen=True)
class RankPlan:
    """Devices, memory and messages of each of several ranks of a run."""

    runs: int
    lanes: int  # runs that are computed together, at most
    devices: tuple[int, ...]  # devices of each rank
    islands: tuple[int, ...]  # islands of which each rank holds devices
    cut_islands: int  # islands that are divided among ranks
    rank_bytes: int  # memory of the largest rank, with all lanes
    free_bytes: int  # free memory of this machine or its GPU
    server_bytes: int  # what a rank sends in a server round, for all lanes
    border_bytes: int  # what a rank receives before each mixing step, for all lanes, at most


def plan_ranks(
    experiments: Sequence[Experiment], ranks: int | None = None, device: str = "auto"
) -> RankPlan:
    """Plan runs on several ranks; None is a single process, which sends nothing."""
    if ranks is not None:
        refuse_on_ranks(experiments)
    experiments = with_sizes(experiments)
    group = max(group_by_world(experiments), key=len)
    world = _largest_share(group[0], ranks, device)
    room = measure_footprint(world).for_lanes(group)
    shares = DeviceAssignment.of(world.sizes, ranks or 1)
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
        server_bytes=0 if ranks is None else numbers * SUM_BYTES,
        border_bytes=numbers * world.dtype.itemsize * rows,
    )


def _largest_share(experiment: Experiment, ranks: int | None, device: str) -> World:
    """The world as the rank with the most devices builds it."""

    def build(exchange: Any) -> World:  # a plan exchanges nothing, and needs only the numbers
        return build_world(experiment, None, pick_device(device), exchange=exchange)

    if ranks is None:
        return build(None)
    first = build(SimpleNamespace(rank=0, ranks=ranks))
    counts = DeviceAssignment.of(first.sizes, ranks).counts
    largest = counts.index(max(counts))
    return build(SimpleNamespace(rank=largest, ranks=ranks)) if largest else first


def _border_rows(world: World, shares: DeviceAssignment) -> Iterator[int]:
    """For each rank, the number of models that it needs from others in round 0."""
    for rank in range(len(shares.counts)):
        rows = 0
        for part in shares.parts(rank):
            if not part.is_whole:
                block = world.fleet.blocks(0, slice(part.island, part.island + 1))[0]
                rows += sum(cut_island(shares, rank, part, block).receives.values())
        yield rows
