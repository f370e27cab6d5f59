"""Panels side by side under one legend, at the width of a page's column."""

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skerry.report.figures.captions import value_title
from skerry.report.style import GREY

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROWEST = 1.6
"""Inches that a panel needs for its ticks and words."""
LETTERS = 15
"""How many letters of a title stand on an inch."""
TICKS = 0.35
"""Inches of a panel's height that its ticks and their words take."""


ASIDE = "aside"
"""The mark (gid) of legend entries that explain the drawing."""


class Panel(NamedTuple):
    title: str
    draw: Callable[..., object]
    """Takes the axis, by name."""


def arrange(
    panels: Sequence[Panel],
    width: float,
    *,
    columns: int | None = None,
    height: float | None = None,
    title: str = "",
) -> "Figure":
    """A figure of this width in inches; `height` is that of one panel."""
    from matplotlib.figure import Figure

    columns = columns or in_a_row(len(panels), width, NARROWEST)
    rows = math.ceil(len(panels) / columns)
    height = height or max(1.5, min(2.3, 0.72 * width / columns))
    figure = Figure(figsize=(width, rows * height), layout="constrained")
    axes: list[Axes] = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for panel, axis in zip(panels, axes, strict=False):
        panel.draw(axis=axis)
        axis.set_title(panel.title)
    for axis in axes[len(panels) :]:
        axis.remove()
    _say_once(axes[: len(panels)], columns)
    _fold(figure, width / columns - TICKS, height - TICKS)
    _make_room(figure, rows * max(map(_height_of_words, axes[: len(panels)])))
    _add_title(figure, title)
    _add_legend(figure)
    return figure


def in_a_row(panels: int, width: float, narrowest: float) -> int:
    """How many panels stand side by side, so that rows are about equally long."""
    most = min(panels, max(1, int(width / narrowest)))
    return math.ceil(panels / math.ceil(panels / most))


def _say_once(axes: Sequence["Axes"], columns: int) -> None:
    """What all panels say is said in the first column; what those of a column say, below."""
    same_height = len({axis.get_ylabel() for axis in axes}) == 1
    for number, axis in enumerate(axes):
        if same_height and number % columns:
            axis.set_ylabel("")
        below = number + columns
        if below < len(axes) and axes[below].get_xlabel() == axis.get_xlabel():
            axis.set_xlabel("")


def _fold(figure: "Figure", across: float, down: float) -> None:
    """Words beside an axis stay beside it."""
    for axis in figure.axes:
        axis.set_title(_folded(axis.get_title(), across))
        axis.set_xlabel(_folded(axis.get_xlabel(), across))
        axis.set_ylabel(_folded(axis.get_ylabel(), down))


def _height_of_words(axis: "Axes") -> float:
    """In pixels: the title, the lines below the axis beyond the first, and names aslant."""
    size = float(axis.title.get_fontsize()) * 1.3 * axis.figure.dpi / 72
    title, below = (text.count("\n") + bool(text) for text in (axis.get_title(), axis.get_xlabel()))
    names = [text for text in axis.get_xticklabels() if text.get_rotation()]
    aslant = max((text.get_window_extent().height for text in names), default=0.0)
    return float(size * (title + max(0, below - 1)) + aslant)


def _add_title(figure: "Figure", title: str) -> None:
    """Folded to the width, whatever the size of its letters."""
    if title:
        inches = figure.get_figwidth()
        text = figure.suptitle(_folded(title, inches), fontsize="medium")
        while text.get_window_extent().width > figure.bbox.width and inches > 1:
            inches *= 0.9
            text = figure.suptitle(_folded(title, inches), fontsize="medium")
        _make_room(figure, text.get_window_extent().height)


def _add_legend(figure: "Figure") -> None:
    """One entry for each label of all panels, in as few rows as the width allows; what explains
    the drawing comes after what is drawn."""
    handles: dict[str, Artist] = {}
    for axis in figure.axes:
        found, labels = axis.get_legend_handles_labels()
        for handle, label in zip(found, labels, strict=True):
            handles.setdefault(label, _without_bars(handle))
    handles = dict(sorted(handles.items(), key=lambda entry: entry[1].get_gid() == ASIDE))
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            # Above, as in the paper; but matplotlib would put it over a title.
            loc="outside lower center" if figure.get_suptitle() else "outside upper center",
            ncols=columns,
            frameon=False,
            columnspacing=1.2,
            handlelength=1.8,
        )
        extent = legend.get_window_extent()
        if extent.width <= figure.bbox.width or columns == 1:
            _make_room(figure, extent.height)
            return
        legend.remove()


def explain_dashes(axis: "Axes", styles: Mapping[Any, Any]) -> None:
    """Line styles in the legend, where they mean something."""
    if len(styles) > 1:
        for value, dash in styles.items():
            axis.plot([], [], color=GREY, linestyle=dash, label=value_title(value), gid=ASIDE)


def name_ticks(
    axis: "Axes", names: Mapping[float, str], *, share: float = 1.0, all_or_none: bool = False
) -> None:
    """A name below each place; long ones aslant, and only as many as do not touch (or none, where
    the axis is one of numbers that finds its own). `share` is the part of the width left for it."""
    places = np.array(sorted(names))
    at = np.log(places) if axis.get_xscale() == "log" else places
    width = share * 72 * inches_wide(axis) * (1 - 1 / len(places))  # first to last, in points
    points = (at - at[0]) / (np.ptp(at) or 1.0) * width
    longest = max(map(len, names.values()))
    across = 4.6 * (longest + 1)  # letters of 7 points
    aslant = longest > 5 and bool((np.diff(points) < across).any())
    kept = [0]
    for i in range(1, len(points)):
        if points[i] - points[kept[-1]] >= (13 if aslant else across):
            kept.append(i)
    if all_or_none and len(kept) < len(places):
        return
    turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    shown = places[kept].tolist()
    axis.set_xticks(shown, [names[place] for place in shown], **(turned if aslant else {}))


def _without_bars(handle: Any) -> "Artist":
    """Of a point with its interval, the point."""
    return handle.lines[0] if hasattr(handle, "has_yerr") else handle  # type: ignore[no-any-return]


def _folded(text: str, inches: float) -> str:
    letters = max(10, int(LETTERS * inches))
    return "\n".join(fill(line, letters) for line in text.splitlines())


def _make_room(figure: "Figure", pixels: float) -> None:
    figure.set_figheight(figure.get_figheight() + pixels / figure.dpi)


def inches_wide(axis: "Axes") -> float:
    """About as wide as the axis will be drawn; the layout is settled later."""
    return float(
        axis.get_position().width * axis.figure.get_window_extent().width / axis.figure.dpi
    )
