"""One run on several processes, its ranks: on this machine, or under torchrun on many.

Every rank runs the same command. The first one plans, records, and sends instructions to the
others. An error on one rank ends all of them, because the others would wait for it forever.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from skerry.config.experiment import Experiment
from skerry.engine.ranks.exchange import VARIABLES, Communicator, TorchCommunicator
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, World, pick_device
from skerry.errors import SkerryError, argument
from skerry.plugins import registry
from skerry.records.store import Store
from skerry.runs.executors.executor import StackJob, WorldCache, WorldSurvey
from skerry.runs.executors.here import Here
from skerry.runs.launch import end_with_parent
from skerry.runs.memory import Footprint
from skerry.runs.progress import Progress
from skerry.runs.resume import StackCheckpoint, StackStart, load_stack
from skerry.runs.stack_run import StackRecorder


def is_rank() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in VARIABLES)


def is_first() -> bool:
    """Whether this process is the one that reports to the user."""
    return not is_rank() or os.environ["RANK"] == "0"


class Ranks(Here):
    """The executor of the first rank; the other ranks call `follow` instead."""

    errors_are_events = False  # whatever fails here, the other ranks cannot continue

    def __init__(self, *, device: str = "auto", materials: Materials | None = None):
        end_with_parent()
        super().__init__(device=_own_device(device))
        self._exchange = TorchCommunicator(torch.device(self.device))
        self.worlds = WorldCache(materials, self._exchange)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if error[0] is None and self._exchange.rank == 0:
            self._tell(do="end")
        self._exchange.close()

    def survey(self, experiment: Experiment) -> WorldSurvey:
        self._tell(do="build", experiment=to_table(experiment))
        return super().survey(experiment)

    def sharers(self, footprint: Footprint) -> int:
        on_gpu = self.device.startswith("cuda")
        return 1 if on_gpu else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def start(self, store: Store, progress: Progress, checkpoint_seconds: float) -> None:
        super().start(store, progress, checkpoint_seconds)
        self._tell(do="see", file=str(store.path.absolute()))

    def submit(self, job: StackJob) -> None:
        tables = [to_table(experiment) for experiment in job.experiments]
        self._tell(do="take", experiments=tables, keys=job.keys)
        super().submit(job)

    def _tell(self, **order: Any) -> None:
        self._exchange.broadcast(json.dumps(order))

    def follow(self) -> None:
        """Execute the first rank's instructions, until it sends the end."""
        follow_first_rank(self._exchange, self.world)


def to_table(experiment: Experiment) -> dict[str, Any]:
    """An experiment as JSON for the other ranks."""
    return experiment.model_dump(mode="json", exclude_unset=True)


def follow_first_rank(exchange: Communicator, world_of: Callable[[Experiment], World]) -> None:
    """Execute the instructions of the first rank; `world_of` builds this rank's part of a world."""
    found: StackCheckpoint | None = None
    lanes: dict[str, Experiment] = {}
    while True:
        order = json.loads(exchange.broadcast(""))
        match order.pop("do"):
            case "build":
                world = world_of(Experiment.parse(order["experiment"]))
            case "see":
                if not (file := Path(order["file"])).is_file():
                    raise SkerryError(
                        f"rank {exchange.rank} does not see {file}. Give {argument('out')} a "
                        "folder that all machines share: every rank saves its part of a "
                        "checkpoint there."
                    )
            case "take":
                experiments = [Experiment.parse(table) for table in order["experiments"]]
                world = world_of(experiments[0])
                lanes = {world.key(experiment): experiment for experiment in experiments}
                if list(lanes) != order["keys"]:
                    raise SkerryError(
                        "a file or a model that the experiment names is another one where rank "
                        f"{exchange.rank} runs. Give all machines the same."
                    )
            case "load":
                found = load_stack(Path(order["file"]), world)
            case "run":
                stack = build_stack(world, [lanes[key] for key in order["lanes"]])
                start = StackStart(stack, Path(order["file"]))
                if order["resumed"]:
                    assert found is not None, "all ranks have loaded it, or none"
                    start = found.start(stack, start.file, found.rows)
                with StackRecorder(start, None, order["checkpoint_seconds"]) as recorder:
                    for moment in simulate(start.stack, start.state):
                        recorder.measure(moment)
                        recorder.save(moment)
            case _:
                return


def _own_device(name: str) -> str:
    """The device of this rank: each rank of a machine has a GPU of its own."""
    if name.startswith("cuda:"):
        raise SkerryError(
            f"{argument('device')} must be auto, cpu or cuda with {argument('ranks')}, because "
            f"every rank has a GPU of its own (got {name})."
        )
    place = pick_device(name)
    if place.type != "cuda":
        return str(place)
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= gpus:
        raise SkerryError(
            f"every rank needs a GPU of its own (got {gpus} GPUs for at least {number + 1} ranks "
            f"on one machine). Ask for fewer ranks, or {argument('device')} cpu."
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def refuse_on_ranks(experiments: Iterable[Experiment]) -> None:
    """Raise SkerryError for what a rank cannot do with its share of the devices alone."""
    for experiment in experiments:
        if reason := _why_not(experiment):
            raise SkerryError(f"{reason}, which is not divided among ranks. Run it without them.")


def _why_not(experiment: Experiment) -> str | None:
    server, sampling = experiment.server, experiment.training.sampling
    if not experiment.method.is_plain:
        return f"method.name = '{experiment.method.name}' keeps more than a model on a device"
    if not experiment.training.is_plain:
        optimizer, decay = experiment.training.optimizer, experiment.training.weight_decay
        rule = f"weight_decay = {decay:g}" if optimizer == "sgd" else f"optimizer = '{optimizer}'"
        return f"training.{rule} changes the steps of each device"
    if experiment.evaluate.own:
        return "a measure of your own looks at the models of all devices"
    if experiment.network.compresses or (server.is_there and server.compresses):
        return "a compressed message needs what its sender and receiver know of each other"
    if not registry.is_builtin("sampling", sampling):
        return f"training.sampling = '{sampling}' draws for all devices"
    if not server.is_there:
        return None
    if server.is_adaptive():
        return "a schedule that adapts to the models needs all sampled devices"
    if ":" in server.primitive:
        return f"server.primitive = '{server.primitive}' may look at the models of all devices"
    if getattr(registry.resolve("selection", server.selection), "needs_distances", False):
        return f"server.selection = '{server.selection}' depends on the models of all devices"
    return None
