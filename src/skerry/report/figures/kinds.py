"""The kinds of figure that show what was measured: which panels there are, what each shows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from skerry.analysis.answers import Answers
from skerry.analysis.cells import Cell, Cells
from skerry.analysis.grid import Grid
from skerry.config.fields import GRAPH_FILES
from skerry.config.measures import shown
from skerry.errors import SkerryError, argument
from skerry.report.figures.bounds import THEORY, bound, with_expected
from skerry.report.figures.captions import cell_title
from skerry.report.figures.from_store import Asked, Drawn, drawn, notes_on
from skerry.report.figures.fronts import front
from skerry.report.figures.gaps import colour_bar, gap_heat_map, none_if_nan
from skerry.report.figures.panels import NARROWEST, Panel, in_a_row
from skerry.report.figures.rounds import cost, curves
from skerry.report.figures.sensitivities import sensitivity
from skerry.report.figures.series import labelled, with_known_labels
from skerry.theory.ratios import notes_on_rules

if TYPE_CHECKING:
    import pandas as pd

SERVER_AXES = ("server.sampled", "server.period")
TOPOLOGY, DEVICES = "network.topology", "network.devices"
WIDE = 2.0
"""Inches that a map with numbers in its cells needs."""
LOWEST, ROW = 2.0, 0.17
"""Inches of a map and of each of its rows, at least."""
HATCHED = "Hatched: no clear lead at level 0.05 (paired t tests after Holm), or not tested."

THEORY_AXES = (DEVICES, "server.selection", "server.weights")

Draw = Callable[..., object]
"""Takes a frame, and an axis by name."""


def curves_of(asked: Asked) -> Drawn:
    measures = asked.measures or (asked.recorded.measure(),)
    chosen = _chosen(asked, *measures)
    lines = chosen.field(asked.lines) if asked.lines else None
    draws = [partial(curves, measure=measure, lines=lines) for measure in measures]
    return _by_cell(asked, chosen, asked.recorded.frame(), draws, lines)


def cost_of(asked: Asked) -> Drawn:
    measure = asked.one_measure() or asked.recorded.measure()
    price = asked.x or "messages"
    draw = partial(cost, measure=measure, price=price)
    return _by_cell(asked, _chosen(asked, measure), asked.recorded.frame(), [draw])


def front_of(asked: Asked) -> Drawn:
    there = asked.recorded.measured
    x = asked.x or shown("device_accuracy", there)
    y = asked.one_measure() or shown("own_accuracy", there)
    draw = partial(front, x=x, y=y)
    return _by_cell(asked, _chosen(asked, x, y), asked.recorded.finals(), [draw])


def bound_of(asked: Asked) -> Drawn:
    measures = asked.measures or tuple(THEORY)
    chosen = _chosen(asked, *measures, optimizer=["fedavg"])  # the theory's server
    # Nothing else plays a part in the theory.
    by = asked.panel_fields(chosen, [field for field in chosen.axes if field in THEORY_AXES])
    experiments = {run.key: run.experiment for run in chosen.runs}
    frame = with_expected(asked.recorded.frame(), experiments)
    frame = frame.assign(devices=frame["key"].map(_devices(chosen)))
    draws = [partial(bound, measure=measure) for measure in measures]
    found = _by_cell(asked, chosen, frame, draws, "server.sampled", by)
    return replace(found, notes=(*found.notes, *notes_on_rules(experiments.values())))


def gap_of(asked: Asked) -> Drawn:
    cells = _cells(asked)
    first, second = _pair(asked, cells)
    rows, columns = _map_axes(asked, cells)
    shown = [field for field in (rows, columns) if field]
    by = asked.panel_fields(cells, [field for field in cells.fields if field not in shown])
    frame = with_known_labels(Answers(cells.by([*shown, *by]), second).frame(), "primitive")
    apart = frame.loc[frame["primitive"] == first, "difference"].astype(float)  # None where no pair
    largest = float(apart.abs().max())
    panels = [
        Panel(
            cell_title(by, cell),
            partial(gap_heat_map, part, rows, columns, label=first, largest=largest, bar=False),
        )
        for cell, part in _parts(frame, by).items()
    ]
    notes = [*notes_on(cells.statuses, cells.fields, [*shown, *by]), HATCHED]
    height = max(LOWEST, ROW * frame[rows].nunique() + 0.6) if rows else LOWEST
    beside = in_a_row(len(panels), asked.width, WIDE)
    found = drawn(asked, panels, notes, columns=beside, height=height)
    colour_bar(found.figure.axes, first, second, cells.measure)
    return found


def sensitivity_of(asked: Asked) -> Drawn:
    """As the paper does: along one of K and H, the other stays at its smallest value."""
    cells = _cells(asked)
    along = _along(asked, cells)
    lines = _lines(asked, cells, along)
    inside = [*along, *lines, *SERVER_AXES]
    by = asked.panel_fields(cells, [field for field in cells.fields if field not in inside])
    of_file = str(cells.constants.get(TOPOLOGY)).lower().endswith(GRAPH_FILES)
    panels: dict[tuple[Cell, str], Panel] = {}
    for x in along:
        here, held = _held_lowest(cells, [x, *lines, *by])
        answers = Answers(here.by([x, *lines, *by]), here.labels[0])
        frame = with_known_labels(answers.frame(), "primitive")
        for cell, part in _parts(frame, by).items():
            panels[cell, x] = Panel(
                cell_title((*by, *held), (*cell, *held.values())),
                partial(
                    sensitivity,
                    part,
                    x,
                    lines=next(iter(lines), None),
                    devices=None if of_file else cells.constants.get(DEVICES),
                ),
            )
    cells_in_order = dict.fromkeys(cell for cell, _ in panels)
    ordered = [panels[cell, x] for cell in cells_in_order for x in along]
    notes = notes_on(cells.statuses, cells.fields, [*inside, *by])
    return drawn(asked, ordered, notes, columns=len(along) if len(along) > 1 else None)


def _chosen(asked: Asked, *measures: str, **where: list[str]) -> Grid:
    for measure in measures:
        asked.recorded.measure(measure)  # its faults tell what there is
    return asked.recorded.grid.where({**asked.where, **where}, asked.compare)


def _devices(chosen: Grid) -> dict[str, int]:
    return {run.key: run.experiment.network.devices for run in chosen.runs}


def _rows(frame: "pd.DataFrame", chosen: Grid) -> "pd.DataFrame":
    return frame[frame["key"].isin([run.key for run in chosen.runs])]


def _by_cell(
    asked: Asked,
    chosen: Grid,
    frame: "pd.DataFrame",
    draws: Sequence[Draw],
    inside: str | None = None,
    by: Sequence[str] | None = None,
) -> Drawn:
    """A panel for each cell and each thing to draw; `inside` is a field that panels show, and `by`
    are the fields that tell panels apart: those asked for, else all others that vary."""
    varying = [field for field in chosen.axes if field != inside]
    by = asked.panel_fields(chosen, varying) if by is None else tuple(by)
    frame = with_known_labels(labelled(_rows(frame, chosen)), "label")
    panels = []
    for cell, part in chosen.split(by).items():
        rows = _rows(frame, part)
        if inside:
            told = {run.key: part.fields[run.key].get(inside) for run in part.runs}
            rows = rows.assign(**{inside: rows["key"].map(told)})
        panels += [Panel(cell_title(by, cell), partial(draw, rows)) for draw in draws]
    side_by_side = len(draws) > 1 and asked.width / len(draws) >= NARROWEST
    notes = notes_on(asked.recorded.statuses, varying, by)
    return drawn(asked, panels, notes, columns=len(draws) if side_by_side else None)


def _cells(asked: Asked) -> Cells:
    measure = asked.one_measure()
    cells = asked.recorded.cells(measure, last=asked.last, where=asked.where, compare=asked.compare)
    return cells.best(asked.best) if asked.best is not None else cells


def _parts(frame: "pd.DataFrame", by: Sequence[str]) -> dict[Cell, "pd.DataFrame"]:
    """The rows of each panel."""
    rows = [tuple(map(none_if_nan, row)) for row in frame[list(by)].itertuples(index=False)]
    return {cell: frame[[row == cell for row in rows]] for cell in dict.fromkeys(rows)}


def _pair(asked: Asked, cells: Cells) -> tuple[str, str]:
    """The two labels of a gap: those asked for; s2s and s2a where they are."""
    if asked.compare and len(asked.compare) != 2:
        raise SkerryError(
            f"a gap is that of two primitives (got {', '.join(asked.compare)}). Example: "
            f"{argument('compare')} s2s,s2a"
        )
    if len(cells.labels) < 2:
        raise SkerryError(
            f"a gap needs two primitives (got {', '.join(cells.labels)} alone). Run another beside "
            f"it: skerry run --compare s2s,s2a --out {asked.folder}"
        )
    if asked.compare:
        return cells.label(asked.compare[0]), cells.label(asked.compare[1])
    second = "s2a" if "s2a" in cells.labels else cells.labels[-1]
    others = [name for name in cells.labels if name != second]
    return "s2s" if "s2s" in others else others[0], second


def _map_axes(asked: Asked, cells: Cells) -> tuple[str | None, str]:
    """Rows and columns: as asked for; else period and sampled come first, of what varies."""
    named = [asked.rows, asked.columns, *(asked.by or ())]
    taken = [cells.field(one) for one in named if one is not None]
    free = [field for field in cells.fields if field not in taken]
    free.sort(key=lambda field: (field not in SERVER_AXES, field != SERVER_AXES[0]))
    if asked.columns is None and not free:
        raise SkerryError(
            "a gap map needs a field that varies between the runs (got none). The one gap there "
            f"is: skerry results {asked.folder}"
        )
    columns = cells.field(asked.columns) if asked.columns is not None else free.pop(0)
    if asked.rows is not None:
        return cells.field(asked.rows), columns
    return (free[0] if free else None), columns


def _along(asked: Asked, cells: Cells) -> list[str]:
    """The horizontal axes: as asked for; else sampled and period, where they vary."""
    if asked.x is not None:
        return [cells.field(asked.x)]
    if not cells.fields:
        raise SkerryError(
            "a sensitivity figure needs a field that varies between the runs (got none). Sweep "
            "over server.sampled or server.period: skerry sweep --help"
        )
    free = [field for field in cells.fields if field not in map(cells.field, asked.by or ())]
    return [field for field in SERVER_AXES if field in free] or free[:1] or [cells.fields[0]]


def _lines(asked: Asked, cells: Cells, along: Sequence[str]) -> list[str]:
    """The field told by line styles: as asked for; else the topology, as in the paper."""
    if asked.lines is not None:
        return [cells.field(asked.lines)]
    shown = [*along, *map(cells.field, asked.by or ())]
    return [TOPOLOGY] if TOPOLOGY in cells.fields and TOPOLOGY not in shown else []


def _held_lowest(cells: Cells, shown: Sequence[str]) -> tuple[Cells, dict[str, Any]]:
    """Of K and H, what is not shown stays at its smallest value."""
    held = {}
    for field in SERVER_AXES:
        if field in cells.fields and field not in shown:
            at = cells.fields.index(field)
            held[field] = min(cell[at] for cell in cells.readings if cell[at] is not None)
            cells = cells.where({field: [str(held[field])]})
    return cells, held
