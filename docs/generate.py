"""Write docs/experiment.md, docs/reference.md and the terms of the report page, which are those of
docs/glossary.md and docs/measures.md: `python docs/generate.py`."""

import inspect
import json
import re
import runpy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from skerry.config.experiment import Experiment, Section
from skerry.plugins import registry

DOCS = Path(__file__).parent
PAGE = DOCS / "experiment.md"
TERMS = DOCS.parent / "src" / "skerry" / "report" / "page" / "assets" / "terms.json"
SYMBOL = re.compile(r"[A-Za-zα-ωΑ-Ω]\S{0,8}")
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


def terms() -> str:
    """Return the terms of the report page as JSON: name, other names and symbols, and meaning."""
    found = [*_glossary_terms(), *_measure_terms()]
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _rows(page: str, until: str) -> Iterator[list[str]]:
    """Yield the cells of all tables of a page, without headings, up to a title."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(until)[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("| ") and cells[-1] not in ("meaning", "look for", "---"):
            yield cells


def _plain(text: str) -> str:
    """Return Markdown as plain text: without code marks, and without links in parentheses."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").strip()


def _glossary_terms() -> Iterator[dict[str, Any]]:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    # A primitive has a heading, so that a search finds it: its meaning is the line below.
    for meaning, name, rest in re.findall(r"^### .+\n(.+)\n`(\w+)`(.*)", text, re.M):
        symbols = re.findall(r"W_\w+", rest)
        yield {"term": name, "also": symbols, "meaning": _plain(meaning)}
    for word, *middle, meaning in _rows("glossary.md", "## Words we do not use"):
        name = _plain(re.sub(r" \(.*`.*\)", "", word))
        symbol = re.split(r"[,=]", middle[0])[0].strip() if middle else ""
        symbol = symbol.replace("σ̄", "σ")
        codes = [code.rpartition(".")[2] for code in re.findall("`([^`-]+)`", word)]
        others = [
            *codes,
            *([symbol] if SYMBOL.fullmatch(symbol) else []),
            re.sub(r" \(.*", "", name),
        ]
        also = [one for one in dict.fromkeys(others) if one not in (name, "name")]
        yield {"term": name, "also": also, "meaning": _plain(meaning)}


def _measure_terms() -> Iterator[dict[str, Any]]:
    for name, *cells in _rows("measures.md", "## Measuring less"):
        parts = [_plain(cell).rstrip(".") for cell in cells if cell]
        meaning = "".join(f"{part[0].upper()}{part[1:]}. " for part in parts)
        yield {"measure": name.strip("`"), "meaning": meaning.strip()}


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
    TERMS.write_text(terms(), encoding="utf-8")
    reference = runpy.run_path(str(Path(__file__).parent / "reference.py"))
    reference["PAGE"].write_text(reference["rendered"](), encoding="utf-8")
