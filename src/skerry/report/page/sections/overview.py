"""What was run, in words; and what a reader must know before reading on."""

import re

from skerry.analysis.names import short_names, word
from skerry.analysis.recorded import in_words
from skerry.config.experiment import Experiment
from skerry.config.presets import PRESETS
from skerry.report.page.blocks import Block, Section, facts, note, table, text
from skerry.report.page.sections.answer import start
from skerry.report.page.study import Study
from skerry.report.text import plural
from skerry.report.words import study_in_words

MOST_VALUES = 24


def what_was_run(study: Study) -> Section:
    return Section("run", "What was run", [*_warnings(study), *_told(study)])


def heading(study: Study) -> str:
    """The name of the study, or of the first of several."""
    names = [_upright(name) for name in dict.fromkeys(run.name for run in study.runs)]
    if not names:
        return "No runs yet"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _upright(name: str) -> str:
    """Without the characters that turn the direction of all that follows them."""
    return re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", name)


def _warnings(study: Study) -> list[Block]:
    if not study.runs:
        folder = study.path.parent
        return [
            note(
                f"No runs are recorded in {folder}. Record some: skerry run --out {folder}",
                "warning",
            )
        ]
    left = {status: count for status, count in study.grid.statuses.items() if status != "finished"}
    if not left:
        return []
    runs, told = plural(len(study.runs), "run"), in_words(left)
    if not study.grid.statuses["finished"]:
        words = (
            f"No run is finished yet ({told}). Nothing is compared; the curves show what has "
            "been recorded so far."
        )
    else:
        words = f"Of {runs}, {told}. All comparisons are over the finished ones."
    if "running" in left:
        words += " Running ones go on when the command that began them is given again."
    return [note(words, "warning")]


def _told(study: Study) -> list[Block]:
    if not study.runs:
        return []
    axes = study.grid.axes
    words = study_in_words(_chosen_cell(study)) + "."
    named = list(dict.fromkeys(run.name for run in study.runs))
    presets = [label for label in study.grid.labels if label in PRESETS]
    counts = [
        ("Runs", f"{len(study.runs):,} ({in_words(study.grid.statuses)})"),
        ("Compared" if presets else "Primitives", ", ".join(study.grid.labels)),
        ("Seeds", ", ".join(map(str, study.grid.seeds[:MOST_VALUES]))),
    ]
    if len(named) > 1:
        counts.append(("Names", ", ".join(named[:MOST_VALUES])))
    systems = [_systems(presets)] if presets else []
    if not axes:
        return [text(words[0].upper() + words[1:]), facts(counts), *systems]
    counts.insert(1, ("Cells", f"{len(study.grid.cells):,}"))
    return [
        text(f"One of {len(study.grid.cells):,} cells, the one chosen at first: {words}"),
        facts(counts),
        *systems,
        _axes(study),
    ]


def _systems(presets: list[str]) -> Block:
    """What each does, and what methods keep and send."""
    rows = [
        (name, PRESETS[name].rule, PRESETS[name].keeps, PRESETS[name].sends) for name in presets
    ]
    return table("Methods and other systems", ("", "rule", "keeps", "sends"), rows, "llll")


def _chosen_cell(study: Study) -> list[Experiment]:
    places = study.grid.places[study.grid.cells[start(study)]].values()
    return [study.runs[place].experiment for by_seed in places for place in by_seed.values()]


def _axes(study: Study) -> Block:
    rows = []
    for place, name in enumerate(short_names(study.grid.axes).values()):
        values = list(dict.fromkeys(word(cell[place]) for cell in study.grid.cells))
        more = f", and {len(values) - MOST_VALUES:,} more" if len(values) > MOST_VALUES else ""
        rows.append((name, ", ".join(values[:MOST_VALUES]) + more))
    return table("What varies", ("field", "values"), rows, "ll")
