"""How precisely the products of a model's step are computed. Weights are float32 in any case.

    float32   every product in full
    tf32      factors are rounded to 10 bits of mantissa, sums are float32
    bf16      factors and activations are rounded to 7 bits of mantissa, sums are float32

A precision is a permission: a CPU, which gains nothing from rounding, computes in full.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch

Precision = Literal["float32", "tf32", "bf16"]

_current: ContextVar[Precision] = ContextVar("precision", default="float32")


def current() -> Precision:
    return _current.get()


@contextmanager
def arithmetic(precision: Precision) -> Iterator[None]:
    """Compute the products inside at this precision, and leave torch's own settings as found."""
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
