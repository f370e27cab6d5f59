"""Write docs/experiment.md and docs/reference.md: `python docs/generate.py`."""

import inspect
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from skerry.config.experiment import Experiment, Section
from skerry.plugins import registry

PAGE = Path(__file__).parent / "experiment.md"
BEGIN = "<!-- From here on the page is written by `python docs/generate.py`. -->"

SECTIONS = {
    "network": "Devices, islands and links. [Compression](compression.md).",
    "data": "The data set and its partition among devices. [Data](data.md).",
    "model": "The model and its options. [Models](models.md).",
    "training": "Local training of devices.",
    "server": "Sampling, averaging and delivery by the server. [Who takes part](participation.md), "
    "[presets](presets.md).",
    "availability": "When devices are awake. [Who takes part](participation.md).",
    "method": "Methods with additional state. [Methods](methods.md).",
    "evaluate": "Measures and their frequency. [Measures](measures.md).",
}

OPTIONS = """\
An option is a parameter of some functions and has no effect with others. It is set beside the
name, in the same section: in `[model]`, `name = "mlp"` and `hidden = 32`. Your own functions have
[options](plug-ins.md#options) in the same way. Options in the tables above may always be set, all
others only with a name that takes them.
"""

NAMES = 'Instead of a built-in name you can use [your own](plug-ins.md) `"module:name"`.\n'


def rendered() -> str:
    """Return the whole page: the hand-written part and the tables."""
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    experiment = Experiment()
    parts = [written + BEGIN, "", "## Top level", "", _fields(experiment)]
    for name, about in SECTIONS.items():
        parts += [f"## [{name}]", "", about, "", _fields(getattr(experiment, name))]
    parts += ["## Options", "", OPTIONS, _options()]
    return "\n".join([*parts, "## Built-in names", "", NAMES, _names()])


def _fields(section: Section) -> str:
    rows = (
        (f"`{name}`", _value(getattr(section, name)), _line(section.describe(name)))
        for name in type(section).model_fields
        if not isinstance(getattr(section, name), Section)
    )
    return _table(("field", "default", "meaning"), rows)


def _options() -> str:
    """Return a table of all options: the functions that take them, and their defaults."""
    experiment, rows = Experiment(), []
    for section in SECTIONS:
        fields = getattr(experiment, section)
        takers: dict[str, dict[str, Any]] = {}
        for kind in fields.naming:
            for name in registry.KINDS[kind]:
                for option, default in _keyword_defaults(kind, name):
                    takers.setdefault(option, {})[f"`{name}`"] = getattr(fields, option, default)
        for option, named in takers.items():
            default = next(iter(named.values()))
            rows.append((f"`{section}.{option}`", ", ".join(named), _value(default)))
    return _table(("option", "of", "default"), rows)


def _keyword_defaults(kind: str, name: str) -> Iterator[tuple[str, Any]]:
    found = registry.resolve(kind, name)
    called = found.deliver if kind == "server optimizer" else found
    for parameter in inspect.signature(called).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield parameter.name, parameter.default


def _names() -> str:
    rows = (
        (kind, ", ".join(f"`{name}`" for name in names)) for kind, names in registry.KINDS.items()
    )
    return _table(("kind", "built in"), rows)


def _value(value: Any) -> str:
    """Return a default as it is written in TOML."""
    match value:
        case None | "":
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case tuple():
            return "all"
        case _:
            return f"`{value}`"


def _line(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
    reference = runpy.run_path(str(Path(__file__).parent / "reference.py"))
    reference["PAGE"].write_text(reference["rendered"](), encoding="utf-8")
