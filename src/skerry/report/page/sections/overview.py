"""The top of the page: its title, the answer in one sentence, and what was run."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from skerry.analysis.names import format_value, short_names
from skerry.analysis.run_table import describe_stopped, format_statuses
from skerry.config.measures import traits
from skerry.config.presets import PRESETS
from skerry.errors import RecordsError, skerry_command
from skerry.report.page.blocks import Block, PageSection, definitions, note, table, text
from skerry.report.page.report_data import TUNED, ReportData
from skerry.report.page.sections.advice import read_advice
from skerry.report.screens.run import describe_leaders
from skerry.report.text import plural
from skerry.report.words import describe_runs

GLOSSARY = (
    ("S2S", "sampled to sampled: the server averages the models of the sampled devices, and only "
     "these devices receive the average."),
    ("S2A", "sampled to all: every device receives the average of the sampled devices."),
    ("blend", "between S2S and S2A: devices that were not sampled move part of the way to the "
     "average, half of the way in blend(0.5)."),
    ("K", "the number of devices that the server samples (the field sampled)."),
    ("H", "the number of rounds from one server round to the next (the field period)."),
    ("cell", "one combination of the fields that vary between runs. The bar below selects one."),
)  # fmt: skip
"""Terms for readers who have not read the paper."""
MOST_NAMED = 3  # the most primitives in the answer
MOST_VALUES = 24  # the most values in a row of the table of fields
_FIELDS = ("server.sampled", "server.period", "server.selection", TUNED)
"""The fields of an experiment that a recommendation has, by their short names."""


def page_title(data: ReportData) -> str:
    """The name of the runs, or the first of several names."""
    names = list(dict.fromkeys(run.name for run in data.runs))
    if not names:
        return "No runs yet"
    # Without characters that reverse the direction of the text after them.
    first = re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", names[0])
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"


def answer_sentence(data: ReportData) -> str:
    """The advice if there is one; else the best primitive, or how often each one is better."""
    if not data.runs:
        return ""
    if advised := _advised(data):
        return advised
    if not data.ranked:
        return "No run is finished yet, so there is nothing to compare."
    if len(data.grid.labels) < 2:
        return f"Only {data.grid.labels[0]} was run, so there is nothing to compare it with."
    return _over_cells(data) if data.grid.axes else _in_one_cell(data)


def start_cell(data: ReportData) -> int:
    """The index of the cell that is shown first: that of the recommendation if there is one."""
    try:
        wanted = (read_advice(data) or {}).get("recommendation")
    except RecordsError:
        wanted = None
    if not isinstance(wanted, Mapping) or not data.grid.axes:
        return 0
    fits = [
        sum(
            _equal(value, wanted.get(axis.rpartition(".")[2]))
            for axis, value in zip(data.grid.axes, cell, strict=True)
            if axis in _FIELDS
        )
        for cell in data.grid.cells
    ]
    return fits.index(max(fits))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _advised(data: ReportData) -> str:
    """The first sentence of the advice; empty if it cannot be read (its section says so)."""
    try:
        summary = (read_advice(data) or {}).get("summary")
    except RecordsError:
        return ""
    return str(summary[0]) if isinstance(summary, list) and summary else ""


def _in_one_cell(data: ReportData) -> str:
    """`Best for the average model: s2a, ...; best for devices on their own labels: s2s, ...`"""
    lines = [line.removesuffix(".") for line in describe_leaders(data.results())]
    if not lines:
        return ""
    first, *others = lines
    return "; ".join([first, *(line[0].lower() + line[1:] for line in others)]) + "."


def _over_cells(data: ReportData) -> str:
    compared, tuned = data.compared[data.headline], ""
    if data.tuned_values:
        compared = replace(compared, cells=compared.cells.best(TUNED))
        tuned = ", each at its best stepsize"
    if not compared.comparisons:
        return f"No cell has both {compared.against} and another primitive: nothing is compared."
    cells, tally = Counter(label for _, label in compared.comparisons), compared.tally
    named = [
        f"{label} is clearly better than {compared.against} in {tally[label, 'win']:,} of "
        f"{plural(count, 'cell')} and clearly worse in {tally[label, 'loss']:,}"
        for label, count in list(cells.items())[:MOST_NAMED]
    ]
    more = len(cells) - len(named)
    others = f"; for {plural(more, 'other primitive')} see below" if more else ""
    return f"By {traits(data.headline).title}{tuned}: {'; '.join(named)}{others}."


def runs_section(data: ReportData) -> PageSection:
    """Section "What was run": a description, with warnings about runs that are not finished."""
    return PageSection("run", "What was run", [*_warnings(data), *_description(data)])


def _warnings(data: ReportData) -> list[Block]:
    if not data.runs:
        words = f"No runs are recorded in {data.folder}. Record some: "
        return [note(words + skerry_command("run", out=data.folder), "warning")]
    left = {status: count for status, count in data.grid.statuses.items() if status != "finished"}
    stopped = [note(words) for words in [describe_stopped(data.runs)] if words]
    if not left:
        return stopped
    runs, statuses = plural(len(data.runs), "run"), format_statuses(left)
    if not data.grid.statuses["finished"]:
        words = (
            f"No run is finished yet ({statuses}). Nothing is compared; the curves show the "
            "rounds recorded so far."
        )
    else:
        words = f"Of {runs}, {statuses}. All comparisons use only finished runs."
    if "running" in left:
        words += " Give the command that started the running ones again to resume them."
    return [note(words, "warning"), *stopped]


def _description(data: ReportData) -> list[Block]:
    if not data.runs:
        return []
    by_label = data.grid.positions[data.grid.cells[start_cell(data)]].values()
    shown = [data.runs[place].experiment for by_seed in by_label for place in by_seed.values()]
    words = describe_runs(shown) + "."
    names = list(dict.fromkeys(run.name for run in data.runs))
    presets = [label for label in data.grid.labels if label in PRESETS]
    counts = [
        ("Runs", f"{len(data.runs):,} ({format_statuses(data.grid.statuses)})"),
        ("Compared" if presets else "Primitives", ", ".join(data.grid.labels)),
        ("Seeds", ", ".join(map(str, data.grid.seeds[:MOST_VALUES]))),
    ]
    if len(names) > 1:
        counts.append(("Names", ", ".join(names[:MOST_VALUES])))
    rules = [(name, *attrgetter("rule", "keeps", "sends")(PRESETS[name])) for name in presets]
    header = ("", "rule", "stores", "sends")
    methods = [table("Methods and other systems", header, rules, "llll")] if presets else []
    if not data.grid.axes:
        return [text(words[0].upper() + words[1:]), definitions(counts), *methods]
    counts.insert(1, ("Cells", f"{len(data.grid.cells):,}"))
    return [
        text(f"The cell that is shown first, one of {len(data.grid.cells):,}: {words}"),
        definitions(counts),
        *methods,
        _axes(data),
    ]


def _axes(data: ReportData) -> Block:
    rows = []
    for place, name in enumerate(short_names(data.grid.axes).values()):
        values = list(dict.fromkeys(format_value(cell[place]) for cell in data.grid.cells))
        more = f", and {len(values) - MOST_VALUES:,} more" if len(values) > MOST_VALUES else ""
        rows.append((name, ", ".join(values[:MOST_VALUES]) + more))
    return table("What varies", ("field", "values"), rows, "ll")
