"""Every protocol as a point: how many of the printed signs it has, and how far its gaps are off."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from skerry.paper.protocol import SCORED, Agreement
from skerry.report.figures.panels import ASIDE, Panel
from skerry.report.paper.cells import dataset_words
from skerry.report.paper.drawing import page_figure
from skerry.report.style import GREY, OTHERS, PRIMITIVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = dict(zip(SCORED, (PRIMITIVES["blend"], *OTHERS), strict=True))
"""Not those of S2S and S2A, which are not what differs here."""
MARKERS = dict(zip(SCORED, ("s", "D", "o", "^", "v"), strict=True))


def protocol_picture(found: Mapping[str, Sequence[Agreement]], title: str) -> "Figure":
    """A panel per data set; the best fit is top left. Hollow: inputs in [0, 1]."""
    panels = [
        Panel(dataset_words(name), partial(_scatter, rows=rows)) for name, rows in found.items()
    ]
    return page_figure(panels, columns=len(panels), height=2.8, title=title)


def _scatter(axis: "Axes", rows: Sequence[Agreement]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    hollow_there = False
    for one in rows:
        protocol = one.protocol
        if protocol is None or not one.signs.of:
            continue
        hollow = protocol.scaling == "unit"
        hollow_there |= hollow
        axis.plot(
            one.rms,
            100 * one.signs.share,
            MARKERS[protocol.scoring],
            color=COLOURS[protocol.scoring],
            fillstyle="none" if hollow else "full",
            markersize=5,
            alpha=0.85,
            label=None if hollow else SCORED[protocol.scoring],
        )
    if hollow_there:
        axis.plot([], [], "o", color=GREY, fillstyle="none", label="inputs in [0, 1]", gid=ASIDE)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(-4, 104)
    axis.axhline(50, color=GREY, linewidth=0.6, linestyle=":")
    axis.set_xlabel("distance from printed gaps (points, RMS)")
    axis.set_ylabel("printed signs met (%)")
    axis.grid(alpha=0.25, linewidth=0.5)
