"""`skerry results --devices`: who is left behind, island by island and device by device."""

import math
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cell
from skerry.analysis.devices import Devices, tenths
from skerry.analysis.names import short_names, word
from skerry.report import text
from skerry.report.text import Sheet, plural

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 30
"""Devices in a table; the worst are shown."""


def tell(found: Devices) -> None:
    console = text.console()
    for sheet in sheets(found):
        console.print(sheet.title, style="bold", markup=False)
        console.print(sheet.to_rich())
    for line in notes(found):
        console.print(line, markup=False)


def sheets(found: Devices) -> list[Sheet]:
    """For every cell its islands, and its devices."""
    return [
        sheet
        for cell, table in found.cells.items()
        for sheet in (_islands(found, cell, table), _devices(found, cell, table))
    ]


def notes(found: Devices, whole: bool = False) -> list[str]:
    """By what devices were scored, and who is not shown, unless the `whole` is."""
    tested = found.frame["own_tests"] > 0
    told = []
    if not tested.any():
        told.append(
            "No device has test samples of its own: own scores are weighed by its mix of data."
        )
    elif not tested.all():
        without = found.frame.loc[~tested, "device"].nunique()
        told.append(
            f"{plural(without, 'device')} without test samples of their own: their own scores are "
            "weighed by their mix of data."
        )
    most = max(len(table) for table in found.cells.values())
    if most > MOST_SHOWN and not whole:
        told.append(
            f"The {MOST_SHOWN} worst of {most:,} devices are shown; CSV and JSON hold all of them."
        )
    return told


def _islands(found: Devices, cell: Cell, table: "pd.DataFrame") -> Sheet:
    """Means of islands, and the tenths of all devices."""
    labels = _labels(found, table)
    groups = table.groupby("island", sort=False)
    rows = [
        (
            str(island),
            f"{len(rows):,}",
            f"{rows['samples'].mean():,.0f}",
            *(_number(found, rows[label].mean()) for label in labels),
        )
        for island, rows in sorted(groups, key=lambda group: str(group[0]))
    ]
    for place, words in enumerate(("worst tenth", "best tenth")):
        scores = (tenths(table[label].dropna(), found.lower_is_better)[place] for label in labels)
        rows.append((words, "", "", *(_number(found, score) for score in scores)))
    header = ("island", "devices", "samples", *labels)
    title = f"{_of_cell(found, cell)}{_what(found)}, by island: mean of the devices"
    return Sheet(title, header, tuple(rows), "lrr" + "r" * len(labels))


def _devices(found: Devices, cell: Cell, table: "pd.DataFrame") -> Sheet:
    labels = _labels(found, table)
    rows = [
        (
            row["device"],
            row["island"],
            f"{row['samples']:,.0f}",
            f"{row['own_tests']:,.0f}",
            *(_number(found, row[label]) for label in labels),
        )
        for row in table.head(MOST_SHOWN).to_dict("records")
    ]
    header = ("device", "island", "samples", "own tests", *labels)
    title = f"{_of_cell(found, cell)}{_what(found)}, by device: the worst first"
    return Sheet(title, header, tuple(rows), "llrr" + "r" * len(labels))


def _labels(found: Devices, table: "pd.DataFrame") -> list[str]:
    return [label for label in found.labels if label in table]


def _what(found: Devices) -> str:
    seeds = int(found.frame["seeds"].max())
    return f"{found.own} at the end, {plural(seeds, 'seed')}"


def _of_cell(found: Devices, cell: Cell) -> str:
    names = short_names(found.fields).values()
    told = ", ".join(f"{name} {word(value)}" for name, value in zip(names, cell, strict=True))
    return f"{told}: " if told else ""


def _number(found: Devices, value: float) -> str:
    return text.NOTHING if math.isnan(value) else text.of_measure(found.own, value)
