"""Read and write nested tables: TOML files, TOML text, and `section.field=value` settings."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skerry.errors import ExperimentError, skerry_command, typed
from skerry.files import beside, refuse_special
from skerry.plugins import fingerprint

_JSON = json.JSONEncoder(default=lambda value: str(fingerprint.as_text(value)))
DEEPEST = 20
"""Most levels of nested lists and tables; a field needs two."""
LONGEST = 100
"""Most digits of a whole number; a seed may be long."""
PATHS = ("availability.awake", "clock.file", "data.path", "model.weights", "network.topology")
"""The fields that hold a path; a topology does where it is a graph file, and a clock where it is
no example."""
EXAMPLE_CLOCKS = ("data_centre", "wifi_home", "lte_phone", "lora_sensor")
"""Clocks that come with Skerry. Their numbers have sources, and are examples, not facts."""
GRAPH_FILES = (".edgelist", ".edges", ".txt", ".csv", ".graphml")
FORMER_SECTIONS = {"fleet": "availability"}
"""Former names of sections, which are still accepted, and their names today."""


def read_tables(path: str | Path) -> dict[str, Any]:
    """The nested tables of a TOML file; paths in them start from its folder."""
    try:
        text = refuse_special(Path(path)).read_text(encoding="utf-8-sig")  # a mark may begin it
    except FileNotFoundError:
        folder = Path(path).parent
        first = "" if folder.is_dir() else f"mkdir -p {typed(folder)} && "
        raise ExperimentError(
            f"no file {path}. Make one: {first}{skerry_command('new')} > {typed(path)}"
        ) from None
    except UnicodeDecodeError as error:
        raise ExperimentError(
            f"{path} is not UTF-8 text (at byte {error.start}). Save it as UTF-8."
        ) from None
    except (OSError, ValueError) as error:  # a name that holds a zero byte is no name
        reason = getattr(error, "strerror", None) or error
        raise ExperimentError(
            f"cannot read {shorten_text(str(path))} ({reason}). Give an experiment file (TOML)."
        ) from None
    tables: dict[str, Any] = _beside(Path(path).parent, parse_tables(text, str(path)))
    return tables


def is_graph_file(name: str) -> bool:
    """Whether a topology is a graph file."""
    return name.lower().endswith(GRAPH_FILES)


def _beside(folder: Path, value: Any, field: str = "") -> Any:
    """A copy of the tables of a file, or of the value of a field, whose paths start from a folder.
    In an axis of several fields the values are rows."""
    if isinstance(value, dict):
        return {
            name: _beside(folder, inner, f"{field}.{name}".lstrip("."))
            for name, inner in value.items()
        }
    field = field.removeprefix("sweep.axes.").removeprefix("sweep.exclude.")
    if isinstance(value, list):
        fields = [one.strip() for one in field.split(",")]
        if len(fields) > 1:
            return [
                [*map(partial(_beside, folder), row, fields)]
                if isinstance(row, list) and len(row) == len(fields)
                else row
                for row in value
            ]
        return [_beside(folder, one, field) for one in value]
    if not isinstance(value, str) or current_path(field) not in PATHS:
        return value
    is_name = field.endswith("topology") and not is_graph_file(value)
    is_name = is_name or (field.endswith("clock.file") and value in EXAMPLE_CLOCKS)
    return value if is_name else beside(folder, value)


def parse_tables(text: str, source: str) -> dict[str, Any]:
    """The nested tables of TOML text; `source` names the text in error messages."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{source} is not valid TOML: {error}.") from None
    except RecursionError:
        where = _field_with(rf"(?:[\[{{]\s*){{{DEEPEST}}}", text) or "a list or table"
        raise ExperimentError(
            f"{where} must have at most {DEEPEST} levels (in {source}). Write it with fewer."
        ) from None
    except ValueError:  # Python refuses to read numbers of thousands of digits
        where = _field_with(rf"[0-9_]{{{LONGEST}}}", text) or "a number"
        raise ExperimentError(
            f"{where} must not have more than {LONGEST} digits (in {source}). Shorten the number."
        ) from None
    if faults := [fault for path, value in table.items() for fault in _faults(path, value)]:
        raise ExperimentError(*faults)
    return table


def _field_with(pattern: str, text: str) -> str:
    """The field in a line of unreadable TOML text that matches the pattern."""
    section = ""
    for line in text.splitlines():
        if header := re.fullmatch(r"\s*\[([^\[\]]+)\]\s*", line):
            section = f"{header[1].strip()}."
        elif re.search(pattern, line):
            return shorten_text(section + line.partition("=")[0].strip())
    return ""


def _faults(path: str, value: Any) -> Iterator[str]:
    """Messages about values that no field accepts: nested too deeply, or too long."""
    waiting = [(path, value, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if isinstance(value, dict | list):
            if depth == DEEPEST:
                place = shorten_text(path)
                yield f"{place} must have at most {DEEPEST} levels. Write it with fewer."
                continue
            inner = value.items() if isinstance(value, dict) else (("", item) for item in value)
            waiting += [(f"{path}.{name}".rstrip("."), item, depth + 1) for name, item in inner]
        elif isinstance(value, int) and abs(value) >= 10**LONGEST:
            place = shorten_text(path)
            yield f"{place} must not have more than {LONGEST} digits. Shorten the number."


@dataclass(frozen=True)
class Setting:
    """A `section.field=value` that was read."""

    section: str
    field: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.section}.{self.field}".lstrip(".")


def read_settings(settings: Iterable[str]) -> tuple[list[Setting], list[str]]:
    """Every setting, and a message for each that cannot be read."""
    found, faults = [], []
    for text in settings:
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            faults.append(f"a setting must be text in UTF-8 (got {shorten_text(text)!a}).")
            continue
        path, equals, value = text.partition("=")
        *parents, field = (part.strip() for part in path.split("."))
        if not equals or not all([*parents, field]) or len(parents) > 1:
            faults.append(
                f"a setting reads section.field=value (got '{shorten_text(text)}'). Example: "
                "server.period=10"
            )
            continue
        section = "".join(parents)
        section = FORMER_SECTIONS.get(section, section)
        setting = Setting(section, field, parse_value(value.strip()))
        if wrong := list(_faults(setting.path, setting.value)):
            faults += wrong
        else:
            found.append(setting)
    return found, faults


def apply_settings(
    table: Mapping[str, Any], settings: Iterable[str]
) -> tuple[dict[str, Any], list[str]]:
    """A copy with every `section.field=value` applied; a message for each that cannot be read."""
    result = current_names(json.loads(_JSON.encode(table)))
    found, faults = read_settings(settings)
    for setting in found:
        where = result.setdefault(setting.section, {}) if setting.section else result
        if isinstance(where, dict):
            where[setting.field] = setting.value
        else:
            faults.append(
                f"cannot set {setting.path}: {setting.section} is {show_value(where)}, not a "
                "section."
            )
    return result, faults


def current_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an experiment's tables in which former section names are replaced by today's."""
    result = dict(table)
    for former, name in FORMER_SECTIONS.items():
        if former in result and name in result:
            raise ExperimentError(
                f"[{former}] is the former name of [{name}], and both are given. Put all fields "
                f"into [{name}]."
            )
        if former in result:
            result[name] = result.pop(former)
    return result


def current_path(path: str) -> str:
    """A field's path `section.field` with today's section name: availability.on of fleet.on."""
    section, dot, field = path.partition(".")
    return f"{FORMER_SECTIONS.get(section, section)}{dot}{field}"


def parse_value(text: str) -> Any:
    """The value of a setting as TOML; anything else, such as a bare word or a date, is a string."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    is_plain = isinstance(table["value"], bool | int | float | str | list | dict)
    return table["value"] if is_plain and len(table) == 1 else text


def setting(path: str, value: Any) -> str:
    """The setting `section.field=value`; text is bare where that means the same."""
    return f"{path}={value if parse_value(str(value).strip()) == value else toml_value(value)}"


def toml_key(name: str) -> str:
    """A key as TOML, in quotes where it needs them."""
    is_bare = name.isascii() and name.replace("-", "_").isidentifier()
    return name if is_bare else toml_value(name)


def toml_value(value: Any) -> str:
    """A value as TOML."""
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


def show_value(value: Any) -> str:
    """A value as a user would type it, shortened to 80 characters."""
    try:
        return shorten_text(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in itself
        return f"a value of type {type(value).__name__}, too long to show"


def shorten_text(text: str) -> str:
    """The first 80 characters of a text."""
    return text if len(text) <= 80 else f"{text[:77]}..."
