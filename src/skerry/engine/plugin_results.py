"""The contracts of a user's own functions in a round: checks of their results, each of which
gives the fault or None, and the tensors that they are lent."""

from typing import Any

import numpy as np
from torch import Tensor

from skerry.engine.compression import MessageDraws
from skerry.errors import SkerryError
from skerry.methods.method import Aggregation, Arrays, Lanes, Traffic

MOST_BYTES = 2**60


def is_count(found: Any, most: float = float("inf")) -> bool:
    """Whether this is a whole number from 0 on; True is none."""
    whole = isinstance(found, int | np.integer) and not isinstance(found, bool)
    return whole and 0 <= found <= most


def receivers_fault(found: Any, X_nld: Tensor, *_: object) -> str | None:
    """Primitives return how many devices received a message; an array of one number will do."""
    if isinstance(found, Tensor | np.ndarray) and found.ndim == 0:
        found = found.item()
    rule = f" must return how many devices received the average, 0 to {len(X_nld)}"
    return None if is_count(found, len(X_nld)) else f"{rule} (got {found!r:.60})."


def check_messages(kind: str, name: str, sent: int, changed_n: Tensor) -> None:
    """Refuse a plug-in that changes more devices than it reports messages for."""
    if sent < (changed := int(changed_n.sum())):
        counted = "reports" if kind == "primitive" else "aggregate reports"
        raise SkerryError(
            f"{kind} '{name}' {counted} {sent} messages from the server but changes the "
            f"models of {changed} devices. Count every device that receives something."
        )


def changed_rows(before_nld: Tensor, after_nld: Tensor) -> Tensor:
    """Mask [n] of the devices whose models changed; NaN equals NaN."""
    differs = (before_nld != after_nld) & ~(before_nld.isnan() & after_nld.isnan())
    return differs.flatten(1).any(dim=1)


def memory_fault(found: Any, x0_ld: Tensor) -> str | None:
    """Server optimizers start with a dict of tensors like a model of each lane."""
    sound = isinstance(found, dict) and all(_is_like(x0_ld, one) for one in found.values())
    shape = "of the shape it gets, [lanes, parameters], or an empty one"
    return _unless(sound, f": start must give a dict of tensors {shape}", found)


def delivery_fault(found: Any, memory: object, average_ld: Tensor, *_: object) -> str | None:
    """Server optimizers deliver a model for each lane."""
    sound = _is_like(average_ld, found) and found.dtype == average_ld.dtype
    dtype = str(average_ld.dtype).removeprefix("torch.")
    rule = f": deliver must give a {dtype} tensor of the average's shape, [lanes, parameters]"
    return _unless(sound, rule, found)


def companions_fault(found: Any, X_nld: Tensor) -> str | None:
    """Methods start with a dict of tensors like X, or like a model of each lane."""
    shapes = (tuple(X_nld.shape), tuple(X_nld.shape[1:]))
    if isinstance(found, dict) and all(
        isinstance(array, Tensor) and tuple(array.shape) in shapes for array in found.values()
    ):
        own = X_nld.untyped_storage().data_ptr()
        if any(array.untyped_storage().data_ptr() == own for array in found.values()):
            return ": start must give arrays of its own, not X itself. Use X_nld.clone()."
        return None
    return (
        ": start must give a dict of tensors, each of the shape it gets, [devices, lanes, "
        f"parameters], or without the devices (got {describe(found)})."
    )


def traffic_fault(found: Any, lanes: Lanes, *_: object) -> str | None:
    """Methods report the vectors that a server round sent."""
    sound = isinstance(found, Traffic) and is_count(found.up) and is_count(found.down)
    rule = ": aggregate must give a Traffic, the vectors sent up and down, both whole numbers"
    return _unless(sound, rule, found)


def direction_fault(found: Any, gradient: Tensor, *_: object) -> str | None:
    """Local optimizers return a direction for every model."""
    sound = _is_like(gradient, found) and found.dtype == gradient.dtype
    dtype = str(gradient.dtype).removeprefix("torch.")
    rule = f" must give the direction to step along, a {dtype} tensor of the gradient's shape"
    return _unless(sound, f"{rule} {tuple(gradient.shape)}", found)


def compressed_fault(found: Any, *_: object) -> str | None:
    """Compressions change messages in place."""
    rule = ": compress must change V_rld in place and return None, as in V_rld.mul_(0.5)"
    return _unless(found is None, rule, found)


def size_fault(found: Any, *_: object) -> str | None:
    """Compressions give the bytes of a message."""
    rule = ": bytes must give a whole number of at least 0"
    return None if is_count(found, MOST_BYTES) else f"{rule} (got {found!r:.60})."


# Lent


def lent_to_primitive(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor) -> Arrays:
    return {"sampled_k": sampled_k, "delivered_ld": delivered_ld}


def lent_at_start(models: Tensor) -> Arrays:
    return {"models": models}


def lent_to_step(lanes: Lanes, *_: object) -> Arrays:
    return {"eta_l1": lanes.eta_l1}


def lent_to_server(lanes: Lanes, server: Aggregation) -> Arrays:
    names = ("sampled_k", "weights_k", "islands_n", "eta_sum_l1", "receivers", "s2a_receivers")
    return {"eta_l1": lanes.eta_l1, **{name: getattr(server, name) for name in names}}


def lent_to_compression(V_rld: Tensor, draws: MessageDraws) -> Arrays:
    return {"keys_r": draws.keys_r, "real_d": draws.real_d}


METHOD_RULES: dict[str, Any] = {
    "start": (companions_fault, lent_at_start, True),
    "before_step": (None, lent_to_step, True),
    "after_step": (None, lent_to_step, True),
    "mix": (None, lent_to_step, False),
    "aggregate": (traffic_fault, lent_to_server, False),
    "repeats": (None, None, True),
}
COMPRESSION_RULES: dict[str, Any] = {
    "compress": (compressed_fault, lent_to_compression, True),
    "bytes": (size_fault, None, True),
}


def describe(found: Any) -> str:
    """A result in a message: a tensor by its shape and type, anything else by its type."""
    if isinstance(found, dict):
        return ", ".join(f"{name!s:.20}: {describe(value)}" for name, value in found.items())
    if isinstance(found, Traffic):
        return f"{found!r:.60}"
    if not isinstance(found, Tensor):
        return type(found).__name__
    return f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}"


def _unless(sound: bool, rule: str, found: Any) -> str | None:
    return None if sound else f"{rule} (got {describe(found)})."


def _is_like(model: Tensor, found: Any) -> bool:
    return isinstance(found, Tensor) and found.shape == model.shape
