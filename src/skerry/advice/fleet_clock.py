"""Seconds and joules of settings on a fleet, computed from the clock without running them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from skerry.advice.settings import Candidate, Entry
from skerry.advice.target import ClockUnit
from skerry.analysis.pricing import Array, PlannedRun, PricedRun, clock_columns
from skerry.clock.settings import Clock
from skerry.config import labels
from skerry.config.experiment import Experiment
from skerry.engine.message_sizes import BYTES_PER_PARAMETER, bytes_per_message
from skerry.engine.stack import build_stack
from skerry.errors import SkerryError, argument
from skerry.network.fleet import Fleet, build_fleet
from skerry.network.graphs import read_graphs

if TYPE_CHECKING:
    from skerry.engine.world import World

SEEDS = 3  # over which the cost of a whole run is averaged
SLOWER = 2.0


@dataclass(frozen=True)
class FleetClock:
    """The seconds and joules of settings of one experiment after every round, by seed.

    Who is linked, awake and sampled follows from the experiment and the seed, so nothing is run.
    """

    clock: Clock
    base: Experiment
    world: "World"
    world_of: Callable[[Experiment], "World"]
    _curves: dict[tuple[Candidate, int], Mapping[str, Array]] = field(default_factory=dict)
    _fleets: dict[Any, Fleet] = field(default_factory=dict)
    _sizes: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _graphs: dict[str, Any] = field(default_factory=dict)

    def under(self, clock: Clock) -> "FleetClock":
        """A copy of this fleet under another clock."""
        return replace(self, clock=clock, _curves={})

    def for_rounds(self, rounds: int) -> "FleetClock":
        """The clock of shorter runs; schedules and traces may depend on the number of rounds."""
        if rounds == self.base.rounds:
            return self
        base = self.base.model_copy(update={"rounds": rounds})
        return replace(self, base=base, _curves={}, _fleets={})

    @property
    def seeds(self) -> range:
        """The seeds over which the cost of a whole run is averaged."""
        return range(self.base.seed, self.base.seed + SEEDS)

    def cost(self, candidate: Candidate, rounds: int, unit: ClockUnit) -> float:
        """Mean seconds or joules of a whole run."""
        spent = [self.spent(candidate, seed, rounds, unit) for seed in self.seeds]
        return sum(spent) / len(spent)

    def spent(self, candidate: Candidate, seed: int, rounds: int, unit: ClockUnit) -> float:
        """Seconds or joules of one run after so many rounds."""
        timed = _timed(candidate)
        if (timed, seed) not in self._curves:
            self.prepare([candidate], [seed])
        return float(self._curves[timed, seed][unit][rounds])

    def prepare(self, candidates: Iterable[Candidate], seeds: Iterable[int] | None = None) -> None:
        """Compute many settings at once, which is much faster than one by one."""
        timed = dict.fromkeys(map(_timed, candidates))
        for seed in self.seeds if seeds is None else seeds:
            by_fleet: dict[Any, dict[Candidate, PricedRun]] = {}
            for one in timed:
                if (one, seed) not in self._curves:
                    run = self._planned(one, seed)
                    by_fleet.setdefault(run.fleet_key, {})[one] = run
            for runs in by_fleet.values():
                columns = clock_columns(list(runs.values()), self.clock)
                for one, found in zip(runs, columns, strict=True):
                    kept: Mapping[str, Array] = {
                        unit: found[unit] for unit in ("seconds", "joules")
                    }
                    self._curves[one, seed] = kept

    def _planned(self, candidate: Candidate, seed: int) -> PricedRun:
        run = Entry(candidate, self.base.training.stepsize).run(self.base, seed)
        steps_n = None
        if run.training.local_epochs and (epochs := self.world_of(run).local_epochs):
            steps_n = epochs.steps
        planned = PlannedRun(run, self._fleet(run), steps_n)
        found = PricedRun(planned, self._message_bytes(candidate, run), run.rounds)
        if found.obstacle:
            raise SkerryError(
                f"{argument('clock')} cannot tell how long {candidate.label} takes, because "
                f"{found.obstacle}. Ask without a clock."
            )
        return found

    def _fleet(self, run: Experiment) -> Fleet:
        network, key = run.network, (run.network, run.seed)
        if key not in self._fleets:
            graph: Any = self.world.materials.graph
            if graph is None and network.is_file:
                if network.topology not in self._graphs:
                    self._graphs[network.topology] = read_graphs(network.topology)
                graph = self._graphs[network.topology]
            names = self.world.fleet.labels
            self._fleets[key] = build_fleet(network, run.seed, graph, names, run.rounds)
        return self._fleets[key]

    def _message_bytes(self, candidate: Candidate, run: Experiment) -> tuple[float, float, float]:
        """Bytes of a message up, down and between devices; equal but for compression."""
        if not (run.network.compresses or run.server.compresses):
            return (float(BYTES_PER_PARAMETER * self.world.shared_parameters),) * 3
        kind = f"{candidate.preset} {candidate.has_server}"
        if kind not in self._sizes:
            same = {"seed": self.world.seed, "rounds": self.world.rounds}
            lane = run.model_copy(update=same)
            up, down, d2d = bytes_per_message(build_stack(self.world, [lane]))[0]
            self._sizes[kind] = float(up), float(down), float(d2d)
        return self._sizes[kind]


@dataclass(frozen=True)
class ChangedClock:
    """Seconds and joules under another clock, estimated on all seeds from their ratio on a few."""

    now: FleetClock
    then: FleetClock

    def spent(self, candidate: Candidate, seed: int, rounds: int, unit: ClockUnit) -> float:
        """Seconds or joules of one run after so many rounds."""
        before, after = (
            sum(clock.spent(candidate, one, rounds, unit) for one in self.now.seeds)
            for clock in (self.now, self.then)
        )
        ratio = after / before if before else 1.0
        return ratio * self.now.spent(candidate, seed, rounds, unit)


def _timed(candidate: Candidate) -> Candidate:
    """A setting that takes the same time: every blend reaches all devices, as S2A does."""
    if candidate.primitive == labels.BLEND and not candidate.preset:
        return replace(candidate, primitive="s2a", beta=None)
    return candidate


def changed_clocks(clock: Clock) -> dict[str, Clock]:
    """By condition in words, clocks of a slower or other fleet."""
    found: dict[str, Clock] = {}
    up, down = clock.uplink, clock.downlink
    if not clock.devices:  # a table of devices has speeds of its own
        if up.bandwidth is not None or up.latency:
            slower = {"latency": SLOWER * up.latency}
            if up.bandwidth is not None:
                slower["bandwidth"] = up.bandwidth / SLOWER
            found["the uplink were twice as slow"] = _with(clock, "uplink", **slower)
        step = SLOWER * clock.compute.seconds_per_step
        if step:
            slow = _with(clock, "compute", seconds_per_step=step)
            found["computing took twice as long"] = slow
    if down.broadcast is not None:
        found["the server could not broadcast"] = _with(clock, "downlink", broadcast=None)
    elif (bandwidth := down.bandwidth or clock.server.bandwidth_out) is not None:
        one = _with(clock, "downlink", broadcast=bandwidth)
        found["the server could broadcast to all devices at once"] = one
    return found


def _with(clock: Clock, section: str, **fields: Any) -> Clock:
    changed = getattr(clock, section).model_copy(update=fields)
    return clock.model_copy(update={section: changed})
