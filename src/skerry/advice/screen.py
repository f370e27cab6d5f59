"""The answer on a terminal: its lines, the tables behind it, what would change it, and how far it
is while it is worked out."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from skerry.advice.advice import Advice
from skerry.advice.race import AdviceWatcher
from skerry.report.notebook import html_table
from skerry.report.page.sections.advice import headings, score_text
from skerry.report.text import Sheet, duration, number, plural, say
from skerry.report.words import describe_network, describe_problem

if TYPE_CHECKING:
    from rich.console import Console

    from skerry.runs.executors.executor import StackJob, Tick

PLAIN_SECONDS = 5.0
SHOWN = 10


def tell(advice: Advice, console: "Console") -> None:
    """Print the whole answer."""

    def show(line: str, style: str | None = None) -> None:
        console.print(line, style=style, markup=False, soft_wrap=True)

    show(_about(advice))
    console.print()
    first, *rest = advice.lines()
    show(first, "bold")
    for line in rest:
        show(line)
    console.print(standings(advice).to_rich())
    if advice.prediction is not None and not advice.equal:
        console.print(bounds(advice).to_rich())
    if advice.sensitivity:
        show("What would change the answer:", "bold")
        for effect in advice.sensitivity:
            mark = "*" if effect.changes else "-"
            show(f"{mark} {effect.condition}: {effect.answer} ({effect.basis})")
    for note in advice.notes:
        show(f"Note: {note}.")


def to_html(advice: Advice) -> str:
    """The same for a notebook."""
    first, *rest = advice.lines()
    lines = [_about(advice), *rest, *(f"Note: {note}." for note in advice.notes)]
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    sheet = standings(advice)
    return f"<p><b>{escape(first)}</b></p>{told}{html_table(sheet.header, sheet.rows)}"


def _about(advice: Advice) -> str:
    pilot, experiment = advice.pilot, advice.experiment
    return (
        f"{experiment.name}: {describe_network(experiment)}; {describe_problem(experiment)}. "
        f"Pilot: {plural(pilot.runs, 'run')} on {plural(len(pilot.seeds), 'seed')}, "
        f"{plural(pilot.base.rounds, 'round')} each, in {duration(advice.seconds)}."
    )


def standings(advice: Advice) -> Sheet:
    """The best contenders, each at its best stepsize for the goal that decides."""
    losses = advice.pilot.scores.are_losses
    columns = headings(advice.pilot.scores.goals, losses)
    found = advice.standings()[:SHOWN]
    chosen = len({(entry.contender.sampled, entry.contender.period) for entry, _ in found}) > 1
    selected = len({entry.contender.selection for entry, _ in found}) > 1
    rows = []
    for entry, scores in found:
        c = entry.contender
        server = ((c.selection,) if selected else ()) + (
            (str(c.sampled), str(c.period)) if chosen else ()
        )
        told = (score_text(scores[goal], losses) for goal in scores if goal in columns)
        rows.append((c.label, *server, *told, f"{entry.stepsize:.3g}", f"{advice.cost(c):,.0f}"))
    first = ("", "sampled by") if selected else ("",)
    header = (
        *first, *(("K", "H") if chosen else ()), *columns.values(), "step-\nsize", "mes-\nsages"
    )  # fmt: skip
    sides = "l" * len(first) + "r" * (len(header) - len(first))
    return Sheet("Standings", header, tuple(rows), sides)


def bounds(advice: Advice) -> Sheet:
    """Rounds and messages that are enough by the theory, at the experiment's K and H."""
    assert advice.prediction is not None
    prediction = advice.prediction
    # Under other rules than uniform sampling, both are certified.
    order = [answer for answer in prediction.order if answer.mode == "order"]
    rows = [
        (f"{answer.label}, {answer.mode}", number(answer.rounds), number(answer.messages))
        for answer in (*order, *prediction.certified)
    ]
    title = f"bounds for epsilon {prediction.epsilon:.3g}"
    return Sheet("Bounds", (title, "rounds", "messages"), tuple(rows), "lrr")


class _Bar(AdviceWatcher):
    """The time that is spent, of the time that there is."""

    def __init__(self, progress: Any, seconds: float) -> None:
        self._progress, self._since = progress, time.monotonic()
        self._row = progress.add_task("", total=seconds)

    def doing(self, words: str) -> None:
        self._progress.update(self._row, description=words)
        self._move()

    def tick(self, task: "StackJob", tick: "Tick") -> None:
        self._move()

    def _move(self) -> None:
        self._progress.update(self._row, completed=time.monotonic() - self._since)


class _Lines(AdviceWatcher):
    """For logs: what is being done, every few seconds."""

    def __init__(self) -> None:
        self._told = -PLAIN_SECONDS

    def doing(self, words: str) -> None:
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            say(words)


@contextmanager
def watch_advice(minutes: float) -> Iterator[AdviceWatcher]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TimeElapsedColumn(),
        TextColumn(f"of at most {duration(60 * minutes)}"),
        console=Console(stderr=True),
    ) as progress:
        yield _Bar(progress, 60 * minutes)
