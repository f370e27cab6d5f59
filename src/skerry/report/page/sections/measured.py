"""Page sections of measured values: comparisons by cell, curves, and the scores of devices."""

from collections import Counter
from dataclasses import replace
from typing import Any

from skerry.analysis.cells import ComparedCells
from skerry.analysis.device_results import DeviceResults, read_device_results
from skerry.analysis.names import format_value, short_names
from skerry.analysis.run_table import open_stores
from skerry.config.measures import traits
from skerry.errors import RecordsError
from skerry.report.page.blocks import Block, PageSection, bullets, folded, note, table, text, widget
from skerry.report.page.model import VERDICTS
from skerry.report.page.report_data import RATIOS, TUNED, ReportData
from skerry.report.screens.results import device_notes, results_notes, results_summary
from skerry.report.screens.run import COLUMNS, describe_leaders
from skerry.report.text import plural
from skerry.theory.ratios import expected_ratios, notes_on_rules

MOST_ROWS = 400
MOST_CELLS = 12  # the most cells whose devices are shown
MOST_DEVICES = 2_000  # in a plot; of more, evenly spaced ranks are shown


def winners_section(data: ReportData) -> PageSection | None:
    """The best primitive of each cell. The runs of an advice are a search and are not ranked."""
    if not data.ranked or data.advice:
        return None
    compared = data.compared[data.headline]
    shown = [column.measure for column in COLUMNS if column.measure in data.ranked]
    notes = [note(line) for line in results_notes(compared, data.folder)] or [
        text("Intervals are 95 % (Student's t over seeds). Tests compare primitives seed by seed.")
    ]
    winners = widget("winners", measures=[data.measures.index(name) for name in shown])
    return PageSection("winners", "Who won", [*_over_all_cells(data, compared), winners, *notes])


def _over_all_cells(data: ReportData, compared: ComparedCells) -> list[Block]:
    if not data.grid.axes:
        return [bullets([*describe_leaders(data.results()), *results_summary(compared)])]
    title = f"Over all cells, by {traits(compared.cells.measure).title}"
    if data.tuned_values:
        compared = replace(compared, cells=compared.cells.best(TUNED))
        title += ", each primitive at its best stepsize"
    return [text(f"{title}:"), bullets(results_summary(compared))]


def gaps_section(data: ReportData) -> PageSection | None:
    """The differences between primitives as maps."""
    if not data.grid.axes or len(data.grid.labels) < 2 or not data.ranked or data.advice:
        return None
    words = text(
        "The mean difference over seeds in each cell. A field that is on neither axis is averaged "
        "over, or has the value selected above."
    )
    return PageSection("gaps", "Gaps between primitives", [words, widget("gaps")])


def wins_section(data: ReportData) -> PageSection | None:
    """How often each primitive wins, ties and loses."""
    if data.advice or not any(one.comparisons for one in data.compared.values()):
        return None
    words = text(
        "A primitive wins or loses a cell if the paired t test is significant at level 0.05, after "
        "Holm's correction over all cells of the measure. Otherwise it is a tie."
    )
    by_value = [widget("wins")] if data.grid.axes else []
    every = folded("Every measure", _tallies(data))
    return PageSection("wins", "Wins, ties, losses", [words, *by_value, every])


def _tallies(data: ReportData) -> Block:
    rows = []
    for name, compared in data.compared.items():
        for label in compared.others:
            counts = (f"{compared.tally[label, verdict]:,}" for verdict in VERDICTS)
            rows.append((traits(name).title, f"{label} against {compared.against}", *counts))
    header = ("measure", "compared", *VERDICTS)
    return table("Number of cells, by measure", header, rows, "llrrrr")


def stepsizes_section(data: ReportData) -> PageSection | None:
    if not data.tuned_values or data.advice:
        return None
    words = text(
        "The best stepsize of each primitive in each cell. Only seeds that were run with every "
        "stepsize count. The best stepsize is the one with which most of these seeds finished and, "
        f"among equals, the one with the best {traits(data.headline).title}. The same seeds choose "
        "the stepsize and score it, so the scores are slightly too good."
    )
    tables = _best_stepsizes(data)
    return PageSection("stepsizes", "Best stepsizes", [words, widget("stepsizes"), *tables])


def _best_stepsizes(data: ReportData) -> list[Block]:
    """How often each stepsize is best, and the full list."""
    found = [
        (cell, label, tuned)
        for cell, by_label in data.tuned_values.items()
        for label, tuned in by_label.items()
    ]
    tally = Counter((label, tuned.value) for _, label, tuned in found)
    values = sorted({value for _, value in tally})
    counts = table(
        "Number of cells in which each stepsize is best",
        ("primitive", *map(format_value, values)),
        [
            (label, *(f"{tally[label, value]:,}" for value in values))
            for label in data.grid.labels
            if any(tally[label, value] for value in values)
        ],
        "l" + "r" * len(values),
    )
    fields = short_names(name for name in data.grid.axes if name != TUNED).values()
    every = table(
        "Every cell" if len(found) <= MOST_ROWS else f"The first {MOST_ROWS} of {len(found):,}",
        (*fields, "primitive", "best stepsize", traits(data.headline).title),
        [
            (*map(format_value, cell), label, format_value(tuned.value), f"{tuned.mean:.4g}")
            for cell, label, tuned in found[:MOST_ROWS]
        ],
        "l" * len(fields) + "lrr",
    )
    return [counts, folded(f"{plural(len(found), 'best stepsize')}, cell by cell", every)]


def curves_section(data: ReportData) -> PageSection | None:
    if not data.measures:
        return None
    words = (
        "Mean over seeds, with a band for the 95 % interval. Dotted lines are server rounds (D2S). "
        "Over messages, bytes, seconds or joules, the mean of a round lies at its mean cost so far."
    )
    blocks = [text(words), *_thinned(data), widget("curves", **_prices(data))]
    return PageSection("curves", "Learning curves", blocks)


def _prices(data: ReportData) -> dict[str, Any]:
    """The prices of the advice, if there is one that counts messages."""
    asked = data.advice["question"] if data.advice else {}
    in_messages = asked.get("cost_unit") not in (None, "seconds", "joules")
    return {name: asked[name] for name in ("prices", "cost_unit") if in_messages}


def consensus_section(data: ReportData) -> PageSection | None:
    """Disagreement and bias, beside what theory expects of each server round."""
    if "disagreement" not in data.measures:
        return None
    words = text(
        "Mixing removes disagreement inside islands; only the server removes disagreement between "
        "islands. On average, S2S leaves the share δ = (n - K) / (n - 1) of the disagreement and "
        "does not move the global average. S2A leaves none of it and turns the share κ = δ / K "
        "into bias. blend(β) leaves (1 - β)² δ and turns β² κ into bias."
    )
    expected = (expected_ratios(data.experiment(group)) for group in data.grid.groups)
    theory = [[one and [one.intra, one.inter] for one in ratios] for ratios in expected]
    plots = widget("consensus", ratios=RATIOS, theory=theory)
    return PageSection("consensus", "Disagreement and bias", [words, *_other_rules(data), plots])


def cost_section(data: ReportData) -> PageSection | None:
    """Measures over the number of messages."""
    messages = [name for name in data.measures if traits(name).is_count]
    others = [name for name in data.measures if name not in messages]
    if not messages or not others:
        return None
    words = text(
        "The same curves over the messages sent so far. A message carries one model over one link: "
        "to the server, from the server, or between two devices (D2D)."
    )
    plot = widget("cost", **_prices(data))
    return PageSection("cost", "Scores against messages", [words, plot])


def _thinned(data: ReportData) -> list[Block]:
    if data.curves.thinned is None:
        return []
    shown, recorded = data.curves.thinned
    words = (
        f"{shown} of {recorded:,} rounds are drawn, including server rounds and the rounds before "
        f"them. The records have all rounds: skerry.load({_folders(data)!r})"
    )
    return [note(words)]


def _folders(data: ReportData) -> str | list[str]:
    folder, *more = [str(path.parent) for path in data.grid.paths]
    return [folder, *more] if more else folder


def _other_rules(data: ReportData) -> list[Block]:
    """Notes on what replaces δ and κ if the server does not sample uniformly."""
    experiments = [data.experiment(group) for group in data.grid.groups]
    notes = notes_on_rules(one for one in experiments if one.server.is_there)
    return [note(" ".join(["δ and κ are for uniform sampling.", *notes]))] if notes else []


def devices_section(data: ReportData) -> PageSection | None:
    """The scores of single devices at the end; None if none were recorded."""
    try:
        with open_stores(data.grid.paths) as stores:
            found = read_device_results(stores, data.grid)
    except RecordsError:
        return None
    first = [data.grid.groups[number].cell for number in data.named_groups.values()]
    some = list(dict.fromkeys([*first, *range(len(data.grid.cells))]))[:MOST_CELLS]
    shown = [_cell(found, cell) if c in some else None for c, cell in enumerate(data.grid.cells)]
    notes = [*device_notes(found, whole=True), *_left_out(data, found)]
    words = text(
        "The score of every device at the end, as a mean over seeds: on the device's own data, or "
        "on the global test set. A box spans the middle half of an island's devices. In the plot "
        "against samples, devices with little data are on the left."
    )
    plot = widget("devices", own=found.own, title=traits(found.own).title, cells=shown)
    return PageSection("devices", "Who is left behind", [words, plot, *map(note, notes)])


def _cell(found: DeviceResults, cell: tuple[Any, ...]) -> dict[str, Any] | None:
    """The devices of a cell as columns, with their scores by label."""
    rows = found.rows_of(cell)
    if rows.empty:
        return None
    devices = found.table(rows)
    about = devices[:: -(-len(devices) // MOST_DEVICES)]
    scores = {}
    for label, part in rows.groupby("primitive", sort=False):
        part = part.set_index("device").reindex(about["device"])
        scores[str(label)] = [
            [None if value != value else round(float(value), 4) for value in part[name]]
            for name in (found.own, found.common)
        ]
    return {
        "device": about["device"].tolist(),
        "island": about["island"].tolist(),
        "samples": about["samples"].round().astype(int).tolist(),
        "tests": about["own_tests"].round().astype(int).tolist(),
        "scores": scores,
    }


def _left_out(data: ReportData, found: DeviceResults) -> list[str]:
    notes = []
    if len(data.grid.cells) > MOST_CELLS:
        notes.append(f"Only the devices of {MOST_CELLS} cells are shown.")
    most = found.frame["device"].nunique()
    if most > MOST_DEVICES:
        notes.append(
            f"At most {MOST_DEVICES:,} of {most:,} devices, from worst to best, are shown."
        )
    return notes
