"""Where the fused kernels run: float32 tensors on a CUDA device that Triton serves.

Elsewhere every caller computes the same with plain torch operations; tests compare the two.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def runs_on(X: Tensor) -> bool:
    """Whether a fused kernel may be used on this tensor."""
    return serves(X.device, X.dtype)


def serves(device: torch.device, dtype: torch.dtype) -> bool:
    return dtype == torch.float32 and _runs_there(device)


def draws_on(device: torch.device) -> bool:
    """Whether kernels draw there what numpy draws on the host."""
    return _runs_there(device)


def mixes(X: Tensor, size: int) -> bool:
    """Whether a component of so many devices can be mixed in place, its W on the chip."""
    return runs_on(X) and size <= 128


@cache
def interpreted() -> bool:
    """Triton can interpret its kernels on a CPU, slowly: that is for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _runs_there(device: torch.device) -> bool:
    return (device.type == "cuda" or interpreted()) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
