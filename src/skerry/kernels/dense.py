"""Fully connected layers of many models on minibatches that fit on the chip.

Weights are float32 and are rounded as they arrive, which torch's products cannot do: they want both
factors of one type. And each matrix W is read twice and written once in a step: forward, and on the
way back, where the gradient of the input and the update share a pass.
"""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.activation import ACTIVATIONS, activate
from skerry.kernels.choice import fastest

SOME = 2**27  # bytes of W on which tiles are timed

Tile = tuple[int, int, int, int]
"""Rows and columns of W that a program takes at once, warps, stages."""
FORWARD_TILES: tuple[Tile, ...] = ((64, 32, 4, 4), (64, 64, 4, 3), (16, 128, 4, 3))
BACK_TILES: tuple[Tile, ...] = ((16, 128, 4, 2), (64, 64, 4, 3), (64, 64, 8, 3), (64, 128, 8, 3))


def forward(x_nbk: Tensor, W_nrk: Tensor, b_nr: Tensor | None, activation: str) -> Tensor:
    """act(x W^T + b). What an activation gave is rounded; scores are not."""
    run = partial(_forward_on, x_nbk, W_nrk, b_nr, activation)
    some = _some(W_nrk)

    def on_some(tile: Tile) -> Tensor:
        return _forward_on(
            x_nbk[:some], W_nrk[:some], None if b_nr is None else b_nr[:some], activation, tile
        )

    return run(fastest(f"dense layer, {_shapes(W_nrk, x_nbk)}", FORWARD_TILES, on_some))


def step_back(W_nrk: Tensor, g_nbr: Tensor, x_nbk: Tensor, onward: bool) -> Tensor | None:
    """W <- W - g^T x in place; with `onward`, returns g W of the W before it."""
    some = _some(W_nrk)

    def on_a_copy(tile: Tile) -> Tensor | None:
        return _back_on(W_nrk[:some].clone(), g_nbr[:some], x_nbk[:some], onward, tile)

    question = f"dense step{' and way back' if onward else ''}, {_shapes(W_nrk, x_nbk)}"
    return _back_on(W_nrk, g_nbr, x_nbk, onward, fastest(question, BACK_TILES, on_a_copy))


def _some(W_nrk: Tensor) -> int:
    return max(1, min(len(W_nrk), SOME // (W_nrk[0].numel() * W_nrk.itemsize)))


def _shapes(W_nrk: Tensor, x_nbk: Tensor) -> str:
    return f"weights {tuple(W_nrk.shape)}, {x_nbk.shape[1]} samples, {precision.current()}"


def _factor() -> tl.dtype:
    return tl.bfloat16 if precision.current() == "bf16" else tl.float32


def _forward_on(
    x_nbk: Tensor, W_nrk: Tensor, b_nr: Tensor | None, activation: str, tile: Tile
) -> Tensor:
    n, rows, columns = W_nrk.shape
    samples = x_nbk.shape[1]
    block_r, block_k, warps, stages = tile
    rounded = activation != "none" and precision.current() == "bf16"
    y = W_nrk.new_empty(n, samples, rows, dtype=torch.bfloat16 if rounded else None)
    strips = triton.cdiv(rows, block_r)
    _forward[(n * strips,)](
        W_nrk, x_nbk, W_nrk if b_nr is None else b_nr, y, strips, samples,
        *W_nrk.stride(), *x_nbk.stride(), 0 if b_nr is None else b_nr.stride(0),
        BIAS=b_nr is not None, ACTIVATION=ACTIVATIONS[activation], FACTOR=_factor(),
        ROWS=rows, COLUMNS=columns,
        BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=_block_of(samples), num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    return y


def _back_on(
    W_nrk: Tensor, g_nbr: Tensor, x_nbk: Tensor, onward: bool, tile: Tile
) -> Tensor | None:
    n, rows, columns = W_nrk.shape
    samples = x_nbk.shape[1]
    block_r, block_k, warps, stages = tile
    dtype = torch.bfloat16 if precision.current() == "bf16" else torch.float32
    back = W_nrk.new_empty((n, samples, columns) if onward else 0, dtype=dtype)
    strips = triton.cdiv(columns, block_k)
    _back[(n * strips,)](
        W_nrk, g_nbr, x_nbk, back, strips, samples,
        *W_nrk.stride(), *g_nbr.stride(), *x_nbk.stride(), ONWARD=onward, FACTOR=_factor(),
        ROWS=rows, COLUMNS=columns,
        BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=_block_of(samples), num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    return back if onward else None


def _block_of(samples: int) -> int:
    return max(16, triton.next_power_of_2(samples))


# A model's strips follow each other in both kernels: what they share is still in the cache.


@triton.jit
def _forward(
    W, x, bias, y, strips, samples, w_n, w_r, w_k, x_n, x_b, x_k, bias_n,
    BIAS: tl.constexpr, ACTIVATION: tl.constexpr, FACTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = (tl.program_id(0) // strips).to(tl.int64)
    r = (tl.program_id(0) % strips) * BLOCK_R + tl.arange(0, BLOCK_R)
    b = tl.arange(0, BLOCK_B)
    # Weights come first in the product: that factor may come from registers, where it is rounded.
    z = tl.zeros([BLOCK_R, BLOCK_B], dtype=tl.float32)
    for start in range(0, COLUMNS, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        weights = tl.load(
            W + n * w_n + r[:, None] * w_r + k[None, :] * w_k,
            mask=(r < ROWS)[:, None] & (k < COLUMNS)[None, :],
            other=0.0,
        ).to(FACTOR)
        inputs = tl.load(
            x + n * x_n + b[:, None] * x_b + k[None, :] * x_k,
            mask=(b < samples)[:, None] & (k < COLUMNS)[None, :],
            other=0.0,
        ).to(FACTOR)
        z = tl.dot(weights, tl.trans(inputs), z, input_precision="tf32")
    if BIAS:
        z += tl.load(bias + n * bias_n + r, mask=r < ROWS, other=0.0)[:, None]
    places = y + (n * samples + b)[None, :] * ROWS + r[:, None]
    inside = (r < ROWS)[:, None] & (b < samples)[None, :]
    tl.store(places, activate(z, ACTIVATION), mask=inside)


@triton.jit
def _back(
    W, g, x, back, strips, samples,
    w_n, w_r, w_k, g_n, g_b, g_r, x_n, x_b, x_k, ONWARD: tl.constexpr, FACTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = (tl.program_id(0) // strips).to(tl.int64)
    k = (tl.program_id(0) % strips) * BLOCK_K + tl.arange(0, BLOCK_K)
    b = tl.arange(0, BLOCK_B)
    there = (b < samples)[:, None] & (k < COLUMNS)[None, :]
    inputs = tl.load(x + n * x_n + b[:, None] * x_b + k[None, :] * x_k, mask=there, other=0.0)
    inputs = inputs.to(FACTOR)
    total = tl.zeros([BLOCK_B, BLOCK_K], dtype=tl.float32)
    for start in range(0, ROWS, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        slopes = tl.load(
            g + n * g_n + b[:, None] * g_b + r[None, :] * g_r,
            mask=(b < samples)[:, None] & (r < ROWS)[None, :],
            other=0.0,
        ).to(FACTOR)
        places = W + n * w_n + r[:, None] * w_r + k[None, :] * w_k
        inside = (r < ROWS)[:, None] & (k < COLUMNS)[None, :]
        weights = tl.load(places, mask=inside, other=0.0)
        if ONWARD:
            total = tl.dot(slopes, weights.to(FACTOR), total, input_precision="tf32")
        change = tl.dot(tl.trans(slopes), inputs, input_precision="tf32")
        tl.store(places, weights - change, mask=inside)
    if ONWARD:
        tl.store(back + (n * samples + b)[:, None] * COLUMNS + k[None, :], total, mask=there)
