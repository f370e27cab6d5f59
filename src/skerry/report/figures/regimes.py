"""Who needs the fewest rounds or messages by the bounds: Figures 1 and 6 of the paper, with the
crossing points marked."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from skerry.report.style import GREY, INK, PRIMITIVES
from skerry.theory.crossings import TIE
from skerry.theory.regimes import AXES, HETEROGENEITY, Regime

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "sampled": "sampled devices K of 100",
    "period": "period H",
    "p": "mixing parameter p",
}
MEASURES = {"rounds": "rounds", "messages": "messages to and from the server"}


def panel(regime: Regime, axis: "Axes") -> "Axes":
    """What S2S and S2A need along one axis; dotted lines mark where the winner changes."""
    for primitive, costs in regime.costs.items():
        finite = np.isfinite(costs)
        axis.plot(
            regime.values[finite],
            costs[finite],
            color=PRIMITIVES[primitive],
            label=primitive.upper(),
            linewidth=1.4,
        )
    axis.set_yscale("log")
    axis.margins(x=0.02, y=0.12)
    axis.grid(alpha=0.25)
    mark_crossings(regime, axis)
    return axis


def mark_crossings(regime: Regime, axis: "Axes") -> None:
    """A line and a dot where two winners meet, and the value. Everybody sampled is always a tie
    and one device never enough for S2S: these ends say nothing and stay unmarked."""
    for left, right in pairwise(regime.stretches):
        one_sampled = regime.axis == "sampled" and left.last == 1
        if one_sampled or TIE in (left.winner, right.winner):
            continue
        at = (left.last + right.first) / 2
        height = np.exp(np.interp(at, regime.values, np.log(regime.costs[left.winner])))
        axis.axvline(at, color=GREY, linewidth=0.9, linestyle=":")
        axis.plot([at], [height], "o", color=INK, markersize=3.5)
        text = f"{at:.3f}" if regime.axis == "p" else f"{left.last:g}|{right.first:g}"
        right_half = at > axis.get_xlim()[1] / 2
        axis.annotate(
            text,
            (at, 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(-3 if right_half else 3, 0),
            textcoords="offset points",
            ha="right" if right_half else "left",
            va="top",
            fontsize=7,
            color=INK,
        )


def figure_of(regimes: Sequence[Regime], setting: str) -> "Figure":
    """Rows: heterogeneity; columns: the axes K, H and p. `setting` tells what else was chosen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 9.6), layout="constrained")
    axes = figure.subplots(len(HETEROGENEITY), len(AXES), sharex="col", squeeze=False)
    found = {(r.zeta_intra, r.zeta_inter, r.axis): r for r in regimes}
    for row, zetas in zip(axes, HETEROGENEITY, strict=True):
        for axis, name in zip(row, AXES, strict=True):
            panel(found[*zetas, name], axis)
        row[0].set_ylabel(f"ζ intra {zetas[0]:g}, ζ inter {zetas[1]:g}", fontsize=9)
    for axis, name in zip(axes[-1], AXES, strict=True):
        axis.set_xlabel(TITLES[name], fontsize=9)
    for axis in axes.flat:
        axis.tick_params(which="both", labelsize=8)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(
        f"{MEASURES[regimes[0].measure].capitalize()} until the mean squared gradient norm is at "
        f"most ε, all constants one; {setting}\nn = 100, L = f0 = 1, σ = 0; off their axis K = 20, "
        "H = 5, p = 1; dotted: where the lead changes",
        fontsize=10,
    )
    return figure
