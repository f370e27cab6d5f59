"""What an executor is, and which one is meant."""

from collections.abc import Callable
from typing import Any, Protocol, Self

from skerry.config.experiment import Experiment
from skerry.engine.world import Materials
from skerry.plugins import registry
from skerry.plugins.fingerprint import as_text
from skerry.records.store import Store
from skerry.runs.executors.messages import News, Survey, Task
from skerry.runs.memory import Footprint
from skerry.runs.progress import Watcher

POLL_SECONDS = 0.2


class Executor(Protocol):
    slots: int
    """How many tasks may be under way at once."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

    def survey(self, experiment: Experiment) -> Survey:
        """What a plan must know of the experiment's world; raises what building it raises."""

    def sharers(self, footprint: Footprint) -> int:
        """How many stacks share the memory of one machine or of one GPU."""

    def begin(self, store: Store, watcher: Watcher, checkpoint_seconds: float) -> None:
        """Tasks follow; the store is the driver's."""

    def submit(self, task: Task) -> None: ...

    def news(self) -> list[tuple[Task, News]]:
        """What has come in; waits for it a little while."""

    def drop(self) -> None:
        """End what is under way, without news of it."""

    def clear(self, world: str) -> None:
        """Remove what was kept of a world (its key) so that it could go on."""


def open_executor(
    name: str | Callable[..., Any] | None = None,
    *,
    device: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    materials: Materials | None = None,
) -> Executor:
    """The named executor; without a name, the one that the other arguments speak of. Only where
    something is given from Python must an executor take it: `materials`."""
    if name is None:
        name = "ray" if address else "processes" if (workers or 1) > 1 else "here"
    name = str(as_text(name))
    make = registry.resolve("executor", name)
    given = {"materials": materials} if materials and materials.any else {}
    with registry.users_own("executor", name):
        made: Executor = make(device=device, workers=workers, address=address, **given)
    return made
