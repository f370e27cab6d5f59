"""Write docs/who-is-first/ from the runs in studies/clock/data: `make docs`.

    python studies/clock/page.py

Every sentence with a number is computed. "Clear" means a paired t test over seeds at the level
0.05, with Holm's correction over the column that the difference stands in.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from skerry.analysis.compare import Comparison, compare
from skerry.analysis.statistics import FEWEST_PAIRS, estimate
from skerry.report.style import GREY, OTHERS, PRIMITIVES, paper, rgb, text_colour

sys.path.insert(0, str(Path(__file__).parent))  # for readers that load this file by its path
from clock_runs import (
    CLOCKS,
    COSTS,
    REGIMES,
    SERVERS,
    STEPSIZES,
    TARGET,
    WIDE,
    Cell,
    ClockRuns,
    Values,
    clock_of,
    cost_name,
)

FOLDER = Path(__file__).parents[2] / "docs" / "who-is-first"
EACH = "S2A, as many of each island"
COLOURS = {
    "S2S": PRIMITIVES["s2s"],
    "S2A": PRIMITIVES["s2a"],
    "blend 0.5": PRIMITIVES["blend"],
    EACH: OTHERS[1],
}
SHORT = {"S2S": "S2S", "S2A": "S2A", "blend 0.5": "blend", EACH: "each"}
"""Names in a picture."""
HEADINGS = {
    "all links alike": "all links\nalike",
    "slow uplink": "slow\nuplink",
    "cheap broadcast": "cheap\nbroadcast",
    "one in ten slow": "one in ten\nslow",
}
SHOWN = (("devices differ", "ring", 5), ("islands differ", "ring", 5))
"""The cells of the picture of curves."""
ALIKE, BROADCAST = CLOCKS[0], CLOCKS[2]


@dataclass(frozen=True)
class First:
    """Who reaches the target first in a cell."""

    server: str
    reached: int
    """The number of seeds in which it does."""
    clear: bool
    """Whether it is clearly sooner than every other server that can be compared with it."""


class Results:
    """Winners and differences of the kept runs."""

    def __init__(self, runs: ClockRuns | None = None) -> None:
        self.runs = runs or ClockRuns()
        self.cells = self.runs.cells

    @cached_property
    def firsts(self) -> dict[str, dict[Cell, First]]:
        """By cost and cell, who is first. Each cost is one family of tests."""
        return {cost: self._firsts(cost) for cost in (*COSTS, cost_name("seconds", WIDE))}

    def _firsts(self, cost: str) -> dict[Cell, First]:
        runs = self.runs
        best = {cell: one for cell in self.cells if (one := runs.first(cost, cell))}
        pairs = [(cell, other) for cell in best for other in SERVERS if other != best[cell]]
        found = compare(
            [runs.tuned(cost, cell, other) for cell, other in pairs],
            [runs.tuned(cost, cell, best[cell]) for cell, _ in pairs],
        )
        later = dict(zip(pairs, found, strict=True))
        firsts = {}
        for cell, server in best.items():
            tested = [
                later[cell, other]
                for other in SERVERS
                if other != server and later[cell, other].difference.count >= FEWEST_PAIRS
            ]
            clear = bool(tested) and all(one.verdict() == "win" for one in tested)
            reached = int(np.isfinite(runs.tuned(cost, cell, server)).sum())
            firsts[cell] = First(server, reached, clear)
        return firsts

    def leads(self, cost: str) -> dict[Cell, Comparison]:
        """By cell, S2S minus S2A: one family of tests."""
        ours, theirs = (
            [self.runs.tuned(cost, cell, one) for cell in self.cells] for one in ("S2S", "S2A")
        )
        return dict(zip(self.cells, compare(ours, theirs), strict=True))

    def changes(self, clock: str, unit: str = "seconds") -> list[Cell]:
        """The cells whose winner is not the one in rounds."""
        rounds, other = self.firsts["rounds"], self.firsts[cost_name(unit, clock)]
        return [cell for cell in rounds if other[cell].server != rounds[cell].server]

    def wins(self, cost: str, server: str) -> list[Cell]:
        return [cell for cell, one in self.firsts[cost].items() if one.server == server]

    def reached(self, server: str, cell: Cell) -> int:
        """The number of seeds that reach the target."""
        return int(np.isfinite(self.runs.tuned("rounds", cell, server)).sum())


# Words


def told(found: Comparison, digits: int, scale: float = 1.0) -> str:
    """`-1.2 ± 0.4`, bold where it is clear; a dash without a seed in which both arrive."""
    count = found.difference.count
    if not count:
        return "–"
    text = f"{found.difference.mean / scale:+.{digits}f}"
    if count > 1:
        text += f" ± {found.difference.half_width / scale:.{digits}f}"
    if found.verdict() in ("win", "loss"):
        text = f"**{text}**"
    return text


def level(values: Values, digits: int = 1, scale: float = 1.0) -> str:
    """`16.2 ± 1.3`, with the number of seeds where some never arrive; `never` where none does."""
    finite = values[np.isfinite(values)] / scale
    if not len(finite):
        return "never"
    found = estimate(finite)
    text = f"{found.mean:.{digits}f}"
    text += f" ± {found.half_width:.{digits}f}" if len(finite) > 1 else ""
    return text + (f" ({len(finite)} of {len(values)})" if len(finite) < len(values) else "")


def cell_words(cell: Cell) -> list[str]:
    regime, topology, period = cell
    return [regime, topology, str(period)]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"| {' | '.join(['---'] * left + ['---:'] * (len(header) - left))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def summary(results: Results) -> Iterator[str]:
    cells, seeds = results.cells, results.runs.seeds
    cases = len(cells) * len(CLOCKS)
    total, joules = (
        sum(len(results.changes(clock, unit)) for clock in CLOCKS) for unit in ("seconds", "joules")
    )
    seconds = [cost_name("seconds", clock) for clock in CLOCKS]
    in_rounds, in_seconds = (
        sum(one.clear for cost in costs for one in results.firsts[cost].values())
        for costs in (["rounds"], seconds)
    )
    yield (
        f"- **In {total} of {cases} cases the winner in rounds is not the winner in seconds**, and "
        f"in {joules} not the winner in joules ({len(cells)} cells of data, links and H, four "
        f"clocks). The winner in rounds is clear in {in_rounds} of {len(cells)} cells, the winner "
        f"in seconds in {in_seconds} of {cases} cases."
    )
    ties, decided = tied_and_decided(results)
    cast = sum(clock == BROADCAST for clock, _ in decided["S2A"])
    yield (
        f"- **Seconds decide what rounds leave open.** In rounds, S2S and S2A are not clearly "
        f"apart in {len(ties)} of the {len(ties) + len(apart(results))} cells where both arrive in "
        f"at least {FEWEST_PAIRS} of {seeds} seeds. In seconds they are clearly apart in "
        f"{sum(map(len, decided.values()))} of these {len(ties) * len(CLOCKS)} cases: S2S is "
        f"sooner in {len(decided['S2S'])}, and S2A in {len(decided['S2A'])} (with the broadcast in "
        f"{cast})."
    )
    full, none = (
        [c for c in cells if results.reached("S2S", c) == wanted] for wanted in (seeds, 0)
    )
    hard = [cell for cell in cells if cell not in full]
    firsts = [results.firsts[cost].get(cell) for cost in seconds for cell in hard]
    forms = sum(one is not None and one.server in ("S2A", EACH) for one in firsts)
    yield (
        f"- **A clock cannot help who never arrives.** S2S reaches {TARGET:.0f} % within "
        f"{results.runs.about['rounds']} rounds in all seeds in {len(full)} cells, in some seeds "
        f"in {len(hard) - len(none)}, and in none in {len(none)}; the latter {len(hard)} are those "
        f"where {' or '.join(dict.fromkeys(cell[0] for cell in hard))}. There S2A, in one of its "
        f"two forms, is first in {forms} of {len(hard) * len(CLOCKS)} cases, because it arrives in "
        f"more seeds. {early_words(results)}"
    )


def apart(results: Results) -> list[Cell]:
    """The cells in which S2S and S2A are clearly apart in rounds."""
    leads = results.leads("rounds")
    return [cell for cell, one in leads.items() if one.verdict() in ("win", "loss")]


def tied_and_decided(results: Results) -> tuple[list[Cell], dict[str, list[tuple[str, Cell]]]]:
    """The cells that rounds leave open between S2S and S2A, and by winner the clocks and cells in
    which seconds decide."""
    ties = [
        cell
        for cell, one in results.leads("rounds").items()
        if one.difference.count >= FEWEST_PAIRS and cell not in apart(results)
    ]
    decided: dict[str, list[tuple[str, Cell]]] = {"S2S": [], "S2A": []}
    for clock in CLOCKS:
        leads = results.leads(cost_name("seconds", clock))
        for cell in ties:
            verdict = leads[cell].verdict(lower_is_better=True)
            if verdict in ("win", "loss"):
                decided["S2S" if verdict == "win" else "S2A"].append((clock, cell))
    return ties, decided


def clocks_table(results: Results) -> Iterator[str]:
    """By clock, in how many cells each server is first, and how S2S and S2A compare."""
    rows = []
    for cost in ("rounds", *(cost_name("seconds", one) for one in CLOCKS)):
        leads = [
            one for one in results.leads(cost).values() if one.difference.count >= FEWEST_PAIRS
        ]
        verdicts = [one.verdict(lower_is_better=True) for one in leads]
        firsts = [str(len(results.wins(cost, one))) for one in SERVERS]
        sooner, later = (str(verdicts.count(one)) for one in ("win", "loss"))
        moved = "" if cost == "rounds" else str(len(results.changes(cost.partition(", ")[2])))
        rows.append([cost, *firsts, moved, f"{sooner} of {len(leads)}", f"{later} of {len(leads)}"])
    header = [
        "first in so many cells", *SERVERS, "not the winner in rounds", "S2S clearly sooner than "
        "S2A", "clearly later",
    ]  # fmt: skip
    yield from table(header, rows, 1)


def early_words(results: Results) -> str:
    """The cells where S2S arrives in fewer seeds than S2A, but sooner in those."""
    cost = cost_name("seconds", ALIKE)
    found = []
    for cell, one in results.leads(cost).items():
        count = one.difference.count
        if FEWEST_PAIRS <= count < results.runs.seeds and one.difference.mean < 0:
            unclear = "" if one.verdict() in ("win", "loss") else ", not clear"
            found.append(f"{', '.join(cell[:2])}, H = {cell[2]}: {told(one, 1)} s{unclear}")
    if not found:
        return ""
    return (
        "In the seeds in which both arrive, S2S has the lower mean all the same in some cells (all "
        f"links alike, S2S minus S2A; {'; '.join(found)})."
    )


def firsts_table(results: Results) -> Iterator[str]:
    header = ["data", "links", "H", "in rounds", *(f"seconds, {one}" for one in CLOCKS)]
    rows = []
    for cell in results.cells:
        words = []
        for cost in ("rounds", *(cost_name("seconds", one) for one in CLOCKS)):
            first = results.firsts[cost].get(cell)
            if first is None:
                words.append("nobody")
                continue
            digits = 0 if cost == "rounds" else 1
            value = level(results.runs.tuned(cost, cell, first.server), digits)
            name = f"**{first.server}**" if first.clear else first.server
            words.append(f"{name}: {value}")
        rows.append([*cell_words(cell), *words])
    yield from table(header, rows, len(header))


def leads_table(results: Results, unit: str) -> Iterator[str]:
    """S2S minus S2A by cell: rounds and seconds, or joules."""
    costs = [cost_name(unit, one) for one in CLOCKS]
    costs = ["rounds", *costs] if unit == "seconds" else costs
    scale, digits = (1000.0, 2) if unit == "joules" else (1.0, 1)
    header = ["data", "links", "H", "S2S arrives", "S2A arrives"]
    header += ["rounds"] if unit == "seconds" else []
    header += [f"{'kJ' if unit == 'joules' else 's'}, {one}" for one in CLOCKS]
    leads = {cost: results.leads(cost) for cost in costs}
    seeds, rows = results.runs.seeds, []
    for cell in results.cells:
        arrive = [f"{results.reached(one, cell)} of {seeds}" for one in ("S2S", "S2A")]
        found = [told(leads[cost][cell], digits, scale) for cost in costs]
        rows.append([*cell_words(cell), *arrive, *found])
    yield from table(header, rows, 3)


def why(results: Results) -> str:
    clock, slow = clock_of(ALIKE), clock_of(CLOCKS[1])
    model = results.runs.rows[0]["bytes"][0]
    link, port = clock.d2d, clock.server.bandwidth_out
    assert link.bandwidth
    assert port
    assert slow.uplink.bandwidth
    message = link.latency + model / link.bandwidth
    step, up = clock.compute.seconds_per_step, slow.uplink.latency + model / slow.uplink.bandwidth
    rounds, wide = results.firsts["rounds"], results.firsts[cost_name("seconds", WIDE)]
    moved = sum(wide[cell].server != rounds[cell].server for cell in rounds)
    leads = results.leads(cost_name("seconds", WIDE)).values()
    tested = [one for one in leads if one.difference.count >= FEWEST_PAIRS]
    sooner = sum(one.verdict(lower_is_better=True) == "win" for one in tested)
    few, all_ = 20 * model / port, 100 * model / port
    return (
        f"A round without the server takes {1000 * (step + message):.0f} ms here: a step of "
        f"{1000 * step:.0f} ms, and a message of {1000 * message:.0f} ms to the neighbours. A "
        "server round costs more, because all its messages share the server's own link: 20 models "
        f"up take {few:.2f} s, 20 down (S2S) again {few:.2f} s, but 100 down (S2A and blend) "
        f"{all_:.1f} s. So with H = 5 most of the time of S2A is the server's sending, and a lead "
        "in rounds must be large to make up for it. A broadcast turns this around: one message of "
        f"{1000 * message:.0f} ms serves everybody, and now S2S, with its 20 messages, is the "
        f"slower one. With a slow uplink the way up takes {up:.2f} s instead of {few:.2f} s, for "
        "both alike: their distance stays, and only its share of the whole becomes smaller. The "
        "devices that S2S does not sample do not wait for the server, but they soon wait for "
        "neighbours that did: on complete islands in the next round, on rings within a few. Slow "
        "devices hold up their neighbours, and within some rounds everybody, under every "
        "primitive. **The server's own link is what decides here**: without a limit on it (a "
        f"control: all links alike, but a wide server), S2S is clearly sooner than S2A in {sooner} "
        f"of {len(tested)} cells, and the winner in seconds is another one than in rounds in "
        f"{moved} of {len(rounds)} cells instead of {len(results.changes(ALIKE))}."
    )


def page(results: Results) -> str:
    about = results.runs.about
    parts = [
        f"# Who is first at {TARGET:.0f} %",
        "",
        "<!-- Written by `python studies/clock/page.py` from studies/clock/data. -->",
        "",
        f"Which server reaches {TARGET:.0f} % first: S2S, S2A, blend, or S2A with as many devices "
        "of each island? In rounds, in seconds and in joules, on four networks.",
        "",
        "## In two minutes",
        "",
        *summary(results),
        "",
        *clocks_table(results),
        "",
        f"![Who is first at {TARGET:.0f} %, by cell, in rounds, seconds and joules](winners.png)",
        "",
        "*The first in every cell. A dot: clear. Numbers: seeds that arrive, where not all do.*",
        "",
        "![Accuracy against rounds and seconds](curves.png)",
        "",
        "*The same runs against rounds, and against the seconds of four clocks (means over seeds, "
        "H = 5, rings).*",
        "",
        "## Why",
        "",
        why(results),
        "",
        "## The clocks",
        "",
        "Each is a file in [studies/clock](../../studies/clock), with its numbers explained there. "
        "They are made up, to change one thing at a time:",
        "",
        "| clock | what it says |",
        "| --- | --- |",
        "| [all links alike](../../studies/clock/all_links_alike.toml) | every link, also the "
        "server's own, carries 1 MB/s with a delay of 10 ms; a step takes 50 ms; 4 W computing, "
        "0.5 W waiting, 1 µJ a byte |",
        "| [slow uplink](../../studies/clock/slow_uplink.toml) | a device sends to the server at "
        "10 kB/s, for 100 µJ a byte |",
        "| [cheap broadcast](../../studies/clock/cheap_broadcast.toml) | one message of the server "
        "may serve all devices at once |",
        "| [one in ten slow](../../studies/clock/one_in_ten_slow.toml) | every tenth device takes "
        "250 ms for a step |",
        "",
        "## Who is first",
        "",
        "The server that arrives in most seeds, of those the one with the least mean. Mean ± half "
        "of the 95 % t interval; in brackets the seeds that arrive, where not all do. **Bold**: "
        "clearly sooner than each of the others that arrive in at least three of the same seeds "
        "(paired t tests, Holm over the column).",
        "",
        *firsts_table(results),
        "",
        "## S2S minus S2A",
        "",
        "Paired by seed, over the seeds in which both arrive; below 0, S2S is sooner. **Bold**: "
        "clear (Holm over the column). A dash: there is no such seed.",
        "",
        *leads_table(results, "seconds"),
        "",
        "In kilojoules, of all devices together:",
        "",
        *leads_table(results, "joules"),
        "",
        "## How it was made",
        "",
        f"MNIST, softmax regression (a message of 31.4 kB), 100 devices on two islands, K = 20, "
        f"{about['rounds']} rounds, {about['seeds']} seeds, stepsizes 0.0316, 0.1 and 0.316. The "
        "accuracy is that of the average model after each round, and a run arrives in the first "
        f"round at or past {TARGET:.0f} %. The stepsize of a seed is the one that arrives most "
        "often, then in the fewest rounds, on the other seeds; so the same runs are compared in "
        "rounds, seconds and joules. "
        f"{edge_words(results)} Time does not change what is learned, so the "
        f"{len(results.runs.rows)} runs were made once, and each clock was applied to the records.",
        "",
        "**Chosen after the first results were seen**, so to be read as exploration: the slow "
        "uplink of 10 kB/s (50 kB/s changed almost nothing, hidden behind the server's own link); "
        "stepsizes tuned by rounds for all costs, instead of by each cost; the control with a wide "
        "server; and the count of cells that are tied in rounds and decided in seconds. All four "
        "clocks have the "
        "narrow link of the server, on which the result rests.",
        "",
        "```sh",
        "python studies/clock/run.py --out runs",
        "python studies/clock/page.py",
        "```",
        "",
    ]
    return "\n".join(parts)


def edge_words(results: Results) -> str:
    """How often a chosen stepsize is the smallest or the largest one."""
    runs, at_edge, lanes = results.runs, [0, 0], 0
    for cell, server in product(results.cells, SERVERS):
        if results.reached(server, cell):
            chosen = runs.chosen(cell, server)
            lanes += 1
            at_edge[0] += 0 in chosen
            at_edge[1] += 2 in chosen
    return (
        f"In {at_edge[0]} of {lanes} lanes that arrive some seed takes the smallest stepsize, in "
        f"{at_edge[1]} the largest: there a larger one might be sooner still."
    )


# Pictures


def draw(results: Results, folder: Path) -> None:
    import matplotlib.pyplot as plt

    with paper():
        for name, make in (("winners", _winners), ("curves", _curves)):
            figure = make(plt, results)
            figure.savefig(folder / f"{name}.png", dpi=150)
            plt.close(figure)


def _winners(plt: Any, results: Results) -> Any:
    """A square for every cell and cost in the colour of the first."""
    from matplotlib.patches import Patch

    figure, axis = plt.subplots(figsize=(6.9, 4.6), layout="constrained")
    gap = 0.35
    places = [0.0, *(1 + gap + i for i in range(4)), *(5 + 2 * gap + i for i in range(4))]
    rows = [row + gap * (row // 4) for row in range(len(results.cells))]
    for x, cost in zip(places, COSTS, strict=True):
        for y, cell in zip(rows, results.cells, strict=True):
            first = results.firsts[cost].get(cell)
            if first is None:
                continue
            colour = COLOURS[first.server]
            axis.add_patch(plt.Rectangle((x, y), 0.94, 0.92, color=colour, linewidth=0))
            words = SHORT[first.server] + (" •" if first.clear else "")
            if first.reached < results.runs.seeds:
                words += f" {first.reached}/{results.runs.seeds}"
            axis.text(
                x + 0.47, y + 0.47, words, ha="center", va="center", fontsize=6.5,
                color=text_colour(rgb(colour)),
                weight="bold",
            )  # fmt: skip
    axis.set_xlim(-0.05, places[-1] + 1)
    axis.set_ylim(rows[-1] + 1, -1.9)
    axis.set_yticks(
        [row + 0.47 for row in rows], [f"{cell[1]}, H = {cell[2]}" for cell in results.cells]
    )
    for number, regime in enumerate(REGIMES):
        middle = rows[4 * number] + 2
        axis.text(-2.15, middle, regime, rotation=90, ha="center", va="center", fontsize=8)
    axis.set_xticks([])
    for x, words in zip(places, ["", *CLOCKS, *CLOCKS], strict=True):
        axis.text(
            x + 0.47, -0.12, HEADINGS.get(words, ""),
            ha="center", va="bottom", fontsize=6.5, color=GREY, linespacing=0.95,
        )  # fmt: skip
    for x, words in ((0.47, "rounds"), (places[1] + 1.97, "seconds"), (places[5] + 1.97, "joules")):
        axis.text(x, -1.25, words, ha="center", va="bottom", fontsize=8.5, weight="bold")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _curves(plt: Any, results: Results) -> Any:
    """Accuracy against rounds and seconds: means over seeds, each at its tuned stepsize."""
    runs = results.runs
    keys = {
        (row["regime"], row["topology"], row["period"], row["server"], row["stepsize"],
         row["seed"]): number
        for number, row in enumerate(runs.rows)
    }  # fmt: skip
    figure, axes = plt.subplots(
        len(SHOWN), 1 + len(CLOCKS), figsize=(6.9, 3.6), sharey=True, layout="constrained"
    )
    for row, cell in zip(axes, SHOWN, strict=True):
        for server, colour in COLOURS.items():
            chosen = runs.chosen(cell, server)
            numbers = [
                keys[*cell, server, STEPSIZES[place], seed] for seed, place in enumerate(chosen)
            ]
            accuracy = np.mean([runs.rows[number]["accuracy"] for number in numbers], axis=0)
            times = {"rounds": np.arange(len(accuracy))}
            for clock in CLOCKS:
                histories = runs.priced[clock].histories
                times[clock] = np.mean([histories[str(one)]["seconds"] for one in numbers], axis=0)
            for axis, over in zip(row, times, strict=True):
                axis.plot(times[over], accuracy, color=colour, linewidth=1, label=server)
        for axis, over in zip(row, ("rounds", *CLOCKS), strict=True):
            axis.axhline(TARGET, color=GREY, linewidth=0.6, linestyle=":")
            axis.set_ylim(78, 91)
            axis.set_xlim(0, 100 if over == "rounds" else 60)
            axis.set_xlabel("rounds" if over == "rounds" else "seconds")
            if cell == SHOWN[0]:
                axis.set_title("" if over == "rounds" else over)
        row[0].set_ylabel(f"{cell[0]}\naverage model (%)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main() -> None:
    results = Results()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "README.md").write_text(page(results), encoding="utf-8")
    draw(results, FOLDER)


if __name__ == "__main__":
    main()
