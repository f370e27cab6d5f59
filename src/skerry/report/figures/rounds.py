"""A measure over the rounds, or over what had been sent by then: means over seeds, with bands."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.config.measures import MEASURES, shown, traits
from skerry.errors import SkerryError, unknown
from skerry.report.figures.captions import lines_of, measure_title
from skerry.report.figures.panels import Panel, arrange, explain_dashes
from skerry.report.figures.series import (
    Band,
    by_style,
    hole_after,
    labelled,
    looks_of,
    measured,
    over_seeds,
    styles_of,
    with_hole,
)
from skerry.report.style import FAINT, plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BANDS = 6
"""With more lines than this, bands only hide what is below them."""
MOST_MARKS = 50
"""More server rounds than this are a grey wall."""
FIRST_LOOK = (
    "average_accuracy",
    "own_accuracy",
    "device_accuracy",
    "average_perplexity",
    "disagreement",
    "average_loss",
    "train_loss",
    "bias",
)
COSTS = {
    "messages": ("uplink_messages", "downlink_messages"),
    "bytes": ("uplink_bytes", "downlink_bytes"),
    "all_messages": ("uplink_messages", "downlink_messages", "d2d_messages"),
    "all_bytes": ("uplink_bytes", "downlink_bytes", "d2d_bytes"),
}
COST_TITLES = {
    "messages": "messages to and from the server",
    "bytes": "traffic of the server (bytes)",
    "all_messages": "messages, those between devices too",
    "all_bytes": "traffic, that between devices too (bytes)",
}


def curves(frame: "pd.DataFrame", measure: str, axis: "Axes", lines: str | None = None) -> "Axes":
    """Mean over seeds, with a band for the 95 % interval; grey lines mark server rounds.

    `lines` names a column whose values are told apart by the style of the line.
    """
    frame = labelled(frame)
    there = measured(frame, measure)
    styles = styles_of(there[lines] if lines else None)
    series = looks_of(there["label"])
    drawn: list[Band] = []
    for position, (name, look) in enumerate(series.items()):
        for dash, part in by_style(there[there["label"] == name], lines, styles):
            band = over_seeds(part, measure, "round")
            drawn.append(band)
            band = with_hole(band)
            every = max(1, len(band.at) // 7)
            axis.plot(
                band.at,
                band.mean,
                color=look.colour,
                linestyle=dash,
                marker=look.marker,
                markevery=(position * every // len(series), every),
                label=plain(name),
            )
            if len(series) * max(1, len(styles)) <= MOST_BANDS:
                _fill_band(axis, band, measure, look.colour)
    explain_dashes(axis, styles)
    _mark_server_rounds(frame, axis)
    _fit_height(axis, measure, drawn)
    axis.locator_params(axis="x", integer=True)
    axis.set_xlabel("rounds")
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return axis


def cost(frame: "pd.DataFrame", measure: str, axis: "Axes", price: str = "messages") -> "Axes":
    """Mean over seeds and band, over what had been sent by then; a line ends where its run does.

    `frame` is that of `skerry.load`.
    """
    from matplotlib.ticker import EngFormatter

    if price not in COSTS:
        raise SkerryError(unknown("cost", price, COSTS))
    there = measured(labelled(frame), measure, *COSTS[price])
    there = there.assign(_sent=there[list(COSTS[price])].sum(axis="columns"))
    drawn = []
    for name, look in looks_of(there["label"]).items():
        ours = there[there["label"] == name]
        band = over_seeds(ours, measure, "round")
        sent = over_seeds(ours, "_sent", "round").mean
        drawn.append(band)
        if (hole := hole_after(band.at)) is not None:
            band, sent = with_hole(band), np.insert(sent, hole + 1, np.nan)
        axis.plot(
            sent, band.mean, color=look.colour, marker=look.marker,
            markevery=max(1, len(sent) // 7), label=plain(name),
        )  # fmt: skip
        _fill_band(axis, band._replace(at=sent), measure, look.colour)
    _fit_height(axis, measure, drawn)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_xlabel(COST_TITLES[price])
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return axis


def overview(frame: "pd.DataFrame", title: str) -> "Figure":
    """The curves a first look needs, side by side; any others where none of those was measured."""
    there = [name for name in MEASURES if _has_values(frame, name)]
    first = dict.fromkeys(shown(name, there) for name in FIRST_LOOK)
    usual = [name for name in first if name in there]
    panels = [Panel("", partial(curves, frame, name)) for name in (usual or there)[:4]]
    panels = panels or [Panel("nothing was measured", lambda axis: axis.set_axis_off())]
    return arrange(panels, 9, columns=2, height=2.9, title=lines_of(title))


def _has_values(frame: "pd.DataFrame", measure: str) -> bool:
    return measure in frame and bool(np.isfinite(frame[measure]).any())


def _fill_band(axis: "Axes", band: Band, measure: str, colour: Any) -> None:
    half = np.nan_to_num(band.half)
    if half.any():
        below, above = np.clip([band.mean - half, band.mean + half], *traits(measure).range)
        axis.fill_between(band.at, below, above, color=colour, alpha=0.13, linewidth=0)


def _fit_height(axis: "Axes", measure: str, drawn: list[Band]) -> None:
    """Room for what is worth seeing."""
    mean = np.concatenate([band.mean for band in drawn])
    if traits(measure).scale == "log" and mean.max() > 0:
        axis.set_yscale("log")
        # S2A's zeros are rounding errors here; they need not stretch the axis.
        axis.set_ylim(bottom=1e-4 * mean.max())
        return
    if "loss" in measure and mean.min() > 0 and mean.max() > 100 * mean.min():
        axis.set_yscale("log")  # diverging lanes beside others
    if traits(measure).is_percent:
        # The first rounds climb from chance; leave most of the height to what comes after.
        start = 0.1 * max(band.at.max() for band in drawn)
        later = np.concatenate([band.mean[band.at >= start] for band in drawn])
        room = max(0.5, 0.08 * float(np.ptp(later)))
        axis.set_ylim(max(0.0, later.min() - room), min(100.0 + room, later.max() + room))


def _mark_server_rounds(frame: "pd.DataFrame", axis: "Axes") -> None:
    """Where the lanes agree on them: a mark that holds for some of the lines only would mislead."""
    if not {"key", "disagreement_before"} <= set(frame):
        return
    met = frame[frame["disagreement_before"].notna()]
    per_run = {tuple(sorted(set(rounds))) for _, rounds in met.groupby("key")["round"]}
    if len(per_run) == 1 and len(rounds := per_run.pop()) <= MOST_MARKS:
        for t in rounds:
            axis.axvline(t, color=FAINT, linewidth=0.5, zorder=0)
