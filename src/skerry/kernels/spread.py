"""Component means and squared distances from them, in one pass over X."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def component_spread(X_sld: Tensor) -> tuple[Tensor, Tensor]:
    """The mean [L, d] of a component's models and the summed squared distance from it, [L]."""
    size, lanes, d = X_sld.shape
    mean = torch.empty(lanes, d, device=X_sld.device, dtype=torch.float32)
    pieces = triton.cdiv(d, BLOCK)
    away = torch.empty(lanes, pieces, device=X_sld.device, dtype=torch.float32)
    # Pieces of a model along the first axis: the others end at 65,535.
    _spread[(pieces, lanes)](
        X_sld, mean, away, d, X_sld.stride(0), X_sld.stride(1), pieces,
        SIZE=size, BLOCK=BLOCK, ROWS=16,
    )  # fmt: skip
    return mean, away.sum(dim=1)


@triton.jit
def _spread(
    X, mean, away, d, stride_n, stride_l, pieces,
    SIZE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    piece, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    k = piece * BLOCK + tl.arange(0, BLOCK)
    base = X + lane * stride_l + k
    # Taken from the first model, not from 0: models far from the origin are near each other.
    first = tl.load(base, mask=k < d, other=0.0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, SIZE, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        x = tl.load(
            base[None, :] + row.to(tl.int64) * stride_n,
            mask=(row < SIZE) & (k[None, :] < d),
            other=0.0,
        )
        apart = tl.where(row < SIZE, x - first[None, :], 0.0)
        total += tl.sum(apart, axis=0)
        squares += tl.sum(apart * apart, axis=0)
    shift = total / SIZE
    tl.store(mean + lane * d + k, first + shift, mask=k < d)
    around = tl.where(k < d, squares - shift * total, 0.0)
    tl.store(away + lane * pieces + piece, tl.sum(around))
