"""The table after a sweep: where each primitive does best."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from skerry.analysis.results import Results
from skerry.analysis.statistics import Estimate, estimates
from skerry.measures import traits
from skerry.runs.stages import choices
from skerry.runs.sweep import Point, Sweep

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 3


def best_cells(sweep: Sweep, results: Results, shown: int = SHOWN) -> "Table":
    """The best few cells of every primitive, by their mean over seeds, tuned where asked."""
    from rich import box
    from rich.table import Table

    measure = ranking_measure(sweep, results)
    fields = [field for field in sweep.fields if field != "server.primitive"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("best", style="bold", no_wrap=True)
    for field in fields:
        tuned = "\n(tuned)" if field == sweep.tune else ""
        table.add_column(field.replace(".", "\n") + tuned, justify="right", no_wrap=True)
    table.add_column(measure.replace("_", "\n"), justify="right", no_wrap=True)
    sign = 1 if traits(measure).lower_is_better else -1
    for name, found in _by_primitive(sweep, results, measure).items():
        found.sort(key=lambda pair: sign * pair[1].mean)
        for rank, (point, value) in enumerate(found[:shown]):
            told = dict(point.cell)
            cells = [_cell(told[field]) for field in fields]
            table.add_row(name if rank == 0 else "", *cells, _interval(value))
    return table


def ranking_measure(sweep: Sweep, results: Results) -> str:
    """What the sweep is tuned by, if it was measured; the loss where nothing is classified."""
    there = {measure for lane in results for measure in lane.final}
    return sweep.tune_by if sweep.tune_by in there or not there else "average_loss"


def _by_primitive(
    sweep: Sweep, results: Results, measure: str
) -> dict[str, list[tuple[Point, Estimate]]]:
    finals = {
        lane.experiment.key(): lane.final[measure] for lane in results if measure in lane.final
    }
    points: Iterable[Point] = sweep.points
    if sweep.tune:
        points = [choice.point for choice in choices(sweep, results)]
    keys = [(point, [point.at(seed).key() for seed in sweep.seed_numbers]) for point in points]
    keys = [(point, runs) for point, runs in keys if not finals.keys().isdisjoint(runs)]
    values = [[finals.get(run, np.nan) for run in runs] for _, runs in keys]
    found: dict[str, list[tuple[Point, Estimate]]] = {}
    for (point, _), estimate in zip(keys, estimates(values) if values else (), strict=True):
        found.setdefault(point.experiment.server.label, []).append((point, estimate))
    return found


def _cell(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _interval(value: Estimate) -> str:
    spread = f" ± {value.half_width:.2g}" if value.count > 1 else ""
    return f"{value.mean:.4g}{spread}"
