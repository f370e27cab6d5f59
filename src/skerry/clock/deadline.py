"""Who is in time for the server: deadlines, and the first K of those that were called."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skerry.clock.devices import Array
from skerry.clock.times import Ints

ROUNDING = 1e-9
"""The part of a deadline by which a message may be late: sums of latencies are rounded."""


@dataclass(frozen=True)
class InTime:
    """The outcome of a call of the server."""

    counted: Ints
    """Which of the called devices count, as places in their order; none: the round is void."""
    at: float
    """When the server goes on."""


def in_time(
    began: float, served_k: Array, wanted: int, deadline: float | None = None, at_least: int = 1
) -> InTime:
    """Who counts of those whose messages the server has at the times `served_k`.

    The server called at `began` and wants so many messages. It goes on when it has them, or when
    the deadline has passed. Of messages that arrive together, those of devices called first count.
    """
    wanted = min(wanted, len(served_k))
    first: NDArray[np.int64] = np.argsort(served_k, kind="stable")[:wanted]
    if deadline is None:
        return InTime(np.sort(first), float(served_k[first].max()))
    arrived = first[served_k[first] - began <= deadline * (1 + ROUNDING)]
    if len(arrived) < at_least:
        return InTime(arrived[:0], began + deadline)
    all_there = len(arrived) == wanted
    at = float(served_k[arrived].max()) if all_there else began + deadline
    return InTime(np.sort(arrived), at)
