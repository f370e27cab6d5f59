"""The screens of `skerry run` and `skerry show`: the table of a study, who leads, and figures."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skerry.analysis.compare import BestLabel, find_best_label
from skerry.analysis.names import fields_of_runs, tell_apart
from skerry.analysis.results import Results
from skerry.analysis.run_table import describe_stopped
from skerry.analysis.statistics import Estimate, estimate
from skerry.config.measures import own_name, traits
from skerry.errors import printable
from skerry.report import text
from skerry.report.words import describe_network, describe_results, describe_task

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    """A column of the table of a study."""

    measure: str
    digits: int | None = None  # digits after the point; None for the usual format of the measure
    spread: bool = True  # whether the interval is shown
    instead_of: str = ""  # the column is shown only if this other measure is missing


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
    Column("seconds", digits=1, spread=False),
    Column("joules", digits=0, spread=False),
)
KEY_SHOWN, MOST_KEYS = 8, 8  # characters of a key, and keys of a label, that are shown at most
LEADER_MEASURES = {
    "average_accuracy": "the average model",
    "own_accuracy": "devices on their own labels",
    "own_loss": "devices on data like their own",
}
"""The measures for which the best primitive is named, and what they describe."""


def tell_studies_apart(studies: Sequence[Results]) -> list[str]:
    """For each study, the end of its heading, by which it differs from studies with the same one:
    ` · stop no gain in 3 rounds`."""
    runs = [results[0].run for results in studies]
    fields = fields_of_runs(run for run in runs if run)
    headings = [_heading(results) for results in studies]
    ends = [""] * len(studies)
    for heading in set(headings):
        same = [i for i, one in enumerate(headings) if one == heading]
        told = tell_apart([fields[run.key] if (run := runs[i]) else {} for i in same])
        for i, end in zip(same, told, strict=True):
            ends[i] = end
    return ends


def _heading(results: Results) -> tuple[str, str]:
    """The name of a study, and what it is about."""
    first = results[0].experiment
    task = describe_task(first, {name for lane in results for name in lane.final})
    return first.name, task + describe_results(results)


def describe_unfinished(results: Results) -> list[str]:
    """Sentences on runs that are not finished: how far they are."""
    found = []
    for status, word in (("running", "unfinished"), ("failed", "failed")):
        lanes = [lane for lane in results if lane.status == status]
        done = sorted(lane.run.rounds_done for lane in lanes if lane.run)
        if done:
            at = f"{done[0]:,}" if done[0] == done[-1] else f"{done[0]:,} to {done[-1]:,}"
            rounds = f"{lanes[0].experiment.rounds:,}"
            found.append(f"{text.plural(len(lanes), 'run')} {word}: at round {at} of {rounds}.")
    return found


def describe_void(results: Results) -> list[str]:
    """A sentence on runs in which no server round had enough devices in time."""
    timed = [lane for lane in results if lane.experiment.server.deadline is not None]
    void = [
        lane
        for lane in timed
        if lane.final.get("uplink_messages") and lane.final.get("downlink_messages") == 0
    ]
    if not void:
        return []
    of = text.plural(len(timed), "run")
    return [
        f"All server rounds were void in {len(void):,} of {of} with a deadline: too few devices "
        "were in time. Raise server.deadline, or lower server.at_least."
    ]


def print_run(results: Results, apart: str = "") -> None:
    """Print a study: a description, which `apart` ends, its table, and who leads."""
    from rich.markup import escape

    console = text.console()
    name, study = map(escape, _heading(results))
    console.print(f"[bold]{name}[/]: {study}{escape(printable(apart))}")
    for line in describe_unfinished(results):
        console.print(line, markup=False)
    if not any(lane.final for lane in results):
        console.print("No values are recorded yet.")
        return
    console.print(summary_table(results))
    stopped = describe_stopped(lane.run for lane in results if lane.run)
    notes = [*describe_void(results), *([stopped] if stopped else [])]
    for line in [*describe_leaders(results), *notes]:
        console.print(line, markup=False)


def list_keys(results: Results) -> str:
    """By label, the start of each run's key, which `skerry store forget` takes."""
    parts = []
    for label, lanes in results.by_label().items():
        keys = [lane.key[:KEY_SHOWN] for lane in sorted(lanes, key=lambda o: o.experiment.seed)]
        more = f" and {len(keys) - MOST_KEYS:,} more" if len(keys) > MOST_KEYS else ""
        parts.append(f"{label} {' '.join(keys[:MOST_KEYS])}{more}")
    return printable(f"Keys: {'; '.join(parts)}.")


def summary_table(results: Results, columns: Sequence[Column] = COLUMNS) -> "Table":
    """A row per primitive: means over seeds and half of the 95 % interval."""
    known = {measure for lane in results for measure in lane.final}
    own = dict.fromkeys(own_name(one) for lane in results for one in lane.experiment.evaluate.own)
    columns = [*columns, *(Column(name, digits=3) for name in own)]
    shown = [c for c in columns if c.measure in known and c.instead_of not in known]
    headings = (traits(c.measure).heading or c.measure.replace("_", "\n") for c in shown)
    table = text.plain_table("", *headings, bold=True)
    for name, lanes in results.by_label().items():
        cells = [_cell(estimate(lanes.final(c.measure)), c) for c in shown]
        diverged = sum(lane.status == "diverged" for lane in lanes)
        suffix = f" ({diverged} of {len(lanes)} diverged)" if diverged else ""
        table.add_row(name + suffix, *cells)
    return table


def describe_leaders(results: Results) -> list[str]:
    """Sentences on the best primitive for the average model and on devices' own data."""
    known = {measure for lane in results for measure in lane.final}
    named = {measure: about for measure, about in LEADER_MEASURES.items() if measure in known}
    if named.keys() == {"own_loss"} and "average_loss" in known:
        named = {"average_loss": LEADER_MEASURES["average_accuracy"], **named}
    return [_leader(results, *one) for one in named.items() if len(results.labels()) > 1]


def save_figures(results: Results, out: Path) -> list[Path]:
    """Draw and save the curves of a study and the network of its first run."""
    from skerry.analysis.rebuild import build_named_fleet, first_server_round, sampled_devices
    from skerry.report.figures import network_figure, overview, save_figure

    first, key = results[0].experiment, results[0].key
    fleet, t = build_named_fleet(first), first_server_round(first)
    sampled = sampled_devices(first, fleet, t) or []
    title = describe_network(first)
    title += "; dark rings: sampled in the first server round" if sampled else ""
    study = describe_results(results)
    drawn = {
        "curves": overview(results.frame(), study.replace("; ", "\n", 1)),
        "network": network_figure(fleet, title, t, sampled),
    }
    # Keys in the names keep the figures of other studies in the same folder: a network is that of
    # one run, curves are those of all.
    keys = sorted({lane.key for lane in results})
    several = hashlib.sha256(" ".join(keys).encode()).hexdigest()
    marks = {"curves": several if len(keys) > 1 else key, "network": key}
    return [save_figure(drawn[name], out / f"{name}-{marks[name][:8]}.png") for name in drawn]


def _leader(results: Results, measure: str, about: str) -> str:
    by_label = {
        name: {
            lane.experiment.seed: lane.final[measure]
            for lane in lanes
            if measure in lane.final and lane.status == "finished"
        }
        for name, lanes in results.by_label().items()
    }
    finished = [name for name, found in by_label.items() if found]
    lead = find_best_label(by_label, traits(measure).lower_is_better)
    if lead is None:
        return f"Best for {about}: {f'only {finished[0]}' if finished else 'no run'} finished."
    points, above = _gap(measure, lead.gap)
    if lead.gap.count == 0:
        return f"Best for {about}: {lead.best}, but it has no seed in common with {lead.second}."
    if text.format_measure(measure, abs(lead.gap.mean)) in ("0.00", "0"):
        return f"Best for {about}: {lead.best} and {lead.second}, equal ({points})."
    return f"Best for {about}: {lead.best}, {points} {above} {lead.second}{_doubt(lead)}."


def _doubt(lead: BestLabel) -> str:
    """A remark if a lead is not clear, with the p-value if the interval alone would look clear."""
    if lead.is_clear:
        return ""
    if lead.untested:
        return f" (not tested: {lead.untested})"
    if abs(lead.gap.mean) <= lead.gap.half_width:
        return " (not a clear lead)"
    return f" (not a clear lead: p {lead.p:.3f} after Holm's correction)"


def _gap(measure: str, gap: Estimate) -> tuple[str, str]:
    """`0.52 ± 0.21 points` and `above`; for losses `0.012 ± 0.004` and `below`."""
    if traits(measure).is_percent:
        return f"{text.plus_minus(gap.mean, gap.half_width, 'z.2f', '.2f')} points", "above"
    return text.plus_minus(abs(gap.mean), gap.half_width, ".3g", ".2g"), "below"


def _cell(found: Estimate, column: Column) -> str:
    if found.count == 0:
        return text.NOTHING
    if column.digits is None:
        return text.format_estimate(column.measure, found)
    style, half = f".{column.digits}f", found.half_width if column.spread else None
    return text.plus_minus(found.mean, half or None, style, style)
