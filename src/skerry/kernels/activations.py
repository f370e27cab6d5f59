"""Activation functions: ReLU and ELU inside other kernels, softmax and argmax over class scores."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 2048  # class scores that one program holds
ACTIVATIONS = {"none": 0, "relu": 1, "elu": 2}
"""Codes of the activations; a kernel is compiled for one of them."""


@triton.jit
def activate(z, KIND: tl.constexpr):
    """Apply the activation with code KIND."""
    if KIND == 1:
        z = tl.where(z <= 0, 0.0, z)  # NaN stays: a model that diverged must show it
    elif KIND == 2:
        z = tl.where(z <= 0, tl.exp(tl.minimum(z, 0.0)) - 1, z)
    return z


@triton.jit
def activation_gradient(g, value, KIND: tl.constexpr):
    """Gradient at the activation's input, from the gradient at its output and the output."""
    if KIND == 1:
        g = tl.where(value <= 0, 0.0, g)  # where the value is NaN, so is the gradient
    elif KIND == 2:
        g *= tl.where(value > 0, 1.0, value + 1)
    return g


def softmax_gradient(Z_mcb: Tensor, y_nb: Tensor, scale_l: Tensor) -> Tensor:
    """Replace scores Z [n L, classes, B] by scale_l (softmax(Z) - onehot(y)) in place.

    Returns the mean cross-entropies [n, L] of the scores.
    """
    lanes = len(scale_l)
    return _softmax(Z_mcb, y_nb, lanes, scale_l).view(-1, lanes)


def cross_entropies(Z_mcb: Tensor, y_b: Tensor) -> Tensor:
    """Mean cross-entropies [m] of scores [m, classes, B] on labels [B] shared by all models."""
    return _softmax(Z_mcb, y_b, len(Z_mcb), None)


def _softmax(Z_mcb: Tensor, y: Tensor, models_per_row: int, scale: Tensor | None) -> Tensor:
    """Mean losses [m]; with a scale, Z becomes the gradient. Models share rows of labels."""
    models, classes, size = Z_mcb.shape
    side, block = _tile(classes, size)
    pieces = triton.cdiv(size, block)
    losses = torch.empty(models, pieces, device=Z_mcb.device, dtype=torch.float32)
    _softmax_kernel[(models, pieces)](
        Z_mcb, y, losses if scale is None else scale, losses, models_per_row, size, classes,
        *Z_mcb.stride(), SIDE=side, BLOCK=block, GRADIENT=scale is not None, num_warps=1,
    )  # fmt: skip
    return losses.sum(dim=1) / size


def _tile(classes: int, size: int) -> tuple[int, int]:
    side = triton.next_power_of_2(classes)
    return side, max(16, min(triton.next_power_of_2(size), TILE // side))


@triton.jit
def _softmax_kernel(
    Z, y, scale, losses, models_per_row, size, classes, stride_m, stride_c, stride_b,
    SIDE: tl.constexpr, BLOCK: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    m, piece = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, SIDE)[:, None]
    b = piece * BLOCK + tl.arange(0, BLOCK)
    inside = (c < classes) & (b[None, :] < size)
    pointers = Z + m * stride_m + c * stride_c + b[None, :].to(tl.int64) * stride_b
    z = tl.load(pointers, mask=inside, other=float("-inf"))
    z = tl.where(b[None, :] < size, z, 0.0)
    label = tl.load(y + (m // models_per_row) * size + b, mask=b < size, other=0)
    z -= tl.max(z, axis=0)[None, :]
    e = tl.exp(z)
    summed = tl.sum(e, axis=0)
    right = c == label[None, :]
    loss = tl.log(summed) - tl.sum(tl.where(right, z, 0.0), axis=0)
    tl.store(losses + m * tl.num_programs(1) + piece, tl.sum(tl.where(b < size, loss, 0.0)))
    if GRADIENT:
        factor = tl.load(scale + m % models_per_row)
        gradient = (e / summed[None, :] - right.to(tl.float32)) * factor
        tl.store(pointers, gradient, mask=inside)


def predicted_classes(Z_mcb: Tensor) -> Tensor:
    """Class with the highest score, int16 [m, B], for scores [m, classes, B]."""
    models, classes, size = Z_mcb.shape
    classes_mb = torch.empty(models, size, device=Z_mcb.device, dtype=torch.int16)
    side, block = _tile(classes, size)
    _argmax_kernel[(models, triton.cdiv(size, block))](
        Z_mcb, classes_mb, size, classes, *Z_mcb.stride(), SIDE=side, BLOCK=block
    )
    return classes_mb


@triton.jit
def _argmax_kernel(
    Z, best_class, size, classes, stride_m, stride_c, stride_b, SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, SIDE)[:, None]
    inside = (c < classes) & (b[None, :] < size)
    pointers = Z + m * stride_m + b[None, :].to(tl.int64) * stride_b + c * stride_c
    z = tl.load(pointers, mask=inside, other=float("-inf"))
    best = tl.argmax(z, axis=0)
    tl.store(best_class + m * size + b, best.to(tl.int16), mask=b < size)
