"""Where the fused kernels run: float32 tensors on a CUDA device that Triton serves.

Elsewhere every caller computes the same with plain torch operations; tests compare the two.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from skerry.kernels import precision

SHORT = 1024
"""Numbers of a sample that our own gathering is for; it was timed with up to 208."""
MINIBATCH = 128
"""Samples that dense layers of our own are for, at most: a program holds a strip of all of them."""


def runs_on(X: Tensor) -> bool:
    """Whether a fused kernel may be used on this tensor."""
    return serves(X.device, X.dtype)


def serves(device: torch.device, dtype: torch.dtype) -> bool:
    return dtype == torch.float32 and _runs_there(device)


def draws_on(device: torch.device) -> bool:
    """Whether kernels draw there what numpy draws on the host."""
    return _runs_there(device)


def mixes(X: Tensor, size: int) -> bool:
    """Whether a component of so many devices is mixed in place, its W on the chip. In float32 the
    matrix units do not help: a W of 128 rows alone took longer than a round with torch's."""
    return runs_on(X) and size <= (64 if precision.current() == "float32" else 128)


def steps_dense(X: Tensor, samples: int) -> bool:
    """Whether a dense layer on so many samples is stepped by kernels. Torch's products are as good
    but for bf16, where both factors must be of that type, and weights are not."""
    return runs_on(X) and precision.current() == "bf16" and samples <= MINIBATCH


def sums_pooled(pool: int, padding: int, outputs: int) -> bool:
    """Whether a convolution's weights get their gradient from behind its pooling, if its input
    needs none. In float32, the products with zeros would cost more than the array that it saves;
    in tf32, and with a single output, Triton 3.6 cannot compile the kernel."""
    return pool == 2 and padding == 0 and outputs > 1 and precision.current() == "bf16"


@cache
def interpreted() -> bool:
    """Triton can interpret its kernels on a CPU, slowly: that is for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _runs_there(device: torch.device) -> bool:
    return (device.type == "cuda" or interpreted()) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
