"""The section on time and energy: who computes, talks and waits under each clock of the page."""

import math
from collections.abc import Mapping
from typing import Any

from skerry.analysis.pricing import PricedRun, recorded_sizes
from skerry.analysis.run_table import RunTable, open_stores
from skerry.analysis.timeline import Timeline, Timelines, read_timelines
from skerry.clock.settings import Clock
from skerry.clock.times import MEASURES
from skerry.clock.units import write_seconds
from skerry.errors import SkerryError
from skerry.records.store import Run
from skerry.report.figures.timelines import COLOURS
from skerry.report.page.blocks import PageSection, definitions, note, text, widget
from skerry.report.page.clocks import clocked_name
from skerry.report.page.model import shades
from skerry.report.page.report_data import ReportData
from skerry.report.page.sections.fleet import device_and_island_names, drawable_fleet
from skerry.report.text import plural

WAITING = {"light": COLOURS["waiting"], "dark": "#4B545F"}  # pale: nothing happens there
MOST_DRAWN = 12  # timelines of cells, under each clock


def time_section(data: ReportData) -> PageSection | None:
    """Time and energy at the end of the runs, and the timelines of the first seed."""
    names: Mapping[str, Clock | None] = data.clocks or {"": None}
    shown = [
        [data.measures.index(name) for one in MEASURES if (name := _name(data, one, clock))]
        for clock in names
    ]
    if not any(shown):
        return None
    drawn, why = _timelines(data)
    clocks = [
        {"name": name, "measures": measures, "drawn": drawn.get(name, [])}
        for name, measures in zip(names, shown, strict=True)
    ]
    words = text(
        "When the last device is done, the average device's own time, the share of it that devices "
        "wait, and the energy of all devices and of the one that needs most. Below are the first "
        "server rounds of the first seed for some devices of each island. Under S2S, devices that "
        "were not sampled do not wait for the server, unless a neighbour does."
    )
    about = [
        definitions([(f"Clock {name}", describe_clock(clock))])
        for name, clock in data.clocks.items()
    ]
    colours = {name: shades(colour) for name, colour in COLOURS.items()} | {"waiting": WAITING}
    plot = widget("time", clocks=clocks, colours=colours)
    return PageSection("time", "Time and energy", [words, *about, plot, *map(note, why)])


def describe_clock(clock: Clock) -> str:
    """The main numbers of a clock in a sentence."""
    compute, d2d, up, down, server = (
        clock.compute, clock.d2d, clock.uplink, clock.downlink, clock.server
    )  # fmt: skip
    parts = [
        f"a step takes {write_seconds(compute.seconds_per_step)}"
        + (f" (spread {compute.spread:g} between devices)" if compute.spread else "")
        + (" or as the device table says" if clock.devices else ""),
        f"between devices {_link(d2d.bandwidth, d2d.latency)} ({d2d.channel.replace('_', ' ')})",
        f"to the server {_link(up.bandwidth, up.latency)}",
        f"from the server {_link(down.bandwidth, down.latency)}",
    ]
    if down.broadcast is not None:
        parts.append(f"one broadcast to all {_link(down.broadcast, down.latency)}")
    for way, bandwidth in (("in", server.bandwidth_in), ("out", server.bandwidth_out)):
        parts += [f"the server's port {way} {_bandwidth(bandwidth)}"] if bandwidth else []
    if compute.watts or compute.idle_watts:
        parts.append(f"{compute.watts:g} W computing and {compute.idle_watts:g} W waiting")
    return "; ".join(parts) + "."


def _link(bandwidth: float | None, latency: float) -> str:
    return f"{_bandwidth(bandwidth)}, latency {write_seconds(latency)}"


def _bandwidth(value: float | None) -> str:
    if value is None:
        return "no limit"
    for size, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} B/s"


def _name(data: ReportData, measure: str, clock: str) -> str:
    """The name of a measure under a clock; empty if the runs do not have it."""
    name = clocked_name(measure, clock, data.clocks)
    return name if name in data.measures else ""


def _timelines(data: ReportData) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """By clock, the timelines of cells, each once; and the reasons why some are not shown."""
    found: dict[str, list[dict[str, Any]]] = {}
    why: dict[str, None] = {}
    if not data.clocks:
        return found, []
    with open_stores(data.grid.paths) as stores:
        histories = RunTable.stream(stores).histories
        same: dict[object, list[int]] = {}  # cells whose runs take the same time
        shown: dict[int, dict[str, Run]] = {}
        refused: dict[str, SkerryError] = {}
        for cell in range(len(data.grid.cells)):
            timed: dict[str, PricedRun] = {}
            shown[cell] = {}
            for label, run in _first_seed(data, cell).items():
                try:
                    sizes = recorded_sizes(run, histories[run.key])
                    one = PricedRun(run, sizes, run.rounds_done)
                    one.check()
                    timed[label], shown[cell][label] = one, run
                except SkerryError as error:
                    refused[run.key] = error
            if timed:
                same.setdefault((*timed, *(one.key for one in timed.values())), []).append(cell)
        if refused:
            count = plural(len(refused), "run")
            first = next(iter(refused.values()))
            why[f"{count} of the first seed cannot be drawn. The first: {first}"] = None
        if len(same) > MOST_DRAWN:
            why[f"Timelines are drawn for {MOST_DRAWN} of {len(same)} kinds of cells."] = None
        for name, clock in data.clocks.items():
            found[name] = []
            for cells in list(same.values())[:MOST_DRAWN]:
                runs = shown[cells[0]]
                try:
                    drawable_fleet(next(iter(runs.values())))
                    drawn = _packed(data, runs, read_timelines(runs, histories, clock))
                    found[name].append(drawn | {"cells": cells})
                except SkerryError as error:
                    why[str(error)] = None
    return found, list(why)


def _first_seed(data: ReportData, cell: int) -> dict[str, Run]:
    """By label, the runs of a cell with its lowest seed that have done a round."""
    by_label = data.grid.positions[data.grid.cells[cell]]
    seed = min(seed for runs in by_label.values() for seed in runs)
    runs = {
        label: data.runs[by_seed[seed]] for label, by_seed in by_label.items() if seed in by_seed
    }
    return {label: run for label, run in runs.items() if run.rounds_done}


def _packed(data: ReportData, runs: Mapping[str, Run], found: Timelines) -> dict[str, Any]:
    """Timelines for JSON, rounded to what a plot can show."""
    devices, islands = device_and_island_names(data, next(iter(runs.values())), found.fleet.labels)
    start, end = found.span
    digits = max(0, 4 - math.floor(math.log10(end - start))) if end > start else 0
    labels = data.grid.labels
    return {
        "devices": [devices[device] for device in found.devices],
        "islands": [islands[device] for device in found.devices],
        "island": [int(found.fleet.island_of[device]) for device in found.devices],
        "span": [round(start, digits), round(end, digits)],
        "lanes": {
            str(labels.index(label)): _packed_lane(found, lane, digits)
            for label, lane in found.lanes.items()
        },
    }


def _packed_lane(found: Timelines, lane: Timeline, digits: int) -> dict[str, Any]:
    """By device its segments as columns, and the server rounds; rounds are counted from 1."""
    rows = []
    for device in found.devices:
        segments = lane.segments[device]
        rows.append({
            "start": round(segments[0].start, digits) if segments else 0,
            "ends": [round(one.end, digits) for one in segments],
            "rounds": [one.round + 1 for one in segments],
            "does": "".join(one.activity[0] for one in segments),
        })  # fmt: skip
    met = [
        {
            "round": one.round + 1,
            "start": round(one.start, digits),
            "end": round(one.end, digits),
            "sent": [
                [row, round(one.sent[device], digits)]
                for row, device in enumerate(found.devices)
                if device in one.sent
            ],
        }
        for one in lane.server_rounds
    ]
    return {"rows": rows, "server": met}
