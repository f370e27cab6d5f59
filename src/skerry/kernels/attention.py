"""Attention over short sequences, all of one head on the chip: scores never leave it.

q, k, v [heads, tokens, width], of any number of models and samples. Torch's own kernels go back
from model to model.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision

LONGEST, WIDEST = 128, 64
"""Tokens of a sequence and numbers of a token that fit on the chip."""


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    y = torch.empty_like(q, memory_format=torch.contiguous_format)
    _attend[(len(q),)](
        q.contiguous(), k.contiguous(), v.contiguous(), y, scale, **_told(q, causal)
    )  # fmt: skip
    return y


def gradients(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """At q, k and v, from the one at what came out."""
    dq, dk, dv = (torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(3))
    _gradients[(len(q),)](
        g.contiguous(), q.contiguous(), k.contiguous(), v.contiguous(), dq, dk, dv, scale,
        **_told(q, causal),
    )  # fmt: skip
    return dq, dk, dv


def _told(q: Tensor, causal: bool) -> dict[str, Any]:
    _, tokens, width = q.shape
    block = max(16, triton.next_power_of_2(tokens))
    return {
        "TOKENS": tokens, "WIDTH": width, "CAUSAL": causal, "BLOCK": block,
        "BLOCK_D": max(16, triton.next_power_of_2(width)),
        "DOT": "ieee" if precision.current() == "float32" else "tf32",
        "num_warps": 8 if block > 64 else 4,
    }  # fmt: skip


@triton.jit
def _shares(
    q, k, scale, CAUSAL: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr
):
    """Of each token (a row) in what the others say."""
    t = tl.arange(0, BLOCK)
    seen = (t < TOKENS)[None, :]
    if CAUSAL:
        seen &= t[None, :] <= t[:, None]
    scores = tl.where(seen, tl.dot(q, tl.trans(k), input_precision=DOT) * scale, float("-inf"))
    shares = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return shares / tl.sum(shares, axis=1)[:, None]


@triton.jit
def _places(TOKENS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    t, d = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK_D)[None, :]
    return tl.program_id(0).to(tl.int64) * (TOKENS * WIDTH) + t * WIDTH + d, (t < TOKENS) & (
        d < WIDTH
    )


@triton.jit
def _attend(
    q, k, v, y, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    places, here = _places(TOKENS, WIDTH, BLOCK, BLOCK_D)
    queries = tl.load(q + places, mask=here, other=0.0)
    keys = tl.load(k + places, mask=here, other=0.0)
    values = tl.load(v + places, mask=here, other=0.0)
    shares = _shares(queries, keys, scale, CAUSAL, TOKENS, BLOCK, DOT).to(values.dtype)
    tl.store(y + places, tl.dot(shares, values, input_precision=DOT), mask=here)


@triton.jit
def _gradients(
    g, q, k, v, dq, dk, dv, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    places, here = _places(TOKENS, WIDTH, BLOCK, BLOCK_D)
    slopes = tl.load(g + places, mask=here, other=0.0)
    queries = tl.load(q + places, mask=here, other=0.0)
    keys = tl.load(k + places, mask=here, other=0.0)
    values = tl.load(v + places, mask=here, other=0.0)
    shares = _shares(queries, keys, scale, CAUSAL, TOKENS, BLOCK, DOT)
    rounded = shares.to(values.dtype)
    tl.store(dv + places, tl.dot(tl.trans(rounded), slopes, input_precision=DOT), mask=here)
    of_shares = tl.dot(slopes, tl.trans(values), input_precision=DOT)
    mean = tl.sum(shares * of_shares, axis=1)[:, None]
    of_scores = (shares * (of_shares - mean) * scale).to(values.dtype)
    tl.store(dq + places, tl.dot(of_scores, keys, input_precision=DOT), mask=here)
    tl.store(dk + places, tl.dot(tl.trans(of_scores), queries, input_precision=DOT), mask=here)
