"""The islands: their devices and links, and the labels that each device holds."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.report.figures.captions import lines_of
from skerry.report.figures.panels import Panel, arrange, inches_wide, name_ticks
from skerry.report.style import ISLANDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skerry.data.partition import Partition
    from skerry.network.fleet import Fleet

MOST_CLASSES = 12
"""So many have a tick each."""


def network(fleet: "Fleet", axis: "Axes", t: int = 0, sampled: Any = ()) -> "Axes":
    """The islands with the links of round t; sampled devices wear a dark ring."""
    place = places(fleet)
    edges = fleet.edges(t)
    if len(edges):
        from matplotlib.collections import LineCollection

        thin = max(0.08, min(0.6, 300 / len(edges)))  # a dense graph must not become a blot
        axis.add_collection(LineCollection(place[edges], colors="#999999", linewidths=thin))  # type: ignore[arg-type]
    tint = [ISLANDS[c % len(ISLANDS)] for c in fleet.island_of]
    chosen = np.isin(np.arange(fleet.devices), np.asarray(sampled))
    size = _dot_size(fleet, axis)
    axis.scatter(
        place[:, 0],
        place[:, 1],
        s=np.where(chosen, 1.4 * size, size),
        c=tint,
        zorder=2,
        clip_on=False,
        edgecolors=np.where(chosen, "#000000", "#ffffff").tolist(),
        linewidths=np.where(chosen, max(0.6, min(1.2, 0.2 * size**0.5)), 0.3).tolist(),
    )
    if chosen.any():
        axis.plot([], [], "o", color="#ffffff", markeredgecolor="#000000", label="sampled")
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.margins(0.06)
    axis.autoscale_view()
    return axis


def aspect(fleet: "Fleet") -> float:
    """Height over width of the drawing."""
    return math.ceil(len(fleet.sizes) / _columns(fleet)) / _columns(fleet)


def network_picture(fleet: "Fleet", title: str, t: int = 0, sampled: Any = ()) -> "Figure":
    width = min(12.0, max(5.0, 3.6 * _columns(fleet)))
    panel = Panel("", partial(network, fleet, t=t, sampled=sampled))
    return arrange([panel], width, height=width * aspect(fleet), title=lines_of(title))


def _dot_size(fleet: "Fleet", axis: "Axes") -> float:
    """In points squared: neighbours on the most crowded circle leave a gap between them."""
    circle = 0.8 * inches_wide(axis) * 72 / _columns(fleet)
    between = math.pi * circle / max(fleet.sizes)
    return max(2.0, min(60.0, (0.6 * between) ** 2))


def _columns(fleet: "Fleet") -> int:
    return math.ceil(math.sqrt(len(fleet.sizes)))


def places(fleet: "Fleet") -> np.ndarray[Any, np.dtype[np.float64]]:
    """Every island on a circle of its own, the circles on a square lattice. Neighbours on a ring
    stand beside each other, whatever order their names came in."""
    columns, edges = _columns(fleet), fleet.edges(0)
    found = np.empty((fleet.devices, 2))
    for c, (start, size) in enumerate(zip(fleet.starts, fleet.sizes, strict=True)):
        angle = 2 * np.pi * np.arange(size) / size + np.pi / 2
        radius = 0.0 if size == 1 else 1.0
        centre = np.array([c % columns, -(c // columns)]) * 2.5
        own = edges[(edges[:, 0] >= start) & (edges[:, 0] < start + size)] - start
        order = range(size) if fleet.network.dynamic else _around(size, own)
        found[start + np.array(order)] = centre + radius * np.c_[np.cos(angle), np.sin(angle)]
    return found


def _around(size: int, edges: Any) -> Sequence[int]:
    """The devices of a ring or a path one after the other; of any other graph as they are
    numbered."""
    beside: list[list[int]] = [[] for _ in range(size)]
    for one, other in edges.tolist():
        beside[one].append(other)
        beside[other].append(one)
    if not all(1 <= len(found) <= 2 for found in beside):
        return range(size)
    here = min(range(size), key=lambda device: (len(beside[device]), device))
    walk, seen = [here], {here}
    while new := [device for device in beside[walk[-1]] if device not in seen]:
        walk.append(new[0])
        seen.add(new[0])
    return walk if len(walk) == size else range(size)


KINDS = {"labels": "class", "numbers": "range of targets", "tokens": "part of the text"}
"""What samples are told apart by, as targets are labels, numbers or tokens."""


def labels(
    partition: "Partition", sizes: Sequence[int], axis: "Axes", kind: str = "class"
) -> "Axes":
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
    name_ticks(axis, {at: f"{word}{i}" for i, at in enumerate(middles)}, share=0.75)
    axis.set_xlabel("devices" if few else "devices, by island")
    step = 1 if classes <= MOST_CLASSES else -(-classes // 10)
    axis.set_yticks(range(0, classes, step))
    axis.set_ylim(-0.5, classes - 0.5)
    axis.set_ylabel(kind)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    bar = axis.figure.colorbar(mesh, ax=axis, pad=0.02, aspect=16)
    bar.set_label("share of the device's data")
    bar.outline.set_visible(False)
    return axis
