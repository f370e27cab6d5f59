"""The difference of two labels over two fields, as a map of colours."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis.cells import sort_key
from skerry.analysis.statistics import Array
from skerry.config.labels import beta_of
from skerry.config.measures import traits
from skerry.errors import SkerryError, argument, unknown
from skerry.report.figures import panels
from skerry.report.style import MISSING, OTHERS, colours, safe_text, text_colour

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

CLEAR = ("win", "loss")
SHADES = 257  # odd, so that zero is exactly white
MOST_ROWS = 14  # up to this number, every row has a name
BESIDE_BAR = 0.75  # the share of the width that the colour bar leaves
PAD = 1.0  # points between a number and the hatching around it
MOST_DIGITS = 2
SMALLEST = 3.5  # the smallest font size, in points, of a number in a cell


def gap_heat_map(
    frame: "pd.DataFrame",
    rows: str | None,
    columns: str,
    axis: "Axes",
    label: str | None = None,
    largest: float | None = None,
    bar: bool = True,
) -> "Axes":
    """Draw the difference between `label` and the reference, in the colour of the better one.

    `frame` is that of `skerry.results`. Cells without a clear lead are hatched, missing cells are
    grey. `largest` is the difference with the darkest shade; panels that share it need only one
    `bar` of colours.
    """
    label = _other_label(frame, label)
    against, measure = frame["against"].iloc[0], frame["measure"].iloc[0]
    compared = frame[(frame["primitive"] == label) & frame["difference"].notna()]
    if compared.empty:
        raise SkerryError(
            f"{label} and {against} have no cell and seed in common, so there is no gap. Run both "
            f"with the same settings: {argument('compare')} {label},{against}"
        )
    across = _ordered(frame[columns])
    down: list[Any] = _ordered(frame[rows]) if rows else [None]
    gap = np.full((len(down), len(across)), np.nan)
    clear = np.zeros(gap.shape)
    for _, one in compared.iterrows():
        row = down.index(none_if_nan(one[rows])) if rows else 0
        where = row, across.index(none_if_nan(one[columns]))
        if np.isfinite(gap[where]):
            raise SkerryError(
                f"several cells fall on {columns} = {one[columns]}. Average over the other fields "
                "first: results(..., by=[...])"
            )
        gap[where], clear[where] = one["difference"], one["verdict"] in CLEAR
    largest = largest or float(np.nanmax(np.abs(gap))) or 1.0
    shades = diverging(label, against, traits(measure).lower_is_better)
    edges = np.arange(len(across) + 1), np.arange(len(down) + 1)
    axis.pcolormesh(
        *edges, np.ma.masked_invalid(gap), cmap=shades, vmin=-largest, vmax=largest,
        edgecolors="white", linewidth=0.8,
    )  # fmt: skip
    _annotate(axis, gap, clear, largest, shades)
    axis.set_facecolor(MISSING)
    ticks = {i + 0.5: panels.tick_name(value) for i, value in enumerate(across)}
    panels.name_ticks(axis, ticks, share=BESIDE_BAR)
    every = max(1, len(down) // MOST_ROWS)
    names = map(panels.tick_name, down[::every]) if rows else [""]
    axis.set_yticks(edges[1][:-1:every] + 0.5, list(names))
    axis.tick_params(length=0)
    axis.set_xlabel(panels.field_title(columns))
    axis.set_ylabel(panels.field_title(rows) if rows else "")
    axis.spines[:].set_visible(False)
    if bar:
        colour_bar([axis], label, against, measure)
    return axis


def colour_bar(axes: Sequence["Axes"], label: str, against: str, measure: str) -> None:
    """Add one colour bar for maps that share it."""
    mesh = axes[0].collections[0]
    scale = axes[0].figure.colorbar(mesh, ax=axes, pad=0.03, aspect=14 * len(axes) ** 0.5)
    scale.set_label(f"{safe_text(label)} − {safe_text(against)}\n{panels.measure_title(measure)}")
    scale.outline.set_visible(False)


def diverging(label: str, against: str, low_is_better: bool = False) -> "Colormap":
    """A colour map that is white at zero, with the colour of the better label on each side."""
    from matplotlib.colors import LinearSegmentedColormap

    both = colours([label, against])
    below, above = both[against], both[label]
    if beta_of(label) is not None and beta_of(against) is not None:
        below = OTHERS[0]  # two shades of one hue are hard to distinguish
    if low_is_better:
        below, above = above, below
    return LinearSegmentedColormap.from_list("gap", [below, "#FFFFFF", above], N=SHADES)


def _other_label(frame: "pd.DataFrame", label: str | None) -> str:
    against = frame["against"].iloc[0]
    others = [name for name in dict.fromkeys(frame["primitive"]) if name != against]
    if not others:
        raise SkerryError(
            f"a gap needs two primitives (got {against} alone). Run both: {argument('compare')} "
            "s2s,s2a"
        )
    if label is None:
        return "s2s" if "s2s" in others else others[0]
    if label not in others:
        raise SkerryError(unknown("primitive", label, others))
    return label


def _ordered(values: Iterable[Any]) -> list[Any]:
    return sorted(set(map(none_if_nan, values)), key=lambda value: sort_key((value,)))


def none_if_nan(value: Any) -> Any:
    """None instead of NaN, which marks an ignored field in a column of numbers."""
    return value if value == value else None


def _annotate(axis: "Axes", gap: Array, clear: Array, largest: float, shades: "Colormap") -> None:
    from matplotlib.patches import Rectangle

    # Two digits of the largest gap of this map; `largest` may come from another one.
    own = float(np.nanmax(np.abs(gap))) or largest
    digits = min(max(0, 1 - int(np.floor(np.log10(own)))), MOST_DIGITS)
    values = {at: value for at, value in np.ndenumerate(gap) if np.isfinite(value)}
    texts = {at: f"{value:+z.{digits}f}".replace("-", "−") for at, value in values.items()}
    # The longest number fits its cell; a letter is 0.75 of the font size wide.
    width = BESIDE_BAR * panels.inches_wide(axis) * 72 / gap.shape[1]
    size = min(7.0, (width - 2 * PAD) / (0.75 * max(map(len, texts.values()))))
    for (row, column), text in texts.items():
        colour = shades(0.5 + gap[row, column] / largest / 2)
        if not clear[row, column]:
            style: dict[str, Any] = {"fill": False, "edgecolor": "#AAAAAA", "linewidth": 0}
            square = (column + 0.02, row + 0.02), 0.96, 0.96
            axis.add_patch(Rectangle(*square, hatch="////", **style))
        if size >= SMALLEST:
            axis.text(
                column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size,
                color=text_colour(colour),
                bbox={"facecolor": colour, "edgecolor": "none", "pad": PAD},
            )  # fmt: skip
