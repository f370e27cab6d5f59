"""The islands: their devices and links, and the labels that each device holds.

Also the two kinds of `skerry figure` that show them.
"""

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis import rebuild
from skerry.errors import SkerryError, argument
from skerry.report.figure_kinds import DrawnFigure, FigureRequest
from skerry.report.figures import panels
from skerry.report.figures.panels import Panel, arrange, draw_panels, safe_lines
from skerry.report.style import ISLANDS
from skerry.report.text import seed_words
from skerry.report.words import describe_network, describe_split

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skerry.data.partition import Partition
    from skerry.network.fleet import Fleet
    from skerry.records.store import Run

MOST_CLASSES = 12  # up to this number, every class has a tick


def network(fleet: "Fleet", axis: "Axes", t: int = 0, sampled: Any = ()) -> "Axes":
    """Draw the islands with the links of round t; sampled devices have a dark ring."""
    position_n2 = device_positions(fleet)
    edges = fleet.edges(t)
    if len(edges):
        from matplotlib.collections import LineCollection

        thin = max(0.08, min(0.6, 300 / len(edges)))  # so that a dense graph stays legible
        axis.add_collection(LineCollection(position_n2[edges], colors="#999999", linewidths=thin))  # type: ignore[arg-type]
    tint = [ISLANDS[c % len(ISLANDS)] for c in fleet.island_of]
    chosen = np.isin(np.arange(fleet.devices), np.asarray(sampled))
    # Neighbours on the fullest circle do not touch.
    between = math.pi * 0.8 * panels.inches_wide(axis) * 72 / _columns(fleet) / max(fleet.sizes)
    size = max(2.0, min(60.0, (0.6 * between) ** 2))  # in points squared
    x, y = position_n2.T
    axis.scatter(
        x, y, s=np.where(chosen, 1.4 * size, size), c=tint, zorder=2, clip_on=False,
        edgecolors=np.where(chosen, "#000000", "#ffffff").tolist(),
        linewidths=np.where(chosen, max(0.6, min(1.2, 0.2 * size**0.5)), 0.3).tolist(),
    )  # fmt: skip
    if chosen.any():
        axis.plot([], [], "o", color="#ffffff", markeredgecolor="#000000", label="sampled")
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.margins(0.06)
    axis.autoscale_view()
    return axis


def aspect(fleet: "Fleet") -> float:
    """The height of the drawing divided by its width."""
    return math.ceil(len(fleet.sizes) / _columns(fleet)) / _columns(fleet)


def network_figure(fleet: "Fleet", title: str, t: int = 0, sampled: Any = ()) -> "Figure":
    """A figure of the network in round t, with a title."""
    width = min(12.0, max(5.0, 3.6 * _columns(fleet)))
    panel = Panel("", partial(network, fleet, t=t, sampled=sampled))
    return arrange([panel], width, height=width * aspect(fleet), title=safe_lines(title))


def _columns(fleet: "Fleet") -> int:
    return math.ceil(math.sqrt(len(fleet.sizes)))


def device_positions(fleet: "Fleet") -> np.ndarray[Any, np.dtype[np.float64]]:
    """The position of every device, [n, 2]: each island is a circle, and circles form a square
    grid. Neighbours on a ring are placed next to each other, whatever the order of their names."""
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
    """The devices in the order of the ring or path; for any other graph in numerical order."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph(edges.tolist())
    if len(graph) < size or max(degree for _, degree in graph.degree) > 2:
        return range(size)
    start = min(graph, key=lambda device: (graph.degree[device], device))
    walk = list(nx.dfs_preorder_nodes(graph, start))
    return walk if len(walk) == size else range(size)


TARGET_NAMES = {"labels": "class", "numbers": "range of targets", "tokens": "part of the text"}
"""By kind of target, the name of the groups that samples are counted in."""


def labels(
    partition: "Partition", sizes: Sequence[int], axis: "Axes", kind: str = "class"
) -> "Axes":
    """Draw a column per device and a row per class, darker for a larger share of the device's data.
    Islands are separated by a gap; `sizes` are their numbers of devices."""
    counts = partition.label_counts
    share_nk = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    devices, classes = share_nk.shape
    gap = max(0.3, 0.02 * devices)
    starts = np.cumsum([0, *sizes])
    middles, few = [], len(sizes) <= 3
    for island, (first, last) in enumerate(pairwise(starts.tolist())):
        left = first + island * gap
        mesh = axis.pcolormesh(
            left + np.arange(last - first + 1), np.arange(classes + 1) - 0.5,
            share_nk[first:last].T, cmap="Blues", vmin=0, vmax=share_nk.max(),
            rasterized=devices * classes > 5000,
        )  # fmt: skip
        middles.append(left + (last - first) / 2)
    word = "island " if few else ""
    panels.name_ticks(axis, {at: f"{word}{i}" for i, at in enumerate(middles)}, share=0.75)
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


WIDE, TALLEST = 2.2, 4.5  # the smallest width and the largest height of a network in inches


def draw_network(request: FigureRequest) -> DrawnFigure:
    """Draw a panel for each network in the store."""
    runs = _first_of_each(
        request, lambda run: [run.experiment.deciding()["network"], run.materials.get("graph")]
    )
    drawn, shapes = [], []
    for run in runs:
        fleet = rebuild.rebuild_fleet(run)
        shapes.append(aspect(fleet))
        t = _round(request, run)
        sampled = rebuild.sampled_devices(run.experiment, fleet, t)
        note = "" if sampled else ", no server round" if sampled == [] else ", samples not known"
        title = f"{describe_network(run.experiment, fleet.sizes)}; round {t + 1}{note}"
        drawn.append(Panel(safe_lines(title), partial(network, fleet, t=t, sampled=sampled or ())))
    columns = panels.panels_per_row(len(drawn), request.width, WIDE)
    height = min(TALLEST, request.width / columns * max(shapes)) + 0.2
    return draw_panels(request, drawn, [_seed_note(runs)], columns=columns, height=height)


def draw_labels(request: FigureRequest) -> DrawnFigure:
    """Draw a panel for each split of the data in the store."""

    def split(run: "Run") -> list[object]:
        one, recorded = run.experiment, run.materials.get("dataset")
        return [one.network.sizes, one.deciding()["data"], recorded]

    drawn, runs = [], _first_of_each(request, split)
    for run in runs:
        data, dataset = run.experiment.data, rebuild.rebuild_dataset(run)
        partition = rebuild.rebuild_partition(run, dataset)
        title, sizes = f"{data.dataset}, {describe_split(data)}", run.experiment.network.sizes
        draw = partial(labels, partition, sizes, kind=TARGET_NAMES[dataset.targets])
        drawn.append(Panel(safe_lines(title), draw))
    return draw_panels(request, drawn, [_seed_note(runs)], columns=1, height=1.7)


def _first_of_each(request: FigureRequest, key: Callable[["Run"], object]) -> list["Run"]:
    """One run for each key: the one with the lowest seed, with a server if possible."""
    chosen = request.table.check_not_empty().where(request.where, request.compare)
    runs = sorted(
        chosen.runs, key=lambda run: (run.experiment.seed, not run.experiment.server.is_there)
    )
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(json.dumps(key(run), sort_keys=True), run)
    return list(first.values())


def _round(request: FigureRequest, run: "Run") -> int:
    """The round to draw, from 0: as requested (from 1), else the first server round."""
    rounds = run.experiment.rounds
    if request.round is None:
        return rebuild.first_server_round(run.experiment)
    if not 1 <= request.round <= rounds:
        raise SkerryError(
            f"{argument('round')} must be between 1 and {rounds}, the rounds of the run (got "
            f"{request.round}). Choose another round."
        )
    return request.round - 1


def _seed_note(runs: list["Run"]) -> str:
    seeds = seed_words(run.experiment.seed for run in runs)
    return f"Drawn for {seeds}; others: {argument('where')} seed=..."
