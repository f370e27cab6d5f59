"""What methods do to several arrays at once, in one pass over them."""

import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.mixing import BLOCKS, _split_dot

BLOCK = 1024


def mix_and_collect(X_nk: Tensor, Z_nk: Tensor, W_css: Tensor, scale_l: Tensor) -> None:
    """As `mix_in_place`; what mixing takes from a model, times its lane's scale, is added to Z.

    X and Z have the lanes' parameters one after the other in each row.
    """
    size, columns = W_css.shape[1], X_nk.shape[1]
    side = max(16, triton.next_power_of_2(size))
    exact = precision.current() == "float32"
    width = 64 if exact or side > 64 else 128
    _mix_and_collect[(triton.cdiv(columns, width * BLOCKS), len(X_nk) // size)](
        X_nk, Z_nk, W_css, scale_l, size, columns, columns // len(scale_l), X_nk.stride(0),
        Z_nk.stride(0), size * size if len(W_css) > 1 else 0,
        EXACT=exact, SIDE=side, COLUMNS=width, BLOCKS=BLOCKS, num_warps=4 if side <= 64 else 8,
    )  # fmt: skip


@triton.jit
def _mix_and_collect(
    X, Z, W, scale, size, columns, d, X_stride, Z_stride, weights_stride, EXACT: tl.constexpr,
    SIDE: tl.constexpr, COLUMNS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    component = tl.program_id(1).to(tl.int64)
    X += component * size * X_stride
    Z += component * size * Z_stride
    row = tl.arange(0, SIDE)
    weights = tl.load(
        W + component * weights_stride + row[:, None] * size + row[None, :],
        mask=(row[:, None] < size) & (row[None, :] < size),
        other=0.0,
    )
    for block in range(BLOCKS):
        column = (tl.program_id(0).to(tl.int64) * BLOCKS + block) * COLUMNS + tl.arange(0, COLUMNS)
        places = X + row[:, None].to(tl.int64) * X_stride + column[None, :]
        inside = (row[:, None] < size) & (column[None, :] < columns)
        models = tl.load(places, mask=inside, other=0.0)
        if EXACT:
            mixed = tl.dot(weights, models, input_precision="ieee")
        else:
            first = tl.load(X + column, mask=column < columns, other=0.0)
            mixed = _split_dot(weights, models - first[None, :]) + first[None, :]
        tl.store(places, mixed, mask=inside)
        kept = Z + row[:, None].to(tl.int64) * Z_stride + column[None, :]
        lane_scale = tl.load(scale + column // d, mask=column < columns, other=0.0)
        collected = tl.load(kept, mask=inside, other=0.0) + (models - mixed) * lane_scale[None, :]
        tl.store(kept, collected, mask=inside)


def track(X_nld: Tensor, start_nld: Tensor, Y_nld: Tensor, last_nld: Tensor, eta_l: Tensor) -> None:
    """From X = start - eta G: Y <- Y + G - last; last <- G; X <- start - eta Y."""
    n, lanes, d = X_nld.shape
    _track[(triton.cdiv(d, BLOCK), lanes, n)](
        X_nld, start_nld, Y_nld, last_nld, eta_l, d, X_nld.stride(0), start_nld.stride(0),
        Y_nld.stride(0), last_nld.stride(0), eta_l.stride(0), BLOCK=BLOCK,
    )  # fmt: skip


@triton.jit
def _track(
    X, start, Y, last, eta, d, X_stride, start_stride, Y_stride, last_stride, eta_stride,
    BLOCK: tl.constexpr,
):  # fmt: skip
    lane, device = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    step = tl.load(eta + lane * eta_stride)
    before = tl.load(start + device * start_stride + place, mask=inside, other=0.0)
    after = tl.load(X + device * X_stride + place, mask=inside, other=0.0)
    gradient = tl.where(step > 0, (before - after) / tl.where(step > 0, step, 1.0), 0.0)
    was = tl.load(last + device * last_stride + place, mask=inside, other=0.0)
    y = tl.load(Y + device * Y_stride + place, mask=inside, other=0.0) - was + gradient
    tl.store(last + device * last_stride + place, gradient, mask=inside)
    tl.store(Y + device * Y_stride + place, y, mask=inside)
    tl.store(X + device * X_stride + place, before - step * y, mask=inside)
