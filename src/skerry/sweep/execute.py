"""Run the lanes of a world to their end: observe, record, checkpoint, resume."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from skerry.engine.round import State, keep_lanes
from skerry.engine.simulate import Moment, simulate
from skerry.engine.stack import Stack, build_stack
from skerry.engine.world import World
from skerry.experiment import Experiment
from skerry.measure.ledger import Ledger
from skerry.measure.observer import Observer, Row
from skerry.records import checkpoint
from skerry.records.store import Store, versions

CHECKPOINT_SECONDS = 60.0

Progress = Callable[[Moment], None]


@dataclass(frozen=True)
class Standing:
    """Where a stack stands: its lanes, their state (None: at the start), what was spent so far."""

    stack: Stack
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
    _begin(world, experiments, store)
    for standing, file in _standings(world, experiments, store, folder):
        _run_stack(standing, store, file, progress, checkpoint_seconds)


def as_columns(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Rows that may lack some measures, as columns with NaN in the gaps."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, float("nan")) for row in rows] for name in names}


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _run_stack(
    standing: Standing,
    store: Store,
    file: Path,
    progress: Progress | None,
    checkpoint_seconds: float,
) -> None:
    """Rows reach the store before the checkpoint that counts them: a kill in between leaves rows
    that the next start rewinds, so nothing beyond the checkpoint is lost or recorded twice."""
    observer = Observer(standing.stack, standing.ledger)
    waiting: dict[str, list[Row]] = {}
    began = saved = time.monotonic()
    for moment in simulate(standing.stack, standing.state):
        for key, row in observer.see(moment).items():
            waiting.setdefault(key, []).append(row)
        if progress is not None:
            progress(moment)
        if moment.phase != "end":
            continue
        now = time.monotonic()
        seconds = standing.seconds + now - began
        over = moment.round == standing.stack.world.rounds
        due = now - saved >= checkpoint_seconds and not moment.diverged
        if over or due or moment.diverged:
            store.append({key: as_columns(rows) for key, rows in waiting.items()})
            waiting = {}
            _finish_lanes(store, moment, seconds, over)
        if due and not over:
            _save(file, moment, observer.ledger, seconds)
            saved = now
    checkpoint.remove(file)


def _begin(world: World, experiments: Sequence[Experiment], store: Store) -> None:
    for experiment in experiments:
        store.begin(
            world.key(experiment),
            experiment,
            materials=world.fingerprints,
            world=experiment.world_key(world.fingerprints),
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
) -> Iterator[tuple[Standing, Path]]:
    """Interrupted stacks first, each from its checkpoint; then all other lanes, afresh."""
    waiting = {world.key(experiment): experiment for experiment in experiments}
    name = experiments[0].world_key(world.fingerprints)
    for file in sorted(folder.glob(f"{name}-*.safetensors")):
        tensors, facts = checkpoint.load(file, world.device)
        lanes = [lane for lane, key in enumerate(facts["lanes"]) if key in waiting]
        if lanes:
            keys = [facts["lanes"][lane] for lane in lanes]
            store.rewind(keys, facts["round"])
            yield (
                Standing(
                    build_stack(world, [waiting.pop(key) for key in keys]),
                    keep_lanes(_state(tensors, facts), lanes),
                    Ledger(facts["ledger"]),
                    facts["seconds"],
                ),
                file,
            )
    if waiting:
        stack = build_stack(world, list(waiting.values()))
        store.rewind(stack.keys, -1)
        lanes_name = hashlib.sha256("".join(stack.keys).encode()).hexdigest()[:8]
        yield Standing(stack), folder / f"{name}-{lanes_name}.safetensors"


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
