"""A measure against one field, such as the sampled share or the period."""

from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis.statistics import Array
from skerry.errors import SkerryError, unknown
from skerry.report.figures.captions import SHARE, TICK, field_title, measure_title, value_title
from skerry.report.figures.panels import explain_dashes, name_ticks
from skerry.report.figures.series import by_style, keep_possible, looks_of, styles_of
from skerry.report.style import plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

DECADES = 30
"""Values that span as much, such as stepsizes, are spaced by their ratio."""


def sensitivity(
    frame: "pd.DataFrame",
    along: str,
    axis: "Axes",
    *,
    lines: str | None = None,
    devices: int | None = None,
) -> "Axes":
    """Means over seeds with 95 % intervals, a line for each label.

    `frame` is that of `skerry.results`. `lines` names a field whose values are told
    apart by the style of the line; `devices` turns the number sampled into the share K/n.
    """
    for field in (along, *([lines] if lines else [])):
        if field not in frame:
            raise SkerryError(unknown("field", field, map(str, frame.columns)))
    place, by_ratio = _places(frame[along], devices if along == "server.sampled" else None)
    styles = styles_of(frame[lines] if lines else None)
    series = looks_of(frame["primitive"])
    measure, drawn, most = frame["measure"].iloc[0], 0, len(series) * max(1, len(styles))
    for name, look in series.items():
        for dash, ours in by_style(frame[frame["primitive"] == name], lines, styles):
            at = np.array([place[one] for one in ours[along]])
            _check_single(at, along)
            order = np.argsort(at)
            mean, high = (ours[column].to_numpy(float)[order] for column in ("mean", "high"))
            half = np.nan_to_num(high - mean)
            # Aside, in points: intervals that lie on each other cannot be read.
            aside = (drawn - (most - 1) / 2) * min(1.3, 6 / most)
            axis.errorbar(
                at[order],
                mean,
                half if half.any() else None,
                color=look.colour,
                marker=look.marker,
                linestyle=dash,
                capsize=1.5,
                elinewidth=0.7,
                label=plain(name),
                transform=axis.transData + _moved(axis, aside),
            )
            # Matplotlib takes no limits from what is moved aside.
            axis.update_datalim(np.r_[np.c_[at[order], mean - half], np.c_[at[order], mean + half]])
            drawn += 1
    axis.margins(x=0.08)
    axis.autoscale_view()
    axis.set_ylim(keep_possible(axis.get_ylim(), measure))
    explain_dashes(axis, styles)
    if by_ratio:
        axis.set_xscale("log")
        axis.minorticks_off()
    numbers = all(isinstance(value, Number) for value in place)
    name_ticks(axis, {at: _tick(value, at) for value, at in place.items()}, all_or_none=numbers)
    axis.set_xlabel(SHARE if along == "server.sampled" and devices else field_title(along))
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis="y", alpha=0.25, linewidth=0.5)
    return axis


def _places(column: "pd.Series[Any]", devices: int | None) -> tuple[dict[Any, float], bool]:
    """Where each value stands: numbers where they are, words in a row; and whether by ratio."""
    values = list(dict.fromkeys(column))
    if all(isinstance(value, Number) and not isinstance(value, bool) for value in values):
        place = {value: float(value) / (devices or 1) for value in values}
        least, most = min(place.values()), max(place.values())
        return place, 0 < DECADES * least <= most
    return {value: float(i) for i, value in enumerate(values)}, False


def _tick(value: Any, at: float) -> str:
    return f"{at:g}" if isinstance(value, Number) else value_title(value, TICK)


def _check_single(at: Array, along: str) -> None:
    if len(set(at.tolist())) < len(at):
        raise SkerryError(
            f"several cells fall on one value of {along}. Average over the other fields first: "
            "results(..., by=[...])"
        )


def _moved(axis: "Axes", points: float) -> "Transform":
    from matplotlib.transforms import ScaledTranslation

    return ScaledTranslation(points / 72, 0, axis.figure.dpi_scale_trans)
