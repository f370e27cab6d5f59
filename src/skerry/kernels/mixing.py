"""X <- W X inside one component, in place: every block of columns is read once and written once.
What mixing takes from a model can be collected in the same pass."""

import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

BLOCKS = 8  # of columns, that one program mixes with the same W


def mix_in_place(
    X_nk: Tensor, W_css: Tensor, into_nk: Tensor | None = None, scale_l: Tensor | None = None
) -> None:
    """Components of equal size, one after the other in X: each becomes its W times itself.

    One W serves all components, or each has its own; rows of W sum to 1. What mixing takes from a
    model, times its lane's scale, is added to another array; in both, the lanes' parameters lie
    one after the other in each row.
    """
    size, columns = W_css.shape[1], X_nk.shape[1]
    side = max(16, triton.next_power_of_2(size))
    exact = precision.current() == "float32"
    width = 64 if exact or side > 64 else 128
    collects = into_nk is not None and scale_l is not None
    Z, scale = (into_nk, scale_l) if collects else (X_nk, X_nk)
    _mix[(triton.cdiv(columns, width * BLOCKS), len(X_nk) // size)](
        X_nk, Z, W_css, scale, size, columns, columns // len(scale) if collects else columns,
        X_nk.stride(0), Z.stride(0), size * size if len(W_css) > 1 else 0, COLLECTS=collects,
        EXACT=exact, SIDE=side, COLUMNS=width, BLOCKS=BLOCKS, num_warps=4 if side <= 64 else 8,
    )  # fmt: skip


@triton.jit
def _mix(
    X, Z, W, scale, size, columns, d, X_stride, Z_stride, weights_stride, COLLECTS: tl.constexpr,
    EXACT: tl.constexpr, SIDE: tl.constexpr, COLUMNS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    component = tl.program_id(1).to(tl.int64)
    X += component * size * X_stride
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
            # W x = x_1 + W (x - x_1): what is rounded is the disagreement, never the models.
            first = tl.load(X + column, mask=column < columns, other=0.0)
            mixed = _split_dot(weights, models - first[None, :]) + first[None, :]
        tl.store(places, mixed, mask=inside)
        if COLLECTS:
            kept = Z + (component * size + row[:, None]) * Z_stride + column[None, :]
            factor = tl.load(scale + column // d, mask=column < columns, other=0.0)
            taken = (models - mixed) * factor[None, :]
            tl.store(kept, tl.load(kept, mask=inside, other=0.0) + taken, mask=inside)


@triton.jit
def _split_dot(a, b):
    """a b on the bf16 matrix units with 16 bits of mantissa: each factor in two halves."""
    a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)
    a_low = (a - a_high.to(tl.float32)).to(tl.bfloat16)
    b_low = (b - b_high.to(tl.float32)).to(tl.bfloat16)
    return tl.dot(a_high, b_high, tl.dot(a_high, b_low, tl.dot(a_low, b_high)))
