"""Initial weights from a .safetensors file, whose names and shapes must be those of the model."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from skerry.errors import ModelError, one_line
from skerry.files import is_file, user_path, what_is_wrong

MAX_NAMES = 3


def read_weights(path: str) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file by name."""
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
    """SHA-256 of the file; it is part of the content key of a run."""
    with _existing_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        check_shape(path, name, tensor, tuple(state[name].shape))
    for name, tensor in given.items():
        state[name].copy_(tensor)  # in place: state_dict gives views


def plain_name(name: str) -> str:
    """Name of a weight without the additions of parametrizations and adapters, so that a file saved
    before they were added still fits."""
    for around in ("parametrizations.", "base_model.model.", ".base_layer"):
        name = name.replace(around, "")
    return name.removesuffix(".original")


def check_names(path: str, missing: list[str], unexpected: list[str]) -> None:
    """Raise ModelError if names are missing or unexpected."""
    faults = [f"lacks {_first_names(missing)}"] if missing else []
    if unexpected:
        faults.append(f"has {_first_names(unexpected)}, which the model does not")
    if faults:
        raise ModelError(
            f"model.weights: {path} {' and '.join(faults)}. Names must be those of "
            "model.state_dict()."
        )


def check_shape(path: str, name: str, weight: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ModelError unless the weight has this shape and finite floating-point numbers."""
    if tuple(weight.shape) != shape or not weight.is_floating_point():
        raise ModelError(
            f"model.weights: '{name}' in {path} must be numbers of shape {shape} (got "
            f"{str(weight.dtype).removeprefix('torch.')} of shape {tuple(weight.shape)})."
        )
    if not weight.isfinite().all():
        raise ModelError(f"model.weights: '{name}' in {path} must be finite.")


def _existing_file(path: str) -> Path:
    file = user_path(path)
    if not is_file(file):
        raise ModelError(
            f"model.weights {what_is_wrong(file)}: {path!s:.200}. Name a .safetensors file."
        )
    return file


def _first_names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(repr(name) for name in names[:MAX_NAMES]) + more
