"""A measure over the rounds, or over the messages sent so far: means over seeds, with bands."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.config.measures import MEASURES, shown, traits
from skerry.errors import SkerryError, unknown
from skerry.report.figures import series
from skerry.report.figures.panels import Panel, arrange, explain_dashes, name_axes, safe_lines
from skerry.report.figures.series import Band, band_over_seeds
from skerry.report.style import FAINT, safe_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BANDS = 6  # with more lines than this, no bands are drawn, because they would hide the lines
MOST_MARKS = 50  # with more server rounds than this, they are not marked
OVERVIEW = (
    "average_accuracy", "own_accuracy", "device_accuracy", "average_perplexity",
    "disagreement", "average_loss", "train_loss", "bias",
)  # fmt: skip
COSTS = {
    "messages": "messages to and from the server",
    "bytes": "traffic of the server (bytes)",
    "all_messages": "messages, including those between devices",
    "all_bytes": "traffic, including that between devices (bytes)",
}
"""The costs that a figure can show, and the titles of their axes."""


def curves(frame: "pd.DataFrame", measure: str, axis: "Axes", lines: str | None = None) -> "Axes":
    """Draw means over seeds with bands for the 95 % interval; grey lines mark server rounds.
    `frame` is that of `skerry.load`. `lines` names a column whose values differ in line style."""
    frame = series.labelled(frame)
    rows = series.finite_rows(frame, measure)
    styles = series.dashes_for(rows[lines] if lines else None)
    looks = series.label_styles_in(rows["label"])
    drawn: list[Band] = []
    for position, (name, look) in enumerate(looks.items()):
        for dash, part in series.split_by_dash(rows[rows["label"] == name], lines, styles):
            band = band_over_seeds(part, measure, "round")
            drawn.append(band)
            band = series.with_break(band)
            every = max(1, len(band.at) // 7)
            axis.plot(
                band.at, band.mean, color=look.colour, linestyle=dash, marker=look.marker,
                markevery=(position * every // len(looks), every), label=safe_text(name),
            )  # fmt: skip
            if len(looks) * max(1, len(styles)) <= MOST_BANDS:
                _fill_band(axis, band, measure, look.colour)
    explain_dashes(axis, styles)
    _mark_server_rounds(frame, axis)
    _fit_height(axis, measure, drawn)
    axis.locator_params(axis="x", integer=True)
    return name_axes(axis, "rounds", measure)


def cost(frame: "pd.DataFrame", measure: str, axis: "Axes", price: str = "messages") -> "Axes":
    """Draw means over seeds with bands over the messages or bytes sent; frame of `skerry.load`."""
    from matplotlib.ticker import EngFormatter

    if price not in COSTS:
        raise SkerryError(unknown("cost", price, COSTS))
    ways = ("uplink", "downlink", *(["d2d"] if price.startswith("all_") else []))
    counts = [f"{way}_{price.removeprefix('all_')}" for way in ways]
    rows = series.finite_rows(series.labelled(frame), measure, *counts)
    rows = rows.assign(_sent=rows[counts].sum(axis="columns"))
    drawn = []
    for name, look in series.label_styles_in(rows["label"]).items():
        ours = rows[rows["label"] == name]
        band = band_over_seeds(ours, measure, "round")
        sent = band_over_seeds(ours, "_sent", "round").mean
        drawn.append(band)
        if (index := series.break_index(band.at)) is not None:
            band, sent = series.with_break(band), np.insert(sent, index + 1, np.nan)
        axis.plot(
            sent, band.mean, color=look.colour, marker=look.marker,
            markevery=max(1, len(sent) // 7), label=safe_text(name),
        )  # fmt: skip
        _fill_band(axis, band._replace(at=sent), measure, look.colour)
    _fit_height(axis, measure, drawn)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    return name_axes(axis, COSTS[price], measure)


def overview(frame: "pd.DataFrame", title: str) -> "Figure":
    """A figure with the curves of the most important measures that the frame has."""
    known = [name for name in MEASURES if name in frame and np.isfinite(frame[name]).any()]
    first = dict.fromkeys(shown(name, known) for name in OVERVIEW)
    usual = [name for name in first if name in known]
    panels = [Panel("", partial(curves, frame, name)) for name in (usual or known)[:4]]
    panels = panels or [Panel("nothing was measured", lambda axis: axis.set_axis_off())]
    return arrange(panels, 9, columns=2, height=2.9, title=safe_lines(title))


def _fill_band(axis: "Axes", band: Band, measure: str, colour: Any) -> None:
    half = np.nan_to_num(band.half)
    if half.any():
        below, above = np.clip([band.mean - half, band.mean + half], *traits(measure).range)
        axis.fill_between(band.at, below, above, color=colour, alpha=0.13, linewidth=0)


def _fit_height(axis: "Axes", measure: str, drawn: list[Band]) -> None:
    """Choose the scale and the limits of the vertical axis."""
    mean = np.concatenate([band.mean for band in drawn])
    if traits(measure).scale == "log" and mean.max() > 0:
        axis.set_yscale("log")
        # The zeros of S2A are rounding errors and must not stretch the axis.
        axis.set_ylim(bottom=1e-4 * mean.max())
        return
    if "loss" in measure and mean.min() > 0 and mean.max() > 100 * mean.min():
        axis.set_yscale("log")  # some lanes diverge
    if traits(measure).is_percent:
        # The first rounds climb from chance level; most of the height is for the later ones.
        start = 0.1 * max(band.at.max() for band in drawn)
        later = np.concatenate([band.mean[band.at >= start] for band in drawn])
        room = max(0.5, 0.08 * float(np.ptp(later)))
        axis.set_ylim(max(0.0, later.min() - room), min(100.0 + room, later.max() + room))


def _mark_server_rounds(frame: "pd.DataFrame", axis: "Axes") -> None:
    """Mark the server rounds, if they are the same for all lanes."""
    if not {"key", "disagreement_before"} <= set(frame):
        return
    met = frame[frame["disagreement_before"].notna()]
    per_run = {tuple(sorted(set(rounds))) for _, rounds in met.groupby("key")["round"]}
    if len(per_run) == 1 and len(rounds := per_run.pop()) <= MOST_MARKS:
        for t in rounds:
            axis.axvline(t, color=FAINT, linewidth=0.5, zorder=0)
