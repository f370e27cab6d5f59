"""Where the numbers come from: when, on what, with which versions, and what went wrong; and how to
get them again."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from operator import attrgetter
from typing import Any

from skerry.config.labels import BLEND, NO_SERVER, command_line_label
from skerry.config.toml import toml_key, toml_value
from skerry.records.store import Run
from skerry.report.page.blocks import Block, Section, code, facts, note, table, text
from skerry.report.page.study import Study
from skerry.report.text import duration, plural

MOST_ROWS = 50


def how_it_was_run(study: Study) -> Section:
    return Section("provenance", "How it was run", [facts(_facts(study)), *_not_finished(study)])


def _facts(study: Study) -> list[tuple[str, str]]:
    runs = study.runs
    ends = [run.finished for run in runs if run.finished]
    told = [
        ("First begun", _moment(min(run.started for run in runs))),
        *([("Last ended", _moment(max(ends)))] if ends else []),
        *_computing(runs),
        ("Device", ", ".join(dict.fromkeys(run.device for run in runs if run.device)) or "-"),
        ("Records", str(study.path)),
    ]
    for versions, count in Counter(json.dumps(run.versions) for run in runs).most_common(5):
        words = ", ".join(f"{name} {version}" for name, version in json.loads(versions).items())
        told.append((f"Versions ({plural(count, 'run')})", words))
    return told


def _computing(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Runs of a stack are computed together, and each has the time of the whole."""
    stacks = {
        (run.world, run.started, run.finished, run.wall_seconds): run.wall_seconds
        for run in runs
        if run.wall_seconds
    }
    if not stacks:
        return []
    total = duration(sum(stacks.values()))
    return [("Computing", f"{total} in all, {plural(len(stacks), 'stack')} of runs side by side")]


def _moment(stamp: str) -> str:
    return stamp.replace("T", " ").replace("+00:00", " UTC")


def _not_finished(study: Study) -> list[Block]:
    left = [run for run in study.runs if run.status != "finished"]
    if not left:
        return []
    rows = [
        (
            run.status,
            run.experiment.server.label,
            str(run.experiment.seed),
            f"{run.rounds_done:,} of {run.experiment.rounds:,}",
            run.key,
            run.note or "-",
        )
        for run in left[:MOST_ROWS]
    ]
    title = "Runs that are not finished"
    if len(left) > MOST_ROWS:
        title += f" (the first {MOST_ROWS} of {len(left):,})"
    header = ("status", "primitive", "seed", "rounds", "key", "reason")
    return [table(title, header, rows, "llrrll")]


def to_repeat(study: Study) -> Section:
    blocks = _sweep(study) if study.grid.axes else _single(study)
    return Section("recipe", "Run it again", [*blocks, *_outside(study)])


def _single(study: Study) -> list[Block]:
    seeds = study.grid.seeds
    compared = ",".join(command_line_label(*one) for one in _primitives(study))
    command = ["skerry", "run", "experiment.toml", "--compare", compared]
    if len(seeds) > 1:
        command += ["--seeds", str(seeds[-1] - seeds[0] + 1)]
    first = min(study.experiments, key=lambda one: one.seed)
    return [
        text("Save this as experiment.toml:"),
        code("The experiment", first.to_toml()),
        text("and run it:"),
        code("The command", shlex.join([*command, "--out", "again"])),
    ]


def _primitives(study: Study) -> list[tuple[str, float]]:
    """Every primitive with its beta, which plays a part in blend alone."""
    servers = (one.server for one in study.experiments)
    return list(
        dict.fromkeys((s.primitive, s.beta if s.primitive == BLEND else 0.5) for s in servers)
    )


def _sweep(study: Study) -> list[Block]:
    axes = {name: values for name in study.grid.axes if (values := _values(study, name))}
    primitives, seeds = _primitives(study), study.grid.seeds
    lines = [
        study.experiments[0].to_toml(),
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
        text("and run it (--dry-run at the end would only tell what it takes):"),
        code("The command", "skerry sweep sweep.toml --out again"),
        *_completeness(study, axes, [name for name, _ in primitives]),
    ]


def _values(study: Study, field: str) -> list[Any]:
    """Every value of a field, as an experiment holds it; none if it is not a field of a file."""
    try:
        values = map(attrgetter(field), study.experiments)
        return list({repr(value): value for value in values if value is not None}.values())
    except AttributeError:
        return []


def _completeness(
    study: Study, axes: Mapping[str, Sequence[Any]], primitives: Sequence[str]
) -> list[Block]:
    """How many runs the sweep has, if these are not all of them."""
    cells = prod(map(len, axes.values()))
    # What is set of a server plays no part where there is none: such runs are one.
    cells_alone = prod(len(axes[name]) for name in axes if not name.startswith("server."))
    each = (cells_alone if name == NO_SERVER else cells for name in primitives)
    planned = sum(each) * len(study.grid.seeds)
    if planned == len(study.runs):
        return []
    return [
        note(
            f"This grid has {plural(planned, 'run')}; {len(study.runs):,} are recorded here. "
            "[sweep] can exclude the others."
        )
    ]


def _outside(study: Study) -> list[Block]:
    """What a file cannot hold."""
    given = sorted({name for run in study.runs for name in run.materials})
    if not given:
        return []
    return [
        note(
            f"Not in the text: the {', '.join(given)} that these runs were given from Python or "
            "from files. Give the same again; their fingerprints are in the records."
        )
    ]
