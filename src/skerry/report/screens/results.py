"""`skerry results`: the answers of a store as tables, and in words."""

import math
from collections import Counter

from skerry.analysis.answers import Answers
from skerry.analysis.cells import Cells
from skerry.analysis.compare import Comparison, variance_saved
from skerry.analysis.names import short_names, word
from skerry.analysis.recorded import in_words
from skerry.analysis.statistics import Estimate
from skerry.report import text
from skerry.report.text import Sheet, plural

SIDE_BY_SIDE = 4  # more labels than this stand below each other


def tell(answers: Answers) -> None:
    console = text.console()
    for sheet in sheets(answers):
        console.print(sheet.title, style="bold", markup=False)
        console.print(sheet.to_rich())
    for line in [*summary(answers), *notes(answers)]:
        console.print(line, markup=False)


def sheets(answers: Answers) -> list[Sheet]:
    """The cells; and the paired differences, where there are any."""
    return [cells_sheet(answers), *([differences_sheet(answers)] if answers.comparisons else [])]


def cells_sheet(answers: Answers) -> Sheet:
    cells, labels = answers.cells, answers.cells.labels
    interval = " ± half of the 95 % interval" if answers.seeds > 1 else ""
    title = f"{cells.measure}, {_when(cells)}: mean over {plural(answers.seeds, 'seed')}{interval}"
    fields = tuple(short_names(cells.fields).values())
    if len(labels) > SIDE_BY_SIDE:
        below = [
            (*map(word, cell), label, _mean(answers, found))
            for (cell, label), found in answers.estimates.items()
        ]
        header = (*fields, "primitive", "mean")
        return Sheet(title, header, tuple(below), "l" * len(fields) + "lr")
    beside = [
        (*map(word, cell), *(_mean(answers, answers.estimates.get((cell, one))) for one in labels))
        for cell in cells.readings
    ]
    sides = "l" * len(fields) + "r" * len(labels)
    return Sheet(title, (*fields, *labels), tuple(beside), sides)


def differences_sheet(answers: Answers) -> Sheet:
    others = list(dict.fromkeys(label for _, label in answers.comparisons))
    what = f"{others[0]} - {answers.against}" if len(others) == 1 else f"minus {answers.against}"
    family = sum(not found.untested for found in answers.comparisons.values())
    holm = f" after Holm ({family:,} tests)" if family > 1 else ""
    title = f"{what} by seed: mean ± half of the 95 % interval, p of the t test{holm}"
    rows = [
        (
            *map(word, cell),
            *([label] if len(others) > 1 else []),
            text.estimate(answers.cells.measure, found.difference, sign="+"),
            _p(found.t_holm),
            _verdict(answers, label, found),
        )
        for (cell, label), found in answers.comparisons.items()
    ]
    words = (
        *short_names(answers.cells.fields).values(),
        *(["primitive"] if len(others) > 1 else []),
    )
    header = (*words, "difference", "p", "verdict")
    return Sheet(title, header, tuple(rows), "l" * len(words) + "rrl")


def summary(answers: Answers) -> list[str]:
    """Wins, ties and losses of every label; and what pairing was worth."""
    labels = dict.fromkeys(label for _, label in answers.comparisons)
    return [*(_tally(answers, label) for label in labels), *_pairing(answers)]


def notes(answers: Answers) -> list[str]:
    """What the tables leave out, and why."""
    cells, found = answers.cells, []
    left_out = {status: n for status, n in cells.statuses.items() if status != "finished"}
    if left_out:
        total = plural(cells.statuses.total(), "run")
        found.append(f"Not counted: {in_words(left_out)}, of {total}.")
    if cells.unmeasured:
        runs = plural(cells.unmeasured, "finished run")
        found.append(f"Not counted: {runs} without {cells.measure} ({_when(cells)}).")
    if answers.seeds == 1:
        found.append(
            "One seed only: no interval and no test. Run more of them: skerry run --seeds 5"
        )
    if len(cells.labels) == 1:
        found.append(
            f"Only {answers.against} is here, so nothing is compared. Run others beside it: "
            "skerry run --compare s2s,s2a"
        )
    elif alone := len(cells.readings.keys() - {cell for cell, _ in answers.comparisons}):
        found.append(f"{plural(alone, 'cell')} without {answers.against} beside another primitive.")
    return found


def _tally(answers: Answers, label: str) -> str:
    found = [one for (_, other), one in answers.comparisons.items() if other == label]
    verdicts = Counter(answers.verdict(one) for one in found)
    told = [
        plural(verdicts["win"], "win"),
        plural(verdicts["tie"], "tie"),
        plural(verdicts["loss"], "loss", "losses"),
        *([f"{verdicts['untested']} untested"] if verdicts["untested"] else []),
    ]
    sign = -1 if answers.cells.lower_is_better else 1
    better = sum(sign * one.difference.mean > 0 for one in found)
    worse = sum(sign * one.difference.mean < 0 for one in found)
    return (
        f"{label} against {answers.against} in {plural(len(found), 'cell')}: {', '.join(told)} at "
        f"level {answers.level:g} (by the sign of the mean alone: {better} better, {worse} worse)."
    )


def _pairing(answers: Answers) -> list[str]:
    saved, seeds = variance_saved(answers.comparisons.values()), answers.seeds
    if not math.isfinite(saved):
        return []
    if saved <= 1:
        return [
            f"Pairing: no help here; differences on common seeds have {1 / saved:.1f} times the "
            "variance of those on separate seeds."
        ]
    return [
        f"Pairing: differences on common seeds have {saved:.1f} times less variance than on "
        f"separate seeds; {seeds} seeds tell as much as {seeds * saved:.0f} would."
    ]


def _when(cells: Cells) -> str:
    if cells.last is None:
        return "final value"
    return f"mean of the last {plural(cells.last, 'round')}"


def _mean(answers: Answers, found: Estimate | None) -> str:
    if found is None:
        return text.NOTHING
    few = f" ({found.count})" if found.count < answers.seeds else ""
    return text.estimate(answers.cells.measure, found) + few


def _verdict(answers: Answers, label: str, found: Comparison) -> str:
    verdict = answers.verdict(found)
    if verdict == "untested":
        return found.untested
    return {"win": f"{label} better", "loss": f"{answers.against} better", "tie": "tie"}[verdict]


def _p(value: float) -> str:
    if math.isnan(value):
        return text.NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"
