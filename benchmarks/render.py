"""Put the kept figures into the pages that show them: some of docs/ and the README.

python benchmarks/render.py [--check]
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
STUDIES = ROOT / "studies"
PAGES = (
    *(ROOT / "docs" / f"{name}.md" for name in ("speed", "fleets", "large-runs")),
    ROOT / "README.md",
)
MARKED = re.compile(r"(<!-- begin ([\w-]+) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)


def kept(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def rate(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.1f} million"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def two_cores() -> Iterator[str]:
    found = kept("two-cores")
    yield (
        f"{found['machine']}, torch {found['torch']}; a product of 2048³: "
        f"{found['product_gflops']:.0f} GFLOP/s.\n"
    )
    yield "| | device-steps per second | times the plain loop | of the product rate |"
    yield "|---|---|---|---|"
    for name, row in found["rows"].items():
        yield (
            f"| {name} | {rate(row['device_steps_per_second'])} | {row['times_plain_loop']:.1f} | "
            f"{row['share_of_product_rate']:.0%} |"
        )
    yield ""
    yield "Memory beyond the world's, predicted before the start and used:\n"
    yield "| devices | lanes | predicted | used |"
    yield "|---|---|---|---|"
    for row in found["memory"]:
        predicted, used = (f"{row[name] / 2**20:,.0f} MiB" for name in ("predicted", "used"))
        yield f"| {row['devices']:,} | {row['lanes']} | {predicted} | {used} |"


def h200() -> Iterator[str]:
    found = kept("h200")
    yield "| | ms per round (of three) | device-steps per second | memory, predicted |"
    yield "|---|---|---|---|"
    for row in found["rows"]:
        spread = f"({row['lowest']:.2f}-{row['highest']:.2f})"
        if "seconds" in row:
            text = f"{row['seconds']:.1f} s ({row['lowest']:.1f}-{row['highest']:.1f})"
            yield f"| {row['name'].removesuffix(', seconds')}, 9,600 runs, measured | {text} | | |"
            continue
        memory = ""
        if "peak_bytes" in row:
            ratio = row["predicted_bytes"] / row["peak_bytes"]
            memory = f"{row['peak_bytes'] / 2**30:.2f} GiB, {ratio:.0%}"
        speed = rate(row["device_steps_per_second"])
        name = row["name"].replace("1 lanes", "1 lane")
        yield f"| {name} | {row['ms_per_round']:.2f} {spread} | {speed} | {memory} |"


def modules() -> Iterator[str]:
    yield "| | ms per round (of three) | device-steps per second | memory, predicted |"
    yield "|---|---|---|---|"
    for row in kept("modules-h200")["rows"]:
        spread = f"({row['lowest']:.2f}-{row['highest']:.2f})"
        ratio = row["predicted_bytes"] / row["peak_bytes"]
        yield (
            f"| {row['name']} | {row['ms_per_round']:.2f} {spread} | "
            f"{rate(row['device_steps_per_second'])} | "
            f"{row['peak_bytes'] / 2**30:.2f} GiB, {ratio:.0%} |"
        )


def scale() -> Iterator[str]:
    """Beside each round the time that its bytes need at the rate of a copy."""
    found = kept("scale-h200")
    speed = next(row["terabytes_per_second"] for row in found["ceilings"] if row["name"] == "copy")
    yield (
        "| devices, lanes | ms per round (of three) | bytes it must move: ms | device-steps per "
        "second | memory, predicted | set up |"
    )
    yield "|---|---|---|---|---|---|"
    for row in found["rows"]:
        gigabytes = row["floor_bytes"] / 1e9
        ratio = row["predicted_bytes"] / row["peak_bytes"]
        yield (
            f"| {row['name'].replace('1 lanes', '1 lane')} | {row['ms_per_round']:.2f} "
            f"({row['lowest']:.2f}-{row['highest']:.2f}) | {gigabytes:.2f} GB: "
            f"{gigabytes / speed:.2f} | {rate(row['device_steps_per_second'])} | "
            f"{row['peak_bytes'] / 2**30:.2f} GiB, {ratio:.0%} | {row['set_up_seconds']:.1f} s |"
        )


def peers() -> Iterator[str]:
    for job in kept("peers-two-cores")["jobs"].values():
        told = job["job"]
        yield f"{told['devices']} devices, {told['words']}, batch {told['batch']}:\n"
        yield (
            "| | device-steps per second (lowest-highest) | times the plain loop | "
            "Skerry is, with 1 lane / at best | start-up | memory |"
        )
        yield "|---|---|---|---|---|---|"
        for name, row in job["rows"].items():
            spread = f"({rate(row['lowest'])}-{rate(row['highest'])})"
            times = [row.get(f"skerry_{which}_is_times") for which in ("one_lane", "best")]
            also_shows = " / ".join(f"{value:.1f}x" for value in times if value)
            yield (
                f"| {name} | {rate(row['device_steps_per_second'])} {spread} | "
                f"{row.get('times_plain_loop', float('nan')):.2f} | {also_shows} | "
                f"{row['start_up_seconds']:.0f} s | {row['memory_bytes'] / 1e9:.1f} GB |"
            )
        for name, reason in job["failures"].items():
            yield f"| {name} | {reason} | | | | |"
        everyones = {n: v for row in job["rows"].values() for n, v in row["versions"].items()}
        yield f"\n{', '.join(f'{name} {version}' for name, version in sorted(everyones.items()))}\n"


def ranks() -> Iterator[str]:
    found = kept("ranks")
    yield f"{found['machine']}, torch {found['versions']['torch']}; `{found['command']}`.\n"
    for name, job in found["jobs"].items():
        low, high = job["load"]
        yield f"Load of the machine {low:.1f} to {high:.1f}:\n"
        yield f"| {name} | ms per round (of {job['turns']}) | times one thread | command |"
        yield "|---|---|---|---|"
        for who, row in job["rows"].items():
            yield (
                f"| {who} | {row['ms_per_round']:.0f} ({row['lowest']:.0f}-{row['highest']:.0f}) | "
                f"{row['times_one_thread']:.2f} | {row['command_seconds']:.0f} s |"
            )
        yield ""


def drawn() -> Iterator[str]:
    each = kept("ranks")["draws"]
    yield "| a number of a minibatch, drawn | ns |"
    yield "|---|---|"
    for name, nanoseconds in each.items():
        yield f"| {name} | {nanoseconds:.1f} |"


FEATURES = {
    "Skerry": ("yes", "yes", "yes", "no: simulation"),
    "Flower 1.42": ("yes", "no", "no", "yes"),
    "pfl 0.6": ("yes", "no", "no", "no: simulation"),
    "fluke 0.8": ("yes", "no: passes models to one neighbour", "no", "no: simulation"),
    "NVFlare": ("yes", "yes", "not found", "yes"),
    "DecentralizePy": ("yes", "yes", "not found", "on several machines"),
}
"""Columns of the README's table, checked in the versions named there."""


def speed() -> Iterator[str]:
    """Features and speed beside other frameworks, for the README."""
    rows = kept("peers-two-cores")["jobs"]["linear"]["rows"]
    rates = {
        "Skerry": " / ".join(
            rate(rows[f"Skerry, {lanes}"]["device_steps_per_second"])
            for lanes in ("1 lane", "480 lanes")
        ),
        "Flower 1.42": rate(rows["Flower"]["device_steps_per_second"]),
        "pfl 0.6": rate(rows["pfl, 2 processes"]["device_steps_per_second"]),
        "fluke 0.8": rate(rows["fluke"]["device_steps_per_second"]),
    }
    yield (
        "| | server averages sampled devices | devices average with neighbours by weights W | "
        "both in "
        "one run, on islands | runs on real devices | device-steps per second |"
    )
    yield "|---|---|---|---|---|---|"
    for name, features in FEATURES.items():
        yield f"| {name} | {' | '.join(features)} | {rates.get(name, 'not checked')} |"
    yield ""
    yield (
        "Skerry's two figures are for one run alone and for 480 runs that are computed together. A "
        "plain PyTorch loop over devices "
        f"reaches {rate(rows['plain PyTorch loop']['device_steps_per_second'])}."
    )


def speed_gpu() -> Iterator[str]:
    rows = {row["name"]: row for row in kept("h200")["rows"]}
    cnn, loop = rows["CNN, 100 devices, bf16"], rows["CNN, plain loop over devices, tf32"]
    grid = rows["the paper's MNIST grid, seconds"]
    yield (
        f"- the paper's CNN (3,353,034 parameters) on 100 devices: {cnn['ms_per_round']:.1f} ms a "
        f"round in bf16, {loop['ms_per_round']:.0f} ms in a plain loop;"
    )
    yield f"- the paper's MNIST grid, 9,600 runs measured every round: {grid['seconds']:.0f} s;"
    large = {row["name"]: row for row in kept("scale-h200")["rows"]}
    fleet = large["1,000,000 devices, 1 lanes, tf32"]
    yield (
        "- a million devices, each with its own softmax regression on 64 features: "
        f"{fleet['ms_per_round']:.0f} ms a round."
    )


LANES = {
    ("s2s", "uniform"): "S2S",
    ("s2a", "uniform"): "S2A",
    ("s2a", "one_each"): "S2A, one of each party",
}


def speeches() -> Iterator[str]:
    """Perplexity over the rounds, a table for each model that was run."""
    path = STUDIES / "speeches" / "data" / "speeches.json"
    for model, found in json.loads(path.read_text(encoding="utf-8")).items():
        about, best = found["about"], [_at_its_best(found["rows"], lane) for lane in LANES]
        rounds = best[0]["round"]
        places = [round(share * (len(rounds) - 1)) for share in (0, 0.2, 0.4, 1)]
        tried, taken = ({row["stepsize"] for row in some} for some in (found["rows"], best))
        yield (
            f"`{model}`, {rounds[-1]} rounds in {about['seeds']} seeds and {about['seconds']:.0f} "
            f"seconds, at the stepsize that was best of {_listed(tried)}: {_listed(taken)}.\n"
        )
        names = [f"perplexity at round {rounds[0]}", *(str(rounds[at]) for at in places[1:])]
        yield f"| | {' | '.join(names)} | own loss at the end |"
        yield f"| --- |{' ---: |' * (len(names) + 1)}"
        for row, told in zip(best, LANES.values(), strict=True):
            start, *later = (row["average_perplexity"][at] for at in places)
            ends = [_interval(pair, ".2f") for pair in later] + [_interval(row["own_loss"][-1])]
            yield f"| {told} | {start[0]:.0f} | {' | '.join(ends)} |"
        yield ""


def _at_its_best(rows: list[dict], lane: tuple[str, str]) -> dict:
    """The row of the stepsize with the lowest perplexity in the end."""
    mine = [row for row in rows if (row["primitive"], row["selection"]) == lane]
    return min(mine, key=lambda row: row["average_perplexity"][-1][0])


def _listed(stepsizes: set[float]) -> str:
    return " and ".join(f"{one:g}" for one in sorted(stepsizes))


def _interval(pair: list[float | None], style: str = ".3f") -> str:
    mean, half_width = pair
    return f"{mean:{style}}" + (f" ± {half_width:{style}}" if half_width is not None else "")


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "two-cores": two_cores,
    "h200": h200,
    "modules": modules,
    "scale": scale,
    "peers": peers,
    "ranks": ranks,
    "drawn": drawn,
    "speed": speed,
    "speed-gpu": speed_gpu,
    "speeches": speeches,
}


def rendered(page: str) -> str:
    def fill(match: re.Match[str]) -> str:
        lines = SECTIONS[match[2]]()
        return f"{match[1]}{chr(10).join(lines).strip()}\n{match[4]}"

    return MARKED.sub(fill, page)


def main() -> None:
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (fresh := rendered(text)) != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(fresh, encoding="utf-8")
    print(", ".join(stale) or "nothing to do")
    if "--check" in sys.argv and stale:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
