"""What a module keeps of a sample for the way back, counted on passes forward."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn


def bytes_kept(module: nn.Module, x: Tensor, rounded: bool) -> int:
    """By autograd, for one more sample like these; rounded as autocast does it."""
    rounding = torch.autocast(x.device.type, torch.bfloat16) if rounded else nullcontext()
    with rounding:
        return (_kept(module, torch.cat([x, x])) - _kept(module, x)) // len(x)


def _kept(module: nn.Module, x: Tensor) -> int:
    """An array that several operations keep counts once."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held: its place is nobody else's
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(x)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
