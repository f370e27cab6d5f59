"""View of stepsizes beyond the paper's range: how often they are better, and what changes."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd

from skerry.analysis.statistics import Array
from skerry.report.text import Sheet
from skerry_paper.agreement import agreement, printed_of
from skerry_paper.plan import STEPSIZES
from skerry_paper.printed import CELL
from skerry_paper.protocol import (
    SHORT_SCALINGS,
    SHOWN_SCORINGS,
    SHOWN_TIMINGS,
    Protocol,
    Scaling,
    cell_gaps,
)
from skerry_paper.study import Studies, StudyData
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import View

NOTE = (
    "The paper tries 0.00316, 0.01, 0.0316 and 0.1. Here one more on either side, 0.001 and 0.316, "
    "is tried where it was run. A choice is of a cell, a primitive and a seed, made on the other "
    "seeds. 0.1 the best: choices of 0.1 among the paper's four stepsizes. Beyond better: choices "
    "of a stepsize outside the paper's range, where these are tried too; at an edge: choices of "
    "the smallest or largest then. Changed: cells with a different winner. Distance, ranks and "
    "signs compare the same cells with the printed tables, tuned within the paper's range, then "
    "beyond it."
)


class TunedGaps(NamedTuple):
    """Gaps with stepsizes tuned within the paper's range, and beyond it."""

    within: pd.DataFrame
    beyond: pd.DataFrame


def stepsizes_view(target: Target, studies: Studies) -> View:
    """A row per data set, scaling, timing and scoring."""
    rows, better = [], []
    datasets = dict.fromkeys(one.runs["dataset"].iloc[0] for one in studies.values())
    for dataset, scaling in product(datasets, get_args(Scaling)):
        there = [one.of(dataset=dataset, scaling=scaling) for one in studies.values()]
        for timing, scoring in product(SHOWN_TIMINGS, SHOWN_SCORINGS):
            protocol = Protocol(scoring, timing, "tuned", scaling)
            if not len((found := _tuned(there, protocol)).beyond):
                continue
            names = (fmt.dataset_name(dataset), SHORT_SCALINGS[scaling], protocol.short)
            rows.append((*names, *_cells(found, dataset)))
            better.append(f"{', '.join(names)} {_beyond(found)}")
    header = (
        *("data set", "inputs", "scored", "0.1 the best", "beyond better", "at an edge", "changed"),
        *("distance", "ranks", "signs", "distance beyond", "ranks", "signs"),
    )
    title = "Tuned within the paper's range, and beyond it"
    sheet = Sheet(title, header, tuple(rows), "lll" + "r" * 10)
    if not better:
        return View(target, "There are no runs beyond the paper's range.", (sheet, NOTE))
    verdict = "Choices for which a stepsize beyond the paper's range is better: "
    return View(target, f"{verdict}{'; '.join(better)}.", (sheet, NOTE))


def _tuned(studies: Sequence[StudyData], protocol: Protocol) -> TunedGaps:
    """Gaps of the cells in which stepsizes beyond the paper's range were run."""
    paper = [round(size, 6) for size in STEPSIZES]
    within = cell_gaps([one.of(stepsize=paper) for one in studies], protocol)
    beyond = cell_gaps(studies, protocol)
    more = beyond.merge(within[[*CELL, "tried"]], on=CELL, suffixes=("", "_within"))
    most = more[more["tried"] > more["tried_within"]]
    return TunedGaps(within.merge(most[CELL], on=CELL), most)


def _chosen(cells: pd.DataFrame) -> Array:
    chosen: Array = np.concatenate([*cells["stepsize_s2s"], *cells["stepsize_s2a"]])
    return chosen[np.isfinite(chosen)]


def _beyond(found: TunedGaps) -> str:
    chosen = _chosen(found.beyond)
    outside = (chosen > 1.01 * max(STEPSIZES)) | (chosen < 0.99 * min(STEPSIZES))
    return fmt.out_of(int(outside.sum()), len(chosen))


def _cells(found: TunedGaps, dataset: str) -> tuple[str, ...]:
    chosen = _chosen(found.within)
    upper = int(np.isclose(chosen, max(STEPSIZES), rtol=1e-3).sum())
    both = found.within.merge(found.beyond, on=CELL)
    changed = int((both["gap_x"] * both["gap_y"] < 0).sum())
    edge = fmt.edge_choices([found.beyond])
    cells = [fmt.out_of(upper, len(chosen)), _beyond(found), edge, fmt.out_of(changed, len(both))]
    for one in (agreement(gaps, printed_of(dataset)) for gaps in found):
        cells.append(fmt.with_interval(one.rms, one.rms_half))
        cells += [fmt.decimal(one.rank_correlation), fmt.equal_signs(one)]
    return tuple(cells)
