"""Models, losses and scores that tests name as a user would: task_plugins:quartic."""

import torch
from torch import nn


def quartic(outputs, targets):
    return (outputs - targets).pow(4).mean()


def smoothed(outputs, targets, *, smoothing=0.1):
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=smoothing)


def last_token(outputs, targets):
    """Only the last place counts."""
    return nn.functional.cross_entropy(outputs[:, -1], targets[:, -1])


def within_half(outputs, targets):
    return 100 * ((outputs - targets).abs() < 0.5).to(outputs.dtype).mean()


def vector(outputs, targets):
    return (outputs - targets).square()


def raises(outputs, targets):
    raise ValueError("no loss today")


def constant(outputs, targets):
    return torch.tensor(1.0)


def looks_at_values(outputs, targets):
    return outputs.mean() if outputs.mean().item() > 0 else -outputs.mean()


def tanh_net(problem):
    return nn.Sequential(
        nn.Linear(problem.input_shape[0], 4), nn.Tanh(), nn.Linear(4, problem.outputs)
    )


class Window(nn.Module):
    """Scores from a token and the one before it."""

    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 3)
        self.dense = nn.Linear(6, vocabulary)

    def forward(self, x):
        embedded = self.embed(x)
        before = nn.functional.pad(embedded, (0, 0, 1, 0))[:, :-1]
        return self.dense(torch.cat([embedded, before], dim=-1))


def window(problem):
    return Window(problem.outputs)
