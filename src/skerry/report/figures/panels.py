"""Panels of a figure: titles and axis texts, layout, one common legend, notes."""

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from skerry.analysis.names import UNSET
from skerry.analysis.run_table import format_statuses
from skerry.config.measures import MEASURES, traits
from skerry.errors import SkerryError, argument
from skerry.report.figure_kinds import DrawnFigure, FigureRequest
from skerry.report.style import GREY, safe_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIELDS = {
    "server.sampled": "sampled devices K",
    "server.period": "server period H",
    "server.beta": "β",
    "training.stepsize": "stepsize",
    "network.devices": "devices n",
}
KEEP = "\u00a0"  # a non-breaking space
SHARE = "sampled share K/n"


def measure_title(measure: str) -> str:
    return traits(measure).axis if measure in MEASURES else safe_text(traits(measure).axis)


def field_title(field: str) -> str:
    return FIELDS.get(field) or safe_text(field.rpartition(".")[2].replace("_", " "))


def value_title(value: Any, longest: int = 24) -> str:
    """A value of a field as text. Long texts keep both ends, where file names differ."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    text, head = str(value) or UNSET, longest // 4
    both_ends = f"{text[:head]}…{text[head + 1 - longest :]}"
    return safe_text(text if len(text) <= longest else both_ends)


def tick_name(value: Any) -> str:
    """A value of a field as the name of a tick, of at most 16 letters."""
    return value_title(value, 16)


def name_axes(axis: "Axes", x: str, measure: str, grid: Literal["y", "both"] = "y") -> "Axes":
    """Set the titles of both axes, the vertical one for a measure, and draw faint grid lines."""
    axis.set_xlabel(x)
    axis.set_ylabel(measure_title(measure))
    axis.grid(axis=grid, alpha=0.25, linewidth=0.5)
    return axis


def cell_title(fields: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """`period 5, ring`: the values of a cell, with the names of fields where they are needed."""
    return ", ".join(_named(field, value) for field, value in zip(fields, values, strict=True))


def _named(field: str, value: Any) -> str:
    name = field.rpartition(".")[2]
    is_clear = isinstance(value, str) and name in ("topology", "dataset", "mixing", "selection")
    text = value_title(value)
    return text if is_clear else f"{safe_text(name.replace('_', ' '))}{KEEP}{text}"


def safe_lines(text: str) -> str:
    """A title of several lines as text that matplotlib draws literally."""
    return "\n".join(safe_text(line, 160) for line in text.splitlines())


MOST_PANELS = 24
NARROWEST = 1.6  # the smallest width of a panel in inches
LETTERS = 15  # letters of a title per inch
TICKS = 0.35  # inches that the ticks and their names take from a panel
ASIDE = "aside"  # the gid of legend entries that explain the drawing; they come last in the legend


class Panel(NamedTuple):
    """One panel: its title, and the function that draws it when called with `axis=`."""

    title: str
    draw: Callable[..., object]


def arrange(
    panels: Sequence[Panel],
    width: float,
    *,
    columns: int | None = None,
    height: float | None = None,
    title: str = "",
) -> "Figure":
    """Draw panels in rows. `width` is that of the figure in inches, `height` that of one panel."""
    from matplotlib.figure import Figure

    columns = columns or panels_per_row(len(panels), width, NARROWEST)
    rows = math.ceil(len(panels) / columns)
    height = height or max(1.5, min(2.3, 0.72 * width / columns))
    figure = Figure(figsize=(width, rows * height), layout="constrained")
    axes: list[Axes] = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for panel, axis in zip(panels, axes, strict=False):
        panel.draw(axis=axis)
        axis.set_title(panel.title)
    for axis in axes[len(panels) :]:
        axis.remove()
    _drop_repeated_titles(axes[: len(panels)], columns)
    across, down = width / columns - TICKS, height - TICKS
    for axis in figure.axes:
        axis.set_title(_folded(axis.get_title(), across))
        axis.set_xlabel(_folded(axis.get_xlabel(), across))
        axis.set_ylabel(_folded(axis.get_ylabel(), down))
    _make_room(figure, rows * max(map(_text_height, axes[: len(panels)])))
    _add_title(figure, title)
    _add_legend(figure)
    return figure


def panels_per_row(panels: int, width: float, narrowest: float) -> int:
    """The number of panels per row, so that rows are about equally long."""
    most = min(panels, max(1, int(width / narrowest)))
    return math.ceil(panels / math.ceil(panels / most))


def _drop_repeated_titles(axes: Sequence["Axes"], columns: int) -> None:
    """Drop axis titles that neighbours repeat: keep them in the first column and the last row."""
    same_ylabel = len({axis.get_ylabel() for axis in axes}) == 1
    for number, axis in enumerate(axes):
        if same_ylabel and number % columns:
            axis.set_ylabel("")
        below = number + columns
        if below < len(axes) and axes[below].get_xlabel() == axis.get_xlabel():
            axis.set_xlabel("")


def _text_height(axis: "Axes") -> float:
    """The height in pixels of the title, of extra lines below the axis and of rotated names."""
    size = float(axis.title.get_fontsize()) * 1.3 * axis.figure.dpi / 72
    title, below = (text.count("\n") + bool(text) for text in (axis.get_title(), axis.get_xlabel()))
    names = [text for text in axis.get_xticklabels() if text.get_rotation()]
    rotated = max((text.get_window_extent().height for text in names), default=0.0)
    return float(size * (title + max(0, below - 1)) + rotated)


def _add_title(figure: "Figure", title: str) -> None:
    """Add a title, folded to the width of the figure at any font size."""
    if title:
        inches = figure.get_figwidth()
        text = figure.suptitle(_folded(title, inches), fontsize="medium")
        while text.get_window_extent().width > figure.bbox.width and inches > 1:
            inches *= 0.9
            text.set_text(_folded(title, inches))
        _make_room(figure, text.get_window_extent().height)


def _add_legend(figure: "Figure") -> None:
    """Add one legend for all panels, in as few rows as the width allows."""
    from matplotlib.container import ErrorbarContainer

    handles: dict[str, Artist] = {}
    for axis in figure.axes:
        found, labels = axis.get_legend_handles_labels()
        for handle, label in zip(found, labels, strict=True):
            # Of a point with error bars, only the point.
            point = handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle
            handles.setdefault(label, point)
    handles = dict(sorted(handles.items(), key=lambda entry: entry[1].get_gid() == ASIDE))
    for columns in range(len(handles), 0, -1):
        # Above, as in the paper, unless there is a title, which it would cover.
        legend = figure.legend(
            list(handles.values()), list(handles), ncols=columns, frameon=False,
            loc="outside lower center" if figure.get_suptitle() else "outside upper center",
            columnspacing=1.2, handlelength=1.8,
        )  # fmt: skip
        extent = legend.get_window_extent()
        if extent.width <= figure.bbox.width or columns == 1:
            _make_room(figure, extent.height)
            return
        legend.remove()


def explain_dashes(axis: "Axes", styles: Mapping[Any, Any]) -> None:
    """Add line styles to the legend, if there are several."""
    if len(styles) > 1:
        for value, dash in styles.items():
            axis.plot([], [], color=GREY, linestyle=dash, label=value_title(value), gid=ASIDE)


def name_ticks(
    axis: "Axes", names: Mapping[float, str], *, share: float = 1.0, all_or_none: bool = False
) -> None:
    """Name positions on the horizontal axis. Long names are rotated, and names that would touch are
    left out (all of them with `all_or_none`). `share` is the part of the width for the axis."""
    places = np.array(sorted(names))
    at = np.log(places) if axis.get_xscale() == "log" else places
    width = share * 72 * inches_wide(axis) * (1 - 1 / len(places))  # first to last, in points
    points = (at - at[0]) / (np.ptp(at) or 1.0) * width
    longest = max(map(len, names.values()))
    across = 4.6 * (longest + 1)  # letters of 7 points
    rotated = longest > 5 and bool((np.diff(points) < across).any())
    kept = [0]
    for i in range(1, len(points)):
        if points[i] - points[kept[-1]] >= (13 if rotated else across):
            kept.append(i)
    if all_or_none and len(kept) < len(places):
        return
    turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    shown = places[kept].tolist()
    axis.set_xticks(shown, [names[place] for place in shown], **(turned if rotated else {}))


def _folded(text: str, inches: float) -> str:
    letters = max(10, int(LETTERS * inches))
    return "\n".join(fill(line, letters) for line in text.splitlines())


def _make_room(figure: "Figure", pixels: float) -> None:
    figure.set_figheight(figure.get_figheight() + pixels / figure.dpi)


def inches_wide(axis: "Axes") -> float:
    """The approximate width of an axis in inches, before the layout is final."""
    figure = axis.figure
    return float(axis.get_position().width * figure.get_window_extent().width / figure.dpi)


def draw_panels(
    request: FigureRequest,
    panels: Sequence[Panel],
    notes: Sequence[str] = (),
    *,
    columns: int | None = None,
    height: float | None = None,
) -> DrawnFigure:
    """Draw the panels of a request, with its width and title."""
    if len(panels) > MOST_PANELS:
        raise SkerryError(
            f"a figure has at most {MOST_PANELS} panels (got {len(panels)}). Choose runs with "
            f"{argument('where')} period=5, or name the fields that matter with {argument('by')}; "
            "others are averaged over."
        )
    title = safe_lines(request.title)
    figure = arrange(panels, request.width, columns=columns, height=height, title=title)
    return DrawnFigure(figure, tuple(notes))


def omission_notes(
    statuses: Mapping[str, int], varying: Sequence[str], shown: Sequence[str]
) -> list[str]:
    """Sentences on what a figure averages over and leaves out."""
    left_out = {status: n for status, n in statuses.items() if status != "finished"}
    averaged = [name for name in varying if name not in shown]
    notes = [f"Averaged over {', '.join(averaged)}, seed by seed."] if averaged else []
    if left_out:
        notes.append(f"Not drawn: runs that are not finished ({format_statuses(left_out)}).")
    return notes
