"""Convolutions with weights of their own for every model, on images as torch lays them: channels
first. Torch would go from model to model, and change the images' layout on the way and back.

x [inputs, B, C, H, W], w [models, O, C, R, S], y [models, B, O, H', W']; models that follow each
other share an input where there are fewer of those. Patches are never stored. Positions run along
neighbouring memory in every tile, so loads and stores are wide.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

POSITIONS, DEPTH, WARPS, STAGES = 128, 32, 4, 3  # of a tile
SUMMED, WIDE, SUM_WARPS, SUM_STAGES = 128, 64, 4, 2  # of a tile of the weights' gradient
PROGRAMS = 2048  # that fill the chip, where a sum over positions may be cut


def convolve(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    inputs, size, _, height, width = x.shape
    models, outputs, _, down, across = w.shape
    rows, columns = (
        (e + 2 * padding - k) // stride + 1 for e, k in ((height, down), (width, across))
    )
    y = x.new_empty(models, size, outputs, rows, columns)
    _run(x, w, y, models // inputs, stride, padding, (down, across), BACKWARD=False)
    return y


def input_gradient(
    g: Tensor, w: Tensor, image: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient at x, of images of that height and width, from the one at y."""
    models, size = g.shape[:2]
    _, _, channels, down, across = w.shape
    dx = g.new_empty(models, size, channels, *image)
    _run(g, w, dx, 1, stride, padding, (down, across), BACKWARD=True)
    return dx


def _run(
    x: Tensor, w: Tensor, y: Tensor, share: int, stride: int, padding: int,
    sides: tuple[int, int], *, BACKWARD: bool,
) -> None:  # fmt: skip
    _, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = y.shape
    positions = size * rows * columns
    block_o = max(16, min(64, triton.next_power_of_2(outputs)))
    grid = (triton.cdiv(positions, POSITIONS), models, triton.cdiv(outputs, block_o))
    _convolve[grid](
        x.contiguous(), w.contiguous(), y, share, size,
        CHANNELS=channels, HEIGHT=height, WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns,
        DOWN=sides[0], ACROSS=sides[1], STRIDE=stride, PADDING=padding, BACKWARD=BACKWARD,
        BLOCK=POSITIONS, BLOCK_O=block_o, BLOCK_K=DEPTH, DOT=_dot(), num_warps=WARPS,
        num_stages=STAGES,
    )  # fmt: skip


def _dot() -> str:
    return "ieee" if precision.current() == "float32" else "tf32"


@triton.jit
def _patches(
    images, k, top, left, inside, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr, STRIDE: tl.constexpr,
    BACKWARD: tl.constexpr,
):  # fmt: skip
    """Rows k = (c, r, s) of the patches at some positions. Going backward, a position looks for the
    outputs that it had a part in."""
    c, r, s = k // (DOWN * ACROSS), (k // ACROSS) % DOWN, k % ACROSS
    if BACKWARD:
        y, x = top[None, :] - r[:, None], left[None, :] - s[:, None]
        inside &= (y >= 0) & (x >= 0)
        if STRIDE > 1:
            inside &= (y % STRIDE == 0) & (x % STRIDE == 0)
            y, x = y // STRIDE, x // STRIDE
        inside &= (y < HEIGHT) & (x < WIDTH)
    else:
        y, x = top[None, :] + r[:, None], left[None, :] + s[:, None]
        inside &= (y >= 0) & (x >= 0) & (y < HEIGHT) & (x < WIDTH)
    inside &= (c < CHANNELS)[:, None]
    places = images[None, :] + (c * (HEIGHT * WIDTH))[:, None] + (y * WIDTH + x)
    return tl.load(places, mask=inside, other=0.0)


@triton.jit
def _convolve(
    x, w, y, share, size,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, BACKWARD: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1).to(tl.int64)
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = tl.program_id(2) * BLOCK_O + tl.arange(0, BLOCK_O)
    image = position // (ROWS * COLUMNS)
    row, column = (position // COLUMNS) % ROWS, position % COLUMNS
    if BACKWARD:
        top, left = row + PADDING, column + PADDING
    else:
        top, left = row * STRIDE - PADDING, column * STRIDE - PADDING
    images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
    here = (image < size)[None, :]
    weights = w + m * (OUTPUTS * CHANNELS * DOWN * ACROSS)
    depth: tl.constexpr = CHANNELS * DOWN * ACROSS
    total = tl.zeros([BLOCK_O, BLOCK], dtype=tl.float32)
    for start in range(0, depth, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        values = _patches(
            images, k, top, left, here, CHANNELS, HEIGHT, WIDTH, DOWN, ACROSS, STRIDE, BACKWARD
        )
        if BACKWARD:  # w[c, o, r, s]: the channels of what comes in are its outputs
            taps: tl.constexpr = DOWN * ACROSS
            places = (
                ((k // taps) * OUTPUTS)[None, :] * taps + o[:, None] * taps + (k % taps)[None, :]
            )
        else:
            places = o[:, None] * depth + k[None, :]
        known = (o < OUTPUTS)[:, None] & (k < depth)[None, :]
        factors = tl.load(weights + places, mask=known, other=0.0)
        total = tl.dot(factors, values, total, input_precision=DOT)
    places = ((m * size + image) * OUTPUTS)[None, :] + o[:, None]
    places = places * (ROWS * COLUMNS) + (row * COLUMNS + column)[None, :]
    tl.store(y + places, total, mask=here & (o < OUTPUTS)[:, None])


def weight_gradient(
    x: Tensor, g: Tensor, sides: tuple[int, int], stride: int, padding: int
) -> Tensor:
    """The gradient at w, whose height and width are told, from the one at y."""
    inputs, size, channels, height, width = x.shape
    models, _, outputs, rows, columns = g.shape
    depth = channels * sides[0] * sides[1]
    positions = size * rows * columns
    block_k = WIDE if depth > 32 else 32
    block_o = max(16, min(64, triton.next_power_of_2(outputs)))
    blocks = triton.cdiv(depth, block_k) * triton.cdiv(outputs, block_o)
    # Enough programs to fill the chip, each with enough positions to be worth starting.
    pieces = max(1, min(positions // (16 * SUMMED), PROGRAMS // (models * blocks)))
    parts = x.new_empty(pieces, models, outputs, depth, dtype=torch.float32)
    _weight_gradient[(blocks, models, pieces)](
        x.contiguous(), g.contiguous(), parts, models // inputs, size,
        STEPS=triton.cdiv(positions, pieces * SUMMED), CHANNELS=channels, HEIGHT=height,
        WIDTH=width, OUTPUTS=outputs, ROWS=rows, COLUMNS=columns, DOWN=sides[0], ACROSS=sides[1],
        STRIDE=stride, PADDING=padding, BLOCK=SUMMED, BLOCK_O=block_o, BLOCK_K=block_k,
        DOT=_dot(), num_warps=SUM_WARPS, num_stages=SUM_STAGES,
    )  # fmt: skip
    summed = parts.sum(dim=0) if pieces > 1 else parts[0]
    return summed.view(models, outputs, channels, *sides).to(g.dtype)


@triton.jit
def _weight_gradient(
    x, g, parts, share, size,
    STEPS: tl.constexpr, CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr,
    ACROSS: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    depth: tl.constexpr = CHANNELS * DOWN * ACROSS
    blocks_k: tl.constexpr = (depth + BLOCK_K - 1) // BLOCK_K
    m, models, piece = tl.program_id(1).to(tl.int64), tl.num_programs(1), tl.program_id(2)
    k = (tl.program_id(0) % blocks_k) * BLOCK_K + tl.arange(0, BLOCK_K)
    o = (tl.program_id(0) // blocks_k) * BLOCK_O + tl.arange(0, BLOCK_O)
    total = tl.zeros([BLOCK_O, BLOCK_K], dtype=tl.float32)
    for step in range(STEPS):
        position = (piece * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        image = position // (ROWS * COLUMNS)
        row, column = (position // COLUMNS) % ROWS, position % COLUMNS
        top, left = row * STRIDE - PADDING, column * STRIDE - PADDING
        here = (image < size)[None, :]
        images = x + ((m // share) * size + image) * (CHANNELS * HEIGHT * WIDTH)
        values = _patches(
            images, k, top, left, here, CHANNELS, HEIGHT, WIDTH, DOWN, ACROSS, STRIDE, False
        )
        places = ((m * size + image) * OUTPUTS)[None, :] + o[:, None]
        places = places * (ROWS * COLUMNS) + (row * COLUMNS + column)[None, :]
        slopes = tl.load(g + places, mask=here & (o < OUTPUTS)[:, None], other=0.0)
        total = tl.dot(slopes, tl.trans(values), total, input_precision=DOT)
    places = ((piece * models + m) * OUTPUTS + o)[:, None] * depth + k[None, :]
    tl.store(parts + places, total, mask=(o < OUTPUTS)[:, None] & (k < depth)[None, :])
