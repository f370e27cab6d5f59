"""Shares of samples: in whole parts, with floors, or class by class with Dirichlet weights."""

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Shares = list[Ints]


def apportion(total: int, weights: ArrayLike) -> Ints:
    """`total` in whole parts as near to the weights as can be (largest remainders first)."""
    exact: Floats = total * np.asarray(weights, dtype=np.float64) / np.sum(weights)
    parts = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(parts - exact, kind="stable")
    parts[by_remainder[: total - parts.sum()]] += 1
    return parts


def cut(indices: Ints, counts: Ints) -> Shares:
    """Consecutive pieces of the given lengths."""
    ends = np.cumsum(counts).tolist()
    return [indices[start:end] for start, end in pairwise([0, *ends])]


def level(shares: Shares, floors: Sequence[int]) -> Shares:
    """Move samples, one by one, from the share furthest above its floor to those below theirs."""
    kept = [len(share) for share in shares]
    missing = [floor - size for floor, size in zip(floors, kept, strict=True)]
    if max(missing, default=0) <= 0:
        return shares
    received: list[list[int]] = [[] for _ in shares]
    richest = [(lack, i) for i, lack in enumerate(missing)]
    heapq.heapify(richest)
    for i, lack in enumerate(missing):
        for _ in range(lack):
            rank, donor = richest[0]
            heapq.heapreplace(richest, (rank + 1, donor))
            kept[donor] -= 1
            received[i].append(int(shares[donor][kept[donor]]))
    return [
        np.concatenate([share[:size], np.array(more, dtype=np.int64)])
        for share, size, more in zip(shares, kept, received, strict=True)
    ]


def deal_by_class(
    labels: Ints, indices: Ints, concentration: Floats, rng: np.random.Generator
) -> Shares:
    """Spread each class by its own Dirichlet weights, rounded by systematic sampling: a share is
    its exact size rounded up or down, right on average, and no sample is lost."""
    receivers: list[Shares] = [[] for _ in concentration]
    own = labels[indices]
    for label in np.unique(own):
        members = rng.permutation(indices[own == label])
        ends = np.floor(np.cumsum(dirichlet(concentration, rng)) * len(members) + rng.random())
        ends[-1] = len(members)
        for receiver, share in zip(
            receivers, np.split(members, ends[:-1].astype(np.int64)), strict=True
        ):
            receiver.append(share)
    # Shuffled, so that levelling does not take the last class first.
    return [rng.permutation(np.concatenate(receiver)) for receiver in receivers]


def dirichlet(concentration: Floats, rng: np.random.Generator) -> Floats:
    """Dirichlet weights, clipped where numpy's draws overflow or underflow: there the limits are
    reached already, all on one receiver and the mean."""
    return rng.dirichlet(np.clip(concentration, 1e-100, 1e100))
