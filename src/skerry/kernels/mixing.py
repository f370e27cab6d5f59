"""Kernels over the device dimension of X: mixing, the S2S average, and the spread inside an island.

`mix_and_collect` and `share_and_collect` also add what they take from every model, times a scale
per lane, to another array.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.autotune import fastest

BLOCKS = 8  # most blocks of columns that one program mixes with the same W
TIMED_BYTES = 3 * 2**23  # of X, on which tiles are timed; with the collected ones more than a cache
COLUMNS = 256  # parameters per program of the average and the spread
ROWS = 16  # models that these load at once

Tile = tuple[int, int]
"""Columns of a block, and warps."""


def mix_in_place(X_nk: Tensor, W_css: Tensor) -> None:
    """X <- W X for consecutive islands of equal size.

    W_css holds one W for all islands or one for each; rows of W sum to 1.
    """
    _run(X_nk, W_css, None, _tile(W_css))


def mix_and_collect(X_nk: Tensor, W_css: Tensor, into_nk: Tensor, scale_l: Tensor) -> None:
    """X <- W X, and into <- into + scale (X - W X), with X before mixing.

    Rows of both arrays have the parameters of the lanes one after the other, d per lane.
    """
    d = X_nk.shape[1] // len(scale_l)
    some = slice(max(1, TIMED_BYTES // (len(X_nk) * X_nk.itemsize)))

    def on_a_copy(tile: Tile) -> None:
        _run(X_nk[:, some].clone(), W_css, (into_nk[:, some].clone(), scale_l, d), tile)

    name = f"collecting mixing of {tuple(X_nk.shape)} by {tuple(W_css.shape)}"
    tile = fastest(f"{name}, {precision.current()}", _collecting_tiles(W_css), on_a_copy)
    _run(X_nk, W_css, (into_nk, scale_l, d), tile)


def _tile(W_css: Tensor) -> Tile:
    if W_css.shape[1] > 64:
        return 64, 8
    return (64, 4) if precision.current() == "float32" else (128, 4)


def _collecting_tiles(W_css: Tensor) -> list[Tile]:
    """Smaller tiles than for mixing alone, because two blocks of models are in registers."""
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
    # All on the first axis of the grid: the others are limited to 65,535 programs.
    _mix[(len(X_nk) // size * programs,)](
        X_nk, Z, W_css, scale, programs, size, columns, d, X_nk.stride(0), Z.stride(0),
        size * size if len(W_css) > 1 else 0, COLLECTS=collected is not None,
        EXACT=precision.current() == "float32", SIDE=side, WIDTH=width,
        BLOCKS=triton.cdiv(blocks, programs), num_warps=warps,
    )  # fmt: skip


@triton.jit
def _mix(
    X, Z, W, scale, programs, size, columns, d, X_stride, Z_stride, weights_stride,
    COLLECTS: tl.constexpr, EXACT: tl.constexpr, SIDE: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    island, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    X += island * size * X_stride
    Z += island * size * Z_stride
    row = tl.arange(0, SIDE)
    weights = tl.load(
        W + island * weights_stride + row[:, None] * size + row[None, :],
        mask=(row[:, None] < size) & (row[None, :] < size),
        other=0.0,
    )
    for block in range(BLOCKS):
        column = (program.to(tl.int64) * BLOCKS + block) * WIDTH + tl.arange(0, WIDTH)
        pointers = X + row[:, None].to(tl.int64) * X_stride + column[None, :]
        inside = (row[:, None] < size) & (column[None, :] < columns)
        models = tl.load(pointers, mask=inside, other=0.0)
        if EXACT:
            mixed = tl.dot(weights, models, input_precision="ieee")
        else:
            # W x = x_1 + W (x - x_1): what is rounded is the disagreement, never the models.
            first = tl.load(X + column, mask=column < columns, other=0.0)
            mixed = _split_dot(weights, models - first[None, :]) + first[None, :]
        tl.store(pointers, mixed, mask=inside)
        if COLLECTS:
            kept = Z + row[:, None].to(tl.int64) * Z_stride + column[None, :]
            factor = tl.load(scale + column // d, mask=column < columns, other=0.0)
            taken = (models - mixed) * factor[None, :]
            tl.store(kept, tl.load(kept, mask=inside, other=0.0) + taken, mask=inside)


@triton.jit
def _split_dot(a, b):
    """a b on the bf16 matrix units with 16 bits of mantissa, each factor split in two halves."""
    a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)
    a_low = (a - a_high.to(tl.float32)).to(tl.bfloat16)
    b_low = (b - b_high.to(tl.float32)).to(tl.bfloat16)
    return tl.dot(a_high, b_high, tl.dot(a_high, b_low, tl.dot(a_low, b_high)))


def share_and_collect(X_nld: Tensor, sampled_k: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
    """Sampled rows of X become their mean; into <- into + scale (X - mean), with X before."""
    _, lanes, d = X_nld.shape
    tiles = triton.next_power_of_2(triton.cdiv(len(sampled_k), ROWS))  # few values to compile for
    # Blocks of a model are on the first axis of the grid: the others are limited to 65,535.
    _share[(triton.cdiv(d, COLUMNS), lanes)](
        X_nld, into_nld, sampled_k, scale_l1, len(sampled_k), d, X_nld.stride(0),
        into_nld.stride(0), scale_l1.stride(0), BLOCK=COLUMNS, ROWS=ROWS, TILES=tiles,
    )  # fmt: skip


@triton.jit
def _share(
    X, into, sampled, scale, count, d, X_stride, into_stride, scale_stride,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    # Differences to the first model, because models are closer to each other than to 0.
    first = tl.load(X + tl.load(sampled) * X_stride + place, mask=inside, other=0.0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        number = tile * ROWS + tl.arange(0, ROWS)
        row = tl.load(sampled + number, mask=number < count, other=0)
        there = (number < count)[:, None] & inside[None, :]
        x = tl.load(X + row[:, None] * X_stride + place[None, :], mask=there, other=0.0)
        total += tl.sum(tl.where(there, x - first[None, :], 0.0), axis=0)
    mean = first + total / count
    factor = tl.load(scale + lane * scale_stride)
    for tile in range(TILES):
        number = tile * ROWS + tl.arange(0, ROWS)
        row = tl.load(sampled + number, mask=number < count, other=0)
        there = (number < count)[:, None] & inside[None, :]
        model = X + row[:, None] * X_stride + place[None, :]
        kept = into + row[:, None] * into_stride + place[None, :]
        taken = (tl.load(model, mask=there, other=0.0) - mean[None, :]) * factor
        tl.store(kept, tl.load(kept, mask=there, other=0.0) + taken, mask=there)
        tl.store(model, tl.broadcast_to(mean[None, :], (ROWS, BLOCK)), mask=there)


def island_spread(X_sld: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [L, d] of an island's models, and the sum [L] of squared distances to it."""
    size, lanes, d = X_sld.shape
    mean = torch.empty(lanes, d, device=X_sld.device, dtype=torch.float32)
    pieces = triton.cdiv(d, COLUMNS)
    squared = torch.empty(lanes, pieces, device=X_sld.device, dtype=torch.float32)
    # Pieces of a model are on the first axis of the grid: the others are limited to 65,535.
    _spread[(pieces, lanes)](
        X_sld, mean, squared, d, X_sld.stride(0), X_sld.stride(1), pieces,
        SIZE=size, BLOCK=COLUMNS, ROWS=ROWS,
    )  # fmt: skip
    return mean, squared.sum(dim=1)


@triton.jit
def _spread(
    X, mean, squared, d, stride_n, stride_l, pieces,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    piece, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    k = piece * BLOCK + tl.arange(0, BLOCK)
    base = X + lane * stride_l + k
    first = tl.load(base, mask=k < d, other=0.0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, SIZE, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        x = tl.load(
            base[None, :] + row.to(tl.int64) * stride_n,
            mask=(row < SIZE) & (k[None, :] < d),
            other=0.0,
        )
        difference = tl.where(row < SIZE, x - first[None, :], 0.0)
        total += tl.sum(difference, axis=0)
        squares += tl.sum(difference * difference, axis=0)
    shift = total / SIZE
    tl.store(mean + lane * d + k, first + shift, mask=k < d)
    around = tl.where(k < d, squares - shift * total, 0.0)
    tl.store(squared + lane * pieces + piece, tl.sum(around))
