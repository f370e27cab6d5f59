"""Modules with parts that are not trained, that tests name as a user would."""

import torch
from torch import nn


class PartlyFrozen(nn.Module):
    """A frozen layer, a buffer of each kind, dropout, and a parameter with two names."""

    def __init__(self, outputs):
        super().__init__()
        self.backbone = nn.Linear(64, 9).requires_grad_(False)
        self.register_buffer("shift", torch.randn(9))
        self.register_buffer("order", torch.randperm(9))
        self.dropout = nn.Dropout(0.2)
        self.first = nn.Linear(9, 9)
        self.second = nn.Linear(9, 9)
        self.second.weight = self.first.weight
        self.head = nn.Linear(9, outputs)

    def forward(self, x):
        hidden = (self.backbone(x.flatten(1)) + self.shift)[:, self.order]
        return self.head(self.dropout(self.second(torch.tanh(self.first(hidden)))))


def partly_frozen(problem):
    return PartlyFrozen(problem.outputs)


def tiny_cnn(problem):
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, problem.outputs)
    )
