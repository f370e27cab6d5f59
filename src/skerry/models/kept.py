"""What a module keeps of a sample for the way back, counted on one pass forward."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn


def bytes_kept(module: nn.Module, x: Tensor, rounded: bool) -> int:
    """By autograd, for one of these samples; rounded as autocast does it. Parameters, which are
    there in any case, do not count, nor does an array that several operations keep again."""
    parameters = {p.untyped_storage().data_ptr() for p in module.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in parameters:
            kept[place] = tensor  # held, so that its place is nobody else's
        return tensor

    rounding = torch.autocast(x.device.type, torch.bfloat16) if rounded else nullcontext()
    with rounding, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(x)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) // len(x)
