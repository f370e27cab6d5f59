"""The answer in one sentence, for the top of the page; and the cell that it is about."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skerry.config.measures import traits
from skerry.errors import RecordsError
from skerry.report.page.sections.advice import advice_of
from skerry.report.page.study import TUNED, Study
from skerry.report.screens.run import verdicts
from skerry.report.text import plural

GLOSSARY = (
    ("S2S", "sampled to sampled: the server averages the devices that it sampled, and only those "
     "receive the average."),
    ("S2A", "sampled to all: every device receives the average of the sampled ones."),
    ("blend", "between the two: devices that were not sampled go part of the way to the average, "
     "half of it in blend(0.5)."),
    ("K", "how many devices the server samples (the field sampled)."),
    ("H", "rounds from one server round to the next (the field period)."),
    ("cell", "one combination of the fields that vary between runs; the bar below chooses one."),
)  # fmt: skip
"""For whoever has not read the paper."""
MOST_NAMED = 3
"""Primitives that one sentence can hold."""
_FIELDS = {
    "server.sampled": "sampled",
    "server.period": "period",
    "server.selection": "selection",
    TUNED: "stepsize",
}
"""Fields of a recommendation, by those of an experiment."""


def answer(study: Study) -> str:
    """Advice, where there is one; else who leads, or who wins how often."""
    if not study.runs:
        return ""
    if advised := _advised(study):
        return advised
    if not study.ranked:
        return "No run is finished yet, so there is nothing to compare."
    if len(study.grid.labels) < 2:
        return f"Only {study.grid.labels[0]} was run, so there is nothing to compare it with."
    return _over_cells(study) if study.grid.axes else _in_one_cell(study)


def start(study: Study) -> int:
    """The cell that is looked at first: that of the recommendation, where there is one."""
    try:
        wanted = (advice_of(study) or {}).get("recommendation")
    except RecordsError:
        wanted = None
    if not isinstance(wanted, Mapping) or not study.grid.axes:
        return 0
    fits = [
        sum(
            _alike(value, wanted.get(_FIELDS[axis]))
            for axis, value in zip(study.grid.axes, cell, strict=True)
            if axis in _FIELDS
        )
        for cell in study.grid.cells
    ]
    return fits.index(max(fits))


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _advised(study: Study) -> str:
    """What cannot be read is told in its own section."""
    try:
        told = (advice_of(study) or {}).get("summary")
    except RecordsError:
        return ""
    return str(told[0]) if isinstance(told, list) and told else ""


def _in_one_cell(study: Study) -> str:
    """`Best for the average model: s2a, ...; best for devices on their own labels: s2s, ...`"""
    told = [line.removesuffix(".") for line in verdicts(study.results())]
    if not told:
        return ""
    first, *others = told
    return "; ".join([first, *(line[0].lower() + line[1:] for line in others)]) + "."


def _over_cells(study: Study) -> str:
    answers, chosen = study.answers[study.headline], ""
    if study.choices:
        answers = replace(answers, cells=answers.cells.best(TUNED))
        chosen = ", each at its best stepsize"
    if not answers.comparisons:
        return f"No cell has {answers.against} beside another primitive, so nothing is compared."
    tally = Counter(
        (label, answers.verdict(one)) for (_, label), one in answers.comparisons.items()
    )
    cells = Counter(label for _, label in answers.comparisons)
    named = [
        f"{label} is clearly better than {answers.against} in {tally[label, 'win']:,} of "
        f"{plural(count, 'cell')} and clearly worse in {tally[label, 'loss']:,}"
        for label, count in list(cells.items())[:MOST_NAMED]
    ]
    more = len(cells) - len(named)
    others = f"; {plural(more, 'other primitive')}: see below" if more else ""
    return f"By {traits(study.headline).title}{chosen}: {'; '.join(named)}{others}."
