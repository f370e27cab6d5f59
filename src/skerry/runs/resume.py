"""Save, find and load the checkpoints of a stack.

A warning names whatever must be computed again: the runs of a damaged checkpoint, and runs whose
rows the store has lost. A checkpoint that cannot be read for another reason raises an error.

Several ranks save their checkpoint in parts: each the models of its devices, rank 0 everything
else. The checkpoint names its parts and is replaced when all of them are on the disk, so a crash
leaves the previous one intact. Any number of ranks can resume from it, and so can a single process.
"""

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skerry.config.experiment import Experiment
from skerry.engine.ranks.group import Rank
from skerry.engine.simulate import Moment
from skerry.engine.stack import Stack, build_stack
from skerry.engine.state import Companions, State, keep_lanes
from skerry.engine.world import World
from skerry.errors import DamagedError, RecordsError, SkerryWarning
from skerry.files import remove_leftovers
from skerry.measure.ledger import Ledger
from skerry.records import checkpoint
from skerry.records.store import Store
from skerry.runs.executors.executor import ALONE

MEMORY, COMPANION = "memory.", "companion."  # prefixes of the names of tensors in a checkpoint
MODELS = "X"  # the tensor with one row for each device
PARTS = "parts"  # the fact that lists the parts: first device, the one after the last, file name
RECOMPUTED = "Computed again, from an older checkpoint or from the start."


@dataclass(frozen=True)
class StackStart:
    """A stack and the state it starts from: a checkpoint, or (None) the initial point."""

    stack: Stack
    file: Path  # the path of its checkpoints
    state: State | None = None
    ledger: Ledger = field(default_factory=Ledger)
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)  # by key, the recorded rows

    def file_of(self, keys: Sequence[str]) -> Path:
        """The path of the checkpoints of some of its lanes."""
        world, _, rest = self.file.stem.partition("-")
        mark = ALONE if f"-{rest}".endswith(ALONE) else ""
        return _file_of(keys, self.file.parent, world, mark)


def find_starts(
    world: World,
    experiments: Sequence[Experiment],
    store: Store,
    folder: Path,
    deterministic: bool = False,
) -> Iterator[StackStart]:
    """The stacks of these lanes: interrupted ones from their checkpoints, then all the rest."""
    remove_leftovers(folder)
    waiting = {world.key(experiment): experiment for experiment in experiments}
    name = experiments[0].world_key(world.fingerprints)
    begun = store.begun(waiting)
    mark = ALONE if deterministic else ""
    files = folder.glob(f"{name}-*{mark}.safetensors")
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        world.ranks.broadcast(do="load", file=str(file.absolute()))
        found = load_stack(file, world)
        if found is None:
            begun = set()  # the warning has been given, whichever lanes they are
            continue
        rows = _rows_of_lanes(file, found, waiting, store)
        begun -= set(found.lanes)
        if not rows:
            continue
        store.rewind(list(rows), found.state.t)
        stack = build_stack(world, [waiting.pop(key) for key in rows])
        yield found.start(stack, _file_of(stack.keys, folder, name, mark), rows)
        # Some of its lanes may be in another stack now, or in another process.
        if store.finished(found.lanes) == set(found.lanes):
            checkpoint.remove_checkpoint(file)
    if waiting:
        if lost := len(begun & waiting.keys()):
            warn_user(f"no checkpoint is left of {count_runs(lost)} that had begun. {RECOMPUTED}")
        stack = build_stack(world, list(waiting.values()))
        store.rewind(stack.keys, -1)
        yield StackStart(stack, _file_of(stack.keys, folder, name, mark))


@dataclass(frozen=True)
class StackCheckpoint:
    """The content of a checkpoint of a stack."""

    lanes: list[str]  # the keys of its runs
    state: State
    ledger: dict[str, list[int]]
    seconds: float
    rows: dict[str, int]  # by key, the rows recorded at that time

    def start(self, stack: Stack, file: Path, rows: Mapping[str, int]) -> StackStart:
        """The round and state from which some of its lanes resume."""
        state = keep_lanes(self.state, [self.lanes.index(key) for key in stack.keys])
        return StackStart(stack, file, state, Ledger(self.ledger), self.seconds, rows)


def load_stack(file: Path, world: World) -> StackCheckpoint | None:
    """Load a checkpoint; None, with a warning, where it is damaged, so that a long sweep does not
    stop over it. Ranks load it together, each the models of its devices: a part that one of them
    cannot read is damaged for all."""
    found = _read(file, world)
    return None if world.ranks.maximum(int(found is None)) else found


def _read(file: Path, world: World) -> StackCheckpoint | None:
    try:
        tensors, facts = _load_tensors(file, world)
        return StackCheckpoint(
            list(facts["lanes"]),
            _state(tensors, facts),
            dict(facts["ledger"]),
            facts["seconds"],
            facts["rows"],
        )
    except (KeyError, TypeError, ValueError) as error:  # no stack's, or of another version
        warn_user(f"the checkpoint {file} is damaged (without {error}). {RECOMPUTED}")
        return None
    except DamagedError as error:
        warn_user(f"the checkpoint {file} is damaged ({error.reason}). {RECOMPUTED}")
        return None


def _rows_of_lanes(
    file: Path, found: StackCheckpoint, waiting: Mapping[str, Experiment], store: Store
) -> dict[str, int]:
    """By key, the rows of each requested lane of a checkpoint that the store has completely."""
    wanted = [key for key in found.lanes if key in waiting]
    whole = {key: found.rows[key] for key in wanted if _has_rows(store, key, found)}
    if lost := len(wanted) - len(whole):
        warn_user(
            f"{store.path} lacks rows of {count_runs(lost)} that the checkpoint {file.name} "
            f"counts: it is an older copy, or damaged. {RECOMPUTED}"
        )
    return whole


def _has_rows(store: Store, key: str, found: StackCheckpoint) -> bool:
    """Whether the store has all rows of a lane up to its checkpoint."""
    try:
        rounds = store.history(key)["round"]
    except DamagedError:
        return False
    return len(rounds[rounds <= found.state.t]) == found.rows.get(key)


def count_runs(count: int) -> str:
    """`1 run`, `1,200 runs`."""
    return "1 run" if count == 1 else f"{count:,} runs"


def _file_of(keys: Sequence[str], folder: Path, world: str, mark: str) -> Path:
    lanes = hashlib.sha256("".join(keys).encode()).hexdigest()[:8]
    return folder / f"{world}-{lanes}{mark}.safetensors"


def save_stack(
    file: Path, moment: Moment, ledger: Ledger, seconds: float, rows: Mapping[str, int]
) -> None:
    """Save the state after a round; `rows` counts what the store holds of every lane."""
    state = moment.state
    _save_tensors(
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


def _state(tensors: dict[str, Tensor], facts: dict[str, Any]) -> State:
    def with_prefix(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }

    companions = Companions(with_prefix(COMPANION), facts.get("companions", {}))
    return State(facts["round"], tensors[MODELS], with_prefix(MEMORY), facts["chunk"], companions)


def warn_user(line: str) -> None:
    """Warn of something that does not stop the runs."""
    warnings.warn(line, SkerryWarning, stacklevel=3)


def _save_tensors(
    file: Path, world: World, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Save in one file, or each rank its part."""
    rank = world.ranks
    if not isinstance(rank, Rank):
        checkpoint.save_checkpoint(file, tensors, facts)
        return
    folder, t = checkpoint.parts_folder(file), facts["round"]
    names = [f"{t}-{number}of{rank.count}.safetensors" for number in range(rank.count)]
    fault: RecordsError | None = None
    try:
        models = {MODELS: tensors[MODELS]}
        checkpoint.save_checkpoint(folder / names[rank.rank], models, {"round": t})
    except RecordsError as error:
        fault = error
    if rank.maximum(int(fault is not None)):
        raise fault or RecordsError(f"another rank cannot write its part of the checkpoint {file}.")
    if rank.rank == 0:
        spans = zip(pairwise(rank.assignment.borders), names, strict=True)
        parts: list[Any] = [[*span, name] for span, name in spans]
        others = {name: tensor for name, tensor in tensors.items() if name != MODELS}
        checkpoint.save_checkpoint(file, others, {**facts, PARTS: parts})
        for old in folder.iterdir():
            if old.name not in names:
                with suppress(RecordsError):
                    checkpoint.remove_checkpoint(old)


def _load_tensors(file: Path, world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Load the facts and tensors; of the models, the rows of the devices in this process."""
    here = range(world.n)[world.ranks.devices]
    rows = {MODELS: slice(here.start, here.stop)}
    tensors, facts = checkpoint.load_checkpoint(file, world.device, rows)
    if PARTS not in facts:
        return tensors, facts
    found = []
    for start, stop, name in facts[PARTS]:
        first, last = max(start, here.start), min(stop, here.stop)
        if first < last:
            part = checkpoint.parts_folder(file) / name
            found.append(_load_part(part, world, slice(first - start, last - start), facts))
    return {**tensors, MODELS: torch.cat(found)}, facts


def _load_part(part: Path, world: World, rows: slice, facts: Mapping[str, Any]) -> Tensor:
    if not part.is_file():
        raise DamagedError(f"{part} is not there.", reason=f"without {part.name}")
    tensors, own = checkpoint.load_checkpoint(part, world.device, {MODELS: rows})
    if own["round"] != facts["round"]:
        raise DamagedError(f"{part} is of another round.", reason=f"{part.name} of another round")
    return tensors[MODELS]
