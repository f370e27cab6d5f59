"""The advice on the terminal and in notebooks: sentences, tables and progress."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from skerry.advice.advise import Advice
from skerry.advice.answer import CurvePoint, tolerance_text
from skerry.advice.pilot import FEW_LANES, AdviceProgress
from skerry.advice.prediction import regime
from skerry.advice.question import Goal
from skerry.advice.scores import Gap
from skerry.advice.sensitivity import amount, brief, size_text
from skerry.advice.settings import Entry, write_cost
from skerry.advice.target import ClockUnit
from skerry.clock.units import readable_unit
from skerry.report.notebook import html_table
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
AXIS_NAMES = {"sampled": "K", "period": "H", "stepsize": "the stepsize"}
ROLES = {"recommended": "recommended", "best": "best", "none": "no server"}
PLAIN_SECONDS = 5.0


def print_advice(advice: Advice, console: "Console") -> None:
    def show(line: str, style: str | None = None) -> None:
        console.print(line, style=style, markup=False, soft_wrap=True)

    show(_about(advice))
    for line in question_lines(advice):
        show(line)
    console.print()
    first, *rest = advice.lines()
    show(first, "bold")
    for line in rest:
        show(line)
    console.print(curve_sheet(advice).to_rich())
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
    lines = [_about(advice), *question_lines(advice), *rest]
    lines += [f"Note: {note}." for note in advice.notes]
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    sheet = curve_sheet(advice)
    return f"<p><b>{escape(first)}</b></p>{paragraphs}{html_table(sheet.header, sheet.rows)}"


def _about(advice: Advice) -> str:
    pilot, experiment = advice.pilot, advice.experiment
    return (
        f"{experiment.name}: {describe_network(experiment, advice.sizes)}; "
        f"{describe_problem(experiment)}. {plural(pilot.scores.runs, 'run')} of "
        f"{plural(pilot.base.rounds, 'round')}, in {duration(advice.seconds)}: "
        f"{plural(len(pilot.search.seeds), 'seed')} to search, "
        f"{plural(len(pilot.fresh), 'fresh seed')} to confirm."
    )


# The question, repeated


def question_lines(advice: Advice) -> list[str]:
    """The goal, the budget, what was varied and what was fixed."""
    question, space, rounds = advice.question, advice.pilot.space, advice.experiment.rounds
    asked = advice.pilot.budget.for_rounds(rounds).limit  # the pilot's runs may be shorter
    prices = {"up": "uplink", "down": "downlink", "broadcast": "broadcast", "d2d": "d2d"}
    given = {word: getattr(question.prices, name) for word, name in prices.items()}
    priced = ", ".join(f"{word} {price:g}" for word, price in given.items() if price is not None)
    limit = "no budget" if asked is None else f"at most {amount(advice.pilot, asked)}"
    costs = f"prices: {priced}"
    if advice.pilot.budget.clock is not None:
        costs = f"clock: {question.clock_name or 'given from Python'}"
        costs += f"; cost in {advice.question.cost_unit}"
    varied = space.describe()
    ranges = "; ".join(
        f"{AXIS_NAMES.get(name, name)} {', '.join(_value(one) for one in values)}"
        for name, values in varied.items()
        if len(values) > 1
    )
    fixed = ", ".join(f"{name} {value}" for name, value in fixed_fields(advice).items())
    return [
        f"Asked: {goal_text(advice, question.goal)}; {limit} ({costs}); "
        f"{plural(rounds, 'round')}; {question.minutes:g} minutes.",
        f"Varied: {ranges}.",
        f"Fixed: {fixed}.",
    ]


def fixed_fields(advice: Advice) -> dict[str, str]:
    """Fields that were the same in all runs, with their values."""
    experiment, varied = advice.experiment, advice.pilot.space.describe()
    found = {
        AXIS_NAMES.get(name, name): _value(values[0])
        for name, values in varied.items()
        if len(values) == 1
    }
    found |= {"model": experiment.model.name, "batch": str(experiment.training.batch)}
    return found | {"rounds": str(advice.pilot.base.rounds)}


def ends(advice: Advice) -> list[str]:
    """Sentences about values of the answer that are the last of their range."""
    space, found = advice.pilot.space, []
    n = sum(advice.sizes)
    for axis, upper in space.at_end(advice.entry):
        values = space.values[axis]
        natural = (axis == "sampled" and values[-1 if upper else 0] == (n if upper else 1)) or (
            axis == "period" and not upper and values[0] == 1
        )
        if len(values) > 1 and not natural:
            word = "largest" if upper else "smallest"
            value = _value(values[-1 if upper else 0])
            found.append(f"{AXIS_NAMES[axis]} = {value} is the {word} value that was tried")
    return found


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) and value != int(value) else f"{value}"


def goal_text(advice: Advice, goal: Goal) -> str:
    """The compared quantity: the measure of a goal, or seconds or joules until its target."""
    text, target = measure_text(advice, goal), advice.pilot.scores.target
    return text if target is None else f"{target.unit} until {target.text} ({text})"


def measure_text(advice: Advice, goal: Goal) -> str:
    text = GOAL_TEXTS[goal if "own" in advice.pilot.scores.goals else "global"]
    if advice.pilot.scores.are_losses:
        return text.format(what="loss", data="data like their own")
    return text.format(what="accuracy", data="their own labels")


# The answer in sentences


def summary_lines(advice: Advice) -> list[str]:
    """The recommendation, what it is level with, what a server is worth, and what is uncertain."""
    answers = (_level, _server) if advice.pilot.scores.target is None else (_reached,)
    return [
        *_headline(advice),
        *(line for lines in answers for line in lines(advice)),
        *_limits(advice),
        *_theory(advice),
    ]


def in_words(entry: Entry, islands: int) -> str:
    """Describe what the server does: `every 10 rounds, ask 2 devices of every island ...`."""
    c = entry.candidate
    if not c.has_server:
        return "use no server: devices only average with their neighbours"
    each = f"{plural(c.sampled // islands, 'device')} of every island"
    asked = each if c.selection == "one_each" else f"{plural(c.sampled, 'device')} ({c.selection})"
    receivers = {
        "s2s": "send the average back to them",
        "s2a": "send the average to all devices",
    }
    sends = receivers.get(
        c.primitive,
        f"send the average to all devices; those not asked go {c.beta or 0:g} of the way to it",
    )
    if c.preset:
        sends = f"use {c.preset}"
    often = "every round" if c.period == 1 else f"every {c.period} rounds"
    return f"{often}, ask {asked} and {sends}"


def _headline(advice: Advice) -> Iterator[str]:
    point, budget = advice.answer.recommendation, advice.pilot.budget
    words = in_words(point.entry, len(advice.sizes))
    cost = amount(advice.pilot, point.cost)
    if budget.limit is not None:
        cost += f" of {_in_column(advice, budget.limit)} allowed"
    if advice.equal:
        yield f"All settings do the same: {advice.equal}. No server is needed."
        return
    target = advice.pilot.scores.target
    if advice.verdict == "never" and target is not None:
        rounds = plural(advice.pilot.base.rounds, "round")
        yield (
            f"Never: no setting that was tried reaches {target.text} within {rounds} ({cost}). "
            f"The nearest: {words} ({point.entry.label})."
        )
        return
    if target is not None:
        cost += f" for all {plural(advice.pilot.base.rounds, 'round')}"
    unclear = {"unclear": "Best guess, not certain: ", "clear": "Recommendation: "}
    yield f"{unclear.get(advice.verdict, 'Only choice: ')}{words} ({point.entry.label}): {cost}."


def _level(advice: Advice) -> Iterator[str]:
    answer, pilot = advice.answer, advice.pilot
    score, best = score_of(advice, answer.recommendation), answer.best
    seeds = plural(answer.recommendation.score.count, "fresh seed")
    goal = goal_text(advice, advice.goal)
    yield f"{goal[0].upper()}{goal[1:]}: {score} ({seeds}, 95 % interval)."
    gap = answer.recommendation.behind
    if gap is not None:
        share = ""
        if 0 < answer.recommendation.cost < best.cost:
            share = f", for {100 * answer.recommendation.cost / best.cost:.0f} % of its cost"
        yield (
            f"The best setting found is {best.entry.label}, {amount(pilot, best.cost)}: "
            f"{_gain(advice, gap)}. The recommended one is within {tolerance_text(pilot)} of it "
            f"with probability {_percent(gap.within)}{share}."
        )
    elif answer.recommended == "best":
        cheaper = [one for one in answer.points if one.behind and one.cost < best.cost]
        if cheaper:
            nearest = min(cheaper, key=lambda one: one.behind.mean if one.behind else math.inf)
            assert nearest.behind is not None
            yield (
                f"It is the best setting found, and none of the cheaper ones is surely level: the "
                f"nearest, {nearest.entry.label}, {amount(pilot, nearest.cost)}, is "
                f"{_loss(advice, nearest.behind)}."
            )


def _reached(advice: Advice) -> Iterator[str]:
    """Sentences on when the target is reached: by the recommended setting, the next one, and
    without a server."""
    answer, target = advice.answer, advice.pilot.scores.target
    assert target is not None
    best, none = answer.best, answer.none
    yield f"{_until(advice, best)}."
    others = [one for one in answer.points if one.behind is not None and not one.never]
    others = [one for one in others if one.entry != none.entry] if not best.never else []
    if others:
        near = min(others, key=lambda one: one.behind.mean if one.behind else math.inf)
        assert near.behind is not None
        apart, gap = "", near.apart
        if gap is not None and gap.count:
            more, less = ("later", "sooner") if target.unit == "seconds" else ("more", "less")
            size = size_text(advice.pilot, abs(gap.mean))
            apart = f", {size} {more if gap.mean >= 0 else less}{_interval(gap)}"
        yield f"The next is {near.entry.label}: {_with_seeds(advice, near)}{apart}."
    if best.entry.candidate.has_server and not advice.equal:
        words = _until(advice, none)
        yield f"Without a server: {words[0].lower()}{words[1:]}."


def _until(advice: Advice, point: CurvePoint) -> str:
    """When a point reaches the target, and how far it comes where it does not."""
    target = advice.pilot.scores.target
    assert target is not None
    assert point.top is not None
    far = _top_score(advice, point)
    seeds = plural(point.top.count, "fresh seed")
    if point.never:
        some = f" on {point.top.count - point.score.count} of {seeds}" if point.score.count else ""
        return f"Never reaches {target.text}{some}; its best score is {far} on average ({seeds})"
    word = "after" if target.unit == "seconds" else "for"
    on = seeds if point.always else f"on {point.score.count} of {seeds}, never on the others"
    return f"Reaches {target.text} {word} {score_of(advice, point)} ({on}, 95 % interval)"


def _top_score(advice: Advice, point: CurvePoint) -> str:
    assert point.top is not None
    style = ".4g" if advice.pilot.scores.are_losses else ".2f"
    return f"{point.top.mean:{style}}{'' if advice.pilot.scores.are_losses else ' %'}"


def _server(advice: Advice) -> Iterator[str]:
    """Sentence on how much score is lost without a server."""
    gap, none = advice.gain, advice.answer.none
    if advice.equal:
        return
    if gap is None:
        yield "No setting of the server that may be recommended is better than no server."
    elif advice.answer.recommended == "none":
        yield f"The server gains nothing that counts: no server is {_loss(advice, gap)}."
    else:
        level = f" No server is within {tolerance_text(advice.pilot)} with probability "
        chance = "" if gap.within < 0.01 else f"{level}{_percent(gap.within)}."
        yield (
            f"Without a server ({amount(advice.pilot, none.cost)}): {score_of(advice, none)}, "
            f"{_loss(advice, gap)}.{chance}"
        )


def _limits(advice: Advice) -> Iterator[str]:
    """Ends of ranges, what was not tried, and how few runs there were."""
    yield from (f"End of a range: {text}." for text in ends(advice))
    yield from (f"Not tried: {text}." for text in advice.pilot.skipped)
    if advice.pilot.scores.runs < FEW_LANES and advice.verdict in ("clear", "unclear"):
        runs, more = plural(advice.pilot.scores.runs, "run"), "minutes"
        if advice.seconds < 0.5 * 60 * advice.question.minutes:
            more = "seeds, or more values to try"  # time was not the limit
        yield (
            f"There were {runs} only; from about {FEW_LANES} on answers are reliable. Give more "
            f"{more}."
        )


def score_of(advice: Advice, point: CurvePoint) -> str:
    """The score on fresh seeds: `94.81 ± 0.21`; with a target `42 ± 1.3 s`, or `never`."""
    target = advice.pilot.scores.target
    if target is not None and point.top is not None:
        if point.never:
            return f"never ({_top_score(advice, point)} at best)"
        mean, half = point.score.mean, point.score.half_width
        value, unit = write_cost(target.unit, mean).split(" ")
        if math.isnan(half) or not mean:
            return f"{value} {unit}"
        return f"{value} ± {half * float(value.replace(',', '')) / mean:.2g} {unit}"
    styles = (".4g", ".2g") if advice.pilot.scores.are_losses else (".2f", ".2f")
    return plus_minus(point.score.mean, point.score.half_width, *styles)


def _with_seeds(advice: Advice, point: CurvePoint, column: "_TimeColumn | None" = None) -> str:
    """The score, with the number of seeds that reach a target where some do not."""
    text = score_of(advice, point)
    if point.top is None or point.never:
        return text
    if column is not None:
        text = column.write(point.score.mean, point.score.half_width)
    if point.always:
        return text
    return f"{text} ({point.score.count} of {point.top.count} seeds)"


def _loss(advice: Advice, gap: Gap) -> str:
    """How far behind the best: `1.2 points behind it (0.9 to 1.5)`."""
    word = "behind" if gap.mean >= 0 else "ahead of"
    return f"{size_text(advice.pilot, abs(gap.mean))} {word} the best{_interval(gap)}"


def _gain(advice: Advice, gap: Gap) -> str:
    """How far ahead the best is: `0.05 points better, within chance (-0.1 to 0.2)`."""
    word = "better" if gap.mean >= 0 else "worse on fresh seeds"
    return f"{size_text(advice.pilot, abs(gap.mean))} {word}{_interval(gap)}"


def _interval(gap: Gap) -> str:
    if math.isnan(gap.low):
        return ""
    return f"{'' if gap.is_clear else ', within chance'} ({brief(gap.low)} to {brief(gap.high)})"


def _percent(chance: float) -> str:
    """A probability; never 0 or 100 %."""
    if chance > 0.99:
        return "above 99 %"
    return "below 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"


# Tables


def curve_sheet(advice: Advice) -> Sheet:
    """The confirmed settings by cost, from no server upward."""
    losses, target = advice.pilot.scores.lower_is_better, advice.pilot.scores.target
    points, cost_unit = advice.answer.points, advice.pilot.budget.unit
    costs = until = None
    if cost_unit != "messages":
        costs = _TimeColumn(cost_unit, [point.cost for point in points])
    if target is not None:
        until = _TimeColumn(target.unit, [p.score.mean for p in points if not p.never])
    rows = []
    for point in points:
        c = point.entry.candidate
        server = (c.selection, str(c.sampled), str(c.period)) if c.has_server else ("", "", "")
        gap = point.apart
        shown = gap is not None and (gap.count or target is None)
        behind = f"{gap.mean:.2f} ({gap.low:.2f} to {gap.high:.2f})" if gap and shown else ""
        rows.append(
            (
                ", ".join(ROLES[role] for role in point.roles if role in ROLES),
                c.name,
                *server,
                f"{point.entry.stepsize:.3g}",
                costs.write(point.cost) if costs else _in_column(advice, point.cost),
                _with_seeds(advice, point, until),
                behind,
            )
        )
    behind = f"{'%' if losses else 'points'} behind\nthe best (95 %)"
    unit = costs.title if costs else advice.question.cost_unit
    score = "loss" if losses else "score %"
    if until and target:
        unit, score = f"{unit} of\nall rounds", f"{until.title}\nuntil {target.text}"
    header = ("", "", "sampled by", "K", "H", "step-\nsize", unit, score, behind)
    return Sheet("Score against cost", header, tuple(rows), "lll" + "r" * 6)


class _TimeColumn:
    """A column of seconds or joules in one unit, with three digits of the largest."""

    def __init__(self, unit: ClockUnit, values: Sequence[float]) -> None:
        largest = max((abs(one) for one in values if math.isfinite(one)), default=0.0) or 1.0
        self._size, name = readable_unit(unit, largest)
        self._style = f",.{max(0, 2 - math.floor(math.log10(largest / self._size)))}f"
        quantity = {"seconds": "time", "joules": "energy"}[unit]
        self.title: str = unit if self._size == 1 else f"{quantity} ({name})"

    def write(self, mean: float, half: float = math.nan) -> str:
        return plus_minus(mean / self._size, half / self._size, self._style, self._style)


def _in_column(advice: Advice, cost: float) -> str:
    """A cost without its unit; seconds and joules keep theirs: `42 s`, `3.1 kJ`."""
    text = amount(advice.pilot, cost)
    return text.split(" ")[0] if advice.pilot.budget.unit == "messages" else text


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
    yield (
        f"Theory: for the average model the bounds favour {fewer.primitive} ({more.primitive} "
        f"needs {many} rounds). The pilot ran your problem and is more reliable."
    )
