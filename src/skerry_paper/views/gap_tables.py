"""View of tables 3 to 6: every printed gap and ours, under two scorings and two timings."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

import pandas as pd

from skerry.report.text import NOTHING, Sheet
from skerry_paper.agreement import agreement, baselines
from skerry_paper.plan import TOPOLOGIES
from skerry_paper.printed import REGIMES, TABLE_AXES, Along, in_table, printed_cells
from skerry_paper.protocol import SMALL_GAP, Protocol, cell_gaps, shown_protocols
from skerry_paper.study import Studies
from skerry_paper.targets import Target
from skerry_paper.views import formatting as fmt
from skerry_paper.views.view import View

SAME_SIGN, OTHER_SIGN, NO_SIGN = "✓", "✗", "·"
LEGEND = (
    "Accuracy of S2S minus S2A in points, ± half of the paired 95 % interval over seeds, each seed "
    "at the stepsize that is best on the other seeds, for each cell and primitive. Final: after "
    "100 rounds, as the paper states; last 20: the mean over the last 20 rounds. "
    f"{SAME_SIGN}: the printed sign; {OTHER_SIGN}: the opposite sign; {NO_SIGN}: the printed gap "
    f"is at most {SMALL_GAP:g}, or a dash (below its standard error)."
)


class TableCell(NamedTuple):
    """A cell of a table: a regime, a value along the axis, and a topology."""

    intra: str
    inter: str
    value: float
    topology: str


def gap_tables_view(target: Target, studies: Studies) -> View:
    """A table of agreement by scoring, then a table per regime with a row per cell."""
    (study,) = studies.values()
    printed = printed_cells()
    printed = printed[printed["table"] == target.name]
    found = {protocol: cell_gaps([study], protocol) for protocol in shown_protocols(study)}
    met = {protocol: agreement(frame, printed) for protocol, frame in found.items()}
    baseline = baselines(printed)
    rows = {one.short: each for one, each in met.items()} | baseline
    summary = Sheet(
        "Agreement",
        ("scored", *fmt.AGREEMENT_HEADER),
        tuple((name, *fmt.agreement_cells(one)) for name, one in rows.items()),
        f"l{fmt.AGREEMENT_SIDES}",
    )
    sheets = _regime_sheets(printed, found, TABLE_AXES[target.name])
    verdict = (
        f"Distance in points: {fmt.distances_by_timing(met)}; {fmt.baseline_distances(baseline)}."
    )
    cells = (in_table(frame, TABLE_AXES[target.name]) for frame in found.values())
    legend = f"{LEGEND} {fmt.stepsizes_tried(study.runs['stepsize'])}{fmt.edges_sentence(cells)}"
    if not met:
        verdict = "Nothing was scored."
    return View(target, verdict, (summary, fmt.AGREEMENT_NOTE, *sheets, legend))


def _regime_sheets(
    printed: pd.DataFrame, found: Mapping[Protocol, pd.DataFrame], along: Along
) -> list[Sheet]:
    theirs = _by_cell(printed, along)
    ours = {protocol: _by_cell(frame, along) for protocol, frame in found.items()}
    header = (
        fmt.SYMBOLS[along],
        "topology",
        "printed",
        "leads",
        *(part for protocol in found for part in (protocol.short, "")),
    )
    rows: dict[tuple[str, str], list[tuple[str, ...]]] = {regime: [] for regime in REGIMES.values()}
    for cell in _in_order(theirs):
        cells = [part for one in ours.values() for part in _ours(theirs[cell], one.get(cell))]
        rows[cell.intra, cell.inter].append((*_printed(cell, theirs[cell]), *cells))
    sides = "llrl" + "rl" * len(found)
    return [Sheet(fmt.regime_name(*regime), header, tuple(part), sides)
            for regime, part in rows.items() if part]  # fmt: skip


def _by_cell(found: pd.DataFrame, along: Along) -> dict[TableCell, Any]:
    """The row of each cell of a table."""
    rows: Iterable[Any] = in_table(found, along).itertuples()
    return {
        TableCell(row.intra, row.inter, round(float(getattr(row, along)), 6), row.topology): row
        for row in rows
    }


def _in_order(cells: Iterable[TableCell]) -> Iterator[TableCell]:
    """Sort cells in the paper's order; unknown topologies come last."""
    order = {regime: i for i, regime in enumerate(REGIMES.values())}
    rank = {name: i for i, name in enumerate(TOPOLOGIES)}
    yield from sorted(
        cells,
        key=lambda one: (
            order[one.intra, one.inter],
            one.value,
            rank.get(one.topology, len(rank)),
            one.topology,
        ),
    )


def _printed(cell: TableCell, row: Any) -> tuple[str, ...]:
    gap = fmt.signed_points(row.gap) if isfinite(row.gap) else "--"
    return f"{cell.value:g}", cell.topology, gap, row.winner


def _ours(theirs: Any, ours: Any | None) -> tuple[str, str]:
    """Our gap, and a mark for whether it has the printed sign."""
    if ours is None:
        return NOTHING, ""
    same = SAME_SIGN if theirs.gap * ours.gap > 0 else OTHER_SIGN
    return fmt.with_error(ours.gap, ours.half), same if abs(theirs.gap) > SMALL_GAP else NO_SIGN
