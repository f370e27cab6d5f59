"""Where the numbers come from: when, on what, with which versions; and what went wrong."""

import json
from collections import Counter
from collections.abc import Sequence

from skerry.records.store import Run
from skerry.report.page.blocks import Block, Section, facts, table
from skerry.report.page.study import Study
from skerry.report.words import duration, plural

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
