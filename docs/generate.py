"""Bring docs/experiment.md and docs/reference.md up to date: `python docs/generate.py`."""

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
    "network": "Who can talk to whom. [Compression](compression.md).",
    "data": "Which samples there are, and who holds them. [More about data](data.md).",
    "model": "What is learned.",
    "training": "What a device does on its own in a round.",
    "server": "What the server does, when, and for whom. [Who takes part](participation.md), "
    "[presets](presets.md).",
    "availability": "When devices are awake. [Who takes part](participation.md).",
    "method": "What devices and the server keep beside a model. [Methods](methods.md).",
    "evaluate": "What is measured, and how often. [More about measures](measures.md).",
}

OPTIONS = """\
An option is told to some functions only; to the others it makes no difference. It stands beside the
name, in the same section: in `[model]`, `name = "mlp"` and `hidden = 32`. Your own functions get
[options](plug-ins.md#options) in the same way. Those in the tables above may always be set, the
others only with a name that takes them.
"""

NAMES = 'Wherever a built-in name stands, [your own](plug-ins.md) `"module:name"` may stand.\n'


def rendered() -> str:
    """The whole page: what a person wrote, and the tables."""
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    experiment = Experiment()
    parts = [written + BEGIN, "", "## At the top", "", _fields(experiment)]
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
    """A row for every option: who takes it, and its default."""
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
    """A default as it is written in TOML."""
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
