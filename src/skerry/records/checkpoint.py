"""Checkpoints: the state of a running stack in one safetensors file, replaced as a whole."""

import glob
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.errors import RecordsError

if TYPE_CHECKING:
    from torch import Tensor, device

JSON = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None

FACTS = "skerry"
CHECKSUMS = "crc32"
PARTIAL = ".partial"
ROOM = 100_000_000
"""Bytes that a checkpoint leaves free."""


def save(path: Path | str, tensors: Mapping[str, "Tensor"], facts: Mapping[str, JSON]) -> None:
    """Replace the checkpoint at once: a reader, or a crash, finds the old one or the new one."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path = Path(path)
    _check_room(path, sum(tensor.nbytes for tensor in tensors.values()))
    plain = _plain(tensors)
    # safetensors checks the layout of a file, not its content.
    checksums = {name: _checksum(tensor) for name, tensor in plain.items()}
    notes = {FACTS: json.dumps(dict(facts)), CHECKSUMS: json.dumps(checksums)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own holds whatever safetensors leaves behind when it is killed.
        with TemporaryDirectory(PARTIAL, f"{path.name}.", path.parent) as partial:
            fresh = Path(partial) / "fresh"
            save_file(plain, fresh, notes)
            _flush(fresh)
            os.replace(fresh, path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        raise RecordsError(
            f"cannot write the checkpoint {path} ({error}). Free some space or choose another "
            "folder; the checkpoint before it is safe."
        ) from error


def _check_room(path: Path, size: int) -> None:
    """Before a disk is filled to the brim, which others may be writing to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return  # saving tells what is wrong
    if free < size + ROOM:
        raise RecordsError(
            f"cannot write the checkpoint {path} ({size / 1e9:,.1f} GB, which are not free). Free "
            "some space or choose another folder; the checkpoint before it is safe."
        )


def load(path: Path | str, device: "str | device") -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """The tensors, bit for bit, on a device; and the facts."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            notes = file.metadata() or {}
            facts, checksums = json.loads(notes[FACTS]), json.loads(notes[CHECKSUMS])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            wrong = [name for name in checksums if _checksum(tensors[name]) != checksums[name]]
            # A copy, because the file's own tensors are views of it as it lies on the disk.
            copies = {name: tensor.to(device, copy=True) for name, tensor in tensors.items()}
    except FileNotFoundError:
        raise RecordsError(f"no checkpoint {path}. Start the run from the beginning.") from None
    except OSError as error:
        raise RecordsError(f"cannot read the checkpoint {path} ({error}).") from error
    except (SafetensorError, KeyError, ValueError) as error:
        raise _damaged(path, error) from error
    if wrong:
        raise _damaged(path, f"wrong checksum of {', '.join(wrong)}")
    return copies, facts


def remove(path: Path | str) -> None:
    """Remove a checkpoint, if there is one, and what interrupted attempts to save it have left."""
    try:
        Path(path).unlink(missing_ok=True)
        for partial in glob.glob(f"{glob.escape(str(path))}.*{PARTIAL}"):
            shutil.rmtree(partial)
    except OSError as error:
        raise RecordsError(f"cannot remove the checkpoint {path} ({error}).") from error


def _plain(tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Contiguous tensors on the CPU, none of which share memory: what safetensors can write."""
    plain: dict[str, Tensor] = {}
    owners = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in owners:
            own = own.clone()
        owners.add(own.untyped_storage().data_ptr())
        plain[name] = own
    return plain


def _checksum(tensor: "Tensor") -> int:
    import torch

    return zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data)


def _flush(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(path: Path | str, reason: object) -> RecordsError:
    return RecordsError(
        f"{path} is damaged or no checkpoint of skerry ({reason}). Deleting it restarts the run "
        "from the beginning."
    )
