"""The sections on when, where and with which versions runs were computed, and how to repeat
them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import attrgetter
from typing import Any

from skerry.config.experiment import Experiment
from skerry.config.labels import BLEND, NO_SERVER, command_line_label
from skerry.config.toml import toml_key, toml_value
from skerry.errors import skerry_command
from skerry.records.store import Run
from skerry.report.page.blocks import Block, PageSection, code, definitions, note, table, text
from skerry.report.page.report_data import ReportData
from skerry.report.text import duration, plural

MOST_ROWS = 50


def provenance_section(data: ReportData) -> PageSection:
    """When, where and with which versions the runs were computed, and which are not finished."""
    blocks = [definitions(_facts(data)), *_not_finished(data)]
    return PageSection("provenance", "How it was run", blocks)


def _facts(data: ReportData) -> list[tuple[str, str]]:
    runs = data.runs
    ends = [run.finished for run in runs if run.finished]
    found = [
        ("First run started", _moment(min(run.started for run in runs))),
        *([("Last run ended", _moment(max(ends)))] if ends else []),
        *_computing(runs),
        ("Device", ", ".join(dict.fromkeys(run.device for run in runs if run.device)) or "-"),
        ("Records", ", ".join(map(str, data.grid.paths))),
    ]
    for versions, count in Counter(json.dumps(run.versions) for run in runs).most_common(5):
        words = ", ".join(f"{name} {version}" for name, version in json.loads(versions).items())
        found.append((f"Versions ({plural(count, 'run')})", words))
    return found


def _computing(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The computing time; each run of a stack records the time of the whole stack."""
    stacks = {
        (run.world, run.started, run.finished, run.wall_seconds): run.wall_seconds
        for run in runs
        if run.wall_seconds
    }
    if not stacks:
        return []
    total = duration(sum(stacks.values()))
    return [
        ("Computing time", f"{total}, in {plural(len(stacks), 'stack')} of runs computed together")
    ]


def _moment(stamp: str) -> str:
    return stamp.replace("T", " ").replace("+00:00", " UTC")


def _not_finished(data: ReportData) -> list[Block]:
    left = [run for run in data.runs if run.status != "finished"]
    if not left:
        return []
    rows = [
        (run.status, run.experiment.server.label, str(run.experiment.seed),
         f"{run.rounds_done:,} of {run.experiment.rounds:,}", run.key, run.note or "-")
        for run in left[:MOST_ROWS]
    ]  # fmt: skip
    title = "Runs that are not finished"
    if len(left) > MOST_ROWS:
        title += f" (the first {MOST_ROWS} of {len(left):,})"
    header = ("status", "primitive", "seed", "rounds", "key", "reason")
    return [table(title, header, rows, "llrrll")]


def recipe_section(data: ReportData) -> PageSection:
    """The experiment or sweep to copy, and the command that runs it again."""
    blocks = _sweep(data) if data.grid.axes else _single(data)
    return PageSection("recipe", "Run it again", [*blocks, *_materials(data)])


def _single(data: ReportData) -> list[Block]:
    """An experiment and its command; presets, which set other fields, have their own."""
    blocks, count = list[Block](), data.grid.seeds[-1] - data.grid.seeds[0] + 1
    for number, name in enumerate(dict.fromkeys(one.server.name for one in data.experiments)):
        same = [one for one in data.experiments if one.server.name == name]
        # --compare would undo a preset.
        compared = ",".join(command_line_label(*one) for one in _primitives(same) if not name)
        file = f"experiment{number or ''}.toml"
        command = skerry_command("run", file, compare=compared or None, seeds=count, out="again")
        blocks += [
            text(f"Save this as {file}:"),
            code("The experiment", min(same, key=lambda one: one.seed).to_toml()),
            text("Then run it:"),
            code("The command", command),
        ]
    return blocks


def _primitives(experiments: Iterable[Experiment]) -> list[tuple[str, float]]:
    """Every primitive with its beta, which only blend uses."""
    servers = (one.server for one in experiments)
    pairs = ((s.primitive, s.beta if s.primitive == BLEND else 0.5) for s in servers)
    return list(dict.fromkeys(pairs))


def _sweep(data: ReportData) -> list[Block]:
    axes = {name: values for name in data.grid.axes if (values := _values(data, name))}
    primitives, seeds = _primitives(data.experiments), data.grid.seeds
    lines = [
        data.experiments[0].to_toml(),
        "[sweep]",
        f"seeds = {toml_value(seeds)}",
        "",
        "[sweep.axes]",
        *(f"{toml_key(name)} = {toml_value(values)}" for name, values in axes.items()),
        f'"server.primitive, server.beta" = {toml_value([list(one) for one in primitives])}',
    ]
    return [
        text("All cells as one sweep. Save this as sweep.toml:"),
        code("The sweep", "\n".join(lines) + "\n"),
        text("Then run it. With --dry-run it only prints the expected time and memory:"),
        code("The command", skerry_command("sweep", "sweep.toml", out="again")),
        *_completeness(data, axes, [name for name, _ in primitives]),
    ]


def _values(data: ReportData, field: str) -> list[Any]:
    """All values of a field in the experiments; none if an experiment file has no such field."""
    try:
        values = map(attrgetter(field), data.experiments)
        return list({repr(value): value for value in values if value is not None}.values())
    except AttributeError:
        return []


def _completeness(
    data: ReportData, axes: Mapping[str, Sequence[Any]], primitives: Sequence[str]
) -> list[Block]:
    """A note on the number of runs of the sweep, if some of them are not recorded."""
    cells = prod(map(len, axes.values()))
    # Runs without a server do not depend on the fields of the server.
    cells_alone = prod(len(axes[name]) for name in axes if not name.startswith("server."))
    each = (cells_alone if name == NO_SERVER else cells for name in primitives)
    planned = sum(each) * len(data.grid.seeds)
    if planned == len(data.runs):
        return []
    words = f"This grid has {plural(planned, 'run')}; {len(data.runs):,} are recorded here. "
    return [note(words + "Exclude the others in [sweep] if you do not want them.")]


def _materials(data: ReportData) -> list[Block]:
    """A note on graphs, data and models that are not in the text to copy."""
    materials = sorted({name for run in data.runs for name in run.materials})
    if not materials:
        return []
    words = (
        f"The text above does not contain the {', '.join(materials)} that came from Python or from "
        "files. Use the same ones again; the records have their fingerprints."
    )
    return [note(words)]


def terms_section(data: ReportData) -> PageSection:
    """The words of the page, which `assets/terms.json` and the runs have."""
    return PageSection("terms", "Terms", [{"kind": "terms"}])
