"""The gradient of a convolution's weights, for many models.

before_pool           the gradient at the convolution's own output, from the one behind pooling
weight_sums           from there, sums over positions of patch times gradient
pooled_weight_sums    the same sums without that array, which is four times as large as what it
                      comes from: for a first layer, whose input needs no gradient
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels.activation import ACTIVATIONS, times_slope
from skerry.kernels.convolution import Tile, dot_precision, dtype_of_products

# A short list each: compiling one takes a second. Chosen among many on an H200 (docs/speed.md).
WEIGHT_TILES = (
    Tile(64, 128, 4, 3), Tile(64, 128, 4, 4), Tile(64, 64, 4, 3), Tile(64, 128, 4, 1),
    Tile(64, 32, 4, 2),
)  # fmt: skip
POOLED_TILES = (Tile(32, 128, 4, 2), Tile(32, 128, 4, 3), Tile(64, 128, 8, 3))
PROGRAMS = 2048  # fill the chip


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
    slope = _slope(g, y, pooled, inside, ACTIVATION)
    if POOL > 1:
        window = (down % POOL) * POOL + across % POOL
        won = tl.load(winner + pooled, mask=inside, other=0)
        slope = tl.where(won == window, slope, 0.0)
    tl.store(G + place, slope, mask=place < count)


@triton.jit
def _slope(g, y, place, inside, ACTIVATION: tl.constexpr):
    """The gradient before the activation, float32."""
    slope = tl.load(g + place, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATION > 0:
        value = tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
        slope = times_slope(slope, value, ACTIVATION)
    return slope


def weight_sums(x: Tensor, G: Tensor, side: int, padding: int, tile: Tile) -> Tensor:
    """sum over positions of patch_k G_o, float32 [models, side, side, C, O]."""
    devices, size, height, width, channels = x.shape
    models, _, rows, columns, outputs = G.shape
    depth = side * side * channels
    positions = size * rows * columns
    block_o = max(16, min(128, triton.next_power_of_2(outputs)))
    blocks = triton.cdiv(depth, tile.depth) * triton.cdiv(outputs, block_o)
    pieces, steps = _pieces(positions, models * blocks, tile)
    parts = torch.empty(pieces, models, depth, outputs, device=x.device, dtype=torch.float32)
    # Models along the first axis: the others end at 65,535.
    _weight_sums[(models * blocks, pieces)](
        x, G, parts, models // devices, positions,
        STEPS=steps, HEIGHT=height, WIDTH=width, CHANNELS=channels, ROWS=rows, COLUMNS=columns,
        OUTPUTS=outputs, SIDE=side, PADDING=padding, DEPTH=depth, BLOCK=tile.rows,
        BLOCK_O=block_o, BLOCK_K=tile.depth, DOT=dot_precision(), PLACE=_place(x[0], G[0]),
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return _added(parts).view(models, side, side, channels, outputs)


def _pieces(positions: int, programs: int, tile: Tile) -> tuple[int, int]:
    """Into how many pieces positions are cut, and the steps of a piece: enough programs to fill the
    chip, each with enough positions to be worth starting."""
    pieces = max(1, min(positions // (16 * tile.rows), PROGRAMS // programs))
    return pieces, triton.cdiv(positions, pieces * tile.rows)


def _place(*arrays: Tensor) -> tl.dtype:
    """Of a model's own arrays: rarely are they so long that places in them need 64 bits."""
    return tl.int64 if max(array.numel() for array in arrays) >= 2**31 else tl.int32


def _added(parts: Tensor) -> Tensor:
    return parts.sum(dim=0) if len(parts) > 1 else parts[0]


@triton.jit
def _weight_sums(
    x, G, parts, models_per_device, positions, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, SIDE: tl.constexpr, PADDING: tl.constexpr,
    DEPTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr,
    DOT: tl.constexpr, PLACE: tl.constexpr,
):  # fmt: skip
    blocks_k: tl.constexpr = (DEPTH + BLOCK_K - 1) // BLOCK_K
    programs: tl.constexpr = blocks_k * ((OUTPUTS + BLOCK_O - 1) // BLOCK_O)  # of a model
    m, program = (tl.program_id(0) // programs).to(tl.int64), tl.program_id(0) % programs
    models, piece = tl.num_programs(0) // programs, tl.program_id(1).to(PLACE)
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
        # Patches go from memory to the matrix units as they are: whatever changes them on the way
        # (a row of ones, for the bias, was tried) takes a third of the time.
        values = tl.load(
            images + corner[:, None] * CHANNELS + offset[None, :], mask=inside, other=0.0
        )
        slopes = tl.load(
            gradients + position[:, None] * OUTPUTS + o[None, :],
            mask=(position < positions)[:, None] & (o < OUTPUTS)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(values), slopes, total, input_precision=DOT)
    place = ((piece * models + m) * DEPTH + k)[:, None] * OUTPUTS + o[None, :]
    tl.store(parts + place, total, mask=(k < DEPTH)[:, None] & (o < OUTPUTS)[None, :])


def pooled_weight_sums(
    x: Tensor, g: Tensor, y: Tensor, winner: Tensor, side: int, activation: str, tile: Tile
) -> tuple[Tensor, Tensor]:
    """The sums [models, side, side, C, O], and those of the gradient alone [models, O], from the
    gradient behind 2 x 2 pooling. x has its padding around it."""
    devices, size, height, width, channels = x.shape
    models, _, rows, columns, outputs = y.shape
    reach = side + 1  # of a patch that covers the four windows
    depth = reach * reach * channels
    block_o = max(16, min(32, triton.next_power_of_2(outputs)))
    programs = triton.cdiv(depth, tile.depth) * triton.cdiv(outputs, block_o)
    pieces, steps = _pieces(size * rows * columns, 2 * models * programs, tile)
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
    sums = _added(parts).view(models, reach, reach, channels, outputs, 2, 2)
    # Each window's weights are those of the patch that begin where the window does.
    corners = [
        sums[:, down : down + side, right : right + side, ..., down, right]
        for down in range(2)
        for right in range(2)
    ]
    return torch.stack(corners).sum(dim=0), _added(biases)


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
    alone = tl.zeros([BLOCK, BLOCK_O], dtype=tl.float32)
    for step in range(STEPS):
        block = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        row, column = (block // COLUMNS) % ROWS, block % COLUMNS
        corner = ((block // (ROWS * COLUMNS)) * HEIGHT + 2 * row) * WIDTH + 2 * column
        values = tl.load(
            images + (corner * CHANNELS)[:, None] + offset[None, :],
            mask=(block < blocks)[:, None] & (k < DEPTH)[None, :],
            other=0.0,
        )
        place = (m * blocks + block)[:, None] * OUTPUTS + o[None, :]
        inside = (block < blocks)[:, None] & (o < OUTPUTS)[None, :]
        slope = _slope(g, y, place, inside, ACTIVATION).to(values.dtype)
        won = tl.load(winner + place, mask=inside, other=0)
        alone += slope
        # The four windows of an output become four outputs that stay in the same thread.
        left = tl.join(_of_window(slope, won, 0), _of_window(slope, won, 2))
        right = tl.join(_of_window(slope, won, 1), _of_window(slope, won, 3))
        slopes = tl.reshape(tl.join(left, right), [BLOCK, 4 * BLOCK_O])
        total = tl.dot(tl.trans(values), slopes, total, input_precision=DOT)
    n = 4 * first + tl.arange(0, 4 * BLOCK_O)
    place = ((piece * models + m) * DEPTH + k)[:, None] * (4 * OUTPUTS) + n[None, :]
    tl.store(parts + place, total, mask=(k < DEPTH)[:, None] & (n < 4 * OUTPUTS)[None, :])
    if program % blocks_k == 0:
        tl.store(biases + (piece * models + m) * OUTPUTS + o, tl.sum(alone, 0), mask=o < OUTPUTS)


@triton.jit
def _of_window(slope, won, WINDOW: tl.constexpr):
    return tl.where(won == WINDOW, slope, tl.zeros_like(slope))
