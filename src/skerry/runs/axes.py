"""The axes of a sweep: fields that vary, as they are typed, with their faults, and as a grid."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from skerry.config.experiment import Experiment, Section
from skerry.config.toml import current_path, show_value
from skerry.errors import did_you_mean
from skerry.plugins.fingerprint import as_text

SEEDS = "seed"
COMPARE = "compare"
"""The axis whose values are names, as the argument of that name takes them."""
TAKE_LISTS = ("network.components", "availability.awake", "evaluate.measures", "evaluate.own")
"""The fields of which one value may be a list."""

Cell = tuple[tuple[str, Any], ...]
"""A place in the grid: every axis field with its value, but not the seed."""


@dataclass(frozen=True)
class Axis:
    """Fields that change together: one, or several that are zipped."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cells(self) -> list[Cell]:
        return [tuple(zip(self.fields, row, strict=True)) for row in self.rows]


# As typed


def flat(table: Any, prefix: str = "") -> Any:
    """`server.period = [5]` without quotes is a table in a table; both ways mean the field."""
    if not isinstance(table, Mapping):
        return table
    found: dict[str, Any] = {}
    for name, value in table.items():
        path = f"{prefix}{name}"
        found |= flat(value, f"{path}.") if isinstance(value, Mapping) else {path: _named(value)}
    return found


def _named(value: Any) -> Any:
    """Functions given from Python, in lists and rows too, by their names."""
    if isinstance(value, list | tuple):
        return type(value)(map(_named, value))
    return as_text(value)


def with_set_fields(typed: Any, set_fields: Mapping[str, Any]) -> Any:
    """A setting `server.period=5` holds in all runs, also where the file has an axis of that field.
    In a zipped axis the other fields keep their values."""
    if not isinstance(typed, dict):
        return typed
    return {
        name: _with_set_columns(_fields_of(name), values, set_fields)
        for name, values in typed.items()
    }


def _with_set_columns(fields: Sequence[str], values: Any, set_fields: Mapping[str, Any]) -> Any:
    if set_fields.keys().isdisjoint(fields):
        return values
    if len(fields) == 1:
        return _values_of_axis(fields[0], set_fields[fields[0]])
    if not isinstance(values, list) or not all(_is_row(row, len(fields)) for row in values):
        return values  # is told as any axis that is no list of rows
    rows = [
        [set_fields.get(field, own) for field, own in zip(fields, row, strict=True)]
        for row in values
    ]
    return [row for n, row in enumerate(rows) if row not in rows[:n]]


def _values_of_axis(path: str, value: Any) -> list[Any]:
    """What a setting makes of an axis: one value. A list is one too where the field takes lists,
    or may, as options of data sets and models do; elsewhere its items are the axis's values."""
    if not isinstance(value, list) or path not in _known_fields():
        return [value]
    if path in TAKE_LISTS and not all(isinstance(item, list) for item in value):
        return [value]
    return value


# Faults


def axis_faults(typed: Mapping[str, Any], experiment: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with axes of an experiment; whether runs can have the values, those say."""
    known, seen = _known_fields(), set[str]()
    for name, values in typed.items():
        fields = _fields_of(name)
        for field in fields:
            section = field.partition(".")[0]
            if field == SEEDS:
                yield "seeds are no axis. Set sweep.seeds, to a count or to a list of seeds."
            elif field not in known and not _has_options(section, typed, experiment):
                yield (
                    f"unknown axis '{field}'{did_you_mean(field, known)} An axis is a field of "
                    "an experiment, such as server.period; skerry new lists them."
                )
            elif field in seen:
                yield f"{field} is in two axes. Keep one of them."
            seen.add(field)
        yield from _value_faults(name, fields, values)


def _has_options(section: str, typed: Mapping[str, Any], experiment: Mapping[str, Any]) -> bool:
    """Whether functions of this section may have options of their own; the experiment tells which.
    Built-in ones have them as fields, but for data sets and models."""
    named = [
        *(value for path, value in flat(experiment).items() if path.startswith(section)),
        *(values for name, values in typed.items() if f"{section}." in name),
    ]
    own = section in Experiment.model_fields and ":" in str(named)
    return section in ("data", "model") or own


def _value_faults(name: str, fields: Sequence[str], values: Any) -> Iterator[str]:
    if not isinstance(values, list | tuple):
        yield f'axis "{name}" must be a list of values (got {show_value(values)}). Example: [5, 10]'
    elif not values:
        yield f'the grid is empty: axis "{name}" has no values. Give it some, such as [5, 10].'
    elif len(fields) > 1:
        wrong = [row for row in values if not _is_row(row, len(fields))]
        if wrong:
            yield (
                f'axis "{name}" must be a list of rows with {len(fields)} values each (got '
                f"{show_value(wrong[0])})."
            )


def _is_row(row: Any, length: int) -> bool:
    return isinstance(row, list | tuple) and len(row) == length


def _fields_of(name: str) -> tuple[str, ...]:
    return tuple(current_path(field.strip()) for field in name.split(","))


def _known_fields() -> list[str]:
    fields = ["rounds", COMPARE]
    for name, section in Experiment():
        if isinstance(section, Section):
            fields += [f"{name}.{field}" for field in type(section).model_fields]
    return fields


# As a grid


def read_axes(typed: Mapping[str, Any]) -> list[Axis]:
    """Axes without faults."""
    axes = []
    for name, values in typed.items():
        fields = _fields_of(name)
        rows = values if len(fields) > 1 else [[value] for value in values]
        axes.append(Axis(fields, tuple(tuple(map(_frozen, row)) for row in rows)))
    return axes


def cells_of(axes: Iterable[Axis], exclude: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """All combinations but those left out."""
    every: Iterator[Cell] = (
        tuple(chain.from_iterable(parts)) for parts in product(*(axis.cells() for axis in axes))
    )
    return [cell for cell in every if not any(_matches(dict(cell), each) for each in exclude)]


def placed(table: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The experiment's table with the values of a cell."""
    found = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    for path, value in cell:
        if path == COMPARE:
            continue  # what a name sets is known with all else in its place
        section, _, field = path.rpartition(".")
        where = found.setdefault(section, {}) if section else found
        if isinstance(where, dict):  # else the experiment's own checks tell it
            where[field] = value
    return found


def _matches(values: Mapping[str, Any], excluded: Mapping[str, Any]) -> bool:
    return bool(excluded) and all(
        values[field] == _frozen(value) for field, value in excluded.items()
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
