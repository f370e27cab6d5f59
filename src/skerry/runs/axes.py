"""The axes of a sweep: fields that vary, read from what users type, checked, and as a grid."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from skerry.config.experiment import Experiment, Section
from skerry.config.toml import current_path, parse_value, shorten_text, show_value
from skerry.errors import did_you_mean, skerry_command
from skerry.plugins.fingerprint import as_text

SEEDS = "seed"
COMPARE = "compare"  # its values are names of primitives and presets, as for the option `compare`
TAKE_LISTS = (
    "network.components",
    "availability.awake",
    "evaluate.measures",
    "evaluate.own",
    "model.private",
)
"""The fields whose single values may be lists."""

Cell = tuple[tuple[str, Any], ...]  # every axis field with its value, without the seed


@dataclass(frozen=True)
class Axis:
    """One field that varies, or several that vary together."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def flatten_fields(table: Any, prefix: str = "") -> Any:
    """Nested tables as one, with names such as `server.period`; TOML has both forms."""
    if not isinstance(table, Mapping):
        return table
    found: dict[str, Any] = {}
    for name, value in table.items():
        path = f"{prefix}{name}"
        nested = isinstance(value, Mapping)
        found |= flatten_fields(value, f"{path}.") if nested else {path: _by_name(value)}
    return found


def _by_name(value: Any) -> Any:
    """A value with functions, also in lists and rows, replaced by their names."""
    if isinstance(value, list | tuple):
        return type(value)(map(_by_name, value))
    return as_text(value)


def with_set_fields(typed: Any, set_fields: Mapping[str, Any]) -> Any:
    """Axes with settings applied: `server.period=5` holds in all runs, also where the file has an
    axis of that field. In an axis of several fields the others keep their values."""
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
        return values  # reported as any axis that is no list of rows
    rows = [
        [set_fields.get(field, own) for field, own in zip(fields, row, strict=True)]
        for row in values
    ]
    return [row for n, row in enumerate(rows) if row not in rows[:n]]


def _values_of_axis(path: str, value: Any) -> list[Any]:
    """The values of an axis that a setting replaces. A list is one value where the field takes
    lists, as options of data sets and models may; elsewhere its items are the values."""
    if not isinstance(value, list) or path not in _known_fields():
        return [value]
    if path in TAKE_LISTS and not all(isinstance(item, list) for item in value):
        return [value]
    return value


def with_typed_axes(
    axes: Any, typed: Iterable[str], set_fields: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """Axes with those that a user has typed, `server.period=5,10`, which take the place of axes of
    the same fields; and a message for each that cannot be read or is given in another way, too."""
    added: dict[tuple[str, ...], tuple[str, list[Any]]] = {}
    faults = []
    for text in typed:
        name, equals, values = text.partition("=")
        fields = _fields_of(name)
        if not equals or not all(fields):
            faults.append(
                f"an axis reads field=values (got '{shorten_text(text)}'). Example: "
                "server.period=5,10,20"
            )
        elif fields in added:
            faults.append(f"{name.strip()} is in two axes. Keep one of them.")
        elif both := set_fields.keys() & set(fields):
            faults.append(f"{', '.join(both)} is both set and an axis. Keep one of the two.")
        else:
            added[fields] = name.strip(), _typed_values(values.strip())
    if not isinstance(axes, dict):
        return axes, faults  # reported as any table that is none
    kept = {name: values for name, values in axes.items() if _fields_of(name) not in added}
    return kept | dict(added.values()), faults


def _typed_values(text: str) -> list[Any]:
    """The values of an axis: a list of TOML, with or without brackets, or words with commas."""
    for candidate in (text, f"[{text}]"):
        if isinstance(found := parse_value(candidate), list):
            return found
    return [parse_value(part.strip()) for part in text.split(",")]


def axis_faults(typed: Mapping[str, Any], experiment: Mapping[str, Any]) -> Iterator[str]:
    """Errors in the axes of an experiment; values are checked with the runs that have them."""
    known, used = _known_fields(), set[str]()
    for name, values in typed.items():
        fields = _fields_of(name)
        for field in fields:
            section = field.partition(".")[0]
            if field == SEEDS:
                yield "seeds are no axis. Set sweep.seeds, to a count or to a list of seeds."
            elif field not in known and not _has_options(section, typed, experiment):
                yield (
                    f"unknown axis '{field}'{did_you_mean(field, known)} An axis is a field of "
                    f"an experiment, such as server.period. List them: {skerry_command('new')}"
                )
            elif field in used:
                yield f"{field} is in two axes. Keep one of them."
            used.add(field)
        yield from _value_faults(name, fields, values)


def _has_options(section: str, typed: Mapping[str, Any], experiment: Mapping[str, Any]) -> bool:
    """Whether a section may have options of data sets, models or a user's own functions."""
    named = [
        *(value for path, value in flatten_fields(experiment).items() if path.startswith(section)),
        *(values for name, values in typed.items() if f"{section}." in name),
    ]
    own = section in Experiment.model_fields and ":" in str(named)
    return section in ("data", "model") or own


def _value_faults(name: str, fields: Sequence[str], values: Any) -> Iterator[str]:
    if not isinstance(values, list | tuple):
        yield f'axis "{name}" must be a list of values (got {show_value(values)}). Example: [5, 10]'
    elif not values:
        yield f'the grid is empty: axis "{name}" has no values. Give it some, such as [5, 10].'
    elif len(fields) > 1 and (wrong := [one for one in values if not _is_row(one, len(fields))]):
        yield (
            f'axis "{name}" must be a list of rows with {len(fields)} values each (got '
            f"{show_value(wrong[0])})."
        )


def _is_row(row: Any, length: int) -> bool:
    return isinstance(row, list | tuple) and len(row) == length


def _fields_of(name: str) -> tuple[str, ...]:
    return tuple(current_path(field.strip()) for field in name.split(","))


def _known_fields() -> list[str]:
    fields = ["rounds", "stop", COMPARE]
    for name, section in Experiment():
        if isinstance(section, Section):
            fields += [f"{name}.{field}" for field in type(section).model_fields]
    return fields


def parse_axes(typed: Mapping[str, Any]) -> list[Axis]:
    """The axes of a table that was checked."""
    axes = []
    for name, values in typed.items():
        fields = _fields_of(name)
        rows = values if len(fields) > 1 else [[value] for value in values]
        axes.append(Axis(fields, tuple(tuple(map(_frozen, row)) for row in rows)))
    return axes


def grid_cells(axes: Iterable[Axis], exclude: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """All combinations of the axes, without the excluded ones."""
    along = ([tuple(zip(axis.fields, row, strict=True)) for row in axis.rows] for axis in axes)
    every: Iterator[Cell] = (tuple(chain.from_iterable(parts)) for parts in product(*along))
    left_out = [
        {field: _frozen(v) for field, v in each.items()}.items() for each in exclude if each
    ]
    return [cell for cell in every if not any(each <= dict(cell).items() for each in left_out)]


def with_cell(table: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The experiment's table with the values of a cell."""
    found = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    for path, value in cell:
        if path == COMPARE:
            continue  # a name sets fields by all others, so it comes last
        section, _, field = path.rpartition(".")
        where = found.setdefault(section, {}) if section else found
        if isinstance(where, dict):  # else the experiment's own checks report it
            where[field] = value
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
