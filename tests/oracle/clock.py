"""The clock of a fleet, device by device, as the rules of the recursion read.

The speeds of the devices are shared with the fast engine, as its random draws are; the arithmetic
is not.
"""

from skerry.clock.devices import device_speeds
from skerry.clock.settings import read_clock


class DeviceClock:
    """`T[i]` is the time of device i in seconds, and `joules[i]` what it has spent."""

    def __init__(self, world, experiment):
        self.clock = read_clock(experiment.clock.file)
        self.speeds = device_speeds(self.clock, world.fleet.labels, experiment.seed)
        self.n, self.island = world.n, world.fleet.island_of.tolist()
        self.bytes = 4 * world.shared_parameters
        self.T, self.joules = [0.0] * self.n, [0.0] * self.n

    def local_steps(self, t, steps, awake):
        seconds = self.speeds.step_seconds(t)
        for i in range(self.n):
            if awake[i]:
                self.T[i] += seconds[i] * steps[i]
                self.joules[i] += self.clock.compute.watts * seconds[i] * steps[i]

    def gossip(self, edges):
        """One gossip step: a device is done when it and all its neighbours have sent."""
        d2d, done = self.clock.d2d, list(self.T)
        neighbours = [[] for _ in range(self.n)]
        for i, j in edges:
            neighbours[i].append(j)
            neighbours[j].append(i)
        sending = [0.0] * self.n
        for i in range(self.n):
            times = {
                "parallel": 1,
                "one_by_one": len(neighbours[i]),
                "shared": sum(
                    len(neighbours[j]) for j in range(self.n) if self.island[j] == self.island[i]
                ),
            }[d2d.channel]
            if neighbours[i]:
                sending[i] = d2d.latency + times * self.bytes * self.speeds.d2d_n[i]
        for i in range(self.n):
            for_all = [done[j] + sending[j] for j in (i, *neighbours[i])]
            if neighbours[i]:
                self.wait(i, max(for_all), sending[i])
            self.joules[i] += 2 * len(neighbours[i]) * self.bytes * d2d.joules_per_byte

    def wait(self, i, until, talking):
        """Device i goes on at a time, and has talked for so many seconds before it."""
        spent = max(0.0, until - self.T[i])
        self.joules[i] += self.clock.compute.idle_watts * spent
        self.T[i] += spent

    def call(self, called):
        """All called devices send. Returns the call, and when the server has each message."""
        up, port = self.clock.uplink, self.clock.server.bandwidth_in
        call, arrived = min(self.T[i] for i in called), {}
        for i in called:
            sending = up.latency + self.bytes * self.speeds.uplink_n[i]
            self.T[i] += sending
            self.joules[i] += self.clock.compute.idle_watts * sending
            self.joules[i] += self.bytes * up.joules_per_byte
            arrived[i] = self.T[i]
        # Python's sort keeps the order of devices whose messages arrive together.
        for place, i in enumerate(sorted(called, key=arrived.__getitem__), 1):
            if port is not None:
                arrived[i] = max(arrived[i], call + place * self.bytes / port)
        return call, arrived

    def deliver(self, at, receivers, to_all):
        """The server sends to the receivers at a time; to all at once if it broadcasts."""
        down, port = self.clock.downlink, self.clock.server.bandwidth_out
        for i in receivers:
            if to_all and down.broadcast is not None:
                spent = down.latency + self.bytes / down.broadcast
                got = at + spent
            else:
                spent = down.latency + self.bytes * self.speeds.downlink_n[i]
                got = at + spent
                if port is not None:
                    got = max(got, at + len(receivers) * self.bytes / port)
            self.wait(i, got, spent)
            self.joules[i] += self.bytes * down.joules_per_byte


def in_time(server, call, arrived, K):
    """The devices that count, in the order in which they were called, and when the server goes on.

    `arrived` has the times of the messages by device, in the order of the call.
    """
    wanted = min(K, len(arrived))
    first = sorted(arrived, key=arrived.__getitem__)[:wanted]
    if server.deadline is not None:
        until = call + server.deadline
        first = [i for i in first if arrived[i] - call <= server.deadline * (1 + 1e-9)]
        if len(first) < server.at_least:
            return [], until
        if len(first) < wanted:
            return [i for i in arrived if i in first], until
    return [i for i in arrived if i in first], max(arrived[i] for i in first)


def weights_in_time(server, weights, S, island):
    """The weights of those in time; `weights` has those of all called devices."""
    whole = dict(weights)
    if server.selection == "one_each" or server.weights == "stratified":
        for i in S:
            mine = [j for j in weights if island[j] == island[i]]
            left = sum(weights[j] for j in mine if j in S)
            whole[i] = weights[i] * sum(weights[j] for j in mine) / left
    total = sum(whole[i] for i in S)
    return [whole[i] / total for i in S]
