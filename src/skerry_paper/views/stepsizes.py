"""Where the range of stepsizes ends: how often its ends are the best, and what tuning further
changes."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd

from skerry.report.text import Sheet
from skerry_paper.agreement import agreement, printed_of
from skerry_paper.plan import STEPSIZES
from skerry_paper.printed import CELL
from skerry_paper.protocol import SCORED, SHOWN_SCORINGS, SHOWN_TIMINGS, Protocol, Scaling, gaps
from skerry_paper.study import Study
from skerry_paper.targets import Target
from skerry_paper.views.formatting import dataset_words, give_or_take, out_of, plain_number, signs
from skerry_paper.views.view import View

SCALED = {"standard": "standard", "unit": "[0, 1]"}
NOTE = (
    "The paper tries 0.00316, 0.01, 0.0316 and 0.1; here one more on both sides, 0.001 and 0.316, "
    "where they were run. A choice is a cell and a primitive. At the upper end: of the choices "
    "among the paper's four, those where 0.1 is the best; beyond: where a stepsize outside the "
    "paper's range is better still. Distance, ranks and signs: the same cells against the printed "
    "tables, tuned within the paper's range, then beyond it; changed: cells whose winner is "
    "another."
)


class Tuned(NamedTuple):
    within: pd.DataFrame
    beyond: pd.DataFrame


def stepsizes(target: Target, studies: Mapping[str, Study]) -> View:
    rows, told = [], []
    datasets = dict.fromkeys(one.runs["dataset"].iloc[0] for one in studies.values())
    for dataset, scaling in product(datasets, get_args(Scaling)):
        those = [one.of(dataset=dataset, scaling=scaling) for one in studies.values()]
        for timing, scoring in product(SHOWN_TIMINGS, SHOWN_SCORINGS):
            protocol = Protocol(scoring, timing, "tuned", scaling)
            if not len((found := _tuned(those, protocol)).beyond):
                continue
            names = dataset_words(dataset), SCALED[scaling], f"{SCORED[scoring]}; {timing}"
            rows.append((*names, *_cells(found, dataset)))
            told.append(f"{', '.join(names)} {_beyond(found)}")
    header = (
        *("data set", "inputs", "scored", "0.1 the best", "beyond better", "changed"),
        *("distance", "ranks", "signs", "distance beyond", "ranks", "signs"),
    )
    sheet = Sheet(
        "Tuned within the paper's range, and beyond it", header, tuple(rows), "lll" + "r" * 9
    )
    verdict = f"Choices that a stepsize beyond the paper's range improves: {'; '.join(told)}."
    return View(target, verdict if told else "Not run beyond its range.", (sheet, NOTE))


def _tuned(studies: Sequence[Study], protocol: Protocol) -> Tuned:
    """Of the cells in which stepsizes beyond the range were tried."""
    paper = [round(size, 6) for size in STEPSIZES]
    within = gaps([one.of(stepsize=paper) for one in studies], protocol)
    beyond = gaps(studies, protocol)
    more = beyond.merge(within[[*CELL, "tried"]], on=CELL, suffixes=("", "_within"))
    most = more[more["tried"] > more["tried_within"]]
    return Tuned(within.merge(most[CELL], on=CELL), most)


def _chosen(cells: pd.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.concatenate([cells["stepsize_s2s"], cells["stepsize_s2a"]]).astype(float)


def _beyond(found: Tuned) -> str:
    chosen = _chosen(found.beyond)
    outside = (chosen > 1.01 * max(STEPSIZES)) | (chosen < 0.99 * min(STEPSIZES))
    return out_of(int(outside.sum()), len(chosen))


def _cells(found: Tuned, dataset: str) -> tuple[str, ...]:
    chosen = _chosen(found.within)
    upper = int(np.isclose(chosen, max(STEPSIZES), rtol=1e-3).sum())
    both = found.within.merge(found.beyond, on=CELL)
    changed = int((both["gap_x"] * both["gap_y"] < 0).sum())
    met = [agreement(cells, printed_of(dataset)) for cells in found]
    return (
        out_of(upper, len(chosen)),
        _beyond(found),
        out_of(changed, len(both)),
        *(
            part
            for one in met
            for part in (
                give_or_take(one.rms, one.rms_half),
                plain_number(one.rank_correlation),
                signs(one),
            )
        ),
    )
