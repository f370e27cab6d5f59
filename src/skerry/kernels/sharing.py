"""S2S and what it takes from the sampled models, in one pass over them."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
ROWS = 16


def share_and_collect(X_nld: Tensor, sampled_k: Tensor, into_nld: Tensor, scale_l1: Tensor) -> None:
    """The sampled rows of X become their mean; what that takes from each, times its lane's scale,
    is added to the same row of another array."""
    _, lanes, d = X_nld.shape
    tiles = triton.next_power_of_2(triton.cdiv(len(sampled_k), ROWS))  # compiled for each
    # Blocks of a model along the first axis: the others end at 65,535.
    _share[(triton.cdiv(d, BLOCK), lanes)](
        X_nld, into_nld, sampled_k, scale_l1, len(sampled_k), d, X_nld.stride(0),
        into_nld.stride(0), scale_l1.stride(0), BLOCK=BLOCK, ROWS=ROWS, TILES=tiles,
    )  # fmt: skip


@triton.jit
def _share(
    X, into, sampled, scale, count, d, X_stride, into_stride, scale_stride,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, place = k < d, lane * d + k
    # Taken from the first model, not from 0: models far from the origin are near each other.
    first = tl.load(X + tl.load(sampled) * X_stride + place, mask=inside, other=0.0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        number = tile * ROWS + tl.arange(0, ROWS)
        row = tl.load(sampled + number, mask=number < count, other=0)
        there = (number < count)[:, None] & inside[None, :]
        x = tl.load(X + row[:, None] * X_stride + place[None, :], mask=there, other=0.0)
        total += tl.sum(tl.where(there, x - first[None, :], 0.0), axis=0)
    mean = first + total / count
    factor = tl.load(scale + lane * scale_stride)
    for tile in range(TILES):
        number = tile * ROWS + tl.arange(0, ROWS)
        row = tl.load(sampled + number, mask=number < count, other=0)
        there = (number < count)[:, None] & inside[None, :]
        model = X + row[:, None] * X_stride + place[None, :]
        kept = into + row[:, None] * into_stride + place[None, :]
        taken = (tl.load(model, mask=there, other=0.0) - mean[None, :]) * factor
        tl.store(kept, tl.load(kept, mask=there, other=0.0) + taken, mask=there)
        tl.store(model, tl.broadcast_to(mean[None, :], (ROWS, BLOCK)), mask=there)
