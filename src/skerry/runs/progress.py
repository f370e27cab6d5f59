"""What a caller may follow while runs are under way."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skerry.config.experiment import Experiment

if TYPE_CHECKING:
    from skerry.engine.simulate import Moment
    from skerry.engine.world import World
    from skerry.runs.executors.messages import Task, Tick


class Watcher:
    """Follows runs while they are under way: `skerry.run(..., watcher=...)` calls its methods.
    Every one may be left as it is.

    class Best(skerry.Watcher):
        def stack_done(self, task, finals):
            print(max(final["average_accuracy"] for final in finals.values()))
    """

    def planned(self, experiments: Sequence[Experiment]) -> None:
        """All runs that were asked for."""

    def found_finished(self, experiments: Sequence[Experiment]) -> None:
        """Those of them that were recorded before."""

    def waiting(self, worlds: int) -> None:
        """Only worlds are left that another sweep works on."""

    def stack_begun(self, task: "Task") -> None:
        """Lanes of one world are on their way: the task has their `experiments` and `keys`."""

    def tick(self, task: "Task", tick: "Tick") -> None:
        """They are `tick.round` rounds far."""

    def stack_split(self, task: "Task") -> None:
        """They did not fit into memory, and will come again in smaller parts."""

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        """The last values of its runs, by key; none where they failed."""

    def failed(self, experiments: Sequence[Experiment], message: str) -> None:
        """These runs ended with a fault; the others go on."""

    # Where the computing is done in this process:

    def world_ready(self, world: "World") -> None:
        """Fleet, data and model stand."""

    def moment(self, moment: "Moment") -> None:
        """A look at all models: `moment.state.X_nld`, `[devices, lanes, parameters]`, at the start,
        before the server acts, and at the end of each round. It is the live array: copy what is
        to be kept, and change nothing."""


class Together(Watcher):
    """Several as one."""

    def __init__(self, *watchers: Watcher):
        for name in (name for name in vars(Watcher) if not name.startswith("_")):
            setattr(self, name, partial(_tell, [getattr(one, name) for one in watchers]))


def _tell(listeners: Sequence[Callable[..., None]], *news: Any) -> None:
    for listener in listeners:
        listener(*news)


class KeepsModels(Watcher):
    """Keeps the models of runs that come to their end."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {}

    def moment(self, moment: "Moment") -> None:
        if moment.phase == "end" and moment.round == moment.stack.world.rounds:
            X_nld = moment.state.X_nld.cpu().numpy()
            self.models |= {key: X_nld[:, i].copy() for i, key in enumerate(moment.stack.keys)}


class FoundFinished:
    """Tells a watcher once of every run that was recorded before."""

    def __init__(self, watcher: Watcher):
        self._watcher = watcher
        self._told: set[str] = set()

    def tell(self, by_key: Mapping[str, Experiment], done: Collection[str]) -> None:
        new = {key: by_key[key] for key in by_key if key in done and key not in self._told}
        self._told |= new.keys()
        self._watcher.found_finished(list(new.values()))
