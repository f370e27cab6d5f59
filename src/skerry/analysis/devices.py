"""What single devices scored at the end of runs: who is left behind, and where."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skerry.analysis.cells import Cell
from skerry.analysis.grid import Grid
from skerry.config.measures import traits
from skerry.errors import RecordsError
from skerry.records.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from skerry.measure.device_scores import DeviceTable

ABOUT = ("island", "device", "samples", "own_tests")
TENTH = 0.1


@dataclass(frozen=True)
class Devices:
    """Every device of every cell and label, over its seeds."""

    fields: tuple[str, ...]
    """What tells cells apart."""
    frame: "pd.DataFrame"
    """A row for each cell, label and device: the fields, primitive, island, device, samples,
    own_tests, seeds, and the mean of its scores over the seeds."""

    @cached_property
    def own(self) -> str:
        """The score on a device's own data: by accuracy or by loss."""
        names: list[str] = [str(name) for name in self.frame.columns if name not in ABOUT]
        return next(name for name in names if name.startswith("own_"))

    @property
    def common(self) -> str:
        """The score on what all devices are measured on."""
        return self.own.replace("own_", "device_")

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(self.frame["primitive"]))

    @property
    def lower_is_better(self) -> bool:
        return traits(self.own).lower_is_better

    @cached_property
    def cells(self) -> "dict[Cell, pd.DataFrame]":
        """A table for each cell: devices below each other, the worst first; labels beside."""
        if not self.fields:
            return {(): self.table(self.frame)}
        groups = self.frame.groupby(list(self.fields), sort=False, dropna=False)
        return {cell: self.table(rows) for cell, rows in groups}

    def rows_of(self, cell: Cell) -> "pd.DataFrame":
        """All rows of a cell. One for which a field plays no part stands in all cells."""
        rows = self.frame
        for field, value in zip(self.fields, cell, strict=True):
            rows = rows[(rows[field] == value) | rows[field].isna()]
        return rows

    def table(self, rows: "pd.DataFrame") -> "pd.DataFrame":
        about = rows.groupby("device", sort=False)[["island", "samples", "own_tests"]].first()
        wide = rows.pivot(index="device", columns="primitive", values=self.own)[self._there(rows)]
        order = wide.mean(axis=1).sort_values(ascending=not self.lower_is_better).index
        return about.join(wide).loc[order].reset_index()

    def _there(self, rows: "pd.DataFrame") -> list[str]:
        there = set(rows["primitive"])
        return [label for label in self.labels if label in there]


def tenths(values: "pd.Series[float]", lower_is_better: bool) -> tuple[float, float]:
    """The mean of the worst and of the best tenth."""
    ranked = values.sort_values(ascending=not lower_is_better)
    size = max(1, math.ceil(TENTH * len(ranked)))
    return float(ranked[:size].mean()), float(ranked[-size:].mean())


def devices(path: Path | str) -> Devices:
    """The last evaluation of every device in a store (its folder or its file), as a mean over the
    seeds."""
    with Store.read(path) as store:
        return of_grid(store, Grid.of(run for run in store.runs() if run.status == "finished"))


def of_grid(store: Store, grid: Grid) -> Devices:
    """The same of runs that lie in a grid; those that have kept nothing of devices are left out."""
    import pandas as pd

    rows = [
        _of_group(cell, label, tables, grid)
        for cell, by_label in grid.places.items()
        for label in grid.labels
        if (tables := _tables(store, grid, by_label.get(label, {}).values()))
    ]
    if not rows:
        raise RecordsError(
            f"no finished run in {store.place} has kept what single devices scored: an older "
            "version recorded them, or evaluate.measures has no devices. Run them again."
        )
    return Devices(grid.axes, pd.concat(rows, ignore_index=True))


def _tables(store: Store, grid: Grid, places: Iterable[int]) -> "list[DeviceTable]":
    found = (store.devices(grid.runs[place].key) for place in places)
    return [table for table in found if table is not None]


def _of_group(cell: Cell, label: str, tables: "list[DeviceTable]", grid: Grid) -> "pd.DataFrame":
    import pandas as pd

    found = pd.concat([pd.DataFrame(table) for table in tables], ignore_index=True)
    scores = [name for name in found if name not in ABOUT]
    means = dict.fromkeys(("samples", "own_tests", *scores), "mean")
    together = found.groupby(["island", "device"], sort=False, as_index=False).agg(means)
    together.insert(0, "primitive", label)
    together.insert(5, "seeds", len(tables))
    for place, (field, value) in enumerate(zip(grid.axes, cell, strict=True)):
        together.insert(place, field, value)
    return together
