"""The recursion of time: worked examples to 1e-9, and laws that hold for every fleet and clock."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skerry.clock.devices import DeviceSpeeds, device_speeds
from skerry.clock.settings import Clock
from skerry.clock.times import Neighbours, ServerMessages, Times

# Worked examples: two paths 0-1-2 and 3-4-5, of which device 4 is slow; messages of one byte.

PATHS = np.array([[0, 1], [1, 2], [3, 4], [4, 5]])
ISLANDS = np.array([0, 0, 0, 1, 1, 1])
SAMPLES = {1: np.array([0, 5]), 3: np.array([2, 3])}
NAMES = [str(device) for device in range(6)]
PATHS_CLOCK = {
    "compute": {"seconds_per_step": 1.0, "slow": {"4": 3.0}},
    "d2d": {"latency": 0.1, "bandwidth": 1 / 0.2},
    "uplink": {"latency": 0.2, "bandwidth": 1 / 0.5},
    "downlink": {"latency": 0.2, "bandwidth": 1 / 0.25},
}
BROADCAST = {"downlink": PATHS_CLOCK["downlink"] | {"broadcast": 1 / 0.3}}
PORTS = {"server": {"bandwidth_in": 1 / 0.5, "bandwidth_out": 1 / 0.25}}
ONE_BY_ONE = {"d2d": PATHS_CLOCK["d2d"] | {"channel": "one_by_one"}}
WORKED = {
    "S2S": (False, {}, [3.3, 7.75, 9.9, 14.35, 16.5], [11.65, 15.65, 15.65, 16.5, 16.5, 16.5]),
    "S2A": (True, {}, [3.3, 7.75, 11.05, 15.5, 18.8], [16.8] * 3 + [18.8] * 3),
    "S2A, broadcast": (True, BROADCAST, [3.3, 7.8, 11.1, 15.6, 18.9], [16.9] * 3 + [18.9] * 3),
    "S2S, ports": (False, PORTS, [3.3, 7.8, 9.9, 14.4, 16.5], [11.7, 15.7, 15.7] + [16.5] * 3),
    "S2A, ports": (True, PORTS, [3.3, 8.8, 12.1, 17.6, 20.9], [18.9] * 3 + [20.9] * 3),
    "S2S, one by one": (False, ONE_BY_ONE, [None] * 4 + [17.5], [12.45, 16.45, 16.45] + [17.5] * 3),
}
"""To all or to the sampled, the clock's other tables, max_i T_i after rounds 1 to 5, and T_i."""


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples(name):
    """Times after every round, and of every device at the end, are those computed by hand."""
    to_all, tables, rounds, ends = WORKED[name]
    clock = Clock.parse(PATHS_CLOCK | tables)
    times = Times(clock, device_speeds(clock, NAMES, seed=0))
    links = Neighbours.from_edges(PATHS, ISLANDS)
    reached = np.arange(6) if to_all else None
    for t, expected in enumerate(rounds):
        times.local_steps(t, 1)
        times.gossip(links, 1.0)
        if t in SAMPLES:
            times.server_round(SAMPLES[t], ServerMessages(1, 1, reached=reached, to_all=to_all))
        if expected is not None:
            assert times.measure()["seconds"][0] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(times.T[:, 0], ends, rtol=0, atol=1e-9)
    assert times.measure()["seconds_mean"][0] == pytest.approx(np.mean(ends), abs=1e-9)


def test_the_mean_of_the_last_worked_example():
    assert np.mean(WORKED["S2S, one by one"][3]) == pytest.approx(16.308333, abs=1e-6)


# Laws, on random fleets


class Case:
    """A random fleet with random messages, which runs under any clock and any speeds."""

    def __init__(self, seed: int):
        rng = self.rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 5, rng.integers(1, 4))
        self.island_of = np.repeat(np.arange(len(sizes)), sizes)
        self.n, self.seed = int(sizes.sum()), seed
        self.sleepy = rng.choice([0.0, 0.3])
        self.rounds = [self._round() for _ in range(rng.integers(2, 7))]
        self.clock = Clock.parse(
            {
                "compute": {
                    "seconds_per_step": rng.uniform(0.1, 2),
                    "spread": rng.choice([0.0, 0.6]),
                    "jitter": rng.choice([0.0, 0.3]),
                    "watts": rng.uniform(0, 5),
                    "idle_watts": rng.uniform(0, 1),
                },
                "d2d": {
                    "bandwidth": rng.uniform(1, 9),
                    "latency": rng.uniform(0, 0.3),
                    "channel": rng.choice(["parallel", "one_by_one", "shared"]).item(),
                    "joules_per_byte": rng.uniform(0, 1),
                },
                "uplink": {
                    "bandwidth": rng.uniform(1, 9),
                    "latency": rng.uniform(0, 0.5),
                    "joules_per_byte": rng.uniform(0, 1),
                },
                "downlink": {
                    "bandwidth": rng.uniform(1, 9),
                    "latency": rng.uniform(0, 0.5),
                    "joules_per_byte": rng.uniform(0, 1),
                },
                "server": {
                    "bandwidth_in": rng.choice([None, 5.0]),
                    "bandwidth_out": rng.choice([None, 5.0]),
                },
            }
        )

    def _round(self):
        rng, n = self.rng, self.n
        awake_n = rng.random(n) >= self.sleepy
        pairs = [
            (i, j)
            for i in range(n)
            for j in range(i + 1, n)
            if self.island_of[i] == self.island_of[j] and awake_n[[i, j]].all()
        ]
        kept = [pair for pair in pairs if rng.random() < 0.6]
        sampled, up = None, np.flatnonzero(awake_n)
        if len(up) and rng.random() < 0.6:
            sampled = rng.choice(up, rng.integers(1, len(up) + 1), replace=False)
        edges = np.array(kept, dtype=np.int64).reshape(-1, 2)
        steps_n, gossip = rng.integers(1, 4, n), int(rng.integers(1, 3))
        return awake_n, edges, steps_n, gossip, sampled

    def speeds(self, clock: Clock | None = None) -> DeviceSpeeds:
        return device_speeds(clock or self.clock, [str(i) for i in range(self.n)], self.seed)

    def run(
        self,
        *,
        clock: Clock | None = None,
        speeds: DeviceSpeeds | None = None,
        to_all: bool = False,
        server: bool = True,
        sizes: tuple[float, float, float] = (4.0, 3.0, 5.0),
        lanes: int = 1,
        watch=lambda times: None,
    ) -> Times:
        """Messages of these bytes up, down and between devices; lane l has l more in each."""
        clock = clock or self.clock
        times = Times(clock, speeds or self.speeds(clock), lanes)
        up, down, d2d = sizes
        for t, (awake_n, edges, steps_n, gossip, sampled) in enumerate(self.rounds):
            times.local_steps(t, steps_n, awake_n)
            watch(times)
            links = Neighbours.from_edges(edges, self.island_of)
            times.gossip(links, d2d + np.arange(lanes), gossip)
            watch(times)
            reached = np.flatnonzero(awake_n) if to_all else None
            for lane in range(lanes) if sampled is not None and server else ():
                messages = ServerMessages(
                    up + lane, down + lane, 2.0, reached=reached, to_all=to_all
                )
                times.server_round(sampled, messages, np.array([lane]))
            watch(times)
        return times

    @property
    def d2d_messages(self) -> int:
        return sum(2 * len(edges) * gossip for _, edges, _, gossip, _ in self.rounds)

    @property
    def samples(self) -> list:
        return [sampled for *_, sampled in self.rounds if sampled is not None]


def only(clock: Clock, section: str, **fields: float) -> Clock:
    """The clock with the energy of one kind alone."""
    free = {
        "compute": {"watts": 0.0, "idle_watts": 0.0},
        **{link: {"joules_per_byte": 0.0} for link in ("d2d", "uplink", "downlink")},
    }
    free[section] = free[section] | fields
    sections = {name: getattr(clock, name).model_copy(update=new) for name, new in free.items()}
    return clock.model_copy(update=sections)


cases = st.integers(0, 2**32 - 1).map(Case)
primitives = st.booleans()


@given(case=cases, to_all=primitives)
def test_times_never_go_back(case, to_all):
    """In no phase of a round does the time, or anything that is spent, become less."""
    before = [np.zeros((5, case.n, 1))]

    def watch(times):
        assert (times.state >= before[0] - 1e-12).all()
        before[0] = times.state.copy()

    case.run(to_all=to_all, watch=watch)


@given(case=cases, to_all=primitives, data=st.data())
def test_nobody_is_later_if_somebody_is_faster(case, to_all, data):
    """A faster device, or a faster link of a device, never makes anyone later."""
    speeds = case.speeds()
    usual = case.run(speeds=speeds, to_all=to_all)
    name = data.draw(st.sampled_from(["step_n", "d2d_n", "uplink_n", "downlink_n"]))
    device = data.draw(st.integers(0, case.n - 1))
    faster_n = getattr(speeds, name).copy()
    faster_n[device] *= data.draw(st.floats(0, 0.9))
    faster = case.run(speeds=replace(speeds, **{name: faster_n}), to_all=to_all)
    assert (faster.T <= usual.T + 1e-9).all()


@given(case=cases, to_all=primitives, data=st.data())
def test_nobody_is_later_with_a_better_network(case, to_all, data):
    """Nor does a shorter latency or a wider port of the server."""
    section, field = data.draw(
        st.sampled_from(
            [
                ("d2d", "latency"),
                ("uplink", "latency"),
                ("downlink", "latency"),
                ("server", "bandwidth_in"),
                ("server", "bandwidth_out"),
            ]
        )
    )
    old = getattr(case.clock, section)
    value = 0.0 if field == "latency" else None
    new = case.clock.model_copy(update={section: old.model_copy(update={field: value})})
    assert (case.run(clock=new, to_all=to_all).T <= case.run(to_all=to_all).T + 1e-9).all()


@given(case=cases, to_all=primitives, factor=st.floats(0.01, 100))
def test_scaled_durations_scale_the_times(case, to_all, factor):
    """If all durations are `factor` times as long, so are all times, of whatever kind."""
    clock = case.clock
    links = {
        name: getattr(clock, name).model_copy(
            update={
                "latency": factor * getattr(clock, name).latency,
                "bandwidth": getattr(clock, name).bandwidth / factor,
            }
        )
        for name in ("d2d", "uplink", "downlink")
    }
    step = {"seconds_per_step": factor * clock.compute.seconds_per_step}
    ports = {name: width and width / factor for name, width in clock.server}
    slower = clock.model_copy(
        update={
            **links,
            "compute": clock.compute.model_copy(update=step),
            "server": clock.server.model_copy(update=ports),
        }
    )
    usual, scaled = case.run(to_all=to_all), case.run(clock=slower, to_all=to_all)
    for name in ("T", "computing", "talking", "waiting"):
        np.testing.assert_allclose(
            getattr(scaled, name), factor * getattr(usual, name), rtol=1e-9, atol=1e-9 * factor
        )


@given(case=cases)
def test_islands_that_the_server_never_meets_are_independent(case):
    """Slower devices of one island change nothing on the others."""
    speeds = case.speeds()
    here = case.island_of == 0
    slower = replace(speeds, step_n=np.where(here, 7, 1) * speeds.step_n)
    usual, slowed = case.run(server=False), case.run(speeds=slower, server=False)
    assert (usual.state[:, ~here] == slowed.state[:, ~here]).all()
    awake = np.any([awake_n for awake_n, *_ in case.rounds], axis=0)
    assert (slowed.T[here & awake] > usual.T[here & awake]).all()


@given(case=cases)
def test_s2s_is_never_later_than_s2a(case):
    """Without a broadcast, with the same samples, no device is later under S2S."""
    assert (case.run(to_all=False).T <= case.run(to_all=True).T + 1e-9).all()


def test_a_broadcast_may_make_s2a_sooner():
    """Where the downlink is slow, one message to all is sooner than one to each sampled device."""
    links = {"downlink": {"bandwidth": 1.0, "broadcast": 100.0}, "compute": {"seconds_per_step": 1}}
    clock = Clock.parse(links)
    ends = []
    for reached in (None, np.arange(6)):
        times = Times(clock, device_speeds(clock, NAMES, 0))
        messages = ServerMessages(1, 1, reached=reached, to_all=reached is not None)
        times.local_steps(0, 1)
        times.server_round(SAMPLES[1], messages)
        ends.append(times.T.max())
    assert ends == pytest.approx([2.0, 1.01])


@given(case=cases, to_all=primitives)
def test_all_time_is_accounted_for(case, to_all):
    """Computing, talking and waiting of every device sum to its time."""
    times = case.run(to_all=to_all)
    spent = times.computing + times.talking + times.waiting
    np.testing.assert_allclose(spent, times.T, rtol=1e-9, atol=1e-9)
    share = times.measure()["waiting"]
    expected = 100 * times.waiting.sum() / times.T.sum() if times.T.sum() else 0.0
    assert share == pytest.approx(expected)


@given(case=cases, to_all=primitives)
def test_energy_of_one_kind(case, to_all):
    """Joules follow from what was done: bytes of each link, and seconds of work and of waiting."""
    up, down, d2d = sizes = (4.0, 3.0, 5.0)
    clock = case.clock
    received = sum(
        (int(awake_n.sum()) if to_all else len(sampled)) * down + 2.0 * len(sampled)
        for awake_n, *_, sampled in case.rounds
        if sampled is not None
    )
    expected = {
        "d2d": 2 * 0.5 * case.d2d_messages * d2d,  # one device sends and another receives
        "uplink": 0.5 * sum(map(len, case.samples)) * up,
        "downlink": 0.5 * received,
    }
    for link, joules in expected.items():
        times = case.run(clock=only(clock, link, joules_per_byte=0.5), to_all=to_all, sizes=sizes)
        assert times.measure()["joules"][0] == pytest.approx(joules)
    times = case.run(clock=only(clock, "compute", watts=3.0), to_all=to_all)
    np.testing.assert_allclose(times.joules, 3.0 * times.computing)
    times = case.run(clock=only(clock, "compute", idle_watts=0.7), to_all=to_all)
    np.testing.assert_allclose(times.joules, 0.7 * (times.waiting + times.talking), atol=1e-12)


@given(case=cases, to_all=primitives)
def test_all_energy_is_the_sum_of_its_kinds(case, to_all):
    """What a clock charges together is what it charges alone."""
    clock = case.clock
    kinds = [
        ("compute", {"watts": clock.compute.watts}),
        ("compute", {"idle_watts": clock.compute.idle_watts}),
        *(
            (link, {"joules_per_byte": getattr(clock, link).joules_per_byte})
            for link in ("d2d", "uplink", "downlink")
        ),
    ]
    parts = [case.run(clock=only(clock, name, **one), to_all=to_all).joules for name, one in kinds]
    together = case.run(to_all=to_all)
    np.testing.assert_allclose(together.joules, np.sum(parts, axis=0), atol=1e-9)
    measured = together.measure()
    assert measured["joules_max"][0] == together.joules.max()
    assert measured["joules"][0] == pytest.approx(together.joules.sum())


@given(case=cases, to_all=primitives, lanes=st.integers(2, 4))
def test_lanes_do_not_see_each_other(case, to_all, lanes):
    """A lane in a stack is the same as alone, to the bit."""
    stack = case.run(to_all=to_all, lanes=lanes)
    for lane in range(lanes):
        alone = case.run(to_all=to_all, sizes=(4.0 + lane, 3.0 + lane, 5.0 + lane))
        assert (stack.state[:, :, lane] == alone.state[:, :, 0]).all()


@given(case=cases, to_all=primitives)
def test_times_go_on_from_a_saved_state(case, to_all):
    """A fleet that continues from a saved state ends as if it had not stopped."""
    whole, saved = case.run(to_all=to_all), []
    case.run(to_all=to_all, watch=lambda times: saved.append(times.state.copy()))
    middle = len(case.rounds) // 2
    later = Times(case.clock, case.speeds())
    later.state = saved[3 * middle - 1]
    for t, (awake_n, edges, steps_n, gossip, sampled) in list(enumerate(case.rounds))[middle:]:
        later.local_steps(t, steps_n, awake_n)
        later.gossip(Neighbours.from_edges(edges, case.island_of), 5.0, gossip)
        if sampled is not None:
            reached = np.flatnonzero(awake_n) if to_all else None
            messages = ServerMessages(4.0, 3.0, 2.0, reached=reached, to_all=to_all)
            later.server_round(sampled, messages)
    assert (later.state == whole.state).all()


# Speeds of devices


@given(seed=st.integers(0, 1000), spread=st.floats(0.1, 1))
def test_speeds_are_drawn_by_the_seed(seed, spread):
    """The same seed has the same devices; the logarithm of a factor has the spread as deviation."""
    clock = Clock.parse({"compute": {"seconds_per_step": 2.0, "spread": spread}})
    names = [str(i) for i in range(4000)]
    first, again = (device_speeds(clock, names, seed).step_n for _ in range(2))
    assert (first == again).all()
    assert np.log(first / 2.0).std() == pytest.approx(spread, rel=0.1)
    assert (device_speeds(clock, names, seed + 1).step_n != first).any()


@given(case=cases, device=st.integers(0, 3), factor=st.floats(1.5, 9))
def test_slow_names_a_device(case, device, factor):
    """`compute.slow` multiplies the steps of one device, whatever else was drawn."""
    assume(device < case.n)
    slow = case.clock.compute.model_copy(update={"slow": {str(device): factor}})
    slowed = case.speeds(case.clock.model_copy(update={"compute": slow})).step_n
    expected = case.speeds().step_n
    expected[device] *= factor
    np.testing.assert_allclose(slowed, expected, rtol=1e-12)
