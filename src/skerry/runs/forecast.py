"""What a sweep would do, before it does it: how much, how large, how long. Nothing is written."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world, pick_device
from skerry.measure.observer import Observer
from skerry.records.store import FILE, Store
from skerry.runs.determinism import LANES, THREADS
from skerry.runs.executors.executor import Executor
from skerry.runs.executors.messages import Survey
from skerry.runs.grouping import cut, shape, stack_size, stacks
from skerry.runs.stages import planned_runs
from skerry.runs.sweep import Sweep

Sort: TypeAlias = tuple[str, frozenset[tuple[str, str, str]]]
PROBE_SECONDS = 1.0
PROBE_LANES = 8


@dataclass(frozen=True)
class Forecast:
    cells: int
    seeds: int
    runs: int
    recorded: int
    """Those of the runs that are finished already."""
    worlds: int
    """Those that have runs to compute."""
    stacks: int
    lanes: int
    """Of the largest stack."""
    stack_bytes: int
    """What the largest stack needs, its world included."""
    free_bytes: int
    at_once: int
    seconds: float


def forecast(
    sweep: Sweep,
    executor: Executor,
    out: Path,
    device: str = "auto",
    deterministic: bool = False,
) -> Forecast:
    """Plan as a driver does, and time one stack of every shape, for a second in all."""
    runs = planned_runs(sweep)
    groups = stacks(runs)
    with executor:
        surveys = [executor.survey(group[0]).keeping(group) for group in groups]
        waiting = _waiting(groups, surveys, out)
        plans = [
            cut(
                lanes,
                LANES if deterministic else stack_size(len(lanes), len(groups), survey, executor),
            )
            for lanes, survey in zip(waiting, surveys, strict=True)
        ]
        at_once = executor.slots
    pieces = [piece for plan in plans for piece in plan]
    threads = THREADS if deterministic else max(1, torch.get_num_threads() // at_once)
    paces = _paces(pieces, device, threads)
    seconds = sum(paces[_sort(piece)] * len(piece) * piece[0].rounds for piece in pieces)
    sizes = [
        (survey.footprint.need(len(piece)), len(piece), survey.footprint.free)
        for plan, survey in zip(plans, surveys, strict=True)
        for piece in plan
    ]
    need, lanes, free = max(sizes, default=(0, 0, surveys[0].footprint.free))
    return Forecast(
        cells=len(sweep.points),
        seeds=len(sweep.seed_numbers),
        runs=len(runs),
        recorded=len(runs) - sum(map(len, waiting)),
        worlds=sum(map(bool, waiting)),
        stacks=len(pieces),
        lanes=lanes,
        stack_bytes=need,
        free_bytes=free,
        at_once=at_once,
        seconds=seconds / max(1, min(at_once, len(pieces))),
    )


def _waiting(
    groups: Sequence[Sequence[Experiment]], surveys: Sequence[Survey], out: Path
) -> list[list[Experiment]]:
    if not (out / FILE).is_file():
        return [list(group) for group in groups]
    with Store.read(out) as store:
        waiting = []
        for group, survey in zip(groups, surveys, strict=True):
            by_key = {one.key(survey.fingerprints): one for one in group}
            done = store.finished(by_key)
            waiting.append([one for key, one in by_key.items() if key not in done])
    return waiting


def _paces(pieces: Sequence[Sequence[Experiment]], device: str, threads: int) -> dict[Sort, float]:
    """Seconds that a round takes per lane, by the sort of stack."""
    first: dict[Sort, Sequence[Experiment]] = {}
    for piece in pieces:
        first.setdefault(_sort(piece), piece)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return {
            name: _pace(piece, device, PROBE_SECONDS / len(first)) for name, piece in first.items()
        }
    finally:
        torch.set_num_threads(before)


def _sort(piece: Sequence[Experiment]) -> Sort:
    """Stacks of one shape take as long if their lanes keep and compress the same."""
    kinds = {(e.method.name, e.network.compression, e.server.compression) for e in piece}
    return shape(piece[0]), frozenset(kinds)


def _pace(experiments: Sequence[Experiment], device: str, seconds: float) -> float:
    """Time some lanes after the start's evaluation; a full stack is quicker per lane, if anything.
    The first round pays for what is done only once: it counts if it is the only one."""
    world = build_world(experiments[0], None, pick_device(device))
    some = experiments[:: -(-len(experiments) // PROBE_LANES)]  # of all methods, if there are some
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
