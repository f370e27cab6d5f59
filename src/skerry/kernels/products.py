"""W <- W - P x for a batch of matrices, each W read once and written once."""

import triton
import triton.language as tl
from torch import Tensor

from skerry.kernels import precision
from skerry.kernels.choice import fastest

SAMPLE = 2**25  # bytes of W on which ways are timed
WAYS = ("torch", "128 x 128", "64 x 128")
BLOCKS = {"128 x 128": (128, 128, 8), "64 x 128": (64, 128, 4)}


def subtract_product(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor) -> None:
    """In place, at the precision in force."""
    if precision.current() == "float32":
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
        return
    some = max(1, min(len(W_nrk), SAMPLE // (W_nrk[0].numel() * W_nrk.itemsize)))

    def on_a_copy(way: str) -> None:
        _subtract(W_nrk[:some].clone(), P_nrb[:some], x_nbk[:some], way)

    shapes = f"{tuple(W_nrk.shape)}, {P_nrb.shape[2]} samples"
    _subtract(W_nrk, P_nrb, x_nbk, fastest(f"update of {shapes}", WAYS, on_a_copy))


def _subtract(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor, way: str) -> None:
    if way == "torch":
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
        return
    n, rows, columns = W_nrk.shape
    block_r, block_k, warps = BLOCKS[way]
    # Devices along the first axis: the others end at 65,535.
    grid = (n, triton.cdiv(rows, block_r), triton.cdiv(columns, block_k))
    _update[grid](
        W_nrk, P_nrb, x_nbk, rows, columns, *W_nrk.stride(), *P_nrb.stride(), *x_nbk.stride(),
        SAMPLES=P_nrb.shape[2], BLOCK_R=block_r, BLOCK_K=block_k, BLOCK_B=32, num_warps=warps,
    )  # fmt: skip


@triton.jit
def _update(
    W, P, x, rows, columns, w_n, w_r, w_k, p_n, p_r, p_b, x_n, x_b, x_k,
    SAMPLES: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    r = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    k = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros([BLOCK_R, BLOCK_K], dtype=tl.float32)
    for start in range(0, SAMPLES, BLOCK_B):
        b = start + tl.arange(0, BLOCK_B)
        slopes = tl.load(
            P + n * p_n + r[:, None] * p_r + b[None, :] * p_b,
            mask=(r[:, None] < rows) & (b[None, :] < SAMPLES),
            other=0.0,
        )
        inputs = tl.load(
            x + n * x_n + b[:, None] * x_b + k[None, :] * x_k,
            mask=(b[:, None] < SAMPLES) & (k[None, :] < columns),
            other=0.0,
        )
        total = tl.dot(slopes, inputs, total, input_precision="tf32")
    places = W + n * w_n + r[:, None].to(tl.int64) * w_r + k[None, :] * w_k
    inside = (r[:, None] < rows) & (k[None, :] < columns)
    tl.store(places, tl.load(places, mask=inside, other=0.0) - total, mask=inside)
