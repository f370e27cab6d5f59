"""Convolutions with separate weights for every model, on channels-first images as in torch.

Torch would loop over models and change the layout of the images forth and back.

Shapes are x [inputs, B, C, H, W], w [models, O, C, R, S] and y [models, B, O, H', W']. If there
are fewer inputs than models, consecutive models share an input. Patches are never stored: a product
takes one tap (r, s) of the weights and all channels, so that addresses are computed once per
position and not for every number of a patch. Sums are float32.

Tiles of images are [channels, positions], all others [positions, channels]. Triton gives tiles of
one shape one layout, and two are needed: a tap shifts positions off any alignment, so neighbouring
threads load neighbouring positions of an image; other tiles use wide loads and stores.

Tile sizes are fixed. The best ones for a shape are hardly faster (docs/speed.md), and compiling
several for every layer of a module would take longer than most runs save.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels.precision import dot_precision

POSITIONS = 128  # per tile
WARPS = 4
PROGRAMS = 4096  # that fill the chip; up to as many, sums over positions are split


def convolve(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """y = conv(x, w), in the dtype of x."""
    inputs, size, _, height, width = x.shape
    models, outputs, _, down, across = w.shape
    rows, columns = (
        (e + 2 * padding - k) // stride + 1 for e, k in ((height, down), (width, across))
    )
    y = x.new_empty(models, size, outputs, rows, columns)
    taps = w.permute(0, 3, 4, 1, 2)
    _run(x, taps, y, models // inputs, stride, padding, BACKWARD=False)
    return y


def input_gradient(
    g: Tensor, w: Tensor, image: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """Gradient at x, whose images have this height and width, from the gradient g at y."""
    dx = g.new_empty(*g.shape[:2], w.shape[2], *image)
    _run(g, w.permute(0, 3, 4, 2, 1), dx, 1, stride, padding, BACKWARD=True)
    return dx


def _run(
    x: Tensor, taps: Tensor, y: Tensor, share: int, stride: int, padding: int, *, BACKWARD: bool
) -> None:
    """Launch the convolution of x with taps [models, R, S, outputs, channels] into y."""
    _, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = y.shape
    _, down, across, _, _ = taps.shape
    apart = stride if BACKWARD else 1
    positions = size * triton.cdiv(rows, apart) * triton.cdiv(columns, apart)
    block_o = _channel_block(outputs)
    kinds = apart * apart * triton.cdiv(outputs, block_o)
    _convolve[(triton.cdiv(positions, POSITIONS) * models, kinds)](
        x.contiguous(), torch.empty(taps.shape, dtype=x.dtype, device=x.device).copy_(taps), y,
        share, size,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns,
        DOWN=down, ACROSS=across, STRIDE=stride, PADDING=padding, BACKWARD=BACKWARD, APART=apart,
        BLOCK=POSITIONS, BLOCK_O=block_o, BLOCK_C=_channel_block(channels), DOT=dot_precision(),
        num_warps=WARPS, num_stages=1,
    )  # fmt: skip


def _channel_block(channels: int) -> int:
    return max(16, min(64, triton.next_power_of_2(channels)))


@triton.jit
def _load_positions(
    images, y, x, c, valid, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Values of all channels at (y, x) of each position's image; 0 outside the image."""
    inside = valid & (y >= 0) & (x >= 0) & (y < HEIGHT) & (x < WIDTH)
    offsets = (images + (y * WIDTH + x))[None, :] + (c * (HEIGHT * WIDTH))[:, None]
    return tl.load(offsets, mask=inside[None, :] & (c < CHANNELS)[:, None], other=0.0)


@triton.jit
def _convolve(
    x, w, y, share, size,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, BACKWARD: tl.constexpr, APART: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Convolution, or with BACKWARD the gradient of its input.

    Backward, a position sums over the outputs that it contributed to. Positions that are a
    multiple of the stride apart use the same taps, so a program takes positions of one such kind
    and loops over the taps of that kind only.
    """
    kind = tl.program_id(1) % (APART * APART)
    o = (tl.program_id(1) // (APART * APART)) * BLOCK_O + tl.arange(0, BLOCK_O)
    down, across = kind // APART, kind % APART
    rows: tl.constexpr = (ROWS + APART - 1) // APART
    columns: tl.constexpr = (COLUMNS + APART - 1) // APART
    pieces = tl.cdiv(size * rows * columns, BLOCK)
    m = (tl.program_id(0) // pieces).to(tl.int64)
    position = (tl.program_id(0) % pieces) * BLOCK + tl.arange(0, BLOCK)
    image = position // (rows * columns)
    row, column = (position // columns) % rows, position % columns
    valid = image < size
    images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
    weights = w + m * (DOWN * ACROSS * OUTPUTS * CHANNELS)
    first_r, first_s = (down + PADDING) % APART, (across + PADDING) % APART
    taps_across: tl.constexpr = (ACROSS + APART - 1) // APART
    taps: tl.constexpr = (DOWN + APART - 1) // APART * taps_across
    blocks_c: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    total = tl.zeros([BLOCK_O, BLOCK], dtype=tl.float32)
    for step in range(taps * blocks_c):
        c = (step % blocks_c) * BLOCK_C + tl.arange(0, BLOCK_C)
        tap = step // blocks_c
        r, s = first_r + tap // taps_across * APART, first_s + tap % taps_across * APART
        has_tap = (r < DOWN) & (s < ACROSS)  # some kinds have one tap less
        if BACKWARD:
            above = row + (down + PADDING - r) // APART  # exact for the taps of a kind
            left = column + (across + PADDING - s) // APART
        else:
            above, left = row * STRIDE + r - PADDING, column * STRIDE + s - PADDING
        values = _load_positions(images, above, left, c, valid & has_tap, CHANNELS, HEIGHT, WIDTH)
        offsets = ((r * ACROSS + s) * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
        known = has_tap & (o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :]
        factors = tl.load(weights + offsets, mask=known, other=0.0)
        total = tl.dot(factors, values, total, input_precision=DOT)
    row, column = row * APART + down, column * APART + across
    valid &= (row < ROWS) & (column < COLUMNS)
    offsets = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
    offsets = offsets * (ROWS * COLUMNS) + (row * COLUMNS + column)[:, None]
    tl.store(y + offsets, tl.trans(total), mask=valid[:, None] & (o < OUTPUTS)[None, :])


def weight_gradient(
    x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """Gradient at w, float32, from the gradient g at y; `sides` is the height and width of w."""
    inputs, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = g.shape
    taps, positions = sides[0] * sides[1], size * rows * columns
    block_o, block_c = _channel_block(outputs), _channel_block(channels)
    blocks = taps * triton.cdiv(outputs, block_o) * triton.cdiv(channels, block_c)
    # Enough programs to fill the chip, each with enough positions to pay for its launch.
    pieces = max(1, min(positions // (16 * POSITIONS), PROGRAMS // (models * blocks)))
    parts = x.new_empty(pieces, models, *sides, outputs, channels, dtype=torch.float32)
    _weight_gradient[(blocks * models, pieces)](
        x.contiguous(), g.contiguous(), parts, models // inputs, size,
        STEPS=triton.cdiv(positions, pieces * POSITIONS), CHANNELS=channels, HEIGHT=height,
        WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns, TAPS=taps, ACROSS=sides[1],
        STRIDE=stride, PADDING=padding, BLOCK=POSITIONS, BLOCK_O=block_o, BLOCK_C=block_c,
        DOT=dot_precision(), num_warps=1 if block_o * block_c <= 2048 else 2, num_stages=2,
    )  # fmt: skip
    summed = parts.sum(dim=0) if pieces > 1 else parts[0]
    return summed.permute(0, 3, 4, 1, 2)


@triton.jit
def _weight_gradient(
    x, g, parts, share, size,
    STEPS: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TAPS: tl.constexpr,
    ACROSS: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    blocks_c: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    blocks: tl.constexpr = TAPS * blocks_c * ((OUTPUTS + BLOCK_O - 1) // BLOCK_O)
    m, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    models, piece = tl.num_programs(0) // blocks, tl.program_id(1)
    tap, block = block % TAPS, block // TAPS
    r, s = tap // ACROSS, tap % ACROSS
    c = (block % blocks_c) * BLOCK_C + tl.arange(0, BLOCK_C)
    o = (block // blocks_c) * BLOCK_O + tl.arange(0, BLOCK_O)
    total = tl.zeros([BLOCK_O, BLOCK_C], dtype=tl.float32)
    for step in range(STEPS):
        position = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        image = position // (ROWS * COLUMNS)
        row, column = (position // COLUMNS) % ROWS, position % COLUMNS
        valid = image < size
        images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
        above, left = row * STRIDE + r - PADDING, column * STRIDE + s - PADDING
        values = _load_positions(images, above, left, c, valid, CHANNELS, HEIGHT, WIDTH)
        offsets = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
        offsets = offsets * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[:, None]
        grads = tl.load(g + offsets, mask=valid[:, None] & (o < OUTPUTS)[None, :], other=0.0)
        total = tl.dot(tl.trans(grads), tl.trans(values), total, input_precision=DOT)
    offsets = (((piece * models + m) * TAPS + tap) * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
    tl.store(parts + offsets, total, mask=(o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :])
