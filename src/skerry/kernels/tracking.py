"""Gradient tracking: the updates before and after a local step, each in one pass.

X is stored in the array of the last gradient during the step, so that no fourth array is needed.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
# Devices and blocks of models are on the first axis of a grid: the others are limited to 65,535.


def before_step(X_nld: Tensor, Y_nld: Tensor, last_nld: Tensor) -> None:
    """Before a local step: Y <- Y - last; last <- X."""
    n, lanes, d = X_nld.shape
    _before_step[(n * triton.cdiv(d, BLOCK), lanes)](
        X_nld, Y_nld, last_nld, d, X_nld.stride(0), Y_nld.stride(0), last_nld.stride(0), BLOCK=BLOCK
    )


@triton.jit
def _before_step(X, Y, last, d, X_stride, Y_stride, last_stride, BLOCK: tl.constexpr):
    blocks, lane = tl.cdiv(d, BLOCK), tl.program_id(1).to(tl.int64)
    device = (tl.program_id(0) // blocks).to(tl.int64)
    k = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    gradient = last + device * last_stride + place
    y = Y + device * Y_stride + place
    rest = tl.load(y, mask=inside, other=0.0) - tl.load(gradient, mask=inside, other=0.0)
    tl.store(y, rest, mask=inside)
    tl.store(gradient, tl.load(X + device * X_stride + place, mask=inside, other=0.0), mask=inside)


def after_step(X_nld: Tensor, Y_nld: Tensor, start_nld: Tensor, eta_l1: Tensor) -> None:
    """After a local step to X = start - eta G: Y <- Y + G; X <- start - eta Y; start <- G."""
    n, lanes, d = X_nld.shape
    _after_step[(n * triton.cdiv(d, BLOCK), lanes)](
        X_nld, Y_nld, start_nld, eta_l1, d, X_nld.stride(0), Y_nld.stride(0), start_nld.stride(0),
        eta_l1.stride(0), BLOCK=BLOCK,
    )  # fmt: skip


@triton.jit
def _after_step(
    X, Y, start, eta, d, X_stride, Y_stride, start_stride, eta_stride, BLOCK: tl.constexpr
):
    blocks, lane = tl.cdiv(d, BLOCK), tl.program_id(1).to(tl.int64)
    device = (tl.program_id(0) // blocks).to(tl.int64)
    k = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    step = tl.load(eta + lane * eta_stride)
    model, y = X + device * X_stride + place, Y + device * Y_stride + place
    kept = start + device * start_stride + place
    before = tl.load(kept, mask=inside, other=0.0)
    moved = before - tl.load(model, mask=inside, other=0.0)
    gradient = tl.where(step > 0, moved / tl.where(step > 0, step, 1.0), 0.0)
    tracked = tl.load(y, mask=inside, other=0.0) + gradient
    tl.store(kept, gradient, mask=inside)
    tl.store(y, tracked, mask=inside)
    tl.store(model, before - step * tracked, mask=inside)
