"""`skerry watch`: print a snapshot as text and bars, and renew it."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from skerry.analysis.names import format_value, short_names
from skerry.errors import printable, skerry_command
from skerry.report.snapshot import Best, Message, Snapshot
from skerry.report.text import duration, empty_table, plural, plus_minus, seed_words
from skerry.report.watched import WatchedFolder

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

GRACE_SECONDS = 5.0  # between two stages of a sweep there is no driver for a moment
STACKS = 4
STYLES = {"failed": "red", "diverged": "yellow"}
NOTE = 200  # characters of a reason; the store has all of them
BUSY_SHARE = 0.1  # of a core that watching may take from the sweep


def show_live(watched: WatchedFolder, console: "Console", every: float) -> Snapshot:
    """Show a folder until its sweep is done or has stopped; returns the last snapshot."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        seen_working = time.monotonic()
        while True:
            began = time.monotonic()
            snapshot = watched.look()
            live.update(render(snapshot, bar=True), refresh=True)
            if snapshot.state == "working":
                seen_working = time.monotonic()
            elif time.monotonic() - seen_working >= GRACE_SECONDS:
                return snapshot
            took = time.monotonic() - began
            time.sleep(max(every, took / BUSY_SHARE))


def render(snapshot: Snapshot, bar: bool = False) -> "RenderableType":
    """A snapshot for a terminal. Texts from records may contain anything, so none is markup."""
    from rich.console import Group
    from rich.text import Text

    name = f"{snapshot.name}, " if snapshot.name else ""
    title = Text(printable(f"{name}{snapshot.folder}"), style="bold")
    parts: list[RenderableType] = [title]
    if bar:
        parts.append(progress_bar(snapshot))
    parts += [Text(line) for line in status_lines(snapshot)]
    parts += [Text(line, style="dim") for line in _running(snapshot)]
    for measure, found in groupby(snapshot.best, key=lambda best: best.measure):
        parts += [Text(f"\nBest so far by {measure}"), best_table(tuple(found))]
    parts.append(Text())
    parts += [
        Text(_message(message), style=STYLES.get(message.status, "dim"))
        for message in snapshot.messages
    ]
    if snapshot.state == "working":
        parts.append(Text(verdict(snapshot)))
    return Group(*parts)


def progress_bar(snapshot: Snapshot) -> "Table":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    line = Table.grid(padding=(0, 1, 0, 0))
    share = snapshot.share
    line.add_row(ProgressBar(total=1.0, completed=share, width=50), f"{100 * share:.0f} %")
    return line


def status_lines(snapshot: Snapshot) -> list[str]:
    """How many runs have each status, the speed, and the time left."""
    counts = {
        "finished": snapshot.finished,
        "running": snapshot.running,
        "failed": snapshot.failed,
        "diverged": snapshot.diverged,
        "to do": snapshot.to_do,
    }
    counted = [f"{count:,} {status}" for status, count in counts.items() if count is not None]
    unknown = snapshot.state == "working" and snapshot.to_do is None
    runs = plural(snapshot.runs, "run") + (" so far" if unknown else "")
    lines = [f"{runs}, {100 * snapshot.share:.0f} % of the computing: {', '.join(counted)}"]
    if snapshot.others:
        lines[0] += f"; and {plural(snapshot.others, 'run')} of other sweeps"
    steps, rounds = snapshot.device_steps_per_second, snapshot.rounds_per_second
    if rounds is not None:  # steps are unknown with local epochs
        device_steps = "" if steps is None else f"{steps:,.0f} device-steps/s, "
        pace = f"{device_steps}{rounds:,.3g} rounds/s"
        left = snapshot.seconds_left
        lines.append(pace if left is None else f"{pace}, about {duration(left)} left")
    return lines


def verdict(snapshot: Snapshot) -> str:
    """Whether the sweep is running, done or stopped, and what to do next."""
    if snapshot.state == "working":
        return "The sweep is running. Ctrl-C ends this view, not the sweep."
    if snapshot.state == "done":
        failed = f" {plural(snapshot.failed, 'run')} failed." if snapshot.failed else ""
        return f"Done.{failed} Look closer: {skerry_command('results', Path(snapshot.folder))}"
    waiting = snapshot.running + (snapshot.to_do or 0)
    left = plural(waiting, "run is", "runs are")
    return f"The sweep has stopped, and {left} left. The same command resumes it."


def best_table(found: Sequence[Best]) -> "Table":
    from rich.text import Text

    fields = short_names(dict.fromkeys(name for best in found for name in best.cell))
    table = empty_table(show_edge=False)
    table.add_column("primitive", style="bold", overflow="fold")
    for name in fields.values():
        table.add_column(Text(printable(name)), justify="right", overflow="fold")
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    for best in found:
        cell = [Text(printable(format_value(best.cell.get(name)))) for name in fields]
        mean = plus_minus(best.mean, best.half_width)
        table.add_row(Text(printable(best.primitive)), *cell, mean, str(best.seeds))
    return table


def _running(snapshot: Snapshot) -> Iterator[str]:
    shown = snapshot.stacks if snapshot.state == "working" else ()
    for one in shown[:STACKS]:
        rounds = f"{one.rounds:,} rounds, starting"
        rounds = f"round {one.round:,} of {one.rounds:,}" if one.round else rounds
        yield f"  {plural(one.runs, 'run')} of seed {one.seed}: {rounds}"
    if len(shown) > STACKS:
        yield f"  and {plural(len(shown) - STACKS, 'more stack')}"


def _message(message: Message) -> str:
    when = datetime.fromisoformat(message.time).astimezone()
    today = when.date() == datetime.now().astimezone().date()
    shown_time = f"{when:%H:%M:%S}" if today else f"{when:%Y-%m-%d %H:%M}"
    of = f"of {seed_words(message.seeds)}"
    note = f": {shorten(printable(message.note), NOTE)}" if message.note else ""
    return f"{shown_time}  {plural(message.runs, 'run')} {of} {message.status}{note}"
