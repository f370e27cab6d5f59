"""The kinds of `skerry figure` that show measures: their panels, and what each panel shows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skerry.analysis.cells import Cell, Cells, ComparedCells
from skerry.analysis.run_table import RunTable
from skerry.config.measures import shown
from skerry.config.toml import is_graph_file
from skerry.errors import SkerryError, argument, skerry_command
from skerry.report.figure_kinds import DrawnFigure, FigureRequest
from skerry.report.figures import panels
from skerry.report.figures.final_values import front, sensitivity
from skerry.report.figures.gaps import colour_bar, gap_heat_map, none_if_nan
from skerry.report.figures.panels import Panel, cell_title, draw_panels, omission_notes
from skerry.report.figures.predictions import THEORY, server_ratios, with_expected
from skerry.report.figures.rounds import curves
from skerry.report.figures.series import with_known_labels
from skerry.theory.ratios import notes_on_rules

if TYPE_CHECKING:
    import pandas as pd

SERVER_AXES = ("server.sampled", "server.period")
TOPOLOGY, DEVICES = "network.topology", "network.devices"
WIDE = 2.0  # the smallest width in inches of a map with numbers in its cells
LOWEST, ROW = 2.0, 0.17  # the smallest height in inches of a map, and of each of its rows
HATCHED = "Hatched: no clear lead at level 0.05 (paired t tests, Holm-corrected), or not tested."

THEORY_AXES = (DEVICES, "server.selection", "server.weights")  # they change predictions


def draw_curves(request: FigureRequest) -> DrawnFigure:
    """Measures over the rounds or over a cost, one panel per cell."""
    return _curves_over(request, request.measures, request.over)


def draw_cost(request: FigureRequest) -> DrawnFigure:
    """A measure against what was spent so far, one panel per cell."""
    measure = request.one_measure()
    return _curves_over(request, (measure,) if measure else (), request.x or "messages")


def _curves_over(request: FigureRequest, measures: Sequence[str], over: str) -> DrawnFigure:
    measures = measures or (request.table.check_measure(),)
    chosen = _chosen(request, *measures)
    lines = chosen.field(request.lines) if request.lines else None
    draws = [partial(curves, measure=measure, lines=lines, over=over) for measure in measures]
    return _by_cell(request, chosen, request.table.frame(), draws, lines)


def draw_front(request: FigureRequest) -> DrawnFigure:
    """One measure against another, one panel per cell."""
    known = request.table.measures
    x = request.x or shown("device_accuracy", known)
    y = request.one_measure() or shown("own_accuracy", known)
    draw = partial(front, x=x, y=y)
    return _by_cell(request, _chosen(request, x, y), request.table.finals(), [draw])


def draw_bound(request: FigureRequest) -> DrawnFigure:
    """Effect of server rounds on disagreement and bias, measured and predicted."""
    measures = request.measures or tuple(THEORY)
    chosen = _chosen(request, *measures, optimizer=["fedavg"])  # the theory's server
    by = request.panel_fields(chosen, [field for field in chosen.axes if field in THEORY_AXES])
    experiments = {run.key: run.experiment for run in chosen.runs}
    frame = with_expected(request.table.frame(), experiments)
    devices = {key: one.network.devices for key, one in experiments.items()}
    frame = frame.assign(devices=frame["key"].map(devices))
    draws = [partial(server_ratios, measure=measure) for measure in measures]
    found = _by_cell(request, chosen, frame, draws, "server.sampled", by)
    return replace(found, notes=(*found.notes, *notes_on_rules(experiments.values())))


def draw_gap(request: FigureRequest) -> DrawnFigure:
    """The difference of two primitives as a map over two fields."""
    cells = _cells(request)
    first, second = _pair(request, cells)
    rows, columns = _map_axes(request, cells)
    shown = [field for field in (rows, columns) if field]
    by = request.panel_fields(cells, [field for field in cells.fields if field not in shown])
    frame = with_known_labels(ComparedCells(cells.by([*shown, *by]), second).frame(), "primitive")
    gaps = frame.loc[frame["primitive"] == first, "difference"].astype(float)  # None where no pair
    largest = float(gaps.abs().max())
    draw = partial(gap_heat_map, rows=rows, columns=columns, label=first, largest=largest)
    maps = [
        Panel(cell_title(by, cell), partial(draw, part, bar=False))
        for cell, part in _parts(frame, by).items()
    ]
    notes = [*omission_notes(cells.statuses, cells.fields, [*shown, *by]), HATCHED]
    height = max(LOWEST, ROW * frame[rows].nunique() + 0.6) if rows else LOWEST
    per_row = panels.panels_per_row(len(maps), request.width, WIDE)
    found = draw_panels(request, maps, notes, columns=per_row, height=height)
    colour_bar(found.figure.axes, first, second, cells.measure)
    return found


def draw_sensitivity(request: FigureRequest) -> DrawnFigure:
    """A measure against K and H, each with the other at its smallest, or against any field."""
    cells = _cells(request)
    along = _along(request, cells)
    lines = _lines(request, cells, along)
    inside = [*along, *lines, *SERVER_AXES]
    by = request.panel_fields(cells, [field for field in cells.fields if field not in inside])
    of_file = is_graph_file(str(cells.constants.get(TOPOLOGY)))
    devices = None if of_file else cells.constants.get(DEVICES)
    found: dict[Cell, list[Panel]] = {}
    for x in along:
        here, held = _held_lowest(cells, [x, *lines, *by])
        answers = ComparedCells(here.by([x, *lines, *by]), here.labels[0])
        frame = with_known_labels(answers.frame(), "primitive")
        for cell, part in _parts(frame, by).items():
            title = cell_title((*by, *held), (*cell, *held.values()))
            draw = partial(sensitivity, lines=next(iter(lines), None), devices=devices)
            found.setdefault(cell, []).append(Panel(title, partial(draw, part, x)))
    ordered = [panel for of_cell in found.values() for panel in of_cell]
    notes = omission_notes(cells.statuses, cells.fields, [*inside, *by])
    return draw_panels(request, ordered, notes, columns=len(along) if len(along) > 1 else None)


def _chosen(request: FigureRequest, *measures: str, **where: list[str]) -> RunTable:
    for measure in measures:
        request.table.check_measure(measure)
    return request.table.finished.where({**request.where, **where}, request.compare)


def _rows(frame: "pd.DataFrame", chosen: RunTable) -> "pd.DataFrame":
    return frame[frame["key"].isin([run.key for run in chosen.runs])]


def _by_cell(
    request: FigureRequest,
    chosen: RunTable,
    frame: "pd.DataFrame",
    draws: Sequence[Callable[..., object]],
    inside: str | None = None,
    by: Sequence[str] | None = None,
) -> DrawnFigure:
    """One panel for each cell and each function in `draws`. `inside` is a field that panels show
    themselves; `by` are the fields that separate panels (default: as requested)."""
    varying = [field for field in chosen.axes if field != inside]
    by = request.panel_fields(chosen, varying) if by is None else tuple(by)
    rows = _rows(frame, chosen)
    frame = with_known_labels(rows.assign(label=rows["key"].map(chosen.label_of)), "label")
    drawn = []
    for cell, part in chosen.split(by).items():
        rows = _rows(frame, part)
        if inside:
            values = {run.key: part.fields[run.key].get(inside) for run in part.runs}
            rows = rows.assign(**{inside: rows["key"].map(values)})
        drawn += [Panel(cell_title(by, cell), partial(draw, rows)) for draw in draws]
    side_by_side = len(draws) > 1 and request.width / len(draws) >= panels.NARROWEST
    notes = omission_notes(request.table.statuses, varying, by)
    return draw_panels(request, drawn, notes, columns=len(draws) if side_by_side else None)


def _cells(request: FigureRequest) -> Cells:
    chosen: dict[str, Any] = {"where": request.where, "compare": request.compare}
    cells = request.table.read_measure(request.one_measure(), last=request.last, **chosen)
    return cells.best(request.best) if request.best is not None else cells


def _parts(frame: "pd.DataFrame", by: Sequence[str]) -> dict[Cell, "pd.DataFrame"]:
    """The rows of each combination of values of the fields `by`."""
    rows = [tuple(map(none_if_nan, row)) for row in frame[list(by)].itertuples(index=False)]
    return {cell: frame[[row == cell for row in rows]] for cell in dict.fromkeys(rows)}


def _pair(request: FigureRequest, cells: Cells) -> tuple[str, str]:
    """The two labels of a gap: as requested, else s2s and s2a if they were run."""
    if request.compare and len(request.compare) != 2:
        raise SkerryError(
            f"a gap compares two primitives (got {', '.join(request.compare)}). Example: "
            f"{argument('compare')} s2s,s2a"
        )
    if len(cells.labels) < 2:
        raise SkerryError(
            f"a gap needs two primitives (got {', '.join(cells.labels)} alone). See how to run "
            f"another one: {skerry_command('results', request.folder)}"
        )
    if request.compare:
        return cells.label(request.compare[0]), cells.label(request.compare[1])
    second = "s2a" if "s2a" in cells.labels else cells.labels[-1]
    others = [name for name in cells.labels if name != second]
    return "s2s" if "s2s" in others else others[0], second


def _map_axes(request: FigureRequest, cells: Cells) -> tuple[str | None, str]:
    """The fields of rows and columns: as requested, else period and sampled if they vary."""
    named = [request.rows, request.columns, *(request.by or ())]
    taken = [cells.field(one) for one in named if one is not None]
    free = [field for field in cells.fields if field not in taken]
    free.sort(key=lambda field: (field not in SERVER_AXES, field != SERVER_AXES[0]))
    if request.columns is None and not free:
        raise SkerryError(
            "a gap map needs a field that varies between the runs (got none). Print the one gap: "
            f"{skerry_command('results', request.folder)}"
        )
    columns = cells.field(request.columns) if request.columns is not None else free.pop(0)
    if request.rows is not None:
        return cells.field(request.rows), columns
    return (free[0] if free else None), columns


def _along(request: FigureRequest, cells: Cells) -> list[str]:
    """The fields of the horizontal axes: as requested, else sampled and period if they vary."""
    if request.x is not None:
        return [cells.field(request.x)]
    if not cells.fields:
        raise SkerryError(
            "a sensitivity figure needs a field that varies between the runs (got none). Sweep "
            f"over server.sampled or server.period: {skerry_command('sweep', help=True)}"
        )
    free = [field for field in cells.fields if field not in map(cells.field, request.by or ())]
    return [field for field in SERVER_AXES if field in free] or free[:1] or [cells.fields[0]]


def _lines(request: FigureRequest, cells: Cells, along: Sequence[str]) -> list[str]:
    """The field shown by line styles: as requested, else the topology, as in the paper."""
    if request.lines is not None:
        return [cells.field(request.lines)]
    shown = [*along, *map(cells.field, request.by or ())]
    return [TOPOLOGY] if TOPOLOGY in cells.fields and TOPOLOGY not in shown else []


def _held_lowest(cells: Cells, shown: Sequence[str]) -> tuple[Cells, dict[str, Any]]:
    """The cells in which K and H, unless shown, have their smallest values; and these values."""
    held = {}
    for field in SERVER_AXES:
        if field in cells.fields and field not in shown:
            at = cells.fields.index(field)
            held[field] = min(cell[at] for cell in cells.readings if cell[at] is not None)
            lowest = (None, held[field])
            kept = {cell: found for cell, found in cells.readings.items() if cell[at] in lowest}
            cells = replace(cells, readings=kept)
    return cells, held
