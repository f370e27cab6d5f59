"""Write docs/selection/ from the numbers in studies/selection/data: `make docs`."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from skerry.analysis.statistics import Estimate, estimate
from skerry.report.style import label_styles, paper
from skerry.theory.counts import law_of_counts
from skerry.theory.participation import exchange_from_law

FOLDER = Path(__file__).parents[2] / "docs" / "selection"
DATA = Path(__file__).parent / "data"
PICTURE = "accuracy-and-uplink.png"
SLEEP_PICTURE = "asleep.png"
PRIMITIVES = ("s2s", "blend(0.5)", "s2a")
ROUNDS = 100
Row = dict[str, Any]


def study(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return table


def number(values: Iterable[float], digits: int = 2) -> str:
    found = estimate(values)
    return f"{found.mean:.{digits}f} ± {found.half_width:.{digits}f}"


def chosen(rows: Iterable[Row], **fields: Any) -> list[Row]:
    wanted = {name.replace("__", "."): value for name, value in fields.items()}
    return [r for r in rows if all(r.get(name, value) == value for name, value in wanted.items())]


def value(rows: Iterable[Row], measure: str, **fields: Any) -> Estimate:
    (row,) = chosen(rows, **fields)
    return estimate(row[measure])


def table(rows: list[Row], **fields: Any) -> Iterator[str]:
    """Markdown table with a row per rule and K and a column per primitive."""
    here = chosen(rows, **fields)
    servers = dict.fromkeys((r["server.sampled"], r["server.selection"]) for r in here)
    yield "| K | rule | uplink messages | " + " | ".join(PRIMITIVES) + " |"
    yield "| ---: | --- | ---: |" + " ---: |" * len(PRIMITIVES)
    for K, rule in sorted(servers, key=lambda one: (one[0], one[1] != "uniform")):
        ours = chosen(here, server__sampled=K, server__selection=rule)
        cells = [number(chosen(ours, primitive=p)[0]["average_accuracy"]) for p in PRIMITIVES]
        sent = round(estimate(ours[0]["uplink_messages"]).mean)
        yield f"| {K} | {rule} | {sent:,} | " + " | ".join(cells) + " |"


def theory() -> Iterator[str]:
    """Markdown table of the exact bias ratios of S2A for two islands of 50 devices."""
    yield "| K | rule | disagreement within islands | disagreement between islands |"
    yield "| ---: | --- | ---: | ---: |"
    for K, rule in (
        (2, "uniform"),
        (2, "one_each"),
        (10, "uniform"),
        (10, "per_component"),
        (20, "uniform"),
        (20, "per_component"),
    ):
        found = exchange_from_law((50, 50), law_of_counts(rule, (50, 50), K))
        yield f"| {K} | {rule} | {found.kappa_intra:.4f} | {found.kappa_inter:.4f} |"


def lead(rows: list[Row], K: int, many: int, H: int) -> str:
    """`89.85 with 2, one of each island; 89.81 with 20 at random; 87.48 with 2 at random`."""
    same = {"network__topology": "ring", "data__inter": "non_iid", "server__period": H}

    def mean(rule: str, sampled: int) -> str:
        found = value(
            rows,
            "average_accuracy",
            primitive="s2a",
            server__selection=rule,
            server__sampled=sampled,
            **same,
        )
        return f"{found.mean:.2f}"

    return (
        f"{mean('one_each', K)} with {K}, one of each island; {mean('uniform', many)} with {many} "
        f"at random; {mean('uniform', K)} with {K} at random"
    )


def asleep(found: dict[str, list[Row]]) -> Iterator[str]:
    yield "| who sleeps | " + " | ".join(f"{p}: average, devices" for p in PRIMITIVES) + " |"
    yield "| --- |" + " ---: |" * len(PRIMITIVES)
    for name, rows in found.items():
        by_label = {row["primitive"]: row["final"] for row in rows}
        cells = [
            f"{estimate(by_label[p]['average_accuracy']).mean:.2f}, "
            f"{estimate(by_label[p]['device_accuracy']).mean:.2f}"
            for p in PRIMITIVES
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def page() -> str:
    mnist, cifar, sleep = study("mnist"), study("cifar10"), study("sleep")
    two = mnist["studies"]["2 islands"]
    parts = [
        "# Whom to sample",
        "",
        "<!-- Written by `python studies/selection/page.py` from studies/selection/data. -->",
        "",
        "Where the data of islands differ, **two devices, one from each island, are as good under",
        "S2A as twenty random ones**: the same model for a tenth of the uplink messages. The",
        "accuracy of the average model on MNIST with rings is, for H = 5:",
        f"{lead(two, 2, 20, 5)}. For H = 20: {lead(two, 2, 20, 20)}.",
        "",
        "The reason: S2A replaces all models by the average of the sample. A random sample usually",
        "has more devices of one island than of the other, so the differences between islands",
        "become bias. A sample in proportion to the sizes of the islands has none of this bias.",
        "S2S never moves the average, so it gains less. Where the data of islands are alike there",
        "is nothing to gain. The table gives the exact fraction of the disagreement that S2A turns",
        "into bias ([Theory](../theory.md)), for two islands of 50 devices:",
        "",
        *theory(),
        "",
        f"![Accuracy of the average model against messages to the server]({PICTURE})",
        "",
        "All numbers are means over 5 seeds (CIFAR-10: 3) and over the last 20 of 100 rounds, ±",
        "half of the 95 % interval, each primitive and rule at its best of four stepsizes",
        "(CIFAR-10: 0.1). There are 100 devices, with IID data within islands.",
        "",
        "## MNIST, two islands that differ",
    ]
    for topology in ("ring", "complete"):
        for H in (5, 20):
            parts += ["", f"### {topology.capitalize()}, H = {H}", ""]
            parts += table(two, network__topology=topology, data__inter="non_iid", server__period=H)
    parts += ["", "## MNIST, two islands that are alike", ""]
    parts += ["Ring, H = 5. The selection rule makes no difference.", ""]
    parts += table(two, network__topology="ring", data__inter="iid", server__period=5)
    parts += ["", "## Other islands", "", "MNIST, rings, islands that differ, H = 5."]
    for name, rows in mnist["studies"].items():
        if name != "2 islands":
            parts += ["", f"### {name}", "", *table(rows, server__period=5)]
    parts += [
        "",
        "On islands of unequal size S2S gains much from `per_component` and nothing from",
        "`one_each`, whose sample is not in proportion to the sizes.",
        "",
        "## CIFAR-10, two islands that differ",
        "",
        "The paper's network, ring. Here S2S is ahead under every rule. Sampling every island",
        "brings S2A close to S2S: the remaining differences are within the noise of three seeds.",
    ]
    for H in (5, 20):
        rows = table(cifar["studies"]["2 islands"], server__period=H)
        parts += ["", f"### H = {H}", "", *rows]
    parts += [
        "",
        "## With devices asleep",
        "",
        "MNIST, two rings whose data differ, K = 20 sampled uniformly, H = 5; on average one",
        "device in five is asleep. The table shows the accuracy of the average model and of the",
        "devices on all data after round 100.",
        "",
        *asleep(sleep["studies"]),
        "",
        f"![Accuracy, disagreement and bias over the rounds]({SLEEP_PICTURE})",
        "",
        "Sleeping devices cost a few tenths of a point. Whole islands that sleep together cost",
        "most, because the server then receives models from the other island only.",
        "",
        "## The commands",
        "",
        "```text",
        *(
            f"python studies/selection/run.py {name} --device cuda --out runs"
            for name in ("mnist", "cifar10", "sleep")
        ),
        "python studies/selection/page.py",
        "```",
        "",
        f"On one H200 GPU they took {mnist['about']['seconds']:.0f} s (4,800 runs), "
        f"{cifar['about']['seconds']:.0f} s (72) and {sleep['about']['seconds']:.0f} s (60).",
    ]
    return "\n".join(parts) + "\n"


def draw() -> None:
    import matplotlib.pyplot as plt

    rows = chosen(
        study("mnist")["studies"]["2 islands"], network__topology="ring", data__inter="non_iid"
    )
    look = label_styles(PRIMITIVES)
    with paper():
        figure, axes = plt.subplots(1, 2, figsize=(6.9, 2.6), sharey=True, layout="constrained")
        for axis, H in zip(axes, (5, 20), strict=True):
            for primitive in PRIMITIVES:
                for line, rules in (("--", ("uniform",)), ("-", ("one_each", "per_component"))):
                    ours = [
                        r
                        for r in chosen(rows, server__period=H, primitive=primitive)
                        if r["server.selection"] in rules
                    ]
                    ours.sort(key=lambda r: r["server.sampled"])
                    x = [estimate(r["uplink_messages"]).mean for r in ours]
                    y = [estimate(r["average_accuracy"]) for r in ours]
                    axis.errorbar(
                        x, [one.mean for one in y], [one.half_width for one in y], linestyle=line,
                        color=look[primitive].colour, marker=look[primitive].marker, capsize=1.5,
                        label=f"{primitive}, {'at random' if line == '--' else 'every island'}",
                    )  # fmt: skip
            axis.set_xscale("log")
            sent = [K * ROUNDS // H for K in (2, 10, 20)]
            axis.set_xticks(sent, map(str, sent))
            axis.minorticks_off()
            axis.set_title(f"H = {H}")
            axis.set_xlabel("messages to the server in 100 rounds")
            axis.grid(axis="y", alpha=0.25, linewidth=0.5)
        axes[0].set_ylabel("accuracy: average model (%)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(FOLDER / PICTURE, dpi=150)
        plt.close(figure)
        _draw_sleep(plt, look)


def _draw_sleep(plt: Any, look: Any) -> None:
    found = study("sleep")["studies"]
    measures = {
        "average_accuracy": "average model (%)",
        "device_accuracy": "devices, all data (%)",
        "disagreement": "disagreement",
        "bias": "bias",
    }
    figure, axes = plt.subplots(
        len(measures), len(found), figsize=(6.9, 6.4), sharex=True, sharey="row",
        layout="constrained",
    )  # fmt: skip
    for column, (name, rows) in enumerate(found.items()):
        axes[0][column].set_title(name.replace(", ", ",\n").replace("islands at", "islands\nat"))
        for line, (measure, words) in enumerate(measures.items()):
            axis = axes[line][column]
            for row in rows:
                points = [
                    (t, v) for t, v in zip(row["round"], row[measure], strict=True) if v is not None
                ]
                if measure in ("disagreement", "bias"):
                    points = [(t, v) for t, v in points if v > 1e-9]
                    axis.set_yscale("log")
                if points:
                    primitive = row["primitive"]
                    axis.plot(*zip(*points, strict=True), color=look[primitive].colour,
                              linewidth=0.8, label=primitive)  # fmt: skip
            if column == 0:
                axis.set_ylabel(words)
        axes[-1][column].set_xlabel("rounds")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(FOLDER / SLEEP_PICTURE, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page(), encoding="utf-8")
    draw()
