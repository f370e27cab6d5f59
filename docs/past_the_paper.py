"""Write docs/past-the-paper.md from kept studies alone: `make docs`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from skerry.analysis.statistics import estimate
from skerry.report.style import OTHERS, PRIMITIVES, WIDTHS, paper
from skerry_paper.dial import best_betas, dial
from skerry_paper.guidelines import (
    GUIDELINE,
    contested,
    favoured_by_bounds,
    guideline,
    judge,
)
from skerry_paper.guidelines import RULES as RULES_OF_PAPER
from skerry_paper.protocol import as_shown
from skerry_paper.study import ISLANDS, Study

DOCS = Path(__file__).parent
PAGE, PICTURE = DOCS / "past-the-paper.md", "pictures/past-the-paper.png"
RESULTS = DOCS.parent / "benchmarks" / "results"
Row = Mapping[str, Any]


def kept(*parts: str) -> Any:
    return json.loads(DOCS.joinpath(*parts).read_text(encoding="utf-8"))


def points(values: Sequence[float]) -> str:
    """`+7.03 ± 0.91`: the mean, and half of its 95 % interval."""
    found = estimate(values)
    return f"{found.mean:+.2f} ± {found.half_width:.2f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * left + ['---:'] * (len(header) - left))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


# Whom to sample


def chosen(rows: Sequence[Row], **fields: Any) -> Row:
    wanted = {name.replace("__", "."): value for name, value in fields.items()}
    (row,) = (r for r in rows if all(r.get(name, value) == value for name, value in wanted.items()))
    return row


def lead(rows: Sequence[Row], measure: str, **fields: Any) -> list[float]:
    """S2S minus S2A, seed by seed."""
    s2s, s2a = (chosen(rows, primitive=name, **fields)[measure] for name in ("s2s", "s2a"))
    return [a - b for a, b in zip(s2s, s2a, strict=True)]


def sampling() -> Iterator[str]:
    rows = kept("selection", "data", "cifar10.json")["studies"]["2 islands"]
    told = []
    for K, rule in ((2, "one_each"), (20, "per_component")):
        for H in (5, 20):
            server = {"server__sampled": K, "server__period": H}
            leads = [
                points(lead(rows, "average_accuracy", server__selection=name, **server))
                for name in ("uniform", rule)
            ]
            told.append((str(K), str(H), *leads))
    yield from table(("K", "H", "at random", "each island in its share"), told, left=2)


def sampling_shrinks() -> str:
    """By how much, seed by seed, the mean over the rows of the table."""
    rows = kept("selection", "data", "cifar10.json")["studies"]["2 islands"]
    changes = []
    for K, rule in ((2, "one_each"), (20, "per_component")):
        for H in (5, 20):
            server = {"server__sampled": K, "server__period": H}
            random, shared = (
                lead(rows, "average_accuracy", server__selection=name, **server)
                for name in ("uniform", rule)
            )
            changes.append([a - b for a, b in zip(random, shared, strict=True)])
    found = estimate(fmean(seed) for seed in zip(*changes, strict=True))
    return f"{found.mean:.1f} ± {found.half_width:.1f} points"


# Other fleets


def fleet_leads() -> dict[str, dict[str, list[float]]]:
    """By fleet and measure: S2S minus S2A in each setting, islands that differ, at random."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, rows in kept("selection", "data", "mnist.json")["studies"].items():
        here = [r for r in rows if r.get("data.inter", "non_iid") == "non_iid"]
        here = [r for r in here if r.get("network.topology", "ring") == "ring"]
        servers = {
            (r["server.sampled"], r["server.period"])
            for r in here
            if r["server.selection"] == "uniform" and r["server.sampled"] >= 10
        }
        found[name] = {
            measure: [
                fmean(
                    lead(
                        here,
                        measure,
                        server__sampled=K,
                        server__period=H,
                        server__selection="uniform",
                    )
                )
                for K, H in sorted(servers)
            ]
            for measure in SCORED
        }
    return found


SCORED = {"average_accuracy": "average model", "own_accuracy": "devices, own labels"}


def ahead(leads: Sequence[float]) -> str:
    return f"{sum(one > 0 for one in leads)} of {len(leads)}"


def fleets() -> Iterator[str]:
    told = [
        (name, *(f"{ahead(leads)} ({fmean(leads):+.2f})" for leads in by_measure.values()))
        for name, by_measure in fleet_leads().items()
    ]
    yield from table(("islands", *SCORED.values()), told)


def fleets_in_words() -> str:
    found = fleet_leads().values()
    average, own = ([one for each in found for one in each[measure]] for measure in SCORED)
    return (
        f"It is right for devices on their own labels in {ahead(own)}, for the average model in "
        f"{ahead(average)}."
    )


def unlike_the_papers() -> str:
    """The guideline on eight fleets, at the best stepsize of each cell and primitive."""
    study = Study.load(DOCS / "reproduction" / "data" / "fleets.json")
    told = []
    for scoring, words in (
        ("own_accuracy", "devices on own labels"),
        ("average_accuracy", "the average model"),
    ):
        cells = contested([study], as_shown(scoring, "last 20"))
        one = judge(cells, RULES_OF_PAPER[GUIDELINE])
        other = judge(cells, RULES_OF_PAPER["always S2A"])
        told.append(
            f"right for {words} in {one.right} of {one.decided} decided cells, at a cost of "
            f"{one.cost:.2f} points (always S2A: {other.cost:.2f})"
        )
    return "; ".join(told)


# Blend


def blends() -> str:
    study = Study.load(DOCS / "reproduction" / "data" / "mnist-blend.json")
    best = best_betas(dial(study))
    told = [best[best["goal"] == goal] for goal in SCORED]
    average, own = (f"{int(one['middle_wins'].sum())} of {len(one)}" for one in told)
    return (
        f"On MNIST some β between the ends beats both by more than its standard error in {average} "
        f"settings for the average model and in {own} for devices on their own labels"
    )


# Methods


METHODS = {
    "gradient_tracking": "gradient tracking",
    "carry": "carry",
    "mtgc": "MTGC",
    "scaffold": "SCAFFOLD",
}


def methods(study: str) -> Iterator[str]:
    """What each gains over the better of S2S and S2A, where 20 are sampled at random."""
    told = []
    for cell in kept("methods", "data", f"{study}.json")["cells"]:
        if cell["server"] != "20 at random":
            continue
        rows = {row["method"]: row["device_accuracy"] for row in cell["rows"]}
        best = max(("s2s", "s2a"), key=lambda name: fmean(rows[name]))
        gains = [gain(rows[name], rows[best]) for name in METHODS]
        shown = f"{best.upper()} {fmean(rows[best]):.1f}"
        told.append((cell["regime"], str(cell["period"]), shown, *gains))
    yield from table(("data", "H", "the better of S2S and S2A", *METHODS.values()), told, left=3)


def gain(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if len(ours) < len(theirs):
        return "a seed diverged"
    return points([a - b for a, b in zip(ours, theirs, strict=True)])


# Which to choose

RULES = ("the paper's guideline", "the bounds", "always S2S", "always S2A", "advise")
GOALS = {"global": "average model", "own": "devices, own labels"}


def says(rule: str, row: Row, goal: Row) -> str:
    differ = row["inter"] != "iid", row["intra"] != "iid"
    match rule:
        case "the paper's guideline":
            return guideline(
                islands_differ=differ[0],
                devices_differ=differ[1],
                share=row["share"],
                period=row["period"],
            )
        case "the bounds":
            inter, intra = ("non-iid" if one else "iid" for one in differ)
            return favoured_by_bounds(
                intra=intra,
                inter=inter,
                topology=row["topology"],
                share=row["share"],
                period=row["period"],
                islands=ISLANDS,
            )
        case "advise":
            return str(goal["advice"]["primitive"])
    return rule.removeprefix("always ").lower()


def judged(dataset: str, goal: str, rule: str) -> tuple[int, int, float]:
    """Right, of how many that are decided by two standard errors; and what it costs, the mean."""
    right = decided = 0
    lost = []
    for row in json.loads((RESULTS / f"advise-{dataset}.json").read_text())["rows"]:
        told = row["goals"][goal]
        named = says(rule, row, told)
        lost.append(0.0 if named == told["winner"] else abs(told["gap"]))
        if abs(told["gap"]) > 2 * told["standard_error"]:
            decided += 1
            right += named == told["winner"]
    return right, decided, fmean(lost)


def choosing() -> Iterator[str]:
    told = []
    for rule in RULES:
        cells = []
        for dataset in ("mnist", "digits"):
            for goal in GOALS:
                right, decided, cost = judged(dataset, goal, rule)
                cells.append(f"{right} of {decided} ({cost:.2f})")
        told.append((rule, *cells))
    header = [f"{data}, {goal}" for data in ("MNIST", "digits") for goal in GOALS.values()]
    yield from table(("rule", *header), told)


def draw(file: Path) -> None:
    """What following each rule costs."""
    import matplotlib.pyplot as plt

    with paper():
        figure, axes = plt.subplots(1, 2, figsize=(WIDTHS["full"], 2.3), sharey=True)
        colours = (OTHERS[0], OTHERS[1], PRIMITIVES["s2s"], PRIMITIVES["s2a"], PRIMITIVES["blend"])
        for axis, (goal, words) in zip(axes, GOALS.items(), strict=True):
            for number, dataset in enumerate(("mnist", "digits")):
                costs = [judged(dataset, goal, rule)[2] for rule in RULES]
                places = [place + 0.38 * number for place in range(len(RULES))]
                axis.barh(places, costs, height=0.36, color=colours, alpha=1 - 0.45 * number)
                for place, cost in zip(places, costs, strict=True):
                    name = {"mnist": "MNIST", "digits": "digits"}[dataset]
                    axis.text(cost, place, f" {cost:.2f} {name}", va="center", fontsize=6)
            axis.set_yticks([place + 0.19 for place in range(len(RULES))], RULES)
            axis.set_xlim(right=1.25 * axis.get_xlim()[1])
            axis.set_title(words)
            axis.set_xlabel("points lost against the better of the two")
        axes[0].invert_yaxis()
        figure.tight_layout()
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=120)
        plt.close(figure)


def text() -> str:
    parts = [
        "# Past the paper",
        "<!-- Written by `python docs/past_the_paper.py` from kept studies. -->",
        "The paper asks who should receive the server's average, the sampled (S2S) or all (S2A), "
        "when the server samples at random and devices run plain SGD. It concludes: S2S where "
        "islands differ. What changes if one may choose more than that? Each claim has its numbers "
        "here, and the command that makes them. Runs are scored over the last 20 of 100 rounds "
        "unless said "
        "otherwise.",
        "## 1. Whom to sample decides as much as who receives",
        "On CIFAR-10, islands that differ, S2S leads by the average model, as the paper says. But "
        "much of that lead is the luck of the draw: if the server samples each island in its "
        f"share, it shrinks by {sampling_shrinks()} on average over these rows. S2S minus S2A, "
        "points of "
        "the average model, ± half of the 95 % interval over 3 seeds:",
        "\n".join(sampling()),
        "```text\n$ python benchmarks/selection_study.py cifar10 --device cuda --out runs --write "
        "docs/selection/data\n```",
        "![Accuracy of the average model against messages to the server]"
        "(selection/accuracy-and-uplink.png)",
        "More in [Whom to sample](selection/README.md): two devices, one of each island, do under "
        "S2A "
        "what twenty random ones do.",
        "## 2. The conclusion is about what is scored, on other fleets too",
        "MNIST, rings, islands that differ, at random: in how many settings S2S leads (in brackets "
        "its mean lead in points). The paper's guideline says S2S in all of them. "
        f"{fleets_in_words()}",
        "\n".join(fleets()),
        "```text\n$ python benchmarks/selection_study.py mnist --out runs --write "
        "docs/selection/data\n"
        "$ skerry reproduce guidelines --profile full\n```",
        "With stepsizes tuned for both, in all four regimes, on eight fleets (more and unequal "
        f"islands, stars, random graphs, an MLP) the guideline is {unlike_the_papers()}: "
        "[the guideline as a rule](reproduction/guidelines.md).",
        "## 3. Between S2S and S2A there is a dial",
        f"Everybody may go a part β of the way to the average. {blends()}. That is little; what "
        "the dial gives is the choice between the two goals: it trades the accuracy of the "
        "average model against that of devices on their own labels. So the question is less which "
        "of the "
        "two than how far.",
        "![The dial on the ring](reproduction/pictures/blend-ring.png)",
        "```text\n$ skerry reproduce blend --profile full\n```",
        "## 4. Memory removes the error; whether it pays depends on the task",
        "Methods that remember gradients remove the error that S2S and S2A only trade. Gain in the "
        "accuracy of devices on all labels over the better of S2S and S2A, MNIST, two rings, 20 "
        "sampled at random, points ± half of the 95 % interval over 5 seeds:",
        "\n".join(methods("mnist")),
        "![Methods side by side](methods/mnist.png)",
        "On CIFAR-10 with the paper's network, which 100 rounds do not train to its end, the same "
        "comparison over 3 seeds leaves little of it: what stands in the way there is not yet the "
        "error in which averaging ends.",
        "\n".join(methods("cifar10")),
        "```text\n$ python benchmarks/methods_study.py mnist --out runs --write "
        "docs/methods/data\n$ python benchmarks/methods_study.py cifar10 --out runs --write "
        "docs/methods/data\n```",
        "Gradient tracking sends twice as much over links and to the server, MTGC meets all "
        "devices. carry sends no more than S2S, but needs more than 100 rounds where islands "
        "differ and "
        "H = 20. [Methods](methods.md).",
        "## 5. A pilot chooses better than a rule",
        "Rules look at the fleet, not at what one wants of it. `skerry advise` runs a short race "
        "on the fleet itself. Who names the winner of S2S and S2A, of the cells whose gap exceeds "
        "two standard "
        "errors; in brackets what following it costs, the mean over all 48 cells, in points:",
        "\n".join(choosing()),
        f"![What following each rule costs]({PICTURE})",
        "```text\n$ python benchmarks/advise_study.py --dataset mnist --device cuda\n"
        "$ python benchmarks/advise_study.py --dataset digits\n```",
        "The bounds are those of the theorems with all constants one, as in the paper's Figure 1.",
        "## What stays of the paper",
        "The two errors, bias under S2A and disagreement under S2S, and their exact mean sizes: "
        "runs meet them ([Figure 14](reproduction/figures.md)), and they explain all five "
        "points. Sampling in shares takes away the bias between islands; the dial weighs the one "
        "error against the other; memory removes what makes devices disagree; and which of the two "
        "errors hurts depends on whether one scores the average or the devices.",
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    draw(DOCS / PICTURE)
    PAGE.write_text(text(), encoding="utf-8")
