"""Time by a plain simulation of events, one message after the other: the oracle of the clock.

Every device follows its own list of actions. A heap holds what will happen: local steps are done, a
message has left, arrives, has reached the server, or is delivered. It shares no code with
`skerry.clock.times`.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from skerry.clock.devices import DeviceSpeeds
from skerry.clock.settings import Clock


@dataclass(frozen=True)
class ServerCall:
    """A server round: who sends and who receives, and the sizes of the messages."""

    sampled: tuple[int, ...]
    reached: tuple[int, ...]
    up: float
    down: float
    down_to_sampled: float = 0.0
    to_all: bool = False


@dataclass(frozen=True)
class PlainRound:
    """A round as its messages: local steps of every device, links that are up, a server round."""

    steps: tuple[int, ...]
    awake: tuple[bool, ...]
    edges: tuple[tuple[int, int], ...]
    gossip_steps: int = 1
    d2d: float = 0.0
    server: ServerCall | None = None


@dataclass
class Spent:
    """What one device has spent, and its time after every round."""

    computing: float = 0.0
    talking: float = 0.0
    waiting: float = 0.0
    joules: float = 0.0
    ends: list[float] = field(default_factory=list)


class Fleet:
    """Devices and a server that exchange messages in a heap of events."""

    def __init__(self, clock: Clock, speeds: DeviceSpeeds, islands: list[int]):
        self.clock, self.speeds, self.islands = clock, speeds, islands
        self.spent = [Spent() for _ in islands]
        self.now = [0.0 for _ in islands]
        self.heap: list = []
        self.order = count()
        self.arrived: dict = defaultdict(dict)  # by device and purpose, the time of each message
        self.uploads: dict = defaultdict(list)  # by round, (began, arrived) at the server
        self.waits: dict = {}  # by device, the purpose and number of messages it waits for

    def run(self, rounds: list[PlainRound]) -> list[Spent]:
        self.rounds = rounds
        self.actions = [iter(self.actions_of(i)) for i in range(len(self.islands))]
        for i in range(len(self.islands)):
            self.resume(i)
        while self.heap:
            time, _, happens, *about = heapq.heappop(self.heap)
            happens(time, *about)
        return self.spent

    def later(self, time, happens, *about):
        heapq.heappush(self.heap, (time, next(self.order), happens, *about))

    # What a device does

    def actions_of(self, i):
        """One action after the other: (what to begin, the messages to wait for)."""
        for t, one in enumerate(self.rounds):
            if one.awake[i]:
                yield self.begin_steps, t, None, 0
                near = [b if a == i else a for a, b in one.edges if i in (a, b)]
                for step in range(one.gossip_steps if near else 0):
                    purpose = ("gossip", t, step)
                    yield self.begin_sending, (t, near, purpose), purpose, len(near)
            call = one.server
            if call and i in call.sampled:
                yield self.begin_upload, t, None, 0
            if call and i in call.reached:
                yield self.begin_waiting, t, ("server", t), 1
            yield self.note_end, t, None, 0

    def resume(self, i):
        """Begin the next action of a device, at its own time."""
        action = next(self.actions[i], None)
        if action is not None:
            begin, about, purpose, messages = action
            self.waits[i] = [purpose, messages, True]  # True: its own part is not done
            begin(i, about)

    def done(self, time, i):
        """A device's own part of an action is done; it may still wait for messages."""
        self.now[i] = time
        self.waits[i][2] = False
        self.look(i)

    def look(self, i):
        """Go on if a device has everything that it waits for."""
        purpose, messages, busy = self.waits[i]
        got = self.arrived[i, purpose]
        if busy or len(got) < messages:
            return
        last = max(got.values(), default=0.0)
        if last > self.now[i]:
            waited = last - self.now[i]
            self.spent[i].joules += self.clock.compute.idle_watts * waited
            if purpose[0] == "server":  # receiving takes a part of it
                talked = min(waited, self.receiving(i, purpose[1]))
                self.spent[i].talking += talked
                waited -= talked
            self.spent[i].waiting += waited
            self.now[i] = last
        self.waits[i] = [None, 0, True]
        self.resume(i)

    def begin_steps(self, i, t):
        lasts = float(self.speeds.step_seconds(t)[i]) * self.rounds[t].steps[i]
        self.spent[i].computing += lasts
        self.spent[i].joules += self.clock.compute.watts * lasts
        self.later(self.now[i] + lasts, self.done, i)

    def begin_sending(self, i, about):
        t, near, purpose = about
        d2d, one = self.clock.d2d, self.rounds[t]
        messages = {"parallel": 1, "one_by_one": len(near)}.get(d2d.channel)
        if messages is None:  # every link of the island carries a message each way
            messages = 2 * sum(self.islands[a] == self.islands[i] for a, _ in one.edges)
        lasts = d2d.latency + messages * one.d2d * float(self.speeds.d2d_n[i])
        self.spent[i].talking += lasts
        self.spent[i].joules += self.clock.compute.idle_watts * lasts
        self.spent[i].joules += len(near) * d2d.joules_per_byte * one.d2d
        self.later(self.now[i] + lasts, self.done, i)
        for j in near:
            self.later(self.now[i] + lasts, self.arrive, i, j, purpose, one.d2d)

    def arrive(self, time, sender, i, purpose, size):
        self.spent[i].joules += self.clock.d2d.joules_per_byte * size
        self.arrived[i, purpose][sender] = time
        if i in self.waits and self.waits[i][0] == purpose:
            self.look(i)

    def begin_upload(self, i, t):
        call, uplink = self.rounds[t].server, self.clock.uplink
        lasts = uplink.latency + call.up * float(self.speeds.uplink_n[i])
        self.spent[i].talking += lasts
        self.spent[i].joules += self.clock.compute.idle_watts * lasts
        self.spent[i].joules += uplink.joules_per_byte * call.up
        self.later(self.now[i] + lasts, self.receive, t, self.now[i])
        self.later(self.now[i] + lasts, self.done, i)

    def begin_waiting(self, i, t):
        self.later(self.now[i], self.done, i)

    def note_end(self, i, t):
        self.spent[i].ends.append(self.now[i])
        self.later(self.now[i], self.done, i)

    # What the server does

    def receive(self, time, t, began):
        call, port = self.rounds[t].server, self.clock.server.bandwidth_in
        self.uploads[t].append(began)
        if len(self.uploads[t]) < len(call.sampled):
            return
        if port is not None:
            time = max(time, min(self.uploads[t]) + len(call.sampled) * call.up / port)
        self.later(time, self.send_out, t)

    def send_out(self, time, t):
        call, port = self.rounds[t].server, self.clock.server.bandwidth_out
        queued = sum(self.single(j, call) for j in call.reached)
        for i in call.reached:
            arrives = time + self.receiving(i, t)
            if port is not None:
                arrives = max(arrives, time + queued / port)
            self.later(arrives, self.deliver, i, t)

    def deliver(self, time, i, t):
        call = self.rounds[t].server
        size = call.down + (call.down_to_sampled if i in call.sampled else 0.0)
        self.spent[i].joules += self.clock.downlink.joules_per_byte * size
        self.arrived[i, ("server", t)]["server"] = time
        if i in self.waits and self.waits[i][0] == ("server", t):
            self.look(i)

    def single(self, i, call):
        """Bytes to this device alone."""
        own = call.down_to_sampled if i in call.sampled else 0.0
        return own if self.casts(call) else call.down + own

    def casts(self, call):
        return call.to_all and self.clock.downlink.broadcast is not None

    def receiving(self, i, t):
        """Seconds from the server's sending until a device has its message, on an idle port."""
        call, down = self.rounds[t].server, self.clock.downlink
        lasts = down.latency + self.single(i, call) * float(self.speeds.downlink_n[i])
        return lasts + (call.down / down.broadcast if self.casts(call) else 0.0)


def simulate(
    clock: Clock, speeds: DeviceSpeeds, islands: list[int], rounds: list[PlainRound]
) -> dict[str, np.ndarray]:
    """T after every round [t, n], and what every device has spent at the end [n]."""
    spent = Fleet(clock, speeds, islands).run(rounds)
    found = {"T": np.array([one.ends for one in spent]).T}
    for name in ("computing", "talking", "waiting", "joules"):
        found[name] = np.array([getattr(one, name) for one in spent])
    return found
