"""Layer norm and group norm with separate weights for every model, one pass forward and backward.

Every row of x [models, rows, size] is normalized. Row i belongs to group k = i % groups, which has
the weights [k * size / each, (k + 1) * size / each) of its model; each weight serves `each`
consecutive numbers. A layer norm has one group and a weight per number (each = 1). The backward
pass computes the moments of a row again, because the row is on the chip anyway.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 2**14
"""Largest row, in numbers, that fits on the chip."""
TILE = 4096  # numbers of a tile, unless one row has more
PROGRAMS = 16384  # most programs, unless there are more groups


def normalize(
    x: Tensor, w: Tensor, b: Tensor, groups: int, each: int, eps: float, dtype: torch.dtype
) -> Tensor:
    """Normalized x times w plus b, in the given dtype."""
    y = torch.empty(x.shape, dtype=dtype, device=x.device)
    grid, options = _launch_plan(x, groups, each)
    _normalize[grid](x.contiguous(), w.contiguous(), b.contiguous(), y, eps, **options)
    return y


def norm_gradients(
    g: Tensor, x: Tensor, w: Tensor, groups: int, each: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients at x, w and b, from the gradient g at the output."""
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    grid, options = _launch_plan(x, groups, each)
    parts = torch.empty(2, grid[1], *w.shape, dtype=torch.float32, device=x.device)
    _norm_gradients[grid](g.contiguous(), x.contiguous(), w.contiguous(), dx, parts, eps, **options)
    dw, db = parts.sum(dim=1)
    return dx, dw, db


def _launch_plan(x: Tensor, groups: int, each: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Grid (groups of all models, pieces of their rows), and arguments of both kernels."""
    models, rows, size = x.shape
    samples, block = rows // groups, triton.next_power_of_2(size)
    at_once = min(max(1, TILE // block), triton.next_power_of_2(samples))
    pieces = min(triton.cdiv(samples, at_once), max(1, PROGRAMS // (models * groups)))
    options = {
        "samples": samples, "GROUPS": groups, "SIZE": size, "EACH": each, "AT_ONCE": at_once,
        "STEPS": triton.cdiv(samples, pieces * at_once), "BLOCK": block,
        "num_warps": max(4, min(16, block // 512)),
    }  # fmt: skip
    return (models * groups, pieces), options


@triton.jit
def _rows(step, samples, GROUPS: tl.constexpr, AT_ONCE: tl.constexpr, STEPS: tl.constexpr):
    """Rows of one step of this program, and the mask of those that exist."""
    sample = (tl.program_id(1) * STEPS + step) * AT_ONCE + tl.arange(0, AT_ONCE)
    m, group = (tl.program_id(0) // GROUPS).to(tl.int64), tl.program_id(0) % GROUPS
    row = (m * samples + sample) * GROUPS + group
    return row[:, None], (sample < samples)[:, None]


@triton.jit
def _standardize(values, mask, eps, SIZE: tl.constexpr):
    """Rows minus their mean over their standard deviation, and one over that deviation."""
    mean = tl.sum(values, axis=1)[:, None] / SIZE
    centred = tl.where(mask, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1)[:, None] / SIZE
    scale = 1 / tl.sqrt(variance + eps)
    return centred * scale, scale


@triton.jit
def _normalize(
    x, w, b, y, eps, samples, GROUPS: tl.constexpr, SIZE: tl.constexpr, EACH: tl.constexpr,
    AT_ONCE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, BLOCK)
    inside = (i < SIZE)[None, :]
    weights = tl.program_id(0).to(tl.int64) * (SIZE // EACH)
    factor = tl.load(w + weights + i // EACH, mask=i < SIZE, other=0.0).to(tl.float32)
    added = tl.load(b + weights + i // EACH, mask=i < SIZE, other=0.0).to(tl.float32)
    for step in range(STEPS):
        row, valid = _rows(step, samples, GROUPS, AT_ONCE, STEPS)
        mask, offsets = valid & inside, row * SIZE + i[None, :]
        values = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
        normal, _ = _standardize(values, mask, eps, SIZE)
        tl.store(y + offsets, normal * factor[None, :] + added[None, :], mask=mask)


@triton.jit
def _norm_gradients(
    g, x, w, dx, parts, eps, samples, GROUPS: tl.constexpr, SIZE: tl.constexpr, EACH: tl.constexpr,
    AT_ONCE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, BLOCK)
    inside = (i < SIZE)[None, :]
    wide: tl.constexpr = SIZE // EACH
    weights = tl.program_id(0).to(tl.int64) * wide
    factor = tl.load(w + weights + i // EACH, mask=i < SIZE, other=0.0).to(tl.float32)[None, :]
    grad_w = tl.zeros([AT_ONCE, BLOCK], dtype=tl.float32)
    grad_b = tl.zeros([AT_ONCE, BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        row, valid = _rows(step, samples, GROUPS, AT_ONCE, STEPS)
        mask, offsets = valid & inside, row * SIZE + i[None, :]
        values = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
        grads = tl.load(g + offsets, mask=mask, other=0.0).to(tl.float32)
        normal, scale = _standardize(values, mask, eps, SIZE)
        grad_w += grads * normal
        grad_b += grads
        grads *= factor
        along = tl.sum(grads * normal, axis=1)[:, None] / SIZE
        mean = tl.sum(grads, axis=1)[:, None] / SIZE
        tl.store(dx + offsets, (grads - mean - normal * along) * scale, mask=mask)
    sum_w, sum_b = tl.sum(grad_w, axis=0), tl.sum(grad_b, axis=0)
    whole = tl.num_programs(0).to(tl.int64) * wide
    at, second = parts + tl.program_id(1) * whole + weights, tl.num_programs(1) * whole
    if EACH == 1:
        tl.store(at + i, sum_w, mask=i < SIZE)
        tl.store(at + second + i, sum_b, mask=i < SIZE)
    else:
        for k in range(wide):
            mine = i // EACH == k
            tl.store(at + k, tl.sum(tl.where(mine, sum_w, 0.0), axis=0))
            tl.store(at + second + k, tl.sum(tl.where(mine, sum_b, 0.0), axis=0))
