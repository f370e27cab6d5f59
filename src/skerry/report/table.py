"""The table after a run: each primitive's measures over seeds, and what they differ by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skerry.analysis.compare import compare_seeds
from skerry.analysis.results import Results
from skerry.analysis.statistics import Estimate, estimate

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    measure: str
    title: str
    digits: int = 2
    spread: bool = True
    """Whether the interval is shown."""
    instead_of: str = ""
    """Shown only where this other measure is not there."""


COLUMNS = (
    Column("average_accuracy", "average\nmodel %"),
    Column("device_accuracy", "devices,\nall data %"),
    Column("own_accuracy", "devices,\nown labels %"),
    Column("average_loss", "average\nloss", 4, instead_of="average_accuracy"),
    Column("disagreement", "disagree-\nment", 3, spread=False),
    Column("uplink_messages", "up", 0),
    Column("downlink_messages", "down", 0),
)


def summary(results: Results, columns: Sequence[Column] = COLUMNS) -> "Table":
    """One row per primitive: mean over seeds and half of the 95 % interval."""
    from rich import box
    from rich.table import Table

    there = {measure for lane in results for measure in lane.final}
    shown = [c for c in columns if c.measure in there and c.instead_of not in there]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", style="bold", no_wrap=True)
    for column in shown:
        table.add_column(column.title, justify="right", no_wrap=True)
    for name in results.labels():
        lanes = results.of(name)
        cells = [_cell(estimate(lanes.final(c.measure)), c) for c in shown]
        diverged = sum(lane.status == "diverged" for lane in lanes)
        suffix = f" ({diverged} of {len(lanes)} diverged)" if diverged else ""
        table.add_row(name + suffix, *cells)
    return table


def verdicts(results: Results) -> list[str]:
    """Paired over seeds: who leads on the global and on the devices' own data, and how surely."""
    lines = []
    for measure, about in (
        ("average_accuracy", "the average model"),
        ("own_accuracy", "devices on their own labels"),
    ):
        if any(measure in lane.final for lane in results) and len(results.labels()) > 1:
            lines.append(_verdict(results, measure, about))
    return lines


def _verdict(results: Results, measure: str, about: str) -> str:
    by_label = {
        name: {
            lane.experiment.seed: lane.final[measure]
            for lane in results.of(name)
            if measure in lane.final and lane.status == "finished"
        }
        for name in results.labels()
    }
    ranked = sorted(
        (name for name in by_label if by_label[name]),
        key=lambda name: -estimate(list(by_label[name].values())).mean,
    )
    if len(ranked) < 2:
        return f"Best for {about}: only {', '.join(ranked) or 'none'} finished."
    best, second = ranked[:2]
    gap = compare_seeds(by_label[best], by_label[second]).difference
    if gap.count < 2:
        return f"Best for {about}: {best}, {gap.mean:.2f} points above {second} (one seed)."
    if f"{abs(gap.mean):.2f}" == "0.00":
        return f"Best for {about}: {best} and {second}, level (0.00 ± {gap.half_width:.2f} points)."
    clear = gap.mean > gap.half_width
    lead = f"{gap.mean:.2f} ± {gap.half_width:.2f} points above {second}"
    return f"Best for {about}: {best}, {lead}{'' if clear else ' (not a clear lead)'}."


def _cell(value: Estimate, column: Column) -> str:
    if value.count == 0:
        return "-"
    text = f"{value.mean:,.{column.digits}f}"
    if column.spread and value.count > 1 and value.half_width > 0:
        text += f" ± {value.half_width:.{column.digits}f}"
    return text
