"""The recursion of time: when every device is done with a round, and what it has spent.

Every device has its own time, 0 at the start. A device waits only for the messages that it needs:
those of its neighbours after its local steps, and in a server round for what the server delivers
to it. All arrays are [n, l], for the lanes whose devices have the same links.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skerry.clock.devices import Array, DeviceSpeeds
from skerry.clock.settings import Channel, Clock
from skerry.config.measures import GROUPS

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
ACCOUNTS = ("T", "computing", "talking", "waiting", "joules")
"""The arrays of `Times`, in the order in which `Times.state` stacks them."""


@dataclass(frozen=True)
class Neighbours:
    """The links of a round: the neighbours of every device, in one array sorted by device."""

    of: Ints
    """The neighbours of device 0, then those of device 1, and so on."""
    starts: Ints
    """Where the neighbours of each device in `linked` begin."""
    linked: Ints
    """The devices that have neighbours."""
    counts_n: Ints
    island_counts_n: Ints
    """For every device, the number of messages on its island in one gossip step."""

    @classmethod
    def from_edges(cls, edges: Ints, island_of: Ints) -> "Neighbours":
        """From rows of two devices each, and the island of every device."""
        n = len(island_of)
        both = np.concatenate([edges, edges[:, ::-1]]) if len(edges) else edges.reshape(0, 2)
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        counts_n = np.bincount(both[:, 0], minlength=n)
        linked = np.flatnonzero(counts_n)
        starts = np.concatenate([[0], np.cumsum(counts_n)])[linked]
        on_island = np.bincount(island_of, weights=counts_n).astype(np.int64)
        return cls(both[:, 1], starts, linked, counts_n, on_island[island_of])


@dataclass(frozen=True)
class ServerMessages:
    """The messages of a server round, in bytes, and who receives one."""

    up: float
    """Bytes that a sampled device sends."""
    down: float
    """Bytes that every device receives that the server reaches."""
    down_to_sampled: float = 0.0
    """Bytes that a sampled device receives beside those."""
    reached: Ints | None = None
    """The devices that the server reaches; None: only the sampled ones."""
    to_all: bool = False
    """Whether the server reaches every device that is awake, so that it may broadcast."""


class Times:
    """The time of every device of a fleet, and how it was spent: computing, talking, waiting."""

    def __init__(self, clock: Clock, speeds: DeviceSpeeds, lanes: int = 1):
        self.clock, self.speeds = clock, speeds
        self._accounts = np.zeros((len(ACCOUNTS), speeds.devices, lanes))
        self.T, self.computing, self.talking, self.waiting, self.joules = self._accounts

    @property
    def state(self) -> Array:
        """All accounts as one array [5, n, l], to be saved; assign it to continue from it."""
        return self._accounts

    @state.setter
    def state(self, accounts: Array) -> None:
        self._accounts[:] = accounts

    # A round

    def local_steps(self, t: int, steps: int | Ints, awake_n: Mask | None = None) -> None:
        """All local steps of round t: one number, one for each device, or also by lane [n, l]."""
        steps_nl = np.asarray(steps) if np.ndim(steps) == 2 else np.reshape(steps, (-1, 1))
        spent_nl = self.speeds.step_seconds(t)[:, None] * steps_nl
        if awake_n is not None:
            spent_nl = np.where(awake_n[:, None], spent_nl, 0.0)
        self.T += spent_nl
        self.computing += spent_nl
        self.joules += self.clock.compute.watts * spent_nl

    def gossip(
        self,
        links: Neighbours,
        bytes_l: Array | float,
        steps: int = 1,
        lanes: slice | Ints = slice(None),
    ) -> None:
        """Gossip steps over the links of a round, with messages of so many bytes in each lane."""
        if not len(links.linked) or not steps:
            return
        some, d2d = links.linked, self.clock.d2d
        times_n = _transmissions(links, d2d.channel)[some]
        sending = d2d.latency + (times_n * self.speeds.d2d_n[some])[:, None] * bytes_l
        bytes_sl: Array = links.counts_n[some][:, None] * np.asarray(bytes_l, dtype=float)
        for _ in range(steps):
            sent = self.T[:, lanes]  # a copy where lanes are numbers
            sent = sent.copy() if isinstance(lanes, slice) else sent
            sent[some] += sending
            last = np.maximum.reduceat(sent[links.of], links.starts, axis=0)
            self._until(some, np.maximum(sent[some], last), sending, lanes)
            self._add(self.joules, some, lanes, 2 * d2d.joules_per_byte * bytes_sl)

    # A server round, for lanes that share a sample

    def ready(self, sampled_k: Ints, lanes: slice | Ints = slice(None)) -> Array:
        """When the first of these devices is ready to send, [l]: the server's call."""
        return np.asarray(self._columns(self.T, sampled_k, lanes).min(axis=0))

    def served(self, sampled_k: Ints, bytes_: float, lanes: slice | Ints = slice(None)) -> Array:
        """When the server would have each message of these devices, [k, l].

        Its port takes messages in the order in which they arrive, from the call on.
        """
        port, uplink = self.clock.server.bandwidth_in, self.clock.uplink
        spent_k = uplink.latency + self.speeds.uplink_n[sampled_k] * bytes_
        arrived_kl = self._columns(self.T, sampled_k, lanes) + spent_k[:, None]
        if port is None:
            return np.asarray(arrived_kl)
        place_kl = arrived_kl.argsort(axis=0, kind="stable").argsort(axis=0) + 1
        return np.maximum(arrived_kl, self.ready(sampled_k, lanes) + place_kl * bytes_ / port)

    def upload(self, sampled_k: Ints, bytes_: float, lanes: slice | Ints = slice(None)) -> Array:
        """The sampled devices send to the server; returns when each message arrives, [k, l]."""
        uplink = self.clock.uplink
        spent_k = uplink.latency + self.speeds.uplink_n[sampled_k] * bytes_
        before_kl = self._columns(self.T, sampled_k, lanes)
        self._add(self.T, sampled_k, lanes, spent_k[:, None])
        self._add(self.talking, sampled_k, lanes, spent_k[:, None])
        idle_k = self.clock.compute.idle_watts * spent_k
        self._add(self.joules, sampled_k, lanes, uplink.joules_per_byte * bytes_ + idle_k[:, None])
        return np.asarray(before_kl + spent_k[:, None])

    def deliver(
        self,
        at_l: Array,
        sampled_k: Ints,
        messages: ServerMessages,
        lanes: slice | Ints = slice(None),
    ) -> None:
        """The server sends to the devices that it reaches, from the times `at_l` on."""
        clock, reached = self.clock, messages.reached
        reached = sampled_k if reached is None else reached
        down = clock.downlink
        own = np.zeros(self.speeds.devices)
        own[sampled_k] = messages.down_to_sampled
        bytes_r = messages.down + own[reached]
        alone_r, spent_r = bytes_r, np.full(len(reached), down.latency)
        if messages.to_all and down.broadcast is not None:
            alone_r = own[reached]
            spent_r += messages.down / down.broadcast
        spent_r += self.speeds.downlink_n[reached] * alone_r
        got = at_l + spent_r[:, None]
        if clock.server.bandwidth_out is not None:
            got = np.maximum(got, at_l + alone_r.sum() / clock.server.bandwidth_out)
        self._until(reached, got, spent_r[:, None], lanes)
        self._add(self.joules, reached, lanes, (down.joules_per_byte * bytes_r)[:, None])

    def server_round(
        self, sampled_k: Ints, messages: ServerMessages, lanes: slice | Ints = slice(None)
    ) -> None:
        """A whole server round without a deadline."""
        began_l = self.ready(sampled_k, lanes)
        arrived_kl = self.upload(sampled_k, messages.up, lanes)
        at_l = self.received(began_l, arrived_kl, messages.up)
        self.deliver(at_l, sampled_k, messages, lanes)

    def received(self, began_l: Array, arrived_kl: Array, bytes_: float) -> Array:
        """When the server has all these messages, the first of which could leave at `began_l`."""
        at_l, port = np.asarray(arrived_kl.max(axis=0)), self.clock.server.bandwidth_in
        return at_l if port is None else np.maximum(at_l, began_l + len(arrived_kl) * bytes_ / port)

    # Accounts

    def _until(
        self,
        rows: Ints,
        until: Array,
        talking: Array | float,
        lanes: slice | Ints = slice(None),
    ) -> None:
        """Devices reach a time: at most `talking` seconds of it they talk, the rest they wait."""
        before = self._columns(self.T, rows, lanes)
        spent = np.maximum(until - before, 0.0)
        talked = np.minimum(spent, talking)
        waited = spent - talked
        self._add(self.T, rows, lanes, spent)
        self._add(self.talking, rows, lanes, talked)
        self._add(self.waiting, rows, lanes, waited)
        self._add(self.joules, rows, lanes, self.clock.compute.idle_watts * spent)

    @staticmethod
    def _columns(account: Array, rows: Ints, lanes: slice | Ints) -> Array:
        return account[rows][:, lanes]

    @staticmethod
    def _add(account: Array, rows: Ints, lanes: slice | Ints, amount: Array | float) -> None:
        if isinstance(lanes, slice):
            account[rows, lanes] += amount
        else:
            account[np.ix_(rows, lanes)] += amount

    # Measures

    def measure(self) -> dict[str, Array]:
        """The measures of time and energy after the rounds so far, [l] each."""
        total = self.T.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(total > 0, 100 * self.waiting.sum(axis=0) / total, 0.0)
        compute, joules = self.clock.compute, self.joules.sum(axis=0)
        computing = compute.watts * self.computing.sum(axis=0)
        idle = compute.idle_watts * (self.waiting + self.talking).sum(axis=0)
        return {
            "seconds": self.T.max(axis=0),
            "seconds_mean": self.T.mean(axis=0),
            "waiting": share,
            "joules": joules,
            "joules_max": self.joules.max(axis=0),
            "joules_computing": computing,
            "joules_talking": np.maximum(joules - computing - idle, 0.0),
        }


def _transmissions(links: Neighbours, channel: Channel) -> Ints:
    """How many messages, one after the other, a device's own message takes."""
    if channel == "one_by_one":
        return links.counts_n
    if channel == "shared":
        return links.island_counts_n
    return np.ones_like(links.counts_n)


MEASURES: Sequence[str] = GROUPS["clock"]
