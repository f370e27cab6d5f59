"""Final values: a measure against a field, or one measure against another."""

from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis.statistics import Estimate, estimate
from skerry.config.labels import beta_of, label_order
from skerry.config.measures import traits
from skerry.errors import SkerryError, unknown
from skerry.report.figures import panels, series
from skerry.report.style import FAINT, INK, safe_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LOG_RATIO = 30  # the ratio of the largest to the smallest value from which an axis is logarithmic


def sensitivity(
    frame: "pd.DataFrame",
    along: str,
    axis: "Axes",
    *,
    lines: str | None = None,
    devices: int | None = None,
) -> "Axes":
    """Draw means over seeds with 95 % intervals against a field, a line for each label. `frame` is
    that of `skerry.results`. `lines` names a field whose values differ in line style; `devices`
    turns the number of sampled devices into the share K/n."""
    from matplotlib.transforms import ScaledTranslation

    for field in (along, *([lines] if lines else [])):
        if field not in frame:
            raise SkerryError(unknown("field", field, map(str, frame.columns)))
    shares = along == "server.sampled" and bool(devices)
    position, is_log = _positions(frame[along], devices if shares else None)
    styles = series.dashes_for(frame[lines] if lines else None)
    looks = series.label_styles_in(frame["primitive"])
    measure, drawn, most = frame["measure"].iloc[0], 0, len(looks) * max(1, len(styles))
    for name, look in looks.items():
        for dash, ours in series.split_by_dash(frame[frame["primitive"] == name], lines, styles):
            at = np.array([position[one] for one in ours[along]])
            if len(set(at.tolist())) < len(at):
                raise SkerryError(
                    f"several cells fall on one value of {along}. Average over the other fields "
                    "first: results(..., by=[...])"
                )
            order = np.argsort(at)
            mean, high = (ours[column].to_numpy(float)[order] for column in ("mean", "high"))
            half = np.nan_to_num(high - mean)
            # Shifted by some points, so that intervals do not cover each other.
            points = (drawn - (most - 1) / 2) * min(1.3, 6 / most)
            shift = ScaledTranslation(points / 72, 0, axis.figure.dpi_scale_trans)
            axis.errorbar(
                at[order], mean, half if half.any() else None, color=look.colour,
                marker=look.marker, linestyle=dash, capsize=1.5, elinewidth=0.7,
                label=safe_text(name), transform=axis.transData + shift,
            )  # fmt: skip
            # Matplotlib ignores shifted points when it chooses limits.
            axis.update_datalim(np.r_[np.c_[at[order], mean - half], np.c_[at[order], mean + half]])
            drawn += 1
    axis.margins(x=0.08)
    axis.autoscale_view()
    axis.set_ylim(series.clip_limits(axis.get_ylim(), measure))
    panels.explain_dashes(axis, styles)
    if is_log:
        axis.set_xscale("log")
        axis.minorticks_off()
    ticks = {
        at: f"{at:g}" if isinstance(value, Number) else panels.tick_name(value)
        for value, at in position.items()
    }
    numbers = all(isinstance(value, Number) for value in position)
    panels.name_ticks(axis, ticks, all_or_none=numbers)
    return panels.name_axes(axis, panels.SHARE if shares else panels.field_title(along), measure)


def _positions(column: "pd.Series[Any]", devices: int | None) -> tuple[dict[Any, float], bool]:
    """Where each value is on the axis (words: evenly), and whether the axis is logarithmic."""
    values = list(dict.fromkeys(column))
    if all(isinstance(value, Number) and not isinstance(value, bool) for value in values):
        position = {value: float(value) / (devices or 1) for value in values}
        least, most = min(position.values()), max(position.values())
        return position, 0 < LOG_RATIO * least <= most
    return {value: float(i) for i, value in enumerate(values)}, False


def front(
    frame: "pd.DataFrame", axis: "Axes", x: str = "device_accuracy", y: str = "own_accuracy"
) -> "Axes":
    """Draw a point per label with 95 % intervals, and a line from S2S over the blends to S2A. A
    ring marks the best blend, by the mean of both measures. `frame` is that of `skerry.finals`."""
    rows = series.finite_rows(series.labelled(frame), x, y)
    looks = series.label_styles_in(rows["label"])
    by_seed = rows.groupby(["label", "seed"], observed=True)[[x, y]].mean()
    points = {name: tuple(estimate(by_seed.loc[name][one]) for one in (x, y)) for name in looks}
    path = [points[name] for name in looks if label_order(name) <= 1]
    axis.plot(
        [at.mean for at, _ in path], [height.mean for _, height in path],
        color=FAINT, linewidth=1.0, zorder=1,
    )  # fmt: skip
    for name, look in looks.items():
        at, height = points[name]
        axis.errorbar(
            at.mean, height.mean, _half(height), _half(at), color=look.colour, marker=look.marker,
            markersize=5, linestyle="none", elinewidth=0.7, capsize=1.5, label=safe_text(name),
        )  # fmt: skip
    blends = [name for name in looks if beta_of(name) is not None]
    if blends:
        sign_x, sign_y = (-1 if traits(measure).lower_is_better else 1 for measure in (x, y))
        means = ((sign_x * points[one][0].mean + sign_y * points[one][1].mean) for one in blends)
        at, height = points[blends[int(np.argmax(list(means)))]]
        axis.plot(
            at.mean, height.mean, "o", markersize=11, fillstyle="none", color=INK,
            markeredgewidth=0.9, linestyle="none", label="best blend", gid=panels.ASIDE,
        )  # fmt: skip
    axis.margins(0.12)
    axis.set_xlim(series.clip_limits(axis.get_xlim(), x))
    axis.set_ylim(series.clip_limits(axis.get_ylim(), y))
    return panels.name_axes(axis, panels.measure_title(x), y, grid="both")


def _half(found: Estimate) -> float | None:
    return found.half_width if np.isfinite(found.half_width) else None
