"""What the pictures of the reproduction share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skerry.paper.contests import best_runs
from skerry.paper.study import Study
from skerry.report.figures.panels import Panel, arrange
from skerry.report.style import GREY, MISSING, WIDTHS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN = ["primitive", "beta", "seed", "period", "share"]


def page_figure(panels: Sequence[Panel], columns: int, height: float, title: str) -> "Figure":
    """At the width of a page."""
    return arrange(panels, WIDTHS["full"], columns=columns, height=height, title=title)


def not_run(axis: "Axes") -> None:
    """A panel whose runs are not there."""
    axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color=GREY)
    axis.set_facecolor(MISSING)
    axis.set_xticks([])
    axis.set_yticks([])


def curve_frame(study: Study, scoring: str) -> "pd.DataFrame":
    """A row per run and round, as curves are drawn, each primitive at its best stepsize. Runs that
    diverged are left out: a mean over seeds would jump where one of them ends."""
    runs = best_runs(study, scoring).drop(study.diverged.index, errors="ignore")
    lines = study.curves[study.curves["run"].isin(runs.index)]
    return lines.join(runs[RUN], on="run").assign(key=lines["run"])
