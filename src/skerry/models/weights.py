"""Weights to start from, read from a .safetensors file: names and shapes must be the model's."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from skerry.errors import ModelError, one_line
from skerry.files import is_file, user_path

SHOWN = 3


def read_weights(path: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    file = _found(path)
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"model.weights: {path} cannot be read as safetensors ({one_line(error)}). Write it "
            "with safetensors.torch.save_file(model.state_dict(), path)."
        ) from None


def fingerprint(path: str) -> str:
    """Of the file: with it in the content key, other weights are computed anew."""
    with _found(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(module: nn.Module, weights: Mapping[str, Tensor], path: str) -> None:
    """Put the weights in their places. What is trained and not in the file starts as drawn, where
    the rest of the module is frozen: a new head on a given backbone."""
    places = {plain_name(name): tensor for name, tensor in module.state_dict().items()}
    trained = {plain_name(n) for n, p in module.named_parameters() if p.requires_grad}
    given = {plain_name(name): tensor for name, tensor in weights.items()}
    some_frozen = any(not p.requires_grad for p in module.parameters())
    missing = places.keys() - given.keys() - (trained if some_frozen else set())
    check_names(path, sorted(missing), sorted(given.keys() - places.keys()))
    for name, tensor in given.items():
        check_shape(path, name, tensor, tuple(places[name].shape))
    for name, tensor in given.items():
        places[name].copy_(tensor)  # a view of the module's own


def plain_name(name: str) -> str:
    """The name of a weight without what parametrizations and adapters put around it: a file saved
    before they were added still fits."""
    for around in ("parametrizations.", "base_model.model.", ".base_layer"):
        name = name.replace(around, "")
    return name.removesuffix(".original")


def check_names(path: str, missing: list[str], unexpected: list[str]) -> None:
    faults = []
    if missing:
        faults.append(f"lacks {_few(missing)}")
    if unexpected:
        faults.append(f"has {_few(unexpected)}, which the model does not")
    if faults:
        raise ModelError(
            f"model.weights: {path} {' and '.join(faults)}. Names must be those of "
            "model.state_dict()."
        )


def check_shape(path: str, name: str, found: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(found.shape) != shape or not found.is_floating_point():
        raise ModelError(
            f"model.weights: '{name}' in {path} must be numbers of shape {shape} (got "
            f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)})."
        )
    if not found.isfinite().all():
        raise ModelError(f"model.weights: '{name}' in {path} must be finite.")


def _found(path: str) -> Path:
    file = user_path(path)
    if not is_file(file):
        raise ModelError(f"model.weights does not exist: {path!s:.200}. Name a .safetensors file.")
    return file


def _few(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + more
