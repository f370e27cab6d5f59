"""Notebook views: tables as HTML, figures, and a progress bar."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields as fields_of
from html import escape
from importlib import import_module
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.analysis.names import format_value, parse_where
from skerry.config.measures import traits
from skerry.errors import SkerryError, printable, unknown
from skerry.report.figure_kinds import KINDS, DrawnFigure, FigureRequest, draw_figure
from skerry.report.screens.progress import SweepProgress, show_progress
from skerry.report.style import WIDTHS, paper
from skerry.report.text import PAGE, format_mean, format_measure
from skerry.report.words import describe_results, describe_runs
from skerry.runs.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from skerry.analysis.results import Lane, Results
    from skerry.config.experiment import Experiment
    from skerry.theory import Bound, Certificate

SHOW_SECONDS = 0.2
MOST_ROWS = 60  # rows of a table that a notebook shows at most


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table without colours, for light and dark notebooks."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align:{"left" if place == 0 else "right"};'
            f'padding:.15em .6em;white-space:pre-line">{_safe(text)}</{tag}>'
            for place, text in enumerate(texts)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', header)}</tr></thead>" if any(header) else ""
    return f"<table>{head}<tbody>{lines}</tbody></table>"


def html_of_table(table: "Table") -> str:
    from rich.text import Text

    def plain(cell: Any) -> str:
        return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain

    columns = [[plain(cell) for cell in column.cells] for column in table.columns]
    header = [plain(column.header) for column in table.columns]
    return html_table(header, zip(*columns, strict=True))


def _paragraph(text: str, bold: str = "") -> str:
    return f"<p>{f'<b>{_safe(bold)}</b> ' if bold else ''}{_safe(text)}</p>"


def _safe(text: str) -> str:
    """Foreign text for HTML."""
    return escape(printable(text, keep="\n"))


def html_of_results(results: "Results") -> str:
    """The description, the table and the leaders of a study."""
    from skerry.analysis.results import Results
    from skerry.report.screens.run import describe_leaders, summary_table

    if not len(results):
        return _paragraph("no lanes")
    about = _paragraph(describe_results(results), f"{results[0].experiment.name}:")
    verdict = "".join(_paragraph(line) for line in describe_leaders(results))
    found = results.labels()
    shown = Results(tuple(lane for lane in results if lane.label in found[:MOST_ROWS]))
    left = f"and {len(found) - MOST_ROWS:,} more rows: results.summary() has all of them"
    more = _paragraph(left) if len(found) > MOST_ROWS else ""
    return about + html_of_table(summary_table(shown)) + more + verdict


def text_of_summary(frame: "pd.DataFrame") -> str:
    shown, more = _fitting(frame)
    return f"{shown.to_string(max_rows=MOST_ROWS)}\n{more}" if more else str(shown)


def html_of_summary(frame: "pd.DataFrame") -> str:
    shown, more = _fitting(frame)
    return shown.to_html(max_rows=MOST_ROWS) + (_paragraph(more) if more else "")


def _fitting(frame: "pd.DataFrame") -> tuple["pd.DataFrame", str]:
    """The most important measures of a summary that fit on a line, `93.00 ± 0.99`, and a sentence
    on the others. A frame that was changed by hand is left as it is."""
    from skerry.report.screens.run import COLUMNS

    first = [column.measure for column in COLUMNS]
    measures = [str(name) for name in frame if f"{name} ±" in frame]
    if 2 * len(measures) != len(frame.columns):
        return frame, ""
    measures.sort(key=lambda name: first.index(name) if name in first else len(first))
    letters = get_terminal_size((PAGE, 0)).columns if sys.stdout.isatty() else PAGE
    shown = frame[[]]
    for measure in measures:
        pairs = zip(frame[measure], frame[f"{measure} ±"], strict=True)
        wider = shown.assign(**{measure: [format_mean(measure, *pair) for pair in pairs]})
        if len(shown.columns) and len(wider[:1].to_string().partition("\n")[0]) > letters:
            break
        shown = wider
    left = measures[len(shown.columns) :]
    hint = f"{len(left)} more measures, such as results.summary('{left[0]}'); " if left else ""
    return shown, hint and f"{hint}results.measures lists them."


def html_of_lane(lane: "Lane") -> str:
    rows = [(traits(name).title, format_measure(name, value)) for name, value in lane.final.items()]
    words = f"{lane.label}, seed {lane.experiment.seed}, {lane.status}"
    about = _paragraph(words, f"{lane.experiment.name}:")
    note = _paragraph(lane.note) if lane.note else ""
    return about + note + html_table(("", "last value"), rows)


def html_of_experiment(experiment: "Experiment") -> str:
    """A description of the experiment, and every field that differs from its default."""
    usual = type(experiment)()
    rows = []
    for name, value in experiment:
        if not hasattr(value, "model_fields_set"):
            pairs = [(name, value, getattr(usual, name))]
        else:
            defaults = getattr(usual, name)
            pairs = [(f"{name}.{f}", one, getattr(defaults, f, None)) for f, one in value]
        rows += [
            (path, format_value(one))
            for path, one, other in pairs
            if one != other and path != "name"
        ]
    about = _paragraph(describe_runs([experiment]), f"{experiment.name}:")
    return about + (html_table(("field", "value"), rows) if rows else "")


def html_of_bound(bound: "Bound | Certificate") -> str:
    """All numbers, terms and assumptions of a bound."""
    rows = []
    for one in fields_of(bound):
        value = getattr(bound, one.name)
        if isinstance(value, Mapping):
            rows += [(f"{one.name}: {name}", _number(part)) for name, part in value.items()]
        elif value is not None and value != "" and not isinstance(value, tuple):
            rows.append((one.name, _number(value)))
    assumed = "; ".join(bound.assumptions)
    return html_table(("", ""), rows) + (_paragraph(assumed, "Assumed:") if assumed else "")


def _number(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    array = np.asarray(value, dtype=float)
    if array.ndim == 0:
        return f"{float(array):,.6g}"
    return f"{array.size} values, {array.min():,.4g} to {array.max():,.4g}"


def plot(results: "Results", kind: str | None = None, **options: Any) -> DrawnFigure:
    """The figure of `skerry run`, or any kind of `skerry figure` with its options."""
    from skerry.report.figures import overview

    if kind is None:
        if options:
            raise SkerryError(
                f"the overview takes no options (got {', '.join(options)}). Name a kind: "
                f"{', '.join(KINDS)}."
            )
        study = describe_results(results)
        return DrawnFigure(overview(results.frame(), study.replace("; ", "\n", 1)))
    if kind not in KINDS:
        raise SkerryError(unknown("figure", kind, KINDS))
    takes = (*KINDS[kind].takes, "where", "width", "title")
    for name in options:
        if name not in takes:
            raise SkerryError(
                f"a {kind} figure has no option {name}. Its options: {', '.join(takes)}."
            )
    width = options.pop("width", "full" if kind in ("network", "labels") else "column")
    if width not in WIDTHS:
        raise SkerryError(unknown("width", width, WIDTHS))
    for name, field in (("measure", "measures"), ("compare", "compare"), ("by", "by")):
        if (value := options.pop(name, None)) is not None:
            options[field] = _names(value)
    where = parse_where(_names(options.pop("where", ())))
    table = results.table()
    request = FigureRequest(table.paths[0], where=where, width=WIDTHS[width], runs=table, **options)
    with paper():
        return draw_figure(kind, request)


def _names(option: str | Sequence[str]) -> tuple[str, ...]:
    texts = option.split(",") if isinstance(option, str) else option
    return tuple(text.strip() for text in texts)


@contextmanager
def progress(wanted: bool | None) -> Iterator[Progress | None]:
    """Show progress: bars on a terminal, a bar in a notebook, lines elsewhere if `wanted`."""
    # Nothing is imported to find out whether this is the kernel of a notebook.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    inside = type(shell).__name__ == "ZMQInteractiveShell"
    if wanted is False or (wanted is None and not inside and not sys.stderr.isatty()):
        yield None
    elif inside:
        progress = NotebookBar()
        try:
            yield progress
        finally:
            progress.end()
    else:
        with show_progress(at_once=True) as bars:
            yield bars


class NotebookBar(SweepProgress):
    """A progress bar that is updated in place and removed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0.0
        self._handle: Any = None
        self.show()

    def show(self) -> None:
        if time.monotonic() - self._shown < SHOW_SECONDS:
            return
        self._shown = time.monotonic()
        self._draw(
            f'<progress value="{self.share:.3f}" max="1" style="width:18em"></progress> '
            f"{self.share:.0%} {_safe(self.status_line())}"
        )

    def say(self, line: str) -> None:
        print(printable(line), file=sys.stderr)

    def end(self) -> None:
        if self._handle is not None:
            self._draw("")

    def _draw(self, text: str) -> None:
        ipython = import_module("IPython.display")
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(text), display_id=True)
        else:
            self._handle.update(ipython.HTML(text))
