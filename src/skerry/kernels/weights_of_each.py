"""Convolutions with weights of their own for every model, on images as torch lays them: channels
first. Torch would go from model to model, and change the images' layout on the way and back.

x [inputs, B, C, H, W], w [models, O, C, R, S], y [models, B, O, H', W']; models that follow each
other share an input where there are fewer of those. Patches are never stored: a product takes one
tap (r, s) of the weights and all channels, so that what lies where is worked out once for a
position and not for every number of its patch. Sums are float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision


@dataclass(frozen=True)
class Tile:
    """How a kernel cuts its work."""

    positions: int
    warps: int
    stages: int
    unroll: int = 1
    turned: bool = False
    apart: bool = True


CONVOLVE = Tile(128, 4, 2)
SUM = Tile(128, 4, 2)
PROGRAMS = 4096  # that fill the chip, where a sum over positions may be cut


def convolve(x: Tensor, w: Tensor, stride: int, padding: int, tile: Tile = CONVOLVE) -> Tensor:
    inputs, size, _, height, width = x.shape
    models, outputs, _, down, across = w.shape
    rows, columns = (
        (e + 2 * padding - k) // stride + 1 for e, k in ((height, down), (width, across))
    )
    y = x.new_empty(models, size, outputs, rows, columns)
    taps = w.permute(0, 3, 4, 1, 2)
    _run(x, taps, y, models // inputs, stride, padding, tile, BACKWARD=False)
    return y


def input_gradient(
    g: Tensor, w: Tensor, image: tuple[int, int], stride: int, padding: int, tile: Tile = CONVOLVE
) -> Tensor:
    """The gradient at x, of images of that height and width, from the one at y."""
    dx = g.new_empty(*g.shape[:2], w.shape[2], *image)
    _run(g, w.permute(0, 3, 4, 2, 1), dx, 1, stride, padding, tile, BACKWARD=True)
    return dx


def _run(
    x: Tensor, taps: Tensor, y: Tensor, share: int, stride: int, padding: int, tile: Tile, *,
    BACKWARD: bool,
) -> None:  # fmt: skip
    """Taps [models, R, S, outputs, channels] of what comes out and in here."""
    _, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = y.shape
    _, down, across, _, _ = taps.shape
    block_o = max(16, min(64, triton.next_power_of_2(outputs)))
    grid = (triton.cdiv(size * rows * columns, tile.positions), models)
    _convolve[(*grid, triton.cdiv(outputs, block_o))](
        x.contiguous(), torch.empty(taps.shape, dtype=x.dtype, device=x.device).copy_(taps), y,
        share, size,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns,
        DOWN=down, ACROSS=across, STRIDE=stride, PADDING=padding, BACKWARD=BACKWARD,
        BLOCK=tile.positions, BLOCK_O=block_o, BLOCK_C=_block_of(channels), DOT=_dot(),
        UNROLL=tile.unroll, TURNED=tile.turned, APART=tile.apart, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _block_of(channels: int) -> int:
    return max(16, min(64, triton.next_power_of_2(channels)))


def _dot() -> str:
    return "ieee" if precision.current() == "float32" else "tf32"


@triton.jit
def _values(
    images, row, column, tap, c, inside, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, ACROSS: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    BACKWARD: tl.constexpr,
):  # fmt: skip
    """What a tap meets at some positions, [channels, positions]. Going backward, a position looks
    for the output that it had a part in."""
    r, s = tap // ACROSS, tap % ACROSS
    if BACKWARD:
        y, x = row + PADDING - r, column + PADDING - s
        inside &= (y >= 0) & (x >= 0)
        if STRIDE > 1:
            inside &= (y % STRIDE == 0) & (x % STRIDE == 0)
            y, x = y // STRIDE, x // STRIDE
        inside &= (y < HEIGHT) & (x < WIDTH)
    else:
        y, x = row * STRIDE - PADDING + r, column * STRIDE - PADDING + s
        inside &= (y >= 0) & (x >= 0) & (y < HEIGHT) & (x < WIDTH)
    places = (images + (y * WIDTH + x))[None, :] + (c * (HEIGHT * WIDTH))[:, None]
    return tl.load(places, mask=inside[None, :] & (c < CHANNELS)[:, None], other=0.0)


@triton.jit
def _convolve(
    x, w, y, share, size,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, BACKWARD: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, DOT: tl.constexpr, UNROLL: tl.constexpr,
    TURNED: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = tl.program_id(2) * BLOCK_O + tl.arange(0, BLOCK_O)
    image = position // (ROWS * COLUMNS)
    row, column = (position // COLUMNS) % ROWS, position % COLUMNS
    here = image < size
    images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
    weights = w + m * (DOWN * ACROSS * OUTPUTS * CHANNELS)
    blocks_c: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    if TURNED:
        total = tl.zeros([BLOCK, BLOCK_O], dtype=tl.float32)
    else:
        total = tl.zeros([BLOCK_O, BLOCK], dtype=tl.float32)
    for step in tl.range(0, DOWN * ACROSS * blocks_c, loop_unroll_factor=UNROLL):
        tap = step // blocks_c
        c = (step % blocks_c) * BLOCK_C + tl.arange(0, BLOCK_C)
        values = _values(
            images, row, column, tap, c, here, CHANNELS, HEIGHT, WIDTH, ACROSS, STRIDE, PADDING,
            BACKWARD,
        )  # fmt: skip
        known = (o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :]
        places = (tap * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
        factors = tl.load(weights + places, mask=known, other=0.0)
        if TURNED:
            total = tl.dot(tl.trans(values), tl.trans(factors), total, input_precision=DOT)
        else:
            total = tl.dot(factors, values, total, input_precision=DOT)
    if APART:
        if not TURNED:
            total = tl.trans(total)
        places = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
        places = places * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[:, None]
        tl.store(y + places, total, mask=here[:, None] & (o < OUTPUTS)[None, :])
    else:
        if TURNED:
            total = tl.trans(total)
        places = ((m * size + image) * OUTPUTS)[None, :] + o[:, None]
        places = places * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[None, :]
        tl.store(y + places, total, mask=here[None, :] & (o < OUTPUTS)[:, None])


def weight_gradient(
    x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int, tile: Tile = SUM
) -> Tensor:
    """The gradient at w, whose height and width are told, from the one at y. In float32."""
    inputs, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = g.shape
    taps, positions = sides[0] * sides[1], size * rows * columns
    block_o, block_c = _block_of(outputs), _block_of(channels)
    blocks = taps * triton.cdiv(outputs, block_o) * triton.cdiv(channels, block_c)
    # Enough programs to fill the chip, each with enough positions to be worth starting.
    pieces = max(1, min(positions // (16 * tile.positions), PROGRAMS // (models * blocks)))
    parts = x.new_empty(pieces, models, *sides, outputs, channels, dtype=torch.float32)
    _weight_gradient[(blocks, models, pieces)](
        x.contiguous(), g.contiguous(), parts, models // inputs, size,
        STEPS=triton.cdiv(positions, pieces * tile.positions), CHANNELS=channels, HEIGHT=height,
        WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns, TAPS=taps, ACROSS=sides[1],
        STRIDE=stride, PADDING=padding, BLOCK=tile.positions, BLOCK_O=block_o, BLOCK_C=block_c,
        DOT=_dot(), UNROLL=tile.unroll, APART=tile.apart, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    summed = parts.sum(dim=0) if pieces > 1 else parts[0]
    return summed.permute(0, 3, 4, 1, 2)


@triton.jit
def _weight_gradient(
    x, g, parts, share, size,
    STEPS: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TAPS: tl.constexpr,
    ACROSS: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, DOT: tl.constexpr, UNROLL: tl.constexpr,
    APART: tl.constexpr,
):  # fmt: skip
    m, models, piece = tl.program_id(1).to(tl.int64), tl.num_programs(1), tl.program_id(2)
    tap, block = tl.program_id(0) % TAPS, tl.program_id(0) // TAPS
    blocks_c: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    c = (block % blocks_c) * BLOCK_C + tl.arange(0, BLOCK_C)
    o = (block // blocks_c) * BLOCK_O + tl.arange(0, BLOCK_O)
    total = tl.zeros([BLOCK_O, BLOCK_C], dtype=tl.float32)
    for step in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
        position = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        image = position // (ROWS * COLUMNS)
        row, column = (position // COLUMNS) % ROWS, position % COLUMNS
        here = image < size
        images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
        values = _values(
            images, row, column, tap, c, here, CHANNELS, HEIGHT, WIDTH, ACROSS, STRIDE, PADDING,
            False,
        )  # fmt: skip
        if APART:
            places = ((m * size + image) * OUTPUTS)[:, None] + o[None, :]
            places = places * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[:, None]
            slopes = tl.load(g + places, mask=here[:, None] & (o < OUTPUTS)[None, :], other=0.0)
            slopes = tl.trans(slopes)
        else:
            places = ((m * size + image) * OUTPUTS)[None, :] + o[:, None]
            places = places * (ROWS * COLUMNS) + (position % (ROWS * COLUMNS))[None, :]
            slopes = tl.load(g + places, mask=here[None, :] & (o < OUTPUTS)[:, None], other=0.0)
        total = tl.dot(slopes, tl.trans(values), total, input_precision=DOT)
    places = (((piece * models + m) * TAPS + tap) * OUTPUTS + o)[:, None] * CHANNELS + c[None, :]
    tl.store(parts + places, total, mask=(o < OUTPUTS)[:, None] & (c < CHANNELS)[None, :])
