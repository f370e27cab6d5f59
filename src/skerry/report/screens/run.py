"""`skerry run` and `skerry show`: each primitive's measures over seeds, who leads, the pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skerry.analysis.compare import Lead, leader
from skerry.analysis.results import Results
from skerry.analysis.statistics import Estimate, estimate
from skerry.config.measures import own_name, traits
from skerry.report import text
from skerry.report.words import fleet_in_words, study_in_words, task_in_words

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    measure: str
    digits: int | None = None
    """After the point; None: as the measure is usually shown."""
    spread: bool = True
    """Whether the interval is shown."""
    instead_of: str = ""
    """Shown only where this other measure is not there."""


COLUMNS = (
    Column("average_accuracy"),
    Column("device_accuracy"),
    Column("own_accuracy"),
    Column("average_loss", digits=4, instead_of="average_accuracy"),
    Column("device_loss", digits=4),
    Column("own_loss", digits=4),
    Column("average_rmse", digits=4, spread=False),
    Column("average_r2", digits=3, spread=False),
    Column("average_perplexity", digits=2, spread=False),
    Column("average_token_accuracy", digits=1, spread=False),
    Column("average_score"),
    Column("disagreement", digits=3, spread=False),
    Column("uplink_messages"),
    Column("downlink_messages"),
)
LED = {
    "average_accuracy": "the average model",
    "own_accuracy": "devices on their own labels",
    "own_loss": "devices on data like their own",
}
"""The measures by which a study has a leader, and what they are about."""


def tell(results: Results) -> None:
    """One study: what it is about, its table, who leads."""
    from rich.markup import escape

    experiments = [lane.experiment for lane in results]
    console = text.console()
    told = task_in_words(experiments[0], {name for lane in results for name in lane.final})
    name, study = escape(experiments[0].name), escape(told + study_in_words(experiments))
    console.print(f"[bold]{name}[/]: {study}")
    console.print(summary(results))
    for line in verdicts(results):
        console.print(line, markup=False)


def summary(results: Results, columns: Sequence[Column] = COLUMNS) -> "Table":
    """One row per primitive: mean over seeds and half of the 95 % interval."""
    there = {measure for lane in results for measure in lane.final}
    own = dict.fromkeys(own_name(one) for lane in results for one in lane.experiment.evaluate.own)
    columns = [*columns, *(Column(name, digits=3) for name in own)]
    shown = [c for c in columns if c.measure in there and c.instead_of not in there]
    headings = (traits(c.measure).heading or c.measure.replace("_", "\n") for c in shown)
    table = text.plain_table("", *headings, bold=True)
    for name in results.labels():
        lanes = results.of(name)
        cells = [_cell(estimate(lanes.final(c.measure)), c) for c in shown]
        diverged = sum(lane.status == "diverged" for lane in lanes)
        suffix = f" ({diverged} of {len(lanes)} diverged)" if diverged else ""
        table.add_row(name + suffix, *cells)
    return table


def verdicts(results: Results) -> list[str]:
    """Paired over seeds: who leads on the global and on the devices' own data, and how surely."""
    there = {measure for lane in results for measure in lane.final}
    led = {measure: about for measure, about in LED.items() if measure in there}
    if led.keys() == {"own_loss"} and "average_loss" in there:
        led = {"average_loss": LED["average_accuracy"], **led}
    return [_verdict(results, *one) for one in led.items() if len(results.labels()) > 1]


def pictures(results: Results, out: Path) -> list[Path]:
    """The pictures of a study: its curves, and the network of its first run."""
    from skerry.report.figures import network_picture, overview, save
    from skerry.report.rebuild import first_server_round, fleet_named_by, sampled_in

    first, key = results[0].experiment, results[0].key
    fleet, t = fleet_named_by(first), first_server_round(first)
    sampled = sampled_in(first, fleet, t) or []
    title = fleet_in_words(first)
    title += "; ringed: sampled in the first server round" if sampled else ""
    study = study_in_words([lane.experiment for lane in results])
    drawn = {
        "curves": overview(results.frame(), study.replace("; ", "\n", 1)),
        "network": network_picture(fleet, title, t, sampled),
    }
    # With its key: another study in the same folder keeps its pictures.
    return [save(figure, out / f"{name}-{key[:8]}.png") for name, figure in drawn.items()]


def _verdict(results: Results, measure: str, about: str) -> str:
    by_label = {
        name: {
            lane.experiment.seed: lane.final[measure]
            for lane in results.of(name)
            if measure in lane.final and lane.status == "finished"
        }
        for name in results.labels()
    }
    there = [name for name, found in by_label.items() if found]
    lead = leader(by_label, traits(measure).lower_is_better)
    if lead is None:
        return f"Best for {about}: {f'only {there[0]}' if there else 'no run'} finished."
    points, above = _gap(measure, lead.gap)
    if lead.gap.count == 0:
        return f"Best for {about}: {lead.best}, but {lead.second} has other seeds."
    if lead.gap.count == 1:
        return f"Best for {about}: {lead.best}, {points} {above} {lead.second} (one seed)."
    if text.of_measure(measure, abs(lead.gap.mean)) in ("0.00", "0"):
        return f"Best for {about}: {lead.best} and {lead.second}, level ({points})."
    return f"Best for {about}: {lead.best}, {points} {above} {lead.second}{_doubt(lead)}."


def _doubt(lead: Lead) -> str:
    """Nothing where a lead is clear. Where the interval alone would say that it is, the reason."""
    if lead.is_clear:
        return ""
    if abs(lead.gap.mean) <= lead.gap.half_width:
        return " (not a clear lead)"
    return f" (not a clear lead: p {lead.p:.3f} after Holm's correction)"


def _gap(measure: str, gap: Estimate) -> tuple[str, str]:
    """`0.52 ± 0.21 points`, `above`; of losses `0.012 ± 0.004`, `below`."""
    if traits(measure).is_percent:
        return f"{text.plus_minus(gap.mean, gap.half_width, 'z.2f', '.2f')} points", "above"
    return text.plus_minus(abs(gap.mean), gap.half_width, ".3g", ".2g"), "below"


def _cell(found: Estimate, column: Column) -> str:
    if found.count == 0:
        return text.NOTHING
    if column.digits is None:
        return text.estimate(column.measure, found)
    style, half = f".{column.digits}f", found.half_width if column.spread else None
    return text.plus_minus(found.mean, half or None, style, style)
