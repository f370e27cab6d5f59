"""Checkpoint files: tensors and facts of a stack in one safetensors file, replaced as a whole.

safetensors checks the layout of a file, not its content. So the header holds a checksum of each
tensor and one of the header itself, computed with its own place left blank: no bit can change
unnoticed. Checkpoints of format 1 have no checksum of the header and can still be loaded.
"""

import glob
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.errors import DamagedError, RecordsError
from skerry.files import PARTIAL, SPECIAL, being_written, exists

if TYPE_CHECKING:
    from torch import Tensor, device

JSON = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None

FORMAT = 2
# The names of the two formats are far apart: no flipped bit makes an old checkpoint of a new one.
FACTS, FACTS_1 = "facts", "skerry"
CHECKSUMS = "crc32"
SEAL = "sha256"
BLANK = "0" * 64
MOST_HEADER = 100_000_000  # bytes; safetensors takes no more
ROOM = 100_000_000  # bytes that a checkpoint leaves free


def save_checkpoint(
    path: Path | str, tensors: Mapping[str, "Tensor"], facts: Mapping[str, JSON]
) -> None:
    """Write a checkpoint; a reader, or a crash, finds either the previous one or this one."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path = Path(path)
    _check_room(path, sum(tensor.nbytes for tensor in tensors.values()))
    plain = _plain(tensors)
    notes = {
        "format": str(FORMAT),
        FACTS: json.dumps(dict(facts)),
        CHECKSUMS: json.dumps({name: _checksum(tensor) for name, tensor in plain.items()}),
        SEAL: BLANK,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own holds whatever safetensors leaves behind when it is killed.
        with TemporaryDirectory(PARTIAL, f"{path.name}.", path.parent) as partial:
            fresh = Path(partial) / "fresh"
            with being_written(Path(partial)):
                save_file(plain, fresh, notes)
                _seal(fresh)
                _flush(fresh)
                os.replace(fresh, path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        raise RecordsError(
            f"cannot write the checkpoint {path} ({error}). Free some space or choose another "
            "folder; the checkpoint before it is safe."
        ) from error


def _check_room(path: Path, size: int) -> None:
    """Refuse to fill a disk completely, because other programs may be writing to it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return  # saving reports what is wrong
    if free < size + ROOM:
        raise RecordsError(
            f"cannot write the checkpoint {path} ({size / 1e9:,.1f} GB, which are not free). Free "
            "some space or choose another folder; the checkpoint before it is safe."
        )


def load_checkpoint(
    path: Path | str, device: "str | device", rows: Mapping[str, slice] | None = None
) -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """Load the tensors, bit for bit, and the facts of a checkpoint; of the tensors that `rows`
    names only these rows. Raises DamagedError if they are not what was saved."""
    some = rows or {}
    from safetensors import SafetensorError, safe_open

    try:
        if Path(path).exists() and not exists(Path(path)):  # reading a pipe would never end
            raise ValueError(SPECIAL)
        with safe_open(path, framework="pt", device="cpu") as file:
            notes = file.metadata() or {}
            facts, checksums = _read_notes(Path(path), notes)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if tensors.keys() != checksums.keys():
                raise ValueError("tensors without a checksum, or checksums without a tensor")
            wrong = [name for name in checksums if _checksum(tensors[name]) != checksums[name]]
            if wrong:
                raise ValueError(f"wrong checksum of {', '.join(wrong)}")
            # Copies, because the loaded tensors are views of the mapped file.
            copies = {
                name: (tensor[some[name]] if name in some else tensor).to(device, copy=True)
                for name, tensor in tensors.items()
            }
    except FileNotFoundError:
        raise RecordsError(f"no checkpoint {path}. Start the run from the beginning.") from None
    except OSError as error:
        raise RecordsError(f"cannot read the checkpoint {path} ({error}).") from error
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise DamagedError(
            f"{path} is damaged or no checkpoint of skerry ({error}). Deleting it restarts the run "
            "from the beginning.",
            reason=str(error),
        ) from error
    return copies, facts


def parts_folder(path: Path | str) -> Path:
    """The folder with the parts of a checkpoint that several ranks have saved."""
    return Path(path).with_suffix(".parts")


def remove_checkpoint(path: Path | str) -> None:
    """Remove a checkpoint, if it exists, and leftovers of interrupted attempts to save it."""
    try:
        partial = glob.glob(f"{glob.escape(str(path))}.*{PARTIAL}")
        for left in (path, parts_folder(path), *partial):
            if os.path.isdir(left):
                shutil.rmtree(left)
            else:
                Path(left).unlink(missing_ok=True)
    except OSError as error:
        raise RecordsError(f"cannot remove the checkpoint {path} ({error}).") from error


def _read_notes(path: Path, notes: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, int]]:
    """The facts and the checksums of the tensors, from the notes of a header."""
    if FACTS_1 in notes:
        return json.loads(notes[FACTS_1]), json.loads(notes[CHECKSUMS])
    _check_seal(path, notes[SEAL])
    if notes["format"] != str(FORMAT):
        raise RecordsError(
            f"{path} was made by a newer skerry (format {notes['format']}; this one reads 1 and "
            f"{FORMAT}). Use that version; deleting the file restarts the run from the beginning."
        )
    return json.loads(notes[FACTS]), json.loads(notes[CHECKSUMS])


def _seal(file: Path) -> None:
    """Write the checksum of the header into its place, which is blank so far."""
    header = _header(file)
    place = header.index(_note(BLANK)) + len(_note("")) - 1
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(hashlib.sha256(header).hexdigest().encode())


def _check_seal(file: Path, seal: str) -> None:
    header = _header(file)
    blank = header.replace(_note(seal), _note(BLANK))
    if header.count(_note(seal)) != 1 or hashlib.sha256(blank).hexdigest() != seal:
        raise ValueError("wrong checksum of the header")


def _note(seal: str) -> bytes:
    """The checksum as safetensors writes it; it occurs once, because other notes escape quotes."""
    return f'"{SEAL}":"{seal}"'.encode()


def _header(file: Path) -> bytes:
    """The first bytes of a safetensors file: the length of its header, and the header."""
    with file.open("rb") as opened:
        length = opened.read(8)
        return length + opened.read(min(int.from_bytes(length, "little"), MOST_HEADER))


def _plain(tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Contiguous tensors on the CPU that share no memory, as safetensors requires."""
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
