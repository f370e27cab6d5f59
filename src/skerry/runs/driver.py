"""The driver: plans, hands stacks out, takes their news, records. It alone writes to the store.

What keeps records whole: a stack's runs are recorded as finished in one transaction, and only
those that are not finished yet; and a world has one driver at a time, by a lock that the system
takes back from a process that dies. Two sweeps on one store share the worlds between them.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from filelock import FileLock

from skerry.config.experiment import Experiment
from skerry.engine.rehearsal import rehearse
from skerry.engine.world import Materials, outside
from skerry.errors import RecordsError, SkerryError, argument
from skerry.records.store import Store
from skerry.runs import stack_run
from skerry.runs.determinism import LANES, was_deterministic
from skerry.runs.executors.executor import POLL_SECONDS, Executor
from skerry.runs.executors.messages import (
    Done,
    Failed,
    Lost,
    News,
    Stuck,
    Survey,
    Task,
    Tick,
    TooBig,
    said,
)
from skerry.runs.grouping import cut, shape, stack_size, stacks
from skerry.runs.materials import with_sizes
from skerry.runs.memory import memory_in_words
from skerry.runs.presence import CHECKPOINTS, Place, UnderWay, announced, lock_world, unlock
from skerry.runs.progress import FoundFinished, Watcher
from skerry.runs.recording import record_done, record_failed
from skerry.runs.resume import counted_runs, tell
from skerry.runs.tracking import Tracker, tracked_store

ATTEMPTS = 3
"""So often a stack may lose its worker before it is split."""


class StoppedError(Exception):
    """A caller's stop rule has ended runs before their last round."""


@dataclass
class _Site:
    """A world under way."""

    lock: FileLock
    key: str
    tasks: int = 0
    failed: bool = False


class Driver:
    """Runs experiments in one place and records them in one folder, as often as it is asked to."""

    def __init__(
        self,
        executor: Executor,
        folder: Path,
        *,
        watcher: Watcher | None = None,
        materials: Materials | None = None,
        trackers: Sequence[Tracker] = (),
        again: bool = False,
        keep_going: bool = True,
        checkpoint_seconds: float | None = None,
        deterministic: bool = False,
    ):
        """`again` computes finished runs anew; `keep_going` records what fails as failed and goes
        on, where it would be raised otherwise. With infinite `checkpoint_seconds` there is nothing
        to go on from: what is broken off is forgotten. `deterministic` runs are computed one by
        one; finished ones that were not are computed anew."""
        self._executor, self._folder, self._trackers = executor, folder, trackers
        self._watcher, self._materials = watcher or Watcher(), materials or Materials()
        self._again, self._keep_going = again, keep_going
        self._deterministic = deterministic
        seconds = checkpoint_seconds
        self._checkpoint_seconds = stack_run.CHECKPOINT_SECONDS if seconds is None else seconds
        self._closing = ExitStack()
        self._store: Store | None = None
        self._keys: dict[str, str] = {}
        """Every run's key by that of its experiment's text alone."""
        self._queue: deque[Task] = deque()
        self._under_way = 0
        self._sites: dict[str, _Site] = {}
        self._fits: dict[str, int] = {}
        """By shape: the size of stacks after one did not fit."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def store(self) -> Store:
        """Opened when there is something to record: what cannot be run leaves no traces."""
        if self._store is None:
            self._store = self._closing.enter_context(tracked_store(self._folder, self._trackers))
            self._place = Place(self._store.path.parent, self._store.path)
            self._executor.begin(self._store, self._watcher, self._checkpoint_seconds)
        return self._store

    def run(
        self, experiments: Sequence[Experiment], until: Callable[[], bool] | None = None
    ) -> list[str]:
        """Run what is not recorded yet; gives every experiment's key, in their order. `until` is
        asked after every piece of news, as long as anything is left to do: when it is true, what is
        under way is forgotten, and StoppedError is raised."""
        experiments = with_sizes(experiments)
        groups = stacks(experiments)
        with memory_in_words():
            found = self._check(groups)
            self._watcher.planned(experiments)
            if found.world is not None:
                self._watcher.world_ready(found.world)
            self._queue.clear()
            self._under_way = 0
            self._sites.clear()
            self._finished = FoundFinished(self._watcher)
            if not self._again:  # what texts alone name is told at once: its world may open late
                named = [one for one in experiments if not outside(one, self._materials)]
                self._finished.tell(by_key := {one.key(): one for one in named}, self._done(by_key))
            with announced(self.store.path.parent, experiments):
                came_to_its_end = self._go(groups, until)
        if not came_to_its_end:
            raise StoppedError
        return [self._keys[experiment.key()] for experiment in experiments]

    def waiting(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """Those that are not recorded yet."""
        keys = {self.key(experiment): experiment for experiment in experiments}
        done = self._done(keys)
        return [experiment for key, experiment in keys.items() if key not in done]

    def _done(self, keys: Iterable[str]) -> set[str]:
        """Those that need not be computed."""
        done = self.store.finished(keys)
        if not self._deterministic:
            return done
        runs = map(self.store.run, done)
        return {run.key for run in runs if run is not None and was_deterministic(run.versions)}

    def key(self, experiment: Experiment) -> str:
        """Where all is told by an experiment's text, no world need be built to name its run."""
        text = experiment.key()
        if text not in self._keys:
            is_all = not outside(experiment, self._materials)
            found = {} if is_all else self._executor.survey(experiment).fingerprints
            self._keys[text] = experiment.key(found)
        return self._keys[text]

    def _check(self, groups: Sequence[Sequence[Experiment]]) -> Survey:
        """A world must be there before anything is written: faults leave no traces."""
        shapes: dict[str, Sequence[Experiment]] = {}
        for group in groups:
            shapes.setdefault(shape(group[0]), group)
        errors: list[Exception] = []
        for group in shapes.values():
            try:
                found = self._executor.survey(group[0])
                if not self._keep_going and found.world is not None:
                    rehearse(found.world, group)
            except Exception as error:  # a user's data and model may fail in any way
                if not self._keep_going:
                    raise
                errors.append(error)
            else:
                return found
        raise errors[0]

    def _go(self, groups: Sequence[Sequence[Experiment]], until: Callable[[], bool] | None) -> bool:
        """Whether it came to its end, before the caller's stop rule ended it."""
        ahead = deque(groups)
        self._worlds = len(groups)
        self._progress = UnderWay(self.store.path.parent)
        try:
            while ahead or self._queue or self._under_way:
                if until is not None and until():
                    self._drop(groups)
                    return False
                while self._under_way < self._executor.slots and (task := self._next(ahead)):
                    self._executor.submit(task)
                    self._under_way += 1
                    self._watcher.stack_begun(task)
                if not self._under_way and ahead:
                    self._watcher.waiting(len(ahead))
                    time.sleep(POLL_SECONDS)
                for task, news in self._executor.news():
                    self._take(task, news)
                self._place.check()
            return True
        except BaseException:
            if math.isinf(self._checkpoint_seconds):
                with suppress(RecordsError):  # the error that broke it off is the one to tell
                    self._drop(groups)
            raise
        finally:
            self._progress.close()
            for site in self._sites.values():
                unlock(site.lock)
            with suppress(OSError):  # there are checkpoints in it, or another sweep
                (self.store.path.parent / CHECKPOINTS).rmdir()

    def _drop(self, groups: Sequence[Sequence[Experiment]]) -> None:
        """Forget what has begun and will not come to its end."""
        self._executor.drop()
        begun = {
            self._keys[experiment.key()]
            for group in groups
            if group[0].world_key() in self._sites
            for experiment in group
            if experiment.key() in self._keys  # else its world could not be built
        }
        self.store.forget(begun - self.store.finished(begun))

    # Handing out

    def _next(self, ahead: deque[Sequence[Experiment]]) -> Task | None:
        """A task of an open world, or else the first of the next world that nobody works on."""
        for _ in range(len(ahead)):
            if self._queue:
                break
            group = ahead.popleft()
            if lock := lock_world(self.store.path.parent, group[0].world_key()):
                self._open(group, lock)
            else:
                ahead.append(group)
        if not self._queue:
            return None
        task = self._queue.popleft()
        fits = self._fits.get(shape(task.experiments[0]), len(task))
        if len(task) > fits:
            self._requeue(task, cut(task.experiments, fits))
            task = self._queue.popleft()
        return task

    def _open(self, group: Sequence[Experiment], lock: FileLock) -> None:
        """Plan what waits in a world. One that is all recorded need not be built."""
        site = self._sites[group[0].world_key()] = _Site(lock, group[0].world_key())
        if not outside(group[0], self._materials) and not self._again:
            keys = [experiment.key() for experiment in group]
            if len(self._done(keys)) == len(keys):
                self._keys |= zip(keys, keys, strict=True)
                self._finished.tell(dict(zip(keys, group, strict=True)), keys)
                self._close(site)
                return
        try:
            survey = self._executor.survey(group[0]).keeping(group)
        except Exception as error:  # a user's data and model may fail in any way
            if not self._keep_going:
                raise
            self._fail(group, {}, said(error))
            site.failed = True
            self._close(site)
            return
        self._plan(group, survey, site)

    def _plan(self, group: Sequence[Experiment], survey: Survey, site: _Site) -> None:
        site.key = group[0].world_key(survey.fingerprints)
        by_key = {experiment.key(survey.fingerprints): experiment for experiment in group}
        self._keys |= {experiment.key(): key for key, experiment in by_key.items()}
        if survey.fingerprints:  # such a world that failed to be built has left its bare keys
            self.store.forget(experiment.key() for experiment in group)
        if self._again:
            self.store.forget(by_key)
            self._executor.clear(site.key)
        done = self._done(by_key)
        if others := self.store.finished(by_key) - done:
            tell(
                f"{self.store.path} holds {counted_runs(len(others))} of these that were not "
                f"computed with {argument('deterministic')}. Computed again."
            )
            self.store.forget(others)
        waiting = [experiment for key, experiment in by_key.items() if key not in done]
        self._finished.tell(by_key, done)
        if survey.world is not None:
            self._watcher.world_ready(survey.world)
        size = stack_size(len(waiting), self._worlds, survey, self._executor)
        for lanes in cut(waiting, LANES if self._deterministic else size):
            # Without the world: it must not be kept when the next one is built.
            known = replace(survey, world=None)
            self._queue.append(Task(tuple(lanes), known, deterministic=self._deterministic))
            site.tasks += 1
        if not site.tasks:
            self._close(site)

    def _requeue(self, task: Task, pieces: Sequence[Sequence[Experiment]]) -> None:
        """First in the queue: its world is at hand."""
        self._queue.extendleft(task.of(lanes) for lanes in reversed(pieces))
        self._sites[task.experiments[0].world_key()].tasks += len(pieces) - 1

    # Taking in

    def _take(self, task: Task, news: News) -> None:
        if isinstance(news, Tick):
            self._progress.at(task.keys, task.mean_round(news))
            self._watcher.tick(task, news)
            return
        self._under_way -= 1
        self._progress.over(task.keys)
        match news:
            case Done():
                self._record(task, news)
            case Stuck():
                raise RecordsError(news.message)
            case TooBig() if len(task) > 1:
                self._halve(task, remember=True)
            case Failed() | TooBig() if not self._keep_going:
                raise news.error or SkerryError(news.message)
            case Failed() if len(task) > 1 and not news.whole_world:
                self._halve(task)
            case Lost() if task.attempts + 1 < ATTEMPTS:
                self._queue.appendleft(replace(task, attempts=task.attempts + 1))
            case Lost() if len(task) > 1:
                self._halve(task)
            case _:
                self._give_up(task, news.message)

    def _halve(self, task: Task, remember: bool = False) -> None:
        """A stack that is too big fits in halves; one with a faulty lane has a sound half."""
        half = -(-len(task) // 2)
        if remember:
            self._fits[shape(task.experiments[0])] = half
        self._watcher.stack_split(task)
        self._requeue(task, cut(task.experiments, half))

    def _record(self, task: Task, done: Done) -> None:
        record_done(self.store, task, done)
        self._watcher.stack_done(task, self.store.finals(task.keys))
        self._leave(task)

    def _give_up(self, task: Task, message: str) -> None:
        self._fail(task.experiments, task.survey.fingerprints, message)
        self._watcher.stack_done(task, {})
        self._sites[task.experiments[0].world_key()].failed = True
        self._leave(task)

    def _fail(
        self, experiments: Sequence[Experiment], fingerprints: dict[str, str], message: str
    ) -> None:
        by_key = {experiment.key(fingerprints): experiment for experiment in experiments}
        self._keys |= {experiment.key(): key for key, experiment in by_key.items()}
        record_failed(self.store, by_key, fingerprints, message)
        self._watcher.failed(experiments, message)

    def _leave(self, task: Task) -> None:
        site = self._sites[task.experiments[0].world_key()]
        site.tasks -= 1
        if not site.tasks:
            self._close(site)

    def _close(self, site: _Site) -> None:
        if not site.failed:
            self._executor.clear(site.key)
        unlock(site.lock)
