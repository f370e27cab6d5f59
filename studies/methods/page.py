"""Write docs/methods/ and a part of docs/methods.md from studies/methods/data: `make docs`."""

import argparse
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from skerry.analysis.compare import Comparison, compare
from skerry.analysis.statistics import best_place_elsewhere, estimate
from skerry.report.style import OTHERS, PRIMITIVES, paper

DOCS = Path(__file__).parents[2] / "docs"
DATA = Path(__file__).parent / "data"
MARKED = re.compile(r"(<!-- begin which-help -->\n).*?(<!-- end which-help -->)", re.DOTALL)
TITLES = {"mnist": "MNIST, linear model", "cifar10": "CIFAR-10, the paper's network"}
MEASURES = {
    "device_accuracy": "devices, all data",
    "average_accuracy": "average model",
    "own_accuracy": "devices, own labels",
}
SCORED = "device_accuracy"
REGIMES = ("alike", "devices differ", "islands differ", "both differ")
RANDOM, ONE_EACH, ALL, NO_SERVER = "20 at random", "one of each island", "all devices", "no server"
START, ALL_ON_RINGS, FEW_COMPLETE = (RANDOM, "s2a"), (ALL, "s2a"), (RANDOM, "s2a_complete")
HIER, MTGC = (ALL, "hier_favg"), (ALL, "mtgc")
LADDER = {
    "participation": (START, ALL_ON_RINGS),
    "links": (ALL_ON_RINGS, HIER),
    "memory": (HIER, MTGC),
    "together": (START, MTGC),
}
"""From S2A with 20 devices on rings to MTGC, one change at a time: (from, to)."""
OTHER_ORDER = {"links, K = 20": (START, FEW_COMPLETE), "then participation": (FEW_COMPLETE, HIER)}
CONTROL = {
    "gradient_tracking": "s2a",
    "gradient_tracking_s2s": "s2s",
    "carry": "s2s_lazy",
    "sd_gt": "s2s_even",
    "scaffold": "fedavg",
    "fedvarp": "fedavg",
    "mifa": "fedavg",
    "fedprox": "fedavg",
    "mtgc": "hier_favg",
}
"""For each method with memory, the method without it that has the same links and samples."""
NAMES = {
    "none": "no server",
    "s2s": "S2S",
    "s2a": "S2A",
    "s2a_complete": "S2A, complete islands",
    "s2s_lazy": "S2S, lazy links",
    "s2s_even": "S2S, as many of each island",
    "gradient_tracking": "gradient tracking",
    "gradient_tracking_s2s": "gradient tracking, X by S2S",
    "carry": "carry",
    "sd_gt": "SD-GT",
    "fedavg": "FedAvg",
    "scaffold": "SCAFFOLD",
    "fedvarp": "FedVARP",
    "mifa": "MIFA",
    "fedprox": "FedProx",
    "hier_favg": "HierFAVG",
    "mtgc": "MTGC",
}
LINKS = ("uplink", "downlink", "d2d")
Row = Mapping[str, Any]
Lane = tuple[str, str]
"""The kind of server and the method."""


@dataclass(frozen=True)
class Difference:
    """A change from one lane to another in a regime with a period, paired by seed."""

    regime: str
    period: int
    old: Lane
    new: Lane
    found: Comparison

    @property
    def mean(self) -> float:
        return self.found.difference.mean

    @property
    def sign(self) -> int:
        """1 or -1 where the difference is clear (Holm over its table), otherwise 0."""
        return {"win": 1, "loss": -1}.get(self.found.verdict(), 0)

    def told(self) -> str:
        """`+1.23 ± 0.45`, bold where it is clear."""
        if not self.found.difference.count:
            return "diverged"
        text = f"{self.mean:+.2f}"
        if math.isfinite(self.found.difference.half_width):
            text += f" ± {self.found.difference.half_width:.2f}"
        return f"**{text}**" if self.sign else text


class Study:
    """The kept results on one data set."""

    def __init__(self, path: Path) -> None:
        kept = json.loads(path.read_text(encoding="utf-8"))
        self.about: dict[str, Any] = kept["about"]
        self.cells: list[dict[str, Any]] = kept["cells"]
        self.rows: dict[tuple[str, int | None, str, str], Row] = {
            (cell["regime"], cell["period"], cell["server"], row["method"]): row
            for cell in self.cells
            for row in cell["rows"]
        }
        self.periods = sorted({cell["period"] for cell in self.cells if cell["period"]})

    def settings(self) -> list[tuple[str, int]]:
        """Regimes and periods that have results, in order."""
        found = {(cell["regime"], cell["period"]) for cell in self.cells if cell["period"]}
        return [(r, p) for r in REGIMES for p in self.periods if (r, p) in found]

    def row(self, regime: str, period: int | None, lane: Lane) -> Row | None:
        return self.rows.get((regime, None if lane[0] == NO_SERVER else period, *lane))

    def values(self, regime: str, period: int, lane: Lane, measure: str = SCORED) -> list[float]:
        """One value per scored seed, NaN where it diverged; empty if the lane was not run."""
        row = self.row(regime, period, lane)
        return [] if row is None else [math.nan if v is None else v for v in row[measure]]

    def tuned_values(self, regime: str, period: int, lane: Lane, measure: str) -> list[float]:
        """As `values`, with stepsizes that are tuned by the measure itself, on the other seeds."""
        row = self.row(regime, period, lane)
        if row is None:
            return []
        scores = np.array(row["scores"][measure], dtype=float)
        places = best_place_elsewhere(scores, np.ones_like(scores))
        found: list[float] = scores[places, np.arange(scores.shape[1])].tolist()
        return found

    def differences(
        self,
        pairs: Sequence[tuple[Lane, Lane]],
        measure: str = SCORED,
        retuned: bool = False,
    ) -> list[Difference]:
        """All changes of these pairs that can be compared, as one family of tests."""
        read = self.tuned_values if retuned else self.values
        places, new_cs, old_cs = [], [], []
        for regime, period in self.settings():
            for old, new in pairs:
                theirs, ours = (read(regime, period, lane, measure) for lane in (old, new))
                if theirs and ours:
                    places.append((regime, period, old, new))
                    new_cs.append(ours)
                    old_cs.append(theirs)
        found = compare(new_cs, old_cs) if places else []
        return [Difference(*place, one) for place, one in zip(places, found, strict=True)]

    def memory_pairs(self) -> list[tuple[Lane, Lane]]:
        """Each method with memory beside its control, for each kind of server."""
        pairs: list[tuple[Lane, Lane]] = []
        for server in (RANDOM, ONE_EACH, ALL):
            methods = {row[3] for row in self.rows if row[2] == server}
            for method, usual in CONTROL.items():
                # One of each island: S2S samples as SD-GT does.
                control = "s2s" if (server, method) == (ONE_EACH, "sd_gt") else usual
                if {method, control} <= methods and method != "mtgc":
                    pairs.append(((server, control), (server, method)))
        return pairs


# Words


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * left + ['---:'] * (len(header) - left))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def level(values: Sequence[float]) -> str:
    """`90.12 ± 0.05`: the mean over seeds, and half of its 95 % interval."""
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return "diverged" if values else ""
    found = estimate(finite)
    spread = f" ± {found.half_width:.2f}" if len(finite) > 1 else ""
    lost = f" ({len(values) - len(finite)} diverged)" if len(finite) < len(values) else ""
    return f"{found.mean:.2f}{spread}{lost}"


def spread(found: Sequence[Difference]) -> str:
    """`-0.02 to +1.23 points`: the smallest and the largest mean difference."""
    low, high = (f"{end(one.mean for one in found):+.2f}" for end in (min, max))
    return f"{low} points" if low == high else f"{low} to {high} points"


def verdicts(found: Sequence[Difference]) -> str:
    """`clearly better in 3 and clearly worse in 1 of 8 cells`."""
    up, down = (sum(one.sign == sign for one in found) for sign in (1, -1))
    cells = f"{len(found)} cells"
    if all("seed" in one.found.untested for one in found):
        return f"not tested in {cells} (too few seeds)"
    if up == len(found):
        return f"clearly better in all {cells}"
    if down == len(found):
        return f"clearly worse in all {cells}"
    if not up and not down:
        return f"clearly different in none of {cells}"
    if not down:
        return f"clearly better in {up} of {cells}, clearly worse in none"
    if not up:
        return f"clearly worse in {down} of {cells}, clearly better in none"
    return f"clearly better in {up} and clearly worse in {down} of {cells}"


def by_step(found: Sequence[Difference], steps: Mapping[str, Any]) -> dict[str, list[Difference]]:
    return {
        name: [one for one in found if (one.old, one.new) == pair] for name, pair in steps.items()
    }


# The split of MTGC's gain


def split_table(study: Study) -> Iterator[str]:
    """The way from S2A to MTGC, one change at a time."""
    found = {
        (one.regime, one.period, one.old, one.new): one.told()
        for one in study.differences([*LADDER.values(), *OTHER_ORDER.values()])
    }
    steps = {
        name: pair
        for name, pair in (LADDER | OTHER_ORDER).items()
        if any(key[2:] == pair for key in found)
    }
    told = [
        (
            regime,
            str(period),
            level(study.values(regime, period, START)),
            *(found.get((regime, period, *pair), "") for pair in steps.values()),
        )
        for regime, period in study.settings()
    ]
    yield from table(("data", "H", "S2A, K = 20, rings", *steps), told, left=2)


def split_steps(study: Study) -> dict[str, list[Difference]]:
    return by_step(study.differences([*LADDER.values(), *OTHER_ORDER.values()]), LADDER)


def split_sentences(study: Study) -> Iterator[str]:
    """What memory, participation and links give on the way from S2A to MTGC."""
    steps = split_steps(study)
    memory = steps["memory"]
    if not memory:
        differing = [one for one in steps["together"] if one.regime != "alike"]
        yield (
            "- **MTGC beside S2A** with 20 devices on rings, where data differ: "
            f"{spread(differing)}. How much of it is memory is open: this study has no HierFAVG, "
            "which has the links and the participation of MTGC and no memory."
        )
        return
    yield (
        "- **MTGC beside HierFAVG**, which has the same links and participation and no memory: "
        f"{spread(memory)}, {verdicts(memory)}."
    )
    complete = [
        place
        for place in study.settings()
        if place[0] != "alike"
        and all(any((d.regime, d.period) == place for d in step) for step in steps.values())
    ]
    means = {
        name: fmean(d.mean for d in step if (d.regime, d.period) in complete)
        for name, step in steps.items()
    }
    yield (
        f"- **MTGC beside S2A** with 20 devices on rings: {means['together']:+.2f} points on "
        f"average over the {len(complete)} cells in which data differ. Of these, participation "
        f"(20 to all devices) gives {means['participation']:+.2f}, links (rings to complete "
        f"islands) {means['links']:+.2f}, and memory {means['memory']:+.2f}."
    )
    for regime in ("devices differ", "islands differ"):
        here = {
            name: next((d for d in step if (d.regime, d.period) == (regime, 20)), None)
            for name, step in steps.items()
        }
        if all(here.values()):
            parts = ", ".join(f"{name} {d.told()}" for name, d in here.items() if d)
            yield f"- Where {regime} and H = 20: {parts}."


# Other methods


def memory_sentences(study: Study) -> Iterator[str]:
    """A line per method: what its memory gives beside its control, and what it sends."""
    found = study.differences(study.memory_pairs())
    for method, control in CONTROL.items():
        here = [one for one in found if one.new[1] == method and one.regime != "alike"]
        if not here:
            continue
        name = NAMES[method][0].upper() + NAMES[method][1:]
        yield (
            f"- **{name}** beside {NAMES[control]}, where data differ: {verdicts(here)}, "
            f"{spread(here)}; it sends {bytes_factor(study, method)} the bytes."
        )


def bytes_factor(study: Study, method: str) -> str:
    """How many times the bytes of its control a method sends: `2.0 times` or `1.0 to 2.0 times`."""
    factors = []
    for old, new in study.memory_pairs():
        for regime, period in study.settings():
            ours, theirs = (study.row(regime, period, lane) for lane in (new, old))
            if new[1] == method and ours and theirs and ours["d2d_bytes"] is not None:
                factors.append(total_bytes(ours) / total_bytes(theirs))
    low, high = f"{min(factors):.1f}", f"{max(factors):.1f}"
    return f"{low} times" if low == high else f"{low} to {high} times"


def total_bytes(row: Row) -> int:
    return sum(row[f"{link}_bytes"] for link in LINKS)


def memory_table(study: Study) -> Iterator[str]:
    """Each method with memory minus its control, for each kind of server."""
    found = study.differences(study.memory_pairs())
    methods = [name for name in CONTROL if any(one.new[1] == name for one in found)]
    told = {(one.regime, one.period, one.new): one.told() for one in found}
    rows = [
        (
            regime,
            server,
            str(period),
            *(told.get((regime, period, (server, m)), "") for m in methods),
        )
        for regime, period in study.settings()
        for server in (RANDOM, ONE_EACH, ALL)
    ]
    rows = [row for row in rows if any(row[3:])]
    header = [f"{NAMES[m]} − {NAMES[CONTROL[m]]}" for m in methods]
    yield from table(("data", "server", "H", *header), rows, left=3)


def levels_table(study: Study) -> Iterator[str]:
    """Accuracies of methods without memory, from no server to HierFAVG, and of MTGC."""
    lanes: dict[str, Lane] = {
        "no server": (NO_SERVER, "none"),
        "S2S, 20": (RANDOM, "s2s"),
        "S2A, 20": START,
        "S2A, all": ALL_ON_RINGS,
        "S2A, 20, complete": FEW_COMPLETE,
        "HierFAVG": HIER,
        "MTGC": MTGC,
        "gradient tracking, 20": (RANDOM, "gradient_tracking"),
    }
    told = {
        name: [level(study.values(regime, period, lane)) for regime, period in study.settings()]
        for name, lane in lanes.items()
    }
    kept = {name: values for name, values in told.items() if any(values)}
    rows = [
        (regime, str(period), *(values[place] for values in kept.values()))
        for place, (regime, period) in enumerate(study.settings())
    ]
    yield from table(("data", "H", *kept), rows, left=2)


def costs_table(study: Study) -> Iterator[str]:
    """What each method sends in a whole run; it does not depend on the data."""
    rows = []
    for server in (NO_SERVER, RANDOM, ONE_EACH, ALL):
        for method in NAMES:
            for period in study.periods:
                row = study.row(study.settings()[0][0], period, (server, method))
                if row is None or row["d2d_messages"] is None:
                    continue
                if server == NO_SERVER and period != study.periods[0]:
                    continue
                sent = (f"{row[f'{link}_messages']:,}" for link in LINKS)
                H = "" if server == NO_SERVER else str(period)
                rows.append((NAMES[method], server, row["links"], H, *sent, megabytes(row)))
    yield from table(
        ("method", "server", "links", "H", "up", "down", "over links", "MB"), rows, left=3
    )


def megabytes(row: Row) -> str:
    return f"{total_bytes(row) / 1e6:,.0f}"


def cell_table(cell: Mapping[str, Any]) -> Iterator[str]:
    """All methods of a cell: accuracies, megabytes, and the chosen stepsizes."""
    rows = []
    for row in sorted(cell["rows"], key=lambda row: [*NAMES].index(row["method"])):
        accuracies = (level([math.nan if v is None else v for v in row[m]]) for m in MEASURES)
        steps = ", ".join(f"{eta:g}" for eta in sorted(set(row["chosen"])))
        sent = "" if row["d2d_bytes"] is None else megabytes(row)
        rows.append((NAMES[row["method"]], row["links"], *accuracies, sent, steps))
    yield from table(("method", "links", *MEASURES.values(), "MB", "stepsizes"), rows, left=2)


def tuning_sentences(study: Study) -> str:
    """How stepsizes were tuned, and how often one at the edge of those tried was chosen."""
    about = study.about
    how = {
        "seed 0": "seed 0 chooses them and is not scored",
        "the other seeds": "each seed is scored at the stepsize that is best on the other seeds",
        "the scored seeds": "the scored seeds choose them, which flatters every method a little",
    }[about["tuned_on"]]
    first = ", ".join(f"{eta:g}" for eta in about["stepsizes"])
    grid = about["stepsizes"]
    edge = 0
    for row in study.rows.values():
        tried = row["stepsizes"] if len(row["stepsizes"]) > 1 else grid
        edge += bool({min(tried), max(tried)} & set(row["chosen"]))
    low, high = about["limits"]
    extended = (
        f", and the next one (a factor of 10^½) wherever the smallest or the largest is chosen, "
        f"down to {low:g} and up to {high:g}"
        if (low, high) != (min(grid), max(grid))
        else ""
    )
    note = f" {about['note']}" if "note" in about else ""
    return (
        "Stepsizes are tuned by the accuracy of the devices on all data, for each method and "
        f"cell: {how}. {first} are tried{extended}. A stepsize at the edge of those tried is "
        f"chosen in {edge} of {len(study.rows)} rows.{note}"
    )


def tuned_apart(studies: Mapping[str, Study]) -> str:
    """Whether the seeds that are scored have chosen their stepsizes."""
    same = [TITLES[n] for n, one in studies.items() if one.about["tuned_on"] == "the scored seeds"]
    if not same:
        return "Stepsizes are tuned on other seeds than the scored one."
    return f"Stepsizes are tuned on other seeds than the scored one, but not for {same[0]}."


def average_sentence(study: Study) -> Iterator[str]:
    """The same control by another measure: is the result one of the score?"""
    retuned = study.about["tuned_on"] == "the other seeds"
    found = study.differences([LADDER["memory"]], "average_accuracy", retuned)
    if found:
        tuned = " (tuned by it)" if retuned else ""
        yield (
            f"Scored by the average model{tuned} instead of by the devices, memory changes "
            f"HierFAVG by {spread(found)}: {verdicts(found)}."
        )


# Pages


def short_section(name: str, study: Study) -> Iterator[str]:
    seeds = len(study.about["scored_seeds"])
    yield f"### {TITLES[name]} ({study.about['rounds']} rounds, {seeds} scored seeds)"
    yield ""
    yield from split_sentences(study)
    yield from memory_sentences(study)
    yield ""


def page(studies: Mapping[str, Study]) -> str:
    parts = [
        "# Methods side by side",
        "",
        "<!-- Written by `python studies/methods/page.py` from studies/methods/data. -->",
        "",
        "What does memory give, beyond a model on every device? Methods with memory",
        "([Methods](../methods.md)) often have more links or sample more devices too. Here each of",
        "them stands beside a **control with the same links and the same samples** that keeps only",
        "models. There are 100 devices on two islands, and all methods share data, minibatches,",
        "samples and server rounds. Scores are the accuracy of the devices on all data, as a mean",
        "over the last 20 rounds, in points, ± half of the 95 % t interval over seeds.",
        tuned_apart(studies),
        "Differences are paired by seed. *Clear*, and **bold** in tables, is a paired t test at",
        "the level 0.05, corrected by Holm over all differences of the table.",
        "",
        "## In short",
        "",
    ]
    for name, study in studies.items():
        parts += short_section(name, study)
    for name, study in studies.items():
        parts += data_set_section(name, study)
    return "\n".join(parts).rstrip() + "\n"


def data_set_section(name: str, study: Study) -> Iterator[str]:
    about = study.about
    yield from (f"## {TITLES[name]}", "", "### From S2A to MTGC, one change at a time", "")
    if any(split_steps(study)["memory"]):
        yield from (
            "Participation: the server samples all devices instead of 20. Links: islands are",
            "complete graphs instead of rings, so that each averages completely in every round.",
            "Memory: MTGC's corrections, on top of HierFAVG. These three add up to *together*. The",
            "last columns take the same way with links first, where it was run.",
            "",
        )
    yield from split_table(study)
    for sentence in average_sentence(study):
        yield from ("", sentence)
    yield from ("", f"![Split of the gains, and bytes sent]({name}.png)", "")
    yield from (
        "Above: the way from S2A to MTGC. Below: each method with memory (filled) and its control",
        f"(hollow) at H = {study.periods[-1]}; an arrow that rises is a gain by memory, one that",
        "goes to the right costs bytes.",
        "",
        f"![Accuracy over rounds]({name}-rounds.png)",
        "",
        f"Accuracy of the devices over rounds, H = {study.periods[-1]}. Peaks are server rounds.",
        "",
        "### Accuracies, from no server to MTGC",
        "",
    )
    yield from levels_table(study)
    yield from ("", "### Memory at the same links and samples, all methods", "")
    yield from memory_table(study)
    yield from ("", "### Costs", "")
    yield from (
        "Messages and megabytes of a whole run. Messages inside complete islands are counted as",
        "links; with an edge server on each island, they would be one up and one down per device",
        "and round.",
        "",
    )
    yield from costs_table(study)
    yield from ("", "### All numbers")
    for cell in study.cells:
        H = f", H = {cell['period']}" if cell["period"] else ""
        yield from ("", f"#### {cell['regime']}, {cell['server']}{H}", "")
        yield from cell_table(cell)
    yield from ("", tuning_sentences(study), "")
    yield f"{about['runs']:,} runs of {about['rounds']} rounds took {about['seconds']:.0f} s:"
    yield from (f"`{about['command']}`.", "")


def which_help(studies: Mapping[str, Study]) -> str:
    """The part of docs/methods.md on which methods help."""
    parts = [
        "[Methods side by side](methods/README.md) puts each method beside a control that has the "
        f"same links and samples and no memory. {tuned_apart(studies)} "
        "Differences are points of the accuracy of devices on all data; *clear* is a paired t test "
        "at the level 0.05, corrected by Holm.",
        "",
    ]
    for name, study in studies.items():
        H = " and ".join(str(period) for period in study.periods)
        parts += [f"**{TITLES[name]}**, {study.about['rounds']} rounds, H = {H}:", ""]
        parts += [*split_sentences(study), *memory_sentences(study), ""]
    parts += ["```text"]
    parts += [f"$ {study.about['command']}" for study in studies.values()]
    parts += ["$ python studies/methods/page.py", "```", ""]
    return "\n".join(parts)


# Pictures

TINTS = {
    "s2a": PRIMITIVES["s2a"],
    "s2s": PRIMITIVES["s2s"],
    "none": PRIMITIVES["none"],
    "mtgc": "#000000",
    "hier_favg": "#009E73",
    "gradient_tracking": OTHERS[0],
    "carry": OTHERS[1],
    "sd_gt": "#F0C000",
    "scaffold": OTHERS[2],
}
ARROWS = ("mtgc", "gradient_tracking", "carry", "sd_gt", "scaffold")
DRAWN: dict[str, Lane] = {
    "no server": (NO_SERVER, "none"),
    "S2A, K = 20": START,
    "S2A, K = n": ALL_ON_RINGS,
    "gradient tracking, K = 20": (RANDOM, "gradient_tracking"),
    "HierFAVG": HIER,
    "MTGC": MTGC,
}


def draw_split(study: Study, file: Path) -> None:
    """Draw the way from S2A to MTGC, and the gains of memory over bytes."""
    import matplotlib.pyplot as plt

    steps = {"S2A\nK = 20": START, "S2A\nK = n": ALL_ON_RINGS, "Hier-\nFAVG": HIER, "MTGC": MTGC}
    with paper():
        figure, axes = plt.subplots(2, 4, figsize=(6.9, 4.4), sharey="row", layout="constrained")
        for (upper, lower), regime in zip(axes.T, REGIMES, strict=True):
            upper.set_title(regime)
            for period, dash in zip(study.periods, ("--", "-"), strict=False):
                found = [study.values(regime, period, lane) for lane in steps.values()]
                means = [estimate(values or [math.nan]) for values in found]  # a gap if not run
                upper.errorbar(
                    range(len(steps)),
                    [one.mean for one in means],
                    [one.half_width for one in means],
                    label=f"H = {period}",
                    linestyle=dash,
                    color=PRIMITIVES["s2s" if period == 5 else "s2a"],
                    marker="o",
                    markersize=3,
                    capsize=2,
                )
            upper.set_xticks(range(len(steps)), [*steps], fontsize=6)
            draw_arrows(study, regime, lower)
            lower.set_xscale("log")
            lower.set_xlabel("MB sent")
        axes[0][0].set_ylabel("devices, all data (%)")
        axes[1][0].set_ylabel("devices, all data (%)")
        axes[0][0].legend(loc="lower right", frameon=False)
        handles = {
            label: handle
            for axis in axes[1]
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
        figure.savefig(file, dpi=150)
        plt.close(figure)


def draw_arrows(study: Study, regime: str, axis: Any) -> None:
    """Draw an arrow from each control to its method with memory, at the longest period."""
    period = study.periods[-1]
    pairs = [pair for pair in study.memory_pairs() if pair[1][0] == RANDOM]
    for old, new in [*pairs, LADDER["memory"]]:
        ours, theirs = (study.row(regime, period, lane) for lane in (new, old))
        if new[1] not in ARROWS or not ours or not theirs or ours["d2d_bytes"] is None:
            continue
        x = [total_bytes(row) / 1e6 for row in (theirs, ours)]
        y = [estimate(study.values(regime, period, lane)).mean for lane in (old, new)]
        tint = TINTS[new[1]]
        axis.annotate(
            "",
            (x[1], y[1]),
            (x[0], y[0]),
            arrowprops={"arrowstyle": "->", "color": tint, "shrinkA": 2, "shrinkB": 2},
        )
        axis.plot(x[0], y[0], "o", color=tint, markerfacecolor="white", markersize=3.5)
        label = f"{NAMES[new[1]]} from {NAMES[old[1]]}"
        axis.plot(x[1], y[1], "o", color=tint, markersize=3.5, label=label)


def draw_rounds(study: Study, file: Path) -> None:
    """Draw the accuracy of the devices over rounds at the longest period."""
    import matplotlib.pyplot as plt

    period = study.periods[-1]
    with paper():
        figure, axes = plt.subplots(1, 4, figsize=(6.9, 2.4), sharey=True, layout="constrained")
        for axis, regime in zip(axes, REGIMES, strict=True):
            axis.set_title(regime)
            axis.set_xlabel("rounds")
            for label, lane in DRAWN.items():
                row = study.row(regime, period, lane)
                if row and row["curve"]:
                    axis.plot(
                        row["curve"]["round"],
                        row["curve"][SCORED],
                        color=TINTS[lane[1]],
                        linestyle=":" if lane == ALL_ON_RINGS else "--" if lane == MTGC else "-",
                        linewidth=0.9,
                        label=label,
                    )
        axes[0].set_ylabel("devices, all data (%)")
        handles = {
            label: handle
            for axis in axes
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
        figure.savefig(file, dpi=150)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the study's JSON files")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the documentation to write into")
    asked = parser.parse_args()
    studies = {
        name: Study(path) for name in TITLES if (path := asked.data / f"{name}.json").exists()
    }
    folder, beside = asked.docs / "methods", asked.docs / "methods.md"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(page(studies), encoding="utf-8")
    for name, study in studies.items():
        draw_split(study, folder / f"{name}.png")
        draw_rounds(study, folder / f"{name}-rounds.png")
    if beside.exists():
        text = beside.read_text(encoding="utf-8")
        marked = MARKED.sub(lambda at: at[1] + which_help(studies) + at[2], text)
        beside.write_text(marked, encoding="utf-8")


if __name__ == "__main__":
    main()
