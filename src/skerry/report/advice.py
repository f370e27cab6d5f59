"""Advice for the terminal: the answer, the table behind it, what would change it."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.advice.advice import Advice
from skerry.advice.timing import Watch
from skerry.advice.words import lines
from skerry.analysis.statistics import Estimate
from skerry.report.progress import say
from skerry.report.sheets import Sheet
from skerry.report.theory_words import number
from skerry.report.words import duration, fleet_in_words, plural, problem_in_words

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_SECONDS = 5.0
SHOWN = 10
HEADS = {"global": "average\nmodel", "own": "own\nlabels", "both": "mean of\nboth"}


def tell(advice: Advice, console: "Console", file: Path | None = None) -> None:
    """Print the whole answer; `file` is where the experiment came from."""
    console.print(_about(advice), markup=False, soft_wrap=True)
    console.print()
    first, *rest = lines(advice)
    console.print(first, style="bold", markup=False, soft_wrap=True)
    for line in rest:
        console.print(line, markup=False, soft_wrap=True)
    console.print(standings(advice).to_rich())
    if advice.prediction is not None and not advice.equal:
        console.print(bounds(advice).to_rich())
    if advice.sensitivity:
        console.print("What would change the answer:", style="bold")
        for effect in advice.sensitivity:
            mark = "*" if effect.changes else "-"
            told = f"{mark} {effect.condition}: {effect.answer} ({effect.basis})"
            console.print(told, markup=False, soft_wrap=True)
    for note in advice.notes:
        console.print(f"Note: {note}.", markup=False, soft_wrap=True)
    console.print(f"Use it: {command(advice, file)}", markup=False, soft_wrap=True)


def _about(advice: Advice) -> str:
    pilot, experiment = advice.pilot, advice.experiment
    return (
        f"{experiment.name}: {fleet_in_words(experiment)}; {problem_in_words(experiment)}. Pilot: "
        f"{plural(pilot.runs, 'run')} on {plural(len(pilot.seeds), 'seed')}, "
        f"{plural(pilot.base.rounds, 'round')} each, in {duration(advice.seconds)}."
    )


def standings(advice: Advice) -> Sheet:
    """The best contenders, each at its best stepsize for the goal that decides."""
    loss = advice.pilot.readings.loss
    goals = advice.pilot.readings.goals[: 1 if loss else None]
    heads = ["average loss"] if loss else [f"{HEADS[goal]} %" for goal in goals]
    found = advice.standings()[:SHOWN]
    servers = {(lane.contender.sampled, lane.contender.period) for lane, _ in found}
    chosen = len(servers) > 1
    rows = []
    for lane, scores in found:
        c = lane.contender
        server = (str(c.sampled), str(c.period)) if chosen else ()
        told = (score_text(scores[goal], loss) for goal in goals)
        rows.append((c.label, *server, *told, f"{lane.stepsize:.3g}", f"{advice.cost(c):,.0f}"))
    header = ("", *(("K", "H") if chosen else ()), *heads, "step-\nsize", "mes-\nsages")
    return Sheet("Standings", header, tuple(rows), "l" + "r" * (len(header) - 1))


def bounds(advice: Advice) -> Sheet:
    """Rounds and messages that are enough by the theory, at the experiment's K and H."""
    assert advice.prediction is not None
    prediction = advice.prediction
    rows = []
    for mode, answers in (("order", prediction.order[:2]), ("certified", prediction.certified)):
        for answer in answers:
            told = number(answer.rounds), number(answer.messages)
            rows.append((f"{answer.label}, {mode}", *told))
    title = f"bounds for epsilon {prediction.epsilon:.3g}"
    return Sheet("Bounds", (title, "rounds", "messages"), tuple(rows), "lrr")


def command(advice: Advice, file: Path | None) -> str:
    """`skerry run` with the recommendation, to paste."""
    best = advice.best
    settings = {
        "server.primitive": best.contender.primitive,
        "server.beta": best.contender.beta,
        "server.sampled": best.contender.sampled,
        "server.period": best.contender.period,
        "training.stepsize": f"{best.stepsize:.4g}",
    }
    words = ["skerry", "run", *([str(file)] if file else [])]
    for field, value in settings.items():
        if value is not None:
            words += ["--set", f"{field}={value}"]
    return shlex.join(words)


def score_text(score: Estimate, loss: bool) -> str:
    """`94.81 ± 0.21`, or a loss with its sign as people write it."""
    text = f"{-score.mean:.4g}" if loss else f"{score.mean:.2f}"
    if score.count > 1:
        text += f" ± {score.half_width:.2g}" if loss else f" ± {score.half_width:.2f}"
    return text


class _Bar(Watch):
    """The time that is spent, of the time that there is."""

    def __init__(self, progress: Any, seconds: float) -> None:
        self._progress, self._since = progress, time.monotonic()
        self._row = progress.add_task("", total=seconds)

    def doing(self, words: str) -> None:
        self._progress.update(self._row, description=words)
        self.tick()

    def tick(self) -> None:
        self._progress.update(self._row, completed=time.monotonic() - self._since)


class _Lines(Watch):
    """For logs: what is being done, every few seconds."""

    def __init__(self) -> None:
        self._told = -PLAIN_SECONDS

    def doing(self, words: str) -> None:
        if time.monotonic() - self._told > PLAIN_SECONDS:
            self._told = time.monotonic()
            say(words)


@contextmanager
def watch_advice(minutes: float) -> Iterator[Watch]:
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
