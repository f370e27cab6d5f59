"""D2S primitives: who receives what the server delivers. Each returns how many devices do.

`X_nld` holds the lanes of one group (changed in place), `sampled_k` the K sampled devices and
`delivered_ld` what the server delivers: their average, unless a server optimizer changes it.
"""

import torch
from torch import Tensor

from skerry.config.experiment import Server


def s2s(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, server: Server) -> int:
    """Sampled-to-sampled: only the K sampled devices receive their average."""
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)


def s2a(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, server: Server) -> int:
    """Sampled-to-all: every device receives the average of the K sampled ones."""
    X_nld[:] = delivered_ld
    return len(X_nld)


def blend(
    X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, server: Server, *, beta: float
) -> int:
    """The dial between them: an unsampled device takes (1 - beta) x_i + beta xhat."""
    if beta == 0:
        return s2s(X_nld, sampled_k, delivered_ld, server)
    X_nld.lerp_(delivered_ld, beta)
    X_nld[sampled_k] = delivered_ld
    return len(X_nld)


def deliver(
    X_nld: Tensor, sampled_k: Tensor, plain_ld: Tensor, estimate_ld: Tensor, beta: float
) -> int:
    """All three where the sampled do not count alike: S2S delivers the plain mean, S2A the
    estimate, and blend is (1 - beta) times the result of S2S plus beta times that of S2A."""
    if beta > 0:
        X_nld.lerp_(estimate_ld, beta)
    X_nld[sampled_k] = torch.lerp(plain_ld, estimate_ld, beta)
    return len(X_nld) if beta > 0 else len(sampled_k)


def none(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, server: Server) -> int:
    """No server: devices only gossip. The engine never calls on it."""
    return 0
