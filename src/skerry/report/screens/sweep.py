"""The screens of `skerry sweep`, of its dry run, and of the dry run of `skerry ranks`."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cell, Cells, Readings
from skerry.analysis.names import format_value
from skerry.analysis.results import Results
from skerry.analysis.run_table import describe_stopped, format_statuses
from skerry.report import text
from skerry.report.screens.run import describe_void
from skerry.runs.stages import ranking_measure, tuned_cells
from skerry.runs.sweep import Point, Sweep

if TYPE_CHECKING:
    from rich.table import Table

    from skerry.runs.forecast import Forecast, RankPlan

SHOWN = 3
PRIMITIVE = "server.primitive"


def print_sweep(sweep: Sweep, results: Results) -> None:
    """Print the number of runs by status, and the best cells of every primitive."""
    from rich.markup import escape

    console = text.console()
    counts = format_statuses(Counter(lane.status for lane in results))
    name = escape(results[0].experiment.name)
    console.print(f"[bold]{name}[/]: {len(results):,} runs, {counts}")
    console.print(best_cells_table(sweep, results))
    stopped = describe_stopped(lane.run for lane in results if lane.run)
    for line in [*describe_void(results), *([stopped] if stopped else [])]:
        console.print(line, markup=False)


def best_cells_table(sweep: Sweep, results: Results, shown: int = SHOWN) -> "Table":
    """The best cells of every primitive by their mean over seeds, tuned if the sweep says so."""
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
            table.add_row(label if rank == 0 else "", *map(format_value, cell), mean)
    return table


def _cells(sweep: Sweep, results: Results, points: Iterable[Point]) -> Cells:
    """The final values at these points of the sweep; NaN for runs that did not finish."""
    measure = ranking_measure(sweep, results)
    finals = ((one, one.final if one.status == "finished" else {}) for one in results)
    values = {one.experiment.key(): final.get(measure, math.nan) for one, final in finals}
    fields = tuple(field for field in sweep.fields if field != PRIMITIVE)
    readings: dict[Cell, list[Readings]] = {}
    for point in points:
        values_by_field = dict(point.cell)
        (part,) = readings.setdefault(tuple(values_by_field[field] for field in fields), [{}])
        keys = {seed: point.at(seed).key() for seed in sweep.seed_numbers}
        found = {seed: values[key] for seed, key in keys.items() if key in values}
        part[point.experiment.server.label] = found
    return Cells(measure, None, fields, readings, {}, Counter(lane.status for lane in results))


def print_forecast(found: "Forecast", out: Path) -> None:
    """Print the expected number of runs, memory and time of a sweep."""
    lines = [
        f"{found.cells:,} cells x {text.plural(found.seeds, 'seed')}: {found.runs:,} runs, "
        f"{found.recorded:,} of them recorded in {out}."
    ]
    if found.runs > found.recorded:
        need, free = text.size(found.stack_bytes, "GB", 2), text.size(found.free_bytes, "GB")
        lines += [
            f"{found.worlds:,} worlds, {found.stacks:,} stacks of up to {found.lanes:,} lanes, "
            f"{found.at_once:,} at once.",
            f"A stack takes about {need} of memory; {free} are free.",
        ]
    _print_lines([*lines, _expected_time(found)])


def _expected_time(found: "Forecast") -> str:
    if found.runs == found.recorded:
        return "Nothing is left to compute."
    most, seconds = "at most " * found.stops, text.duration(found.seconds)
    return f"It will take {most}about {seconds}, measured by a one-second trial."


def _print_lines(lines: Iterable[str]) -> None:
    text.console().print(*lines, sep="\n", markup=False)


def print_run_plan(plan: "RankPlan", found: "Forecast | None", out: Path) -> None:
    """Print the memory and time of runs in one process, or the memory and traffic of each rank."""
    if found is None:
        _print_lines(_of_ranks(plan))
        return
    recorded = f" {found.recorded:,} of them recorded in {out}." if found.recorded else ""
    first = f"{_runs(plan)}, in one process.{recorded}"
    _print_lines([first, f"It takes about {_memory(plan)}.", _expected_time(found)])


def _of_ranks(plan: "RankPlan") -> list[str]:
    fewest, most = min(plan.devices), max(plan.devices)
    held = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    islands = text.plural(max(plan.islands), "island")
    many = text.plural(plan.cut_islands, "island")
    cut = f"{many} split between ranks" if plan.cut_islands else "no island split between ranks"
    return [
        f"{_runs(plan)}, on {text.plural(len(plan.devices), 'rank')}.",
        f"A rank holds {held} devices on up to {islands}; {cut}.",
        f"The largest rank takes about {_memory(plan)}.",
        f"In a server round a rank sends {_amount(plan.server_bytes)}; before each mixing it "
        f"receives {_amount(plan.border_bytes)} at most.",
    ]


def _runs(plan: "RankPlan") -> str:
    runs, lanes = text.plural(plan.runs, "run"), text.plural(plan.lanes, "lane")
    return f"{runs} of {sum(plan.devices):,} devices, up to {lanes} at once"


def _memory(plan: "RankPlan") -> str:
    need, free = text.size(plan.rank_bytes, "GB", 2), text.size(plan.free_bytes, "GB")
    return f"{need}; {free} are free here"


def _amount(count: int) -> str:
    return text.size(count) if count >= 10**6 else f"{count:,} bytes"
