"""Gradients of the weights of a convolution, for many models.

before_pool           gradient at the convolution's output, from the gradient after pooling
weight_sums           gradient of the weights from there: sums over positions of patch x gradient
pooled_weight_sums    the same sums directly from the gradient after pooling, without the four times
                      larger array before it; for a first layer, whose input needs no gradient
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels.activations import ACTIVATIONS, activation_gradient
from skerry.kernels.convolution import Tile, dtype_of_products
from skerry.kernels.precision import dot_precision

# Short lists, because compiling one tile takes a second. Chosen on an H200 (docs/speed.md).
WEIGHT_TILES = (
    Tile(64, 128, 4, 3), Tile(64, 128, 4, 4), Tile(64, 64, 4, 3), Tile(64, 128, 4, 1),
    Tile(64, 32, 4, 2),
)  # fmt: skip
POOLED_TILES = (Tile(32, 128, 4, 2), Tile(32, 128, 4, 3), Tile(64, 128, 8, 3))
PROGRAMS = 2048  # enough to fill the chip


def before_pool(
    g: Tensor, y: Tensor, winner: Tensor, height: int, width: int, pool: int, activation: str
) -> Tensor:
    """Gradient at the convolution's output [models, B, height, width, O], from g at y."""
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
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    o = offsets % OUTPUTS
    across = (offsets // OUTPUTS) % WIDTH
    down = (offsets // (OUTPUTS * WIDTH)) % HEIGHT
    image = offsets // (OUTPUTS * WIDTH * HEIGHT)
    row, column = down // POOL, across // POOL
    inside = (offsets < count) & (row < ROWS) & (column < COLUMNS)
    pooled = ((image * ROWS + row) * COLUMNS + column) * OUTPUTS + o
    grad = _gradient_before_activation(g, y, pooled, inside, ACTIVATION)
    if POOL > 1:
        window = (down % POOL) * POOL + across % POOL
        which = tl.load(winner + pooled, mask=inside, other=0)
        grad = tl.where(which == window, grad, 0.0)
    tl.store(G + offsets, grad, mask=offsets < count)


@triton.jit
def _gradient_before_activation(g, y, offsets, inside, ACTIVATION: tl.constexpr):
    """Gradient before the activation, float32."""
    grad = tl.load(g + offsets, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION > 0:
        value = tl.load(y + offsets, mask=inside, other=0.0).to(tl.float32)
        grad = activation_gradient(grad, value, ACTIVATION)
    return grad


def weight_sums(x: Tensor, G: Tensor, side: int, padding: int, tile: Tile) -> Tensor:
    """Sum over positions of patch_k G_o, float32 [models, side, side, C, O]."""
    devices, size, height, width, channels = x.shape
    models, _, rows, columns, outputs = G.shape
    depth = side * side * channels
    positions = size * rows * columns
    block_o = max(16, min(128, triton.next_power_of_2(outputs)))
    blocks = triton.cdiv(depth, tile.depth) * triton.cdiv(outputs, block_o)
    pieces, steps = _split_positions(positions, models * blocks, tile)
    parts = torch.empty(pieces, models, depth, outputs, device=x.device, dtype=torch.float32)
    # Models are on the first axis of the grid: the other axes are limited to 65,535.
    _weight_sums[(models * blocks, pieces)](
        x, G, parts, models // devices, positions,
        STEPS=steps, HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns,
        OUTPUTS=outputs, SIDE=side, PADDING=padding, DEPTH=depth, BLOCK=tile.rows,
        BLOCK_O=block_o, BLOCK_K=tile.depth, DOT=dot_precision(), OFFSET=_offset_dtype(x[0], G[0]),
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return _sum_pieces(parts).view(models, side, side, channels, outputs)


def _split_positions(positions: int, programs: int, tile: Tile) -> tuple[int, int]:
    """Pieces that positions are split into, and steps per piece: enough programs to fill the chip,
    each with enough positions to pay for its launch."""
    pieces = max(1, min(positions // (16 * tile.rows), PROGRAMS // programs))
    return pieces, triton.cdiv(positions, pieces * tile.rows)


def _offset_dtype(*arrays: Tensor) -> tl.dtype:
    """Integer type for offsets into one model's arrays: 64 bits only where they are very long."""
    return tl.int64 if max(array.numel() for array in arrays) >= 2**31 else tl.int32


def _sum_pieces(parts: Tensor) -> Tensor:
    """Sum over the first dimension."""
    return parts.sum(dim=0) if len(parts) > 1 else parts[0]


@triton.jit
def _weight_sums(
    x, G, parts, models_per_device, positions, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, SIDE: tl.constexpr, PADDING: tl.constexpr,
    DEPTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr,
    DOT: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    blocks_k: tl.constexpr = (DEPTH + BLOCK_K - 1) // BLOCK_K
    programs: tl.constexpr = blocks_k * ((OUTPUTS + BLOCK_O - 1) // BLOCK_O)  # of a model
    m, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    models, piece = tl.num_programs(0) // programs, tl.program_id(1).to(OFFSET)
    k = (program % blocks_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    o = (program // blocks_k) * BLOCK_O + tl.arange(0, BLOCK_O)
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
        inside = (position < positions)[:, None] & (k < DEPTH)[None, :]
        if PADDING > 0:
            above, across = top[:, None] + r[None, :], left[:, None] + s[None, :]
            inside &= (above >= 0) & (above < HEIGHT) & (across >= 0) & (across < WIDTH)
        # Patches go to the matrix units unchanged: modifying them on the way (a row of ones for the
        # bias was tried) takes a third of the time.
        values = tl.load(
            images + corner[:, None] * CHANNELS + offset[None, :], mask=inside, other=0.0
        )
        grads = tl.load(
            gradients + position[:, None] * OUTPUTS + o[None, :],
            mask=(position < positions)[:, None] & (o < OUTPUTS)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(values), grads, total, input_precision=DOT)
    offsets = ((piece * models + m) * DEPTH + k)[:, None] * OUTPUTS + o[None, :]
    tl.store(parts + offsets, total, mask=(k < DEPTH)[:, None] & (o < OUTPUTS)[None, :])


def pooled_weight_sums(
    x: Tensor, g: Tensor, y: Tensor, winner: Tensor, side: int, activation: str, tile: Tile
) -> tuple[Tensor, Tensor]:
    """Gradients of the weights [models, side, side, C, O] and of the bias [models, O].

    g is the gradient after 2 x 2 pooling and the activation; x must include its padding.
    """
    devices, size, height, width, channels = x.shape
    models, _, rows, columns, outputs = y.shape
    reach = side + 1  # side of a patch that covers the four windows
    depth = reach * reach * channels
    block_o = max(16, min(32, triton.next_power_of_2(outputs)))
    programs = triton.cdiv(depth, tile.depth) * triton.cdiv(outputs, block_o)
    pieces, steps = _split_positions(size * rows * columns, 2 * models * programs, tile)
    new = torch.empty
    parts = new(pieces, models, depth, outputs, 4, device=x.device, dtype=torch.float32)
    biases = new(pieces, models, outputs, device=x.device, dtype=torch.float32)
    _pooled_weight_sums[(models * programs, pieces)](
        x, g, y, winner, parts, biases, models // devices, size * rows * columns,
        STEPS=steps, HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns,
        OUTPUTS=outputs, REACH=reach, DEPTH=depth, ACTIVATION=ACTIVATIONS[activation],
        BLOCK=tile.rows, BLOCK_O=block_o, BLOCK_K=tile.depth, DOT=dot_precision(),
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    sums = _sum_pieces(parts).view(models, reach, reach, channels, outputs, 2, 2)
    # The weights of a window are the part of the patch that begins where the window does.
    corners = [
        sums[:, down : down + side, right : right + side, ..., down, right]
        for down in range(2)
        for right in range(2)
    ]
    return torch.stack(corners).sum(dim=0), _sum_pieces(biases)


@triton.jit
def _pooled_weight_sums(
    x, g, y, winner, parts, biases, models_per_device, blocks, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, REACH: tl.constexpr, DEPTH: tl.constexpr,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    blocks_k: tl.constexpr = (DEPTH + BLOCK_K - 1) // BLOCK_K
    programs: tl.constexpr = blocks_k * ((OUTPUTS + BLOCK_O - 1) // BLOCK_O)  # of a model
    m, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    models, piece = tl.num_programs(0) // programs, tl.program_id(1)
    k = (program % blocks_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    first = (program // blocks_k) * BLOCK_O
    o = first + tl.arange(0, BLOCK_O)
    offset = (k // (REACH * CHANNELS)) * (WIDTH * CHANNELS) + k % (REACH * CHANNELS)
    images = x + (m // models_per_device) * (blocks // (ROWS * COLUMNS)) * (
        HEIGHT * WIDTH * CHANNELS
    )
    total = tl.zeros([BLOCK_K, 4 * BLOCK_O], dtype=tl.float32)
    bias_sum = tl.zeros([BLOCK, BLOCK_O], dtype=tl.float32)
    for step in range(STEPS):
        block = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        row, column = (block // COLUMNS) % ROWS, block % COLUMNS
        corner = ((block // (ROWS * COLUMNS)) * HEIGHT + 2 * row) * WIDTH + 2 * column
        values = tl.load(
            images + (corner * CHANNELS)[:, None] + offset[None, :],
            mask=(block < blocks)[:, None] & (k < DEPTH)[None, :],
            other=0.0,
        )
        offsets = (m * blocks + block)[:, None] * OUTPUTS + o[None, :]
        inside = (block < blocks)[:, None] & (o < OUTPUTS)[None, :]
        grad = _gradient_before_activation(g, y, offsets, inside, ACTIVATION).to(values.dtype)
        which = tl.load(winner + offsets, mask=inside, other=0)
        bias_sum += grad
        # The four windows of an output become four outputs that stay in the same thread.
        left = tl.join(_mask_window(grad, which, 0), _mask_window(grad, which, 2))
        right = tl.join(_mask_window(grad, which, 1), _mask_window(grad, which, 3))
        grads = tl.reshape(tl.join(left, right), [BLOCK, 4 * BLOCK_O])
        total = tl.dot(tl.trans(values), grads, total, input_precision=DOT)
    n = 4 * first + tl.arange(0, 4 * BLOCK_O)
    offsets = ((piece * models + m) * DEPTH + k)[:, None] * (4 * OUTPUTS) + n[None, :]
    tl.store(parts + offsets, total, mask=(k < DEPTH)[:, None] & (n < 4 * OUTPUTS)[None, :])
    if program % blocks_k == 0:
        tl.store(biases + (piece * models + m) * OUTPUTS + o, tl.sum(bias_sum, 0), mask=o < OUTPUTS)


@triton.jit
def _mask_window(grad, which, WINDOW: tl.constexpr):
    """The gradient where this window had the maximum, 0 elsewhere."""
    return tl.where(which == WINDOW, grad, tl.zeros_like(grad))
