"""Primitives compared, cell by cell: who won, gaps, wins and losses, best stepsizes."""

from collections import Counter
from dataclasses import replace

from skerry.analysis.answers import Answers
from skerry.analysis.names import short_names, word
from skerry.config.measures import traits
from skerry.report.page.blocks import Block, Section, bullets, folded, note, table, text, widget
from skerry.report.page.model import VERDICTS
from skerry.report.page.study import TUNED, Study
from skerry.report.screens.results import notes, summary
from skerry.report.screens.run import COLUMNS, verdicts
from skerry.report.text import plural

MOST_ROWS = 400


def who_won(study: Study) -> Section | None:
    if not study.ranked:
        return None
    answers = study.answers[study.headline]
    shown = [column.measure for column in COLUMNS if column.measure in study.ranked]
    told = [note(line) for line in notes(answers)] or [
        text("Intervals are 95 % (Student's t over seeds); verdicts are paired by seed.")
    ]
    return Section(
        "winners",
        "Who won",
        [
            *_over_all(study, answers),
            widget("winners", measures=[study.measures.index(name) for name in shown]),
            *told,
        ],
    )


def _over_all(study: Study, answers: Answers) -> list[Block]:
    """Over all cells, each primitive at its best stepsize where that varies."""
    if not study.grid.axes:
        return [bullets([*verdicts(study.results()), *summary(answers)])]
    over = f"Over all cells, by {traits(answers.cells.measure).title}"
    if study.choices:
        answers = replace(answers, cells=answers.cells.best(TUNED))
        over += ", each primitive at its best stepsize"
    return [text(f"{over}:"), bullets(summary(answers))]


def gaps(study: Study) -> Section | None:
    if not study.grid.axes or len(study.grid.labels) < 2 or not study.ranked:
        return None
    return Section(
        "gaps",
        "Gaps between primitives",
        [
            text(
                "The mean difference over seeds, cell by cell; fields on neither axis are averaged "
                "over, seed by seed first, or held at the value chosen above."
            ),
            widget("gaps"),
        ],
    )


def wins(study: Study) -> Section | None:
    if not any(answers.comparisons for answers in study.answers.values()):
        return None
    return Section(
        "wins",
        "Wins, ties, losses",
        [
            text(
                "A cell is won or lost if the paired t test says so at level 0.05, after Holm's "
                "correction over all cells of the measure; else it is a tie."
            ),
            *([widget("wins")] if study.grid.axes else []),
            folded("Every measure", _tallies(study)),
        ],
    )


def _tallies(study: Study) -> Block:
    rows = []
    for name, answers in study.answers.items():
        tally = Counter(
            (label, answers.verdict(one)) for (_, label), one in answers.comparisons.items()
        )
        for label in dict.fromkeys(label for label, _ in tally):
            counts = (f"{tally[label, verdict]:,}" for verdict in VERDICTS)
            rows.append((traits(name).title, f"{label} against {answers.against}", *counts))
    header = ("measure", "compared", *VERDICTS)
    return table("In how many cells, by measure", header, rows, "llrrrr")


def stepsizes(study: Study) -> Section | None:
    """Which stepsize does best for whom."""
    if not study.choices:
        return None
    return Section(
        "stepsizes",
        "Best stepsizes",
        [
            text(
                "For each primitive and cell: of the seeds that every stepsize was run with, the "
                "stepsize that came to an end on most, and among those the best by "
                f"{traits(study.headline).title}. Choosing and judging on the same seeds flatters "
                "the chosen a little."
            ),
            widget("stepsizes"),
            *_chosen(study),
        ],
    )


def _chosen(study: Study) -> list[Block]:
    """How often each stepsize is best, and the full list."""
    found = [
        (cell, label, choice)
        for cell, chosen in study.choices.items()
        for label, choice in chosen.items()
    ]
    tally = Counter((label, choice.value) for _, label, choice in found)
    values = sorted({value for _, value in tally})
    counts = table(
        "In how many cells it is best",
        ("primitive", *map(word, values)),
        [
            (label, *(f"{tally[label, value]:,}" for value in values))
            for label in study.grid.labels
            if any(tally[label, value] for value in values)
        ],
        "l" + "r" * len(values),
    )
    fields = short_names(name for name in study.grid.axes if name != TUNED).values()
    every = table(
        "Every cell" if len(found) <= MOST_ROWS else f"The first {MOST_ROWS} of {len(found):,}",
        (*fields, "primitive", "best stepsize", traits(study.headline).title),
        [
            (*map(word, cell), label, word(choice.value), f"{choice.mean:.4g}")
            for cell, label, choice in found[:MOST_ROWS]
        ],
        "l" * len(fields) + "lrr",
    )
    return [counts, folded(f"{plural(len(found), 'choice')}, cell by cell", every)]
