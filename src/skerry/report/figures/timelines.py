"""Timelines: who computes, talks and waits, as bars over seconds, a panel for each label."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from skerry.analysis.timeline import ACTIVITIES, Timelines, read_timelines, usual_rounds
from skerry.clock.settings import Clock, read_clock
from skerry.engine.timing import clock_of_file
from skerry.errors import SkerryError, argument
from skerry.report.figure_kinds import DrawnFigure, FigureRequest
from skerry.report.figures.panels import ASIDE, Panel, cell_title, draw_panels
from skerry.report.style import INK, safe_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skerry.config.experiment import Experiment
    from skerry.records.store import Run

COLOURS = {"computing": "#5B4B8A", "talking": "#E69F00", "waiting": "#C4C4C4"}
"""The colours of activities, which differ in lightness too, for print without colours."""
SERVER = "#E3EEF7"
BAR, ROW, GAP = 0.78, 0.13, 0.5  # height of a bar in rows, of a row in inches, between islands
MARGIN = 0.45  # inches of a panel beside its rows


def timeline(found: Timelines, label: str, axis: "Axes") -> "Axes":
    """Draw what some devices do over time: a bar for each, its colours the activities. Triangles
    are sampled devices that begin to send, and pale bands are server rounds."""
    from matplotlib.collections import PolyCollection

    lane, rows, islands = found.lanes[label], device_rows(found), found.fleet.island_of
    for met in lane.server_rounds:
        axis.axvspan(
            met.start, met.end, color=SERVER, linewidth=0, zorder=0, label="server round", gid=ASIDE
        )
    for activity in ACTIVITIES:
        bars = [
            [(one.start, low), (one.end, low), (one.end, low + BAR), (one.start, low + BAR)]
            for device, row in rows.items()
            for one in lane.segments[device]
            if one.activity == activity
            for low in [row - BAR / 2]
        ]
        drawn = PolyCollection(bars, facecolors=COLOURS[activity], linewidths=0, zorder=2)
        drawn.set_label(activity)
        axis.add_collection(drawn)
    sent = [(at, rows[d]) for met in lane.server_rounds for d, at in met.sent.items() if d in rows]
    if sent:
        axis.plot(
            *zip(*sent, strict=True), linestyle="none", marker=">", markersize=4, color=INK,
            markeredgecolor="#FFFFFF", markeredgewidth=0.4, zorder=3, label="sampled", gid=ASIDE,
        )  # fmt: skip
    names = [safe_text(found.fleet.labels[device], 12) for device in rows]
    axis.set_yticks(list(rows.values()), names)
    for island in dict.fromkeys(islands[device] for device in rows):
        here = [row for device, row in rows.items() if islands[device] == island]
        axis.text(
            1.01, sum(here) / len(here), f"island {island}", transform=axis.get_yaxis_transform(),
            rotation=270 if len(here) > 2 else 0, va="center", ha="left", fontsize="small",
        )  # fmt: skip
    axis.set_ylim(max(rows.values()) + 0.7, min(rows.values()) - 0.7)
    axis.tick_params(axis="y", length=0)
    start, end = found.span
    axis.set_xlim(start - 0.01 * (end - start), end + 0.01 * (end - start))
    axis.set_xlabel("time (s)")
    axis.set_ylabel("device")
    return axis


def device_rows(found: Timelines) -> dict[int, float]:
    """The row of every shown device, with a gap between islands."""
    rows, at = {}, 0.0
    for before, device in pairwise([found.devices[0], *found.devices]):
        at += GAP * (found.fleet.island_of[before] != found.fleet.island_of[device])
        rows[device] = at
        at += 1
    return rows


def draw_timeline(request: FigureRequest) -> DrawnFigure:
    """A panel for each label: the first cell, its lowest seed, the same devices and time axis."""
    table = replace(request, clock=None).table.where(request.where, request.compare).finished
    cell, by_label = next(iter(table.positions.items()))
    seed = min(seed for runs in by_label.values() for seed in runs)
    runs = {
        label: table.runs[by_label[label][seed]]
        for label in table.labels
        if seed in by_label.get(label, {})
    }
    clock = _clock(request, [run.experiment for run in runs.values()])
    rounds = _rounds(request, list(runs.values()))
    found = read_timelines(runs, table.histories, clock, rounds)
    drawn = [Panel(safe_text(label), partial(timeline, found, label)) for label in found.lanes]
    height = MARGIN + ROW * (max(device_rows(found).values()) + 1.4)
    notes = [
        f"Rounds {rounds.start + 1} to {rounds.stop} of seed {seed}; others: {argument('rounds')} "
        f"A:B, {argument('where')} seed=..."
    ]
    if len(table.cells) > 1:
        title = cell_title(table.axes, cell).replace("\u00a0", " ")
        notes.append(f"The first of {len(table.cells)} cells: {title}; others: {argument('where')}")
    return draw_panels(request, drawn, notes, columns=1, height=height)


def _clock(request: FigureRequest, experiments: "Sequence[Experiment]") -> Clock:
    """The requested clock, or the one that all runs have themselves."""
    if any(one.server.is_there and one.server.is_timed for one in experiments):
        raise SkerryError(
            "a timeline cannot show runs with server.deadline or server.over_sample: their records "
            f"do not say who was in time. Draw other runs: {argument('where')}, "
            f"{argument('compare')}"
        )
    if request.clock is not None:
        return read_clock(request.clock)
    own = {one.clock.file for one in experiments}
    if len(own) == 1 and (file := own.pop()):
        return clock_of_file(file)
    raise SkerryError(
        "a timeline needs a clock, which says how long steps and messages take. Give one, such as "
        f"{argument('clock')} wifi_home or a file of your own."
    )


def _rounds(request: FigureRequest, runs: "list[Run]") -> range:
    """The rounds to draw, from 0: as requested (from 1, ends included), else the usual ones."""
    if request.rounds is None:
        return usual_rounds(runs)
    most = max(run.rounds_done for run in runs)
    first, colon, last = request.rounds.partition(":")
    is_range = colon and first.strip().isdecimal() and last.strip().isdecimal()
    if not is_range or not 1 <= int(first) <= int(last) <= most:
        raise SkerryError(
            f"{argument('rounds')} must be A:B with 1 <= A <= B <= {most}, the rounds of the runs "
            f"(got '{request.rounds}'). Example: {argument('rounds')} 1:{min(8, most)}"
        )
    return range(int(first) - 1, int(last))
