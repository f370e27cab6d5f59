"""The state of a folder of runs at one moment: what is done, how fast, and the best cells."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby, islice
from typing import Any, Literal

from skerry.analysis.cells import Cells
from skerry.analysis.names import Fields, cell_fields, fields_of_runs
from skerry.analysis.run_table import RunTable
from skerry.config.measures import shown
from skerry.records.activity import RunPlan, device_steps, text_digest
from skerry.records.store import Run

USUAL_MEASURES = ("average_accuracy", "own_accuracy")
MESSAGES = 6
RECENT_SECONDS = 600.0

State = Literal["working", "done", "stopped"]


@dataclass(frozen=True)
class RunningStack:
    """Runs that are computed together, and the round they have reached."""

    runs: int
    seed: int
    round: int
    rounds: int


@dataclass(frozen=True)
class Best:
    """A primitive's best cell so far."""

    measure: str
    primitive: str
    cell: Fields  # the fields that vary between the runs of the folder
    mean: float
    half_width: float | None  # half of the 95 % interval; None while there is one seed
    seeds: int


@dataclass(frozen=True)
class Message:
    """Runs that ended at one time in the same way."""

    time: str  # UTC, as recorded
    status: str
    runs: int
    note: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """State of a sweep at one moment, as `skerry watch` shows it."""

    folder: str
    name: str
    state: State
    finished: int
    running: int
    diverged: int
    failed: int
    to_do: int | None  # planned runs that have not started; None where there is no plan
    others: int  # runs in the folder that are not part of the plan
    share: float  # the share of the planned computing that is done
    device_steps_per_second: float | None
    rounds_per_second: float | None
    seconds_left: float | None
    stacks: tuple[RunningStack, ...]
    best: tuple[Best, ...]
    messages: tuple[Message, ...]

    @property
    def runs(self) -> int:
        return self.finished + self.running + self.diverged + self.failed + (self.to_do or 0)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "runs": self.runs}


@dataclass(frozen=True)
class WatchedRun:
    """A recorded run, with all that a snapshot needs."""

    run: Run
    final: dict[str, float]  # the last value of every measure; empty unless the run is finished

    @cached_property
    def digest(self) -> str:
        return text_digest(self.run.experiment)

    @cached_property
    def fields(self) -> Fields:
        return cell_fields(self.run)

    @property
    def steps(self) -> int:
        return device_steps(self.run.experiment)

    @property
    def steps_done(self) -> int:
        run = self.run
        done = run.status in ("finished", "diverged")
        return self.steps if done else self.steps * run.rounds_done // run.experiment.rounds


def take_snapshot(
    folder: str,
    runs: Sequence[WatchedRun],
    plan: RunPlan | None,
    *,
    working: bool,
    written: float,
    measure: str | None = None,
) -> Snapshot:
    """Summarise runs, by the newest plan, whether a driver works, and its last heartbeat."""
    planned, missing = _of_plan(runs, plan)
    counts = Counter(watched.run.status for watched in planned)
    running = [watched for watched in planned if watched.run.status == "running"]
    speed = recent_speed([watched.run for watched in runs]) or _first_speed(running, written)
    left = sum(missing) + sum(watched.steps - watched.steps_done for watched in running)
    whole = sum(missing) + sum(watched.steps for watched in planned)
    idle = not running and not missing
    in_epochs = any(watched.run.experiment.training.local_epochs for watched in runs)
    return Snapshot(
        folder=folder,
        name=(planned or runs)[-1].run.name if runs else "",
        state="working" if working else "done" if idle else "stopped",
        finished=counts["finished"],
        running=counts["running"],
        diverged=counts["diverged"],
        failed=counts["failed"],
        to_do=len(missing) if plan is not None else None,
        others=len(runs) - len(planned),
        share=1 - left / whole if whole else 0.0,
        device_steps_per_second=speed.steps if speed and not in_epochs else None,
        rounds_per_second=speed.rounds if speed else None,
        seconds_left=left / speed.steps if working and speed else None,
        stacks=tuple(_stacks(watched.run for watched in running)),
        best=tuple(best_by_primitive(planned, measure)),
        messages=tuple(_newest_messages([watched.run for watched in planned])),
    )


def _of_plan(
    runs: Sequence[WatchedRun], plan: RunPlan | None
) -> tuple[list[WatchedRun], list[int]]:
    """The planned runs that have started, and the device-steps of those that have not."""
    if plan is None:
        return list(runs), []
    positions = [plan.position(watched.run.key, watched.digest) for watched in runs]
    planned = [one for one, place in zip(runs, positions, strict=True) if place is not None]
    begun = set(positions)
    return planned, [steps for i, (_, _, steps) in enumerate(plan.rows) if i not in begun]


def _stacks(runs: Iterable[Run]) -> Iterator[RunningStack]:
    def stack_key(run: Run) -> tuple[int, str, int]:
        return run.experiment.seed, run.world, run.rounds_done

    for (seed, _, round_), group in groupby(sorted(runs, key=stack_key), key=stack_key):
        lanes = list(group)
        yield RunningStack(len(lanes), seed, round_, lanes[0].experiment.rounds)


def _newest_messages(runs: Sequence[Run]) -> Iterator[Message]:
    """The runs that ended last; those that ended together and in the same way are one message."""

    def event(run: Run) -> tuple[str, str, str]:
        return run.finished or "", run.status, run.note

    ended = sorted((run for run in runs if run.finished), key=event, reverse=True)
    for (when, status, note), group in islice(groupby(ended, key=event), MESSAGES):
        seeds = [run.experiment.seed for run in group]
        yield Message(when, status, len(seeds), note, tuple(sorted(set(seeds))))


def best_by_primitive(runs: Sequence[WatchedRun], measure: str | None = None) -> Iterator[Best]:
    """Every primitive's best cell by the mean of a measure, or of the usual ones, over seeds."""
    done = [watched for watched in runs if watched.final]
    there = {name for watched in done for name in watched.final}
    usual = [name for one in USUAL_MEASURES if (name := shown(one, there)) in there]
    if not done:
        return
    known = {watched.run.key: watched.fields for watched in done}
    grid = RunTable(tuple(watched.run for watched in done))
    grid = replace(grid, known_fields=fields_of_runs(grid.runs, known)).numbered()
    for name in (measure,) if measure is not None else usual:
        values = [watched.final.get(name, math.nan) for watched in done]
        yield from _best_of(grid, grid.arrange(name, values))


def _best_of(grid: RunTable, cells: Cells) -> Iterator[Best]:
    found = cells.estimates()
    sign = 1 if cells.lower_is_better else -1
    for label in sorted(cells.labels):
        means = {cell: sign * one.mean for (cell, other), one in found.items() if other == label}
        cell = min(means, key=lambda one: means[one])
        one = found[cell, label]
        # From one of its runs: a run without a server is in the cells of all periods, and has none.
        place = next(iter(grid.positions[cell][label].values()))
        fields = grid.fields[grid.runs[place].key]
        yield Best(
            cells.measure,
            label,
            {axis: fields[axis] for axis in grid.axes if fields.get(axis) is not None},
            one.mean,
            one.half_width if one.count > 1 else None,
            one.count,
        )


@dataclass(frozen=True)
class RunSpeed:
    """The speed of all workers together."""

    steps: float  # device-steps per second
    rounds: float  # rounds per second, summed over runs


def recent_speed(runs: Sequence[Run], recent: float = RECENT_SECONDS) -> RunSpeed | None:
    """The speed over the last ten minutes of computing; None if no run has ended yet. Runs of one
    stack end together and share one span; spans of several workers overlap, and pauses between
    sweeps do not count."""

    def stack_key(run: Run) -> tuple[str, str, float]:
        return run.finished or "", run.world, run.wall_seconds or 0.0

    timed = [run for run in runs if run.finished and run.wall_seconds]
    ended = sorted(timed, key=stack_key, reverse=True)
    spans: list[tuple[float, float]] = []
    steps = rounds = 0
    for (finished, _, seconds), stack in groupby(ended, key=stack_key):
        for run in stack:
            done = run.rounds_done if run.is_stopped else run.experiment.rounds
            steps += device_steps(run.experiment) * done // run.experiment.rounds
            rounds += done
        # Records keep whole seconds: a span ends within the recorded second.
        end = datetime.fromisoformat(finished).timestamp() + 1
        spans.append((end - max(1.0, seconds), end))
        if covered_length(spans) >= recent:
            break
    seconds = covered_length(spans)
    return RunSpeed(steps / seconds, rounds / seconds) if spans else None


def _first_speed(running: Sequence[WatchedRun], written: float) -> RunSpeed | None:
    """The speed before any run has ended: the rounds done, over the time since the start."""
    steps = sum(watched.steps_done for watched in running)
    if not steps:
        return None
    began = min(datetime.fromisoformat(watched.run.started).timestamp() for watched in running)
    seconds = max(1.0, written - began)
    return RunSpeed(steps / seconds, sum(watched.run.rounds_done for watched in running) / seconds)


def covered_length(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
