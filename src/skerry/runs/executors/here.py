"""The executor `here`: computes jobs in this process, one after the other."""

from collections.abc import Generator
from contextlib import suppress
from typing import Self

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, World, pick_device
from skerry.errors import CallbackError, RecordsError, SkerryError
from skerry.records.activity import CHECKPOINT_FOLDER
from skerry.records.checkpoint import remove_checkpoint
from skerry.records.store import Store
from skerry.runs.executors.executor import (
    Done,
    Event,
    StackJob,
    Tick,
    WorldCache,
    WorldSurvey,
    failure_of,
    rehearse_plugins,
    release_memory,
    survey_world,
)
from skerry.runs.memory import Footprint
from skerry.runs.progress import Progress
from skerry.runs.stack_run import EndAfterRoundError, run_lanes


class Here:
    """Computes jobs in this process; rows and checkpoints go to the driver's store as they come."""

    slots = 1
    errors_are_events = True

    def __init__(
        self,
        *,
        device: str = "auto",
        workers: int | None = None,
        address: str | None = None,
        materials: Materials | None = None,
    ):
        if (workers or 1) > 1 or address:
            raise SkerryError(
                "executor 'here' is this process alone. For several workers take executor "
                "'processes', for a cluster 'ray'."
            )
        self.device = str(pick_device(device))
        self.worlds = WorldCache(materials)
        self._job: StackJob | None = None
        self._ticks: Generator[Tick] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()  # a running stack holds signals, which must act again

    def world(self, experiment: Experiment) -> World:
        """The world of an experiment, built in this process."""
        return self.worlds.get(experiment, self.device)

    def survey(self, experiment: Experiment) -> WorldSurvey:
        return survey_world(self.world(experiment))

    def sharers(self, footprint: Footprint) -> int:
        return 1

    def start(self, store: Store, progress: Progress, checkpoint_seconds: float) -> None:
        self._store, self._progress, self._checkpoint_seconds = store, progress, checkpoint_seconds
        self._checkpoints = store.path.parent / CHECKPOINT_FOLDER

    @property
    def is_idle(self) -> bool:
        """Whether it has no job, and so will have no events, unless a subclass has its own."""
        return self._job is None and type(self).events is Here.events

    def submit(self, job: StackJob) -> None:
        self._job, self._ticks = job, None

    def _begin(self, job: StackJob) -> Generator[Tick]:
        """Start the ticks of a job; called within `events`, which handles what it raises."""
        world = self.world(job.experiments[0])
        if not job.rehearsed:
            rehearse_plugins(world, job.experiments)
        store, folder, seconds = self._store, self._checkpoints, self._checkpoint_seconds
        return run_lanes(
            world, job.experiments, store, folder, seconds, job.deterministic, self._progress
        )

    def events(self) -> list[tuple[StackJob, Event]]:
        """Compute the job until its next tick or its end."""
        job = self._job
        event: Event = Done()
        if job is None:
            return []
        try:
            self._ticks = self._ticks or self._begin(job)
            for tick in self._ticks:
                return [(job, tick)]
        except (RecordsError, CallbackError):
            raise
        except Exception as error:  # a user's code may raise anything
            if not self.errors_are_events:
                raise
            event = failure_of(error)
        if not isinstance(event, Done):
            self._ticks = None
            release_memory()
        self._job = None
        return [(job, event)]

    def interrupt(self) -> None:
        """End the job after its round, with a checkpoint."""
        if self._job is not None and self._ticks is not None:
            with suppress(EndAfterRoundError, StopIteration):
                self._ticks.throw(EndAfterRoundError())
        self.cancel()

    def cancel(self) -> None:
        if self._job is not None and self._ticks is not None:
            self._ticks.close()
        self._job = None

    def clear(self, world: str) -> None:
        for file in self._checkpoints.glob(f"{world}-*"):
            remove_checkpoint(file)
