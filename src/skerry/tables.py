"""Nested tables as people write them: TOML files, `section.field=value` settings, TOML text."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skerry.errors import ExperimentError

_JSON = json.JSONEncoder(default=str)


def read_tables(path: str | Path) -> dict[str, Any]:
    """The nested tables of a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin with a mark
    except FileNotFoundError:
        raise ExperimentError(f"no file {path}. Make one: skerry new > {path}") from None
    except UnicodeDecodeError as error:
        raise ExperimentError(
            f"{path} is not UTF-8 text (at byte {error.start}). Save it as UTF-8."
        ) from None
    except OSError as error:
        raise ExperimentError(
            f"cannot read {path} ({error.strerror}). Give an experiment file (TOML)."
        ) from None
    return parse_tables(text, str(path))


def parse_tables(text: str, source: str) -> dict[str, Any]:
    """The nested tables of TOML text; `source` names it in a fault."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{source} is not valid TOML: {error}.") from None


def apply_settings(
    table: Mapping[str, Any], settings: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    """A copy with every `section.field=value` on top, and a line for each that cannot be read."""
    result: dict[str, Any] = json.loads(_JSON.encode(table))
    faults = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        *parents, field = (part.strip() for part in path.split("."))
        if not equals or not all([*parents, field]) or len(parents) > 1:
            faults.append(
                f"a setting reads section.field=value (got '{setting}'). Example: server.period=10"
            )
            continue
        where = result.setdefault(parents[0], {}) if parents else result
        if isinstance(where, dict):
            where[field] = _value(text.strip())
        else:
            faults.append(
                f"cannot set {parents[0]}.{field}: {parents[0]} is {shown(where)}, no section."
            )
    return result, faults


def _value(text: str) -> Any:
    """A setting's value as TOML reads it; anything else (a bare word, a date) is a string."""
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    is_plain = isinstance(table["value"], bool | int | float | str | list | dict)
    return table["value"] if is_plain and len(table) == 1 else text


def toml_key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "_").isidentifier()
    return name if is_bare else toml_value(name)


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def shown(value: Any) -> str:
    """As a user would type it, cut where it gets long."""
    return json.dumps(value, ensure_ascii=False, default=str)[:80]
