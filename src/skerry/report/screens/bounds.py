"""`skerry theory bounds`: the setting, what each primitive needs, who needs the fewest, and what
that rests on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from skerry.report.text import NOTHING, PAGE, console, number, plain_table
from skerry.theory.crossings import TIE, Stretch
from skerry.theory.parameters import Parameters
from skerry.theory.regimes import Measure
from skerry.theory.rounds_and_messages import Answer, BoundGrid

if TYPE_CHECKING:
    from rich.table import Table

MODES = {
    "order": "all constants one, for comparing",
    "printed": "the paper's explicit constants",
    "repaired": "explicit constants that survive checking",
    "certified": "the full recursion, computed",
}
TERMS = ("initial", "noise", "intra", "inter", "sampling_intra", "sampling_inter")


def tell(asked: BoundGrid) -> None:
    first = asked.answers[0]
    out = console(fold_at=PAGE)
    what = "average of f - f*, convex" if asked.convex else "average of ||grad f||^2, non-convex"
    out.print(f"[bold]{asked.mode}[/]: {MODES[asked.mode]}; {what}")
    differ = [*asked.varied, *(["selection"] if asked.several_rules else [])]
    out.print(setting_in_words(first[0].parameters, differ))
    out.print(bounds_table(asked.answers, asked.varied))
    finite = [answer for answer in first if not answer.reason]
    if finite and not asked.varied:
        out.print(terms_table(finite))
    for line in [*verdicts(asked), *_reasons(asked)]:
        out.print(line)
    out.print("\nWhat it rests on:", style="dim")
    for words in _assumptions(first):
        out.print(f"- {words}", style="dim")


# Tables


def bounds_table(settings: Sequence[Sequence[Answer]], varied: Sequence[str]) -> "Table":
    """One row per setting and primitive; the fewest rounds of a setting stand out."""
    first = settings[0][0]
    rules = ["selection"] if _several_rules(settings[0]) else []
    columns = [*varied, *rules, "primitive", "rounds"]
    if first.N_b1 is not None:
        columns += ["rounds by\nlemma", "closed\nform"]
    columns += [] if first.stepsize is None else ["stepsize"]
    table = plain_table(*columns, "messages", left=("selection", "primitive"))
    for answers in settings:
        fewest = min(answer.rounds for answer in answers)
        for i, answer in enumerate(answers):
            where = [
                number(getattr(answer.parameters, field)) if i == 0 else "" for field in varied
            ]
            rounds = number(answer.rounds)
            bold = answer.rounds == fewest and len(answers) > 1
            rule = answer.parameters.selection if rules else ""
            told = "" if i and rule == answers[i - 1].parameters.selection else rule
            cells = [*where, *([told] if rules else []), name(answer.label)]
            cells.append(f"[bold]{rounds}[/]" if bold else rounds)
            if answer.N_b1 is not None:
                cells += [number(answer.N_b2), number(answer.N_b1)]
            cells += [] if answer.stepsize is None else [number(answer.stepsize)]
            table.add_row(*cells, number(answer.messages))
    return table


def terms_table(answers: Sequence[Answer]) -> "Table":
    """What part of the rounds (order) or of epsilon (other modes) comes from where."""
    terms = [term for term in TERMS if any(term in answer.terms for answer in answers)]
    whole = "% of rounds" if answers[0].mode == "order" else "% of epsilon"
    table = plain_table(whole, *(term.replace("_", "\n") for term in terms))
    for label, answer in _by_label(answers).items():
        total = sum(answer.terms.values()) or math.nan  # nothing to reach: nothing to divide
        parts = (100 * answer.terms.get(term, math.nan) / total for term in terms)
        told = (NOTHING if math.isnan(part) else f"{part:.1f}" for part in parts)
        table.add_row(name(label), *told)
    return table


def _several_rules(answers: Sequence[Answer]) -> bool:
    return len({answer.parameters.selection for answer in answers}) > 1


def _by_label(answers: Sequence[Answer]) -> dict[str, Answer]:
    """By primitive; and by rule of selection, where there are several."""
    several = _several_rules(answers)
    return {
        f"{one.label} {one.parameters.selection}" if several else one.label: one for one in answers
    }


# Words


def setting_in_words(parameters: Parameters, varied: Sequence[str]) -> str:
    """Everything that does not vary."""
    x = parameters
    symbols = {
        "devices": f"{x.devices} devices",
        "components": f"components {number(x.components)}",
        "sampled": f"{x.sampled} sampled",
        "period": f"period {x.period}",
        "p": f"p {x.p:g}",
        "zeta_intra": f"zeta_intra {x.zeta_intra:g}",
        "zeta_inter": f"zeta_inter {x.zeta_inter:g}",
        "sigma2": f"sigma2 {x.sigma2:g}",
        "smoothness": f"L {x.smoothness:g}",
        "initial_error": f"initial error {x.initial_error:g}",
        "epsilon": f"epsilon {x.epsilon:g}",
    }
    if x.selection != "uniform":
        symbols["selection"] = f"selection {x.selection}"
    if x.weights != "equal":
        symbols["weights"] = f"weights {x.weights}"
    return ", ".join(words for field, words in symbols.items() if field not in varied)


def verdicts(asked: BoundGrid) -> Iterator[str]:
    """Who needs the fewest rounds and messages, and where that changes."""
    if len(asked.candidates) < 2:
        return
    for measure in get_args(Measure):
        if not asked.varied:
            yield _compared(measure, asked.answers[0])
        elif len(asked.varied) > 1:
            yield _counted(measure, asked.winners(measure))
        else:
            yield _along(measure, asked.varied[0], asked.stretches(measure))


def _compared(measure: str, answers: Sequence[Answer]) -> str:
    """`Fewest rounds: S2A, 40,083,767; S2S needs 2.24 times as many.`"""
    costs = {label: float(getattr(one, measure)) for label, one in _by_label(answers).items()}
    ranked = sorted(costs, key=lambda label: costs[label])
    best = costs[ranked[0]]
    if math.isinf(best):
        return f"Fewest {measure}: none, all need infinitely many."
    others = [f"{name(label)} needs {_times(costs[label], best)}" for label in ranked[1:]]
    return f"Fewest {measure}: {name(ranked[0])}, {best:,.0f}; {'; '.join(others)}."


def _times(cost: float, best: float) -> str:
    if math.isinf(cost):
        return "infinitely many"
    if math.isclose(cost, best, rel_tol=1e-12):
        return "as many"
    return f"{cost / best:.{4 if cost < 1.1 * best else 3}g} times as many"


def _along(measure: str, axis: str, won: Sequence[Stretch]) -> str:
    """`Fewest rounds: S2S for period 1 to 4, S2A for period 5 to 50.`"""
    parts = [f"{winner(stretch.winner)} for {axis} {span(stretch)}" for stretch in won]
    return f"Fewest {measure}: {', '.join(parts)}."


def _counted(measure: str, winners: Mapping[str, int]) -> str:
    """Over several axes at once: `Fewest rounds: S2S in 30 settings, S2A in 20.`"""
    parts = [f"{winner(who)} in {count:,}" for who, count in winners.items()]
    return f"Fewest {measure}, of {sum(winners.values()):,} settings: {', '.join(parts)}."


def _reasons(asked: BoundGrid) -> list[str]:
    found = (answer.reason for answers in asked.answers for answer in answers)
    return [f"Infinite: {reason}" for reason in dict.fromkeys(found) if reason]


def _assumptions(answers: Sequence[Answer]) -> list[str]:
    """Each once; those of one rule of selection alone come last, with its name."""
    by_rule: dict[str, list[str]] = {}
    for answer in answers:
        by_rule.setdefault(answer.parameters.selection, []).extend(answer.assumptions)
    common = [
        words
        for words in dict.fromkeys(next(iter(by_rule.values())))
        if all(words in others for others in by_rule.values())
    ]
    own = [
        f"{rule}: {words.replace(f' ({rule})', '')}"
        for rule, found in by_rule.items()
        for words in dict.fromkeys(found)
        if words not in common
    ]
    return [*common, *own]


def winner(who: str) -> str:
    return "equal" if who == TIE else name(who)


def name(label: str) -> str:
    """`S2A`, or with its rule of selection `S2A per_component`."""
    primitive, *rule = label.split(" ")
    return " ".join([primitive.upper() if primitive in ("s2s", "s2a") else primitive, *rule])


def span(stretch: Stretch) -> str:
    first, last = f"{stretch.first:.4g}", f"{stretch.last:.4g}"
    return first if first == last else f"{first} to {last}"
