"""Over all cells: gaps, wins, best stepsizes. There is something to see where something varies."""

from collections import Counter

from skerry.analysis.names import short_names, word
from skerry.measures import traits
from skerry.report.page.blocks import Block, Section, folded, table, text, widget
from skerry.report.page.model import TUNED, VERDICTS
from skerry.report.page.study import Study
from skerry.report.words import plural

MOST_ROWS = 400


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
    if not any(study.answers(name).comparisons for name in study.ranked):
        return None
    blocks = [
        text(
            "A cell is won or lost if the paired t test says so at level 0.05, after Holm's "
            "correction over all cells of the measure; else it is a tie."
        )
    ]
    if study.grid.axes:
        blocks.append(widget("wins"))
    return Section(
        "wins", "Wins, ties, losses", [*blocks, folded("Every measure", _tallies(study))]
    )


def stepsizes(study: Study) -> Section | None:
    """Which stepsize does best for whom."""
    if TUNED not in study.grid.axes or study.headline not in study.ranked:
        return None
    assert study.headline is not None
    return Section(
        "stepsizes",
        "Best stepsizes",
        [
            text(
                "For each primitive and cell, the stepsize that most seeds finished with, and "
                f"among those the best by {traits(study.headline).title}. Choosing and judging "
                "on the same seeds flatters the chosen a little."
            ),
            widget("stepsizes"),
            *_best(study, study.headline),
        ],
    )


def _tallies(study: Study) -> Block:
    rows = []
    for name in study.ranked:
        answers = study.answers(name)
        for label in dict.fromkeys(label for _, label in answers.comparisons):
            told = Counter(
                answers.verdict(one)
                for (_, other), one in answers.comparisons.items()
                if other == label
            )
            counts = (f"{told[verdict]:,}" for verdict in VERDICTS)
            rows.append((traits(name).title, f"{label} against {answers.against}", *counts))
    header = ("measure", "compared", *VERDICTS)
    return table("In how many cells, by measure", header, rows, "llrrrr")


def _best(study: Study, measure: str) -> list[Block]:
    """How often each stepsize is best, and the full list."""
    cells = study.answers(measure).cells
    rest = tuple(name for name in cells.fields if name != TUNED)
    found = {
        (cell, label): choice
        for cell, chosen in cells.choices(TUNED).items()
        for label, choice in chosen.items()
    }
    tally = Counter((label, choice.value) for (_, label), choice in found.items())
    values = sorted({value for _, value in tally}, key=float)
    rows = [
        (label, *(f"{tally[label, value]:,}" for value in values))
        for label in study.grid.labels
        if any(tally[label, value] for value in values)
    ]
    counts = table(
        "In how many cells it is best",
        ("primitive", *map(word, values)),
        rows,
        "l" + "r" * len(values),
    )
    every = [
        (*map(word, cell), label, word(choice.value), f"{choice.mean:.4g}")
        for (cell, label), choice in found.items()
    ]
    title = "Every cell" if len(every) <= MOST_ROWS else f"The first {MOST_ROWS} of {len(every):,}"
    header = (*short_names(rest).values(), "primitive", "best stepsize", traits(measure).title)
    listed = table(title, header, every[:MOST_ROWS], "l" * len(rest) + "lrr")
    return [counts, folded(f"{plural(len(every), 'choice')}, cell by cell", listed)]
