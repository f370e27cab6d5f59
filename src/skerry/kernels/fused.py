"""Rules for when fused kernels run: on float32 tensors, on a CUDA device, with Triton installed.

Otherwise every caller computes the same with plain torch operations; tests compare the two.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from skerry.kernels import precision

MAX_GATHERED = 1024
"""Largest sample, in numbers, that `gather_rows` is used for; it was timed with up to 208."""
MAX_DENSE_SAMPLES = 128
"""Largest minibatch for fused dense layers: a program holds a strip of all samples."""


def runs_on(X: Tensor) -> bool:
    """Whether fused kernels run on this tensor."""
    return supports(X.device, X.dtype)


def supports(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether fused kernels run on tensors of this device and dtype."""
    return dtype == torch.float32 and _has_kernels(device)


def draws_on(device: torch.device) -> bool:
    """Whether minibatch indices are drawn on this device instead of by numpy on the host."""
    return _has_kernels(device)


def mixes(X: Tensor, size: int) -> bool:
    """Whether islands of `size` devices are mixed in place by a kernel with W on the chip.

    The limit is lower in float32, where matrix units do not help: with 128 devices the kernel
    took longer than a whole round by torch.
    """
    return runs_on(X) and size <= (64 if precision.current() == "float32" else 128)


def steps_dense(X: Tensor, samples: int) -> bool:
    """Whether dense layers on minibatches of `samples` use kernels: only in bf16, where torch's
    products need both factors in bf16, and weights are float32."""
    return runs_on(X) and precision.current() == "bf16" and samples <= MAX_DENSE_SAMPLES


def sums_pooled(pool: int, padding: int, outputs: int) -> bool:
    """Whether `pooled_weight_sums` computes the gradient of a first convolution's weights.

    In float32 its products with zeros cost more than the array that it saves. In tf32, and with a
    single output, Triton 3.6 cannot compile the kernel.
    """
    return pool == 2 and padding == 0 and outputs > 1 and precision.current() == "bf16"


@cache
def interpreted() -> bool:
    """Whether Triton interprets its kernels on a CPU, which is slow and meant for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _has_kernels(device: torch.device) -> bool:
    return (device.type == "cuda" or interpreted()) and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
