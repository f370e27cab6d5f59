"""What the server can tell of all devices from the models of those it sampled."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from skerry.config.schedules import SpreadEstimate
from skerry.engine.participation.selection import Ints

Array = NDArray[np.float64]


def seen(
    X_kd: Tensor, islands_k: Ints, sizes: Ints, since: int, *, by_island: bool
) -> SpreadEstimate | None:
    """From the sampled models, the island of each, and the sizes of all islands. `by_island`: each
    island is estimated by itself, which takes two of every one (or all it has); else the sample is
    a uniform draw from all. None: too few were sampled to tell."""
    there = np.flatnonzero(sizes)  # an island may be asleep
    n_c = sizes[there].astype(float)
    belongs_ck = islands_k == there[:, None]
    K_c = belongs_ck.sum(axis=1).astype(float)
    X = X_kd.double()
    weights = X.new_tensor(belongs_ck / np.maximum(K_c, 1)[:, None])
    means_cd = weights @ X
    own = np.searchsorted(there, islands_k)
    apart_k = (X - means_cd[X.new_tensor(own).long()]).square().sum(dim=1).cpu().numpy()
    inside_c = belongs_ck @ apart_k
    if by_island:
        found = _by_island(n_c, K_c, inside_c, means_cd)
    else:
        total = float((X - X.mean(dim=0)).square().sum())
        found = _of_all(n_c, K_c, inside_c, total)
    if found is None:
        return None
    spread, intra, inter, bias = found
    n = n_c.sum()
    return SpreadEstimate(
        tuple(sizes[there].tolist()),
        tuple(K_c.astype(int).tolist()),
        float(spread),
        float(intra / n),
        max(0.0, float(inter / n)),  # a difference of estimates may be negative
        float(bias),
        since,
        by_island,
    )


def _of_all(
    n_c: Array, K_c: Array, inside_c: Array, total: float
) -> tuple[float, float, float, float] | None:
    """Uniform: E (n-1) s2 is the disagreement, and each part of it has an unbiased estimate."""
    n, K = n_c.sum(), K_c.sum()
    if K < 2:
        return None
    s2 = total / (K - 1)
    intra = n * (n - 1) / (K * (K - 1)) * (K_c / n_c) @ inside_c
    return s2, intra, (n - 1) * s2 - intra, (1 / K - 1 / n) * s2


def _by_island(
    n_c: Array, K_c: Array, inside_c: Array, means_cd: Tensor
) -> tuple[float, float, float, float] | None:
    """With s2_c inside each island, and v_c = (1/K_c - 1/n_c) s2_c the error of its mean."""
    if ((K_c < 2) & (K_c < n_c)).any():
        return None
    n = n_c.sum()
    s2_c = inside_c / np.maximum(K_c - 1, 1)
    v_c = (1 / K_c - 1 / n_c) * s2_c
    share = means_cd.new_tensor(n_c / n)
    apart_c = (means_cd - share @ means_cd).square().sum(dim=1).cpu().numpy()
    inter = n_c @ apart_c - (n_c * (1 - n_c / n)) @ v_c
    bias = ((n_c / n) ** 2 * v_c).sum()
    return float((n_c / n) @ s2_c), float((n_c - 1) @ s2_c), float(inter), float(bias)
