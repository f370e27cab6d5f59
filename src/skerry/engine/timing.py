"""The clock of a stack: when the devices of its lanes are done, and who is in time for the server.

Lanes of a server group have the same links, samples and receivers, so they share a column of
`Times`; where the models decide who is sampled, each lane has its own. The accounts are part of the
state, a row of numbers for each lane, so that a resumed run continues as it would have. All of it
is computed on the host, for all devices on every rank.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from skerry.clock.deadline import InTime, in_time
from skerry.clock.devices import device_speeds
from skerry.clock.settings import Clock, read_clock
from skerry.clock.times import ACCOUNTS, MEASURES, Ints, Neighbours, ServerMessages, Times
from skerry.engine.message_sizes import D2D, DOWN, UP, bytes_per_message
from skerry.engine.missed_messages import CatchUp
from skerry.engine.participation.sampler import Sample
from skerry.engine.server import Memory
from skerry.errors import ExperimentError, SkerryError
from skerry.files import plain_path, written
from skerry.methods.method import Method, Traffic, server_messages, traffic_of

if TYPE_CHECKING:
    from skerry.engine.stack import ServerGroup, Stack

CLOCK = "clock"
"""The name of the clock's accounts among the memories of a state: [L, 5 n] in double precision."""
Array = NDArray[np.float64]


def clock_of_file(file: str) -> Clock:
    """The clock that an experiment names; faults of its fields name the file."""
    found = plain_path(file)
    name = found if found != file else written(file)
    try:
        return read_clock(name)
    except ExperimentError as error:
        faults = [one if name in one else f"{name}: {one}" for one in error.faults]
        raise ExperimentError(*faults) from None


def build_clocks(stack: "Stack") -> tuple["StackClock", ...]:
    """The clocks of a stack, each for the lanes that name it; none where no lane has a clock."""
    files = dict.fromkeys(one.clock.file for one in stack.experiments if one.clock.file)
    return tuple(StackClock(stack, file) for file in files)


def start_clocks(stack: "Stack", memory: Memory) -> None:
    """Add the accounts of all lanes, before the first round."""
    if stack.clocks:
        memory[CLOCK] = torch.zeros(len(stack), len(ACCOUNTS) * stack.world.n, dtype=torch.float64)


def measure_clocks(stack: "Stack", memory: Memory) -> dict[str, Array]:
    """Seconds and joules of all lanes, [L] each: NaN in lanes without a clock."""
    if not stack.clocks:
        return {}
    found = {name: np.full(len(stack), np.nan) for name in MEASURES}
    for clock in stack.clocks:
        clock.load(memory)
        for name, values_c in clock.times.measure().items():
            for lanes, value in zip(clock.columns, values_c, strict=True):
                found[name][lanes] = value
    return found


class StackClock:
    """One clock, for the lanes of a stack that name it."""

    def __init__(self, stack: "Stack", file: str):
        world, clock = stack.world, clock_of_file(file)
        self._stack, self._sizes = stack, bytes_per_message(stack)
        self.columns: list[slice] = []
        """The lanes of each column of `times`."""
        for group in stack.servers:
            if stack.experiments[group.lanes.start].clock.file == file:
                self.columns += _columns_of(group)
        speeds = device_speeds(clock, world.fleet.labels, world.seed)
        self.times = Times(clock, speeds, len(self.columns))
        epochs, steps = world.local_epochs, world.experiment.training.local_steps
        self._steps_n = np.full(world.n, steps) if epochs is None else epochs.steps
        self._links: dict[int, Neighbours] = {}
        self._missed = CatchUp()

    def load(self, memory: Memory) -> None:
        """Continue from the accounts of a state."""
        memory[CLOCK] = memory[CLOCK].cpu()  # where a GPU resumes a run, it is there
        rows_c = memory[CLOCK][[lanes.start for lanes in self.columns]].numpy()
        accounts = rows_c.reshape(len(rows_c), len(ACCOUNTS), self._stack.world.n)
        self.times.state = accounts.transpose(1, 2, 0)

    def save(self, memory: Memory) -> None:
        """Write the accounts into a state."""
        for column, lanes in enumerate(self.columns):
            row = np.ascontiguousarray(self.times.state[:, :, column]).reshape(-1)
            memory[CLOCK][lanes] = torch.from_numpy(row)

    def train(self, t: int) -> None:
        """The local steps and the mixing of round t."""
        steps_nc = np.repeat(self._steps_n[:, None], len(self.columns), axis=1)
        for group in self._stack.mixing:
            some = self._within(group.lanes)
            if len(some) and group.awake is not None:
                steps_nc[:, some] *= group.awake(t)[:, None]
        self.times.local_steps(t, steps_nc)
        for number, group in enumerate(self._stack.mixing):
            some, fleet = self._within(group.lanes), group.mixer.fleet
            if not len(some) or not group.steps_in(t):
                continue
            if number not in self._links or not fleet.fixed:
                self._links[number] = Neighbours.from_edges(fleet.edges(t), fleet.island_of)
            links, steps = self._links[number], group.steps_in(t)
            size = float(self._sizes[group.lanes.start, D2D] * group.mixed_arrays)
            if group.compression is not None and not fleet.fixed and len(links.of):
                missed = self._missed.bytes(group, self._stack.world, t)
                size += missed / (steps * len(links.of))  # spread over all messages
            self.times.gossip(links, size, steps, some)

    def measures(self, lanes: slice) -> bool:
        """Whether it is the clock of these lanes."""
        return len(self._within(lanes)) > 0

    def _within(self, lanes: slice) -> Ints:
        """The columns of these lanes."""
        inside = [lanes.start <= own.start < lanes.stop for own in self.columns]
        return np.flatnonzero(inside)

    # Server rounds

    def call(self, group: "ServerGroup", called_k: Ints, lanes: slice) -> InTime:
        """Which of the called devices are in time."""
        column, server = self._within(lanes), group.server
        up = float(self._sizes[lanes.start, UP] * (group.method or Method()).up)
        began = float(self.times.ready(called_k, column)[0])
        served_k = self.times.served(called_k, up, column)[:, 0]
        return in_time(began, served_k, server.sampled, server.deadline, server.at_least)

    def upload(self, called_k: Ints, lanes: slice, method: Method) -> None:
        """Called devices send, and no answer comes."""
        up = float(self._sizes[lanes.start, UP] * method.up)
        self.times.upload(called_k, up, self._within(lanes))

    def server_round(
        self, called_k: Ints, messages: ServerMessages, lanes: slice, call: InTime | None
    ) -> None:
        """The server round of these lanes, whose outcome is known."""
        columns = self._within(lanes)
        if call is None:
            self.times.server_round(called_k, messages, columns)
            return
        self.times.upload(called_k, messages.up, columns)
        self.times.deliver(np.array([call.at]), called_k[call.counted], messages, columns)

    def messages(
        self, group: "ServerGroup", sample: Sample, lanes: slice, sent: Traffic, changed: Ints
    ) -> ServerMessages:
        """The messages of a server round of which `sent` was sent, and in which a user's own
        primitive changed the models of the devices `changed`."""
        up, down = (float(self._sizes[lanes.start, link]) for link in (UP, DOWN))
        everyone = np.arange(self._stack.world.n)
        if sample.asleep is not None and not group.reaches_asleep:
            everyone = np.setdiff1d(everyone, sample.asleep.cpu().numpy())
        method, dial, count = group.method or Method(), group.server.dial, len(sample)
        if dial is not None:
            receivers = count if dial == 0 else len(everyone)
            if sent == traffic_of(method, count, receivers, len(everyone)):
                return server_messages(method, up, down, None if dial == 0 else everyone, everyone)
        reached = _reached(sent.down, dial, sample.devices_k.cpu().numpy(), changed, everyone)
        return ServerMessages(
            up=up * sent.up / count,
            down=down * sent.down / max(1, len(reached)),
            reached=reached,
            to_all=dial != 0 and len(reached) == len(everyone),
        )


def _reached(sent: int, dial: float | None, sampled_k: Ints, changed: Ints, everyone: Ints) -> Ints:
    """The devices that share `sent` vectors of a user's own method or primitive: those that are
    known to be reached, if each receives as many."""
    if not sent:
        return changed[:0]
    both = np.union1d(changed, sampled_k)
    known = [sampled_k if dial == 0 else everyone] if dial is not None else [both, changed]
    if dial is None and sent == len(everyone):
        known = [everyone]
    alike = (some for some in known if len(some) and sent % len(some) == 0)
    return next(alike, everyone if sent >= len(everyone) else both)


def check_uplink(name: str, method: Method, sent: Traffic, sampled: int) -> None:
    """Refuse a method whose messages are longer than the deadline was computed with."""
    if sent.up != method.up * sampled:
        raise SkerryError(
            f"method '{name}' must say in its attribute up how many vectors a sampled device "
            f"sends, because a deadline needs to know it (got {sent.up} from {sampled} devices, "
            f"up = {method.up}). Set up in the class."
        )


def _columns_of(group: "ServerGroup") -> list[slice]:
    """The lanes of a server group that have the same times."""
    if not group.sampler.needs_distances:
        return [group.lanes]
    return [slice(lane, lane + 1) for lane in range(group.lanes.start, group.lanes.stop)]
