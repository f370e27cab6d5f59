"""Run the lanes of a world to their end: observe, record, checkpoint, resume."""

import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from skerry.engine.round import State, keep_lanes
from skerry.engine.simulate import Moment, simulate
from skerry.engine.stack import Stack, build_stack
from skerry.engine.world import World
from skerry.errors import RecordsError, SkerryWarning
from skerry.experiment import Experiment
from skerry.measure.ledger import Ledger
from skerry.measure.observer import Observer
from skerry.measure.reading import Reading, columns_by_key
from skerry.records import checkpoint
from skerry.records.store import Store, versions

CHECKPOINT_SECONDS = 60.0
"""From one checkpoint to the next; 0 is after every round."""
SAVING_SHARE = 0.05
"""At most this part of the time goes into saving: gigabytes of models are saved less often."""

Progress = Callable[[Moment], None]


@dataclass(frozen=True)
class Standing:
    """Where a stack stands: its lanes, their state (None: at the start), what was spent so far."""

    stack: Stack
    file: Path
    """Where its checkpoints go."""
    state: State | None = None
    ledger: Ledger = field(default_factory=Ledger)
    seconds: float = 0.0


def run_world(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    *,
    progress: Progress | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> None:
    """Run and record experiments that share a world; lanes with a checkpoint go on from it."""
    for moment in follow_world(world, experiments, store, folder, checkpoint_seconds):
        if progress is not None:
            progress(moment)


def follow_world(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Iterator[Moment]:
    """As `run_world`, moment by moment."""
    _begin(world, experiments, store)
    for standing in _standings(world, experiments, store, folder):
        yield from _run_stack(standing, store, checkpoint_seconds)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _run_stack(standing: Standing, store: Store, checkpoint_seconds: float) -> Iterator[Moment]:
    """Rows reach the store before the checkpoint that counts them: a kill in between leaves rows
    that the next start rewinds, so nothing beyond the checkpoint is lost or recorded twice."""
    observer = Observer(standing.stack, standing.ledger)
    waiting: list[Reading] = []
    began = saved = time.monotonic()
    pause = checkpoint_seconds
    for moment in simulate(standing.stack, standing.state):
        if reading := observer.look(moment):
            waiting.append(reading)
        yield moment
        if moment.phase != "end":
            continue
        now = time.monotonic()
        seconds = standing.seconds + now - began
        over = moment.round == standing.stack.world.rounds
        due = now - saved >= pause and not moment.diverged
        if over or due or moment.diverged:
            with store.transaction():  # lanes that ran together are finished together
                store.append(columns_by_key(waiting))
                _finish_lanes(store, moment, seconds, over)
            waiting = []
        if due and not over:
            with _kept_going():
                _save(standing.file, moment, observer.ledger, seconds)
            saved = time.monotonic()
            pause = _pause(checkpoint_seconds, saved - now)
    checkpoint.remove(standing.file)


@contextmanager
def _kept_going() -> Iterator[None]:
    """A checkpoint that cannot be saved is left out: hours of computing do not hang on it. Where
    nothing can be written any more, the store says so."""
    try:
        yield
    except RecordsError as error:
        warnings.warn(
            f"{error} The runs go on; if they are stopped, they go on from the checkpoint before, "
            "or start anew.",
            SkerryWarning,
            stacklevel=3,
        )


def _pause(checkpoint_seconds: float, saving: float) -> float:
    """Seconds until the next checkpoint, after one that took so long to save."""
    return max(checkpoint_seconds, saving / SAVING_SHARE) if checkpoint_seconds else 0.0


def _begin(world: World, experiments: Sequence[Experiment], store: Store) -> None:
    store.begin_all(
        {world.key(experiment): experiment for experiment in experiments},
        materials=world.fingerprints,
        world=world.experiment.world_key(world.fingerprints),
        device=device_name(world.device),
        versions=versions(),
    )


def _finish_lanes(store: Store, moment: Moment, seconds: float, over: bool) -> None:
    for lane, key in enumerate(moment.stack.keys):
        if lane in moment.diverged:
            note = f"no longer finite after round {moment.round}"
            store.finish(key, "diverged", wall_seconds=seconds, note=note)
        elif over:
            store.finish(key, "finished", wall_seconds=seconds)


def _standings(
    world: World, experiments: Sequence[Experiment], store: Store, folder: Path
) -> Iterator[Standing]:
    """Interrupted stacks first, each from its checkpoint; then all other lanes, afresh."""
    waiting = {world.key(experiment): experiment for experiment in experiments}
    name = experiments[0].world_key(world.fingerprints)
    for file in _newest_first(folder.glob(f"{name}-*.safetensors")):
        tensors, facts = checkpoint.load(file, world.device)
        kept: list[str] = facts["lanes"]
        # A lane without any rows has lost its store: a checkpoint alone is half of a run.
        lanes = [
            lane
            for lane, key in enumerate(kept)
            if key in waiting and len(store.history(key)["round"])
        ]
        if not lanes:
            continue
        keys = [kept[lane] for lane in lanes]
        store.rewind(keys, facts["round"])
        stack = build_stack(world, [waiting.pop(key) for key in keys])
        yield Standing(
            stack,
            _file_of(stack, folder, name),
            keep_lanes(_state(tensors, facts), lanes),
            Ledger(facts["ledger"]),
            facts["seconds"],
        )
        # Some of its lanes may be in another stack now, or in another process.
        if store.finished(kept) == set(kept):
            checkpoint.remove(file)
    if waiting:
        stack = build_stack(world, list(waiting.values()))
        store.rewind(stack.keys, -1)
        yield Standing(stack, _file_of(stack, folder, name))


def _newest_first(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)


def _file_of(stack: Stack, folder: Path, world: str) -> Path:
    lanes = hashlib.sha256("".join(stack.keys).encode()).hexdigest()[:8]
    return folder / f"{world}-{lanes}.safetensors"


def _save(file: Path, moment: Moment, ledger: Ledger, seconds: float) -> None:
    state = moment.state
    checkpoint.save(
        file,
        {"X": state.X_nld, **{f"memory.{name}": tensor for name, tensor in state.memory.items()}},
        {
            "lanes": list(moment.stack.keys),
            "round": state.t,
            "chunk": state.chunk,
            "ledger": {key: [*totals] for key, totals in ledger.totals.items()},
            "seconds": seconds,
        },
    )


def _state(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> State:
    memory = {
        name.removeprefix("memory."): tensor
        for name, tensor in tensors.items()
        if name.startswith("memory.")
    }
    return State(facts["round"], tensors["X"], memory, facts["chunk"])
