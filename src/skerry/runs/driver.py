"""The driver: plans stacks, submits them to an executor, and records their results.

Only the driver writes to its store. The runs of a stack are recorded as finished in one
transaction, unless they are finished already. A world has one driver at a time, by a lock that the
system releases when a process dies, so two sweeps on one store share the worlds between them.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from filelock import FileLock

from skerry.analysis.results import results_of
from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, outside
from skerry.errors import CallbackError, RecordsError, SkerryError, argument
from skerry.plugins.fingerprint import refuse_changed
from skerry.plugins.registry import errors_of
from skerry.records.activity import (
    CHECKPOINT_FOLDER,
    FolderGuard,
    Presence,
    lock_world,
    unlock_world,
)
from skerry.records.store import Store, versions
from skerry.runs import stack_run
from skerry.runs.executors.executor import (
    POLL_SECONDS,
    Done,
    Event,
    Executor,
    Failure,
    StackJob,
    Tick,
    WorldSurvey,
    choose_stack_size,
    error_line,
    group_by_world,
    memory_shape,
    rehearse_plugins,
    split_lanes,
)
from skerry.runs.executors.here import Here
from skerry.runs.materials import with_sizes
from skerry.runs.memory import explain_memory_errors
from skerry.runs.process import DETERMINISTIC_LANES, was_deterministic
from skerry.runs.progress import Progress
from skerry.runs.resume import count_runs, warn_user

ATTEMPTS = 3  # how often a stack may lose its worker before it is split


class StoppedError(Exception):
    """A caller's stop rule has ended runs before their last round."""


@dataclass
class _OpenWorld:
    """A world whose runs are planned or running."""

    lock: FileLock
    key: str
    jobs: int = 0
    failed: bool = False  # whether some of its runs are not finished; then checkpoints are kept


class Driver:
    """Runs experiments on one executor and records them in one folder."""

    def __init__(
        self,
        executor: Executor,
        folder: Path,
        *,
        progress: Progress | None = None,
        materials: Materials | None = None,
        again: bool = False,
        keep_going: bool = True,
        checkpoint_seconds: float | None = None,
        deterministic: bool = False,
    ):
        """`again` recomputes finished runs. `keep_going` records errors of runs and continues,
        instead of raising them. With infinite `checkpoint_seconds` nothing can be resumed, so
        interrupted runs are removed. `deterministic` computes runs one by one, and recomputes
        finished ones that were not deterministic."""
        self._executor, self._folder = executor, folder
        self._progress, self._materials = progress or Progress(), materials or Materials()
        self._again, self._keep_going = again, keep_going
        self._deterministic = deterministic
        seconds = checkpoint_seconds
        self._checkpoint_seconds = stack_run.CHECKPOINT_SECONDS if seconds is None else seconds
        self._closing = ExitStack()
        self._closing.callback(self._progress.close)
        self._store: Store | None = None
        self._checked: set[str] = set()  # the names of a user's own code that is as it was
        self._keys: dict[str, str] = {}  # by key of an experiment's text, the key of its run
        self._queue: deque[StackJob] = deque()
        self._running = 0
        self._open_worlds: dict[str, _OpenWorld] = {}
        self._fits: dict[str, int] = {}  # by memory shape, the size of stacks after one did not fit
        self._surveyed: tuple[str, WorldSurvey] | None = None
        """The world that was surveyed before anything was written, by its key."""
        self._rehearsed: set[str] = set()  # the keys of worlds whose plug-ins were tried then

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()

    @property
    def store(self) -> Store:
        """The store, opened when it is needed: an experiment that cannot run leaves no file."""
        if self._store is None:
            self._store = self._closing.enter_context(Store.open(self._folder))
            self._guard = FolderGuard(self._store.path.parent, self._store.path)
            self._executor.start(self._store, self._progress, self._checkpoint_seconds)
        return self._store

    def run(
        self, experiments: Sequence[Experiment], until: Callable[[], bool] | None = None
    ) -> list[str]:
        """Run what is not recorded yet; returns every experiment's key, in order. `until` is called
        after every event while runs are left: when it is true, unfinished runs are removed and
        StoppedError is raised."""
        own = {name for one in experiments for _, name in one.users_own()} - self._checked
        refuse_changed(own, imported_again=not isinstance(self._executor, Here))
        self._checked |= own
        experiments = with_sizes(experiments)
        groups = group_by_world(experiments)
        ahead: deque[Sequence[Experiment]] = deque(groups)
        with explain_memory_errors(), self._session(experiments, groups):
            while ahead or self._queue or self._running:
                if until is not None and until():
                    self._forget_unfinished(groups)
                    break
                self._submit(ahead)
                self._refuse_idle()
                with self._users_own():
                    events = self._executor.events()
                for job, event in events:
                    self._take(job, event)
                self._guard.check()
        if ahead or self._queue or self._running:
            raise StoppedError
        return [self._keys[experiment.key()] for experiment in experiments]

    def waiting(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        keys = {self.key(experiment): experiment for experiment in experiments}
        done = self._done(keys)
        return [experiment for key, experiment in keys.items() if key not in done]

    def key(self, experiment: Experiment) -> str:
        """The key of an experiment's run; builds its world only if the key depends on it."""
        text = experiment.key()
        if text not in self._keys:
            is_all = not outside(experiment, self._materials)
            found = {} if is_all else self._executor.survey(experiment).fingerprints
            self._keys[text] = experiment.key(found)
        return self._keys[text]

    def _done(self, keys: Iterable[str]) -> set[str]:
        """The keys of runs that need not be computed."""
        done = self.store.finished(keys)
        if not self._deterministic:
            return done
        runs = map(self.store.run, done)
        return {run.key for run in runs if run is not None and was_deterministic(run.versions)}

    @contextmanager
    def _session(
        self, experiments: Sequence[Experiment], groups: Sequence[Sequence[Experiment]]
    ) -> Iterator[None]:
        """Check that something can run, announce the plan, and clean up at the end."""
        self._survey_first(groups)
        self._progress.planned(experiments)
        if self._surveyed and self._surveyed[1].world is not None:
            self._progress.world_ready(self._surveyed[1].world)
        self._queue.clear()
        self._running, self._worlds = 0, len(groups)
        self._open_worlds.clear()
        self._reported: set[str] = set()
        if not self._again:  # finished runs whose keys need no world are reported at once
            named = [one for one in experiments if not outside(one, self._materials)]
            by_key = {one.key(): one for one in named}
            self._report_finished(by_key, self._done(by_key))
        try:
            with Presence(self.store.path, experiments) as self._presence:
                yield
        except BaseException as error:
            if isinstance(error, CallbackError | KeyboardInterrupt):
                # Executors of a user's own need not have it.
                getattr(self._executor, "interrupt", self._executor.cancel)()
            if isinstance(error, CallbackError):
                known = self.store.keys()
                keys = dict.fromkeys(key for key in self._keys.values() if key in known)
                error.results = results_of(self.store, keys)
            with suppress(RecordsError):  # the first error is the one to report
                if math.isinf(self._checkpoint_seconds):
                    self._forget_unfinished(groups)
                elif isinstance(error, Exception) and not isinstance(
                    error, RecordsError | CallbackError
                ):
                    self._fail_begun(groups, error_line(error))
            raise
        finally:
            for world in self._open_worlds.values():
                unlock_world(world.lock)
            with suppress(OSError):  # it holds checkpoints, or locks of another sweep
                (self.store.path.parent / CHECKPOINT_FOLDER).rmdir()

    def _survey_first(self, groups: Sequence[Sequence[Experiment]]) -> None:
        """Build a world before anything is written, so that an error leaves no files."""
        self._rehearsed.clear()
        shapes: dict[str, Sequence[Experiment]] = {}
        for group in groups:
            shapes.setdefault(memory_shape(group[0]), group)
        errors: list[Exception] = []
        for group in shapes.values():
            try:
                found = self._executor.survey(group[0])
                if not self._keep_going and found.world is not None:
                    rehearse_plugins(found.world, group)
                    self._rehearsed.add(group[0].world_key())
            except Exception as error:  # a user's data and model may raise anything
                if not self._keep_going:
                    raise
                errors.append(error)
            else:
                self._surveyed = group[0].world_key(), found
                return
        raise errors[0]

    def _report_finished(self, by_key: Mapping[str, Experiment], done: Collection[str]) -> None:
        """Report runs that were recorded before, each once."""
        fresh = {key: by_key[key] for key in by_key if key in done and key not in self._reported}
        self._reported |= fresh.keys()
        self._progress.found_finished(list(fresh.values()))

    def _forget_unfinished(self, groups: Sequence[Sequence[Experiment]]) -> None:
        """Cancel all jobs, and remove the runs that have started and will not finish."""
        self._executor.cancel()
        begun = self._begun(groups)
        self.store.forget(begun - self.store.finished(begun))

    def _fail_begun(self, groups: Sequence[Sequence[Experiment]], message: str) -> None:
        """Record the runs that have started and will not finish as failed, not as running."""
        with self.store.transaction():
            for run in map(self.store.run, self._begun(groups)):
                if run is not None and run.status == "running":
                    self.store.finish(run.key, "failed", wall_seconds=0.0, note=message)

    def _begun(self, groups: Sequence[Sequence[Experiment]]) -> set[str]:
        """The keys of the runs of worlds that this driver has opened."""
        return {
            self._keys[experiment.key()]
            for group in groups
            if group[0].world_key() in self._open_worlds
            for experiment in group
            if experiment.key() in self._keys  # else its world could not be built
        }

    def _submit(self, ahead: deque[Sequence[Experiment]]) -> None:
        """Fill the free slots; wait where other drivers work on all worlds that are left."""
        while self._running < self._executor.slots and (job := self._next(ahead)):
            with self._users_own():
                self._executor.submit(job)
            self._running += 1
            self._progress.stack_begun(job)
        if not self._running and ahead:
            self._progress.waiting(len(ahead))
            time.sleep(POLL_SECONDS)

    def _users_own(self) -> AbstractContextManager[None]:
        """Raise errors of a user's own executor in one line."""
        kind = type(self._executor)
        own = not kind.__module__.startswith("skerry.")
        return errors_of("executor", kind.__qualname__) if own else nullcontext()

    def _refuse_idle(self) -> None:
        """Raise SkerryError if the executor has nothing to do, but was given a job."""
        if self._running and getattr(self._executor, "is_idle", False):
            raise SkerryError(
                f"executor '{type(self._executor).__qualname__}' has lost a job: it has none, but "
                "no event told its end. Let submit start the job, and events return (job, Done())."
            )

    def _next(self, ahead: deque[Sequence[Experiment]]) -> StackJob | None:
        """A job of an open world, or the first one of the next world that is free."""
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
        job = self._queue.popleft()
        fits = self._fits.get(memory_shape(job.experiments[0]), len(job))
        if len(job) > fits:
            self._requeue(job, split_lanes(job.experiments, fits))
            job = self._queue.popleft()
        return job

    def _open(self, group: Sequence[Experiment], lock: FileLock) -> None:
        """Plan the jobs of a world; one whose runs are all recorded is not built."""
        name = group[0].world_key()
        world = self._open_worlds[name] = _OpenWorld(lock, name)
        if not outside(group[0], self._materials) and not self._again:
            keys = [experiment.key() for experiment in group]
            if len(self._done(keys)) == len(keys):
                self._keys |= zip(keys, keys, strict=True)
                self._report_finished(dict(zip(keys, group, strict=True)), keys)
                self._close(world)
                return
        try:
            survey = self._survey(group[0]).for_lanes(group)
        except Exception as error:  # a user's data and model may fail in any way
            if not self._keep_going:
                raise
            self._fail(group, {}, error_line(error))
            world.failed = True
            self._close(world)
            return
        self._plan(group, survey, world)

    def _survey(self, experiment: Experiment) -> WorldSurvey:
        """Survey a world, unless that was done before anything was written."""
        known, self._surveyed = self._surveyed, None  # the world must not be kept any longer
        if known and known[0] == experiment.world_key():
            return known[1]
        del known
        return self._executor.survey(experiment)

    def _plan(self, group: Sequence[Experiment], survey: WorldSurvey, world: _OpenWorld) -> None:
        world.key = group[0].world_key(survey.fingerprints)
        by_key = {experiment.key(survey.fingerprints): experiment for experiment in group}
        self._keys |= {experiment.key(): key for key, experiment in by_key.items()}
        if survey.fingerprints:  # if it failed to be built before, it is recorded without them
            self.store.forget(experiment.key() for experiment in group)
        if self._again:
            self.store.forget(by_key)
            self._executor.clear(world.key)
        done = self._done(by_key)
        if others := self.store.finished(by_key) - done:
            warn_user(
                f"{self.store.path} holds {count_runs(len(others))} of these that were not "
                f"computed with {argument('deterministic')}. Computed again."
            )
            self.store.forget(others)
        waiting = [experiment for key, experiment in by_key.items() if key not in done]
        self._report_finished(by_key, done)
        if survey.world is not None:
            self._progress.world_ready(survey.world)
        size = choose_stack_size(len(waiting), self._worlds, survey, self._executor)
        survey = replace(survey, world=None)  # it must not be kept when the next one is built
        rehearsed, alone = group[0].world_key() in self._rehearsed, self._deterministic
        for lanes in split_lanes(waiting, DETERMINISTIC_LANES if alone else size):
            job = StackJob(tuple(lanes), survey, deterministic=alone, rehearsed=rehearsed)
            self._queue.append(job)
            world.jobs += 1
        if not world.jobs:
            self._close(world)

    def _requeue(self, job: StackJob, pieces: Sequence[Sequence[Experiment]]) -> None:
        """Put the pieces of a job first in the queue, because its world is in memory."""
        jobs = (replace(job, experiments=tuple(lanes), attempts=0) for lanes in reversed(pieces))
        self._queue.extendleft(jobs)
        self._open_worlds[job.experiments[0].world_key()].jobs += len(pieces) - 1

    def _take(self, job: StackJob, event: Event) -> None:
        if isinstance(event, Tick):
            # Averaged over its lanes, some of which may resume from a later round.
            done = event.steps * job.experiments[0].rounds // job.steps
            self._presence.update(job.keys, done)
            self._progress.tick(job, event)
            return
        self._running -= 1
        self._presence.clear(job.keys)
        if isinstance(event, Done):
            self._record(job, event)
        else:
            self._handle(job, event)

    def _handle(self, job: StackJob, failure: Failure) -> None:
        """Split, retry or give up a job that has failed, or end all runs."""
        cause, several = failure.cause, len(job) > 1
        if cause == "store":
            raise RecordsError(failure.message)
        if cause == "memory" and several:
            self._halve(job, remember=True)
        elif cause != "worker" and not self._keep_going:
            raise failure.error or SkerryError(failure.message)
        elif cause == "worker" and job.attempts + 1 < ATTEMPTS:
            self._progress.stack_split(job)
            self._queue.appendleft(replace(job, attempts=job.attempts + 1))
        elif cause in ("lanes", "worker") and several:
            self._halve(job)
        else:
            self._fail(job.experiments, job.survey.fingerprints, failure.message)
            self._progress.stack_done(job, {})
            self._open_worlds[job.experiments[0].world_key()].failed = True
            self._leave(job)

    def _halve(self, job: StackJob, remember: bool = False) -> None:
        """Split a stack: one that is too big fits in halves; one half has no faulty lane."""
        half = -(-len(job) // 2)
        if remember:
            self._fits[memory_shape(job.experiments[0])] = half
        self._progress.stack_split(job)
        self._requeue(job, split_lanes(job.experiments, half))

    def _record(self, job: StackJob, done: Done) -> None:
        """Record the outcomes of a worker in one transaction, except runs that are finished."""
        recorded = self.store.finished(job.keys) if done.outcomes else set()
        outcomes = {one.run.key: one for one in done.outcomes if one.run.key not in recorded}
        by_key = dict(zip(job.keys, job.experiments, strict=True))
        with self.store.transaction():
            for key, outcome in outcomes.items():
                run = outcome.run
                self.store.begin(
                    {key: by_key[key]},
                    materials=job.survey.fingerprints,
                    world=job.world,
                    device=run.device,
                    versions=run.versions,
                )
                self.store.rewind([key], -1)
                self.store.append({key: outcome.history})
                if outcome.devices is not None:
                    self.store.keep_devices({key: outcome.devices})
                seconds = run.wall_seconds or 0.0
                self.store.finish(key, run.status, wall_seconds=seconds, note=run.note)
        histories = {key: outcome.history for key, outcome in outcomes.items()}
        stack_run.report_recorded(self.store, self._progress, histories, list(outcomes))
        if len(self.store.finished(job.keys)) < len(job):  # a callback has ended runs
            self._open_worlds[job.experiments[0].world_key()].failed = True
        self._progress.stack_done(job, self.store.finals(job.keys))
        self._leave(job)

    def _fail(
        self, experiments: Sequence[Experiment], fingerprints: dict[str, str], message: str
    ) -> None:
        by_key = {experiment.key(fingerprints): experiment for experiment in experiments}
        self._keys |= {experiment.key(): key for key, experiment in by_key.items()}
        with self.store.transaction():
            self.store.begin(
                by_key,
                materials=fingerprints,
                world=experiments[0].world_key(fingerprints),
                versions=versions(),
            )
            for key in by_key:
                self.store.finish(key, "failed", wall_seconds=0.0, note=message)
        stack_run.report_recorded(self.store, self._progress, {}, list(by_key))
        self._progress.failed(experiments, message)

    def _leave(self, job: StackJob) -> None:
        world = self._open_worlds[job.experiments[0].world_key()]
        world.jobs -= 1
        if not world.jobs:
            self._close(world)

    def _close(self, world: _OpenWorld) -> None:
        if not world.failed:
            self._executor.clear(world.key)
        unlock_world(world.lock)
