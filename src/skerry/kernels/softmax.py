"""Softmax, its gradient and guesses: one pass over the class scores each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 2048  # numbers that a program holds at once


def softmax_gradient(Z_mcb: Tensor, y_nb: Tensor, scale_l: Tensor) -> Tensor:
    """Z [n L, classes, B] becomes scale_l (softmax(Z) - onehot(y)), in place; returns the mean
    cross-entropies [n, L] before."""
    lanes = len(scale_l)
    return _softmax(Z_mcb, y_nb, lanes, scale_l).view(-1, lanes)


def cross_entropies(Z_mcb: Tensor, y_b: Tensor) -> Tensor:
    """Mean cross-entropies [m] of scores [m, classes, B] on labels that all models share."""
    return _softmax(Z_mcb, y_b, len(Z_mcb), None)


def _softmax(Z_mcb: Tensor, y: Tensor, models_per_row: int, scale: Tensor | None) -> Tensor:
    """The mean losses [m]; with a scale, Z becomes the gradient. Models share rows of labels."""
    models, classes, size = Z_mcb.shape
    side, block = _tile(classes, size)
    pieces = triton.cdiv(size, block)
    losses = torch.empty(models, pieces, device=Z_mcb.device, dtype=torch.float32)
    _each_model[(models, pieces)](
        Z_mcb, y, losses if scale is None else scale, losses, models_per_row, size, classes,
        *Z_mcb.stride(), SIDE=side, BLOCK=block, GRADIENT=scale is not None, num_warps=1,
    )  # fmt: skip
    return losses.sum(dim=1) / size


def _tile(classes: int, size: int) -> tuple[int, int]:
    side = triton.next_power_of_2(classes)
    return side, max(16, min(triton.next_power_of_2(size), TILE // side))


@triton.jit
def _each_model(
    Z, y, scale, losses, models_per_row, size, classes, stride_m, stride_c, stride_b,
    SIDE: tl.constexpr, BLOCK: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    m, piece = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.arange(0, SIDE)[:, None]
    b = piece * BLOCK + tl.arange(0, BLOCK)
    inside = (c < classes) & (b[None, :] < size)
    places = Z + m * stride_m + c * stride_c + b[None, :].to(tl.int64) * stride_b
    z = tl.load(places, mask=inside, other=float("-inf"))
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
        tl.store(places, gradient, mask=inside)


def guesses(Z_mcb: Tensor) -> Tensor:
    """The class with the highest score, int16 [m, B], for scores [m, classes, B]."""
    models, classes, size = Z_mcb.shape
    found = torch.empty(models, size, device=Z_mcb.device, dtype=torch.int16)
    side, block = _tile(classes, size)
    _guess[(models, triton.cdiv(size, block))](
        Z_mcb, found, size, classes, *Z_mcb.stride(), SIDE=side, BLOCK=block
    )
    return found


@triton.jit
def _guess(
    Z, found, size, classes, stride_m, stride_c, stride_b, SIDE: tl.constexpr, BLOCK: tl.constexpr
):
    m = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, SIDE)[:, None]
    inside = (c < classes) & (b[None, :] < size)
    places = Z + m * stride_m + b[None, :].to(tl.int64) * stride_b + c * stride_c
    z = tl.load(places, mask=inside, other=float("-inf"))
    best = tl.argmax(z, axis=0)
    tl.store(found + m * size + b, best.to(tl.int16), mask=b < size)
