"""Figures 4, 7 and 8: the gap over K/n and H, as printed where it is, and under two scorings."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from skerry.paper.plans import PERIODS, SHARES
from skerry.paper.printed import printed_cells
from skerry.paper.protocol import SCORED, agreement, gaps
from skerry.paper.study import Study
from skerry.paper.targets import Target
from skerry.report.figures.gaps import colour_bar, gap_heat_map
from skerry.report.figures.panels import Panel
from skerry.report.figures.titles import SHARE
from skerry.report.paper.agreements import signs
from skerry.report.paper.cells import (
    DEVICES,
    REGIMES,
    SHOWN,
    dataset_words,
    reading,
    regime_words,
    shown_scorings,
)
from skerry.report.paper.drawing import not_run, page_figure
from skerry.report.paper.shown import Content, Picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Maps: TypeAlias = Mapping[str, pd.DataFrame]

PERIOD = "server period H"
PRINTED = "printed"
"""Of which accuracy the paper prints gaps it does not say; of any of them higher is better."""
NOTE = (
    "Points of accuracy that S2S has more than S2A, ring. The paper prints the row H = 5 and the "
    "column K/n = 0.2 of each map in Tables 3 to 6; the rest of its maps is colour alone, and "
    "grey here, as are its dashes. Hatched: the 95 % interval over seeds holds "
    "zero, or there is one seed."
)


def heat_maps(target: Target, studies: Mapping[str, Study]) -> Content:
    """A row of maps per regime; the same colours mean the same gap in all of them."""
    (study,) = studies.values()
    dataset = study.runs["dataset"].iloc[0]
    found = {scoring: ring_gaps(study, scoring) for scoring in shown_scorings(study)}
    printed = ring_cells(dataset, [REGIMES[name] for name in target.options["regimes"]])
    maps = {PRINTED: _as_drawn(printed, np.full(len(printed), True))}
    maps |= {scoring: _as_drawn(one, _clear(one)) for scoring, one in found.items()}
    about = f"{dataset_words(dataset)}, ring: S2S minus S2A over K/n and H, points of accuracy"
    figure = _figure(maps, target.options["regimes"], about)
    told = "; ".join(f"{SCORED[scoring]} {signs(agreement(one, printed))}"
                     for scoring, one in found.items())  # fmt: skip
    verdict = f"Signs that agree with the printed row and column: {told}."
    return Content(verdict, (Picture(target.name, figure, about), NOTE))


def ring_gaps(study: Study, scoring: str) -> "pd.DataFrame":
    """Our gaps on the ring, where S2S and S2A can differ."""
    found = gaps([study], reading(scoring))
    return found[(found["topology"] == "ring") & (found["share"] < 1)]


def ring_cells(dataset: str, regimes: Sequence[tuple[str, str]]) -> "pd.DataFrame":
    """What the tables print of these maps. Both print K/n = 0.2, H = 5, not always alike; here
    it is that of the table along K/n."""
    cells = printed_cells()
    cells = cells[(cells["dataset"] == dataset) & (cells["topology"] == "ring")]
    pairs = zip(cells["intra"], cells["inter"], strict=True)
    cells = cells[np.array([pair in regimes for pair in pairs], dtype=bool)]
    return cells.drop_duplicates(["intra", "inter", "share", "period"])


def _clear(found: "pd.DataFrame") -> "NDArray[np.bool_]":
    return ((found["low"] > 0) | (found["high"] < 0)).to_numpy()


def _as_drawn(found: "pd.DataFrame", clear: "NDArray[np.bool_]") -> "pd.DataFrame":
    """In the columns that a map of gaps is drawn from."""
    return found.assign(
        primitive="s2s",
        against="s2a",
        difference=found["gap"],
        verdict=np.where(clear, np.where(found["gap"] > 0, "win", "loss"), "tie"),
    ).rename(columns={"share": SHARE, "period": PERIOD})


def _figure(maps: "Maps", regimes: Sequence[str], title: str) -> "Figure":
    largest = max(float(one["difference"].abs().max()) for one in maps.values())
    panels = []
    for regime in (REGIMES[name] for name in regimes):
        for scoring, frame in maps.items():
            part = frame[(frame["intra"] == regime[0]) & (frame["inter"] == regime[1])]
            part = _whole(part).assign(measure=SHOWN[0] if scoring == PRINTED else scoring)
            draw = partial(
                gap_heat_map, part, PERIOD, SHARE, label="s2s", largest=largest, bar=False
            )
            words = f"{regime_words(*regime)}\n{SCORED.get(scoring, scoring)}"
            panels.append(Panel(words, draw if part["difference"].notna().any() else not_run))
    figure = page_figure(panels, columns=len(maps), height=1.8, title=title)
    drawn = [axis for axis in figure.axes if axis.collections]
    if drawn:
        colour_bar(drawn, "s2s", "s2a", "points")
    return figure


def _whole(frame: "pd.DataFrame") -> "pd.DataFrame":
    """With a row for every cell of the map: one without a gap is drawn grey."""
    import pandas as pd

    every = [(share / DEVICES, period) for share in SHARES for period in PERIODS]
    cells = pd.DataFrame(every, columns=[SHARE, PERIOD])
    same = {"primitive": "s2s", "against": "s2a", "verdict": "untested"}
    return cells.merge(frame, how="left", on=[SHARE, PERIOD]).fillna(same)
