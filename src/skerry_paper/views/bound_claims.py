"""View of figures 1 and 6: the bounds along K, H and p, and the text's claims about them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skerry.errors import skerry_command
from skerry.report.figures.predictions import MEASURES, regimes_figure
from skerry.report.screens.theory import format_span, winner_name
from skerry.report.text import Sheet
from skerry.theory.regimes import AXES, HETEROGENEITY, Axis, Measure, Regime, regime_table
from skerry_paper.plan import DEVICES
from skerry_paper.study import Studies
from skerry_paper.targets import Target
from skerry_paper.views.view import NamedFigure, View

LOW, INTRA, INTER, BOTH = HETEROGENEITY
SYMBOLS: dict[Axis, str] = {"sampled": "K", "period": "H", "p": "p"}
EPSILON = 1e-5
MEASURED: dict[str, Measure] = {"fig1": "rounds", "fig6": "messages"}


@dataclass(frozen=True)
class Claim:
    """A claim of the text about one panel: who leads from `first` to `last`."""

    zetas: tuple[float, float]
    axis: Axis
    words: str
    leader: Literal["s2s", "s2a"]
    first: float = 0.0
    last: float = 100.0
    throughout: bool = False
    """Whether the claim is about the whole interval, or about most of it."""


def _most(zetas: tuple[float, float], leader: Literal["s2s", "s2a"], *axes: Axis) -> list[Claim]:
    name = leader.upper()
    return [Claim(zetas, axis, f"{name} for most {SYMBOLS[axis]}", leader) for axis in axes]


CLAIMS: dict[Measure, list[Claim]] = {
    "rounds": [
        *_most(LOW, "s2a", "sampled", "period", "p"),
        Claim(INTRA, "sampled", "S2S for K/n < 0.2", "s2s", 2, 19, True),
        Claim(INTRA, "sampled", "S2A otherwise", "s2a", 20, 99, True),
        Claim(INTRA, "period", "S2S for H < 5", "s2s", 1, 4, True),
        Claim(INTRA, "period", "S2A otherwise", "s2a", 5, 50, True),
        Claim(INTRA, "p", "S2S for most p (p < 1)", "s2s", 0.01, 0.99),
        *_most(INTER, "s2s", *AXES),
        *_most(BOTH, "s2s", *AXES),
    ],
    "messages": [
        Claim(LOW, "sampled", "S2A for K/n ≥ 0.1", "s2a", 10, 99, True),
        *_most(LOW, "s2a", "period"),
        Claim(LOW, "p", "S2A for p ≥ 0.3", "s2a", 0.3, 1, True),
        *_most(INTRA, "s2s", "sampled", "p"),
        Claim(INTRA, "period", "S2S for H ≤ 10", "s2s", 1, 10, True),
        Claim(INTRA, "period", "S2A otherwise", "s2a", 11, 50, True),
        *_most(INTER, "s2s", *AXES),
        *_most(BOTH, "s2s", *AXES),
    ],
}


def bounds_view(target: Target, studies: Studies) -> View:
    """The panels, and a row for every claim of the text."""
    measure = MEASURED[target.name]
    panels = {(r.zeta_intra, r.zeta_inter, r.axis): r
              for r in regime_table(EPSILON) if r.measure == measure}  # fmt: skip
    claims = CLAIMS[measure]
    held = [holds(claim, panels[*claim.zetas, claim.axis]) for claim in claims]
    rows = [_row(claim, panels[*claim.zetas, claim.axis]) for claim in claims]
    figure = regimes_figure(list(panels.values()), f"ε = {EPSILON:g}")
    sheet = Sheet(
        "Claims of the text about the panels, and the bounds",
        ("ζ intra, inter", "the text", "the bounds, all constants one", "fraction", ""),
        tuple(rows),
        "lllrl",
    )
    about = f"{MEASURES[measure].capitalize()} of S2S and S2A along K, H and p by the bounds"
    verdict = f"{sum(held)} of {len(held)} statements of the text hold for the bounds as stated."
    picture = NamedFigure(target.name, figure, about)
    return View(target, verdict, (picture, sheet, *_notes(measure, held)))


def leading_fraction(claim: Claim, regime: Regime) -> float:
    """Fraction of the claimed interval on which the leader needs strictly less. K = n (always a
    tie) and K = 1 (S2S never converges) are left out."""
    inside = (regime.values >= claim.first - 1e-9) & (regime.values <= claim.last + 1e-9)
    if regime.axis == "sampled":
        inside &= (regime.values > 1) & (regime.values < DEVICES)
    ours = regime.costs[claim.leader][inside]
    (other,) = (costs[inside] for name, costs in regime.costs.items() if name != claim.leader)
    return float(np.mean(ours < other * (1 - 1e-12)))


def holds(claim: Claim, regime: Regime) -> bool:
    """Whether a claim of the text holds for the bounds."""
    part = leading_fraction(claim, regime)
    return part == 1 if claim.throughout else part > 0.5


def _row(claim: Claim, regime: Regime) -> tuple[str, ...]:
    says = ", ".join(
        f"{winner_name(one.winner)} for {SYMBOLS[regime.axis]} {format_span(one)}"
        for one in regime.stretches
    )
    verdict = "holds" if holds(claim, regime) else "does not hold"
    zetas = f"{claim.zetas[0]:g}, {claim.zetas[1]:g}"
    return (
        zetas,
        claim.words,
        says,
        f"{leading_fraction(claim, regime):.0%}".replace("%", " %"),
        verdict,
    )


def _notes(measure: Measure, held: list[bool]) -> tuple[str, ...]:
    note = (
        "Fraction: the part of the interval, on the grid of the figure, where the primitive that "
        "the text names needs less. K = 1, where S2S never converges, and K = n, where both are "
        "the same, are left out. At p = 1 the theory has no intra heterogeneity; the figure and "
        "the text vary p and ζ intra independently."
    )
    if measure == "rounds" or all(held):
        return (note,)
    other = (
        "The text fits ε = 1e-4, or downlinks at a quarter of the price, better than the caption's "
        f"ε = 1e-5: `{skerry_command('theory', 'regimes', downlink=0.25)}`."
    )
    return note, other
