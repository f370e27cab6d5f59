"""From a store to one file: read, put the sections together, write."""

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from skerry.errors import RecordsError, SkerryError, argument
from skerry.files import replace_file
from skerry.report.page.blocks import Section, note
from skerry.report.page.model import chunks, model
from skerry.report.page.packing import compressed, json_text
from skerry.report.page.sections import SECTIONS, what_was_run
from skerry.report.page.sections.answer import GLOSSARY, answer, start
from skerry.report.page.sections.overview import heading
from skerry.report.page.study import Study, read_study

FILE = "report.html"
EXPLORER = (
    "theory/arithmetic.js",
    "theory/server_round.js",
    "theory/bounds.js",
    "theory/full_recursion.js",
    "theory/certified.js",
    "theory/rounds_and_messages.js",
    "theory/crossings.js",
    "explorer/settings.js",
    "explorer/words.js",
    "explorer/exploration.js",
    "explorer/controls.js",
    "explorer/explorer.js",
)
"""The theory in the page, and what explores it; a script knows those before it."""
SCRIPTS = ("numbers.js", "data.js", "dom.js", "plot.js", "grid.js", *EXPLORER)
"""In this order; then the widgets and, last, page.js, which begins."""

# Nothing is fetched and nothing runs but the two scripts named by their hashes.
POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(path: Path | str, out: Path | str | None = None) -> Path:
    """Write the report of a store (its folder or its file), and say where: `report.html` in the
    folder, unless `out` names another file."""
    study = read_study(path)
    file = Path(out) if out is not None else study.path.parent / FILE
    _write(file, page(study))
    return file


def page(study: Study) -> str:
    """The whole page as text."""
    title = heading(study)
    script, plotly = _script(), _plotly()
    data: dict[str, Any] = {
        "sections": [vars(section) for section in _sections(study)],
        "model": model(study, start(study)) if study.runs else None,
        "answer": answer(study),
        "glossary": GLOSSARY,
    }
    parts = [_data("data", "application/json", json_text(data))]
    if study.runs:
        parts.append(_data("plotly", "text/plain", plotly.compressed))
        parts += [_data(f"data-{name}", "text/plain", text) for name, text in chunks(study)]
    now = datetime.now(UTC).isoformat(" ", "minutes").replace("+00:00", " UTC")
    return _filled(
        _asset("page.html"),
        {
            "policy": POLICY.format(hashes=" ".join((_hash(f"\n{script}\n"), plotly.hash))),
            "generator": f"skerry {version('skerry')}",
            "title": html.escape(title.encode("utf-8", "replace").decode()),
            "styles": _asset("page.css") + _asset("explorer.css"),
            "footer": f"Written by skerry {version('skerry')} on {now}. This page is complete: it "
            "needs no other file and no network.",
            "data": "\n".join(parts),
            "script": script,
        },
    )


def _sections(study: Study) -> Iterable[Section]:
    yield what_was_run(study)
    for make in SECTIONS if study.runs else ():
        try:
            section = make(study)
        except SkerryError as error:  # the others can still be shown
            section = Section(make.__name__, make.__name__.replace("_", " "), [note(str(error))])
        if section is not None:
            yield section


class _Packed(NamedTuple):
    compressed: str
    hash: str


@cache
def _plotly() -> _Packed:
    """The library that draws. Its 4.8 MB are packed once for all pages of a process."""
    import plotly.offline  # type: ignore[import-untyped]

    source = plotly.offline.get_plotlyjs()
    return _Packed(compressed(source.encode()), _hash(source))


def _script() -> str:
    widgets = sorted(one.name for one in _assets().joinpath("widgets").iterdir())
    names = [*SCRIPTS, *(f"widgets/{name}" for name in widgets), "page.js"]
    return "\n".join(_asset(name) for name in names)


def _assets() -> Any:
    return files("skerry.report.page") / "assets"


def _asset(name: str) -> str:
    text: str = _assets().joinpath(name).read_text(encoding="utf-8")
    return text


def _data(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _filled(template: str, values: dict[str, str]) -> str:
    """In one pass: what is filled in is not looked at again."""
    return re.sub(r"{{(\w+)}}", lambda found: values[found[1]], template)


def _write(file: Path, text: str) -> None:
    try:
        replace_file(file, text.encode())
    except OSError as error:
        raise RecordsError(
            f"cannot write {file} ({error.strerror}). Choose a folder that exists and can be "
            f"written: {argument('out')}"
        ) from None
