"""The advice on the terminal and in notebooks: sentences, tables and progress."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from skerry.advice.advise import Advice
from skerry.advice.decision import Decision, Rival
from skerry.advice.pilot import AdviceProgress
from skerry.advice.prediction import regime
from skerry.advice.question import Goal
from skerry.report.notebook import html_table
from skerry.report.page.sections.advice import headings, score_text
from skerry.report.text import Sheet, duration, number, plural, plus_minus, safe_console, say
from skerry.report.words import describe_network, describe_problem

if TYPE_CHECKING:
    from rich.console import Console

    from skerry.runs.executors.executor import StackJob, Tick

GOAL_TEXTS: dict[Goal, str] = {
    "global": "{what} of the average model",
    "own": "{what} of devices on {data}",
    "both": "mean of global and own {what}",
    "worst_tenth": "{what} of the worst tenth of the devices on {data}",
}
PLAIN_SECONDS = 5.0
SHOWN = 10


def print_advice(advice: Advice, console: "Console") -> None:
    def show(line: str, style: str | None = None) -> None:
        console.print(line, style=style, markup=False, soft_wrap=True)

    show(_about(advice))
    console.print()
    first, *rest = advice.lines()
    show(first, "bold")
    for line in rest:
        show(line)
    console.print(ranking_sheet(advice).to_rich())
    if advice.prediction is not None and not advice.equal:
        console.print(bounds_sheet(advice).to_rich())
    if advice.sensitivity:
        show("What would change the answer:", "bold")
        for effect in advice.sensitivity:
            mark = "*" if effect.changes else "-"
            show(f"{mark} {effect.condition}: {effect.answer} ({effect.basis})")
    for note in advice.notes:
        show(f"Note: {note}.")


def to_html(advice: Advice) -> str:
    first, *rest = advice.lines()
    lines = [_about(advice), *rest, *(f"Note: {note}." for note in advice.notes)]
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    sheet = ranking_sheet(advice)
    return f"<p><b>{escape(first)}</b></p>{paragraphs}{html_table(sheet.header, sheet.rows)}"


def _about(advice: Advice) -> str:
    pilot, experiment = advice.pilot, advice.experiment
    return (
        f"{experiment.name}: {describe_network(experiment)}; {describe_problem(experiment)}. "
        f"Pilot: {plural(pilot.runs, 'run')} on {plural(len(pilot.seeds), 'seed')}, "
        f"{plural(pilot.base.rounds, 'round')} each, in {duration(advice.seconds)}."
    )


def ranking_sheet(advice: Advice) -> Sheet:
    """The best candidates, each at its best stepsize for the goal."""
    losses = advice.pilot.scores.are_losses
    columns = headings(advice.pilot.scores.goals, losses)
    found = advice.ranking()[:SHOWN]
    chosen = len({(entry.candidate.sampled, entry.candidate.period) for entry, _ in found}) > 1
    selected = len({entry.candidate.selection for entry, _ in found}) > 1
    rows = []
    for entry, scores in found:
        c = entry.candidate
        rule = (c.selection,) if selected else ()
        server = (str(c.sampled), str(c.period)) if chosen else ()
        cells = (score_text(scores[goal], losses) for goal in scores if goal in columns)
        ends = f"{entry.stepsize:.3g}", f"{advice.cost(c):,.0f}"
        rows.append((c.label, *rule, *server, *cells, *ends))
    first = ("", "sampled by") if selected else ("",)
    server = ("K", "H") if chosen else ()
    header = (*first, *server, *columns.values(), "step-\nsize", "mes-\nsages")
    sides = "l" * len(first) + "r" * (len(header) - len(first))
    return Sheet("Standings", header, tuple(rows), sides)


def bounds_sheet(advice: Advice) -> Sheet:
    """Rounds and messages that suffice by the theory, at the experiment's K and H."""
    assert advice.prediction is not None
    prediction = advice.prediction
    # Under selection rules other than uniform, both bounds are certified.
    order = [answer for answer in prediction.order if answer.mode == "order"]
    rows = [
        (f"{answer.label}, {answer.mode}", number(answer.rounds), number(answer.messages))
        for answer in (*order, *prediction.certified)
    ]
    title = f"bounds for epsilon {prediction.epsilon:.3g}"
    return Sheet("Bounds", (title, "rounds", "messages"), tuple(rows), "lrr")


class _Bar(AdviceProgress):
    """Progress bar of the time spent."""

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


class _Lines(AdviceProgress):
    """Progress lines every few seconds, for logs."""

    def __init__(self) -> None:
        self._last = -PLAIN_SECONDS

    def doing(self, words: str) -> None:
        if time.monotonic() - self._last > PLAIN_SECONDS:
            self._last = time.monotonic()
            say(words)


@contextmanager
def show_advice_progress(minutes: float, wanted: bool | None = True) -> Iterator[AdviceProgress]:
    """A bar on a terminal (also if `wanted` is None), lines elsewhere."""
    if not wanted and (wanted is False or not sys.stderr.isatty()):
        yield AdviceProgress()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TimeElapsedColumn(),
        TextColumn(f"of at most {duration(60 * minutes)}"),
        console=safe_console(stderr=True),
    ) as progress:
        yield _Bar(progress, 60 * minutes)


def summary_lines(advice: Advice) -> list[str]:
    """The recommendation, its gain, the selection rule, the other goals, and the theory."""
    return [*_headline(advice), *_selection(advice), *_other_goals(advice), *_theory(advice)]


def _headline(advice: Advice) -> Iterator[str]:
    best, decision = advice.best, advice.decision
    candidate = best.candidate
    setting = (
        f"{candidate.label}, sampled by {candidate.selection}, K = {candidate.sampled}, "
        f"H = {candidate.period}, stepsize {best.stepsize:.3g}"
    )
    if advice.equal:
        yield f"All primitives do the same: {advice.equal}. Take {setting}."
        return
    unclear = decision.verdict == "unclear"
    yield f"{'No clear winner. Best so far' if unclear else 'Recommendation'}: {setting}."
    yield _gain_sentence(advice, decision)
    if unclear:
        yield from _unclear_sentences(advice, decision)
    yield _cost(advice)


def _gain_sentence(advice: Advice, decision: Decision) -> str:
    """The score, its lead over the runner-up, and the confidence."""
    words, score = _goal_text(advice, decision.goal), decision.score
    value = f"{-score.mean:.4g}" if advice.pilot.scores.are_losses else f"{score.mean:.2f} %"
    text = f"{words[0].upper()}{words[1:]} {value}"
    rival = decision.runner_up
    if rival is None:
        return f"{text}; nothing else was compared."
    lead, sure = _lead_text(advice, rival), decision.confidence
    confidence = "" if sure is None else f", confidence {100 * sure:.0f} %"
    if sure is not None and sure > 0.99:  # never 100 %
        confidence = ", confidence above 99 %"
    return f"{text}: {lead}, the runner-up (seeds: {score.count}{confidence})."


def _goal_text(advice: Advice, goal: Goal) -> str:
    text = GOAL_TEXTS[goal if "own" in advice.pilot.scores.goals else "global"]
    if advice.pilot.scores.are_losses:
        return text.format(what="loss", data="data like their own")
    return text.format(what="accuracy", data="their own labels")


def _selection(advice: Advice) -> Iterator[str]:
    rivals, best = advice.decision.selections, advice.best.candidate
    if advice.equal or not rivals:
        return
    is_runner_up = not advice.decision.rivals  # then the gain is about the rules already
    if not is_runner_up and all(rival.is_clear for rival in rivals):
        yield (
            f"Whom to sample: {best.selection}, {_lead_text(advice, rivals[0])}, the same "
            "primitive under the next best rule."
        )
    elif not is_runner_up:
        level = [rival for rival in rivals if not rival.is_clear]
        others = " and ".join(rival.entry.candidate.selection for rival in level)
        most = max(max(-rival.lead.low, rival.lead.high) for rival in level)
        unit = "" if advice.pilot.scores.are_losses else " points"
        within = f" (they differ by at most {most:.2g}{unit}, 95 %)" if math.isfinite(most) else ""
        yield f"Whom to sample: {best.selection} is not clearly better than {others}{within}."
    if (alone := advice.selection_alone()) and alone[1].is_clear:
        entry, gained = alone
        yield (
            f"The cheapest change: keep {advice.experiment.server.primitive} and sample by "
            f"{entry.candidate.selection}, which alone is {_lead_text(advice, gained)}."
        )


def _lead_text(advice: Advice, rival: Rival) -> str:
    """The lead over a rival, such as `0.52 ± 0.21 points above s2a`; for losses, `below s2a`."""
    losses, lead = advice.pilot.scores.are_losses, rival.lead
    style = ".3g" if losses else ".2f"
    size = plus_minus(lead.mean, lead.half_width, style, style)
    return f"{size} {'below' if losses else 'points above'} {advice.label(rival.entry.candidate)}"


def _unclear_sentences(advice: Advice, decision: Decision) -> Iterator[str]:
    """Sentences on how many seeds would settle it, and on a cheaper equal candidate."""
    needed, lead = decision.seeds_to_settle(), decision.decisive[0].lead
    if lead.count < 2:
        yield "One seed does not show the noise: give more seeds or minutes."
        return
    unit = "" if advice.pilot.scores.are_losses else " points"
    most = f"The two differ by at most {max(-lead.low, lead.high):.2g}{unit} (95 %)"
    if needed is None:
        yield f"{most}; no reasonable number of seeds would tell them apart."
    else:
        minutes = (needed - decision.score.count) * advice.pilot.seconds_per_seed / 60
        more = f"about {max(0.1, minutes):.1f} minutes more here"
        yield f"{most}. To settle it, give {needed} seeds: {more}."
    level = [rival.entry.candidate for rival in decision.decisive if not rival.is_clear]
    cheaper = min(level, key=advice.cost, default=None)
    if cheaper and advice.cost(cheaper) < advice.cost(advice.best.candidate):
        cost = _cost_text(advice.cost(cheaper))
        yield f"Not clearly worse, and cheaper: {advice.label(cheaper)}, {cost}."


def _cost(advice: Advice) -> str:
    candidate, budget = advice.best.candidate, advice.pilot.budget
    rounds = budget.reach(candidate)
    text = f"Cost over {rounds} rounds: {_cost_text(advice.cost(candidate))}"
    text += f", {advice.bytes(candidate) / 1e6:,.3g} MB"
    rival = advice.decision.runner_up
    if rival is not None:
        other = rival.entry.candidate
        text += f"; {advice.label(other)} {_cost_text(advice.cost(other))}"
        if budget.reach(other) != rounds:
            text += f" over {budget.reach(other)} rounds"
    return f"{text}."


def _cost_text(cost: float) -> str:
    return f"{cost:,.0f} messages" if cost == int(cost) else f"{cost:,.1f} messages' worth"


def _other_goals(advice: Advice) -> Iterator[str]:
    if advice.equal or "own" not in advice.pilot.scores.goals:
        return
    for goal, decision in advice.decisions.items():
        rival = decision.runner_up
        if goal == advice.goal or rival is None:
            continue
        clear = "" if decision.verdict == "clear" else " (not a clear lead)"
        yield (
            f"For the {_goal_text(advice, goal)} alone: "
            f"{advice.label(decision.best.candidate)}, {_lead_text(advice, rival)}{clear}."
        )


def _theory(advice: Advice) -> Iterator[str]:
    if advice.constants is not None:
        yield f"Your problem: {regime(advice.constants)}."
    if advice.prediction is None or advice.equal:
        return
    if advice.prediction.favours() is None:
        yield "Theory: the bounds of S2S and S2A are too close to prefer either."
        return
    fewer, more = sorted(advice.prediction.order, key=lambda answer: answer.rounds)
    times = f"{more.rounds / fewer.rounds:.3g} times as many"
    many = "infinitely many" if math.isinf(more.rounds) else times
    agree = {
        True: "; the pilot agrees",
        False: "; the pilot disagrees, and is more reliable because it ran your problem",
        None: "",
    }[advice.agreement]
    yield (
        f"Theory: for the average model the bounds favour {fewer.primitive} ({more.primitive} "
        f"needs {many} rounds){agree}."
    )
