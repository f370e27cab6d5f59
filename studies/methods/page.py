"""Write docs/methods/ from the numbers in studies/methods/data: `make docs`."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skerry.analysis.compare import Comparison, compare_seeds
from skerry.analysis.statistics import estimate
from skerry.config.presets import PRESETS
from skerry.report.style import label_styles, paper

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
DATA = Path(__file__).parent / "data"
TITLES = {"mnist": "MNIST, linear model", "cifar10": "CIFAR-10, the paper's network"}
MEASURES = {
    "device_accuracy": "devices, all data",
    "average_accuracy": "average model",
    "own_accuracy": "devices, own labels",
}
PLAIN = ("s2s", "s2a")
DRAWN = ("s2s", "s2a", "gradient_tracking", "carry", "sd_gt", "scaffold")
Row = dict[str, Any]
Cell = dict[str, Any]


def number(values: list[float]) -> str:
    found = estimate(values)
    spread = f" ± {found.half_width:.2f}" if len(values) > 1 else ""
    return f"{found.mean:.2f}{spread}"


def table(cell: Cell) -> Iterator[str]:
    """Markdown table with a row per method: accuracies, messages, bytes, best stepsize."""
    yield (
        "| method | "
        + " | ".join(MEASURES.values())
        + " | up | down | over links | MB | stepsize |"
    )
    yield "| --- |" + " ---: |" * (len(MEASURES) + 5)
    for row in sorted(cell["rows"], key=lambda row: [*PLAIN, *PRESETS].index(row["method"])):
        if not row["seeds"]:
            yield f"| {row['method']} | diverged |" + " |" * (len(MEASURES) + 4)
            continue
        sent = [row[f"{link}_messages"][0] for link in ("uplink", "downlink", "d2d")]
        megabytes = sum(row[f"{link}_bytes"][0] for link in ("uplink", "downlink", "d2d")) / 1e6
        accuracies = [number(row[name]) for name in MEASURES]
        told = [*accuracies, *(f"{one:,}" for one in sent), f"{megabytes:,.0f}"]
        yield f"| {row['method']} | " + " | ".join(told) + f" | {row['training.stepsize']:g} |"


def against(cell: Cell, measure: str) -> dict[str, Comparison]:
    """Compare each method with the better of S2S and S2A, paired by seed."""
    rows = {row["method"]: row for row in cell["rows"] if row["seeds"]}
    plain = max(
        (rows[name] for name in PLAIN if name in rows), key=lambda r: estimate(r[measure]).mean
    )
    return {
        name: compare_seeds(dict(enumerate(row[measure])), dict(enumerate(plain[measure])))
        for name, row in rows.items()
        if name not in PLAIN and row["seeds"] == plain["seeds"]
    }


def gains(cells: list[Cell]) -> Iterator[str]:
    """Markdown table of each method's gain over the better of S2S and S2A, by cell."""
    names = [name for name in PRESETS if any(r["method"] == name for c in cells for r in c["rows"])]
    yield "| data | server | H | " + " | ".join(names) + " |"
    yield "| --- | --- | ---: |" + " ---: |" * len(names)
    for cell in cells:
        found = against(cell, "device_accuracy")
        told = [_gain(found[name]) if name in found else "" for name in names]
        yield (
            f"| {cell['regime']} | {cell['server']} | {cell['period']} | " + " | ".join(told) + " |"
        )


def _gain(found: Comparison) -> str:
    """The mean difference, bold where its interval excludes zero."""
    told = f"{found.difference.mean:+.2f}"
    return f"**{told}**" if abs(found.difference.mean) > found.difference.half_width else told


def gain_sentences(cells: list[Cell]) -> Iterator[str]:
    """A sentence per method: in how many cells it is ahead, and by how much."""
    counts: dict[str, list[float]] = {}
    for cell in cells:
        for name, found in against(cell, "device_accuracy").items():
            counts.setdefault(name, []).append(found.difference.mean)
    for name, differences in sorted(counts.items(), key=lambda one: -sum(one[1]) / len(one[1])):
        ahead = sum(d > 0 for d in differences)
        mean = sum(differences) / len(differences)
        yield (
            f"- `{name}`: ahead of the better of S2S and S2A in {ahead} of {len(differences)} "
            f"cells, by {mean:+.2f} points on average ({min(differences):+.2f} to "
            f"{max(differences):+.2f})."
        )


def tuning_note(about: dict[str, Any]) -> str:
    tried = ", ".join(f"{eta:g}" for eta in about["stepsizes"])
    by = "all seeds" if about.get("tuned_on") != 1 else "the first seed"
    return f"Stepsizes tried: {tried}; the best was chosen by {by}."


def page(data: Path) -> str:
    studies = {
        name: json.loads(path.read_text())
        for name in TITLES
        if (path := data / f"{name}.json").exists()
    }
    parts = [
        "# Methods side by side",
        "",
        "<!-- Written by `python studies/methods/page.py` from studies/methods/data. -->",
        "",
        "This page compares methods that keep more state than a model ([Methods](../methods.md))",
        "with S2S and S2A: 100 devices on two rings, with the same data, minibatches and samples.",
        "Each method is at its best stepsize by the accuracy of the devices on all data. Values",
        "are means over the last 20 rounds and over seeds, ± half of the 95 % interval.",
        "Differences are paired by seed. They are **bold** where their 95 % interval excludes",
        "zero, and empty where a seed diverged. mtgc samples all devices and has complete islands,",
        "and sd_gt samples the same number from every island; the other methods sample as the",
        "column `server` says.",
    ]
    for name, found in studies.items():
        cells, about = found["cells"], found["about"]
        parts += ["", f"## {TITLES[name]}", "", "### Gains over S2S and S2A", ""]
        parts += [
            "Gains in the accuracy of the devices on all data, in points.",
            "",
            *gain_sentences(cells),
            "",
        ]
        parts += [*gains(cells), "", f"![Accuracy over rounds and messages]({name}.png)", ""]
        parts += [
            "Peaks are rounds in which the server has just sent its average to all devices.",
            "",
        ]
        parts += ["### All numbers", ""]
        parts += ["Messages and megabytes are totals of a whole run."]
        for cell in cells:
            parts += ["", f"#### {cell['regime']}, {cell['server']}, H = {cell['period']}", ""]
            parts += table(cell)
        parts += ["", f"{about['runs']:,} runs of {about['rounds']} rounds took"]
        parts += [f"{about['seconds']:.0f} s: `{about['command']}`. {tuning_note(about)}"]
    return "\n".join(parts) + "\n"


def draw(data: Path, folder: Path, name: str) -> None:
    """Draw device accuracy over rounds and over bytes sent, where islands differ."""
    import matplotlib.pyplot as plt

    cells = json.loads((data / f"{name}.json").read_text())["cells"]
    cells = [cell for cell in cells if cell["regime"] == "islands differ"]
    with paper():
        look = label_styles(DRAWN)
        figure, axes = plt.subplots(
            2, len(cells), figsize=(6.9, 4.2), sharey=True, layout="constrained", squeeze=False
        )
        for (upper, lower), cell in zip(axes.T, cells, strict=True):
            upper.set_title(f"{cell['server']},\nH = {cell['period']}")
            for row in cell["rows"]:
                if row["method"] not in DRAWN or not row["seeds"]:
                    continue
                style = look[row["method"]]
                rounds, values = row["curve"]["round"], row["curve"]["device_accuracy"]
                upper.plot(rounds, values, color=style.colour, label=row["method"], linewidth=0.9)
                sent = sum(row[f"{link}_bytes"][0] for link in ("uplink", "downlink", "d2d"))
                sent_by = [sent / 1e6 * t / rounds[-1] for t in rounds]
                lower.plot(sent_by[1:], values[1:], color=style.colour, linewidth=0.9)
            upper.set_xlabel("rounds")
            lower.set_xlabel("MB sent, all links")
            lower.set_xscale("log")
        for axis in axes[:, 0]:
            axis.set_ylabel("devices, all data (%)")
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(folder / f"{name}.png", dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the study's JSON files")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the page is written")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / "README.md").write_text(page(asked.data), encoding="utf-8")
    for study in TITLES:
        if (asked.data / f"{study}.json").exists():
            draw(asked.data, asked.folder, study)
