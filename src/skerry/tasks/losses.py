"""The built-in losses and scores: functions `(outputs, targets, *, options)` of a minibatch.

`outputs` are class scores [B, classes], numbers [B, outputs] or token scores [B, length, tokens];
`targets` are labels [B], numbers [B, outputs] or tokens [B, length]. The result is one number, the
mean over the minibatch. A user's own functions have the same signature.
"""

import torch
from torch import Tensor, nn


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of class or token scores; every token counts alike."""
    if outputs.ndim == 2:
        return nn.functional.cross_entropy(outputs, targets)
    log_P = torch.log_softmax(outputs, dim=-1)  # torch's own is slow under vmap
    return -log_P.gather(-1, targets.unsqueeze(-1)).mean()


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error."""
    return (outputs - targets).square().mean()


def mae(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean absolute error."""
    return (outputs - targets).abs().mean()


def huber(outputs: Tensor, targets: Tensor, *, delta: float) -> Tensor:
    """Half the squared error up to `delta`, linear beyond it, so that outliers count less."""
    error = outputs - targets
    inside = error.clamp(-delta, delta)
    return (inside * (error - 0.5 * inside)).mean()


def top5(outputs: Tensor, targets: Tensor) -> Tensor:
    """How often the right class or token is among the five with the highest scores, in percent."""
    best = outputs.topk(min(5, outputs.shape[-1]), dim=-1).indices
    return 100 * (best == targets.unsqueeze(-1)).any(dim=-1).to(outputs.dtype).mean()
