"""Draw the pictures of docs/selection/ from the kept results; page.py calls this."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import kept
import numpy as np
from kept import AVERAGE, NO_SERVER

from skerry.analysis.statistics import estimate
from skerry.report.style import OTHERS, PRIMITIVES, label_styles, paper

if TYPE_CHECKING:
    from page import Results

GREY = PRIMITIVES["none"]
EVERY_ISLAND = ("one_each", "per_component")
COLOURS = {
    "S2S, 20 at random": (PRIMITIVES["s2s"], "--"),
    "S2A, 20 at random": (PRIMITIVES["s2a"], "--"),
    "S2S, 10 of each island": (PRIMITIVES["s2s"], "-"),
    "S2A, 10 of each island": (PRIMITIVES["s2a"], "-"),
    "S2A, 1 of each island": (OTHERS[1], "-"),
    "no server": (GREY, ":"),
}


def draw(results: Results, folder: Path) -> None:
    """All pictures, as PNG files in the folder."""
    import matplotlib.pyplot as plt

    with paper():
        for name, make in (
            ("accuracy-and-uplink", _uplink),
            ("labels", _labels),
            ("long", _long),
            ("asleep", _asleep),
        ):
            figure = make(plt, results)
            figure.savefig(folder / f"{name}.png", dpi=150)
            plt.close(figure)


def _band(axis: Any, values: kept.Values, words: str) -> None:
    """A grey line for the runs without a server, with its 95 % interval."""
    found = estimate(values)
    axis.axhspan(found.low, found.high, color=GREY, alpha=0.15, linewidth=0)
    axis.axhline(found.mean, color=GREY, linestyle=":", linewidth=1, label=words)


def _uplink(plt: Any, results: Results) -> Any:
    """Accuracy against messages, where islands differ and where devices differ too."""
    figure, axes = plt.subplots(
        2, 2, figsize=(6.9, 4.6), sharex="col", sharey="row", layout="constrained"
    )
    styles = label_styles(["s2s", "s2a"])
    for row, regime in enumerate(("islands differ", "both differ")):
        for axis, H in zip(axes[row], (5, 20), strict=True):
            _band(axis, results.no_server(regime), "no server")
            for primitive in ("s2s", "s2a"):
                for line, rules in (("--", ("uniform",)), ("-", EVERY_ISLAND)):
                    ours = [
                        r
                        for r in results.mnist.rows
                        if r["selection"] in rules
                        and (r["fleet"], r["regime"], r["topology"], r["primitive"], r["period"])
                        == ("2 islands", regime, "ring", primitive, H)
                    ]
                    ours.sort(key=lambda r: r["sampled"])
                    found = [
                        estimate(
                            results.mnist.values(
                                regime=regime, primitive=primitive, period=H,
                                sampled=r["sampled"], selection=r["selection"],
                            )
                        )
                        for r in ours
                    ]  # fmt: skip
                    who = "at random" if line == "--" else "every island"
                    axis.errorbar(
                        [r["uplink_messages"] for r in ours],
                        [one.mean for one in found],
                        [one.half_width for one in found],
                        linestyle=line,
                        color=styles[primitive].colour,
                        marker=styles[primitive].marker,
                        capsize=1.5,
                        label=f"{primitive.upper()}, {who}",
                    )
            axis.set_xscale("log")
            sent = sorted({r["uplink_messages"] for r in results.mnist.rows
                           if r["period"] == H and r["sampled"] in (2, 10, 20)
                           and r["fleet"] == "2 islands"})  # fmt: skip
            axis.set_xticks(sent, map(str, sent))
            axis.minorticks_off()
            axis.set_title(f"{regime}, H = {H}")
            axis.grid(axis="y", alpha=0.25, linewidth=0.5)
            if row:
                axis.set_xlabel("messages to the server in 100 rounds (K = 2, 10, 20)")
        axes[row][0].set_ylabel("average model (%)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _labels(plt: Any, results: Results) -> Any:
    """Accuracy of S2A against the share of wrong labels; dashed: uniform sampling."""
    figure, axes = plt.subplots(2, 2, figsize=(6.9, 4.4), sharex=True, layout="constrained")
    shares = (0.0, 0.1, 0.3, 0.5)
    for row, regime in enumerate(("islands differ", "both differ")):
        for axis, H in zip(axes[row], (5, 20), strict=True):
            _band(axis, results.labels.values(regime=regime, **NO_SERVER), "no server")
            for K, colour, marker in ((2, OTHERS[1], "o"), (20, PRIMITIVES["s2a"], "s")):
                found = [estimate(results.believed(regime, H, K, w, "s2a")) for w in shares]
                shift = 0.4 if K == 20 else -0.4  # so that error bars do not cover each other
                axis.errorbar(
                    [100 * w + shift for w in shares],
                    [one.mean for one in found],
                    [one.half_width for one in found],
                    color=colour,
                    marker=marker,
                    capsize=1.5,
                    label=f"S2A, K = {K}, by labels",
                )
                random = estimate(results.uniform(regime, H, K, "s2a"))
                axis.axhline(
                    random.mean,
                    color=colour,
                    linestyle="--",
                    linewidth=0.8,
                    label=f"S2A, K = {K}, at random",
                )
            axis.set_title(f"{regime}, H = {H}")
            axis.set_xticks([100 * w for w in shares])
            axis.grid(axis="y", alpha=0.25, linewidth=0.5)
            if row:
                axis.set_xlabel("devices with a wrong label (%)")
        axes[row][0].set_ylabel("average model (%)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _long(plt: Any, results: Results) -> Any:
    """Accuracy over 1,000 rounds by stretch, and the lead of S2S over S2A."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.9, 3.0), layout="constrained")
    for lane, (colour, line) in COLOURS.items():
        by_stretch = kept.stretches(results.long_row(lane)).mean(axis=0)
        ends = 100 * np.arange(1, len(by_stretch) + 1)
        left.plot(ends - 50, by_stretch, color=colour, linestyle=line, label=lane)
    left.set_ylabel("average model (%)")
    left.set_xlabel("round (means over 100 rounds)")
    left.grid(axis="y", alpha=0.25, linewidth=0.5)
    right.axhline(0, color="black", linewidth=0.6)
    leads = list(results.horizon.items())[:2]
    for ((new, _), found), line, shift in zip(leads, ("--", "-"), (-8, 8), strict=True):
        middle = 100 * np.arange(len(found)) + 50 + shift
        right.errorbar(
            middle,
            [one.difference.mean for one in found],
            [one.difference.half_width for one in found],
            color=PRIMITIVES["s2s"] if line == "-" else PRIMITIVES["s2a"],
            linestyle=line,
            marker="o",
            capsize=1.5,
            label=new.removeprefix("S2S, "),
        )
    right.set_ylabel("S2S − S2A (points)")
    right.set_xlabel("round (means over 100 rounds)")
    right.grid(axis="y", alpha=0.25, linewidth=0.5)
    right.legend()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _asleep(plt: Any, results: Results) -> Any:
    """Curves by availability: accuracies, disagreement and bias."""
    found = results.sleep["studies"]
    measures = {
        AVERAGE: "average model (%)",
        "device_accuracy": "devices, all data (%)",
        "disagreement": "disagreement",
        "bias": "bias",
    }
    figure, axes = plt.subplots(
        len(measures),
        len(found),
        figsize=(6.9, 6.4),
        sharex=True,
        sharey="row",
        layout="constrained",
    )
    styles = label_styles(["s2s", "blend(0.5)", "s2a", "none"])
    for column, (name, rows) in enumerate(found.items()):
        axes[0][column].set_title(name.replace(", ", ",\n").replace("islands at", "islands\nat"))
        for line, (measure, words) in enumerate(measures.items()):
            axis = axes[line][column]
            for row in rows:
                floor = 1e-9 if measure in ("disagreement", "bias") else -1.0
                points = [
                    (t, v)
                    for t, v in zip(row["round"], row.get(measure, ()), strict=False)
                    if v is not None and v > floor
                ]
                if floor > 0:
                    axis.set_yscale("log")
                if points:
                    primitive = row["primitive"]
                    words_of = "no server" if primitive == "none" else primitive
                    axis.plot(
                        *zip(*points, strict=True),
                        color=styles[primitive].colour,
                        linewidth=0.8,
                        label=words_of,
                    )
            if column == 0:
                axis.set_ylabel(words)
        axes[-1][column].set_xlabel("rounds")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
