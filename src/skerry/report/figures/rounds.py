"""A measure over the rounds or over a cost, such as seconds: means over seeds, with bands."""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skerry.config.measures import COSTS, MEASURES, shown, traits
from skerry.errors import SkerryError, argument, unknown
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


class Over(NamedTuple):
    """The horizontal axis of a figure: its title, and the columns that it adds up."""

    title: str
    columns: tuple[str, ...]


_TITLES = {
    "rounds": "rounds",
    "messages": "messages to and from the server",
    "bytes": "traffic of the server (bytes)",
    "all_messages": "messages, including those between devices",
    "all_bytes": "traffic, including that between devices (bytes)",
    "seconds": "time until the last device is done (s)",
    "joules": "energy of all devices (J)",
}
OVER = {name: Over(_TITLES[name], columns) for name, columns in COSTS.items()}
"""The horizontal axes of curves by name."""


def curves(
    frame: "pd.DataFrame",
    measure: str,
    axis: "Axes",
    lines: str | None = None,
    over: str = "rounds",
) -> "Axes":
    """Draw means over seeds with bands for the 95 % interval; grey lines mark server rounds.
    `frame` is that of `skerry.load`. `lines` names a column whose values differ in line style.
    `over` is the horizontal axis, one of OVER: the mean of a round is drawn at the mean cost until
    that round. Seconds and joules need a frame of `skerry.load(path, clock=...)`."""
    frame = series.labelled(frame)
    title, columns = _over(frame, over)
    rows = series.finite_rows(frame, measure, *columns)
    rows = rows.assign(_over=rows[list(columns)].sum(axis="columns"))
    styles = series.dashes_for(rows[lines] if lines else None)
    looks = series.label_styles_in(rows["label"])
    drawn: list[Band] = []
    for position, (name, look) in enumerate(looks.items()):
        for dash, part in series.split_by_dash(rows[rows["label"] == name], lines, styles):
            band = band_over_seeds(part, measure, "round")
            drawn.append(band)
            spent = None if over == "rounds" else band_over_seeds(part, "_over", "round").mean
            band = series.with_break(band, spent)
            every = max(1, len(band.at) // 7)
            axis.plot(
                band.at, band.mean, color=look.colour, linestyle=dash, marker=look.marker,
                markevery=(position * every // len(looks), every), label=safe_text(name),
            )  # fmt: skip
            if len(looks) * max(1, len(styles)) <= MOST_BANDS:
                _fill_band(axis, band, measure, look.colour)
    explain_dashes(axis, styles)
    _fit_height(axis, measure, drawn)
    if over == "rounds":
        _mark_server_rounds(frame, axis)
        axis.locator_params(axis="x", integer=True)
    elif over not in ("seconds", "joules"):
        from matplotlib.ticker import EngFormatter

        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    return name_axes(axis, title, measure)


def cost(frame: "pd.DataFrame", measure: str, axis: "Axes", price: str = "messages") -> "Axes":
    """Draw curves over what was spent: messages, bytes, all_messages, all_bytes, seconds or joules;
    frame of `skerry.load`."""
    return curves(frame, measure, axis, over=price)


def _over(frame: "pd.DataFrame", name: str) -> Over:
    """The horizontal axis of this name, if the runs have it."""
    if name not in OVER:
        raise SkerryError(unknown("horizontal axis", name, OVER))
    found = OVER[name]
    if name == "joules" and name in frame and not frame[name].fillna(0).any():
        raise SkerryError(
            "the runs need no joules, because their clock has no energy. Set compute.watts or "
            "joules_per_byte in it, or draw over seconds."
        )
    if name in ("seconds", "joules") and (name not in frame or frame[name].isna().all()):
        raise SkerryError(
            f"the runs have no {name}, because no clock says how long they take. Give one, such as "
            f"{argument('clock')} wifi_home or a file of your own."
        )
    return found


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
