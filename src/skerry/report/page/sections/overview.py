"""The top of the page: its title, the answer in one sentence, and what was run."""

import re
from collections import Counter
from dataclasses import replace
from operator import attrgetter

from skerry.analysis.run_table import describe_stopped, format_statuses
from skerry.config.measures import traits
from skerry.config.presets import PRESETS
from skerry.errors import skerry_command
from skerry.report.page.advice_file import read_advice
from skerry.report.page.blocks import Block, PageSection, definitions, note, table, text
from skerry.report.page.report_data import TUNED, ReportData
from skerry.report.screens.run import describe_leaders
from skerry.report.text import plural, seed_words
from skerry.report.words import describe_runs

MOST_NAMED = 3  # the most primitives in the answer
MOST_NAMES = 24


def page_title(data: ReportData) -> str:
    """The name of the runs, or the first of several names."""
    names = list(dict.fromkeys(run.name for run in data.runs))
    if not names:
        return "No runs yet"
    # Without characters that reverse the direction of the text after them.
    first = re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", names[0])
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"


def answer_sentence(data: ReportData) -> str:
    """The headline of the advice if there is one; else the best primitive, or how often each one is
    better."""
    if not data.runs:
        return ""
    if data.advice is not None:
        return str(data.advice["headline"])
    if not data.ranked:
        return "No run is finished yet, so there is nothing to compare."
    if len(data.grid.labels) < 2:
        return f"Only {data.grid.labels[0]} was run, so there is nothing to compare it with."
    return _over_cells(data) if data.grid.axes else _in_one_cell(data)


def start_cell(data: ReportData) -> int:
    """The index of the cell that is shown first: that of the recommendation if there is one."""
    first = next(iter(data.named_groups.values()), None)
    return 0 if first is None else data.grid.groups[first].cell


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


def advice_section(data: ReportData) -> PageSection | None:
    """The advice, which `assets/advice.js` shows: score against cost first, then the question."""
    advice = read_advice(data.grid.paths)
    return PageSection("advice", "Advice", [{"kind": "advice"}]) if advice else None


def runs_section(data: ReportData) -> PageSection:
    """Section "What was run": a description, with warnings about runs that are not finished."""
    search = [{"kind": "search"}] if data.advice else []  # what the runs of an advice are
    return PageSection("run", "What was run", [*_warnings(data), *search, *_description(data)])


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
        ("Seeds", f"{len(data.grid.seeds):,} ({seed_words(data.grid.seeds)})"),
    ]
    if len(names) > 1:
        counts.append(("Names", ", ".join(names[:MOST_NAMES])))
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
        {"kind": "axes"},
    ]
