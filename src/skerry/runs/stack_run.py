"""Run the lanes of a world to their last round: measure, record, save checkpoints, resume."""

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import EXPLODED, Moment, simulate
from skerry.engine.world import World
from skerry.errors import RecordsError
from skerry.measure.observer import Observer, Reading, columns_by_key
from skerry.records import checkpoint
from skerry.records.store import Store, versions
from skerry.runs.executors.executor import StepCounter, Tick
from skerry.runs.process import HeldSignals, run_conditions
from skerry.runs.progress import Progress
from skerry.runs.resume import StackStart, find_starts, save_stack, warn_user

CHECKPOINT_SECONDS = 60.0
"""From one checkpoint to the next; 0 saves after every round."""
FIRST_SECONDS = 2.0
"""Until the first checkpoint. The times between checkpoints double from there."""
SAVING_SHARE = 0.05
"""The largest share of the time that may go into saving; large models are saved less often."""
SAVING_SPEED = 5e8
"""Bytes per second that a disk is assumed to write before anything was saved."""

CONTINUE, SAVE, STOP = range(3)
"""What a rank may request at the end of a round; the largest request of all ranks counts."""


def run_lanes(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    deterministic: bool = False,
    progress: Progress | None = None,
) -> Generator[Tick]:
    """Run and record experiments that share a world, and yield a tick for every round; lanes with a
    checkpoint in `folder` resume from it. A `deterministic` run must be the only one, with torch
    set up for it (runs/process.py)."""
    progress, counter = progress or Progress(), StepCounter(world)
    _begin(world, experiments, store, deterministic)
    for start in find_starts(world, experiments, store, folder, deterministic):
        if len(start.stack) < len(experiments):
            _begin(world, start.stack.experiments, store, deterministic)
        world.ranks.broadcast(
            do="run",
            lanes=start.stack.keys,
            file=str(start.file.absolute()),
            resumed=start.state is not None,
            checkpoint_seconds=checkpoint_seconds,
        )
        with StackRecorder(start, store, checkpoint_seconds, progress) as recorder:
            for moment in simulate(start.stack, start.state):
                recorder.measure(moment)
                progress.moment(moment)
                if tick := counter.count(moment):
                    yield tick
                recorder.save(moment)


class StackRecorder:
    """Context that measures, records and checkpoints a stack, moment by moment.

    Rows reach the store before the checkpoint that counts them. A kill in between leaves rows that
    the next start removes, so nothing before the checkpoint is lost and nothing recorded twice.

    A signal that ends the process acts between rounds, after a checkpoint. Of several ranks only
    the first has a store; all save when one of them requests it.
    """

    def __init__(
        self,
        start: StackStart,
        store: Store | None,
        checkpoint_seconds: float,
        progress: Progress | None = None,
    ):
        self._start, self._store = start, store
        self._progress = progress or Progress()
        self._checkpoint_seconds = checkpoint_seconds
        self._observer = Observer(start.stack, start.ledger)
        self._readings: list[Reading] = []
        self._rows = Counter(start.rows)
        world = start.stack.world
        size = world.local_devices * len(start.stack) * world.learner.parameters * 4
        first = max(FIRST_SECONDS, size / SAVING_SPEED / SAVING_SHARE)
        self._pause = min(checkpoint_seconds, first)
        self._signals = HeldSignals()

    def __enter__(self) -> Self:
        self._began = self._saved = time.monotonic()
        self._signals.__enter__()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                if self._store is not None:
                    checkpoint.remove_checkpoint(self._start.file)
                self._signals.act()
        finally:
            self._signals.__exit__()

    def measure(self, moment: Moment) -> None:
        """Evaluate the models, where the moment is due for it."""
        reading = self._observer.read(moment)
        if reading and self._store is not None:
            self._readings.append(reading)

    def save(self, moment: Moment) -> None:
        """At the end of a round: record what is due, save a checkpoint if it is time for one."""
        if moment.phase != "end":
            return
        ranks, now = moment.stack.world.ranks, time.monotonic()
        seconds = self._start.seconds + now - self._began
        over = moment.round == moment.stack.world.rounds
        request = SAVE if now - self._saved >= self._pause else CONTINUE
        request = ranks.maximum(STOP if self._signals.is_stop_requested else request)
        # Diverged lanes are still in the state: a checkpoint waits for the next round.
        due = request != CONTINUE and not moment.diverged
        if over or due or moment.diverged:
            self._record(moment, seconds, over)
        if not due or over:
            return
        with _warn_if_unsaved(request == STOP):
            save_stack(self._start.file, moment, self._observer.ledger, seconds, self._rows)
        self._signals.act()
        if request == STOP and ranks.count > 1:
            raise KeyboardInterrupt  # another rank received the signal
        self._saved = time.monotonic()
        if self._checkpoint_seconds:
            pause = min(2 * self._pause, self._checkpoint_seconds)
            self._pause = max(pause, (self._saved - now) / SAVING_SHARE)

    def _record(self, moment: Moment, seconds: float, over: bool) -> None:
        """Record readings, and runs that have ended, in one transaction."""
        store = self._store
        if store is None:
            return
        columns, ended = columns_by_key(self._readings), []
        with store.transaction():
            store.append(columns)
            diverged = {moment.stack.keys[lane] for lane in moment.diverged}
            tables = self._observer.device_tables.items()
            store.keep_devices({key: table for key, table in tables if key not in diverged})
            for lane, key in enumerate(moment.stack.keys):
                if lane in moment.diverged:
                    note = f"{_why_diverged(moment, lane)} after round {moment.round}"
                    store.finish(key, "diverged", wall_seconds=seconds, note=note)
                elif over:
                    store.finish(key, "finished", wall_seconds=seconds)
                if over or lane in moment.diverged:
                    ended.append(key)
        self._rows.update({key: len(table["round"]) for key, table in columns.items()})
        self._readings = []
        report_recorded(store, self._progress, columns, ended)


def _why_diverged(moment: Moment, lane: int) -> str:
    losses_l = moment.train_loss_l
    exploded = losses_l is not None and bool(losses_l[lane].isfinite())
    return f"loss {EXPLODED:g} times that at the start" if exploded else "no longer finite"


def report_recorded(
    store: Store, progress: Progress, columns: Mapping[str, Mapping[str, Any]], ended: Sequence[str]
) -> None:
    """Tell a callback that wants rows what was just recorded: columns and ended runs, by key."""
    if not progress.wants_rows:
        return
    for key, table in columns.items():
        if len(table["round"]) and (run := store.run(key)):
            progress.recorded(run, table)
    for key in ended:
        if run := store.run(key):
            progress.run_ended(run, store.final(key))


@contextmanager
def _warn_if_unsaved(stopping: bool) -> Iterator[None]:
    """Warn of a checkpoint that cannot be saved, and continue: hours of computing do not depend on
    it. Where nothing can be written any more, the store raises an error."""
    try:
        yield
    except RecordsError as error:
        go_on = "go on; if they are stopped, they resume from the previous checkpoint,"
        warn_user(
            f"{error} The runs {'will resume from there,' if stopping else go_on} or start again."
        )


def _begin(
    world: World, experiments: Sequence[Experiment], store: Store, deterministic: bool
) -> None:
    device = world.device
    conditions = run_conditions(len(experiments), deterministic, world.ranks)
    store.begin(
        {world.key(experiment): experiment for experiment in experiments},
        materials=world.fingerprints,
        world=world.experiment.world_key(world.fingerprints),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        versions={**versions(), **conditions},
    )
