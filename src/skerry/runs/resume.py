"""Where a stack stands when it is begun: at the start, or at a checkpoint; and its checkpoints.

Whatever has to be computed again is told in a line: the runs of a checkpoint that is damaged, those
whose rows the store has lost. What cannot be read, but may be mended, ends the run.
"""

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import Moment
from skerry.engine.stack import Stack, build_stack
from skerry.engine.state import Companions, State, keep_lanes
from skerry.engine.world import World
from skerry.errors import SkerryWarning
from skerry.files import remove_leftovers
from skerry.measure.ledger import Ledger
from skerry.records import checkpoint
from skerry.records.damage import DamagedError
from skerry.records.store import Store
from skerry.runs.parts import MODELS, load_parts, save_parts

MEMORY, COMPANION = "memory.", "companion."
"""What the names of tensors in a checkpoint begin with."""
ANEW = "Computed again, from an older checkpoint or from the start."


@dataclass(frozen=True)
class Standing:
    """Where a stack stands: its lanes, their state (None: at the start), what was spent so far."""

    stack: Stack
    file: Path
    """Where its checkpoints go."""
    state: State | None = None
    ledger: Ledger = field(default_factory=Ledger)
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many are recorded of every lane."""


ALONE = "-alone"
"""Marks the checkpoints of deterministic runs, which go on from no others."""


def standings(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    deterministic: bool = False,
) -> Iterator[Standing]:
    """Interrupted stacks first, each from its checkpoint; then all other lanes, afresh."""
    remove_leftovers(folder)
    waiting = {world.key(experiment): experiment for experiment in experiments}
    name = experiments[0].world_key(world.fingerprints)
    begun = store.begun(waiting)
    mark = ALONE if deterministic else ""
    for file in _newest_first(folder.glob(f"{name}-*{mark}.safetensors")):
        world.ranks.broadcast(do="load", file=str(file.absolute()))
        found = load(file, world)
        if found is None:
            begun = set()  # told already, whichever they are
            continue
        rows = _rows_of_lanes(file, found, waiting, store)
        begun -= set(found.lanes)
        if not rows:
            continue
        store.rewind(list(rows), found.state.t)
        stack = build_stack(world, [waiting.pop(key) for key in rows])
        yield found.standing(stack, _file_of(stack, folder, name, mark), rows)
        # Some of its lanes may be in another stack now, or in another process.
        if store.finished(found.lanes) == set(found.lanes):
            checkpoint.remove(file)
    if waiting:
        if without := len(begun & waiting.keys()):
            tell(f"no checkpoint is left of {counted_runs(without)} that had begun. {ANEW}")
        stack = build_stack(world, list(waiting.values()))
        store.rewind(stack.keys, -1)
        yield Standing(stack, _file_of(stack, folder, name, mark))


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint tells."""

    lanes: list[str]
    """Their keys."""
    state: State
    """Of all of them."""
    ledger: dict[str, list[int]]
    seconds: float
    rows: dict[str, int]
    """How many were recorded of every lane; empty in a checkpoint of format 1."""

    def standing(self, stack: Stack, file: Path, rows: Mapping[str, int]) -> Standing:
        """Where some of its lanes stand, which are a stack of their own now."""
        state = keep_lanes(self.state, [self.lanes.index(key) for key in stack.keys])
        return Standing(stack, file, state, Ledger(self.ledger), self.seconds, rows)


def load(file: Path, world: World) -> Checkpoint | None:
    """None where it is damaged: a sweep of a thousand runs does not wait for somebody to delete a
    file at night. It stays where it is until its runs are finished. Ranks load it together, each
    the models of its devices: what one of them cannot read is damaged for all."""
    found = _read(file, world)
    return None if world.ranks.maximum(int(found is None)) else found


def _read(file: Path, world: World) -> Checkpoint | None:
    try:
        tensors, facts = load_parts(file, world)
        return Checkpoint(
            list(facts["lanes"]),
            _state(tensors, facts),
            dict(facts["ledger"]),
            facts["seconds"],
            facts.get("rows", {}),
        )
    except (KeyError, TypeError, ValueError) as error:  # format 1 has no checksum of its facts
        tell(f"the checkpoint {file} is damaged (without {error}). {ANEW}")
        return None
    except DamagedError as error:
        tell(f"the checkpoint {file} is damaged ({error.reason}). {ANEW}")
        return None


def _rows_of_lanes(
    file: Path, found: Checkpoint, waiting: Mapping[str, Experiment], store: Store
) -> dict[str, int]:
    """The lanes of a checkpoint that are asked for and whose rows are all there, with their number.
    A checkpoint alone is half of a run: the store may be an older copy, or have been damaged."""
    asked = [key for key in found.lanes if key in waiting]
    counts = {key: _rows_of(waiting[key], store, key, found) for key in asked}
    whole = {key: count for key, count in counts.items() if count is not None}
    if lost := len(asked) - len(whole):
        tell(
            f"{store.path} lacks rows of {counted_runs(lost)} that the checkpoint {file.name} "
            f"counts: it is an older copy, or damaged. {ANEW}"
        )
    return whole


def _rows_of(experiment: Experiment, store: Store, key: str, found: Checkpoint) -> int | None:
    """How many rows a lane has up to its checkpoint; None if some are missing."""
    try:
        rounds = store.history(key)["round"]
    except DamagedError:
        return None
    rounds = rounds[rounds <= found.state.t]
    if found.rows:
        return len(rounds) if len(rounds) == found.rows.get(key) else None
    # Format 1 did not count them: the last evaluation, at least, must be there.
    every, after = experiment.evaluate.every, experiment.evaluate.after
    last = found.state.t // every * every
    return len(rounds) if (last if last > after else 0) in rounds else None


def counted_runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _newest_first(files: Iterable[Path]) -> list[Path]:
    return sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True)


def _file_of(stack: Stack, folder: Path, world: str, mark: str) -> Path:
    lanes = hashlib.sha256("".join(stack.keys).encode()).hexdigest()[:8]
    return folder / f"{world}-{lanes}{mark}.safetensors"


def save(
    file: Path, moment: Moment, ledger: Ledger, seconds: float, rows: Mapping[str, int]
) -> None:
    state = moment.state
    save_parts(
        file,
        moment.stack.world,
        {
            MODELS: state.X_nld,
            **{f"{MEMORY}{name}": tensor for name, tensor in state.memory.items()},
            **{f"{COMPANION}{name}": array for name, array in state.companions.arrays.items()},
        },
        {
            "lanes": list(moment.stack.keys),
            "round": state.t,
            "chunk": state.chunk,
            "companions": {name: [*own] for name, own in state.companions.lanes.items()},
            "ledger": {key: [*totals] for key, totals in ledger.totals.items()},
            "seconds": seconds,
            "rows": {key: rows[key] for key in moment.stack.keys},
        },
    )


def _state(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> State:
    def called(prefix: str) -> dict[str, torch.Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }

    companions = Companions(called(COMPANION), facts.get("companions", {}))
    return State(facts["round"], tensors[MODELS], called(MEMORY), facts["chunk"], companions)


def tell(line: str) -> None:
    """What a user should know though the runs go on."""
    warnings.warn(line, SkerryWarning, stacklevel=3)
