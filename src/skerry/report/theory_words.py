"""The theory's answers in words: the setting, who needs the fewest, and where that changes."""

import math
from collections.abc import Mapping, Sequence

from skerry.theory.crossings import TIE, Stretch
from skerry.theory.operators import Numbers
from skerry.theory.parameters import Parameters
from skerry.theory.rounds_and_messages import Answer

MODES = {
    "order": "all constants one, for comparing",
    "printed": "the paper's explicit constants",
    "repaired": "explicit constants that survive checking",
    "certified": "the full recursion, computed",
}


def number(value: Numbers | tuple[int, ...] | None) -> str:
    """Whole numbers up to seven digits, four digits of anything else."""
    if isinstance(value, tuple):
        return "+".join(map(str, value))
    x = math.nan if value is None else float(value)
    if not math.isfinite(x):
        return "-" if math.isnan(x) else "infinite"
    if x >= 1e7:
        return f"{x:.3e}"
    return f"{x:,.0f}" if x >= 1e3 or x == int(x) else f"{x:.4g}"


def name(primitive: str) -> str:
    return primitive.upper() if primitive in ("s2s", "s2a") else primitive


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
    return ", ".join(words for field, words in symbols.items() if field not in varied)


def compared(measure: str, answers: Sequence[Answer]) -> str:
    """`Fewest rounds: S2A, 40,083,767; S2S needs 2.24 times as many.`"""
    costs = {answer.label: float(getattr(answer, measure)) for answer in answers}
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


def along(measure: str, axis: str, won: Sequence[Stretch]) -> str:
    """`Fewest rounds: S2S for period 1 to 4, S2A for period 5 to 50.`"""
    parts = [f"{winner(stretch.winner)} for {axis} {span(stretch)}" for stretch in won]
    return f"Fewest {measure}: {', '.join(parts)}."


def counted(measure: str, winners: Mapping[str, int]) -> str:
    """Over several axes at once: `Fewest rounds: S2S in 30 settings, S2A in 20.`"""
    parts = [f"{winner(who)} in {count:,}" for who, count in winners.items()]
    return f"Fewest {measure}, of {sum(winners.values()):,} settings: {', '.join(parts)}."


def winner(who: str) -> str:
    return "equal" if who == TIE else name(who)


def span(stretch: Stretch) -> str:
    first, last = f"{stretch.first:.4g}", f"{stretch.last:.4g}"
    return first if first == last else f"{first} to {last}"
