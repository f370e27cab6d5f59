"""A selection for a server that knows the islands only from labels, some of which are wrong."""

import numpy as np
from numpy.typing import NDArray

from skerry.engine.participation.selection import Sampled, one_each
from skerry.plugins.context import Context


def believed_islands(context: Context, *, wrong: float) -> Sampled:
    """`one_each` by the labels that the server has: as many devices of every believed island, which
    weighs as much as it is believed to have devices. `wrong` is the share of wrong labels."""
    believed_n, count = labels(context, wrong), len(context.sizes)
    as_believed = context.with_facts(
        islands=believed_n,
        sizes=tuple(np.bincount(believed_n, minlength=count).tolist()),
        awake_sizes=np.bincount(believed_n[context.awake], minlength=count),
    )
    return one_each(as_believed)


def labels(context: Context, wrong: float) -> NDArray[np.int64]:
    """The island that each device is believed to be on, [n]. Devices with a wrong label are drawn
    once per seed, the same for all lanes; those of a smaller share are among those of a larger."""
    rng = context.random("wrong labels", same=True)
    n, others = len(context.devices), len(context.sizes) - 1
    mistaken = rng.permutation(n)[: round(wrong * n)]
    moved_n = np.zeros(n, dtype=np.int64)
    moved_n[mistaken] = 1 + rng.integers(max(others, 1), size=n)[mistaken]
    return (np.asarray(context.islands) + moved_n) % len(context.sizes)
