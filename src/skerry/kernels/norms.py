"""Layer norm and group norm with weights of their own for every model, in one pass each way.

x [models, rows, size]: every row is normalized over all its numbers. Rows take turns in `groups`;
those of group k have the weights [k * size / each, (k + 1) * size / each) of their model, each of
them for `each` numbers that follow one another. A layer norm has one group, and a weight for every
number. Going back, a row's moments are computed again: it is on the chip in any case.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 2**14
"""Numbers of a row that fit on the chip."""
NUMBERS = 4096  # of a tile, unless one row has more
PROGRAMS = 16384  # at most, where rows are not too few


def normalize(
    x: Tensor, w: Tensor, b: Tensor, groups: int, each: int, eps: float, dtype: torch.dtype
) -> Tensor:
    y = torch.empty(x.shape, dtype=dtype, device=x.device)
    grid, told = _cut(x, groups, each)
    _normalize[grid](x.contiguous(), w.contiguous(), b.contiguous(), y, eps, **told)
    return y


def gradients(
    g: Tensor, x: Tensor, w: Tensor, groups: int, each: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """At x, at the weights, and at what is added, from the one at y."""
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    grid, told = _cut(x, groups, each)
    parts = torch.empty(2, grid[1], *w.shape, dtype=torch.float32, device=x.device)
    _gradients[grid](g.contiguous(), x.contiguous(), w.contiguous(), dx, parts, eps, **told)
    dw, db = parts.sum(dim=1)
    return dx, dw, db


def _cut(x: Tensor, groups: int, each: int) -> tuple[tuple[int, int], dict[str, int]]:
    """The programs (groups of all models, pieces of their rows), and what a kernel is told."""
    models, rows, size = x.shape
    samples, block = rows // groups, triton.next_power_of_2(size)
    at_once = min(max(1, NUMBERS // block), triton.next_power_of_2(samples))
    pieces = min(triton.cdiv(samples, at_once), max(1, PROGRAMS // (models * groups)))
    told = {
        "samples": samples, "GROUPS": groups, "SIZE": size, "EACH": each, "AT_ONCE": at_once,
        "STEPS": triton.cdiv(samples, pieces * at_once), "BLOCK": block,
        "num_warps": max(4, min(16, block // 512)),
    }  # fmt: skip
    return (models * groups, pieces), told


@triton.jit
def _rows(step, samples, GROUPS: tl.constexpr, AT_ONCE: tl.constexpr, STEPS: tl.constexpr):
    """Of one step of this program, and which of them there are."""
    sample = (tl.program_id(1) * STEPS + step) * AT_ONCE + tl.arange(0, AT_ONCE)
    m, group = (tl.program_id(0) // GROUPS).to(tl.int64), tl.program_id(0) % GROUPS
    row = (m * samples + sample) * GROUPS + group
    return row[:, None], (sample < samples)[:, None]


@triton.jit
def _normal(values, here, eps, SIZE: tl.constexpr):
    """Rows without their mean, over their standard deviation; and one over it."""
    mean = tl.sum(values, axis=1)[:, None] / SIZE
    centred = tl.where(here, values - mean, 0.0)
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
        row, there = _rows(step, samples, GROUPS, AT_ONCE, STEPS)
        here, places = there & inside, row * SIZE + i[None, :]
        values = tl.load(x + places, mask=here, other=0.0).to(tl.float32)
        normal, _ = _normal(values, here, eps, SIZE)
        tl.store(y + places, normal * factor[None, :] + added[None, :], mask=here)


@triton.jit
def _gradients(
    g, x, w, dx, parts, eps, samples, GROUPS: tl.constexpr, SIZE: tl.constexpr, EACH: tl.constexpr,
    AT_ONCE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, BLOCK)
    inside = (i < SIZE)[None, :]
    wide: tl.constexpr = SIZE // EACH
    weights = tl.program_id(0).to(tl.int64) * wide
    factor = tl.load(w + weights + i // EACH, mask=i < SIZE, other=0.0).to(tl.float32)[None, :]
    of_w = tl.zeros([AT_ONCE, BLOCK], dtype=tl.float32)
    of_b = tl.zeros([AT_ONCE, BLOCK], dtype=tl.float32)
    for step in range(STEPS):
        row, there = _rows(step, samples, GROUPS, AT_ONCE, STEPS)
        here, places = there & inside, row * SIZE + i[None, :]
        values = tl.load(x + places, mask=here, other=0.0).to(tl.float32)
        slopes = tl.load(g + places, mask=here, other=0.0).to(tl.float32)
        normal, scale = _normal(values, here, eps, SIZE)
        of_w += slopes * normal
        of_b += slopes
        slopes *= factor
        along = tl.sum(slopes * normal, axis=1)[:, None] / SIZE
        mean = tl.sum(slopes, axis=1)[:, None] / SIZE
        tl.store(dx + places, (slopes - mean - normal * along) * scale, mask=here)
    sum_w, sum_b = tl.sum(of_w, axis=0), tl.sum(of_b, axis=0)
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
