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
        self.recur = _Gates(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, problem.outputs)

    def forward(self, x: Tensor) -> Tensor:
        states = self.recur(self.embed(x))
        return self.head(states if self.every_place else states[:, -1])  # type: ignore[no-any-return]


class _Gates(nn.GRU):
    """torch's own parameters and formulas, place by place: its kernels have no rule for many models
    at once, on a GPU not at all."""

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
        found = []
        for given in nn.functional.linear(states.transpose(0, 1), W, b).unbind(0):
            kept = nn.functional.linear(hidden, U, c)
            (reset, update, new), (reset_h, update_h, new_h) = given.chunk(3, 1), kept.chunk(3, 1)
            reset, update = (reset + reset_h).sigmoid(), (update + update_h).sigmoid()
            new = (new + new_h * reset).tanh()
            hidden = (hidden - new) * update + new
            found.append(hidden)
        return torch.stack(found, 1)


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
