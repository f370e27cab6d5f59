"""The screen of `skerry results`: tables, tests and notes; with --devices, single devices."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from skerry.analysis.cells import Cells, ComparedCells
from skerry.analysis.compare import Comparison, Verdict, variance_saved
from skerry.analysis.device_results import DeviceResults, tenths
from skerry.analysis.names import format_value, short_names
from skerry.analysis.run_table import format_statuses
from skerry.analysis.statistics import Estimate
from skerry.files import place_of
from skerry.report import text
from skerry.report.text import Sheet, plural
from skerry.report.words import rerun_command

if TYPE_CHECKING:
    import pandas as pd

SIDE_BY_SIDE = 4  # with more labels than this, the table has a row for each


def print_sheets(sheets: Iterable[Sheet], lines: Iterable[str]) -> None:
    """Print tables with their titles, then lines of text."""
    console = text.console()
    for sheet in sheets:
        console.print(sheet.title, style="bold", markup=False)
        console.print(sheet.to_rich())
    for line in lines:
        console.print(line, markup=False)


def results_sheets(compared: ComparedCells) -> list[Sheet]:
    """The table of cells, and the table of paired differences if there are any."""
    return [cells_sheet(compared), *([differences_sheet(compared)] if compared.comparisons else [])]


def cells_sheet(compared: ComparedCells) -> Sheet:
    """The mean of every label in every cell."""
    cells, labels = compared.cells, compared.cells.labels
    interval = " ± half of the 95 % interval" if compared.seeds > 1 else ""
    title = f"{cells.measure}, {_when(cells)}: mean over {plural(compared.seeds, 'seed')}{interval}"
    fields = tuple(short_names(cells.fields).values())
    if len(labels) > SIDE_BY_SIDE:
        below = [
            (*map(format_value, cell), label, _mean(compared, found))
            for (cell, label), found in compared.estimates.items()
        ]
        header = (*fields, "primitive", "mean")
        return Sheet(title, header, tuple(below), "l" * len(fields) + "lr")
    rows = [
        (
            *map(format_value, cell),
            *(_mean(compared, compared.estimates.get((cell, one))) for one in labels),
        )
        for cell in cells.readings
    ]
    sides = "l" * len(fields) + "r" * len(labels)
    return Sheet(title, (*fields, *labels), tuple(rows), sides)


def differences_sheet(compared: ComparedCells) -> Sheet:
    """The paired difference of every label to the reference, in every cell."""
    others = compared.others
    what = f"{others[0]} - {compared.against}" if len(others) == 1 else f"minus {compared.against}"
    family = sum(not found.untested for found in compared.comparisons.values())
    holm = f" (Holm-corrected for {family:,} tests)" if family > 1 else ""
    title = f"{what}, paired by seed: mean ± half of the 95 % interval, p-value of the t test{holm}"
    rows = [
        (
            *map(format_value, cell),
            *([label] if len(others) > 1 else []),
            text.format_estimate(compared.cells.measure, found.difference, sign="+"),
            format_p(found.t_holm),
            _verdict(compared, label, found),
        )
        for (cell, label), found in compared.comparisons.items()
    ]
    named = ["primitive"] if len(others) > 1 else []
    words = (*short_names(compared.cells.fields).values(), *named)
    header = (*words, "difference", "p", "verdict")
    return Sheet(title, header, tuple(rows), "l" * len(words) + "rrl")


def results_summary(compared: ComparedCells) -> list[str]:
    """Sentences on the wins, ties and losses of every label, and on the gain from pairing."""
    return [*(_tally(compared, label) for label in compared.others), *_pairing(compared)]


def results_notes(compared: ComparedCells, folder: Path) -> list[str]:
    """Sentences on what the tables leave out, and why."""
    cells, found, more = compared.cells, list[str](), dict[str, Any]()
    left_out = {status: n for status, n in cells.statuses.items() if status != "finished"}
    if left_out:
        total = plural(cells.statuses.total(), "run")
        found.append(f"Not counted: {format_statuses(left_out)}, of {total}.")
    if cells.stopped:
        found.append(cells.stopped)
    if cells.unmeasured:
        runs = plural(cells.unmeasured, "finished run")
        found.append(f"Not counted: {runs} without {cells.measure} ({_when(cells)}).")
    if compared.seeds == 1:
        found.append("There is only one seed, so there are no intervals and no tests.")
        more["seeds"] = 5
    if len(cells.labels) == 1:
        found.append(f"Only {compared.against} was run, so nothing is compared.")
        more["compare"] = ("s2s", "s2a")
    elif left := len(cells.readings.keys() - {cell for cell, _ in compared.comparisons}):
        found.append(
            f"Not compared: {plural(left, 'cell')} without {compared.against} or without any "
            "other primitive."
        )
    if more:
        command = rerun_command(cells.experiments, **more, out=place_of(folder))
        same = f"the same command with --{' and --'.join(more)}"
        found.append(f"Run more: {command or same}")
    return found


def _tally(compared: ComparedCells, label: str) -> str:
    found = [one for (_, other), one in compared.comparisons.items() if other == label]
    wins, ties, losses, untested = (compared.tally[label, one] for one in get_args(Verdict))
    counts = [plural(wins, "win"), plural(ties, "tie"), plural(losses, "loss", "losses")]
    counts += [f"{untested} untested"] if untested else []
    sign = -1 if compared.cells.lower_is_better else 1
    better = sum(sign * one.difference.mean > 0 for one in found)
    worse = sum(sign * one.difference.mean < 0 for one in found)
    return (
        f"{label} against {compared.against} in {plural(len(found), 'cell')}: {', '.join(counts)} "
        f"at level {compared.level:g} (by the mean alone, without a test: {better} better, {worse} "
        "worse)."
    )


def _pairing(compared: ComparedCells) -> list[str]:
    saved, seeds = variance_saved(compared.comparisons.values()), compared.seeds
    if not math.isfinite(saved):
        return []
    if saved <= 1:
        return [
            f"Pairing by seed does not help here: differences on common seeds have {1 / saved:.1f} "
            "times the variance of differences on separate seeds."
        ]
    return [
        f"Pairing by seed reduces the variance of differences {saved:.1f} times: {seeds} common "
        f"seeds are worth {seeds * saved:.0f} separate ones."
    ]


def _when(cells: Cells) -> str:
    return f"mean of the last {plural(cells.last, 'round')}" if cells.last else "final value"


def _mean(compared: ComparedCells, found: Estimate | None) -> str:
    if found is None:
        return text.NOTHING
    few = f" ({found.count})" if found.count < compared.seeds else ""
    return text.format_estimate(compared.cells.measure, found) + few


def _verdict(compared: ComparedCells, label: str, found: Comparison) -> str:
    verdict = compared.verdict(found)
    if verdict == "untested":
        return found.untested
    return {"win": f"{label} better", "loss": f"{compared.against} better", "tie": "tie"}[verdict]


def format_p(value: float) -> str:
    """A p-value as text: `0.012`, `<0.001`."""
    if math.isnan(value):
        return text.NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


MOST_SHOWN = 30  # the most devices in a table, the worst ones


def device_sheets(found: DeviceResults) -> list[Sheet]:
    """For every cell, a table of its islands and a table of its devices."""
    names = short_names(found.fields).values()
    seeds = plural(int(found.frame["seeds"].max()), "seed")
    sheets = []
    for cell, table in found.cells.items():
        words = ", ".join(f"{name} {format_value(v)}" for name, v in zip(names, cell, strict=True))
        title = f"{f'{words}: ' if words else ''}{found.own} at the end, {seeds}"
        labels = [label for label in found.labels if label in table]
        sheets += [_islands(found, title, table, labels), _devices(found, title, table, labels)]
    return sheets


def device_notes(found: DeviceResults, whole: bool = False) -> list[str]:
    """Sentences on how devices were scored and which are not shown (unless all are: `whole`)."""
    tested = found.frame["own_tests"] > 0
    notes = []
    if not tested.any():
        notes.append(
            "No device has test samples of its own. Own scores are estimated from the global test "
            "set, weighted by the device's mix of data."
        )
    elif not tested.all():
        without = found.frame.loc[~tested, "device"].nunique()
        notes.append(
            f"{plural(without, 'device has', 'devices have')} no test samples. Their own scores "
            "are estimated from the global test set, weighted by their mix of data."
        )
    most = max(len(table) for table in found.cells.values())
    if most > MOST_SHOWN and not whole:
        notes.append(
            f"The {MOST_SHOWN} worst of {most:,} devices are shown; CSV and JSON have all of them."
        )
    return notes


def _islands(found: DeviceResults, title: str, table: "pd.DataFrame", labels: list[str]) -> Sheet:
    """The mean of each island, and of the worst and best tenth of all devices."""
    groups = table.groupby("island", sort=False)
    rows = [
        (
            str(island),
            f"{len(rows):,}",
            f"{rows['samples'].mean():,.0f}",
            *(_format_score(found, rows[label].mean()) for label in labels),
        )
        for island, rows in sorted(groups, key=lambda group: str(group[0]))
    ]
    for place, words in enumerate(("worst tenth", "best tenth")):
        scores = (tenths(table[label].dropna(), found.lower_is_better)[place] for label in labels)
        rows.append((words, "", "", *(_format_score(found, score) for score in scores)))
    header = ("island", "devices", "samples", *labels)
    title += ", by island: mean over its devices"
    return Sheet(title, header, tuple(rows), "lrr" + "r" * len(labels))


def _devices(found: DeviceResults, title: str, table: "pd.DataFrame", labels: list[str]) -> Sheet:
    rows = [
        (
            row["device"],
            row["island"],
            f"{row['samples']:,.0f}",
            f"{row['own_tests']:,.0f}",
            *(_format_score(found, row[label]) for label in labels),
        )
        for row in table.head(MOST_SHOWN).to_dict("records")
    ]
    header = ("device", "island", "samples", "own tests", *labels)
    title += ", by device, worst first"
    return Sheet(title, header, tuple(rows), "llrr" + "r" * len(labels))


def _format_score(found: DeviceResults, value: float) -> str:
    return text.NOTHING if math.isnan(value) else text.format_measure(found.own, value)
