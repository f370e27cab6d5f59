"""Two accuracies against each other: what blend buys of one for the other."""

from typing import TYPE_CHECKING

import numpy as np

from skerry.analysis.statistics import Estimate, estimate
from skerry.config.labels import beta_of, label_order
from skerry.config.measures import traits
from skerry.report.figures.captions import measure_title
from skerry.report.figures.panels import ASIDE
from skerry.report.figures.series import keep_possible, labelled, looks_of, measured
from skerry.report.style import FAINT, INK, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def front(
    frame: "pd.DataFrame", axis: "Axes", x: str = "device_accuracy", y: str = "own_accuracy"
) -> "Axes":
    """A point per label with its 95 % intervals; a line from S2S over the blends to S2A; the best
    blend ringed: the one with the best mean of both measures.

    `frame` is that of `skerry.finals`.
    """
    there = measured(labelled(frame), x, y)
    series = looks_of(there["label"])
    points = {name: _point(there[there["label"] == name], x, y) for name in series}
    path = [points[name] for name in series if label_order(name) <= 1]
    axis.plot(
        [at.mean for at, _ in path], [height.mean for _, height in path],
        color=FAINT, linewidth=1.0, zorder=1,
    )  # fmt: skip
    for name, look in series.items():
        at, height = points[name]
        axis.errorbar(
            at.mean, height.mean, _half(height), _half(at), color=look.colour, marker=look.marker,
            markersize=5, linestyle="none", elinewidth=0.7, capsize=1.5, label=plain(name),
        )  # fmt: skip
    blends = [name for name in series if beta_of(name) is not None]
    if blends:
        best = max(blends, key=lambda name: _worth(points[name], x, y))
        at, height = points[best]
        axis.plot(
            at.mean, height.mean, "o", markersize=11, fillstyle="none", color=INK,
            markeredgewidth=0.9, linestyle="none", label="best blend", gid=ASIDE,
        )  # fmt: skip
    axis.set_xlabel(measure_title(x))
    axis.set_ylabel(measure_title(y))
    axis.margins(0.12)
    axis.set_xlim(keep_possible(axis.get_xlim(), x))
    axis.set_ylim(keep_possible(axis.get_ylim(), y))
    axis.grid(alpha=0.25, linewidth=0.5)
    return axis


def _point(ours: "pd.DataFrame", x: str, y: str) -> tuple[Estimate, Estimate]:
    by_seed = ours.groupby("seed")[[x, y]].mean()
    return estimate(by_seed[x]), estimate(by_seed[y])


def _half(found: Estimate) -> float | None:
    return found.half_width if np.isfinite(found.half_width) else None


def _worth(point: tuple[Estimate, Estimate], x: str, y: str) -> float:
    signs = [-1 if traits(measure).lower_is_better else 1 for measure in (x, y)]
    return sum(sign * found.mean for sign, found in zip(signs, point, strict=True))
