"""What a caller may follow while runs are under way."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from skerry.experiment import Experiment

if TYPE_CHECKING:
    from skerry.engine.simulate import Moment
    from skerry.engine.world import World
    from skerry.runs.executors.messages import Task, Tick


class Watcher:
    """Every method may be left as it is."""

    def planned(self, experiments: Sequence[Experiment]) -> None:
        """All runs that were asked for."""

    def found_finished(self, experiments: Sequence[Experiment]) -> None:
        """Those of them that were recorded before."""

    def waiting(self, worlds: int) -> None:
        """Only worlds are left that another sweep works on."""

    def stack_begun(self, task: "Task") -> None: ...
    def tick(self, task: "Task", tick: "Tick") -> None: ...
    def stack_split(self, task: "Task") -> None: ...

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        """The last values of its runs, by key; none where they failed."""

    def failed(self, experiments: Sequence[Experiment], message: str) -> None: ...

    # Where the computing is done in this process:

    def world_ready(self, world: "World") -> None: ...
    def moment(self, moment: "Moment") -> None: ...


class FoundFinished:
    """Tells a watcher once of every run that was recorded before."""

    def __init__(self, watcher: Watcher):
        self._watcher = watcher
        self._told: set[str] = set()

    def tell(self, by_key: Mapping[str, Experiment], done: Collection[str]) -> None:
        new = {key: by_key[key] for key in by_key if key in done and key not in self._told}
        self._told |= new.keys()
        self._watcher.found_finished(list(new.values()))
