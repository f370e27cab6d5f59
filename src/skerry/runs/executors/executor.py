"""Stack jobs, the events that come back from them, and the protocol of executors that run them.

Experiments that share a world become lanes of one stack. A job is a stack of lanes that runs in one
place; an executor computes jobs in this process, in other processes, or on a cluster.
"""

import gc
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Protocol, Self

import torch

from skerry.config.experiment import Experiment
from skerry.engine.ranks.exchange import Communicator
from skerry.engine.rehearsal import rehearse
from skerry.engine.simulate import Moment
from skerry.engine.stack import group_keys
from skerry.engine.world import Materials, World, build_world, pick_device
from skerry.errors import RecordsError, SkerryError, is_out_of_memory, one_line
from skerry.measure.custom_measures import rehearse_measures
from skerry.measure.device_scores import DeviceTable
from skerry.plugins import registry
from skerry.records.parts import History
from skerry.records.store import Run, Store
from skerry.runs.memory import Footprint, measure_footprint
from skerry.runs.progress import Progress

ALONE = "-alone"  # marks the checkpoints of deterministic runs, which resume from no others
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class WorldSurvey:
    """Size, memory and keys of a world, from which a driver plans jobs."""

    fingerprints: dict[str, str]  # of what is outside the text; part of every key
    steps: int  # local steps of all devices in a round
    footprint: Footprint
    world: World | None = None  # the world itself, where it was built in this process

    def for_lanes(self, experiments: Iterable[Experiment]) -> "WorldSurvey":
        """A copy of the survey, with memory for what the methods of these lanes keep."""
        return replace(self, footprint=self.footprint.for_lanes(experiments))


@dataclass(frozen=True, eq=False)
class StackJob:
    """Lanes of one world that run together in one place."""

    experiments: tuple[Experiment, ...]
    survey: WorldSurvey
    attempts: int = 0  # how many workers have ended while they ran it
    deterministic: bool = False  # whether it must repeat to the bit, alone (runs/process.py)
    rehearsed: bool = False  # whether its plug-ins were tried before it was submitted

    def __len__(self) -> int:
        return len(self.experiments)

    @cached_property
    def world(self) -> str:
        """The key of its world."""
        return self.experiments[0].world_key(self.survey.fingerprints)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of its runs."""
        return [experiment.key(self.survey.fingerprints) for experiment in self.experiments]

    @cached_property
    def name(self) -> str:
        """A name that is unique to this world and these lanes."""
        lanes = hashlib.sha256("".join(self.keys).encode()).hexdigest()[:8]
        return f"{self.world}-{lanes}{ALONE if self.deterministic else ''}"

    @property
    def steps(self) -> int:
        """Device-steps from start to end."""
        first = self.experiments[0]
        return len(self) * first.rounds * self.survey.steps


def group_by_world(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """Experiments grouped by world, in the order of the first member of each group."""
    groups: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        groups.setdefault(experiment.world_key(), []).append(experiment)
    return list(groups.values())


def split_lanes(experiments: Sequence[Experiment], most: int) -> list[list[Experiment]]:
    """Stacks of at most `most` lanes, about equal; lanes computed as one stay together."""
    if len(experiments) <= most:
        return [list(experiments)] if experiments else []
    ordered = sorted(experiments, key=group_keys)
    count = -(-len(ordered) // most)
    edges = [len(ordered) * piece // count for piece in range(count + 1)]
    return [ordered[start:stop] for start, stop in pairwise(edges)]


def choose_stack_size(waiting: int, worlds: int, survey: WorldSurvey, executor: "Executor") -> int:
    """Number of lanes in a stack: as many as fit into memory, or fewer to occupy every slot."""
    fits = survey.footprint.lanes(executor.sharers(survey.footprint))
    pieces = -(-executor.slots // worlds)
    return max(1, min(fits, -(-waiting // pieces)))


def memory_shape(experiment: Experiment) -> str:
    """A key of worlds that need the same memory: only their seeds and splits of data differ."""
    data = experiment.data.model_copy(update={"inter": "iid", "intra": "iid"})
    return experiment.model_copy(update={"seed": 0, "data": data}).world_key()


class WorldCache:
    """Builds worlds and keeps the last one, because stacks of one world follow each other."""

    def __init__(self, materials: Materials | None = None, exchange: Communicator | None = None):
        self._materials, self._exchange = materials or Materials(), exchange
        self._last: tuple[str, World] | None = None

    def get(self, experiment: Experiment, device: str) -> World:
        name = f"{experiment.world_key()} {device}"
        if self._last is None or self._last[0] != name:
            before = self._last[1] if self._last else None
            place, materials = pick_device(device), self._materials
            if before and not before.has_inputs_of(experiment, materials, place, before.dtype):
                before = self._last = None  # two sets of inputs need not fit into memory
            exchange = self._exchange
            world = build_world(experiment, materials, place, before=before, exchange=exchange)
            self._last = name, world
        return self._last[1]


def survey_world(world: World) -> WorldSurvey:
    return WorldSurvey(world.fingerprints, world.steps_a_round, measure_footprint(world), world)


def rehearse_plugins(world: World, experiments: Sequence[Experiment]) -> None:
    """Raise SkerryError if a user's own plug-in of these experiments breaks its contract."""
    rehearse(world, experiments)
    rehearse_measures(world, experiments[0])


def release_memory() -> None:
    """Free the memory of a failed stack. Call it outside of `except`, where the error keeps it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True)
class Tick:
    """How far a stack is."""

    round: int
    steps: int  # device-steps done, including those before an interruption
    fresh: int  # device-steps computed since this job was submitted
    resumed: int = 0  # in their first tick, the number of runs that continue from this round


class StepCounter:
    """Turns the moments of a job's stacks into ticks, one for every round."""

    def __init__(self, world: World):
        self._world = world
        self._unit = world.steps_a_round
        self._lanes: frozenset[str] = frozenset()
        self._before = self._fresh = 0

    def count(self, moment: Moment) -> Tick | None:
        """The tick of a moment: at the end of a round, and where a stack resumes."""
        keys, unit = moment.stack.keys, self._unit
        if keys[0] not in self._lanes:  # another stack: interrupted ones resume separately
            self._before += len(self._lanes) * self._world.rounds * unit
            self._lanes = frozenset(keys)
            if moment.phase == "before_server":
                done = moment.round - 1
                steps = self._before + len(keys) * done * unit
                return Tick(done, steps, self._fresh, resumed=len(keys))
        if moment.phase != "end":
            return None
        self._fresh += len(keys) * unit
        steps = self._before + len(self._lanes) * moment.round * unit
        return Tick(moment.round, steps, self._fresh)


@dataclass(frozen=True)
class RunOutcome:
    """A run that a worker has finished."""

    run: Run
    history: History
    devices: DeviceTable | None = None  # the last evaluation of every device


@dataclass(frozen=True)
class Done:
    """A job has finished. `outcomes` is empty where the driver's store has the runs already."""

    outcomes: tuple[RunOutcome, ...] = ()


@dataclass(frozen=True)
class Failure:
    """A job ended without results."""

    cause: Literal["memory", "lanes", "world", "worker", "store"]
    """The stack did not fit into memory; it raised an error that some lane, or every lane of the
    world, would raise again; its worker ended, and another one may finish it; or its records cannot
    be written, and no worker could."""
    message: str
    error: Exception | None = field(default=None, compare=False)


Event = Tick | Done | Failure


def failure_of(error: Exception) -> Failure:
    """Classify an error in a stack by its consequence for the rest of the sweep."""
    if is_out_of_memory(error):
        error.__traceback__ = error.__context__ = None  # they refer to the tensors that filled it
        return Failure("memory", f"out of memory ({one_line(error)})", error)
    cause: Literal["store", "lanes"] = "store" if isinstance(error, RecordsError) else "lanes"
    return Failure(cause, error_line(error), error)


def error_line(error: Exception) -> str:
    return "; ".join(error.faults) if isinstance(error, SkerryError) else one_line(error)


class Executor(Protocol):
    """Computes jobs for a driver."""

    slots: int  # how many jobs may run at once

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

    def survey(self, experiment: Experiment) -> WorldSurvey:
        """Build the experiment's world where jobs run, and describe it; raises what that raises."""

    def sharers(self, footprint: Footprint) -> int:
        """How many stacks share the memory of one machine or of one GPU."""

    def start(self, store: Store, progress: Progress, checkpoint_seconds: float) -> None:
        """Prepare for jobs; the store is the driver's. Called once, before `submit`."""

    def submit(self, job: StackJob) -> None:
        """Start a job in a free slot."""

    def events(self) -> list[tuple[StackJob, Event]]:
        """Events that have arrived; waits a short time for the first."""

    def cancel(self) -> None:
        """End all jobs without further events."""

    def clear(self, world: str) -> None:
        """Remove the checkpoints of a world (its key)."""


def open_executor(
    name: str | Callable[..., Any] | None = None,
    *,
    device: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    materials: Materials | None = None,
) -> Executor:
    """Create an executor by name; without a name, the one that the other arguments require. Only
    executors that get objects from Python need a parameter `materials`."""
    if name is None:
        name = "ray" if address else "processes" if (workers or 1) > 1 else "here"
    if not callable(name) and not isinstance(name, str):
        raise SkerryError(
            f"executor takes a name or a class, of which Skerry makes the executor (got an object "
            f"of {type(name).__name__}). Give the class itself, or functools.partial with options."
        )
    make = name if callable(name) else registry.resolve("executor", name)
    given = {} if materials in (None, Materials()) else {"materials": materials}
    with registry.users_own("executor", getattr(name, "__qualname__", str(name))):
        made: Executor = make(device=device, workers=workers, address=address, **given)
    return made
