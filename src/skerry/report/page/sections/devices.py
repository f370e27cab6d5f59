"""What single devices scored at the end: who is left behind, by island and by size."""

from typing import Any

from skerry.analysis.devices import Devices, of_grid
from skerry.config.measures import traits
from skerry.errors import RecordsError
from skerry.records.store import Store
from skerry.report.page.blocks import Section, note, text, widget
from skerry.report.page.study import Study
from skerry.report.screens.devices import notes

MOST_CELLS = 12
MOST_DEVICES = 2_000
"""In a picture; of more, every so many, ranked by score, are shown."""


def devices(study: Study) -> Section | None:
    """None where nothing was kept of single devices."""
    try:
        with Store.read(study.path) as store:
            found = of_grid(store, study.grid)
    except RecordsError:
        return None
    shown = [_cell(found, cell) for cell in study.grid.cells[:MOST_CELLS]]
    told = [*notes(found, whole=True), *_left_out(study, found)]
    return Section(
        "devices",
        "Who is left behind",
        [
            text(
                "Every device at the end of its runs, a mean over the seeds: on its own data, or "
                "on what all are measured on. A box holds the middle half of an island's devices; "
                "over the samples, small devices stand left."
            ),
            widget("devices", own=found.own, title=traits(found.own).title, cells=shown),
            *map(note, told),
        ],
    )


def _cell(found: Devices, cell: tuple[Any, ...]) -> dict[str, Any] | None:
    """The devices of a cell as columns, and by label what they scored."""
    rows = found.rows_of(cell)
    if rows.empty:
        return None
    table = found.table(rows)
    step = -(-len(table) // MOST_DEVICES)
    chosen = table["device"][::step]
    scores = {}
    for label, part in rows.groupby("primitive", sort=False):
        part = part.set_index("device").reindex(chosen)
        scores[str(label)] = [_column(part[name]) for name in (found.own, found.common)]
    about = table[::step]
    return {
        "device": about["device"].tolist(),
        "island": about["island"].tolist(),
        "samples": about["samples"].round().astype(int).tolist(),
        "tests": about["own_tests"].round().astype(int).tolist(),
        "scores": scores,
    }


def _column(values: Any) -> list[float | None]:
    return [None if value != value else round(float(value), 4) for value in values]


def _left_out(study: Study, found: Devices) -> list[str]:
    told = []
    if len(study.grid.cells) > MOST_CELLS:
        told.append(f"The devices of the first {MOST_CELLS} cells are shown.")
    most = found.frame["device"].nunique()
    if most > MOST_DEVICES:
        told.append(f"Of {most:,} devices, at most {MOST_DEVICES:,} from worst to best are drawn.")
    return told
