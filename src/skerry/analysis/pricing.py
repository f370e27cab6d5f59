"""Seconds and joules of recorded runs under any clock, without running anything again.

Who is linked, awake and sampled follows from an experiment and its seed, and the sizes of messages
from what was recorded (where compressed links change, as their mean over the run). Runs that differ
only in what is learned, such as the stepsize, take the same time, so that many runs cost little
more than a few.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skerry.analysis import rebuild
from skerry.clock.devices import device_speeds
from skerry.clock.settings import Clock
from skerry.clock.times import MEASURES, Neighbours, ServerMessages, Times
from skerry.errors import RecordsError, SkerryError
from skerry.files import written
from skerry.methods.method import Method, overrides
from skerry.records.reading import SOURCE_OF

if TYPE_CHECKING:
    from skerry.analysis.run_table import RunTable
    from skerry.config.experiment import Experiment
    from skerry.engine.participation.awake import Awake
    from skerry.network.fleet import Fleet
    from skerry.records.parts import History
    from skerry.records.store import Run

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
_LINKS = ("uplink", "downlink", "d2d")
_LINKED = attrgetter("network", "availability", "seed")
_TIMED = attrgetter(
    "rounds", "network", "availability", "seed", "method", "training.local_steps",
    "training.local_epochs", "server.primitive", "server.beta", "server.sampled", "server.period",
    "server.offset", "server.selection", "server.sample_prob", "server.sampled_schedule",
    "server.sampled_end", "server.period_schedule", "server.period_end", "server.switch_round",
    "server.change_every", "server.beta_schedule", "server.beta_end",
)  # fmt: skip
"""The fields that decide how long a run takes, beside the sizes of its messages."""
Watch = Callable[[int, str, Times], None]
"""Called as `watch(t, phase, times)` after every phase of round t."""


def price(table: "RunTable", clock: Clock) -> "RunTable":
    """The table with the measures of time and energy in the histories of all its runs."""
    timed: dict[Hashable, PricedRun] = {}
    keys = {}
    for run in table.runs:
        if has_own_times(run, clock):
            continue
        history = table.histories[run.key]
        one = PricedRun(run, message_bytes(run, history), run.rounds_done)
        keys[run.key] = one.key
        known = timed.setdefault(one.key, one)
        if one.rounds > known.rounds:  # a stop rule has ended the other one earlier
            timed[one.key] = one
    by_fleet: dict[Hashable, list[PricedRun]] = {}
    for one in timed.values():
        by_fleet.setdefault(one.fleet_key, []).append(one)
    columns: dict[Hashable, Mapping[str, Array]] = {}
    for group in by_fleet.values():
        columns |= zip((one.key for one in group), _columns(group, clock), strict=True)
    histories = dict(table.histories)
    for run in (run for run in table.runs if run.key in keys):
        history, own = table.histories[run.key], columns[keys[run.key]]
        done = np.asarray(history["round"], dtype=int)
        histories[run.key] = {**history, **{name: own[name][done] for name in MEASURES}}
    return replace(table, histories=histories, known_fields=table.fields)


def has_own_times(run: "Run", clock: Clock) -> bool:
    """Whether a run was timed by this very clock and cannot be priced; its own times are used."""
    experiment = run.experiment
    file, path = experiment.clock.file, "clock.file"
    if not file or not _refusal(experiment):
        return False
    recorded = run.versions.get(f"{SOURCE_OF}{path}", "")
    if recorded != experiment.sources().get(path, ""):
        return False  # the file has changed since
    from skerry.engine.clock import clock_of_file

    try:
        return clock_of_file(file) == clock
    except SkerryError:
        return False


def _refusal(experiment: "Experiment") -> str:
    """Why the record of a run does not tell who took part in its server rounds, or nothing."""
    server, method = experiment.server, experiment.method.name
    if not server.is_there:
        return ""
    if server.is_timed:
        return "who took part depended on its own clock"
    if server.is_adaptive():
        return "its server rounds depend on the models"
    if server.selection not in rebuild.BY_SEED_ONLY:
        return f"server.selection = '{server.selection}' depends on more than the seed"
    if ":" in server.primitive:
        return f"primitive '{server.primitive}' does not tell whom it reaches"
    if ":" in method and overrides(_method_of(experiment), "aggregate"):
        return f"method '{method}' does not tell whom it reaches"
    return ""


@dataclass(frozen=True)
class PricedRun:
    """A recorded run, with the sizes of its messages and the number of its rounds."""

    run: "Run"
    sizes: tuple[float, float, float]
    """Bytes of a message up to the server, down from it, and between devices."""
    rounds: int

    @property
    def experiment(self) -> "Experiment":
        return self.run.experiment

    @cached_property
    def key(self) -> Hashable:
        """Runs with equal keys take the same time in every round."""
        data = self.experiment.data if self.experiment.training.local_epochs else None
        return (*_TIMED(self.experiment), self.sizes, data, self.run.materials.get("graph"))

    @property
    def fleet_key(self) -> Hashable:
        """Runs with equal keys have the same devices and links."""
        return *_LINKED(self.experiment), self.run.materials.get("graph")

    @cached_property
    def method(self) -> Method:
        return _method_of(self.experiment)

    def check(self) -> None:
        """Raise RecordsError where the record does not tell what happened."""
        reason, file = _refusal(self.experiment), self.experiment.clock.file
        if reason and file:
            raise RecordsError(
                f"run {self.run.key} cannot be priced by another clock than its own "
                f"({written(file)}), because {reason}. Leave the clock out: the run has recorded "
                "its seconds and joules."
            )
        if reason:
            raise RecordsError(
                f"run {self.run.key} cannot be priced afterwards, because {reason}. Put the clock "
                "into the experiment ([clock] file = ...), which measures time during the run."
            )


def _method_of(experiment: "Experiment") -> Method:
    from skerry.engine.stack import method_of

    return method_of(experiment) or Method()


def message_bytes(run: "Run", history: "History") -> tuple[float, float, float]:
    """Bytes of one message up, down and between devices, from the recorded totals."""
    found = []
    for link in _LINKS:
        counts, sent = (history.get(f"{link}_{what}") for what in ("messages", "bytes"))
        if counts is None or sent is None:
            raise RecordsError(
                f"run {run.key} has no {link}_bytes, so the sizes of its messages are unknown. Add "
                "communication to evaluate.measures and run it again."
            )
        measured = np.flatnonzero(np.isfinite(counts))
        last = measured[-1] if len(measured) else 0
        found.append(float(sent[last] / counts[last]) if counts[last] > 0 else 0.0)
    return found[0], found[1], found[2]


def _columns(group: Sequence[PricedRun], clock: Clock) -> Iterator[Mapping[str, Array]]:
    """The measures of runs that share their links, each by the number of rounds done."""
    rounds = max(one.rounds for one in group)
    found = {name: np.zeros((rounds + 1, len(group))) for name in MEASURES}

    def watch(t: int, phase: str, times: Times) -> None:
        if phase == "server":
            for name, values_l in times.measure().items():
                found[name][t + 1] = values_l

    run_clock(group, clock, watch)
    for lane in range(len(group)):
        yield {name: values[:, lane] for name, values in found.items()}


def run_clock(group: Sequence[PricedRun], clock: Clock, watch: Watch) -> Times:
    """Run the clock of runs that share their links, each a lane, to the end of the longest.

    `watch` is called after the phases "steps", "gossip" and "server" of every round.
    """
    for one in group:
        one.check()
    first = group[0]
    fleet = rebuild.rebuild_fleet(first.run)
    awake = _awake(first.experiment, fleet)
    fleet = fleet if awake is None else replace(fleet, awake=awake)
    speeds = device_speeds(clock, _names(first.run, fleet, clock), first.experiment.seed)
    times = Times(clock, speeds, len(group))
    steps_nl = np.stack([_local_steps(one, fleet) for one in group], axis=1)
    arrays_l = np.array([one.method.mixed_arrays for one in group])
    bytes_l = np.array([one.sizes[2] for one in group]) * arrays_l
    network, samples = first.experiment.network, _Samples(fleet)
    planned = [frozenset(one.experiment.server.server_rounds(one.rounds)) for one in group]
    links = None
    for t in range(max(one.rounds for one in group)):
        awake_n = None if awake is None else awake(t)
        times.local_steps(t, steps_nl, awake_n)
        watch(t, "steps", times)
        if links is None or not fleet.fixed:
            links = Neighbours.from_edges(fleet.edges(t), fleet.island_of)
        lanes: slice | Ints = slice(None)
        if not network.mix_with_server:
            lanes = np.flatnonzero([t not in one for one in planned])
        times.gossip(links, bytes_l[lanes], network.gossip_steps, lanes)
        watch(t, "gossip", times)
        for lanes, one in _same_server_round(group, planned, t):
            sampled_k = samples.at(one.experiment, t)
            if sampled_k is not None and len(sampled_k):
                messages = _messages(one, t, awake_n, fleet.devices)
                times.server_round(sampled_k, messages, lanes)
        watch(t, "server", times)
    return times


def _same_server_round(
    group: Sequence[PricedRun], planned: Sequence[frozenset[int]], t: int
) -> Iterator[tuple[Ints, PricedRun]]:
    """The lanes with a server round in round t, those with the same one together."""
    same: dict[Hashable, list[int]] = {}
    for lane, one in enumerate(group):
        if t in planned[lane]:
            server = one.experiment.server
            key = (server, one.sizes, one.experiment.method, one.experiment.rounds)
            same.setdefault(key, []).append(lane)
    for lanes in same.values():
        yield np.array(lanes), group[lanes[0]]


class _Samples:
    """The sampled devices of recorded runs on one fleet, drawn again once for equal servers."""

    def __init__(self, fleet: "Fleet"):
        self._fleet, self._known = fleet, dict[Hashable, Ints | None]()

    def at(self, experiment: "Experiment", t: int) -> Ints | None:
        server = experiment.server
        key = (t, experiment.rounds, server.selection, server.sample_prob, server.sampled,
               server.sampled_schedule, server.sampled_end, server.period, server.offset,
               server.period_schedule)  # fmt: skip
        if key not in self._known:
            found = rebuild.sampled_devices(experiment, self._fleet, t)
            self._known[key] = None if found is None else np.array(found, dtype=np.int64)
        return self._known[key]


def _messages(one: PricedRun, t: int, awake_n: NDArray[np.bool_] | None, n: int) -> ServerMessages:
    """The messages of a server round of a run."""
    from skerry.engine.clock import server_messages

    experiment = one.experiment
    up, down, _ = one.sizes
    everyone = np.arange(n)
    if awake_n is not None and not experiment.availability.reach_asleep:
        everyone = np.flatnonzero(awake_n)
    server = experiment.server.at(t, experiment.rounds)
    receivers = None if server.dial == 0 else everyone
    return server_messages(one.method, up, down, receivers, everyone)


def _awake(experiment: "Experiment", fleet: "Fleet") -> "Awake | None":
    from skerry.engine.participation.awake import Awake

    awake = Awake(experiment.availability, experiment.seed, fleet.island_of, fleet.labels)
    return None if awake.always else awake


def _local_steps(one: PricedRun, fleet: "Fleet") -> Ints:
    """The local steps of every device in a round."""
    training = one.experiment.training
    if not training.local_epochs:
        return np.full(fleet.devices, training.local_steps)
    from skerry.data.batches import LocalEpochs

    partition = rebuild.rebuild_partition(one.run, rebuild.rebuild_dataset(one.run))
    return LocalEpochs(partition, training.batch, training.local_epochs, 0).steps


def _names(run: "Run", fleet: "Fleet", clock: Clock) -> Sequence[str]:
    """The names of the devices, where the clock uses any."""
    experiment = run.experiment
    wanted = clock.compute.slow or clock.devices
    if not wanted or experiment.data.split != "given" or experiment.network.is_file:
        return fleet.labels
    from skerry.data.split import layout_of

    dataset = rebuild.rebuild_dataset(run)
    names = layout_of(dataset, experiment.network, experiment.data)[1]
    return names or fleet.labels
