"""Build the report page of a store and write it as one HTML file."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from skerry.analysis.run_table import Stores
from skerry.errors import SkerryError, argument, printable, writing
from skerry.files import replace_file
from skerry.report.page.blocks import PageSection, note
from skerry.report.page.clocks import AnyClocks
from skerry.report.page.model import array_chunks, page_model
from skerry.report.page.packing import gzip_base64, json_text
from skerry.report.page.report_data import ReportData, read_report_data
from skerry.report.page.sections import SECTIONS, overview

FILE = "report.html"
ASSETS = files("skerry.report.page") / "assets"
EXPLORER = (
    "theory/arithmetic.js", "theory/server_round.js", "theory/bounds.js",
    "theory/full_recursion.js", "theory/certified.js", "theory/rounds_and_messages.js",
    "theory/crossings.js", "explorer/settings.js", "explorer/words.js",
    "explorer/exploration.js", "explorer/controls.js", "explorer/explorer.js",
)  # fmt: skip
"""The scripts of the theory explorer. Each one uses only scripts before it."""
SCRIPTS = (
    "numbers.js", "data.js", "dom.js", "plot.js", "grid.js", "over.js", "advice.js", *EXPLORER,
)  # fmt: skip
"""The first scripts, in this order. The widgets and page.js, which starts the page, follow."""

# The page fetches nothing and runs only the two scripts with these hashes.
POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def write_report(path: Stores, out: Path | str | None = None, clock: AnyClocks = None) -> Path:
    """Write the report of a store (its folder or its file), or of a list of them, and return its
    path: `report.html` in the folder, or in the working directory if there are several folders,
    unless `out` names another file. A `clock` (a file, the name of an example, tables, or a list of
    them) adds seconds, joules and a timeline."""
    data = read_report_data(path, clock)
    usual = Path(FILE) if len(data.grid.paths) > 1 else data.folder / FILE
    file, text = Path(out) if out is not None else usual, page_html(data)
    with writing(file, f": {argument('out')}"):
        replace_file(file, text.encode())
    return file


def page_html(data: ReportData) -> str:
    widgets = sorted(one.name for one in ASSETS.joinpath("widgets").iterdir())
    scripts = [*SCRIPTS, *(f"widgets/{name}" for name in widgets), "page.js"]
    title, script = overview.page_title(data), "\n".join(map(_asset, scripts))
    plotly, plotly_hash = _plotly()
    content: dict[str, Any] = {
        "sections": [vars(section) for section in _sections(data)],
        "model": page_model(data, overview.start_cell(data)) if data.runs else None,
        "answer": overview.answer_sentence(data),
        "terms": json.loads(_asset("terms.json")),
        "advice": data.advice,
    }
    parts = [_data("data", "application/json", json_text(_printable(content)))]
    if data.runs:
        parts.append(_data("plotly", "text/plain", plotly))
        parts += [_data(f"data-{name}", "text/plain", text) for name, text in array_chunks(data)]
    now = datetime.now(UTC).isoformat(" ", "minutes").replace("+00:00", " UTC")
    values = {
        "policy": POLICY.format(hashes=" ".join((_hash(f"\n{script}\n"), plotly_hash))),
        "generator": f"skerry {version('skerry')}",
        "title": html.escape(printable(title)),
        "styles": _asset("page.css") + _asset("explorer.css"),
        "footer": f"Written by skerry {version('skerry')} on {now}. This page is complete: it "
        "needs no other file and no network.",
        "data": "\n".join(parts),
        "script": script,
    }
    # In one pass, so that inserted text is not searched again.
    return re.sub(r"{{(\w+)}}", lambda found: values[found[1]], _asset("page.html"))


def _sections(data: ReportData) -> Iterable[PageSection]:
    for make in SECTIONS if data.runs else (overview.runs_section,):
        try:
            section = make(data)
        except SkerryError as error:  # the other sections are still shown
            name = make.__name__.removesuffix("_section")
            section = PageSection(name, name.replace("_", " "), [note(str(error))])
        if section is not None:
            yield section


@cache
def _plotly() -> tuple[str, str]:
    """The plotting library, 4.8 MB, packed once for all pages of a process, and its hash."""
    import plotly.offline  # type: ignore[import-untyped]

    source = plotly.offline.get_plotlyjs()
    return gzip_base64(source.encode()), _hash(source)


def _printable(value: Any) -> Any:
    """The value with texts whose control characters, except line ends, are written out."""
    if isinstance(value, dict):
        return {_printable(name): _printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_printable, value)]
    return printable(value, keep="\n\t") if isinstance(value, str) else value


def _asset(name: str) -> str:
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


def _data(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
