"""Convolutions with separate weights for every model, as matrix products without stored patches.

Images are channels last: x [models or devices, B, H, W, C]. The position of a weight in a patch is
k = (r, s, c), so that a row of a patch is contiguous. The gradient of the input is the same kernel
on flipped weights; convolution_weights.py has the gradient of the weights.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.activations import ACTIVATIONS, activate


@dataclass(frozen=True)
class Tile:
    """Tile sizes and launch options of a convolution kernel; the best ones are found by timing."""

    rows: int
    depth: int
    warps: int
    stages: int
    merged: bool = False
    """Whether neighbouring windows are computed as outputs of one larger patch that covers all.
    The overlap of the windows is then read once and matrix products are larger, at the price of
    products with zeros where a window does not cover the patch."""


# Short lists, because compiling one tile takes a second. Chosen on an H200 (docs/speed.md).
FORWARD_TILES = (
    Tile(128, 32, 4, 3), Tile(64, 32, 4, 3), Tile(128, 16, 4, 3), Tile(256, 32, 8, 3),
)  # fmt: skip
ROUNDED_FORWARD_TILES = (
    Tile(128, 32, 4, 3), Tile(256, 32, 4, 3), Tile(128, 128, 8, 2, merged=True),
    Tile(128, 64, 8, 3, merged=True), Tile(128, 64, 4, 3, merged=True),
)  # fmt: skip


def forward_tiles() -> tuple[Tile, ...]:
    """Tiles to try at the current precision. None is merged in float32, where products dominate."""
    return FORWARD_TILES if precision.current() == "float32" else ROUNDED_FORWARD_TILES


def dtype_of_products() -> torch.dtype:
    """Type of the factors and activations at the current precision."""
    return torch.bfloat16 if precision.current() == "bf16" else torch.float32


def convolve_and_pool(
    x: Tensor, w_mko: Tensor, b_mo: Tensor | None, side: int, padding: int, pool: int,
    activation: str, tile: Tile, output: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """y = act(pool(conv(x, w) + b)) [models, B, H', W', O], and the positions of pooled maxima.

    Rows of w_mko [models, side * side * C, O] are in the order (r, s, c). If x has fewer images
    than there are models, consecutive models share the images of a device. `pool` is 1 or 2; the
    positions (0 to 3, int8) are empty without pooling. `output` is the dtype of y.
    """
    devices, size, height, width, channels = x.shape
    models, _, outputs = w_mko.shape
    w_mko = w_mko.contiguous()  # reshaping may have given a view, as with one channel
    rows, columns = ((e + 2 * padding - side + 1) // pool for e in (height, width))
    shape = (models, size, rows, columns, outputs)
    y = torch.empty(shape, device=x.device, dtype=output or dtype_of_products())
    winner = torch.empty(shape if pool > 1 else (0,), device=x.device, dtype=torch.int8)
    # Windows per side of the block that a program computes together: 2 if pooled or merged.
    span = 2 if pool == 2 or tile.merged else 1
    down, across = (rows, columns) if pool == 2 else (triton.cdiv(e, span) for e in (rows, columns))
    blocks = size * down * across
    block = tile.rows if tile.merged else tile.rows // span**2
    block_o = max(16, min(128 // (span**2 if tile.merged else 1), triton.next_power_of_2(outputs)))
    # Models are on the first axis of the grid: the other axes are limited to 65,535.
    _convolve_and_pool[(models * triton.cdiv(blocks, block), triton.cdiv(outputs, block_o))](
        x, w_mko, w_mko if b_mo is None else b_mo, y, winner, models // devices, size,
        0 if b_mo is None else b_mo.stride(0),
        HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns, DOWN=down,
        ACROSS=across, OUTPUTS=outputs, SIDE=side, PADDING=padding, SPAN=span, POOLS=pool > 1,
        MERGED=tile.merged, BIAS=b_mo is not None, ACTIVATION=ACTIVATIONS[activation], BLOCK=block,
        BLOCK_O=block_o, BLOCK_K=tile.depth, DOT=precision.dot_precision(), num_warps=tile.warps,
        num_stages=tile.stages,
    )  # fmt: skip
    return y, winner


@triton.jit
def _convolve_and_pool(
    x, w, b, y, winner, models_per_device, size, bias_stride,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, OUTPUTS: tl.constexpr,
    SIDE: tl.constexpr, PADDING: tl.constexpr, SPAN: tl.constexpr, POOLS: tl.constexpr,
    MERGED: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Each program computes blocks of SPAN x SPAN windows. In the product, windows of a block are
    separate rows or, if merged, separate outputs of a patch that is wider by SPAN - 1."""
    WINDOWS: tl.constexpr = SPAN * SPAN
    REACH: tl.constexpr = SIDE + SPAN - 1 if MERGED else SIDE  # the side of a patch
    M: tl.constexpr = BLOCK if MERGED else WINDOWS * BLOCK
    N: tl.constexpr = WINDOWS * BLOCK_O if MERGED else BLOCK_O
    DEPTH: tl.constexpr = REACH * REACH * CHANNELS
    programs = tl.cdiv(size * DOWN * ACROSS, BLOCK)  # of a model
    m, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    i, j = tl.arange(0, M), tl.arange(0, N)
    block = program * BLOCK + i % BLOCK
    o = tl.program_id(1) * BLOCK_O + j % BLOCK_O
    valid, wanted = block < size * DOWN * ACROSS, o < OUTPUTS
    # Position of the first window of a block, and which of its windows a row or output is.
    row = (block // ACROSS) % DOWN * SPAN
    column = block % ACROSS * SPAN
    if MERGED:
        below, beside = j // BLOCK_O // SPAN, j // BLOCK_O % SPAN
    else:
        row += i // BLOCK // SPAN
        column += i // BLOCK % SPAN
    number = block // (DOWN * ACROSS)
    top, left = row - PADDING, column - PADDING
    image = x + ((m // models_per_device) * size + number) * (HEIGHT * WIDTH * CHANNELS)
    patch = image + (top * WIDTH + left) * CHANNELS
    weights = w + m * (SIDE * SIDE * CHANNELS * OUTPUTS)
    z = tl.zeros([M, N], dtype=tl.float32)
    for start in range(0, DEPTH, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        r = k // (REACH * CHANNELS)
        s = (k // CHANNELS) % REACH
        inside = valid[:, None] & (k < DEPTH)[None, :]
        if PADDING > 0:
            above, across = top[:, None] + r[None, :], left[:, None] + s[None, :]
            inside &= (above >= 0) & (above < HEIGHT) & (across >= 0) & (across < WIDTH)
        elif MERGED and not POOLS:  # windows of a block at the edge may lie outside
            inside &= (top[:, None] + r[None, :] < HEIGHT) & (left[:, None] + s[None, :] < WIDTH)
        # Inside a row r of the patch, (s, c) count through contiguous memory.
        offset = r * (WIDTH * CHANNELS) + k % (REACH * CHANNELS)
        values = tl.load(patch[:, None] + offset[None, :], mask=inside, other=0.0)
        if MERGED:
            r_own, s_own = r[:, None] - below[None, :], s[:, None] - beside[None, :]
            reached = (r_own >= 0) & (r_own < SIDE) & (s_own >= 0) & (s_own < SIDE)
            k_own = (r_own * SIDE + s_own) * CHANNELS + (k % CHANNELS)[:, None]
        else:
            reached, k_own = (k < DEPTH)[:, None], k[:, None]
        factors = tl.load(
            weights + k_own * OUTPUTS + o[None, :], mask=reached & wanted[None, :], other=0.0
        )
        z = tl.dot(values, factors, z, input_precision=DOT)
    if POOLS:
        z, which = _max_over_windows(z, MERGED, BLOCK, BLOCK_O)
        block = program * BLOCK + tl.arange(0, BLOCK)
        o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
        inside = (block < size * DOWN * ACROSS)[:, None] & (o < OUTPUTS)[None, :]
        place = (m * (size * DOWN * ACROSS) + block)[:, None]
        tl.store(winner + place * OUTPUTS + o[None, :], which, mask=inside)
    else:
        if MERGED:
            down, right = row[:, None] + below[None, :], column[:, None] + beside[None, :]
        else:
            down, right = row[:, None], column[:, None]
        inside = (valid[:, None] & wanted[None, :]) & (down < ROWS) & (right < COLUMNS)
        place = ((m * size + number)[:, None] * ROWS + down) * COLUMNS + right
    if BIAS:
        z += tl.load(b + m * bias_stride + o, mask=o < OUTPUTS, other=0.0)[None, :]
    tl.store(y + place * OUTPUTS + o[None, :], activate(z, ACTIVATION), mask=inside)


@triton.jit
def _max_over_windows(z, MERGED: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr):
    """Maximum over the 2 x 2 windows of each block, and the window (0 to 3) that has it."""
    if MERGED:
        four = tl.permute(tl.reshape(z, [BLOCK, 2, 2, BLOCK_O]), [0, 3, 1, 2])
    else:
        four = tl.permute(tl.reshape(z, [2, 2, BLOCK, BLOCK_O]), [2, 3, 0, 1])
    left, right = tl.split(four)
    best, lower_left = tl.split(left)
    upper_right, lower_right = tl.split(right)
    which = tl.zeros([BLOCK, BLOCK_O], dtype=tl.int8)
    best, which = _update_max(best, which, upper_right, 1)
    best, which = _update_max(best, which, lower_left, 2)
    return _update_max(best, which, lower_right, 3)


@triton.jit
def _update_max(best, which, z, WINDOW: tl.constexpr):
    other = (z > best) | (z != z)  # NaN wins: a model that diverged must show it
    return tl.where(other, z, best), tl.where(other, WINDOW, which).to(tl.int8)
