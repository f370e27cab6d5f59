"""How a folder of runs stands at one moment, read beside whoever is computing there."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from skerry.errors import RecordsError, SkerryError, unknown
from skerry.measures import MEASURES
from skerry.records.store import FILE, Run, Store
from skerry.report.highlights import Best, Message, Seen, best_cells, newest_messages
from skerry.report.pace import Pace, pace
from skerry.runs.presence import FILE as PLAN
from skerry.runs.presence import (
    WORKERS,
    Plan,
    device_steps,
    is_held,
    is_working,
    read_plan,
    text_digest,
)

DEFAULT_MEASURES = ("average_accuracy", "own_accuracy")
WITHOUT_CLASSES = ("average_loss",)

State = Literal["working", "done", "stopped"]


@dataclass(frozen=True)
class Stack:
    """Runs under way together; `round` is as of their last checkpoint."""

    runs: int
    seed: int
    round: int
    rounds: int


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


class Watched:
    """A folder that is looked at again and again. Finished runs are read once, and nothing is
    read while nothing has changed."""

    def __init__(self, folder: Path, measure: str | None = None):
        if measure is not None and measure not in MEASURES:
            raise SkerryError(unknown("measure", measure, MEASURES))
        self.folder = folder if folder.is_dir() else folder.parent
        self._path, self._measure = folder, measure
        self._finished: dict[str, Seen] = {}
        self._stamp: object = None
        self._last: Snapshot | None = None

    def look(self) -> Snapshot:
        working, stores = is_working(self.folder), self._stores()
        written = _written(stores)
        stamp = working, *map(_stamp, [self.folder / PLAN, *stores])
        if self._last is None or stamp != self._stamp:
            runs, plan = self._read(stores), read_plan(self.folder)
            if not runs and plan is None and not working:
                raise RecordsError(
                    f"no runs are recorded in {self.folder}, and nobody is working there. Start "
                    f"some: skerry sweep FILE --out {self.folder}"
                )
            self._last = self._snapshot(runs, plan, working, written)
            self._stamp = stamp
        return _counted_down(self._last, time.time() - written)

    def _stores(self) -> list[Path]:
        """The driver's store, and those of workers that are in them right now."""
        own = self._path / FILE if self._path.is_dir() else self._path
        locks = (self.folder / WORKERS).glob("*.lock")
        inside = [lock.with_suffix("") / FILE for lock in locks if is_held(lock)]
        return [own, *(store for store in sorted(inside) if Path(f"{store}-wal").exists())]

    def _read(self, stores: Sequence[Path]) -> list[Seen]:
        """The workers' stores first: what has left them is in the driver's."""
        found: dict[str, Seen] = {}
        for path in stores[1:]:
            try:
                with Store.read(path) as store:
                    # A run is finished when the driver has recorded it.
                    under_way = [
                        replace(run, status="running", finished=None) for run in store.runs()
                    ]
                found |= {run.key: _seen(run, {}) for run in under_way}
            except (RecordsError, OSError):
                continue  # its worker is beginning, or has just ended
        with Store.read(stores[0]) as store:
            for seen in self._recorded(store):
                if seen.run.status in ("finished", "diverged") or seen.run.key not in found:
                    found[seen.run.key] = seen
        return list(found.values())

    def _recorded(self, store: Store) -> Iterator[Seen]:
        for run in store.runs():
            kept = self._finished.get(run.key)
            if kept is not None and kept.run.finished == run.finished:
                yield kept
            elif run.status == "finished":
                final = store.finals([run.key]).get(run.key, {})  # none if it is damaged
                self._finished[run.key] = _seen(run, final)
                yield self._finished[run.key]
            else:
                yield _seen(run, {})

    def _snapshot(
        self, runs: Sequence[Seen], plan: Plan | None, working: bool, written: float
    ) -> Snapshot:
        asked, missing = _of_plan(runs, plan)
        counts = Counter(seen.run.status for seen in asked)
        speed = pace([seen.run for seen in runs], device_steps)
        if speed is None:
            speed = _first_pace([seen for seen in asked if seen.run.status == "running"], written)
        left = sum(missing) + sum(
            seen.steps - seen.steps_done for seen in asked if seen.run.status == "running"
        )
        whole = sum(missing) + sum(seen.steps for seen in asked)
        idle = counts["running"] == 0 and not missing
        return Snapshot(
            folder=str(self.folder),
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
            stacks=tuple(_stacks(seen.run for seen in asked if seen.run.status == "running")),
            best=tuple(best_cells(asked, self._measures(asked))),
            messages=tuple(newest_messages([seen.run for seen in asked])),
        )

    def _measures(self, runs: Sequence[Seen]) -> tuple[str, ...]:
        if self._measure is not None:
            return (self._measure,)
        there = {name for seen in runs for name in seen.final}
        return tuple(m for m in DEFAULT_MEASURES if m in there) or WITHOUT_CLASSES


def _seen(run: Run, final: dict[str, float]) -> Seen:
    return Seen(run, text_digest(run.experiment), device_steps(run.experiment), final)


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


def _first_pace(running: Sequence[Seen], written: float) -> Pace | None:
    """Before anything has ended: what was checkpointed, over the time until then."""
    steps = sum(seen.steps_done for seen in running)
    if not steps:
        return None
    began = min(datetime.fromisoformat(seen.run.started).timestamp() for seen in running)
    seconds = max(1.0, written - began)
    return Pace(steps / seconds, sum(seen.run.rounds_done for seen in running) / seconds)


def _counted_down(snapshot: Snapshot, since: float) -> Snapshot:
    """The store tells only now and then how far runs are; they go on in between."""
    if snapshot.seconds_left is None:
        return snapshot
    return replace(snapshot, seconds_left=max(0.0, snapshot.seconds_left - since))


def _written(stores: Sequence[Path]) -> float:
    times = [state.st_mtime for store in stores for state in _states(store)]
    return max(times, default=time.time())


def _stamp(store: Path) -> tuple[object, ...]:
    return store, *((state.st_mtime_ns, state.st_size) for state in _states(store))


def _states(store: Path) -> Iterator[os.stat_result]:
    """Of a store's two files, as far as there is something in them. A look may itself leave an
    empty one."""
    for file in (store, Path(f"{store}-wal")):
        with suppress(OSError):
            state = file.stat()
            if state.st_size:
                yield state
