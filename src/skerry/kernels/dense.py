"""Dense layers of many models: forward, backward with update, and W <- W - P x.

Weights are float32 and are rounded as they are loaded; torch's products cannot do that, because
both factors must have one type. A step reads each matrix W twice and writes it once: forward, and
backward, where the gradient of the input and the update share a pass.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.activations import ACTIVATIONS, activate
from skerry.kernels.autotune import fastest

TIMED_BYTES = 2**27  # of W, on which tiles of a layer are timed
TIMED_UPDATE_BYTES = 2**25  # of W, on which variants of an update are timed

Tile = tuple[int, int, int, int]
"""Rows and columns of W per block, warps, stages."""
FORWARD_TILES: tuple[Tile, ...] = ((64, 32, 4, 4), (64, 64, 4, 3), (16, 128, 4, 3))
BACKWARD_TILES: tuple[Tile, ...] = (
    (16, 128, 4, 2), (64, 64, 4, 3), (64, 64, 8, 3), (64, 128, 8, 3),
)  # fmt: skip
UPDATE_BLOCKS = {"128 x 128": (128, 128, 8), "64 x 128": (64, 128, 4)}
"""Rows and columns of W per block, warps."""


def dense_forward(x_nbk: Tensor, W_nrk: Tensor, b_nr: Tensor | None, activation: str) -> Tensor:
    """act(x W^T + b). In bf16 the output is rounded too, except without an activation (scores)."""
    some = _timed_models(W_nrk, TIMED_BYTES)

    def on_some(tile: Tile) -> Tensor:
        return _run_forward(
            x_nbk[:some], W_nrk[:some], None if b_nr is None else b_nr[:some], activation, tile
        )

    tile = fastest(f"dense layer, {_shapes(W_nrk, x_nbk)}", FORWARD_TILES, on_some)
    return _run_forward(x_nbk, W_nrk, b_nr, activation, tile)


def dense_backward(W_nrk: Tensor, g_nbr: Tensor, x_nbk: Tensor, input_grad: bool) -> Tensor | None:
    """W <- W - g^T x in place; with `input_grad`, returns g W of the W before the update."""
    some = _timed_models(W_nrk, TIMED_BYTES)

    def on_a_copy(tile: Tile) -> Tensor | None:
        return _run_backward(W_nrk[:some].clone(), g_nbr[:some], x_nbk[:some], input_grad, tile)

    name = f"dense step{' and way back' if input_grad else ''}, {_shapes(W_nrk, x_nbk)}"
    return _run_backward(W_nrk, g_nbr, x_nbk, input_grad, fastest(name, BACKWARD_TILES, on_a_copy))


def subtract_product_tuned(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor) -> None:
    """W <- W - P x in place, at the current precision, by the fastest variant for the shapes."""
    if precision.current() == "float32":
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
        return
    some = _timed_models(W_nrk, TIMED_UPDATE_BYTES)

    def on_a_copy(variant: str) -> None:
        _run_update(W_nrk[:some].clone(), P_nrb[:some], x_nbk[:some], variant)

    shapes = f"{tuple(W_nrk.shape)}, {P_nrb.shape[2]} samples"
    variant = fastest(f"update of {shapes}", ("torch", *UPDATE_BLOCKS), on_a_copy)
    _run_update(W_nrk, P_nrb, x_nbk, variant)


def _timed_models(W_nrk: Tensor, most_bytes: int) -> int:
    """Number of models on which variants are timed."""
    return max(1, min(len(W_nrk), most_bytes // (W_nrk[0].numel() * W_nrk.itemsize)))


def _shapes(W_nrk: Tensor, x_nbk: Tensor) -> str:
    return f"weights {tuple(W_nrk.shape)}, {x_nbk.shape[1]} samples, {precision.current()}"


def _factor_dtype() -> tl.dtype:
    return tl.bfloat16 if precision.current() == "bf16" else tl.float32


def _run_forward(
    x_nbk: Tensor, W_nrk: Tensor, b_nr: Tensor | None, activation: str, tile: Tile
) -> Tensor:
    n, rows, columns = W_nrk.shape
    samples = x_nbk.shape[1]
    block_r, block_k, warps, stages = tile
    rounded = activation != "none" and precision.current() == "bf16"
    y = W_nrk.new_empty(n, samples, rows, dtype=torch.bfloat16 if rounded else None)
    strips = triton.cdiv(rows, block_r)
    _dense_forward[(n * strips,)](
        W_nrk, x_nbk, W_nrk if b_nr is None else b_nr, y, strips, samples,
        *W_nrk.stride(), *x_nbk.stride(), 0 if b_nr is None else b_nr.stride(0),
        BIAS=b_nr is not None, ACTIVATION=ACTIVATIONS[activation], FACTOR=_factor_dtype(),
        ROWS=rows, COLUMNS=columns,
        BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=_sample_block(samples), num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    return y


def _run_backward(
    W_nrk: Tensor, g_nbr: Tensor, x_nbk: Tensor, input_grad: bool, tile: Tile
) -> Tensor | None:
    n, rows, columns = W_nrk.shape
    samples = x_nbk.shape[1]
    block_r, block_k, warps, stages = tile
    dtype = torch.bfloat16 if precision.current() == "bf16" else torch.float32
    back = W_nrk.new_empty((n, samples, columns) if input_grad else 0, dtype=dtype)
    strips = triton.cdiv(columns, block_k)
    _dense_backward[(n * strips,)](
        W_nrk, g_nbr, x_nbk, back, strips, samples,
        *W_nrk.stride(), *g_nbr.stride(), *x_nbk.stride(),
        INPUT_GRAD=input_grad, FACTOR=_factor_dtype(), ROWS=rows, COLUMNS=columns,
        BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=_sample_block(samples), num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    return back if input_grad else None


def _run_update(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor, variant: str) -> None:
    if variant == "torch":
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
        return
    n, rows, columns = W_nrk.shape
    block_r, block_k, warps = UPDATE_BLOCKS[variant]
    # Devices are on the first axis of the grid: the other axes are limited to 65,535.
    grid = (n, triton.cdiv(rows, block_r), triton.cdiv(columns, block_k))
    _update_kernel[grid](
        W_nrk, P_nrb, x_nbk, rows, columns, *W_nrk.stride(), *P_nrb.stride(), *x_nbk.stride(),
        SAMPLES=P_nrb.shape[2], BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=32, num_warps=warps,
    )  # fmt: skip


def _sample_block(samples: int) -> int:
    return max(16, triton.next_power_of_2(samples))


# In both kernels the strips of a model are consecutive, so that what they share stays in the cache.


@triton.jit
def _dense_forward(
    W, x, bias, y, strips, samples, w_n, w_r, w_k, x_n, x_b, x_k, bias_n,
    BIAS: tl.constexpr, ACTIVATION: tl.constexpr, FACTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = (tl.program_id(0) // strips).to(tl.int64)
    r = (tl.program_id(0) % strips) * BLOCK_R + tl.arange(0, BLOCK_R)
    b = tl.arange(0, BLOCK_B)
    # Weights are the first factor, because that one may come from registers, where it is rounded.
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
    pointers = y + (n * samples + b)[None, :] * ROWS + r[:, None]
    inside = (r < ROWS)[:, None] & (b < samples)[None, :]
    tl.store(pointers, activate(z, ACTIVATION), mask=inside)


@triton.jit
def _dense_backward(
    W, g, x, back, strips, samples,
    w_n, w_r, w_k, g_n, g_b, g_r, x_n, x_b, x_k, INPUT_GRAD: tl.constexpr, FACTOR: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr,
    BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = (tl.program_id(0) // strips).to(tl.int64)
    k = (tl.program_id(0) % strips) * BLOCK_K + tl.arange(0, BLOCK_K)
    b = tl.arange(0, BLOCK_B)
    valid = (b < samples)[:, None] & (k < COLUMNS)[None, :]
    inputs = tl.load(x + n * x_n + b[:, None] * x_b + k[None, :] * x_k, mask=valid, other=0.0)
    inputs = inputs.to(FACTOR)
    total = tl.zeros([BLOCK_B, BLOCK_K], dtype=tl.float32)
    for start in range(0, ROWS, BLOCK_R):
        r = start + tl.arange(0, BLOCK_R)
        grads = tl.load(
            g + n * g_n + b[:, None] * g_b + r[None, :] * g_r,
            mask=(b < samples)[:, None] & (r < ROWS)[None, :],
            other=0.0,
        ).to(FACTOR)
        pointers = W + n * w_n + r[:, None] * w_r + k[None, :] * w_k
        inside = (r < ROWS)[:, None] & (k < COLUMNS)[None, :]
        weights = tl.load(pointers, mask=inside, other=0.0)
        if INPUT_GRAD:
            total = tl.dot(grads, weights.to(FACTOR), total, input_precision="tf32")
        change = tl.dot(tl.trans(grads), inputs, input_precision="tf32")
        tl.store(pointers, weights - change, mask=inside)
    if INPUT_GRAD:
        tl.store(back + (n * samples + b)[:, None] * COLUMNS + k[None, :], total, mask=valid)


@triton.jit
def _update_kernel(
    W, P, x, rows, columns, w_n, w_r, w_k, p_n, p_r, p_b, x_n, x_b, x_k,
    SAMPLES: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros([BLOCK_R, BLOCK_K], dtype=tl.float32)
    for start in range(0, SAMPLES, BLOCK_B):
        b = start + tl.arange(0, BLOCK_B)
        grads = tl.load(
            P + n * p_n + r[:, None] * p_r + b[None, :] * p_b,
            mask=(r[:, None] < rows) & (b[None, :] < SAMPLES),
            other=0.0,
        )
        inputs = tl.load(
            x + n * x_n + b[:, None] * x_b + k[None, :] * x_k,
            mask=(b[:, None] < SAMPLES) & (k[None, :] < columns),
            other=0.0,
        )
        total = tl.dot(grads, inputs, total, input_precision="tf32")
    pointers = W + n * w_n + r[:, None].to(tl.int64) * w_r + k[None, :] * w_k
    inside = (r[:, None] < rows) & (k[None, :] < columns)
    tl.store(pointers, tl.load(pointers, mask=inside, other=0.0) - total, mask=inside)
