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
    """A row per run and round, as curves are drawn, each primitive at its best stepsize. A seed in
    which one diverged is left out for both, if others are left: where a run ends, a mean jumps."""
    best = best_runs(study, scoring)
    ended = best.drop(study.diverged.index, errors="ignore")
    lost = best.loc[best.index.difference(ended.index), "seed"]
    paired = ended[~ended["seed"].isin(lost)]
    runs = ended if paired.empty else paired
    lines = study.curves[study.curves["run"].isin(runs.index)]
    return lines.join(runs[RUN], on="run").assign(key=lines["run"])
