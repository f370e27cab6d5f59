"""The recursion of time equals a plain simulation of events, message by message."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from event_clock import PlainRound, ServerCall, simulate
from skerry.clock.devices import device_speeds
from skerry.clock.settings import Clock
from skerry.clock.times import Neighbours, ServerMessages, Times

ACCOUNTS = ("computing", "talking", "waiting", "joules")


def maybe(rng: np.random.Generator, least: float, most: float) -> float | None:
    """A bandwidth, or no limit."""
    return None if rng.random() < 0.25 else float(rng.uniform(least, most))


def random_clock(rng: np.random.Generator, channel: str) -> Clock:
    """Any clock; durations of steps, links and ports have the same size, so that each may count."""
    return Clock.parse(
        {
            "compute": {
                "seconds_per_step": rng.uniform(0, 2),
                "spread": rng.choice([0.0, 0.7]),
                "jitter": rng.choice([0.0, 0.3]),
                "watts": rng.uniform(0, 5),
                "idle_watts": rng.uniform(0, 1),
            },
            "d2d": {
                "bandwidth": maybe(rng, 1, 9),
                "latency": rng.uniform(0, 0.3),
                "channel": channel,
                "joules_per_byte": rng.uniform(0, 1),
            },
            "uplink": {
                "bandwidth": maybe(rng, 1, 9),
                "latency": rng.uniform(0, 0.5),
                "joules_per_byte": rng.uniform(0, 1),
            },
            "downlink": {
                "bandwidth": maybe(rng, 1, 9),
                "latency": rng.uniform(0, 0.5),
                "broadcast": maybe(rng, 1, 9),
                "joules_per_byte": rng.uniform(0, 1),
            },
            "server": {
                "bandwidth_in": maybe(rng, 3, 30),
                "bandwidth_out": maybe(rng, 3, 30),
            },
        }
    )


def random_rounds(rng: np.random.Generator, islands: list[int]) -> list[PlainRound]:
    """Graphs that change, sleep, several gossip steps, and server rounds of every kind."""
    n, rounds = len(islands), []
    sleepy, density = rng.choice([0.0, 0.3]), rng.random()
    for _ in range(rng.integers(1, 8)):
        awake = tuple(bool(one) for one in rng.random(n) >= sleepy)
        edges = tuple(
            (i, j)
            for i in range(n)
            for j in range(i + 1, n)
            if islands[i] == islands[j] and awake[i] and awake[j] and rng.random() < density
        )
        call, up = None, [i for i in range(n) if awake[i]]
        if up and rng.random() < 0.6:
            sampled = rng.choice(up, rng.integers(1, len(up) + 1), replace=False).tolist()
            to_all = bool(rng.random() < 0.6)
            everyone = range(n) if rng.random() < 0.5 else up  # sleeping devices are reached or not
            call = ServerCall(
                tuple(sampled),
                tuple(everyone) if to_all else tuple(sampled),
                up=float(rng.integers(0, 9)),
                down=float(rng.integers(0, 9)),
                down_to_sampled=float(rng.choice([0.0, 4.0])),
                to_all=to_all,
            )
        rounds.append(
            PlainRound(
                tuple(rng.integers(0, 4, n).tolist()),
                awake,
                edges,
                int(rng.integers(0, 4)),
                float(rng.integers(0, 9)),
                call,
            )
        )
    return rounds


def run_recursion(times: Times, islands: list[int], rounds: list[PlainRound]) -> np.ndarray:
    """T after every round, [t, n]."""
    T_tn, island_of = [], np.array(islands)
    for t, one in enumerate(rounds):
        times.local_steps(t, np.array(one.steps), np.array(one.awake))
        edges = np.array(one.edges, dtype=np.int64).reshape(-1, 2)
        times.gossip(Neighbours.from_edges(edges, island_of), one.d2d, one.gossip_steps)
        if one.server is not None:
            call = one.server
            reached = np.array(call.reached) if call.to_all else None
            messages = ServerMessages(
                call.up, call.down, call.down_to_sampled, reached, call.to_all
            )
            times.server_round(np.array(call.sampled), messages)
        T_tn.append(times.T[:, 0].copy())
    return np.array(T_tn)


@pytest.mark.parametrize("channel", ["parallel", "one_by_one", "shared"])
@settings(max_examples=120)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_the_recursion_equals_the_events(channel, seed, sizes):
    """Every device's time after every round, and all it has spent, is that of the events."""
    rng = np.random.default_rng(seed)
    islands = [c for c, size in enumerate(sizes) for _ in range(size)]
    clock, rounds = random_clock(rng, channel), random_rounds(rng, islands)
    names = [str(i) for i in range(len(islands))]
    speeds = device_speeds(clock, names, seed)
    times = Times(clock, speeds)
    T_tn = run_recursion(times, islands, rounds)
    plain = simulate(clock, speeds, islands, rounds)
    np.testing.assert_allclose(T_tn, plain["T"], rtol=1e-9, atol=1e-9)
    for name in ACCOUNTS:
        np.testing.assert_allclose(
            getattr(times, name)[:, 0], plain[name], rtol=1e-9, atol=1e-9, err_msg=name
        )
    event(f"server rounds: {sum(one.server is not None for one in rounds) > 0}")


def test_the_events_are_those_of_the_worked_example():
    """Two paths of three devices by hand: S2S, rounds 1 to 5 (the oracle tests itself)."""
    clock = Clock.parse(
        {
            "compute": {"seconds_per_step": 1.0, "slow": {"4": 3.0}},
            "d2d": {"latency": 0.1, "bandwidth": 5.0},
            "uplink": {"latency": 0.2, "bandwidth": 2.0},
            "downlink": {"latency": 0.2, "bandwidth": 4.0},
        }
    )
    samples = {1: (0, 5), 3: (2, 3)}
    rounds = [
        PlainRound(
            (1,) * 6,
            (True,) * 6,
            ((0, 1), (1, 2), (3, 4), (4, 5)),
            d2d=1.0,
            server=ServerCall(samples[t], samples[t], 1.0, 1.0) if t in samples else None,
        )
        for t in range(5)
    ]
    speeds = device_speeds(clock, [str(i) for i in range(6)], 0)
    T_tn = simulate(clock, speeds, [0, 0, 0, 1, 1, 1], rounds)["T"]
    np.testing.assert_allclose(T_tn.max(axis=1), [3.3, 7.75, 9.9, 14.35, 16.5], atol=1e-9)
    np.testing.assert_allclose(T_tn[-1], [11.65, 15.65, 15.65, 16.5, 16.5, 16.5], atol=1e-9)
