"""Timelines of recorded runs: when each device computes, talks and waits under a clock."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from skerry.analysis import rebuild
from skerry.analysis.pricing import PricedRun, recorded_sizes, run_clock
from skerry.clock.devices import Array
from skerry.clock.settings import Clock
from skerry.clock.times import Times
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.network.fleet import Fleet
    from skerry.records.parts import History
    from skerry.records.store import Run

FEWEST_ROUNDS, MOST_ROUNDS = 5, 12  # of a timeline whose rounds are not named
MOST_DEVICES, PER_ISLAND = 12, 4  # devices that a timeline shows, and of each island
SHORTEST = 1e-9  # seconds; what is shorter is a rounding error
Activity = Literal["computing", "talking", "waiting"]
ACTIVITIES: tuple[Activity, ...] = ("computing", "talking", "waiting")


class Segment(NamedTuple):
    """A stretch of a device's time, in seconds."""

    round: int  # from 0
    activity: Activity
    start: float
    end: float


class ServerSpan(NamedTuple):
    """A server round: from the first sampled device that sends to the last one that receives."""

    round: int  # from 0
    start: float
    end: float
    sent: Mapping[int, float]
    """By sampled device, when it begins to send."""


@dataclass(frozen=True)
class Timeline:
    """The time of some devices in some rounds of a run."""

    segments: Mapping[int, Sequence[Segment]]
    """By device, its segments, each of which begins where the one before it ends."""
    server_rounds: Sequence[ServerSpan]


@dataclass(frozen=True)
class Timelines:
    """The timelines of runs that are compared, all with the same devices and rounds."""

    fleet: "Fleet"
    devices: Sequence[int]
    """The shown devices, island by island."""
    lanes: Mapping[str, Timeline]
    """By label."""

    @property
    def span(self) -> tuple[float, float]:
        """When the first segment begins and the last ends, over all labels; 0 to 1 without any."""
        every = [one for lane in self.lanes.values() for one in lane.segments.values() if one]
        start = min((one[0].start for one in every), default=0.0)
        return start, max((one[-1].end for one in every), default=1.0)


def read_timelines(
    runs: Mapping[str, "Run"],
    histories: Mapping[str, "History"],
    clock: Clock,
    rounds: range | None = None,
) -> Timelines:
    """The timelines of runs of one fleet and seed by label; default rounds: `usual_rounds`."""
    rounds = usual_rounds(list(runs.values())) if rounds is None else rounds
    first = next(iter(runs.values()))
    fleet = rebuild.rebuild_fleet(first)
    with suppress(SkerryError):  # data that are not on this machine
        fleet = replace(fleet, labels=tuple(rebuild.device_names(first, fleet)))
    priced = {
        label: PricedRun(run, recorded_sizes(run, histories[run.key]), run.rounds_done)
        for label, run in runs.items()
    }
    for one in priced.values():
        one.check()
    samples = {
        label: {t: rebuild.sampled_devices(run.experiment, fleet, t) or [] for t in rounds}
        for label, run in runs.items()
    }
    called = chain.from_iterable(found for lane in samples.values() for found in lane.values())
    devices = choose_devices(fleet.island_of.tolist(), list(called))
    return Timelines(
        fleet,
        devices,
        {label: _timeline(one, clock, samples[label], devices) for label, one in priced.items()},
    )


def usual_rounds(runs: Sequence["Run"]) -> range:
    """From just before the first server round to just after the second: 5 to 12 rounds."""
    last = max(run.rounds_done for run in runs)
    servers = [(run.experiment.server, run.experiment.rounds) for run in runs]
    met = sorted({t for one, rounds in servers for t in one.known_rounds(rounds) if t < last})
    start = max(0, met[0] - 2) if met else 0
    after = max(met[1] + 2, start + FEWEST_ROUNDS) if len(met) > 1 else last
    return range(start, min(last, start + MOST_ROUNDS, after))


def choose_devices(island_of: Sequence[int], sampled: Sequence[int]) -> list[int]:
    """Up to four devices of each island, half of them sampled ones where there are such, and at
    most twelve in all. Islands with sampled devices come first."""
    called = list(dict.fromkeys(sampled))
    found: list[int] = []
    for island in dict.fromkeys([*(island_of[device] for device in called), *island_of]):
        ours = [device for device in called if island_of[device] == island]
        others = [d for d, c in enumerate(island_of) if c == island and d not in ours]
        half = max(PER_ISLAND // 2, PER_ISLAND - len(others))
        chosen = [*ours[:half], *others][:PER_ISLAND]
        if len(found) + len(chosen) > MOST_DEVICES:
            break
        found += chosen
    return sorted(found)


def _timeline(
    run: PricedRun, clock: Clock, samples: Mapping[int, Sequence[int]], devices: Sequence[int]
) -> Timeline:
    """The timeline of a run; `samples` are the sampled devices of each round that it shows."""
    segments: dict[int, list[Segment]] = {device: [] for device in devices}
    server_rounds = []
    bytes_up = run.method.up * run.sizes[0]
    before: Array | float = 0.0

    def watch(t: int, phase: str, times: Times) -> None:
        nonlocal before
        now = times.state[:, :, 0].copy()  # T, computing, talking, waiting, joules of each device
        last, before = np.zeros_like(now) + before, now
        if t not in samples:
            return
        at_n, sending_n = last[0], np.zeros(now.shape[1])
        if phase == "server" and (sent := list(samples[t])):
            sending_n[sent] = times.clock.uplink.latency + times.speeds.uplink_n[sent] * bytes_up
            reached_n = now[0] > at_n
            begins = {device: float(at_n[device]) for device in sent}
            ends = max(now[0, reached_n], default=min(begins.values()))
            server_rounds.append(ServerSpan(t, min(begins.values()), float(ends), begins))
        for activity, seconds_n in _parts(phase, now - last, sending_n):
            for device in devices:
                if seconds_n[device] > SHORTEST:
                    start = float(at_n[device])
                    segment = Segment(t, activity, start, start + float(seconds_n[device]))
                    segments[device].append(segment)
            at_n = at_n + seconds_n

    run_clock([run], clock, watch)
    return Timeline(segments, server_rounds)


def _parts(phase: str, spent: Array, sending_n: Array) -> list[tuple[Activity, Array]]:
    """The activities of devices in a phase, in this order, with the seconds of each."""
    _, computing_n, talking_n, waiting_n, _ = spent
    if phase == "server":  # a sampled device sends at once; what the server sends arrives last
        sent_n = np.minimum(sending_n, talking_n)
        return [("talking", sent_n), ("waiting", waiting_n), ("talking", talking_n - sent_n)]
    return [("computing", computing_n), ("talking", talking_n), ("waiting", waiting_n)]
