"""Seconds and joules of recorded runs under any clock, without running anything again.

Who is linked, awake and sampled follows from an experiment and its seed, and the sizes of messages
from what was recorded (where compressed links change, as their mean over the run). Runs that differ
only in what is learned, such as the stepsize, take the same time, so that many runs cost little
more than a few.
"""

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skerry.analysis import rebuild
from skerry.clock.devices import device_speeds
from skerry.clock.settings import AnyClock, Clock, read_clock
from skerry.clock.times import MEASURES, Neighbours, ServerMessages, Times
from skerry.config.measures import LINKS
from skerry.config.toml import EXAMPLE_CLOCKS
from skerry.errors import DataError, NetworkError, RecordsError, SkerryError, SkerryWarning
from skerry.files import exists, looked_at, user_path, written
from skerry.methods.method import Method, overrides, server_messages, traffic_of
from skerry.plugins import registry
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
_FLEET = attrgetter("rounds", "network", "availability", "seed")
"""The fields that decide who is linked and awake."""
_SAMPLE = attrgetter(
    "sampled", "period", "offset", "selection", "sample_prob", "sampled_schedule", "sampled_end",
    "period_schedule", "period_end", "switch_round", "change_every",
)  # fmt: skip
"""The fields of a server that decide when it samples whom."""
_REACH = attrgetter("primitive", "beta", "beta_schedule", "beta_end")
"""The fields of a server that decide whom it reaches."""
_CLOCK_FILE = "clock.file"
_DECIDING = ("network.topology", "availability.", "server.", "method.")
"""The beginnings of the fields whose code and files decide how long a run takes."""
Watch = Callable[[int, str, Times], None]
"""Called as `watch(t, phase, times)` after every phase of round t."""


NO_PRICE = RecordsError, NetworkError, DataError
"""A run has no price if its record, its graph file or its data do not tell what happened."""


def price(table: "RunTable", clock: AnyClock) -> "RunTable":
    """The table with the measures of time and energy in the histories of its runs. Runs without a
    price are left out with a warning; if no other is left, the reason is raised."""
    clock, source = read_clock(clock), clock_source(clock)
    timed: dict[Hashable, PricedRun] = {}
    keys: dict[str, Hashable] = {}
    refused: dict[str, SkerryError] = {}
    runs = [run for run in table.runs if run.rounds_done]  # others failed or wait: they took none
    for run in runs:
        if has_own_times(run, clock, source):
            continue
        history = table.histories[run.key]
        try:
            sizes = recorded_sizes(run, history)
            one = PricedRun(run, sizes, run.rounds_done, recorded_messages(history))
            one.check()
        except RecordsError as error:
            refused[run.key] = error
            continue
        keys[run.key] = one.key
        known = timed.setdefault(one.key, one)
        if one.rounds > known.rounds:  # a stop rule has ended the other one earlier
            timed[one.key] = one
    by_fleet: dict[Hashable, list[PricedRun]] = {}
    for one in timed.values():
        by_fleet.setdefault(one.fleet_key, []).append(one)
    columns: dict[Hashable, Mapping[str, Array] | SkerryError] = {}
    for group in by_fleet.values():
        columns |= _columns(group, clock)
    histories = {run.key: table.histories[run.key] for run in table.runs}
    for run_key, key in keys.items():
        history, own = histories[run_key], columns[key]
        if isinstance(own, SkerryError):
            refused[run_key] = own
            continue
        done = np.asarray(history["round"], dtype=int)
        histories[run_key] = {**history, **{name: own[name][done] for name in MEASURES}}
    if refused:
        _leave_out(list(refused.values()), len(runs))
    left = tuple(run for run in table.runs if run.key not in refused)
    histories = {run.key: histories[run.key] for run in left}
    return replace(table, runs=left, histories=histories, known_fields=table.fields)


def _columns(
    group: Sequence["PricedRun"], clock: Clock
) -> dict[Hashable, Mapping[str, Array] | SkerryError]:
    """By key, the measures of runs that share their links, or why a run has no price."""
    try:
        return dict(zip((one.key for one in group), clock_columns(group, clock), strict=True))
    except NO_PRICE as error:
        if len(group) == 1:
            return {group[0].key: error}
        half = len(group) // 2  # some may have one
        return _columns(group[:half], clock) | _columns(group[half:], clock)


def _leave_out(refused: Sequence[SkerryError], runs: int) -> None:
    """Warn of runs without a price; raise the first reason if there are no others."""
    if len(refused) == runs:
        raise refused[0]
    are = "has no price and is" if len(refused) == 1 else "have no price and are"
    first = "" if len(refused) == 1 else ", the first of them"
    warnings.warn(
        f"{len(refused):,} of {runs:,} runs {are} left out{first}: {refused[0]}",
        SkerryWarning,
        stacklevel=4,
    )


def clock_source(clock: AnyClock) -> str:
    """The hash of a clock file and its device table as runs record it; empty for other clocks."""
    from skerry.config.experiment import Experiment

    if not isinstance(clock, str | Path):
        return ""
    named = Experiment.parse({"clock": {"file": str(clock)}})
    return named.sources().get(_CLOCK_FILE, "")


def has_own_times(run: "Run", clock: Clock, source: str = "") -> bool:
    """Whether a run was timed by this very clock and cannot be priced; its own times are used.

    `source` is the hash of the clock's file, which may be a copy of that of the run.
    """
    experiment = run.experiment
    file = experiment.clock.file
    if not file or not _obstacle(experiment):
        return False
    recorded = run.versions.get(f"{SOURCE_OF}{_CLOCK_FILE}", "")
    if recorded and recorded == source:
        return True
    if recorded != experiment.sources().get(_CLOCK_FILE, ""):
        return False  # the file has changed since, or is not found
    from skerry.engine.timing import clock_of_file

    try:
        return _with_full_path(clock_of_file(file)) == _with_full_path(clock)
    except SkerryError:
        return False


def _with_full_path(clock: Clock) -> Clock:
    """The clock with the one path of its device table, to be compared."""
    devices = clock.devices and str(user_path(clock.devices).resolve())
    return clock.model_copy(update={"devices": devices})


def _obstacle(experiment: "Experiment") -> str:
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
class PlannedRun:
    """An experiment that was not run: its fleet is given instead of rebuilt from a record."""

    experiment: "Experiment"
    fleet: "Fleet"
    """The network, whose labels are the names of the devices."""
    steps_n: Ints | None = None
    """The local steps of every device in a round, with local epochs."""
    key: str = ""
    materials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PricedRun:
    """A recorded or planned run, with the sizes of its messages and the number of its rounds."""

    run: "Run | PlannedRun"
    sizes: tuple[float, float, float]
    """Bytes of a message up to the server, down from it, and between devices."""
    rounds: int
    messages: tuple[float, ...] | None = None
    """The recorded messages up, down and between devices, to compare with; None: unknown."""

    @property
    def experiment(self) -> "Experiment":
        return self.run.experiment

    @cached_property
    def key(self) -> Hashable:
        """Runs with equal keys take the same time in every round."""
        training = self.experiment.training
        steps: Hashable = training.local_steps
        if training.local_epochs:
            steps = training.local_epochs, training.batch, *self._data_key
        return self.fleet_key, self.server_key, steps, tuple(self.sources.items())

    @cached_property
    def fleet_key(self) -> Hashable:
        """Runs with equal keys have the same devices and links."""
        named = self._data_key if self.takes_names_from_data else ()
        return *_FLEET(self.experiment), self.run.materials.get("graph"), *named

    @cached_property
    def server_key(self) -> Hashable:
        """Runs with equal keys on one fleet have the same messages."""
        server = self.experiment.server
        return *_SAMPLE(server), *_REACH(server), self.experiment.method, self.sizes

    @property
    def _data_key(self) -> tuple[Hashable, ...]:
        return self.experiment.data, self.run.materials.get("dataset")

    @property
    def takes_names_from_data(self) -> bool:
        experiment = self.experiment
        return experiment.data.split == "given" and not experiment.network.is_file

    @cached_property
    def method(self) -> Method:
        return _method_of(self.experiment)

    @property
    def obstacle(self) -> str:
        """Why the experiment does not tell how long the run takes; empty if it does."""
        if not isinstance(self.run, PlannedRun):
            has_graph = "graph" in self.run.materials
            if has_graph and not self.experiment.network.is_file:
                return "its graph was given from Python, so it is not in the store"
        return _obstacle(self.experiment)

    @cached_property
    def sources(self) -> dict[str, str]:
        """Hashes of the recorded code and files that decide who is linked, awake and sampled."""
        if isinstance(self.run, PlannedRun):
            return {}
        named = ((path.removeprefix(SOURCE_OF), now) for path, now in self.run.versions.items())
        return {path: source for path, source in named if path.startswith(_DECIDING)}

    def check_sources(self) -> None:
        """Raise RecordsError where code or a file of the run was edited since it was recorded."""
        now = self.experiment.sources() if self.sources else {}
        for path, source in self.sources.items():
            if source != now.get(path, ""):
                raise RecordsError(
                    f"run {self.run.key} cannot be priced, because what {path} names has changed "
                    "since it was recorded. Restore it."
                )

    def check(self) -> None:
        """Raise RecordsError where the record does not tell what happened."""
        if self.obstacle:
            raise self.refusal(self.obstacle)
        self.check_sources()

    def refusal(self, reason: str) -> RecordsError:
        """The error that a run cannot be priced, with the way out."""
        if file := self.experiment.clock.file:
            own = written(file)
            if file not in EXAMPLE_CLOCKS and not exists(user_path(file)):
                own += f", of which there is no file {looked_at(file)}"
            return RecordsError(
                f"run {self.run.key} cannot be priced by another clock than its own "
                f"({own}), because {reason}. Leave the clock out: the run has recorded "
                "its seconds and joules."
            )
        return RecordsError(
            f"run {self.run.key} cannot be priced afterwards, because {reason}. Put the clock "
            "into the experiment ([clock] file = ...), which measures time during the run."
        )


def _method_of(experiment: "Experiment") -> Method:
    choice = experiment.method
    if choice.is_plain:
        return Method()
    return registry.build("method", choice.name, choice.options_for("method"), Method)


def recorded_sizes(run: "Run", history: "History") -> tuple[float, float, float]:
    """Bytes of one message up, down and between devices, from the recorded totals."""
    found = []
    for link in LINKS:
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


def recorded_messages(history: "History") -> tuple[float, ...] | None:
    """Messages up, down and between devices after the last round; None if it was not measured."""
    last = [history[f"{link}_messages"][-1] for link in LINKS if f"{link}_messages" in history]
    return tuple(map(float, last)) if len(last) == len(LINKS) and np.isfinite(last).all() else None


def clock_columns(group: Sequence[PricedRun], clock: Clock) -> Iterator[Mapping[str, Array]]:
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
    fleet = _named_fleet(first, clock)
    awake = _awake(first.experiment, fleet)
    fleet = fleet if awake is None else replace(fleet, awake=awake)
    speeds = device_speeds(clock, fleet.labels, first.experiment.seed)
    times = Times(clock, speeds, len(group))
    steps_nl = np.stack([_local_steps(one, fleet) for one in group], axis=1)
    arrays_l = np.array([one.method.mixed_arrays for one in group])
    bytes_l = np.array([one.sizes[2] for one in group]) * arrays_l
    network, samples = first.experiment.network, _Samples(fleet, awake)
    planned = [
        frozenset(one.experiment.server.server_rounds(one.experiment.rounds)) for one in group
    ]
    sent_l3 = np.zeros((len(group), len(LINKS)))
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
        sent_l3[lanes, 2] += network.gossip_steps * arrays_l[lanes] * len(links.of)
        watch(t, "gossip", times)
        for lanes, one in _same_server_round(group, planned, t):
            sampled_k = samples.at(one.experiment, t)
            if len(sampled_k):
                messages, sent = _messages(one, t, awake_n, fleet.devices, len(sampled_k))
                times.server_round(sampled_k, messages, lanes)
                sent_l3[lanes, :2] += sent
        watch(t, "server", times)
        for lane, one in enumerate(group):
            if one.rounds == t + 1 and one.messages not in (None, (*sent_l3[lane],)):
                raise one.refusal("its recorded messages are others than its settings tell")
    return times


def _same_server_round(
    group: Sequence[PricedRun], planned: Sequence[frozenset[int]], t: int
) -> Iterator[tuple[Ints, PricedRun]]:
    """The lanes with a server round in round t, those with the same one together."""
    same: dict[Hashable, list[int]] = {}
    for lane, one in enumerate(group):
        if t in planned[lane]:
            same.setdefault(one.server_key, []).append(lane)
    for lanes in same.values():
        yield np.array(lanes), group[lanes[0]]


class _Samples:
    """The sampled devices of recorded runs on one fleet, drawn again once for equal servers."""

    def __init__(self, fleet: "Fleet", awake: "Awake | None"):
        self._fleet, self._awake = fleet, awake
        self._known: dict[Hashable, Ints] = {}

    def at(self, experiment: "Experiment", t: int) -> Ints:
        key = t, *_SAMPLE(experiment.server)
        if key not in self._known:
            found = rebuild.draw_sample(experiment, self._fleet, t, self._awake)
            self._known[key] = np.array(found, dtype=np.int64)
        return self._known[key]


def _messages(
    one: PricedRun, t: int, awake_n: NDArray[np.bool_] | None, n: int, sampled: int
) -> tuple[ServerMessages, tuple[int, int]]:
    """The messages of a server round of a run, and how many there are up and down."""
    experiment = one.experiment
    up, down, _ = one.sizes
    everyone = np.arange(n)
    if awake_n is not None and not experiment.availability.reach_asleep:
        everyone = np.flatnonzero(awake_n)
    server = experiment.server.at(t, experiment.rounds)
    receivers = None if server.dial == 0 else everyone
    reached = sampled if receivers is None else len(receivers)
    sent = traffic_of(one.method, sampled, reached, len(everyone))
    return server_messages(one.method, up, down, receivers, everyone), (sent.up, sent.down)


def _awake(experiment: "Experiment", fleet: "Fleet") -> "Awake | None":
    from skerry.engine.participation.awake import Awake

    awake = Awake(experiment.availability, experiment.seed, fleet.island_of, fleet.labels)
    return None if awake.always else awake


def _local_steps(one: PricedRun, fleet: "Fleet") -> Ints:
    """The local steps of every device in a round."""
    training = one.experiment.training
    if not training.local_epochs:
        return np.full(fleet.devices, training.local_steps)
    if isinstance(one.run, PlannedRun):
        assert one.run.steps_n is not None
        return one.run.steps_n
    from skerry.data.batches import LocalEpochs

    partition = rebuild.rebuild_partition(one.run, rebuild.rebuild_dataset(one.run))
    return LocalEpochs(partition, training.batch, training.local_epochs, 0).steps


def _named_fleet(one: PricedRun, clock: Clock) -> "Fleet":
    """The fleet of a run. Where the data name its devices and names are used, it has them."""
    if isinstance(one.run, PlannedRun):
        return one.run.fleet
    fleet, availability = rebuild.rebuild_fleet(one.run), one.experiment.availability
    uses = clock.compute.slow or clock.devices or isinstance(availability.awake, str)
    if not uses or not one.takes_names_from_data:
        return fleet
    return replace(fleet, labels=tuple(rebuild.device_names(one.run, fleet)))
