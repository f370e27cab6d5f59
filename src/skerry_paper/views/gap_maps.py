"""View of figures 4, 7 and 8: maps of the gap over K/n and H, printed and measured."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from skerry.analysis.compare import LEVEL
from skerry.report.figures.gaps import colour_bar, gap_heat_map
from skerry.report.figures.panels import SHARE, Panel
from skerry_paper.agreement import agreement, baselines, printed_of
from skerry_paper.plan import DEVICES, PERIODS, SAMPLED
from skerry_paper.printed import REGIMES
from skerry_paper.protocol import (
    SCORINGS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    STATED,
    TIMINGS,
    Protocol,
    cell_gaps,
    shown_protocols,
)
from skerry_paper.study import Studies, StudyData
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import NamedFigure, View, not_run, page_figure

Regime = tuple[str, str]

PERIOD = "server period H"
PRINTED = "printed"
FEWER_REGIMES = {"fig4": ("R2", "R3")}
"""Regimes of figures that do not have all four."""
NOTE = (
    "Accuracy of S2S minus S2A in points, on the ring. The paper prints the row H = 5 and the "
    "column K/n = 0.2 of each map in Tables 3 to 6; the other cells of its maps are colours "
    "without numbers, and grey here, as are its dashes. The first figure is after 100 rounds, like "
    "the paper's maps; the second has means over the last 20 rounds. K/n = 0.2, H = 5 is printed "
    "twice, with different values; their mean is used. Hatched: no clear gap, by a paired t test "
    f"over seeds at level {LEVEL}."
)


def gap_maps_view(target: Target, studies: Studies) -> View:
    """A figure per timing with a row of maps per regime; its maps share one colour scale."""
    (study,) = studies.values()
    dataset = study.runs["dataset"].iloc[0]
    regimes = [REGIMES[name] for name in FEWER_REGIMES.get(target.name, REGIMES)]
    found = {protocol: _ring_gaps(study, protocol) for protocol in shown_protocols(study)}
    printed = _printed_ring(dataset, regimes)
    met = {protocol: agreement(one, printed) for protocol, one in found.items()}
    verdict = (
        f"Distance from the printed row and column in points: {fmt.distances_by_timing(met)}; "
        f"{fmt.baseline_distances(baselines(printed))}."
    )
    pictures = []
    for timing in SHOWN_TIMINGS:
        # The paper does not say which accuracy it prints; the name only says that more is better.
        maps = {PRINTED: _as_drawn(printed, SHOWN_SCORINGS[0], certain=True)}
        maps |= {
            SCORINGS[one.scoring]: _as_drawn(frame, one.scoring)
            for one, frame in found.items()
            if one.timing == timing
        }
        where = f"{fmt.dataset_name(dataset)}, ring, {TIMINGS[timing]}"
        about = f"{where}: S2S minus S2A over K/n and H, points"
        name = target.name if timing == STATED else f"{target.name}-{timing.replace(' ', '-')}"
        pictures.append(NamedFigure(name, _figure(maps, regimes, about), about))
    return View(target, verdict, (*pictures, NOTE))


def _ring_gaps(study: StudyData, protocol: Protocol) -> pd.DataFrame:
    """Our gaps on the ring with K < n."""
    found = cell_gaps([study], protocol)
    return found[(found["topology"] == "ring") & (found["share"] < 1)]


def _printed_ring(dataset: str, regimes: Sequence[Regime]) -> pd.DataFrame:
    """The printed cells of these maps."""
    cells = printed_of(dataset)
    cells = cells[cells["topology"] == "ring"]
    pairs = zip(cells["intra"], cells["inter"], strict=True)
    return cells[np.array([pair in regimes for pair in pairs], dtype=bool)]


def _as_drawn(found: pd.DataFrame, measure: str, *, certain: bool = False) -> pd.DataFrame:
    """The table that `gap_heat_map` draws, with a row for every cell, also without a gap."""
    clear = True if certain else found["p"] <= LEVEL
    judged = found.assign(verdict=np.where(clear, np.where(found["gap"] > 0, "win", "loss"), "tie"))
    every = [
        (*regime, sampled / DEVICES, period)
        for regime in REGIMES.values()
        for sampled in SAMPLED
        for period in PERIODS
    ]
    place = ["intra", "inter", "share", "period"]
    cells = pd.DataFrame(every, columns=place).merge(judged, how="left", on=place)
    return (
        cells.fillna({"verdict": "untested"})
        .assign(primitive="s2s", against="s2a", measure=measure, difference=cells["gap"])
        .rename(columns={"share": SHARE, "period": PERIOD})
    )


def _figure(maps: Mapping[str, pd.DataFrame], regimes: Sequence[Regime], title: str) -> Figure:
    largest = max(float(one["difference"].abs().max()) for one in maps.values())
    panels = []
    for intra, inter in regimes:
        for name, frame in maps.items():
            part = frame[(frame["intra"] == intra) & (frame["inter"] == inter)]
            draw = partial(
                gap_heat_map, part, PERIOD, SHARE, label="s2s", largest=largest, bar=False
            )
            words = f"{fmt.regime_name(intra, inter)}\n{name}"
            panels.append(Panel(words, draw if part["difference"].notna().any() else not_run))
    figure = page_figure(panels, columns=len(maps), height=1.8, title=title)
    drawn = [axis for axis in figure.axes if axis.collections]
    if drawn:
        colour_bar(drawn, "s2s", "s2a", "points")
    return figure
