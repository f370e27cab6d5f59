"""Figures: each function draws one thing on an axis and returns it; `save` writes files safely."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.report.style import ISLANDS, colours
from skerry.sweep.statistics import estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skerry.network.fleet import Fleet

TITLES = {
    "average_accuracy": "average model, global test set (%)",
    "device_accuracy": "devices, global test set (%)",
    "own_accuracy": "devices, own label mix (%)",
    "component_accuracy": "devices, classes of their component (%)",
    "average_loss": "loss of the average model",
    "train_loss": "minibatch loss",
    "disagreement": "disagreement per device",
    "bias": "bias of the average",
}


def curves(frame: "pd.DataFrame", measure: str, axis: "Axes") -> "Axes":
    """A measure over the rounds: mean over seeds, with a band for the 95 % interval."""
    labels = list(dict.fromkeys(frame["label"]))
    for name, colour in colours(labels).items():
        lanes = frame[frame["label"] == name].pivot(index="round", columns="seed", values=measure)
        lanes = lanes.dropna(how="all")
        over_seeds = [estimate(values) for values in lanes.to_numpy()]
        mean = np.array([e.mean for e in over_seeds])
        half = np.nan_to_num([e.half_width for e in over_seeds])
        axis.plot(lanes.index, mean, color=colour, label=name, linewidth=1.4)
        if half.any():
            low, high = _bounds(measure)
            below, above = np.maximum(mean - half, low), np.minimum(mean + half, high)
            axis.fill_between(lanes.index, below, above, color=colour, alpha=0.18, lw=0)
    if measure.startswith(("disagreement", "bias")):
        axis.set_yscale("log")
        # S2A's zeros are rounding errors here; they need not stretch the axis.
        axis.set_ylim(bottom=1e-4 * float(np.nanmax(frame[measure])))
    elif "accuracy" in measure:
        # The first rounds climb from chance; leave most of the height to what comes after.
        later = frame.loc[frame["round"] >= 0.1 * frame["round"].max(), measure]
        axis.set_ylim(max(0.0, float(later.min()) - 4), 101)
    axis.set_xlabel("rounds")
    axis.set_title(TITLES.get(measure, measure), fontsize=10)
    axis.grid(alpha=0.25)
    return axis


def _bounds(measure: str) -> tuple[float, float]:
    return (0.0, 100.0) if "accuracy" in measure else (0.0, np.inf)


def overview(frame: "pd.DataFrame", title: str) -> "Figure":
    """The curves a first look needs, side by side."""
    from matplotlib.figure import Figure

    wanted = ("average_accuracy", "own_accuracy", "device_accuracy", "disagreement")
    fallback = ("average_loss", "train_loss", "disagreement", "bias")
    measures = [m for m in wanted if m in frame] or []
    measures += [m for m in fallback if m in frame and m not in measures]
    measures = measures[:4]
    figure = Figure(figsize=(9, 3.2 * math.ceil(len(measures) / 2)), layout="constrained")
    axes = figure.subplots(math.ceil(len(measures) / 2), 2, squeeze=False).flatten()
    for measure, axis in zip(measures, axes, strict=False):
        curves(frame, measure, axis)
    for axis in axes[len(measures) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=max(1, len(labels)), frameon=False
    )
    figure.suptitle(title, fontsize=10)
    return figure


def network(fleet: "Fleet", axis: "Axes", t: int = 0, sampled: Any = ()) -> "Axes":
    """The islands with the links of round t; sampled devices wear a dark ring."""
    place = _places(fleet)
    edges = fleet.edges(t)
    if len(edges):
        from matplotlib.collections import LineCollection

        axis.add_collection(LineCollection(place[edges], colors="#999999", linewidths=0.6))  # type: ignore[arg-type]
    tint = [ISLANDS[c % len(ISLANDS)] for c in fleet.component_of]
    chosen = np.isin(np.arange(fleet.devices), np.asarray(sampled))
    size = max(4.0, min(60.0, 4000.0 / fleet.devices))
    axis.scatter(
        place[:, 0],
        place[:, 1],
        s=size,
        c=tint,
        zorder=2,
        edgecolors=np.where(chosen, "#000000", "#ffffff").tolist(),
        linewidths=np.where(chosen, 1.4, 0.5).tolist(),
    )
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.autoscale_view()
    return axis


def network_picture(fleet: "Fleet", title: str, t: int = 0, sampled: Any = ()) -> "Figure":
    from matplotlib.figure import Figure

    columns = math.ceil(math.sqrt(len(fleet.sizes)))
    rows = math.ceil(len(fleet.sizes) / columns)
    side = 3.6 if columns < 4 else 12 / columns
    figure = Figure(figsize=(max(5.0, side * columns), side * rows + 0.8), layout="constrained")
    network(fleet, figure.add_subplot(), t, sampled)
    figure.suptitle(title, fontsize=10)
    return figure


def save(figure: "Figure", path: Path) -> Path:
    """Write atomically: a reader never sees half a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        figure.savefig(temporary, dpi=150)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _places(fleet: "Fleet") -> np.ndarray[Any, np.dtype[np.float64]]:
    """Every island on a circle of its own, the circles on a square lattice."""
    columns = math.ceil(math.sqrt(len(fleet.sizes)))
    places = np.empty((fleet.devices, 2))
    for c, (start, size) in enumerate(zip(fleet.starts, fleet.sizes, strict=True)):
        angle = 2 * np.pi * np.arange(size) / size + np.pi / 2
        radius = 0.0 if size == 1 else 1.0
        centre = np.array([c % columns, -(c // columns)]) * 2.5
        places[start : start + size] = centre + radius * np.c_[np.cos(angle), np.sin(angle)]
    return places
