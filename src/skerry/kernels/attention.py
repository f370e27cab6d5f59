"""Fused attention over short sequences; one program computes a whole head on the chip.

q, k and v have shape [heads, tokens, width], where heads runs over models, samples and heads.
Torch's own backward pass loops over models.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

LONGEST, WIDEST = 128, 64
"""Largest number of tokens, and largest width of a token, that fit on the chip."""


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """softmax(scale q k^T) v; with `causal`, a token attends to itself and earlier tokens."""
    y = torch.empty_like(q, memory_format=torch.contiguous_format)
    _attend[(len(q),)](
        q.contiguous(), k.contiguous(), v.contiguous(), y, scale, **_launch_options(q, causal)
    )  # fmt: skip
    return y


def attention_gradients(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at q, k and v, from the gradient g at the output."""
    dq, dk, dv = (torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(3))
    _attention_gradients[(len(q),)](
        g.contiguous(), q.contiguous(), k.contiguous(), v.contiguous(), dq, dk, dv, scale,
        **_launch_options(q, causal),
    )  # fmt: skip
    return dq, dk, dv


def _launch_options(q: Tensor, causal: bool) -> dict[str, Any]:
    """Compile-time constants and launch options of both kernels."""
    _, tokens, width = q.shape
    block = max(16, triton.next_power_of_2(tokens))
    return {
        "TOKENS": tokens, "WIDTH": width, "CAUSAL": causal, "BLOCK": block,
        "BLOCK_D": max(16, triton.next_power_of_2(width)),
        "DOT": precision.dot_precision(),
        "num_warps": 8 if block > 64 else 4,
    }  # fmt: skip


@triton.jit
def _attention_weights(
    q, k, scale, CAUSAL: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr
):
    """Attention weights: row i has the weights of all tokens for token i."""
    t = tl.arange(0, BLOCK)
    visible = (t < TOKENS)[None, :]
    if CAUSAL:
        visible &= t[None, :] <= t[:, None]
    scores = tl.where(visible, tl.dot(q, tl.trans(k), input_precision=DOT) * scale, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return weights / tl.sum(weights, axis=1)[:, None]


@triton.jit
def _head_offsets(
    TOKENS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Offsets of the elements of this program's head, and the mask of those that exist."""
    t, d = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK_D)[None, :]
    return tl.program_id(0).to(tl.int64) * (TOKENS * WIDTH) + t * WIDTH + d, (t < TOKENS) & (
        d < WIDTH
    )


@triton.jit
def _attend(
    q, k, v, y, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    offsets, inside = _head_offsets(TOKENS, WIDTH, BLOCK, BLOCK_D)
    queries = tl.load(q + offsets, mask=inside, other=0.0)
    keys = tl.load(k + offsets, mask=inside, other=0.0)
    values = tl.load(v + offsets, mask=inside, other=0.0)
    weights = _attention_weights(queries, keys, scale, CAUSAL, TOKENS, BLOCK, DOT).to(values.dtype)
    tl.store(y + offsets, tl.dot(weights, values, input_precision=DOT), mask=inside)


@triton.jit
def _attention_gradients(
    g, q, k, v, dq, dk, dv, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    offsets, inside = _head_offsets(TOKENS, WIDTH, BLOCK, BLOCK_D)
    grads = tl.load(g + offsets, mask=inside, other=0.0)
    queries = tl.load(q + offsets, mask=inside, other=0.0)
    keys = tl.load(k + offsets, mask=inside, other=0.0)
    values = tl.load(v + offsets, mask=inside, other=0.0)
    weights = _attention_weights(queries, keys, scale, CAUSAL, TOKENS, BLOCK, DOT)
    rounded = weights.to(values.dtype)
    tl.store(dv + offsets, tl.dot(tl.trans(rounded), grads, input_precision=DOT), mask=inside)
    grad_weights = tl.dot(grads, tl.trans(values), input_precision=DOT)
    mean = tl.sum(weights * grad_weights, axis=1)[:, None]
    grad_scores = (weights * (grad_weights - mean) * scale).to(values.dtype)
    tl.store(dq + offsets, tl.dot(grad_scores, keys, input_precision=DOT), mask=inside)
    tl.store(dk + offsets, tl.dot(tl.trans(grad_scores), queries, input_precision=DOT), mask=inside)
