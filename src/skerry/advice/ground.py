"""Where the pilot runs: worlds by seed, and a store that keeps what was run in them."""

from collections.abc import Callable, Sequence

import torch

from skerry.engine.rehearsal import rehearse
from skerry.engine.simulate import Moment
from skerry.engine.world import Materials, World, outside
from skerry.errors import SkerryError, is_out_of_memory, one_line
from skerry.experiment import Experiment
from skerry.records.parts import History
from skerry.records.store import Store
from skerry.runs.executors.worker import LastWorld
from skerry.runs.grouping import cut, stacks
from skerry.runs.memory import footprint
from skerry.runs.presence import CHECKPOINTS
from skerry.runs.stack_run import run_world


class Ground:
    def __init__(
        self,
        store: Store,
        materials: Materials | None = None,
        device: str = "auto",
        worlds: LastWorld | None = None,
    ):
        self.store, self.device = store, device
        self._materials = materials or Materials()
        self._worlds = worlds or LastWorld(self._materials)
        self._rehearsed = False
        self._known: dict[str, History | None] = {}
        self._keys: dict[str, str] = {}
        """Of runs whose text does not tell all, by the key of the text alone."""

    def aside(self, store: Store) -> "Ground":
        """The same with another store."""
        return Ground(store, self._materials, self.device, self._worlds)

    def world(self, experiment: Experiment) -> World:
        return self._worlds.of(experiment, self.device)

    def waiting(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """Those that are not recorded yet."""
        keys = {self._key(experiment): experiment for experiment in experiments}
        missing = keys.keys() - self._known.keys()
        done = self.store.finished(missing) if missing else set()
        return [one for key, one in keys.items() if key in missing and key not in done]

    def run(
        self, experiments: Sequence[Experiment], progress: Callable[[Moment], None] | None = None
    ) -> None:
        """Run what is not recorded yet; runs of one world go side by side, as many as fit. What a
        caller's `progress` breaks off is forgotten."""
        for group in stacks(self.waiting(experiments)):
            world = self.world(group[0])
            if not self._rehearsed:
                rehearse(world, group)
                self._rehearsed = True
            for lanes in cut(group, footprint(world).lanes()):
                self._run_stack(world, lanes, progress)

    def history(self, experiment: Experiment) -> History | None:
        """The rows of a run; None if it diverged."""
        key = self._key(experiment)
        if key not in self._known:
            run = self.store.run(key)
            assert run is not None, "it was run above"
            diverged = run.status != "finished"
            self._known[key] = None if diverged else self.store.history(key)
        return self._known[key]

    def _run_stack(
        self,
        world: World,
        lanes: Sequence[Experiment],
        progress: Callable[[Moment], None] | None,
    ) -> None:
        try:
            run_world(
                world,
                lanes,
                self.store,
                self.store.path.parent / CHECKPOINTS,
                progress=progress,
                checkpoint_seconds=float("inf"),
            )
        except BaseException as error:
            keys = {world.key(lane) for lane in lanes}
            self.store.forget(keys - self.store.finished(keys))
            if isinstance(error, Exception) and is_out_of_memory(error):
                raise SkerryError(
                    f"out of memory ({one_line(error)}). Lower network.devices or training.batch, "
                    "take a smaller model, or restrict --among."
                ) from error
            raise

    def _key(self, experiment: Experiment) -> str:
        """Where all is told by the experiment's text, no world need be built to name a run."""
        text = experiment.key()
        if not outside(experiment, self._materials):
            return text
        if text not in self._keys:
            self._keys[text] = self.world(experiment).key(experiment)
        return self._keys[text]


def synchronised(world: World) -> None:
    """Wait until a GPU has done what it was asked, so that a clock tells the truth."""
    if world.device.type == "cuda":
        torch.cuda.synchronize(world.device)
