"""In this process, one stack after the other."""

from collections.abc import Generator, Iterator
from typing import Self

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, World, pick_device
from skerry.errors import RecordsError, SkerryError
from skerry.records import checkpoint
from skerry.records.store import Store
from skerry.runs.executors import worker
from skerry.runs.executors.messages import Done, News, Survey, Task, Tick, news_of
from skerry.runs.memory import Footprint
from skerry.runs.presence import CHECKPOINTS
from skerry.runs.progress import Watcher


class Here:
    """Rows and checkpoints go to the driver's store as they come."""

    slots = 1

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
        self.worlds = worker.LastWorld(materials)
        self._under_way: tuple[Task, Generator[News]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.drop()  # a stack under way holds signals, which must act again

    def world(self, experiment: Experiment) -> World:
        return self.worlds.of(experiment, self.device)

    def survey(self, experiment: Experiment) -> Survey:
        return worker.survey_of(self.world(experiment))

    def sharers(self, footprint: Footprint) -> int:
        return 1

    def begin(self, store: Store, watcher: Watcher, checkpoint_seconds: float) -> None:
        self._store, self._watcher, self._checkpoint_seconds = store, watcher, checkpoint_seconds
        self._checkpoints = store.path.parent / CHECKPOINTS

    def submit(self, task: Task) -> None:
        self._under_way = task, self._compute(task)

    def news(self) -> list[tuple[Task, News]]:
        if self._under_way is None:
            return []
        task, steps = self._under_way
        return [(task, next(steps))]

    def drop(self) -> None:
        if self._under_way is not None:
            self._under_way[1].close()
            self._under_way = None

    def clear(self, world: str) -> None:
        for file in self._checkpoints.glob(f"{world}-*"):
            checkpoint.remove(file)

    def ticks(self, task: Task) -> Iterator[Tick]:
        """Compute and record a task."""
        return worker.ticks(
            self.world(task.experiments[0]),
            list(task.experiments),
            self._store,
            self._checkpoints,
            self._checkpoint_seconds,
            task.deterministic,
            self._watcher.moment,
        )

    def _compute(self, task: Task) -> Generator[News]:
        last: News = Done()
        try:
            yield from self.ticks(task)
        except RecordsError:
            raise
        except Exception as error:  # a user's code may fail in any way
            last = news_of(error)
        if not isinstance(last, Done):
            worker.free_what_failed()
        self._under_way = None
        yield last
