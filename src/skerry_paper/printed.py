"""The numbers that the paper prints, in its tables and in its text."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
import pandas as pd

Unit = Literal["p.p.", "%", ""]
Along = Literal["share", "period"]
"""Axis of a table: the sampled fraction K/n at H = 5, or the period H at K/n = 0.2."""

CELL = ["dataset", "intra", "inter", "topology", "share", "period"]
"""Columns that identify a cell of the tables; `share` is the sampled fraction K/n."""
REGIME = ["dataset", "intra", "inter"]

REGIMES: dict[str, tuple[str, str]] = {
    "R1": ("iid", "iid"),
    "R2": ("non-iid", "iid"),
    "R3": ("iid", "non-iid"),
    "R3, intra non-IID": ("non-iid", "non-iid"),
}
"""The intra- and inter-island split of each regime; the paper's R3 has two variants."""

TABLE_AXES: dict[str, Along] = {
    **dict.fromkeys(("table1", "table3", "table4"), "share"),
    **dict.fromkeys(("table2", "table5", "table6"), "period"),
}
FIXED_PERIOD, FIXED_SHARE = 5, 0.2


@dataclass(frozen=True)
class Statement:
    """A number in the paper's text. Gaps are S2S minus S2A."""

    key: str
    targets: tuple[str, ...]
    """The tables or figures it is about."""
    words: str
    value: float
    error: float | None
    """The number after ± in the text."""
    unit: Unit
    bound: Literal["", "about", "over", "up to"] = ""
    """The qualifier that the text puts before the value."""

    @property
    def value_in_words(self) -> str:
        """`up to +8.4 p.p.`, `+8.58 ± 0.32 p.p.`, `over 80 %`"""
        value = f"{self.value:+g}" if self.unit == "p.p." else f"{self.value:g}"
        if self.error is not None:
            value = f"{self.value:+.2f} ± {self.error:.2f}"
        return " ".join(part for part in (self.bound, value, self.unit) if part)


def printed_cells() -> pd.DataFrame:
    """The cells of tables 3 to 6, a row each: `table`, CELL, `gap` (NaN where -- is printed) and
    `winner` (S2S, S2A or --). The cell K/n = 0.2, H = 5 is in two tables of each data set."""
    tables = [_cells(name, table) for name, table in _paper()["gaps"].items()]
    return pd.concat(tables, ignore_index=True)


def along_axis(cells: pd.DataFrame, along: Along) -> pd.DataFrame:
    """Select the cells along K/n at H = 5, or along H at K/n = 0.2."""
    if along == "share":
        return cells[cells["period"] == FIXED_PERIOD]
    return cells[cells["share"].round(6) == FIXED_SHARE]


def in_table(cells: pd.DataFrame, along: Along) -> pd.DataFrame:
    """Select the cells of a table along an axis: without K = n, where S2S is S2A."""
    found = along_axis(cells, along)
    return found[found["share"] < 1]


def printed_aggregates() -> pd.DataFrame:
    """The rows of tables 1 and 2; `p_value` is text such as <0.001."""
    kept = _paper()["aggregates"]
    rows = [[name, *row] for name in ("table1", "table2") for row in kept[name]]
    return pd.DataFrame(rows, columns=["table", *kept["columns"]])


def statements(target: str | None = None) -> list[Statement]:
    """The statements of the paper's text, or only those about one table or figure."""
    found = [
        Statement(**row | {"targets": tuple(row["targets"])}) for row in _paper()["statements"]
    ]
    return [one for one in found if target is None or target in one.targets]


def _cells(name: str, table: dict[str, Any]) -> pd.DataFrame:
    wide = pd.DataFrame(table["rows"], columns=table["columns"])
    constant = {axis: table[axis] for axis in ("share", "period") if axis in table}
    wide = wide.assign(table=name, dataset=table["dataset"], **constant)
    factors = ["table", *(factor for factor in CELL if factor != "topology")]
    cells = wide.melt(factors, var_name="topology", value_name="gap", ignore_index=False)
    cells = cells.sort_index(kind="stable")  # row by row: the paper's columns are topologies
    cells["gap"] = cells["gap"].astype(float)
    conditions = [cells["gap"] > 0, cells["gap"] < 0]
    return cells[["table", *CELL, "gap"]].assign(
        winner=np.select(conditions, ["S2S", "S2A"], default="--")
    )


@lru_cache
def _paper() -> dict[str, Any]:
    text = (files("skerry_paper") / "printed.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
