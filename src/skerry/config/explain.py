"""Error messages for the validation errors of pydantic: what, rule, got, fix, one line each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skerry.config.toml import show_value
from skerry.errors import meant_by, nearest

Fields = Mapping[str, Sequence[str]]
"""The fields of every section; under the empty name, the fields outside of sections."""

_RULES = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "string_type": "must be text in quotes",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be a section",
    "literal_error": "must be one of {expected}",
    "too_short": "must not be empty",
    "dict_type": "must be a section",
    "int_parsing_size": "must be a whole number of fewer digits",
    "string_unicode": "must be sound text",
    "missing": "must be given",
}


def explain(error: ValidationError, fields: Fields, owner: str = "An experiment") -> list[str]:
    """A message for each error; `fields` are the known fields, for suggestions."""
    return [_line(fault, fields, owner) for fault in error.errors(include_url=False)]


def faulty_paths(error: ValidationError) -> set[str]:
    """The paths, `section.field`, of all faulty fields."""
    return {_path(fault["loc"]) for fault in error.errors()}


def without_faulty(table: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """A copy of the table without its faulty fields."""
    sound = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    for fault in error.errors():
        section, *field = fault["loc"][:2]
        inside = sound.get(str(section))
        if field and isinstance(inside, dict):
            inside.pop(field[0], None)
        else:
            sound.pop(str(section), None)
    return sound


def any_inside(fields: Iterable[str], faulty: Iterable[str]) -> bool:
    """Whether any of the fields, or its section, is faulty."""
    return any(f"{field}.".startswith(f"{path}.") for field in fields for path in faulty)


def _path(loc: tuple[int | str, ...]) -> str:
    """The path `section.field` of an error, without a place in a list."""
    return ".".join(str(part) for part in loc[:2] if isinstance(part, str))


def _line(fault: ErrorDetails, fields: Fields, owner: str) -> str:
    path, context = _path(fault["loc"]), fault.get("ctx", {})
    if fault["type"] == "extra_forbidden":
        return unknown_field(path, fields, owner, loc=fault["loc"])
    if fault["type"] == "value_error":
        line = str(context["error"])
        is_rule = line.startswith(("must ", "has "))
        return line if path in line else f"{path}{' ' if is_rule else ': '}{line}"
    known = _RULES.get(fault["type"])
    numbers = {name: _plain_number(value) for name, value in context.items()}
    rule = known.format(**numbers) if known else f"cannot be read ({fault['msg']})"
    return f"{path} {rule} (got {show_value(fault['input'])})."


def _plain_number(limit: Any) -> Any:
    """A limit for people: 1,000,000 and 1 for 1000000 and 1.0."""
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)
    return f"{limit:,}" if isinstance(limit, int | float) else limit


def paths_of(word: str, fields: Fields) -> list[str]:
    """The paths of the fields that other software calls so, or that have this name."""
    found = [path for path in _paths(fields) if path.rpartition(".")[2] == word]
    return meant_by(word, _paths(fields)) or found


def _paths(fields: Fields) -> list[str]:
    return [f"{home}.{name}".strip(".") for home, names in fields.items() for name in names]


def unknown_field(
    path: str,
    fields: Fields,
    owner: str,
    options: Iterable[str] = (),
    adds: Iterable[str] = (),
    loc: tuple[int | str, ...] = (),
) -> str:
    """The message for an unknown field. `options` are further suggestions, `adds` says which
    functions take them, and `loc` is the place of the field as it was written."""
    if path == "sweep":
        return "[sweep] makes this a sweep of many runs. Read it with skerry.Sweep.parse."
    section, _, field = path.rpartition(".")
    if section not in fields:
        section, field = "", path  # the dot was in quotes
    if loc == (path,) and field in fields.get(section, []):
        return (
            f"unknown field '\"{path}\"': in quotes a dot is part of the name. Write "
            f"{field} = ... below [{section}]."
        )
    known = fields.get(section, [])
    inside = [*options, *known]
    found = meant_by(field, inside) or paths_of(field, fields)
    if not found:
        names = {one: one for one in inside}
        if not section:  # the name of a section may have been left out
            names = {path.rpartition(".")[2]: path for path in _paths(fields)} | names
        found = [names[one] for one in nearest(field, names)]
    hint = f"; did you mean '{found[0]}'?" if found else "."
    where = f"[{section}]" if section else owner
    return f"unknown field '{path}'{hint} {where} takes: {'; '.join([', '.join(known), *adds])}."
