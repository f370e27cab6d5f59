"""Models that read tokens in their order: a recurrent one, and a small transformer."""

import math

import torch
from torch import Tensor, nn

from skerry.errors import ModelError
from skerry.models.learner import Problem

MOST = 10**4


def gru(problem: Problem, *, width: int = 32, layers: int = 1) -> nn.Module:
    """An embedding, gated recurrent units, and a dense layer: of the next token at every place, or
    for labels and numbers, of the last place."""
    _check(problem, "gru", width=width, layers=layers)
    return _Recurrent(problem, width, layers)


def transformer(problem: Problem, *, width: int = 32, heads: int = 2, layers: int = 1) -> nn.Module:
    """Embeddings of tokens and places, layers of attention that look back only, and a dense layer:
    of the next token at every place, or for labels and numbers, of the last place."""
    _check(problem, "transformer", width=width, heads=heads, layers=layers)
    if width % heads:
        raise ModelError(
            f"model.width must be a multiple of model.heads (got {width} and {heads})."
        )
    return _Transformer(problem, width, heads, layers)


class _Recurrent(nn.Module):
    def __init__(self, problem: Problem, width: int, layers: int):
        super().__init__()
        self.every_place = problem.task.name == "tokens"
        self.embed = nn.Embedding(problem.tokens or 1, width)
        self.recur = nn.GRU(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, problem.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recur(self.embed(x))
        return self.head(states if self.every_place else states[:, -1])  # type: ignore[no-any-return]


class _Transformer(nn.Module):
    def __init__(self, problem: Problem, width: int, heads: int, layers: int):
        super().__init__()
        self.every_place = problem.task.name == "tokens"
        self.embed = nn.Embedding(problem.tokens or 1, width)
        self.places = nn.Parameter(0.02 * torch.randn(problem.input_shape[0], width))
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, problem.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states = self.norm(self.blocks(self.embed(x) + self.places))
        return self.head(states if self.every_place else states[:, -1])  # type: ignore[no-any-return]


class _Block(nn.Module):
    """Attention written out: torch's own has no rule for many models at once."""

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
        found = (weight @ value).transpose(1, 2).reshape(batch, length, width)
        return self.answer(found)  # type: ignore[no-any-return]


def _check(problem: Problem, name: str, **sizes: int) -> None:
    for option, size in sizes.items():
        if type(size) is not int or not 1 <= size <= MOST:
            raise ModelError(
                f"model.{option} must be a whole number from 1 to {MOST:,} (got {size!r})."
            )
    if problem.tokens is None or len(problem.input_shape) != 1:
        raise ModelError(
            f"model '{name}' reads tokens (got inputs of shape {problem.input_shape} that are "
            'real numbers). Use data of whole numbers, with data.scaling = "raw".'
        )
