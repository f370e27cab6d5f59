"""Figures of the theory: ratios of one server round, and which primitive needs fewer rounds."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.config.experiment import Experiment
from skerry.config.labels import dial_position
from skerry.errors import SkerryError, unknown
from skerry.report.figures.panels import ASIDE, SHARE, name_axes
from skerry.report.figures.series import band_over_seeds, finite_rows, label_styles_in, labelled
from skerry.report.style import GREY, INK, PRIMITIVES, safe_text
from skerry.theory.crossings import TIE
from skerry.theory.operators import Numbers, delta, kappa
from skerry.theory.ratios import expected_ratios, samples_as_in_the_paper
from skerry.theory.regimes import AXES, HETEROGENEITY, Regime

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEORY: dict[str, Callable[[int, "np.typing.NDArray[np.int64]", float], Numbers]] = {
    "disagreement_ratio": lambda n, K, beta: (1 - beta) ** 2 * delta(n, K),
    "bias_ratio": lambda n, K, beta: beta**2 * kappa(n, K),
}

UNIFORM, EXPECTED = "samples_as_in_the_paper", "expected_"


def server_ratios(
    frame: "pd.DataFrame", axis: "Axes", measure: str = "disagreement_ratio"
) -> "Axes":
    """Draw the share of disagreement that a server round leaves, or turns into bias, against K/n.
    Points are means over all server rounds with 95 % intervals over seeds. Lines are the exact
    expectations under uniform sampling, (1-β)² (n-K)/(n-1) and β² (n-K)/(K(n-1)).

    `frame` is that of `skerry.load`, for runs with the server optimizer fedavg. `with_expected`
    adds the expectations under other selection rules.
    """
    if measure not in THEORY:
        raise SkerryError(unknown("measure of the theory", measure, THEORY))
    rows = finite_rows(labelled(frame), measure)
    if rows["devices"].nunique() > 1:
        raise SkerryError(
            "the curve of the theory is for one number of devices (got "
            f"{', '.join(map(str, sorted(set(rows['devices']))))}). Draw one of them at a time."
        )
    n = int(rows["devices"].iloc[0])
    K, top = np.arange(1, n + 1), 1e-3
    for name, look in label_styles_in(rows["label"]).items():
        ours = rows[rows["label"] == name]
        found = band_over_seeds(ours, measure, "sampled")
        half = np.nan_to_num(found.half)
        top = max(top, float((found.mean + half).max()))
        axis.errorbar(
            found.at / n, found.mean, half if half.any() else None, color=look.colour,
            marker=look.marker, linestyle="none", elinewidth=0.7, capsize=1.5, zorder=3,
            label=safe_text(name),
        )  # fmt: skip
        # 0 for S2S, 1 for S2A; None for a user's own primitive
        beta = dial_position(ours["primitive"].iloc[0], float(ours["beta"].iloc[0]))
        if UNIFORM not in ours or ours[UNIFORM].all():
            if beta is not None:
                axis.plot(K / n, THEORY[measure](n, K, beta), color=look.colour, linewidth=0.9)
        elif not ours[UNIFORM].any() and ours[EXPECTED + measure].notna().any():
            theory = band_over_seeds(ours, EXPECTED + measure, "sampled")
            axis.plot(
                theory.at / n, theory.mean, color=look.colour, linewidth=0.9,
                marker="_", markersize=9,
            )  # fmt: skip
    axis.plot([], [], color=GREY, linewidth=0.9, label="theory", gid=ASIDE)
    axis.set_ylim(-0.04 * top, 1.08 * top)
    return name_axes(axis, SHARE, measure)


def with_expected(frame: "pd.DataFrame", experiments: Mapping[str, Experiment]) -> "pd.DataFrame":
    """The frame with columns for the expected ratios of every server round. Under selection rules
    other than uniform, they depend on the share of disagreement inside islands, which was measured
    before the server round. `experiments` are by run key."""
    parts = ("disagreement_intra_before", "disagreement_inter_before")
    before = [frame[part].to_numpy() for part in parts if part in frame]
    uniform = {key: samples_as_in_the_paper(one) for key, one in experiments.items()}
    columns = {measure: np.full(len(frame), np.nan) for measure in THEORY}
    for run, rows in frame.groupby("key").indices.items():
        key = str(run)
        if uniform.get(key, True):
            continue
        for measure, shares in expected_ratios(experiments[key])._asdict().items():
            if shares is not None and shares.is_constant:
                columns[measure][rows] = shares.intra
            elif shares is not None and len(before) == len(parts):
                columns[measure][rows] = shares.ratio(*(part[rows] for part in before))
    found = {EXPECTED + measure: column for measure, column in columns.items()}
    return frame.assign(**found, **{UNIFORM: frame["key"].map(uniform)})


TITLES = {"sampled": "sampled devices K of 100", "period": "period H", "p": "mixing parameter p"}
MEASURES = {"rounds": "rounds", "messages": "messages to and from the server"}


def panel(regime: Regime, axis: "Axes") -> "Axes":
    """Draw the rounds or messages that S2S and S2A need along one axis; dotted lines mark where the
    winner changes. The ends are not marked: with all devices sampled there is always a tie, and
    with one device S2S never converges."""
    for primitive, costs in regime.costs.items():
        finite = np.isfinite(costs)
        style: dict[str, Any] = {"color": PRIMITIVES[primitive], "linewidth": 1.4}
        axis.plot(regime.values[finite], costs[finite], label=primitive.upper(), **style)
    axis.set_yscale("log")
    axis.margins(x=0.02, y=0.12)
    axis.grid(alpha=0.25)
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
            text, (at, 0.97), xycoords=("data", "axes fraction"), fontsize=7, color=INK,
            xytext=(-3 if right_half else 3, 0), textcoords="offset points",
            ha="right" if right_half else "left", va="top",
        )  # fmt: skip
    return axis


def regimes_figure(regimes: Sequence[Regime], setting: str) -> "Figure":
    """Figures 1 and 6 of the paper, by heterogeneity (rows) and axis K, H or p (columns)."""
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
        f"most ε, all constants set to one; {setting}\nn = 100, L = f0 = 1, σ = 0; where not "
        "varied, K = 20, H = 5, p = 1; dotted lines: the winner changes",
        fontsize=10,
    )
    return figure
