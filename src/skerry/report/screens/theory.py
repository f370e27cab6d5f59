"""The screens of `skerry theory`: bounds, mixing, regimes and constants."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from skerry.errors import skerry_command
from skerry.report.text import NOTHING, PAGE, console, number, plain_table, plus_minus
from skerry.report.words import describe_network, describe_problem
from skerry.theory.constants import Constants
from skerry.theory.crossings import TIE, Stretch
from skerry.theory.parameters import Parameters
from skerry.theory.point_constants import Measurement, PointConstants
from skerry.theory.regimes import AXES, HETEROGENEITY, Measure, Regime
from skerry.theory.rounds_and_messages import Answer, BoundGrid

if TYPE_CHECKING:
    from rich.table import Table

    from skerry.config.experiment import Experiment
    from skerry.network.contraction import MixingParameters

MODES = {
    "order": "all constants set to one, for comparisons only",
    "printed": "the paper's explicit constants",
    "repaired": "the paper's constants with their errors corrected",
    "certified": "the full recursion, evaluated numerically",
}
TERMS = ("initial", "noise", "intra", "inter", "sampling_intra", "sampling_inter")


def print_bounds(bounds: BoundGrid) -> None:
    """Print the setting, the bounds of each primitive, the winners and the assumptions."""
    first = bounds.answers[0]
    out = console(fold_at=PAGE)
    what = "average of f - f*, convex" if bounds.convex else "average of ||grad f||^2, non-convex"
    out.print(f"[bold]{bounds.mode}[/]: {MODES[bounds.mode]}; {what}")
    differ = [*bounds.varied, *(["selection"] if bounds.several_rules else [])]
    out.print(describe_setting(first[0].parameters, differ))
    out.print(bounds_table(bounds.answers, bounds.varied))
    finite = [answer for answer in first if not answer.reason]
    if finite and not bounds.varied:
        out.print(terms_table(finite))
    for line in describe_winners(bounds):
        out.print(line)
    reasons = (answer.reason for answers in bounds.answers for answer in answers)
    for reason in filter(None, dict.fromkeys(reasons)):
        out.print(f"Infinite: {reason}")
    out.print("\nAssumptions:", style="dim")
    for words in _assumptions(first):
        out.print(f"- {words}", style="dim")


def bounds_table(settings: Sequence[Sequence[Answer]], varied: Sequence[str]) -> "Table":
    """A row per setting and primitive; the fewest rounds of a setting are bold."""
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
            where = ["" if i else number(getattr(answer.parameters, name)) for name in varied]
            rounds = number(answer.rounds)
            bold = answer.rounds == fewest and len(answers) > 1
            rule = answer.parameters.selection if rules else ""
            shown_rule = "" if i and rule == answers[i - 1].parameters.selection else rule
            cells = [*where, *([shown_rule] if rules else []), label_name(answer.label)]
            cells.append(f"[bold]{rounds}[/]" if bold else rounds)
            if answer.N_b1 is not None:
                cells += [number(answer.N_b2), number(answer.N_b1)]
            cells += [] if answer.stepsize is None else [number(answer.stepsize)]
            table.add_row(*cells, number(answer.messages))
    return table


def terms_table(answers: Sequence[Answer]) -> "Table":
    """The share of each term in the rounds (mode order) or in epsilon (other modes)."""
    terms = [term for term in TERMS if any(term in answer.terms for answer in answers)]
    whole = "% of rounds" if answers[0].mode == "order" else "% of epsilon"
    table = plain_table(whole, *(term.replace("_", "\n") for term in terms))
    for label, answer in _by_label(answers).items():
        total = sum(answer.terms.values()) or math.nan  # nothing to divide
        parts = (100 * answer.terms.get(term, math.nan) / total for term in terms)
        texts = (NOTHING if math.isnan(part) else f"{part:.1f}" for part in parts)
        table.add_row(label_name(label), *texts)
    return table


def _several_rules(answers: Sequence[Answer]) -> bool:
    return len({answer.parameters.selection for answer in answers}) > 1


def _by_label(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Answers by primitive, and by selection rule if there are several."""
    several = _several_rules(answers)
    return {
        f"{one.label} {one.parameters.selection}" if several else one.label: one for one in answers
    }


def describe_setting(parameters: Parameters, varied: Sequence[str]) -> str:
    """All parameters that do not vary, as text."""
    x = parameters
    symbols = {
        "devices": f"{x.devices} devices",
        "components": f"islands {number(x.components)}",
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


def describe_winners(bounds: BoundGrid) -> Iterator[str]:
    """Sentences on which primitive needs the fewest rounds and messages, and where this changes."""
    if len(bounds.candidates) < 2:
        return
    for measure in get_args(Measure):
        if not bounds.varied:
            yield _compared(measure, bounds.answers[0])
        elif len(bounds.varied) > 1:
            found = bounds.winners(measure)
            parts = [f"{winner_name(who)} in {count:,}" for who, count in found.items()]
            yield f"Fewest {measure}, of {found.total():,} settings: {', '.join(parts)}."
        else:
            axis, won = bounds.varied[0], bounds.stretches(measure)
            parts = [f"{winner_name(one.winner)} for {axis} {format_span(one)}" for one in won]
            yield f"Fewest {measure}: {', '.join(parts)}."


def _compared(measure: str, answers: Sequence[Answer]) -> str:
    """`Fewest rounds: S2A, 40,083,767; S2S needs 2.24 times as many.`"""
    costs = {label: float(getattr(one, measure)) for label, one in _by_label(answers).items()}
    ranked = sorted(costs, key=lambda label: costs[label])
    best = costs[ranked[0]]
    if math.isinf(best):
        return f"Fewest {measure}: none, because all need infinitely many."
    others = [f"{label_name(label)} needs {_times(costs[label], best)}" for label in ranked[1:]]
    return f"Fewest {measure}: {label_name(ranked[0])}, {best:,.0f}; {'; '.join(others)}."


def _times(cost: float, best: float) -> str:
    if math.isinf(cost):
        return "infinitely many"
    if math.isclose(cost, best, rel_tol=1e-12):
        return "as many"
    return f"{cost / best:.{4 if cost < 1.1 * best else 3}g} times as many"


def _assumptions(answers: Sequence[Answer]) -> list[str]:
    """The assumptions of all answers, each once; last those of one rule, with its name."""
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


def winner_name(who: str) -> str:
    """The winner as text; "equal" for a tie."""
    return "equal" if who == TIE else label_name(who)


def label_name(label: str) -> str:
    """A label as text: `S2A`, or with a selection rule `S2A per_component`."""
    primitive, *rule = label.split(" ")
    return " ".join([primitive.upper() if primitive in ("s2s", "s2a") else primitive, *rule])


def format_span(stretch: Stretch) -> str:
    """The values of a stretch as text: `1 to 4`."""
    first, last = f"{stretch.first:.4g}", f"{stretch.last:.4g}"
    return first if first == last else f"{first} to {last}"


CONSTANTS: tuple[tuple[str, Callable[[PointConstants], Measurement]], ...] = (
    ("loss", lambda at: at.loss),
    ("sigma^2, mean over devices", lambda at: at.sigma2),
    ("sigma^2, largest of a device", lambda at: at.sigma2_max),
    ("zeta_intra^2", lambda at: at.intra.total),
    ("  of it heterogeneity", lambda at: at.intra.pure),
    ("  of it minibatch noise", lambda at: at.intra.noise),
    ("zeta_inter^2", lambda at: at.inter.total),
    ("  of it heterogeneity", lambda at: at.inter.pure),
    ("  of it minibatch noise", lambda at: at.inter.noise),
)


def print_mixing(
    experiment: "Experiment", mixing: "MixingParameters", sizes: Sequence[int]
) -> None:
    """Print the mixing parameter p of each island, and p_min and p_avg."""
    out = console(fold_at=PAGE)
    out.print(f"{describe_network(experiment, sizes)}; {experiment.network.mixing} weights")
    table = plain_table("islands", "devices each", "p")
    alike = Counter(zip(sizes, mixing.per_island, strict=True))
    for (size, p), count in alike.items():
        table.add_row(str(count), str(size), f"{p:.6f}")
    out.print(table)
    p_min = plus_minus(mixing.minimum, mixing.standard_error or None, ".6f")
    out.print(f"p_min {p_min} ({mixing.method}): the value for bounds.")
    out.print(f"p_avg {mixing.average:.6f}: the mean over islands.")
    left = 1 - mixing.minimum
    out.print(f"One D2D round leaves at most {left:.2%} of the disagreement inside islands.")


def print_regimes(regimes: Sequence[Regime], figures: Mapping[str, str], epsilon: float) -> None:
    """Print who needs the fewest along each axis, for each figure and its measure."""
    out = console(fold_at=PAGE)
    out.print(
        f"n = 100, L = f0 = 1, sigma = 0, epsilon = {epsilon:g}, non-convex, all constants set to "
        "one; where not varied, K = 20, H = 5, p = 1."
    )
    for which, measure in figures.items():
        out.print(f"\n[bold]Figure {which}: who needs the fewest {measure}[/]")
        out.print(regimes_table([panel for panel in regimes if panel.measure == measure]))


def regimes_table(regimes: Sequence[Regime]) -> "Table":
    """Primitives that need the fewest along each axis of one figure, a row per heterogeneity."""
    axes = {"sampled": "sampled (K)", "period": "period (H)", "p": "p"}
    table = plain_table("zeta_intra,\nzeta_inter", *axes.values(), left=axes.values())
    cells = {
        (r.zeta_intra, r.zeta_inter, r.axis): "\n".join(
            f"{winner_name(stretch.winner)} {format_span(stretch)}" for stretch in r.stretches
        )
        for r in regimes
    }
    for zetas in HETEROGENEITY:
        table.add_row(f"{zetas[0]:g}, {zetas[1]:g}", *(cells[*zetas, axis] for axis in AXES))
    return table


def print_constants(constants: Constants) -> None:
    """Print the constants at every checkpoint, and the command that computes bounds from them."""
    out = console(fold_at=PAGE)
    experiment = constants.experiment
    out.print(
        f"{describe_network(experiment, constants.sizes)}; {describe_problem(experiment)}; "
        "at the average model, ± one standard error"
    )
    out.print(constants_table(constants))
    mixing, R0 = constants.mixing, constants.R0_squared
    p_min = plus_minus(mixing.minimum, mixing.standard_error or None, ".6f", ".1g")
    distance = "not known for this model" if R0 is None else f"{R0:.4g}"
    out.print(f"p_min {p_min} ({mixing.method}); f0 {_measured(constants.f0)}; R0^2 {distance}")
    out.print(
        "The theory uses the largest value over all models x; the largest over these checkpoints "
        "underestimates it."
    )
    for remark in constants.remarks:
        out.print(f"Note: {remark}.")
    if constants.why_no_bounds:
        out.print(f"No bounds: {constants.why_no_bounds}", soft_wrap=True)
    else:
        out.print(f"Bounds: {bounds_command(constants)}", soft_wrap=True)


def constants_table(constants: Constants) -> "Table":
    """One row per constant, one column per checkpoint."""
    rounds = (f"round {at.round}" for at in constants.points)
    table = plain_table("", *rounds)
    for title, of in CONSTANTS:
        table.add_row(title, *(_measured(of(at)) for at in constants.points))
    values = (f"{at.smoothness.value:.4g}" for at in constants.points)
    table.add_row(f"L ({constants.smoothness.method})", *values)
    return table


_ROUNDED = ("p", "zeta_intra", "zeta_inter", "sigma2", "smoothness", "initial_error")


def bounds_command(constants: Constants) -> str:
    """The command `skerry theory bounds` with these constants."""
    x = constants.parameters(epsilon=0.1)
    equal = len(set(x.sizes)) == 1
    rounded: dict[str, Any] = {name: f"{getattr(x, name):.4g}" for name in _ROUNDED}
    return skerry_command(
        *("theory", "bounds"),
        mode="certified",
        devices=x.devices,
        components=len(x.sizes) if equal else "+".join(map(str, x.sizes)),
        sampled=x.sampled,
        period=x.period,
        **rounded,
        epsilon=x.epsilon,
        selection=None if x.selection == "uniform" else x.selection,
        weights=None if x.weights == "equal" else x.weights,
    )


def _measured(value: Measurement) -> str:
    return plus_minus(value.value, value.error or None, ".4g", ".1g")
