"""Gradient tracking around a local step, each side in one pass over X, Y and the last gradient.

No fourth array is needed: while X moves, its start waits in the place of the last gradient.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
# Devices and blocks of their models along the first axis of a grid: the others end at 65,535.


def set_out(X_nld: Tensor, Y_nld: Tensor, last_nld: Tensor) -> None:
    """Before the step: Y <- Y - last; last <- X."""
    n, lanes, d = X_nld.shape
    _set_out[(n * triton.cdiv(d, BLOCK), lanes)](
        X_nld, Y_nld, last_nld, d, X_nld.stride(0), Y_nld.stride(0), last_nld.stride(0), BLOCK=BLOCK
    )


@triton.jit
def _set_out(X, Y, last, d, X_stride, Y_stride, last_stride, BLOCK: tl.constexpr):
    blocks, lane = tl.cdiv(d, BLOCK), tl.program_id(1).to(tl.int64)
    device = (tl.program_id(0) // blocks).to(tl.int64)
    k = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    gradient = last + device * last_stride + place
    y = Y + device * Y_stride + place
    rest = tl.load(y, mask=inside, other=0.0) - tl.load(gradient, mask=inside, other=0.0)
    tl.store(y, rest, mask=inside)
    tl.store(gradient, tl.load(X + device * X_stride + place, mask=inside, other=0.0), mask=inside)


def arrive(X_nld: Tensor, Y_nld: Tensor, start_nld: Tensor, eta_l1: Tensor) -> None:
    """After it, from X = start - eta G: Y <- Y + G; X <- start - eta Y; G in the place of start."""
    n, lanes, d = X_nld.shape
    _arrive[(n * triton.cdiv(d, BLOCK), lanes)](
        X_nld, Y_nld, start_nld, eta_l1, d, X_nld.stride(0), Y_nld.stride(0), start_nld.stride(0),
        eta_l1.stride(0), BLOCK=BLOCK,
    )  # fmt: skip


@triton.jit
def _arrive(X, Y, start, eta, d, X_stride, Y_stride, start_stride, eta_stride, BLOCK: tl.constexpr):
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
