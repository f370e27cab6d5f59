"""The screen of `skerry price`: what runs cost in seconds and joules, who reaches a score first.

Costs are means over seeds. A score is reached in the first evaluated round at or past it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from skerry.analysis.cells import Cell
from skerry.analysis.names import format_value, short_names
from skerry.analysis.reach import First, Priced, Reach
from skerry.analysis.statistics import Estimate
from skerry.clock.units import SCALES, readable_unit
from skerry.config.labels import APART, NO_SERVER
from skerry.config.measures import traits
from skerry.errors import argument
from skerry.report import text
from skerry.report.screens.results import format_p
from skerry.report.text import Sheet, plural

MOST_CELLS = 4  # with more cells, sentences count cells instead of naming them


# Tables


def price_sheets(priced: Priced) -> list[Sheet]:
    """Tables of the costs of whole runs, of those until the target, and of their differences."""
    sheets = [_finals_sheet(priced), _reach_sheet(priced)]
    return [*sheets, _differences_sheet(priced)] if any(priced.differences.values()) else sheets


def _finals_sheet(priced: Priced) -> Sheet:
    measure = priced.reach.measure
    seeds = plural(_most_seeds(priced), "seed")
    shown = {cost: _Column(cost, priced.finals[cost].values()) for cost in priced.costs}
    rows = [
        (
            *_words(cell, label),
            text.format_estimate(measure, priced.scores[cell, label]),
            *(one.write(priced.finals[cost][cell, label]) for cost, one in shown.items()),
            text.format_estimate("waiting", priced.finals["waiting"][cell, label]),
        )
        for cell, label in _pairs(priced)
    ]
    header = (measure, *(one.title for one in shown.values()), "waiting %")
    title = f"Clock {priced.clock}: whole runs, mean over {seeds} ± half of the 95 % interval"
    return _sheet(priced, title, header, rows)


def _reach_sheet(priced: Priced) -> Sheet:
    reach = priced.reach
    took = {
        cost: {pair: reach.took(cost, *pair) for pair in _pairs(priced)}
        for cost in priced.costs
        if cost in reach.costs
    }
    shown = {cost: _Column(cost, found.values()) for cost, found in took.items()}
    rows = []
    for pair in _pairs(priced):
        reached, seeds = took["rounds"][pair].count, reach.seeds(*pair)
        known = f"{reached} of {plural(seeds, 'seed')}" if reached else "never"
        written = (one.write(took[cost][pair]) for cost, one in shown.items())
        rows.append((*_words(*pair), known, *written))
    header = ("reached in", *(one.title for one in shown.values()))
    return _sheet(priced, f"Clock {priced.clock}: until {_goal(reach)} is reached", header, rows)


def _differences_sheet(priced: Priced) -> Sheet:
    found = {cost: by_pair for cost, by_pair in priced.differences.items() if by_pair}
    shown = {
        cost: _Column(cost, [one.difference for one in by_pair.values()])
        for cost, by_pair in found.items()
    }
    family = max(sum(not one.untested for one in by.values()) for by in found.values())
    rows = []
    for pair in found["rounds"]:
        cells = [str(found["rounds"][pair].difference.count)]
        for cost, by_pair in found.items():
            one = by_pair[pair]
            cells += [shown[cost].write(one.difference, "+"), format_p(one.t_holm)]
        rows.append((*_words(*pair), *cells))
    header = ("pairs", *(word for one in shown.values() for word in (one.title, "p")))
    holm = f", Holm-corrected for {family} tests" if family > 1 else ""
    title = (
        f"Clock {priced.clock}: minus {priced.against} at {_goal(priced.reach)}, paired over the "
        f"seeds in which both reach it (t test{holm})"
    )
    return _sheet(priced, title, header, rows)


def _sheet(priced: Priced, title: str, header: Sequence[str], rows: list[Any]) -> Sheet:
    fields = (*short_names(priced.reach.scores.fields).values(), "primitive")
    return Sheet(title, (*fields, *header), tuple(rows), "l" * len(fields) + "r" * len(header))


class _Column:
    """A column of costs in one unit, with three digits of its largest mean."""

    def __init__(self, cost: str, found: Iterable[Estimate]):
        largest = max((abs(one.mean) for one in found if one.count), default=0.0)
        has_unit = cost in SCALES and largest > 0
        self._size, self._unit = readable_unit(cost, largest) if has_unit else (1.0, "")
        self.title = cost
        if self._unit not in ("", "s", "J"):
            self.title = f"{'time' if cost == 'seconds' else 'energy'} ({self._unit})"
        digits = 2 - math.floor(math.log10(largest / self._size)) if largest else 0
        self._style = f".{1 if cost == 'rounds' else max(0, digits)}f"

    def write(self, found: Estimate, sign: str = "") -> str:
        if not found.count:
            return text.NOTHING
        half = found.half_width / self._size or None
        return text.plus_minus(found.mean / self._size, half, sign + self._style, self._style)

    def say(self, found: Estimate) -> str:
        """As part of a sentence, with the unit."""
        return f"{self.write(found)} {self._unit or self.title}"


# Sentences


def price_sentences(priced: Priced) -> list[str]:
    """Who is first in rounds, seconds and joules; fronts of score against seconds and joules."""
    if len(priced.cells) > MOST_CELLS:
        return list(_tallies(priced))
    return [
        f"{about}{line[0].lower() if about else line[0]}{line[1:]}"
        for cell in priced.cells
        for about in [_about(priced, cell)]
        for line in (*_firsts(priced, cell), *_drains(priced, cell), *_fronts(priced, cell))
    ]


def compare_clocks(all_priced: Sequence[Priced]) -> list[str]:
    """Where the winner in seconds is not the winner in rounds, over several clocks."""
    if len(all_priced) < 2:
        return []
    turned = [one for one in all_priced if one.turned]
    if not turned:
        return ["Under none of the clocks is another primitive first in seconds than in rounds."]
    words = [f"{one.clock} ({_turn(one)})" for one in turned]
    return [f"Another primitive is first in seconds than in rounds under: {', '.join(words)}."]


def _turn(priced: Priced) -> str:
    """The first in seconds instead of the first in rounds, or the number of such cells."""
    clear = [cell for cell in priced.turned if priced.is_clear("rounds", cell)]
    clear = [cell for cell in clear if priced.is_clear("seconds", cell)]
    if len(priced.cells) > 1:
        found = f"{len(priced.turned)} of {plural(len(priced.cells), 'cell')}"
        return f"{found}, {len(clear)} with clear leads in both"
    (cell,) = priced.cells
    seconds, rounds = (priced.first[cost][cell] for cost in ("seconds", "rounds"))
    names = f"{_leader(seconds)} instead of {_leader(rounds)}"
    return names if clear else f"{names}; not both are clear leads"


def reach_notes(reach: Reach, is_given: bool) -> list[str]:
    """How the target was chosen and what it means that a score is reached."""
    goal = _goal(reach)
    other = f", which every run reaches at some time ({argument('target')} chooses another)"
    chosen = "" if is_given else other
    notes = [
        f"The target is {goal}{chosen}. It is reached in the first evaluated round at or past it; "
        "nothing is interpolated."
    ]
    if reach.is_at_start:
        notes.append(
            f"All runs reach it before the first round: give a harder {argument('target')}."
        )
    return notes


def _goal(reach: Reach) -> str:
    sign = "<=" if reach.scores.lower_is_better else ">="
    unit = " %" if traits(reach.measure).is_percent else ""
    return f"{reach.measure} {sign} {reach.target:g}{unit}"


def _about(priced: Priced, cell: Cell) -> str:
    if len(priced.cells) == 1:
        return ""
    names = short_names(priced.reach.scores.fields).values()
    words = (f"{name} {format_value(one)}" for name, one in zip(names, cell, strict=True))
    return f"{', '.join(words)}: "


def _firsts(priced: Priced, cell: Cell) -> Iterator[str]:
    found = {cost: one for cost in priced.costs if (one := priced.first[cost][cell])}
    if not found:
        yield "No primitive reaches the target in any seed."
        return
    fewer = _fewer_seeds(priced, cell, found["rounds"])
    if found["rounds"].is_alone:
        label = found["rounds"].labels[0]
        seeds = f"{priced.reach.took('rounds', cell, label).count} of "
        seeds += plural(priced.reach.seeds(cell, label), "seed")
        *most, last = priced.costs
        costs = f"{', '.join(most)} and {last}" if most else last
        others = (
            f": it reaches the target in {seeds}, {fewer}" if fewer else ": nothing is compared"
        )
        yield f"In {costs} {_say(label)} is first{others}."
        return
    for cost, one in found.items():
        yield f"In {cost} {_standing(priced, cost, cell, one)}."
    if fewer:
        yield f"Of the others, {fewer}."
    if cell in priced.turned:
        yield _explain_turn(priced, cell)


def _standing(priced: Priced, cost: str, cell: Cell, found: First) -> str:
    if found.lead is None:
        return f"{_leader(found)}"
    lead = priced.tested(cost, cell, found.lead)
    gap = replace(lead.gap, mean=-lead.gap.mean)
    best, second = _say(lead.best), _say(lead.second)
    by, pairs = _Column(cost, [gap]).say(gap), f"paired over {plural(gap.count, 'seed')}"
    if lead.untested:
        return f"{best} is ahead of {second} by {by} (not tested: {lead.untested})"
    if lead.is_clear:
        return f"{best} is first, by {by} before {second} ({pairs}, {_p(lead.p)})"
    return f"{best} is ahead of {second} by {by}, which is no clear lead ({pairs}, {_p(lead.p)})"


def _fewer_seeds(priced: Priced, cell: Cell, found: First) -> str:
    """The labels that reach the target in fewer seeds than the first, or never."""
    reach = priced.reach
    counts = {one: reach.took("rounds", cell, one).count for one in reach.labels(cell)}
    return ", ".join(
        f"{_say(label)} reaches it in {count} of {reach.seeds(cell, label)}"
        if count
        else f"{_say(label)} never reaches it"
        for label, count in counts.items()
        if count < counts[found.labels[0]]
    )


def _p(value: float) -> str:
    found = format_p(value)
    return f"p {found}" if found.startswith("<") else f"p = {found}"


def _explain_turn(priced: Priced, cell: Cell) -> str:
    """Rounds and seconds of a round of the two winners, over the seeds that reach the target."""
    reach = priced.reach
    in_rounds, in_seconds = (priced.first[cost][cell] for cost in ("rounds", "seconds"))
    assert in_rounds is not None
    assert in_seconds is not None
    a, b = in_seconds.labels[0], in_rounds.labels[0]
    rounds = {one: reach.took("rounds", cell, one).mean for one in (a, b)}
    each = {one: reach.took("seconds", cell, one).mean / rounds[one] for one in (a, b)}
    waiting = {one: priced.finals["waiting"][cell, one].mean for one in (a, b)}
    size, unit = readable_unit("seconds", max(each.values()))
    one, other = _say(a), _say(b)
    return (
        f"{one} needs {rounds[a]:.1f} rounds and {other} {rounds[b]:.1f}, but a round takes "
        f"{each[a] / size:.3g} {unit} with {one} and {each[b] / size:.3g} {unit} with {other}; "
        f"devices wait {waiting[a]:.0f} % of the time with {one} and {waiting[b]:.0f} % with "
        f"{other}."
    )


def _drains(priced: Priced, cell: Cell) -> Iterator[str]:
    """A sentence on the energy by use: some fleets drain by training, others by talking."""
    found = {label: priced.drains(cell, label) for label in priced.reach.labels(cell)}
    told = [
        f"{shares['computing']:.0f}, {shares['messages']:.0f} and {shares['idle']:.0f} % with "
        f"{_say(label)}"
        for label, shares in found.items()
        if shares
    ]
    if told:
        yield f"Energy for computing, messages and idle power: {'; '.join(told)}."


def _fronts(priced: Priced, cell: Cell) -> Iterator[str]:
    labels = priced.reach.labels(cell)
    fronts: dict[tuple[str, ...], list[str]] = {}
    for cost in priced.costs[1:]:
        fronts.setdefault(tuple(priced.front(cost, cell)), []).append(cost)
    for front, costs in fronts.items() if len(labels) > 1 else ():
        beaten = [label for label in labels if label not in front]
        about = f"Final {priced.reach.measure} against {' and against '.join(costs)}"
        if beaten:
            verb = "is" if len(beaten) == 1 else "are"
            yield f"{about}: the front is {_list(front)}; {_list(beaten)} {verb} better on neither."
        else:
            yield f"{about}: no primitive beats another on both."


def _tallies(priced: Priced) -> Iterator[str]:
    """How often each label is first, for many cells."""
    cells = plural(len(priced.cells), "cell")
    for cost in priced.costs:
        found = priced.first[cost]
        labels = Counter(_leader(one) for one in found.values())
        clear = Counter(
            _leader(one) for c, one in found.items() if one and priced.is_clear(cost, c)
        )
        words = (
            f"{label} in {count}" + (f" ({clear[label]} clearly)" if clear[label] else "")
            for label, count in labels.most_common()
        )
        yield f"First in {cost}, of {cells}: {'; '.join(words)}."
    if priced.turned:
        yield f"Another primitive is first in seconds than in rounds in {_turn(priced)}."
    else:
        yield f"In none of {cells} is another primitive first in seconds than in rounds."


def _leader(found: First | None) -> str:
    if found is None:
        return "nobody"
    names = " and ".join(map(_say, found.labels))
    return names if len(found.labels) == 1 else f"{names} are level"


def _list(labels: Iterable[str]) -> str:
    return ", ".join(map(_say, labels))


def _say(label: str) -> str:
    """A label in a sentence, where `none` would be read as nobody."""
    name, apart, rest = label.partition(APART)
    return f"no server{apart}{rest}" if name == NO_SERVER else label


def _pairs(priced: Priced) -> list[tuple[Cell, str]]:
    return list(priced.scores)


def _words(cell: Cell, label: str) -> tuple[str, ...]:
    return (*map(format_value, cell), label)


def _most_seeds(priced: Priced) -> int:
    return max(one.count for one in priced.scores.values())


# JSON


def price_rows(priced: Priced) -> list[dict[str, Any]]:
    """A row for each cell and label: final values, what the target took, and who is first."""
    reach, rows = priced.reach, []
    for cell, label in _pairs(priced):
        row = dict(zip(reach.scores.fields, cell, strict=True)) | {"primitive": label}
        row |= _spread("final", priced.scores[cell, label])
        for name, found in priced.finals.items():
            row |= _spread(f"final_{name}", found[cell, label])
        row |= {"seeds": reach.seeds(cell, label)}
        row |= {"seeds_reached": reach.took("rounds", cell, label).count}
        for cost in reach.costs:
            row |= _spread(f"reach_{cost}", reach.took(cost, cell, label))
            leader = priced.first[cost][cell]
            row[f"first_{cost}"] = leader is not None and label in leader.labels
        for cost, by_pair in priced.differences.items():
            if paired := by_pair.get((cell, label)):
                row |= _spread(f"difference_{cost}", paired.difference)
                row |= {f"p_{cost}": _finite(paired.t_holm), "against": priced.against}
        for cost in priced.costs[1:]:
            row[f"front_{cost}"] = label in priced.front(cost, cell)
        rows.append(row)
    return rows


def _spread(name: str, found: Estimate) -> dict[str, float | None]:
    """The mean under a name, and the ends of its interval."""
    numbers = (found.mean, found.low, found.high) if found.count else (math.nan,) * 3
    names = (name, f"{name}_low", f"{name}_high")
    return {key: _finite(value) for key, value in zip(names, numbers, strict=True)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
