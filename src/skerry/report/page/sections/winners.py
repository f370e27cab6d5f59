"""Who won, and by how much."""

from dataclasses import replace

from skerry.analysis.answers import Answers
from skerry.measures import traits
from skerry.report.page.blocks import Block, Section, bullets, note, text, widget
from skerry.report.page.model import TUNED
from skerry.report.page.study import Study
from skerry.report.results import notes, summary
from skerry.report.table import COLUMNS, verdicts


def who_won(study: Study) -> Section | None:
    if not study.ranked:
        return None
    assert study.headline is not None
    answers = study.answers(study.headline)
    shown = [column.measure for column in COLUMNS if column.measure in study.ranked]
    return Section(
        "winners",
        "Who won",
        [
            *_told(study, answers),
            widget("winners", measures=[study.measures.index(name) for name in shown]),
            *_remarks(notes(answers)),
        ],
    )


def _told(study: Study, answers: Answers) -> list[Block]:
    """Over all cells, each primitive at its best stepsize where that varies."""
    if not study.grid.axes:
        return [bullets([*verdicts(study.results()), *summary(answers)])]
    over = f"Over all cells, by {traits(answers.cells.measure).title}"
    if TUNED in study.grid.axes:
        answers = replace(answers, cells=answers.cells.best(TUNED))
        over += ", each primitive at its best stepsize"
    return [text(f"{over}:"), bullets(summary(answers))]


def _remarks(lines: list[str]) -> list[Block]:
    return [note(line) for line in lines] or [
        text("Intervals are 95 % (Student's t over seeds); verdicts are paired by seed.")
    ]
