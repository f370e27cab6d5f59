"""Run the lanes of a world to their last round: measure, record, save checkpoints, resume."""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import EXPLODED, Moment, is_evaluated, simulate
from skerry.engine.stack import build_stack
from skerry.engine.state import keep_lanes
from skerry.engine.world import World
from skerry.errors import CallbackError, RecordsError
from skerry.measure.observer import Columns, Observer, Reading, columns_by_key
from skerry.records import checkpoint
from skerry.records.store import Store, versions
from skerry.runs.executors.executor import StepCounter, Tick
from skerry.runs.process import HeldSignals, run_conditions
from skerry.runs.progress import Progress
from skerry.runs.resume import StackStart, find_starts, save_stack, warn_user
from skerry.runs.stopping import Endings, StopDecider

CHECKPOINT_SECONDS = 60.0  # from one checkpoint to the next; 0 saves after every round
FIRST_SECONDS = 2.0  # until the first checkpoint; the times between them double from there
SAVING_SHARE = 0.05  # of the time, at most; large models are saved less often
SAVING_SPEED = 5e8  # bytes per second that a disk is assumed to write before anything was saved

CONTINUE, SAVE, STOP = range(3)  # requests of a rank after a round; the largest counts


class EndAfterRoundError(Exception):
    """Thrown into `run_lanes` at a tick to save a checkpoint of this round and end."""


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
        stops = progress.wants_values or any(one.stop for one in start.stack.experiments)
        world.ranks.broadcast(
            do="run",
            lanes=start.stack.keys,
            file=str(start.file.absolute()),
            resumed=start.state is not None,
            checkpoint_seconds=checkpoint_seconds,
            stops=stops,
        )
        with StackRecorder(start, store, checkpoint_seconds, progress, stops) as recorder:
            for moment in simulate(start.stack, start.state):
                recorder.measure(moment)
                if tick := counter.count(moment):
                    try:
                        yield tick
                    except EndAfterRoundError:
                        recorder.save(moment, last=True)
                        raise
                recorder.save(moment)


class StackRecorder:
    """Context that measures, records and checkpoints a stack, moment by moment.

    Rows reach the store before the checkpoint that counts them. A kill in between leaves rows that
    the next start removes, so nothing before the checkpoint is lost and nothing recorded twice.

    A signal that ends the process acts between rounds, after a checkpoint, and so does an error of
    a progress callback. Of several ranks only the first has a store; all save when one of them
    requests it.
    """

    def __init__(
        self,
        start: StackStart,
        store: Store | None,
        checkpoint_seconds: float,
        progress: Progress | None = None,
        stops: bool = False,
    ):
        """`stops` tells that lanes may end early, by a rule or by the callback."""
        self._start, self._store = start, store
        self._progress = progress or Progress()
        self._error: CallbackError | None = None
        self._kept: set[Path] = set()  # checkpoints of lanes that the callback has ended
        self._endings, self._decider = Endings(), self._make_decider() if stops else None
        self._checkpoint_seconds = checkpoint_seconds
        self._observer = Observer(start.stack, start.ledger, keeps_scores=stops)
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

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                if self._store is not None and self._start.file not in self._kept:
                    checkpoint.remove_checkpoint(self._start.file)
                self._signals.act()
                if self._error is not None:
                    raise self._error
            elif self._store and issubclass(kind, Exception) and len(self._start.stack) == 1:
                # A stack that is split starts again; this run ends here, with what it has measured.
                with suppress(RecordsError):  # the first error is the one to report
                    self._append_rows()
        finally:
            self._signals.__exit__()

    def measure(self, moment: Moment) -> None:
        """Evaluate the models, where the moment is due for it, and decide which lanes end."""
        reading = self._observer.read(moment)
        self._endings = Endings()
        if reading and self._store is not None:
            self._readings.append(reading)
        if reading and self._decider is not None:
            reading = self._end_lanes(moment, reading, self._decider)
            self._readings[-1:] = [reading] if self._store is not None else []
        self._call(self._progress.moment, moment)

    def _make_decider(self) -> StopDecider:
        start, store = self._start, self._store
        ask = partial(self._call, self._progress.measured)
        wanted = ask if self._progress.wants_values else None
        decider = StopDecider(start.stack.world, wanted)
        if start.state is not None and store is not None:
            for key in start.stack.keys:
                decider.load(key, store.history(key), start.state.t)
        return decider

    def _end_lanes(self, moment: Moment, reading: Reading, decider: StopDecider) -> Reading:
        """End the lanes that a rule or the callback ends; the first rank decides for all."""
        found = Endings()
        if self._store is not None:
            values = decider.add(reading)
            if moment.phase == "start" or is_evaluated(moment.stack, moment.round):
                found = decider.decide(moment, values)
        self._endings = Endings.shared(moment.stack.world.ranks, found)
        stopped = sorted(self._endings.stopped)
        moment.ended.extend([*stopped, *self._endings.paused])
        return self._observer.complete(moment, reading, stopped)

    def _call(self, method: Callable[..., Any], *values: Any) -> Any:
        """Call a callback; its first error waits for the end of the round."""
        try:
            return method(*values)
        except CallbackError as error:
            self._error = self._error or error

    def save(self, moment: Moment, last: bool = False) -> None:
        """At the end of a round, record what is due; save if it is time, or the `last` round."""
        if moment.phase != "end" or (last and math.isinf(self._checkpoint_seconds)):
            return
        ranks, now = moment.stack.world.ranks, time.monotonic()
        seconds = self._start.seconds + now - self._began
        over = moment.round == moment.stack.world.rounds
        request = SAVE if now - self._saved >= self._pause else CONTINUE
        stops = last or self._signals.is_stop_requested or self._error is not None
        request = ranks.maximum(STOP if stops else request)
        due = request != CONTINUE
        ends = bool(moment.diverged or moment.ended)
        if over or due or ends:
            self._record(moment, seconds, over)
        for lane in self._endings.paused:
            self._kept.add(file := self._start.file_of([moment.stack.keys[lane]]))
            self._save_lanes(file, moment, [lane], seconds, stopping=True)
        lanes = range(len(moment.stack))
        going = [lane for lane in lanes if lane not in {*moment.diverged, *moment.ended}]
        if not due or over or not going:
            return
        self._save_lanes(self._start.file, moment, going, seconds, stopping=request == STOP)
        self._signals.act()
        if self._error is not None:
            raise self._error
        if request == STOP and ranks.count > 1 and not last:
            raise KeyboardInterrupt  # another rank received the signal
        self._saved = time.monotonic()
        if self._checkpoint_seconds:
            pause = min(2 * self._pause, self._checkpoint_seconds)
            self._pause = max(pause, (self._saved - now) / SAVING_SHARE)

    def _save_lanes(
        self, file: Path, moment: Moment, lanes: Sequence[int], seconds: float, stopping: bool
    ) -> None:
        if len(lanes) < len(moment.stack):
            experiments = [moment.stack.experiments[lane] for lane in lanes]
            stack = build_stack(moment.stack.world, experiments)
            moment = replace(moment, stack=stack, state=keep_lanes(moment.state, list(lanes)))
        with _warn_if_unsaved(stopping):
            save_stack(file, moment, self._observer.ledger, seconds, self._rows)

    def _record(self, moment: Moment, seconds: float, over: bool) -> None:
        """Record readings, and runs that have ended, in one transaction."""
        store, ended = self._store, []
        if store is None:
            return
        keys, rounds = moment.stack.keys, moment.stack.world.rounds
        with store.transaction():
            columns = self._append_rows()
            for lane, key in enumerate(keys):
                table = self._observer.device_tables.pop(key, None)
                if lane in moment.diverged:
                    note = f"{_why_diverged(moment, lane)} after round {moment.round}"
                    store.finish(key, "diverged", wall_seconds=seconds, note=note)
                elif over or lane in self._endings.stopped:
                    reason = self._endings.stopped.get(lane)
                    note = f"stopped after round {moment.round} of {rounds}: {reason}"
                    store.keep_devices({key: table} if table else {})
                    note = note if reason else ""
                    store.finish(key, "finished", wall_seconds=seconds, note=note)
                else:
                    if reason := self._endings.paused.get(lane):
                        where = f"after round {moment.round} of {rounds}"
                        store.annotate(key, f"ended by the progress callback {where}: {reason}")
                    continue
                ended.append(key)
        self._call(report_recorded, store, self._progress, columns, ended)

    def _append_rows(self) -> dict[str, Columns]:
        assert self._store is not None
        columns = columns_by_key(self._readings)
        self._store.append(columns)
        self._rows.update({key: len(table["round"]) for key, table in columns.items()})
        self._readings = []
        return columns


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


def _begin(world: World, experiments: Sequence[Experiment], store: Store, alone: bool) -> None:
    device = world.device
    conditions = run_conditions(len(experiments), alone, world.ranks)
    store.begin(
        {world.key(experiment): experiment for experiment in experiments},
        materials=world.fingerprints,
        world=world.experiment.world_key(world.fingerprints),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        versions={**versions(), **conditions},
    )
