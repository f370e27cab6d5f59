"""A whole SGD step of softmax regression on small inputs in one kernel.

The minibatch is gathered on the chip; samples, scores and gradients are never stored.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_BATCH_NUMBERS = 2**13
"""Largest minibatch, in numbers, that fits on the chip beside a model."""
MAX_CLASSES = 64
ONE_WARP = 128
"""Largest number of features for one warp, which needs no synchronization; more use two warps."""
PROGRAMS = 4096
"""Programs that fill a chip; with more models, a program takes several lanes of a device."""


def softmax_step_fits(samples: int, features: int, classes: int) -> bool:
    """Whether a minibatch and a model of this size fit on the chip."""
    head, tail = _feature_tiles(features)
    return (head + tail) * _tile_side(samples) <= MAX_BATCH_NUMBERS and classes <= MAX_CLASSES


def softmax_step(
    X_nld: Tensor, inputs: Tensor, labels: Tensor, rows_nb: Tensor, eta_l: Tensor
) -> Tensor:
    """X <- X - eta G(X) in place on the samples `inputs[rows]`, with products in tf32.

    A model is [classes, features], with the bias among the features. Returns the mean losses
    [n, L] before the step.
    """
    n, lanes, d = X_nld.shape
    samples, features = rows_nb.shape[1], inputs.shape[1]
    classes, (head, tail) = d // features, _feature_tiles(features)
    losses = torch.empty(n, lanes, device=X_nld.device, dtype=torch.float32)
    lanes_per_program = triton.next_power_of_2(max(1, min(lanes, n * lanes // PROGRAMS)))
    _softmax_step[(n, triton.cdiv(lanes, lanes_per_program))](
        X_nld, inputs, labels, rows_nb.contiguous(), eta_l, losses, lanes,
        X_nld.stride(0), eta_l.stride(0),
        LANES=lanes_per_program, SAMPLES=samples, FEATURES=features, CLASSES=classes,
        B=_tile_side(samples), C=_tile_side(classes), HEAD=head, TAIL=tail,
        num_warps=1 if head + tail <= ONE_WARP else 2, num_stages=1,
    )  # fmt: skip
    return losses


def _tile_side(length: int) -> int:
    """Side of a tile: matrix units take powers of two of at least 16."""
    return max(16, triton.next_power_of_2(length))


def _feature_tiles(features: int) -> tuple[int, int]:
    """Two tile widths that hold all features: 64 + 16 hold 72, a single tile would need 128."""
    head = max(16, triton.next_power_of_2(features + 1) // 2)
    return head, _tile_side(features - head) if features > head else 0


@triton.jit
def _softmax_step(
    X, inputs, labels, rows, eta, losses, lanes, X_stride, eta_stride,
    LANES: tl.constexpr, SAMPLES: tl.constexpr, FEATURES: tl.constexpr, CLASSES: tl.constexpr,
    B: tl.constexpr, C: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    device = tl.program_id(0).to(tl.int64)
    b, c, k = tl.arange(0, B), tl.arange(0, C), tl.arange(0, HEAD)
    valid = b < SAMPLES
    row = tl.load(rows + device * SAMPLES + b, mask=valid, other=0)
    label = tl.load(labels + row, mask=valid, other=0)
    sample = inputs + row[:, None] * FEATURES
    x = tl.load(sample + k[None, :], mask=valid[:, None] & (k < FEATURES)[None, :], other=0.0)
    if TAIL > 0:
        k_tail = HEAD + tl.arange(0, TAIL)
        valid_tail = valid[:, None] & (k_tail < FEATURES)[None, :]
        x_tail = tl.load(sample + k_tail[None, :], mask=valid_tail, other=0.0)
    for number in range(LANES):
        lane = tl.program_id(1) * LANES + number
        known = (c < CLASSES) & (lane < lanes)
        model = X + device * X_stride + (lane * CLASSES + c[:, None]) * FEATURES
        inside = known[:, None] & (k < FEATURES)[None, :]
        W = tl.load(model + k[None, :], mask=inside, other=0.0)
        z = tl.dot(W, tl.trans(x), input_precision="tf32")
        if TAIL > 0:
            inside_tail = known[:, None] & (k_tail < FEATURES)[None, :]
            W_tail = tl.load(model + k_tail[None, :], mask=inside_tail, other=0.0)
            z = tl.dot(W_tail, tl.trans(x_tail), z, input_precision="tf32")
        z = tl.where((c < CLASSES)[:, None], z, float("-inf"))
        z -= tl.max(z, axis=0)[None, :]
        e = tl.exp(z)
        summed = tl.sum(e, axis=0)
        right = c[:, None] == label[None, :]
        loss = tl.log(summed) - tl.sum(tl.where(right, z, 0.0), axis=0)
        mean = tl.sum(tl.where(valid, loss, 0.0)) / SAMPLES
        tl.store(losses + device * lanes + lane, mean, mask=lane < lanes)
        scale = tl.load(eta + lane * eta_stride, mask=lane < lanes, other=0.0) / SAMPLES
        grads = (e / summed[None, :] - right.to(tl.float32)) * scale
        grads = tl.where(valid[None, :], grads, 0.0)
        W -= tl.dot(grads, x, input_precision="tf32")
        tl.store(model + k[None, :], W, mask=inside)
        if TAIL > 0:
            W_tail -= tl.dot(grads, x_tail, input_precision="tf32")
            tl.store(model + k_tail[None, :], W_tail, mask=inside_tail)
