"""X <- W X inside one component, in place: every block of columns is read once and written once.
What mixing takes from a model can be collected in the same pass."""

import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.choice import fastest

BLOCKS = 8  # of columns, that one program mixes with the same W, at most
SAMPLE = 3 * 2**23  # bytes of X on which tiles are timed: with those collected, no cache holds them

Tile = tuple[int, int]
"""Columns of a block, and warps."""


def mix_in_place(X_nk: Tensor, W_css: Tensor) -> None:
    """Components of equal size, one after the other in X: each becomes its W times itself.

    One W serves all components, or each has its own; rows of W sum to 1.
    """
    _run(X_nk, W_css, None, _tile(W_css))


def mix_and_collect(X_nk: Tensor, W_css: Tensor, into_nk: Tensor, scale_l: Tensor) -> None:
    """The same; what mixing takes from a model, times its lane's scale, is added to another array.
    In both, the lanes' parameters lie one after the other in each row."""
    d = X_nk.shape[1] // len(scale_l)
    some = slice(max(1, SAMPLE // (len(X_nk) * X_nk.itemsize)))

    def on_a_copy(tile: Tile) -> None:
        _run(X_nk[:, some].clone(), W_css, (into_nk[:, some].clone(), scale_l, d), tile)

    question = f"collecting mixing of {tuple(X_nk.shape)} by {tuple(W_css.shape)}"
    tile = fastest(f"{question}, {precision.current()}", _collecting_tiles(W_css), on_a_copy)
    _run(X_nk, W_css, (into_nk, scale_l, d), tile)


def _tile(W_css: Tensor) -> Tile:
    if W_css.shape[1] > 64:
        return 64, 8
    return (64, 4) if precision.current() == "float32" else (128, 4)


def _collecting_tiles(W_css: Tensor) -> list[Tile]:
    """Two blocks of models in registers are one more than a tile for mixing alone has room for."""
    if W_css.shape[1] > 64:
        return [(64, 8), (32, 8)]
    return [(64, 8), (32, 4)] if precision.current() == "float32" else [(128, 8), (64, 4)]


def _run(
    X_nk: Tensor, W_css: Tensor, collected: tuple[Tensor, Tensor, int] | None, tile: Tile
) -> None:
    size, columns = W_css.shape[1], X_nk.shape[1]
    side, (width, warps) = max(16, triton.next_power_of_2(size)), tile
    Z, scale, d = collected or (X_nk, X_nk, columns)
    blocks = triton.cdiv(columns, width)
    programs = triton.cdiv(blocks, BLOCKS)
    # All along the first axis: the others end at 65,535, fewer than components or columns can be.
    _mix[(len(X_nk) // size * programs,)](
        X_nk, Z, W_css, scale, programs, size, columns, d, X_nk.stride(0), Z.stride(0),
        size * size if len(W_css) > 1 else 0, COLLECTS=collected is not None,
        EXACT=precision.current() == "float32", SIDE=side, COLUMNS=width,
        BLOCKS=triton.cdiv(blocks, programs), num_warps=warps,
    )  # fmt: skip


@triton.jit
def _mix(
    X, Z, W, scale, programs, size, columns, d, X_stride, Z_stride, weights_stride,
    COLLECTS: tl.constexpr, EXACT: tl.constexpr, SIDE: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    component, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    X += component * size * X_stride
    Z += component * size * Z_stride
    row = tl.arange(0, SIDE)
    weights = tl.load(
        W + component * weights_stride + row[:, None] * size + row[None, :],
        mask=(row[:, None] < size) & (row[None, :] < size),
        other=0.0,
    )
    for block in range(BLOCKS):
        column = (program.to(tl.int64) * BLOCKS + block) * COLUMNS + tl.arange(0, COLUMNS)
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
            kept = Z + row[:, None].to(tl.int64) * Z_stride + column[None, :]
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
