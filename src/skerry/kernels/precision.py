"""Precision of the products in a model's step. Weights are always float32.

    float32   products in full precision
    tf32      factors are rounded to 10 bits of mantissa, sums are float32
    bf16      factors and activations are rounded to 7 bits of mantissa, sums are float32

A precision permits rounding and does not require it: a CPU gains nothing and computes in float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch

Precision = Literal["float32", "tf32", "bf16"]

_current: ContextVar[Precision] = ContextVar("precision", default="float32")


def current() -> Precision:
    """The precision of the innermost `arithmetic` block; float32 outside of any."""
    return _current.get()


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """Compute the products inside at this precision; torch's own settings are restored after."""
    rounded = precision != "float32"
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    token = _current.set(precision)
    matmul.allow_tf32 = cudnn.allow_tf32 = rounded
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
        _current.reset(token)


def dot_precision() -> str:
    """Triton's `input_precision` of a product at the current precision."""
    return "ieee" if current() == "float32" else "tf32"
