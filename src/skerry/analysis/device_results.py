"""The scores of single devices at the end of runs, by cell and label, averaged over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cell
from skerry.analysis.run_table import RunTable, Stores, join, open_stores
from skerry.config.measures import traits
from skerry.errors import RecordsError
from skerry.files import place_of
from skerry.records.store import Run, Store

if TYPE_CHECKING:
    import pandas as pd

    from skerry.measure.device_scores import DeviceTable

ABOUT = ("island", "device", "samples", "own_tests")
TENTH = 0.1


@dataclass(frozen=True)
class DeviceResults:
    """The scores of every device, by cell and label, as means over seeds."""

    fields: tuple[str, ...]  # the fields that separate cells
    frame: "pd.DataFrame"
    """A row for each cell, label and device. The columns are the fields, primitive, island, device,
    samples, own_tests, seeds, and the means of the scores over seeds."""

    @cached_property
    def own(self) -> str:
        """The name of the score on a device's own data: own_accuracy or own_loss."""
        names: list[str] = [str(name) for name in self.frame.columns if name not in ABOUT]
        return next(name for name in names if name.startswith("own_"))

    @property
    def common(self) -> str:
        """The name of the score on the global test set."""
        return self.own.replace("own_", "device_")

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(self.frame["primitive"]))

    @property
    def lower_is_better(self) -> bool:
        return traits(self.own).lower_is_better

    @cached_property
    def cells(self) -> "dict[Cell, pd.DataFrame]":
        """A table for each cell, with a row per device, the worst first, and a column per label."""
        if not self.fields:
            return {(): self.table(self.frame)}
        groups = self.frame.groupby(list(self.fields), sort=False, dropna=False)
        return {cell: self.table(rows) for cell, rows in groups}

    def rows_of(self, cell: Cell) -> "pd.DataFrame":
        """The rows of `frame` of a cell. Rows that ignore a field belong to all cells."""
        rows = self.frame
        for field, value in zip(self.fields, cell, strict=True):
            rows = rows[(rows[field] == value) | rows[field].isna()]
        return rows

    def table(self, rows: "pd.DataFrame") -> "pd.DataFrame":
        """The rows of one cell with a row per device, the worst first, and a column per label."""
        about = rows.groupby("device", sort=False)[["island", "samples", "own_tests"]].first()
        labels = [label for label in self.labels if label in set(rows["primitive"])]
        wide = rows.pivot(index="device", columns="primitive", values=self.own)[labels]
        order = wide.mean(axis=1).sort_values(ascending=not self.lower_is_better).index
        return about.join(wide).loc[order].reset_index()


def tenths(values: "pd.Series[float]", lower_is_better: bool) -> tuple[float, float]:
    """The means of the worst tenth and of the best tenth of the values."""
    ranked = values.sort_values(ascending=not lower_is_better)
    size = max(1, math.ceil(TENTH * len(ranked)))
    return float(ranked[:size].mean()), float(ranked[-size:].mean())


def devices(path: Stores) -> DeviceResults:
    """The scores of every device at the end of the finished runs of a store (its folder or its
    file), or of a list of them, as means over seeds."""
    with open_stores(path) as stores:
        table = join([RunTable(tuple(one.runs()), paths=(place_of(one.path),)) for one in stores])
        runs = tuple(run for run in table.runs if run.status == "finished")
        return read_device_results(stores, replace(table, runs=runs, known_fields=table.fields))


def read_device_results(stores: Sequence[Store], table: RunTable) -> DeviceResults:
    """The device scores of these runs of stores. Runs without device scores are left out."""
    import pandas as pd

    def scores_of(run: Run) -> "DeviceTable | None":
        return next(filter(None, (store.devices(run.key) for store in stores)), None)

    rows = []
    for cell, by_label in table.positions.items():
        for label in table.labels:
            runs = (table.runs[place] for place in by_label.get(label, {}).values())
            if scores := list(filter(None, map(scores_of, runs))):
                rows.append(_average(cell, label, scores, table))
    if not rows:
        raise RecordsError(
            f"no finished run in {table.place} has the scores of single devices. Either an older "
            "version recorded the runs, or evaluate.measures lacks devices. Run them again."
        )
    return DeviceResults(table.axes, pd.concat(rows, ignore_index=True))


def _average(cell: Cell, label: str, tables: "list[DeviceTable]", runs: RunTable) -> "pd.DataFrame":
    """The mean scores over the seeds of one cell and label, with columns that name both."""
    import pandas as pd

    found = pd.concat([pd.DataFrame(table) for table in tables], ignore_index=True)
    scores = [name for name in found if name not in ABOUT]
    means = dict.fromkeys(("samples", "own_tests", *scores), "mean")
    rows = found.groupby(["island", "device"], sort=False, as_index=False).agg(means)
    rows.insert(0, "primitive", label)
    rows.insert(5, "seeds", len(tables))
    for place, (field, value) in enumerate(zip(runs.axes, cell, strict=True)):
        rows.insert(place, field, value)
    return rows
