"""Checkpoints of several ranks: each saves the models of its devices, rank 0 what belongs to all.

The checkpoint itself names its parts, and is replaced when all of them are on the disk: a crash
leaves the one before, with its own parts. Any number of ranks can go on from it, one process too;
and ranks from a checkpoint that one process saved.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from skerry.engine.ranks.group import Rank
from skerry.engine.world import World
from skerry.errors import RecordsError
from skerry.records import checkpoint
from skerry.records.damage import DamagedError

MODELS = "X"
"""The tensor with a row for each device."""
PARTS = "parts"
"""The fact that names them: first device, the one after the last, file."""


def save_parts(
    file: Path, world: World, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """In one piece, where all devices are here."""
    rank = world.ranks
    if not isinstance(rank, Rank):
        checkpoint.save(file, tensors, facts)
        return
    folder, t = checkpoint.parts_folder(file), facts["round"]
    names = [f"{t}-{number}of{rank.count}.safetensors" for number in range(rank.count)]
    fault: RecordsError | None = None
    try:
        models = {MODELS: tensors[MODELS]}
        checkpoint.save(folder / names[rank.rank], models, {"round": t})
    except RecordsError as error:
        fault = error
    if rank.maximum(int(fault is not None)):
        raise fault or RecordsError(f"another rank cannot write its part of the checkpoint {file}.")
    if rank.rank == 0:
        spans = zip(pairwise(rank.assignment.borders), names, strict=True)
        parts: list[Any] = [[*span, name] for span, name in spans]
        others = {name: tensor for name, tensor in tensors.items() if name != MODELS}
        checkpoint.save(file, others, {**facts, PARTS: parts})
        for old in folder.iterdir():
            if old.name not in names:
                with suppress(RecordsError):
                    checkpoint.remove(old)


def load_parts(file: Path, world: World) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Of the models, those of the devices that are here."""
    here = range(world.n)[world.ranks.devices]
    rows = {MODELS: slice(here.start, here.stop)}
    tensors, facts = checkpoint.load(file, world.device, rows)
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
    tensors, own = checkpoint.load(part, world.device, {MODELS: rows})
    if own["round"] != facts["round"]:
        raise DamagedError(f"{part} is of another round.", reason=f"{part.name} of another round")
    return tensors[MODELS]
