"""Built-in networks: an MLP, the CNNs of the paper's experiments, a GRU and a transformer."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from skerry.errors import ModelError
from skerry.models.learner import Problem

MAX_PARAMETERS = 2 * 10**8
"""Largest network; every device has a model of its own."""
MAX_UNITS = 10**4
"""Largest width, number of heads or number of layers of a model of sequences."""


def mlp(problem: Problem, *, hidden: Sequence[int] | int = 64) -> nn.Module:
    """Dense layers with ReLU between them; `hidden` is one width or a list of widths.

    On tokens, the scores of the next token follow from the last token alone.
    """
    widths: Sequence[Any] = hidden if isinstance(hidden, list | tuple) else [hidden]
    if not all(type(width) is int and width > 0 for width in widths):
        raise ModelError(
            f"model.hidden must be a width of at least 1 or a list of them (got {hidden!r})."
        )
    reads_tokens = problem.task.name == "tokens"
    layers: list[nn.Module] = [] if reads_tokens else [nn.Flatten()]
    inputs = problem.outputs if reads_tokens else math.prod(problem.input_shape)
    weights = sum(a * b for a, b in pairwise([inputs, *widths, problem.classes]))
    if weights > MAX_PARAMETERS:
        raise ModelError(
            f"model.hidden must give a network of at most {MAX_PARAMETERS:,} parameters (got "
            f"{weights:.3g}). Take narrower layers."
        )
    for width in widths:
        layers += [_dense(inputs, width, reads_tokens and not layers), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, _dense(inputs, problem.outputs, reads_tokens and not layers))


def _dense(inputs: int, width: int, embeds: bool) -> nn.Module:
    """A dense layer, or an embedding: the same on a token given by its number."""
    return nn.Embedding(inputs, width) if embeds else nn.Linear(inputs, width)


def cnn_cifar10(problem: Problem, *, variant: str = "appendix") -> nn.Module:
    """Two 5x5 convolutions (32 and 64 channels), each with ReLU and 2x2 max pooling.

    The paper's appendix describes 2048 hidden units: without padding that has 3,353,034
    parameters on CIFAR-10 (variant "appendix"). Its main text counts 1.1 million: padding 2 and
    256 hidden units have 1,105,098 (variant "main_text").
    """
    variants = {"appendix": (0, 2048), "main_text": (2, 256)}
    if variant not in list(variants):
        raise ModelError(f"model.variant must be one of {', '.join(variants)} (got {variant!r}).")
    padding, hidden = variants[variant]
    channels, side = _image(problem, "cnn_cifar10", smallest=16)
    layers: list[nn.Module] = []
    for width in (32, 64):
        layers += [nn.Conv2d(channels, width, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        channels, side = width, (side + 2 * padding - 4) // 2
    layers += [nn.Flatten(), nn.Linear(channels * side * side, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, problem.classes))


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
    """Channels and side of square images, or ModelError."""
    shape = problem.input_shape
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < smallest:
        raise ModelError(
            f"model '{name}' needs square images of at least {smallest} x {smallest} "
            f"(got inputs of shape {shape}). Choose another model or data set."
        )
    return shape[0], shape[1]


def gru(problem: Problem, *, width: int = 32, layers: int = 1) -> nn.Module:
    """An embedding, gated recurrent units and a dense layer.

    It scores the next token at every position; for labels and numbers, the last position counts.
    """
    _check_sequences(problem, "gru", width=width, layers=layers)
    return _Recurrent(problem, width, layers)


def transformer(problem: Problem, *, width: int = 32, heads: int = 2, layers: int = 1) -> nn.Module:
    """Embeddings of tokens and positions, layers of causal attention, and a dense layer.

    It scores the next token at every position; for labels and numbers, the last position counts.
    """
    _check_sequences(problem, "transformer", width=width, heads=heads, layers=layers)
    if width % heads:
        raise ModelError(
            f"model.width must be a multiple of model.heads (got {width} and {heads})."
        )
    return _Transformer(problem, width, heads, layers)


class _Recurrent(nn.Module):
    """Embedding, GRU and dense layer."""

    def __init__(self, problem: Problem, width: int, layers: int):
        super().__init__()
        self.every_position = problem.task.name == "tokens"
        self.embed = nn.Embedding(problem.tokens or 1, width)
        self.recur = _Gates(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, problem.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states = self.recur(self.embed(x))
        return self.head(states if self.every_position else states[:, -1])  # type: ignore[no-any-return]


class _Gates(nn.GRU):
    """nn.GRU computed position by position, because vmap cannot batch torch's kernels."""

    def forward(self, states: Tensor) -> Tensor:  # type: ignore[override]
        for layer in range(self.num_layers):
            states = self._layer(states, layer)
        return states

    def _layer(self, states: Tensor, layer: int) -> Tensor:
        W, U, b, c = (
            getattr(self, f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        hidden = states.new_zeros(states.shape[0], self.hidden_size)
        outputs = []
        for from_input in nn.functional.linear(states.transpose(0, 1), W, b).unbind(0):
            from_hidden = nn.functional.linear(hidden, U, c)
            (reset, update, new), (reset_h, update_h, new_h) = (
                from_input.chunk(3, 1), from_hidden.chunk(3, 1),
            )  # fmt: skip
            reset, update = (reset + reset_h).sigmoid(), (update + update_h).sigmoid()
            new = (new + new_h * reset).tanh()
            hidden = (hidden - new) * update + new
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class _Transformer(nn.Module):
    """Embeddings, attention blocks and dense layer."""

    def __init__(self, problem: Problem, width: int, heads: int, layers: int):
        super().__init__()
        self.every_position = problem.task.name == "tokens"
        self.embed = nn.Embedding(problem.tokens or 1, width)
        self.places = nn.Parameter(0.02 * torch.randn(problem.input_shape[0], width))
        self.blocks = nn.Sequential(*(_AttentionBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, problem.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states = self.norm(self.blocks(self.embed(x) + self.places))
        return self.head(states if self.every_position else states[:, -1])  # type: ignore[no-any-return]


class _AttentionBlock(nn.Module):
    """Causal attention and two dense layers; written out, because vmap cannot batch torch's own."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)
        self.dense = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attention(self.before_attention(x))
        return x + self.dense(self.before_dense(x))  # type: ignore[no-any-return]

    def _attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.ask(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weight = query @ key.mT / math.sqrt(width // self.heads)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weight = weight.masked_fill(later, -torch.inf).softmax(dim=-1)
        values = (weight @ value).transpose(1, 2).reshape(batch, length, width)
        return self.answer(values)  # type: ignore[no-any-return]


def _check_sequences(problem: Problem, name: str, **sizes: int) -> None:
    for option, size in sizes.items():
        if type(size) is not int or not 1 <= size <= MAX_UNITS:
            raise ModelError(
                f"model.{option} must be a whole number from 1 to {MAX_UNITS:,} (got {size!r})."
            )
    if problem.tokens is None or len(problem.input_shape) != 1:
        raise ModelError(
            f"model '{name}' reads tokens (got inputs of shape {problem.input_shape} that are "
            'real numbers). Use data of whole numbers, with data.scaling = "raw".'
        )
