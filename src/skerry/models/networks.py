"""The networks of the paper's experiments, and a small one for everyday use."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import nn

from skerry.errors import ModelError
from skerry.models.learner import Problem

MOST_PARAMETERS = 2 * 10**8
"""Every device has a model of its own: larger ones fit nowhere."""


def mlp(problem: Problem, *, hidden: Sequence[int] | int = 64) -> nn.Module:
    """Fully connected layers with ReLU between them; `hidden` is one width or a list. On tokens,
    the next one follows from the last one alone."""
    widths: Sequence[Any] = hidden if isinstance(hidden, list | tuple) else [hidden]
    if not all(type(width) is int and width > 0 for width in widths):
        raise ModelError(
            f"model.hidden must be a width of at least 1 or a list of them (got {hidden!r})."
        )
    reads_tokens = problem.task.name == "tokens"
    layers: list[nn.Module] = [] if reads_tokens else [nn.Flatten()]
    inputs = problem.outputs if reads_tokens else math.prod(problem.input_shape)
    wires = sum(a * b for a, b in pairwise([inputs, *widths, problem.classes]))
    if wires > MOST_PARAMETERS:
        raise ModelError(
            f"model.hidden must give a network of at most {MOST_PARAMETERS:,} parameters (got "
            f"{wires:.3g}). Take narrower layers."
        )
    for width in widths:
        layers += [_dense(inputs, width, reads_tokens and not layers), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, _dense(inputs, problem.outputs, reads_tokens and not layers))


def _dense(inputs: int, width: int, of_tokens: bool) -> nn.Module:
    """Of one token, given by its number, a dense layer is an embedding."""
    return nn.Embedding(inputs, width) if of_tokens else nn.Linear(inputs, width)


def cnn_cifar10(problem: Problem, *, variant: str = "appendix") -> nn.Module:
    """Two 5x5 convolutions (32, 64 channels), each with ReLU and 2x2 max pooling.

    The paper's appendix describes 2048 hidden units: without padding that has 3,353,034
    parameters on CIFAR-10 (variant "appendix"). Its main text counts 1.1 million: padding 2 and
    256 hidden units have 1,105,098 (variant "main_text").
    """
    variants = {"appendix": (0, 2048), "main_text": (2, 256)}
    if variant not in list(variants):
        raise ModelError(f"model.variant must be one of {', '.join(variants)} (got {variant!r}).")
    padding, hidden = variants[variant]
    channels, side = _image(problem, "cnn_cifar10", smallest=16)
    for _ in range(2):
        side = (side + 2 * padding - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * side * side, hidden),
        nn.ReLU(),
        nn.Linear(hidden, problem.classes),
    )


def cnn_cifar100(problem: Problem, *, dropout: bool = True) -> nn.Module:
    """Three blocks of two 3x3 convolutions with ELU (128, 256, 512 channels) and max pooling.

    The paper's 512 x 2 x 2 feature map needs one padded convolution per block: 32 -> 15 -> 6 -> 2,
    6,777,060 parameters on CIFAR-100.
    """
    if not isinstance(dropout, bool):
        raise ModelError(f"model.dropout must be true or false (got {dropout!r}).")
    channels, side = _image(problem, "cnn_cifar100", smallest=22)
    layers: list[nn.Module] = []
    for width, rate in ((128, 0.0), (256, 0.25), (512, 0.25)):
        layers += [
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(width, width, 3),
            nn.ELU(),
            nn.MaxPool2d(2),
        ]
        layers += [nn.Dropout(rate)] if rate and dropout else []
        channels, side = width, (side - 2) // 2
    layers += [nn.Flatten(), nn.Linear(channels * side * side, 1024), nn.ELU()]
    layers += [nn.Dropout(0.5)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(1024, problem.classes))


def _image(problem: Problem, name: str, smallest: int) -> tuple[int, int]:
    shape = problem.input_shape
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < smallest:
        raise ModelError(
            f"model '{name}' needs square images of at least {smallest} x {smallest} "
            f"(got inputs of shape {shape}). Choose another model or data set."
        )
    return shape[0], shape[1]
