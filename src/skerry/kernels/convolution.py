"""Convolutions with a set of weights for every model, as products that never store the patches.

Images lie channels last: x [models or devices, B, H, W, C]. A weight's position in a patch counts
as k = (r, s, c), so that a row of a patch is contiguous. Three kernels do all the work:

    forward        y = act(pool(conv(x, w) + b)), and which of the pooled positions won
    before_pool    the gradient at the convolution's own output, from the gradient of y
    weight_sums    sums over positions of patch times gradient: the gradient of the weights

The input's gradient is the forward kernel again, on flipped weights.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

ACTIVATIONS = {"none": 0, "relu": 1, "elu": 2}


@dataclass(frozen=True)
class Tile:
    """How a kernel cuts its work; the best one depends on the shape, and is measured."""

    rows: int
    depth: int
    warps: int
    stages: int


# A short list each: compiling one takes a second. Chosen among all on an H200 (docs/speed.md).
FORWARD_TILES = (
    Tile(128, 32, 4, 3), Tile(64, 32, 4, 3), Tile(128, 16, 4, 3), Tile(256, 32, 8, 3),
)  # fmt: skip
WEIGHT_TILES = (
    Tile(64, 128, 4, 3), Tile(64, 64, 4, 3), Tile(64, 128, 4, 1), Tile(64, 32, 4, 2),
)  # fmt: skip


def dtype_of_products() -> torch.dtype:
    return torch.bfloat16 if precision.current() == "bf16" else torch.float32


def _dot_precision() -> str:
    return "ieee" if precision.current() == "float32" else "tf32"


def forward(
    x: Tensor,
    w_mko: Tensor,
    b_mo: Tensor | None,
    side: int,
    padding: int,
    pool: int,
    activation: str,
    tile: Tile,
    output: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """y [models, B, H', W', O] and the winners of pooling (int8; empty without pooling).

    w_mko [models, side * side * C, O] has its rows in the order (r, s, c); models that follow
    each other share the images of one device where x has fewer of them.
    """
    devices, size, height, width, channels = x.shape
    models, depth, outputs = w_mko.shape
    rows, columns = (e + 2 * padding - side + 1 for e in (height, width))
    rows, columns = rows // pool, columns // pool
    shape = (models, size, rows, columns, outputs)
    y = torch.empty(shape, device=x.device, dtype=output or dtype_of_products())
    winner = torch.empty(shape if pool > 1 else (0,), device=x.device, dtype=torch.int8)
    block_o = max(16, min(128, triton.next_power_of_2(outputs)))
    positions = size * rows * columns
    grid = (triton.cdiv(positions, tile.rows), models, triton.cdiv(outputs, block_o))
    _forward[grid](
        x, w_mko, w_mko if b_mo is None else b_mo, y, winner, models // devices, positions,
        0 if b_mo is None else b_mo.stride(0),
        HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns, OUTPUTS=outputs,
        SIDE=side, PADDING=padding, POOL=pool, DEPTH=depth, BIAS=b_mo is not None,
        ACTIVATION=ACTIVATIONS[activation], BLOCK=tile.rows, BLOCK_O=block_o, BLOCK_K=tile.depth,
        DOT=_dot_precision(), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return y, winner


@triton.jit
def _forward(
    x, w, b, y, winner, models_per_device, positions, bias_stride,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, SIDE: tl.constexpr, PADDING: tl.constexpr,
    POOL: tl.constexpr, DEPTH: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1).to(tl.int64)
    device = m // models_per_device
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = tl.program_id(2) * BLOCK_O + tl.arange(0, BLOCK_O)
    column = position % COLUMNS
    row = (position // COLUMNS) % ROWS
    image = x + (device * (positions // (ROWS * COLUMNS)) + position // (ROWS * COLUMNS)) * (
        HEIGHT * WIDTH * CHANNELS
    )
    weights = w + m * (DEPTH * OUTPUTS)
    best = tl.full([BLOCK, BLOCK_O], float("-inf"), dtype=tl.float32)
    won = tl.zeros([BLOCK, BLOCK_O], dtype=tl.int32)
    for window in tl.static_range(POOL * POOL):
        top = row * POOL + window // POOL - PADDING
        left = column * POOL + window % POOL - PADDING
        patch = image + (top * WIDTH + left) * CHANNELS
        z = tl.zeros([BLOCK, BLOCK_O], dtype=tl.float32)
        for start in range(0, DEPTH, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            r = k // (SIDE * CHANNELS)
            s = (k // CHANNELS) % SIDE
            inside = (position < positions)[:, None] & (k < DEPTH)[None, :]
            if PADDING > 0:
                above, across = top[:, None] + r[None, :], left[:, None] + s[None, :]
                inside &= (above >= 0) & (above < HEIGHT) & (across >= 0) & (across < WIDTH)
            # Inside a row r of the patch, (s, c) count through contiguous memory.
            offset = r * (WIDTH * CHANNELS) + k % (SIDE * CHANNELS)
            values = tl.load(patch[:, None] + offset[None, :], mask=inside, other=0.0)
            factors = tl.load(
                weights + k[:, None] * OUTPUTS + o[None, :],
                mask=(k < DEPTH)[:, None] & (o < OUTPUTS)[None, :],
                other=0.0,
            )
            z = tl.dot(values, factors, z, input_precision=DOT)
        if POOL > 1:
            better = (z > best) | (z != z)  # NaN wins: a model that diverged must show it
            won = tl.where(better, window, won)
            best = tl.where(better, z, best)
        else:
            best = z
    if BIAS:
        best += tl.load(b + m * bias_stride + o, mask=o < OUTPUTS, other=0.0)[None, :]
    if ACTIVATION == 1:
        best = tl.where(best <= 0, 0.0, best)
    elif ACTIVATION == 2:
        best = tl.where(best <= 0, tl.exp(tl.minimum(best, 0.0)) - 1, best)
    place = (m * positions + position)[:, None] * OUTPUTS + o[None, :]
    inside = (position < positions)[:, None] & (o < OUTPUTS)[None, :]
    tl.store(y + place, best, mask=inside)
    if POOL > 1:
        tl.store(winner + place, won.to(tl.int8), mask=inside)


def before_pool(
    g: Tensor, y: Tensor, winner: Tensor, height: int, width: int, pool: int, activation: str
) -> Tensor:
    """The gradient at the convolution's output [models, B, height, width, O], from that of y."""
    models, size, rows, columns, outputs = y.shape
    shape = (models, size, height, width, outputs)
    G = torch.empty(shape, device=g.device, dtype=dtype_of_products())
    count = G.numel()
    _before_pool[(triton.cdiv(count, 1024),)](
        g, y, winner, G, count,
        ROWS=rows, COLUMNS=columns, HEIGHT=height, WIDTH=width, OUTPUTS=outputs, POOL=pool,
        ACTIVATION=ACTIVATIONS[activation], BLOCK=1024,
    )  # fmt: skip
    return G


@triton.jit
def _before_pool(
    g, y, winner, G, count,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr, POOL: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    o = place % OUTPUTS
    across = (place // OUTPUTS) % WIDTH
    down = (place // (OUTPUTS * WIDTH)) % HEIGHT
    image = place // (OUTPUTS * WIDTH * HEIGHT)
    row, column = down // POOL, across // POOL
    inside = (place < count) & (row < ROWS) & (column < COLUMNS)
    pooled = ((image * ROWS + row) * COLUMNS + column) * OUTPUTS + o
    slope = tl.load(g + pooled, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION > 0:
        value = tl.load(y + pooled, mask=inside, other=0.0).to(tl.float32)
        if ACTIVATION == 1:
            slope = tl.where(value > 0, slope, 0.0)
        else:
            slope *= tl.where(value > 0, 1.0, value + 1)
    if POOL > 1:
        window = (down % POOL) * POOL + across % POOL
        won = tl.load(winner + pooled, mask=inside, other=0)
        slope = tl.where(won == window, slope, 0.0)
    tl.store(G + place, slope, mask=place < count)


def weight_sums(x: Tensor, G: Tensor, side: int, padding: int, tile: Tile) -> Tensor:
    """sum over positions of patch_k G_o, float32 [models, side * side * C + 1, O]; the last row
    is the sum of G alone, for the bias."""
    devices, size, height, width, channels = x.shape
    models, _, rows, columns, outputs = G.shape
    depth = side * side * channels + 1
    positions = size * rows * columns
    block_o = max(16, min(128, triton.next_power_of_2(outputs)))
    blocks = triton.cdiv(depth, tile.depth), triton.cdiv(outputs, block_o)
    # Enough programs to fill the chip, each with enough positions to be worth starting.
    pieces = max(1, min(positions // (16 * tile.rows), 2048 // (models * blocks[0] * blocks[1])))
    steps = triton.cdiv(positions, pieces * tile.rows)
    parts = torch.empty(pieces, models, depth, outputs, device=x.device, dtype=torch.float32)
    _weight_sums[(blocks[0] * blocks[1], models, pieces)](
        x, G, parts, models // devices, positions,
        STEPS=steps, HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns,
        OUTPUTS=outputs, SIDE=side, PADDING=padding, DEPTH=depth, BLOCK=tile.rows,
        BLOCK_O=block_o, BLOCK_K=tile.depth, DOT=_dot_precision(), num_warps=tile.warps,
        num_stages=tile.stages,
    )  # fmt: skip
    return parts.sum(dim=0) if pieces > 1 else parts[0]


@triton.jit
def _weight_sums(
    x, G, parts, models_per_device, positions, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, SIDE: tl.constexpr, PADDING: tl.constexpr,
    DEPTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    m, models, piece = tl.program_id(1).to(tl.int64), tl.num_programs(1), tl.program_id(2)
    blocks_k: tl.constexpr = (DEPTH + BLOCK_K - 1) // BLOCK_K
    k = (tl.program_id(0) % blocks_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    o = (tl.program_id(0) // blocks_k) * BLOCK_O + tl.arange(0, BLOCK_O)
    r = k // (SIDE * CHANNELS)
    s = (k // CHANNELS) % SIDE
    offset = r * (WIDTH * CHANNELS) + k % (SIDE * CHANNELS)
    images = x + (m // models_per_device) * (positions // (ROWS * COLUMNS)) * (
        HEIGHT * WIDTH * CHANNELS
    )
    gradients = G + m * positions * OUTPUTS
    total = tl.zeros([BLOCK_K, BLOCK_O], dtype=tl.float32)
    for step in range(STEPS):
        position = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        top = (position // COLUMNS) % ROWS - PADDING
        left = position % COLUMNS - PADDING
        corner = ((position // (ROWS * COLUMNS)) * HEIGHT + top) * WIDTH + left
        inside = (position < positions)[:, None] & (k < DEPTH - 1)[None, :]
        if PADDING > 0:
            above, across = top[:, None] + r[None, :], left[:, None] + s[None, :]
            inside &= (above >= 0) & (above < HEIGHT) & (across >= 0) & (across < WIDTH)
        values = tl.load(
            images + corner[:, None] * CHANNELS + offset[None, :], mask=inside, other=0.0
        )
        values = tl.where((k == DEPTH - 1)[None, :], 1.0, values).to(values.dtype)
        slopes = tl.load(
            gradients + position[:, None] * OUTPUTS + o[None, :],
            mask=(position < positions)[:, None] & (o < OUTPUTS)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(values), slopes, total, input_precision=DOT)
    place = ((piece * models + m) * DEPTH + k)[:, None] * OUTPUTS + o[None, :]
    tl.store(parts + place, total, mask=(k < DEPTH)[:, None] & (o < OUTPUTS)[None, :])
