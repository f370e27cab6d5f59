"""A step of softmax regression on small inputs, in one pass: the minibatch is gathered on the chip,
and neither samples nor scores nor gradients are stored on the way."""

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 2**13
"""Numbers of a minibatch that fit on the chip beside a model."""
MOST_CLASSES = 64
NARROW = 128
"""Features that one warp steps; it waits for nobody. More are shared by two."""
PROGRAMS = 4096
"""That fill a chip. Lanes of a device share its samples as far as there are as many."""


def fits(samples: int, features: int, classes: int) -> bool:
    head, tail = _parts(features)
    return (head + tail) * _side(samples) <= MOST and classes <= MOST_CLASSES


def step(X_nld: Tensor, inputs: Tensor, labels: Tensor, rows_nb: Tensor, eta_l: Tensor) -> Tensor:
    """X <- X - eta G(X) on the samples `inputs[rows]`, products in tf32; returns the mean losses
    [n, L] before it. A model is [classes, features], with the bias among the features."""
    n, lanes, d = X_nld.shape
    samples, features = rows_nb.shape[1], inputs.shape[1]
    classes, (head, tail) = d // features, _parts(features)
    losses = torch.empty(n, lanes, device=X_nld.device, dtype=torch.float32)
    together = triton.next_power_of_2(max(1, min(lanes, n * lanes // PROGRAMS)))
    _step[(n, triton.cdiv(lanes, together))](
        X_nld, inputs, labels, rows_nb.contiguous(), eta_l, losses, lanes,
        X_nld.stride(0), eta_l.stride(0),
        LANES=together, SAMPLES=samples, FEATURES=features, CLASSES=classes,
        B=_side(samples), C=_side(classes), HEAD=head, TAIL=tail,
        num_warps=1 if head + tail <= NARROW else 2, num_stages=1,
    )  # fmt: skip
    return losses


def _side(length: int) -> int:
    """Of a tile: matrix units take powers of two, from 16 on."""
    return max(16, triton.next_power_of_2(length))


def _parts(features: int) -> tuple[int, int]:
    """Two tiles that hold all features: 64 and 16 hold 72 of them, where a single tile has 128."""
    head = max(16, triton.next_power_of_2(features + 1) // 2)
    return head, _side(features - head) if features > head else 0


@triton.jit
def _step(
    X, inputs, labels, rows, eta, losses, lanes, X_stride, eta_stride,
    LANES: tl.constexpr, SAMPLES: tl.constexpr, FEATURES: tl.constexpr, CLASSES: tl.constexpr,
    B: tl.constexpr, C: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    device = tl.program_id(0).to(tl.int64)
    b, c, k = tl.arange(0, B), tl.arange(0, C), tl.arange(0, HEAD)
    there = b < SAMPLES
    row = tl.load(rows + device * SAMPLES + b, mask=there, other=0)
    label = tl.load(labels + row, mask=there, other=0)
    sample = inputs + row[:, None] * FEATURES
    x = tl.load(sample + k[None, :], mask=there[:, None] & (k < FEATURES)[None, :], other=0.0)
    if TAIL > 0:
        k_tail = HEAD + tl.arange(0, TAIL)
        met = there[:, None] & (k_tail < FEATURES)[None, :]
        x_tail = tl.load(sample + k_tail[None, :], mask=met, other=0.0)
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
        mean = tl.sum(tl.where(there, loss, 0.0)) / SAMPLES
        tl.store(losses + device * lanes + lane, mean, mask=lane < lanes)
        scale = tl.load(eta + lane * eta_stride, mask=lane < lanes, other=0.0) / SAMPLES
        slopes = (e / summed[None, :] - right.to(tl.float32)) * scale
        slopes = tl.where(there[None, :], slopes, 0.0)
        W -= tl.dot(slopes, x, input_precision="tf32")
        tl.store(model + k[None, :], W, mask=inside)
        if TAIL > 0:
            W_tail -= tl.dot(slopes, x_tail, input_precision="tf32")
            tl.store(model + k_tail[None, :], W_tail, mask=inside_tail)
