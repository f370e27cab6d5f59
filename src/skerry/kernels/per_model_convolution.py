"""Convolutions with weights of their own for every model, on images as torch lays them: channels
first. Torch would go from model to model, and change the images' layout on the way and back.

x [inputs, B, C, H, W], w [models, O, C, R, S], y [models, B, O, H', W']; models that follow each
other share an input where there are fewer of those. Patches are never stored: a product takes one
tap (r, s) of the weights and all channels, so that what lies where is worked out once for a
position and not for every number of its patch. Sums are float32.

Tiles of images are [channels, positions], all others [positions, channels]. Triton gives tiles of
one shape one layout, and these need two: a tap moves positions off any alignment, so neighbouring
threads load neighbouring positions of an image; the others are loaded and stored widely.

Tiles are fixed. Those that suit a shape best take little less (docs/speed.md), and compiling
a choice for every layer of a module would take longer than most runs win by it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

POSITIONS = 128  # of a tile
WARPS = 4
PROGRAMS = 4096  # that fill the chip, where a sum over positions may be cut


def convolve(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
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
    """The gradient at x, of images of that height and width, from the one at y."""
    dx = g.new_empty(*g.shape[:2], w.shape[2], *image)
    _run(g, w.permute(0, 3, 4, 2, 1), dx, 1, stride, padding, BACKWARD=True)
    return dx


def _run(
    x: Tensor, taps: Tensor, y: Tensor, share: int, stride: int, padding: int, *, BACKWARD: bool
) -> None:
    """Taps [models, R, S, outputs, channels], of what comes out and in here."""
    _, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = y.shape
    _, down, across, _, _ = taps.shape
    apart = stride if BACKWARD else 1
    positions = size * triton.cdiv(rows, apart) * triton.cdiv(columns, apart)
    block_o = _block_of(outputs)
    kinds = apart * apart * triton.cdiv(outputs, block_o)
    _convolve[(triton.cdiv(positions, POSITIONS) * models, kinds)](
        x.contiguous(), torch.empty(taps.shape, dtype=x.dtype, device=x.device).copy_(taps), y,
        share, size,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns,
        DOWN=down, ACROSS=across, STRIDE=stride, PADDING=padding, BACKWARD=BACKWARD, APART=apart,
        BLOCK=POSITIONS, BLOCK_O=block_o, BLOCK_C=_block_of(channels), DOT=_dot(),
        num_warps=WARPS, num_stages=1,
    )  # fmt: skip


def _block_of(channels: int) -> int:
    return max(16, min(64, triton.next_power_of_2(channels)))


def _dot() -> str:
    return "ieee" if precision.current() == "float32" else "tf32"


@triton.jit
def _values(
    images, y, x, c, here, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Of all channels at (y, x) of each position's image; 0 outside of it."""
    inside = here & (y >= 0) & (x >= 0) & (y < HEIGHT) & (x < WIDTH)
    places = (images + (y * WIDTH + x))[None, :] + (c * (HEIGHT * WIDTH))[:, None]
    return tl.load(places, mask=inside[None, :] & (c < CHANNELS)[:, None], other=0.0)


@triton.jit
def _convolve(
    x, w, y, share, size,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, BACKWARD: tl.constexpr, APART: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Going backward, a position sums over the outputs that it had a part in. Positions that lie a
    stride apart met the same taps: a program has positions of one kind, and goes through their taps
    alone."""
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
    here = image < size
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
        there = (r < DOWN) & (s < ACROSS)  # some kinds have a tap less
        if BACKWARD:
            above = row + (down + PADDING - r) // APART  # taps of a kind leave no remainder
            left = column + (across + PADDING - s) // APART
        else:
            above, left = row * STRIDE + r - PADDING, column * STRIDE + s - PADDING
        values = _values(images, above, left, c, here & there, CHANNELS, HEIGHT, WIDTH)
        places = ((r * ACROSS + s) * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
        known = there & (o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :]
        factors = tl.load(weights + places, mask=known, other=0.0)
        total = tl.dot(factors, values, total, input_precision=DOT)
    row, column = row * APART + down, column * APART + across
    here &= (row < ROWS) & (column < COLUMNS)
    places = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
    places = places * (ROWS * COLUMNS) + (row * COLUMNS + column)[:, None]
    tl.store(y + places, tl.trans(total), mask=here[:, None] & (o < OUTPUTS)[None, :])


def weight_gradient(
    x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient at w, whose height and width are told, from the one at y. In float32."""
    inputs, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = g.shape
    taps, positions = sides[0] * sides[1], size * rows * columns
    block_o, block_c = _block_of(outputs), _block_of(channels)
    blocks = taps * triton.cdiv(outputs, block_o) * triton.cdiv(channels, block_c)
    # Enough programs to fill the chip, each with enough positions to be worth starting.
    pieces = max(1, min(positions // (16 * POSITIONS), PROGRAMS // (models * blocks)))
    parts = x.new_empty(pieces, models, *sides, outputs, channels, dtype=torch.float32)
    _weight_gradient[(blocks * models, pieces)](
        x.contiguous(), g.contiguous(), parts, models // inputs, size,
        STEPS=triton.cdiv(positions, pieces * POSITIONS), CHANNELS=channels, HEIGHT=height,
        WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns, TAPS=taps, ACROSS=sides[1],
        STRIDE=stride, PADDING=padding, BLOCK=POSITIONS, BLOCK_O=block_o, BLOCK_C=block_c,
        DOT=_dot(), num_warps=1 if block_o * block_c <= 2048 else 2, num_stages=2,
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
        here = image < size
        images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
        above, left = row * STRIDE + r - PADDING, column * STRIDE + s - PADDING
        values = _values(images, above, left, c, here, CHANNELS, HEIGHT, WIDTH)
        places = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
        places = places * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[:, None]
        slopes = tl.load(g + places, mask=here[:, None] & (o < OUTPUTS)[None, :], other=0.0)
        total = tl.dot(tl.trans(slopes), tl.trans(values), total, input_precision=DOT)
    places = (((piece * models + m) * TAPS + tap) * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
    tl.store(parts + places, total, mask=(o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :])
