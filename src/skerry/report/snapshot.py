"""How a folder of runs stands at one moment: what is done, how fast it goes, what is best."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from skerry.analysis.cells import Cells
from skerry.analysis.names import Fields, cell_fields
from skerry.analysis.run_table import RunTable
from skerry.config.measures import shown
from skerry.records.store import Run
from skerry.runs.presence import Plan, device_steps, text_digest

USUAL_MEASURES = ("average_accuracy", "own_accuracy")
MESSAGES = 6
RECENT_SECONDS = 600.0

State = Literal["working", "done", "stopped"]


@dataclass(frozen=True)
class Stack:
    """Runs under way together; `round` is as of their last checkpoint."""

    runs: int
    seed: int
    round: int
    rounds: int


@dataclass(frozen=True)
class Best:
    """A primitive's best cell so far."""

    measure: str
    primitive: str
    cell: Fields
    """The fields that vary between the runs of the folder."""
    mean: float
    half_width: float | None
    """Half of the 95 % interval; None while there is one seed."""
    seeds: int


@dataclass(frozen=True)
class Message:
    time: str
    """UTC, as recorded."""
    status: str
    runs: int
    note: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    folder: str
    name: str
    state: State
    finished: int
    running: int
    diverged: int
    failed: int
    to_do: int | None
    """Runs announced, but not begun; None where nobody has announced any."""
    others: int
    """Runs in the folder that the announced sweep does not ask for."""
    share: float
    """How much of the computing is done, of what is known of it."""
    device_steps_per_second: float | None
    rounds_per_second: float | None
    seconds_left: float | None
    stacks: tuple[Stack, ...]
    best: tuple[Best, ...]
    messages: tuple[Message, ...]

    @property
    def runs(self) -> int:
        return self.finished + self.running + self.diverged + self.failed + (self.to_do or 0)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "runs": self.runs}


@dataclass(frozen=True)
class Seen:
    """What is kept of a recorded run: all that a snapshot needs."""

    run: Run
    final: dict[str, float]
    """The last value of every measure; empty unless the run is finished."""

    @cached_property
    def text(self) -> str:
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


def snapshot(
    folder: str,
    runs: Sequence[Seen],
    plan: Plan | None,
    *,
    working: bool,
    written: float,
    measure: str | None = None,
) -> Snapshot:
    """`plan` is what somebody has announced; `working`, whether anybody is at it; `written`, when
    the records were last written."""
    asked, missing = _of_plan(runs, plan)
    counts = Counter(seen.run.status for seen in asked)
    running = [seen for seen in asked if seen.run.status == "running"]
    speed = pace([seen.run for seen in runs]) or _first_pace(running, written)
    left = sum(missing) + sum(seen.steps - seen.steps_done for seen in running)
    whole = sum(missing) + sum(seen.steps for seen in asked)
    idle = not running and not missing
    return Snapshot(
        folder=folder,
        name=(asked or runs)[-1].run.name if runs else "",
        state="working" if working else "done" if idle else "stopped",
        finished=counts["finished"],
        running=counts["running"],
        diverged=counts["diverged"],
        failed=counts["failed"],
        to_do=len(missing) if plan is not None else None,
        others=len(runs) - len(asked),
        share=1 - left / whole if whole else 0.0,
        device_steps_per_second=speed.steps if speed else None,
        rounds_per_second=speed.rounds if speed else None,
        seconds_left=left / speed.steps if working and speed else None,
        stacks=tuple(_stacks(seen.run for seen in running)),
        best=tuple(best_cells(asked, measure)),
        messages=tuple(_newest_messages([seen.run for seen in asked])),
    )


def _of_plan(runs: Sequence[Seen], plan: Plan | None) -> tuple[list[Seen], list[int]]:
    """The runs that are asked for, and the steps of those that are asked for but not there."""
    if plan is None:
        return list(runs), []
    places = {seen.run.key: plan.place(seen.run.key, seen.text) for seen in runs}
    asked = [seen for seen in runs if places[seen.run.key] is not None]
    begun = set(places.values())
    return asked, [planned.steps for i, planned in enumerate(plan.runs) if i not in begun]


def _stacks(runs: Iterable[Run]) -> Iterator[Stack]:
    def together(run: Run) -> tuple[int, str, int]:
        return run.experiment.seed, run.world, run.rounds_done

    for (seed, _, round_), group in groupby(sorted(runs, key=together), key=together):
        lanes = list(group)
        yield Stack(len(lanes), seed, round_, lanes[0].experiment.rounds)


def _newest_messages(runs: Sequence[Run]) -> Iterator[Message]:
    """What has ended last: runs that ended together, and alike, are one message."""

    def event(run: Run) -> tuple[str, str, str]:
        return run.finished or "", run.status, run.note

    ended = sorted((run for run in runs if run.finished), key=event, reverse=True)
    for i, ((when, status, note), group) in enumerate(groupby(ended, key=event)):
        if i == MESSAGES:
            return
        seeds = [run.experiment.seed for run in group]
        yield Message(when, status, len(seeds), note, tuple(sorted(set(seeds))))


# The best cells


def best_cells(runs: Sequence[Seen], measure: str | None = None) -> Iterator[Best]:
    """Every primitive's best cell by a measure, or by the usual ones: its mean over the seeds that
    are finished."""
    done = [seen for seen in runs if seen.final]
    there = {name for seen in done for name in seen.final}
    usual = [name for one in USUAL_MEASURES if (name := shown(one, there)) in there]
    if not done:
        return
    fields = {seen.run.key: seen.fields for seen in done}
    grid = RunTable(tuple(seen.run for seen in done), known_fields=fields).numbered()
    for name in (measure,) if measure is not None else usual:
        values = [seen.final.get(name, math.nan) for seen in done]
        yield from _best_of(grid, grid.arrange(name, values))


def _best_of(grid: RunTable, cells: Cells) -> Iterator[Best]:
    found = cells.estimates()
    sign = 1 if cells.lower_is_better else -1
    for label in sorted(cells.labels):
        means = {cell: sign * one.mean for (cell, other), one in found.items() if other == label}
        cell = min(means, key=lambda one: means[one])
        one = found[cell, label]
        # Of its runs: one without a server stands in the cells of all periods, and has none.
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


# How fast it goes


@dataclass(frozen=True)
class Pace:
    """Of all workers together."""

    steps: float
    """Device-steps per second."""
    rounds: float
    """Rounds per second, those of every run counted."""


def pace(runs: Sequence[Run], recent: float = RECENT_SECONDS) -> Pace | None:
    """Over the last ten minutes in which something was computed; None if nothing has ended yet.

    Runs of one stack end together and took the same time, so they have one span in common; spans
    overlap where several workers are at work, and pauses between sweeps do not count.
    """

    def together(run: Run) -> tuple[str, str, float]:
        return run.finished or "", run.world, run.wall_seconds or 0.0

    ended = sorted(
        (run for run in runs if run.finished and run.wall_seconds), key=together, reverse=True
    )
    spans: list[tuple[float, float]] = []
    steps = rounds = 0
    for (finished, _, seconds), stack in groupby(ended, key=together):
        for run in stack:
            steps += device_steps(run.experiment)
            rounds += run.experiment.rounds
        # Records keep whole seconds: a span ends somewhere in the second that they name.
        end = datetime.fromisoformat(finished).timestamp() + 1
        spans.append((end - max(1.0, seconds), end))
        if covered(spans) >= recent:
            break
    return Pace(steps / covered(spans), rounds / covered(spans)) if spans else None


def _first_pace(running: Sequence[Seen], written: float) -> Pace | None:
    """Before anything has ended: what was checkpointed, over the time until then."""
    steps = sum(seen.steps_done for seen in running)
    if not steps:
        return None
    began = min(datetime.fromisoformat(seen.run.started).timestamp() for seen in running)
    seconds = max(1.0, written - began)
    return Pace(steps / seconds, sum(seen.run.rounds_done for seen in running) / seconds)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what the spans cover together."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
