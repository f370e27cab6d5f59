"""The driver: plans, hands stacks out, takes their news, records. It alone writes to the store.

What keeps records whole: a stack's runs are recorded as finished in one transaction, and only
those that are not finished yet; and a world has one driver at a time, by a lock that the system
takes back from a process that dies. Two sweeps on one store share the worlds between them.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from skerry.engine.rehearsal import rehearse
from skerry.engine.world import Materials, outside
from skerry.errors import RecordsError, SkerryError, one_line
from skerry.experiment import Experiment
from skerry.records.store import Store, versions
from skerry.sweep import execute
from skerry.sweep.announcement import CHECKPOINTS, announced
from skerry.sweep.executors import POLL_SECONDS, Executor
from skerry.sweep.given import with_sizes_of_files
from skerry.sweep.plan import cut, shape, stacks
from skerry.sweep.run import Watcher
from skerry.sweep.tasks import Done, Failed, Lost, News, Stuck, Survey, Task, Tick, TooBig
from skerry.sweep.tracking import Tracker, tracked_store

ATTEMPTS = 3
"""So often a stack may lose its worker before it is split."""


@dataclass(frozen=True)
class Manner:
    """How runs are driven."""

    again: bool = False
    """Compute finished runs anew."""
    keep_going: bool = True
    """Record what fails as failed and go on; else raise it."""
    checkpoint_seconds: float | None = None


@contextmanager
def driven(
    experiments: Sequence[Experiment],
    executor: Executor,
    folder: Path,
    watcher: Watcher,
    manner: Manner,
    materials: Materials | None = None,
    tracking: Sequence[Tracker] = (),
) -> Iterator[tuple[Store, list[str]]]:
    """Run what is not recorded yet; gives the store, and every experiment's key in their order."""
    experiments = with_sizes_of_files(experiments)
    groups = stacks(experiments)
    found = _check(groups, executor, manner.keep_going)
    watcher.planned(experiments)
    if found.world is not None:
        watcher.world_ready(found.world)
    seconds = manner.checkpoint_seconds
    with tracked_store(folder, tracking) as store, announced(folder, experiments):
        executor.begin(store, watcher, execute.CHECKPOINT_SECONDS if seconds is None else seconds)
        driver = _Driver(executor, store, watcher, manner, materials or Materials())
        driver.go(groups)
        yield store, [driver.keys[experiment.key()] for experiment in experiments]


def stack_size(waiting: int, worlds: int, survey: Survey, executor: Executor) -> int:
    """As many lanes as fit, or so few that every slot has work where there are few worlds."""
    fits = survey.footprint.lanes(executor.sharers(survey.footprint))
    pieces = -(-executor.slots // worlds)
    return max(1, min(fits, -(-waiting // pieces)))


def _check(groups: Sequence[Sequence[Experiment]], executor: Executor, keep_going: bool) -> Survey:
    """A world must be there before anything is written: faults leave no traces."""
    shapes: dict[str, Sequence[Experiment]] = {}
    for group in groups:
        shapes.setdefault(shape(group[0]), group)
    errors: list[Exception] = []
    for group in shapes.values():
        try:
            found = executor.survey(group[0])
            if not keep_going and found.world is not None:
                rehearse(found.world, group)
        except Exception as error:  # a user's data and model may fail in any way
            if not keep_going:
                raise
            errors.append(error)
        else:
            return found
    raise errors[0]


@dataclass
class _Site:
    """A world under way."""

    lock: FileLock
    key: str
    tasks: int = 0
    failed: bool = False


class _Driver:
    def __init__(
        self,
        executor: Executor,
        store: Store,
        watcher: Watcher,
        manner: Manner,
        materials: Materials,
    ):
        self._executor, self._store, self._watcher = executor, store, watcher
        self._manner, self._materials = manner, materials
        self.keys: dict[str, str] = {}
        """Every run's key by that of its experiment's text alone."""
        self._queue: deque[Task] = deque()
        self._under_way = 0
        self._sites: dict[str, _Site] = {}
        self._fits: dict[str, int] = {}
        """By shape: the size of stacks after one did not fit."""

    def go(self, groups: Sequence[Sequence[Experiment]]) -> None:
        ahead = deque(groups)
        self._worlds = len(groups)
        try:
            while ahead or self._queue or self._under_way:
                while self._under_way < self._executor.slots and (task := self._next(ahead)):
                    self._executor.submit(task)
                    self._under_way += 1
                    self._watcher.stack_begun(task)
                if not self._under_way and ahead:
                    self._watcher.waiting(len(ahead))
                    time.sleep(POLL_SECONDS)
                for task, news in self._executor.news():
                    self._take(task, news)
        finally:
            for site in self._sites.values():
                self._unlock(site)
            with suppress(OSError):  # there are checkpoints in it, or another sweep
                (self._store.path.parent / CHECKPOINTS).rmdir()

    # Handing out

    def _next(self, ahead: deque[Sequence[Experiment]]) -> Task | None:
        """A task of an open world, or else the first of the next world that nobody works on."""
        for _ in range(len(ahead)):
            if self._queue:
                break
            group = ahead.popleft()
            if lock := self._lock(group[0]):
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

    def _lock(self, experiment: Experiment) -> FileLock | None:
        """None where another driver has this world."""
        folder = self._store.path.parent / CHECKPOINTS
        lock = FileLock(folder / f"{experiment.world_key()}.lock")
        try:
            folder.mkdir(exist_ok=True)
            lock.acquire(timeout=0)
        except (Timeout, FileNotFoundError):  # another driver has it, or has just tidied up
            return None
        except NotImplementedError:
            return lock  # a file system without locks; the store still keeps rows from mixing
        except OSError as error:
            raise RecordsError(
                f"cannot write to {folder} ({error.strerror}). Choose another folder."
            ) from None
        if not Path(lock.lock_file).exists():  # the one before has removed it in this instant
            lock.release()
            return None
        return lock

    def _unlock(self, site: _Site) -> None:
        if site.lock.is_locked:
            with suppress(OSError):
                Path(site.lock.lock_file).unlink()
            site.lock.release()

    def _open(self, group: Sequence[Experiment], lock: FileLock) -> None:
        """Plan what waits in a world. One that is all recorded need not be built."""
        site = self._sites[group[0].world_key()] = _Site(lock, group[0].world_key())
        if not outside(group[0], self._materials) and not self._manner.again:
            keys = [experiment.key() for experiment in group]
            if len(self._store.finished(keys)) == len(keys):
                self.keys |= zip(keys, keys, strict=True)
                self._watcher.found_finished(group)
                self._close(site)
                return
        try:
            survey = self._executor.survey(group[0])
        except Exception as error:  # a user's data and model may fail in any way
            if not self._manner.keep_going:
                raise
            self._fail(group, {}, _said(error))
            site.failed = True
            self._close(site)
            return
        self._plan(group, survey, site)

    def _plan(self, group: Sequence[Experiment], survey: Survey, site: _Site) -> None:
        site.key = group[0].world_key(survey.fingerprints)
        by_key = {experiment.key(survey.fingerprints): experiment for experiment in group}
        self.keys |= {experiment.key(): key for key, experiment in by_key.items()}
        if survey.fingerprints:  # such a world that failed to be built has left its bare keys
            self._store.forget(experiment.key() for experiment in group)
        if self._manner.again:
            self._store.forget(by_key)
            self._executor.clear(site.key)
        done = self._store.finished(by_key)
        waiting = [experiment for key, experiment in by_key.items() if key not in done]
        self._watcher.found_finished([by_key[key] for key in by_key if key in done])
        if survey.world is not None:
            self._watcher.world_ready(survey.world)
        for lanes in cut(waiting, stack_size(len(waiting), self._worlds, survey, self._executor)):
            # Without the world: it must not be kept when the next one is built.
            self._queue.append(Task(tuple(lanes), replace(survey, world=None)))
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
            self._watcher.tick(task, news)
            return
        self._under_way -= 1
        match news:
            case Done():
                self._record(task, news)
            case Stuck():
                raise RecordsError(news.message)
            case TooBig() if len(task) > 1:
                self._halve(task, remember=True)
            case Failed() | TooBig() if not self._manner.keep_going:
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
        experiments = dict(zip(task.keys, task.experiments, strict=True))
        with self._store.transaction():
            recorded = self._store.finished(experiments)
            for outcome in done.outcomes:
                if outcome.key in recorded:
                    continue
                self._store.begin(
                    outcome.key,
                    experiments[outcome.key],
                    materials=task.survey.fingerprints,
                    world=task.world,
                    device=outcome.device,
                    versions=outcome.versions,
                )
                self._store.rewind([outcome.key], -1)
                self._store.append({outcome.key: outcome.columns()})
                self._store.finish(
                    outcome.key,
                    outcome.status,
                    wall_seconds=outcome.wall_seconds,
                    note=outcome.note,
                )
        self._watcher.stack_done(task, self._store.finals(task.keys))
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
        self.keys |= {experiment.key(): key for key, experiment in by_key.items()}
        with self._store.transaction():
            self._store.begin_all(
                by_key,
                materials=fingerprints,
                world=experiments[0].world_key(fingerprints),
                device="",
                versions=versions(),
            )
            for key in by_key:
                self._store.finish(key, "failed", wall_seconds=0.0, note=message)
        self._watcher.failed(experiments, message)

    def _leave(self, task: Task) -> None:
        site = self._sites[task.experiments[0].world_key()]
        site.tasks -= 1
        if not site.tasks:
            self._close(site)

    def _close(self, site: _Site) -> None:
        if not site.failed:
            self._executor.clear(site.key)
        self._unlock(site)


def _said(error: Exception) -> str:
    return "; ".join(error.faults) if isinstance(error, SkerryError) else one_line(error)
