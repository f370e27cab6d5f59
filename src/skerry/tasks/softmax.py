"""The cross-entropy of many models at once, and its gradient at the class scores."""

import torch
from torch import Tensor

from skerry.kernels import fused


def loss_and_gradient(Z_nlcb: Tensor, y_nb: Tensor, scale_l: Tensor) -> tuple[Tensor, Tensor]:
    """Mean losses [n, L] of scores [n, L, classes, B], and scale_l (softmax(Z) - onehot(y)).

    Z is used up. It is quickest with samples last: the softmax runs along contiguous memory.
    """
    n, lanes, _, size = Z_nlcb.shape
    if fused.runs_on(Z_nlcb):
        from skerry.kernels.activations import softmax_gradient

        return softmax_gradient(Z_nlcb.flatten(0, 1), y_nb, scale_l), Z_nlcb
    labels = y_nb.view(n, 1, 1, size).expand(n, lanes, 1, size)
    log_P = torch.log_softmax(Z_nlcb, dim=2)
    losses = -log_P.gather(2, labels).mean(dim=(2, 3))
    P = log_P.exp_()
    P.scatter_add_(2, labels, P.new_full((1,), -1.0).expand_as(labels))
    return losses, P.mul_(scale_l.view(1, lanes, 1, 1))


def cross_entropy(scores_mnc: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy [m] of scores [m, N, classes] on labels [N]."""
    if fused.runs_on(scores_mnc):
        from skerry.kernels.activations import cross_entropies

        return cross_entropies(scores_mnc.mT, y)
    labels = y.view(1, -1, 1).expand(len(scores_mnc), -1, 1)
    return -torch.log_softmax(scores_mnc, dim=2).gather(2, labels).mean(dim=(1, 2))
