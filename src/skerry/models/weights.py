"""Initial weights as state dicts, from .safetensors files or from Python: one for all devices, or
one for each device. Their names and shapes must be those of the model."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import torch
from torch import Tensor, nn

from skerry.data.holdings import quote_names
from skerry.errors import ModelError, did_you_mean, one_line
from skerry.files import exists, is_file, user_path, what_is_wrong
from skerry.plugins.registry import GIVEN

SUFFIX = ".safetensors"
DEFAULT = "default"
"""The name whose weights all devices get that have none of their own."""

StateDict = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Weights:
    """The initial weights of all devices, or of each device by its name."""

    source: str
    """The path, or the argument, for messages."""
    digest: str
    """A hash of all names and numbers; it is part of the content key of a run."""
    common: StateDict | None = None
    by_device: Mapping[str, StateDict] = field(default_factory=dict)
    path: str = ""
    """The path that they were read from, if any."""

    @property
    def first(self) -> tuple[StateDict, str]:
        """The weights that a model is built with, and their name for messages."""
        if self.common is not None:
            return self.common, self.source
        name = DEFAULT if DEFAULT in self.by_device else next(iter(self.by_device))
        return self.by_device[name], self.name_of(name)

    def name_of(self, device: str) -> str:
        """The weights of a device in messages."""
        where = Path(self.source) / file_name(device)
        return str(where) if self.path else f"{self.source}[{device!r}]"

    def of_devices(self, names: Sequence[str]) -> list[tuple[StateDict, str]]:
        """The weights of every device, and their name for messages."""
        for name in self.by_device:
            if name not in names and name != DEFAULT:
                raise ModelError(
                    f"model.weights: {self.source} must have names of devices, or '{DEFAULT}' (got "
                    f"{name!r}){did_you_mean(name, names)} The names are those in the data or the "
                    "graph, else numbers from 0."
                )
        missing = [name for name in names if name not in self.by_device]
        if missing and DEFAULT in names and DEFAULT in self.by_device:
            raise ModelError(
                f"model.weights: '{DEFAULT}' in {self.source} may be for the device of this name, "
                "or for all devices without weights of their own (got none for "
                f"{quote_names(missing, 3)}). Give weights for every device."
            )
        if missing and DEFAULT not in self.by_device:
            raise ModelError(
                f"model.weights: {self.source} must have weights for every device, or '{DEFAULT}' "
                f"for the others (got none for {quote_names(missing, 3)}). Add them."
            )
        found = [DEFAULT if name in missing else name for name in names]
        return [(self.by_device[name], self.name_of(name)) for name in found]


def file_name(device: str) -> str:
    """The name of a device's file in a folder of weights; characters that no file name may have
    are written as in addresses, `%2F`."""
    quoted = quote(device, safe=" +,=@")
    return (f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted) + SUFFIX


def read_weights(path: str) -> Weights:
    """Read a .safetensors file, or a folder with one for each device."""
    if path == GIVEN:
        raise ModelError(
            "model.weights = 'given' stands for weights from Python, which are not in the "
            "experiment. Give them again: skerry.run(..., weights=...)."
        )
    digest, folder = weights_fingerprint(path), user_path(path)
    if not folder.is_dir():
        return Weights(path, digest, _read_file(path), path=path)
    files: dict[str, Path] = {}
    for file in _files_of(folder):
        if (other := files.setdefault(unquote(file.stem), file)) != file:
            raise ModelError(
                f"model.weights: {other} and {file} are both for device {unquote(file.stem)!r}. "
                "Keep one."
            )
    states = {device: _read_file(str(file)) for device, file in files.items()}
    return Weights(path, digest, by_device=states, path=path)


def weights_from(given: Any) -> Weights:
    """The weights that were given from Python: a path, a module, a state dict, or a mapping of
    device names, or numbers, to any of these."""
    if isinstance(given, str | Path):
        return read_weights(str(given))
    if common := _state_dict(given):
        return Weights("weights", _digest({"": common}), common)
    if not isinstance(given, Mapping) or not given or any(type(n) not in (str, int) for n in given):
        raise ModelError(
            "weights takes a state dict, a path, or a dict of device names to either (got "
            f"{type(given).__name__}). Give weights=module.state_dict()."
        )
    states: dict[str, StateDict] = {}
    for device, value in given.items():
        if str(device) in states:
            raise ModelError(f"weights names device '{device}' twice. Keep one.")
        if isinstance(value, str | Path):
            states[str(device)] = _read_file(str(value))
        elif (state := _state_dict(value)) is not None:
            states[str(device)] = state
        else:
            raise ModelError(
                f"weights[{device!r}] must be a state dict or the path of a {SUFFIX} file (got "
                f"{type(value).__name__})."
            )
    return Weights("weights", _digest(states), by_device=states)


def _state_dict(given: Any) -> dict[str, Tensor] | None:
    """A copy of a state dict, or of that of a module, which training elsewhere does not change;
    None for anything else."""
    state = given.state_dict() if isinstance(given, nn.Module) else given
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        return None
    if not all(isinstance(value, Tensor | np.ndarray) for value in state.values()):
        return None
    try:
        return {name: torch.as_tensor(v).detach().cpu().clone() for name, v in state.items()}
    except (TypeError, ValueError):  # an array of text or objects
        return None


def _digest(states: Mapping[str, StateDict]) -> str:
    digest = hashlib.sha256()
    for device, state in sorted(states.items()):
        for name, tensor in sorted(state.items()):
            digest.update(f"{device!r} {name!r} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _read_file(path: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = _existing_file(path)
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"model.weights: {path} cannot be read as safetensors ({one_line(error)}). Write it "
            "with safetensors.torch.save_file(model.state_dict(), path)."
        ) from None


def weights_fingerprint(path: str) -> str:
    """SHA-256 of a file, or of the names and contents of the files in a folder; it is part of the
    content key of a run."""
    folder = user_path(path)
    if exists(folder) and folder.is_dir():
        files = [f"{file.name} {weights_fingerprint(str(file))}" for file in _files_of(folder)]
        return hashlib.sha256("\n".join(files).encode()).hexdigest()
    with _existing_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files_of(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.glob(f"*{SUFFIX}") if not file.name.startswith("."))
    if not files:
        raise ModelError(
            f"model.weights: the folder {folder} must hold a file NAME{SUFFIX} for each device "
            "(got none). Export the models of all devices there."
        )
    return files


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], path: str) -> None:
    """Copy the weights into the module.

    If parts of the module are frozen, trainable parameters may be missing from the file and keep
    their initial values: a new head on a pretrained backbone.
    """
    state = {plain_name(name): tensor for name, tensor in module.state_dict().items()}
    trainable = {plain_name(n) for n, p in module.named_parameters() if p.requires_grad}
    given = {plain_name(name): tensor for name, tensor in weights.items()}
    some_frozen = any(not p.requires_grad for p in module.parameters())
    missing = state.keys() - given.keys() - (trainable if some_frozen else set())
    check_names(path, sorted(missing), sorted(given.keys() - state.keys()))
    for name, tensor in given.items():
        if state[name].is_floating_point():
            check_shape(path, name, tensor, tuple(state[name].shape))
        elif (tensor.shape, tensor.dtype) != (state[name].shape, state[name].dtype):
            raise _wrong_shape(path, name, tensor, tuple(state[name].shape))
    for name, tensor in given.items():
        state[name].copy_(tensor)  # in place: state_dict gives views


def start_rows(learner: Any, weights: Weights, devices: Sequence[str]) -> Tensor | None:
    """The initial models of all devices [n, d]; None if all have the same weights."""
    if weights.common is not None:
        return None
    rows = []
    for state, name in weights.of_devices(devices):
        learner.load(state, name)
        rows.append(learner.initial().clone())
    learner.load(*weights.first)
    return torch.stack(rows)


def untrained_part(module: nn.Module) -> "Untrained":
    """The frozen parameters and buffers of a module, and the other names of tied parameters."""
    first = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
    every = module.named_parameters(remove_duplicate=False)
    trained = {name: first[id(p)] for name, p in every if id(p) in first}
    fixed = {
        name: value.detach().cpu().clone()
        for name, value in module.state_dict().items()
        if isinstance(value, Tensor) and name not in trained
    }
    return Untrained(fixed, {name: of for name, of in trained.items() if name != of})


@dataclass(frozen=True)
class Untrained:
    """The part of a state dict that all devices share, and names that mean the same parameter."""

    fixed: Mapping[str, Tensor] = field(default_factory=dict)
    """Frozen parameters and buffers."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """By a further name of a tied parameter, the name that its numbers have in the layout."""

    def complete(self, parameters: StateDict) -> dict[str, Tensor]:
        """The state dict of a model with these parameters."""
        tied = {name: parameters[of] for name, of in self.tied.items()}
        return {**parameters, **tied, **self.fixed}


def plain_name(name: str) -> str:
    """Name of a weight without the additions of parametrizations and adapters, so that a file saved
    before they were added still fits."""
    for around in ("parametrizations.", "base_model.model.", ".base_layer"):
        name = name.replace(around, "")
    return name.removesuffix(".original")


def check_names(path: str, missing: list[str], unexpected: list[str]) -> None:
    """Raise ModelError if names are missing or unexpected."""
    faults = [f"lacks {quote_names(missing, 3)}"] if missing else []
    if unexpected:
        faults.append(f"has {quote_names(unexpected, 3)}, which the model does not")
    if faults:
        raise ModelError(
            f"model.weights: {path} {' and '.join(faults)}. Names must be those of "
            "model.state_dict()."
        )


def check_shape(path: str, name: str, weight: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ModelError unless the weight has this shape and finite floating-point numbers."""
    if tuple(weight.shape) != shape or not weight.is_floating_point():
        raise _wrong_shape(path, name, weight, shape)
    if not weight.isfinite().all():
        raise ModelError(f"model.weights: '{name}' in {path} must be finite.")


def _wrong_shape(path: str, name: str, weight: Tensor, shape: tuple[int, ...]) -> ModelError:
    return ModelError(
        f"model.weights: '{name}' in {path} must be numbers of shape {shape} (got "
        f"{str(weight.dtype).removeprefix('torch.')} of shape {tuple(weight.shape)})."
    )


def _existing_file(path: str) -> Path:
    file = user_path(path)
    if not is_file(file):
        raise ModelError(f"model.weights {what_is_wrong(path)}. Name a .safetensors file.")
    return file
