"""The runs of a store that a figure is about: which are asked for, what varies between them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import RecordsError, SkerryError
from skerry.records.store import Run, Store
from skerry.sweep.cells import Cell, Cells, in_order
from skerry.sweep.collect import fields_of, read_cells, varying_fields

if TYPE_CHECKING:
    import pandas as pd

Where = Mapping[str, Sequence[str]]
"""By field the values that are wanted, as typed."""

SEED = "seed"


def parse_where(texts: Sequence[str]) -> Where:
    """`period=5`; the same field twice means either value."""
    wanted: dict[str, list[str]] = {}
    for text in texts:
        field, equals, value = (part.strip() for part in text.partition("="))
        if not (field and equals and value):
            raise SkerryError(
                f"a condition reads field=value (got '{text}'). Example: --where period=5"
            )
        if field.rpartition(".")[2] == "primitive":
            raise SkerryError(
                f"primitives are chosen by --compare (got --where {text}). Use --compare {value}"
            )
        wanted.setdefault(field, []).append(value)
    return wanted


@dataclass(frozen=True)
class Chosen:
    """Runs that meet the conditions."""

    folder: Path
    runs: tuple[Run, ...]
    fields: Mapping[str, Mapping[str, Any]]
    """By the run's key: what tells it from others; None where a field plays no part."""
    names: Cells
    """No readings, but the fields and labels that users may name."""

    @property
    def varying(self) -> tuple[str, ...]:
        return tuple(varying_fields([dict(self.fields[run.key]) for run in self.runs]))

    def pick(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """The rows of these runs."""
        return frame[frame["key"].isin([run.key for run in self.runs])]

    def column(self, frame: "pd.DataFrame", field: str) -> "pd.Series[Any]":
        return frame["key"].map(lambda key: self.fields[key].get(field))

    def split(self, by: Sequence[str]) -> dict[Cell, "Chosen"]:
        """A part for each combination of values. A run for which a field plays no part, such as
        the period of one without a server, stands in every part."""
        values = {run.key: tuple(self.fields[run.key].get(f) for f in by) for run in self.runs}
        full = [cell for cell in values.values() if None not in cell] or list(values.values())
        return {
            cell: replace(self, runs=tuple(r for r in self.runs if _stands_in(values[r.key], cell)))
            for cell in in_order({cell: [] for cell in full})
        }


def choose(
    folder: Path, where: Where, compare: Sequence[str] = (), finished: bool = True
) -> Chosen:
    with Store.read(folder) as store:
        recorded = store.runs()
    if not recorded:
        raise RecordsError(
            f"no runs are recorded in {folder}. Record some: skerry run --out {folder}"
        )
    runs = [run for run in recorded if run.status == "finished" or not finished]
    if not runs:
        raise RecordsError(
            f"none of the runs in {folder} is finished. They go on when the command that began "
            "them is given again."
        )
    fields = {run.key: fields_of(run) for run in runs}
    everything = [dict(one) for one in fields.values()]
    varying = varying_fields(everything)
    names = Cells(
        measure="",
        last=None,
        fields=tuple(varying),
        readings={(): [{run.experiment.server.label: {} for run in runs}]},
        constants={name: None for name in everything[0] if name not in varying},
        statuses=Counter(run.status for run in recorded),
    )
    for name, texts in where.items():
        field = name if name == SEED else names.field(name)
        there = {run.key: _value(run, fields[run.key], field) for run in runs}
        _check_met(folder, name, texts, there.values())
        runs = [run for run in runs if _is_one_of(there[run.key], texts)]
    if compare:
        wanted = {names.label(name) for name in compare}
        runs = [run for run in runs if run.experiment.server.label in wanted]
    return Chosen(folder, tuple(runs), fields, names)


def chosen_cells(
    folder: Path,
    measure: str | None,
    where: Where,
    compare: Sequence[str] = (),
    last: int | None = None,
) -> Cells:
    """As `read_cells`, of the runs that meet the conditions."""
    cells = read_cells(folder, measure, last)
    for name, texts in where.items():
        cells = _with_seeds(cells, texts) if name == SEED else with_value(cells, name, texts)
    if compare:
        wanted = [cells.label(name) for name in compare]
        cells = replace(
            cells,
            readings={
                cell: [{one: part[one] for one in wanted if one in part} for part in parts]
                for cell, parts in cells.readings.items()
            },
        )
    return _settled(cells)


def with_value(cells: Cells, name: str, texts: Sequence[str]) -> Cells:
    """Only the cells in which a field has one of these values."""
    field = cells.field(name)
    if field in cells.constants:
        _check_met("the store", name, texts, [cells.constants[field]])
        return cells
    at = cells.fields.index(field)
    _check_met("the store", name, texts, [cell[at] for cell in cells.readings])
    met = {cell: parts for cell, parts in cells.readings.items() if _is_one_of(cell[at], texts)}
    return replace(cells, readings=met)


def _with_seeds(cells: Cells, texts: Sequence[str]) -> Cells:
    seeds = {
        seed
        for parts in cells.readings.values()
        for part in parts
        for found in part.values()
        for seed in found
    }
    _check_met("the store", SEED, texts, sorted(seeds))
    kept = {seed for seed in seeds if _is_one_of(seed, texts)}
    readings = {
        cell: [
            {one: {s: v for s, v in found.items() if s in kept} for one, found in part.items()}
            for part in parts
        ]
        for cell, parts in cells.readings.items()
    }
    return replace(cells, readings=readings)


def _settled(cells: Cells) -> Cells:
    """Fields that have one value left are no longer part of a cell."""
    values = {
        field: {cell[i] for cell in cells.readings} - {None} for i, field in enumerate(cells.fields)
    }
    settled = {field: next(iter(one)) for field, one in values.items() if len(one) == 1}
    varying = [field for field in cells.fields if field not in settled]
    return replace(cells.by(varying), constants=dict(cells.constants) | settled)


def _value(run: Run, fields: Mapping[str, Any], field: str) -> Any:
    return run.experiment.seed if field == SEED else fields.get(field)


def _is_one_of(value: Any, texts: Sequence[str]) -> bool:
    """Typed values are text; what plays no part meets any condition."""
    return value is None or any(_is(value, text) for text in texts)


def _is(value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int | float):
        try:
            return math.isclose(value, float(text), rel_tol=1e-6)
        except ValueError:
            return False
    return str(value) == text


def _check_met(where: object, name: str, texts: Sequence[str], there: Iterable[Any]) -> None:
    recorded = list(dict.fromkeys(value for value in there if value is not None))
    if recorded and not any(_is_one_of(value, texts) for value in recorded):
        raise SkerryError(
            f"no run in {where} has {name} = {' or '.join(texts)} (got "
            f"{', '.join(map(str, recorded))[:200]}). Choose from those."
        )


def _stands_in(values: Cell, cell: Cell) -> bool:
    return all(mine in (None, wanted) for mine, wanted in zip(values, cell, strict=True))
