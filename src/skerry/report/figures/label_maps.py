"""Which labels each device holds."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from skerry.report.figures.panels import name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skerry.data.partition import Partition

MOST_CLASSES = 12
"""So many have a tick each."""


def labels(partition: "Partition", sizes: Sequence[int], axis: "Axes") -> "Axes":
    """A column per device, a row per class, dark where much of the device's data is of the class;
    islands stand apart. `sizes` are the devices of each island."""
    counts = partition.label_counts
    share_nk = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    devices, classes = share_nk.shape
    gap = max(0.3, 0.02 * devices)
    starts = np.cumsum([0, *sizes])
    middles, few = [], len(sizes) <= 3
    for island, (first, last) in enumerate(pairwise(starts.tolist())):
        left = first + island * gap
        mesh = axis.pcolormesh(
            left + np.arange(last - first + 1),
            np.arange(classes + 1) - 0.5,
            share_nk[first:last].T,
            cmap="Blues",
            vmin=0,
            vmax=share_nk.max(),
            rasterized=devices * classes > 5000,
        )
        middles.append(left + (last - first) / 2)
    word = "island " if few else ""
    name_ticks(axis, {at: f"{word}{i}" for i, at in enumerate(middles, start=1)}, share=0.75)
    axis.set_xlabel("devices" if few else "devices, by island")
    step = 1 if classes <= MOST_CLASSES else -(-classes // 10)
    axis.set_yticks(range(0, classes, step))
    axis.set_ylim(-0.5, classes - 0.5)
    axis.set_ylabel("class")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    bar = axis.figure.colorbar(mesh, ax=axis, pad=0.02, aspect=16)
    bar.set_label("share of the device's data")
    bar.outline.set_visible(False)
    return axis
