"""Dropout with random numbers that are a function of a key.

With torch's own generator the masks of a lane would depend on the other lanes. Here the mask of a
device follows from one integer: it is the same on a CPU and a GPU and for all lanes, and the
reference engine can compute it again.
"""

import torch
from torch import Tensor, nn

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed integer; splitmix64's increment
_MIX = ((30, -4658895280553007687), (27, -7723592293110705685))  # splitmix64's finaliser


def keyed_uniform(key: Tensor, count: int) -> Tensor:
    """`count` uniform numbers in [0, 1), float32: splitmix64 of the integers following the key."""
    h = key + _GOLDEN * torch.arange(1, count + 1, device=key.device)
    for shift, factor in _MIX:
        h = (h ^ _shift_right(h, shift)) * factor
    h = h ^ _shift_right(h, 31)
    return _shift_right(h, 40).to(torch.float32) / 2**24


def _shift_right(h: Tensor, bits: int) -> Tensor:
    """Logical shift, as splitmix64 needs; torch shifts signed integers arithmetically."""
    return (h >> bits) & ((1 << (64 - bits)) - 1)


class KeyedDropout(nn.Module):
    """nn.Dropout whose mask follows from a key that the learner sets for each step."""

    key: Tensor

    def __init__(self, p: float, salt: int):
        super().__init__()
        self.p, self.salt = p, salt
        self.register_buffer("key", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = keyed_uniform(self.key + self.salt, x.numel()).view(x.shape) >= self.p
        return x * keep / (1 - self.p)


def key_dropouts(module: nn.Module) -> list[str]:
    """Replace every nn.Dropout by KeyedDropout in place; return the names of the key buffers."""
    for name, child in list(module.named_modules()):
        if type(child) is nn.Dropout:
            parent, _, attribute = name.rpartition(".")
            salt = sum(ord(letter) << (i % 40) for i, letter in enumerate(name))
            setattr(module.get_submodule(parent), attribute, KeyedDropout(child.p, salt))
    return [
        f"{name}.key" for name, child in module.named_modules() if isinstance(child, KeyedDropout)
    ]
