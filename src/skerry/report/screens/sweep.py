"""`skerry sweep`: where each primitive does best; and, before anything is run, what it takes."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cell, Cells, Readings
from skerry.analysis.names import word
from skerry.analysis.recorded import in_words
from skerry.analysis.results import Results
from skerry.report import text
from skerry.runs.stages import ranking_measure, tuned_cells
from skerry.runs.sweep import Point, Sweep

if TYPE_CHECKING:
    from rich.table import Table

    from skerry.runs.forecast import Forecast

SHOWN = 3
PRIMITIVE = "server.primitive"


def tell(sweep: Sweep, results: Results) -> None:
    from rich.markup import escape

    console = text.console()
    counts = in_words(Counter(lane.status for lane in results))
    name = escape(results[0].experiment.name)
    console.print(f"[bold]{name}[/]: {len(results):,} runs, {counts}")
    console.print(best_cells(sweep, results))


def best_cells(sweep: Sweep, results: Results, shown: int = SHOWN) -> "Table":
    """The best few cells of every primitive, by their mean over seeds, tuned where asked."""
    points: Iterable[Point] = sweep.points
    if sweep.tune:
        points = [choice.point for choice in tuned_cells(sweep, results)]
    cells = _cells(sweep, results, points)
    headings = (
        field.replace(".", "\n") + ("\n(tuned)" if field == sweep.tune else "")
        for field in cells.fields
    )
    table = text.plain_table("best", *headings, cells.measure.replace("_", "\n"), bold=True)
    sign = 1 if cells.lower_is_better else -1
    found = cells.estimates()
    for label in cells.labels:
        of_label = [(cell, one) for (cell, other), one in found.items() if other == label]
        of_label.sort(key=lambda pair: sign * pair[1].mean)
        for rank, (cell, one) in enumerate(of_label[:shown]):
            mean = text.plus_minus(one.mean, one.half_width)
            table.add_row(label if rank == 0 else "", *map(word, cell), mean)
    return table


def _cells(sweep: Sweep, results: Results, points: Iterable[Point]) -> Cells:
    """What was read at these points of the sweep; a run that did not finish has no value."""
    measure = ranking_measure(sweep, results)
    values = {
        lane.experiment.key(): lane.final.get(measure, math.nan)
        if lane.status == "finished"
        else math.nan
        for lane in results
    }
    fields = tuple(field for field in sweep.fields if field != PRIMITIVE)
    readings: dict[Cell, list[Readings]] = {}
    for point in points:
        told = dict(point.cell)
        (part,) = readings.setdefault(tuple(told[field] for field in fields), [{}])
        keys = {seed: point.at(seed).key() for seed in sweep.seed_numbers}
        part[point.experiment.server.label] = {
            seed: values[key] for seed, key in keys.items() if key in values
        }
    return Cells(measure, None, fields, readings, {}, Counter(lane.status for lane in results))


def tell_forecast(found: "Forecast", out: Path) -> None:
    console = text.console()
    lines = [
        f"{found.cells:,} cells x {found.seeds} seeds: {found.runs:,} runs, {found.recorded:,} of "
        f"them recorded in {out}."
    ]
    if found.runs == found.recorded:
        lines += ["Nothing is left to compute."]
    else:
        need, free = text.size(found.stack_bytes, "GB", 2), text.size(found.free_bytes, "GB")
        lines += [
            f"{found.worlds:,} worlds, {found.stacks:,} stacks of up to {found.lanes:,} lanes, "
            f"{found.at_once:,} at once.",
            f"A stack takes about {need} of the {free} that are free.",
            f"About {text.duration(found.seconds)}, as one second of it went on this machine.",
        ]
    for line in lines:
        console.print(line, markup=False)
