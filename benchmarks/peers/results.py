"""From single runs to figures: medians, ratios, agreement, and the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from contestants import REFERENCES, Contestant
from peer_job import Job
from process import Measured

TOLERANCE = 0.05
"""How far, of the way from the initial loss, a loss may be from the plain loop's."""


@dataclass(frozen=True)
class Row:
    """A contestant's figures in one job: medians over the repeats."""

    device_steps_per_second: float
    lowest: float
    highest: float
    start_up_seconds: float
    memory_bytes: float | None
    loss: float
    versions: dict[str, str]


def row(runs: Sequence[Measured]) -> Row:
    rates = [run.device_steps_per_second for run in runs]
    sizes = [run.memory for run in runs if run.memory is not None]
    return Row(
        device_steps_per_second=median(rates),
        lowest=min(rates),
        highest=max(rates),
        start_up_seconds=median(run.start_up for run in runs),
        memory_bytes=max(sizes, default=None),
        loss=median(run.loss for run in runs),
        versions=runs[0].versions,
    )


def strays(
    rows: Mapping[Contestant, Row], initial_loss: float, tolerance: float = TOLERANCE
) -> dict[Contestant, str]:
    """Who did not do the same work, told by the loss of the average model after the last round."""
    found = {}
    for contestant, figures in rows.items():
        reference = rows.get(REFERENCES[contestant.mixing])
        if reference is None:
            continue
        way = initial_loss - reference.loss
        if not abs(figures.loss - reference.loss) <= tolerance * abs(way):
            found[contestant] = (
                f"its loss is {figures.loss:.4f}, the plain loop's {reference.loss:.4f} (from "
                f"{initial_loss:.4f}): not the same work"
            )
    return found


def ratios(rows: Mapping[Contestant, Row]) -> dict[Contestant, dict[str, float]]:
    """Each beside the plain loop, and Skerry with one lane and at its best beside each; only
    contestants that mix alike are compared."""
    rates = {contestant: figures.device_steps_per_second for contestant, figures in rows.items()}
    found: dict[Contestant, dict[str, float]] = {}
    for contestant, rate in rates.items():
        alike = {c: r for c, r in rates.items() if c.mixing == contestant.mixing}
        skerry = {c.lanes: r for c, r in alike.items() if c.folder == "skerry"}
        times = found[contestant] = {}
        if plain := alike.get(REFERENCES[contestant.mixing]):
            times["times_plain_loop"] = rate / plain
        if 1 in skerry:
            times["skerry_one_lane_is_times"] = skerry[1] / rate
        if len(skerry) > 1:
            times["skerry_best_is_times"] = max(skerry.values()) / rate
    return found


def as_json(
    job: Job, rows: Mapping[Contestant, Row], failures: Mapping[str, str], initial_loss: float
) -> dict:
    beside = ratios(rows)
    return {
        "job": asdict(job),
        "initial_loss": initial_loss,
        "rows": {c.name: asdict(figures) | beside[c] for c, figures in rows.items()},
        "failures": dict(failures),
    }


HEADINGS = (
    ("", "device-", "", "times", "Skerry", "Skerry", "start-", "memory", ""),
    ("", "steps/s", "(lowest-highest)", "plain", "1 lane", "at best", "up s", "GB", "loss"),
)


def table(job: Job, rows: Mapping[Contestant, Row], failures: Mapping[str, str]) -> str:
    """One job as text. The Skerry columns say how many times a row's rate Skerry reaches."""
    beside = ratios(rows)
    cells = [list(heading) for heading in HEADINGS]
    for contestant, figures in rows.items():
        times = beside[contestant]
        cells.append(
            [
                contestant.name,
                in_figures(figures.device_steps_per_second),
                f"({in_figures(figures.lowest)}-{in_figures(figures.highest)})",
                in_figures(times.get("times_plain_loop")),
                in_figures(times.get("skerry_one_lane_is_times")),
                in_figures(times.get("skerry_best_is_times")),
                f"{figures.start_up_seconds:.1f}",
                in_figures(figures.memory_bytes and figures.memory_bytes / 1e9),
                f"{figures.loss:.4f}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = "<>>>>>>>>"
    lines = [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)
        ).rstrip()
        for line in cells
    ]
    title = (
        f"{job.name}: {job.devices} devices, {job.words}, batch {job.batch}, {job.rounds} rounds"
    )
    parts = [title, "\n".join(lines), versions(rows.values()), told(failures)]
    return "\n\n".join(part for part in parts if part)


def versions(rows: Iterable[Row]) -> str:
    everyones = {name: number for figures in rows for name, number in figures.versions.items()}
    return ", ".join(f"{name} {number}" for name, number in sorted(everyones.items()))


def told(failures: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {reason}" for name, reason in failures.items())


def in_figures(value: float | None) -> str:
    """Three figures, or as many as the whole number has."""
    if not value:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
