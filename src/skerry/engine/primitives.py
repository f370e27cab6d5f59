"""D2S primitives: which devices receive what the server delivers.

`X_nld` holds the lanes of one group (changed in place), `sampled_k` the K sampled devices and
`delivered_ld` what the server delivers: their average, unless a server optimizer changes it. Each
returns the number of devices that receive it. `PRIMITIVES`, at the end, declares the built-in
names; the module does not import torch, so that names and options are known without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def s2s(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor) -> int:
    """Sampled-to-sampled: only the K sampled devices receive their average."""
    X_nld[sampled_k] = delivered_ld
    return len(sampled_k)


def s2a(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor) -> int:
    """Sampled-to-all: every device receives the average of the K sampled ones."""
    X_nld[:] = delivered_ld
    return len(X_nld)


def blend(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor, *, beta: float) -> int:
    """Blend of S2S and S2A: an unsampled device takes (1 - beta) x_i + beta xhat."""
    if beta == 0:
        return s2s(X_nld, sampled_k, delivered_ld)
    X_nld.lerp_(delivered_ld, beta)
    X_nld[sampled_k] = delivered_ld
    return len(X_nld)


def deliver(
    X_nld: Tensor, sampled_k: Tensor, plain_ld: Tensor, estimate_ld: Tensor, beta: float
) -> int:
    """Deliver with unequal weights: S2S the plain mean, S2A the weighted estimate, blend a mixture
    of both."""
    if beta > 0:
        X_nld.lerp_(estimate_ld, beta)
    X_nld[sampled_k] = plain_ld.lerp(estimate_ld, beta)
    return len(X_nld) if beta > 0 else len(sampled_k)


def none(X_nld: Tensor, sampled_k: Tensor, delivered_ld: Tensor) -> int:
    """No server: devices only gossip. The engine never calls it."""
    return 0


PRIMITIVES: dict[str, Callable[..., int]] = {"s2s": s2s, "s2a": s2a, "blend": blend, "none": none}
"""The built-in primitives by name, in the order in which they are listed."""
