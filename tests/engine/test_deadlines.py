"""Deadlines and over-sampling beside a loop over devices, and the laws that they keep."""

from itertools import product

import numpy as np
import pytest
import torch

from oracle.extended import ExtendedReference
from skerry.clock.deadline import in_time
from skerry.config.presets import with_preset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.state import keep_lanes
from skerry.engine.timing import CLOCK, measure_clocks
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.measure.observer import Observer
from thread_ranks import build, together

CLOCK_FILE = """
[compute]
seconds_per_step = 0.1
spread = 0.8
jitter = 0.3
watts = 3.0
idle_watts = 0.7
[d2d]
bandwidth = "5 kB/s"
latency = "5 ms"
channel = "CHANNEL"
joules_per_byte = 1e-6
[uplink]
bandwidth = "2 kB/s"
latency = "60 ms"
joules_per_byte = 1e-5
[downlink]
bandwidth = "5 kB/s"
latency = "20 ms"
joules_per_byte = 2e-6
"""
PORTS = '[server]\nbandwidth_in = "3 kB/s"\nbandwidth_out = "4 kB/s"\n'
CALLS = {
    "a deadline": "server.deadline=0.25",
    "a tight one": "server.deadline=0.13",
    "more called": "server.over_sample=4",
    "more called, a deadline": "server.over_sample=4 server.deadline=0.2",
    "several at least": "server.deadline=0.2 server.at_least=4",
    "never in time": "server.deadline=0.001",
    "always in time": "server.deadline=1000",
}
CALLS_OF_ALL = tuple(CALLS.values())
PRIMITIVES = ("s2s", "s2a", "blend")
WORLDS = {
    "plain": ("parallel", ""),
    "ports": ("one_by_one", PORTS),
    "shared": ("shared", ""),
}
FLEETS = {
    "awake": "",
    "sleep": "availability.awake=0.7",
    "reached asleep": "availability.awake=0.5 availability.reach_asleep=true",
    "bursts, failing links": "availability.on=3 availability.off=1 network.link_failure=0.3",
    "data weights": "server.weights=data data.intra=dirichlet data.alpha=1.0",
    "stratified": "server.weights=stratified network.components=3",
    "without mixing": "network.mix_with_server=false server.optimizer=fedavgm",
    "gossip twice": "network.gossip_steps=2 training.local_steps=2 server.sampled_schedule=cosine "
    "server.sampled_end=4",
}


@pytest.fixture
def clock_file(tmp_path):
    def write(channel="parallel", more=""):
        file = tmp_path / f"{channel}.toml"
        file.write_text(CLOCK_FILE.replace("CHANNEL", channel) + more)
        return f"clock.file={file}"

    return write


def calls_of(base, calls=CALLS_OF_ALL):
    return [
        base.with_settings(f"server.primitive={primitive}", *call.split())
        for primitive, call in product(PRIMITIVES, calls)
    ]


def follow(stack, state=None):
    """By round: the models, the clock's measures, and the server rounds."""
    found = {}
    for moment in simulate(stack, state):
        if moment.phase == "end":
            measured = measure_clocks(moment.stack, moment.state.memory)
            found[moment.round] = moment.state.X_nld.clone(), measured, moment.server_rounds
    return found


@pytest.mark.parametrize("settings", FLEETS.values(), ids=FLEETS)
@pytest.mark.parametrize(("channel", "ports"), WORLDS.values(), ids=WORLDS)
def test_reference_equals_stack(small, clock_file, channel, ports, settings):
    """Models, seconds and joules, of all calls and primitives as lanes of one stack."""
    base = small(
        clock_file(channel, ports), "server.period=2", "server.sampled=6", *settings.split()
    )
    world = build_world(base, dtype=torch.float64)
    stack = build_stack(world, calls_of(base))
    fast = follow(stack)
    late = 0
    for lane, experiment in enumerate(stack.experiments):
        loop = ExtendedReference(world, experiment)
        for t, X in enumerate(loop.run(), 1):
            models, measured, rounds = fast[t]
            assert torch.allclose(models[:, lane], X, rtol=1e-11, atol=1e-12), experiment.server
            T, joules = np.array(loop.clock.T), np.array(loop.clock.joules)
            expected = {"seconds": T.max(), "seconds_mean": T.mean(), "joules": joules.sum(),
                        "joules_max": joules.max()}  # fmt: skip
            for name, value in expected.items():
                assert measured[name][lane] == pytest.approx(value, rel=1e-9), (name, t)
            own = [one for one in rounds if lane in range(*one.lanes.indices(len(stack)))]
            late += sum(one.uplink - len(one.devices_k) for one in own)
    assert late > 0, "nobody was ever late"


def test_a_lane_does_not_depend_on_its_neighbours(small, clock_file):
    """Neither other clocks nor lanes without one change the numbers of a lane."""
    base = small(clock_file("one_by_one", PORTS), "server.period=2", "server.sampled=6")
    other = base.with_settings(clock_file("shared"))
    world = build_world(base, dtype=torch.float64)
    lanes = [*calls_of(base), *calls_of(other)]
    plain = small("server.period=2", "server.sampled=6")
    stack = build_stack(world, [*lanes, plain])
    beside = follow(stack)
    for lane, experiment in enumerate(stack.experiments):
        alone = follow(build_stack(world, [experiment]))
        for t, (X, measured, _) in alone.items():
            assert torch.allclose(X[:, 0], beside[t][0][:, lane], rtol=1e-12, atol=1e-13)
            for name, values in beside[t][1].items():
                own = measured[name][0] if measured else np.nan
                assert values[lane] == pytest.approx(own, rel=1e-12, nan_ok=True)


def test_dropped_lanes_leave_the_clock(small, clock_file):
    """The others go on with their own accounts, also where they share a server."""
    base = small(clock_file(), "server.period=2")
    world, calls = build_world(base), calls_of(base)
    lanes = [*calls, *(one.with_settings("training.stepsize=0.02") for one in calls)]
    whole = follow(stack := build_stack(world, lanes))
    kept = {}
    for moment in simulate(stack):
        if moment.phase == "end":
            if moment.round == 3:
                moment.ended.extend(range(0, len(lanes), 2))
            kept[moment.round] = measure_clocks(moment.stack, moment.state.memory)["seconds"]
    assert kept[7].tolist() == whole[7][1]["seconds"][1::2].tolist()
    assert len(set(kept[7])) > 3


def test_resumed_equals_uninterrupted_to_the_bit(small, clock_file):
    base = small(clock_file("one_by_one", PORTS), "server.period=2", "server.sampled=6")
    stack = build_stack(build_world(base), calls_of(base))
    saved = None
    for moment in simulate(stack):
        if moment.phase == "end" and moment.round == 3:
            saved = keep_lanes(moment.state, list(range(len(stack))))
    again = build_stack(build_world(base), calls_of(base))
    found = measure_clocks(again, saved.memory)
    whole, resumed = follow(stack), follow(again, saved)
    assert saved.memory[CLOCK].any()
    assert np.array_equal(found["seconds"], whole[3][1]["seconds"])
    assert [*resumed] == [4, 5, 6, 7]
    for t, (X, measured, _) in resumed.items():
        assert torch.equal(X, whole[t][0])
        assert all(np.array_equal(measured[name], whole[t][1][name]) for name in measured)


@pytest.mark.parametrize(
    "settings", ["network.components=3", "network.components=1", "availability.awake=0.6"]
)
def test_ranks_equal_one_process(small, clock_file, settings):
    base = small(clock_file("one_by_one", PORTS), "server.period=2", "server.sampled=6", settings)
    lanes = calls_of(base)

    def on(wire=None):
        make = build if wire is not None else build_world
        more = {"exchange": wire} if wire is not None else {}
        return follow(build_stack(make(base, dtype=torch.float64, **more), lanes))

    alone = on()
    for ranks in (2, 3):
        found = together(ranks, on)
        for t, (X, measured, rounds) in alone.items():
            parts = torch.cat([one[t][0] for one in found])
            assert torch.allclose(parts, X, rtol=1e-12, atol=1e-13)
            for one in found:
                assert all(np.array_equal(one[t][1][name], measured[name]) for name in measured)
                pairs = zip(one[t][2], rounds, strict=True)
                assert all(
                    a.devices_k.equal(b.devices_k) and a.uplink == b.uplink for a, b in pairs
                )


def test_whoever_is_always_in_time_changes_no_bit(small, clock_file):
    """A deadline after everyone, and calling nobody more, is as without one."""
    base = small(clock_file("parallel", PORTS), "server.period=2", "server.weights=data")
    plain = calls_of(base, [""])
    timed = calls_of(base, ["server.deadline=1000"])
    one, other = (follow(build_stack(build_world(base), lanes)) for lanes in (plain, timed))
    for t in one:
        assert torch.equal(one[t][0], other[t][0])
        for name, values in one[t][1].items():
            assert np.allclose(values, other[t][1][name], rtol=1e-12)


def test_a_void_round_delivers_nothing_and_everyone_goes_on(small, clock_file):
    """Called devices have sent; nobody waits, and the models are those of a fleet without a server
    and of later server rounds as planned."""
    base = small(clock_file(), "server.period=2", "server.optimizer=fedavgm")
    void = calls_of(base, ["server.deadline=0.001"])
    stack = build_stack(build_world(base), [*void, base.with_settings("server.primitive=none")])
    found, silent = (
        follow(stack),
        next(lane for lane, one in enumerate(stack.experiments) if not one.server.is_there),
    )
    for X, measured, rounds in found.values():
        assert all(X[:, lane].equal(X[:, silent]) for lane in range(len(stack)))
        assert all(one.downlink == 0 and one.uplink == 5 for one in rounds)
        later = [s for lane, s in enumerate(measured["seconds"]) if lane != silent]
        assert len({*later}) == 1
        assert later[0] >= measured["seconds"][silent]


def test_messages_and_samples_follow(small, clock_file):
    """Everyone who is called sends; those in time are sampled; S2S answers them alone."""
    base = small(
        clock_file(), "server.period=1", 'evaluate.measures=["communication","participation"]',
        "server.over_sample=4", "server.deadline=0.2",
    )  # fmt: skip
    stack = build_stack(build_world(base), [base, base.with_settings("server.primitive=s2a")])
    observer, counted, up, down = Observer(stack), [0, 0], [0, 0], [0, 0]
    for moment in simulate(stack):
        rows = observer.rows(moment)
        if moment.phase != "end":
            continue
        for lane, key in enumerate(stack.keys):
            row, s2s = rows[key], stack.experiments[lane].server.primitive == "s2s"
            counted[lane] += row["sampled_devices"]
            up[lane] += 9
            down[lane] += row["sampled_devices"] if s2s else 12 * (row["sampled_devices"] > 0)
            assert (row["uplink_messages"], row["downlink_messages"]) == (up[lane], down[lane])
            assert row["sampled_devices"] <= 5
            assert row["seconds"] > 0
    assert 0 < min(counted) < 7 * 5


def test_late_devices_receive_under_s2a_only(small, clock_file):
    base = small(
        clock_file(), "server.period=1", "rounds=1", "server.deadline=0.17", "server.sampled=12"
    )
    lanes = [base, base.with_settings("server.primitive=s2a")]
    stack = build_stack(build_world(base), lanes)
    before = None
    for moment in simulate(stack):
        if moment.phase == "before_server":
            before = moment.state.X_nld.clone()
    rounds = {
        stack.experiments[one.lanes.start].server.primitive: one for one in moment.server_rounds
    }
    late = [i for i in range(12) if i not in rounds["s2s"].devices_k.tolist()]
    assert 0 < len(late) < 12
    for lane, experiment in enumerate(stack.experiments):
        same = moment.state.X_nld[late, lane].eq(before[late, lane]).all(dim=1)
        assert same.all() if experiment.server.primitive == "s2s" else not same.any()


@pytest.mark.parametrize(
    ("own", "like"),
    [
        ("server.primitive=timed_plugins:my_s2s", "server.primitive=s2s"),
        ("server.primitive=timed_plugins:my_s2a", "server.primitive=s2a"),
        ("server.selection=timed_plugins:my_uniform", "server.selection=uniform"),
        ("method.name=timed_plugins:Unsaid", "method.name=timed_plugins:Doubled"),
        ("method.name=timed_plugins:Unsaid server.primitive=s2a",
         "method.name=timed_plugins:Doubled server.primitive=s2a"),
        ("method.name=timed_plugins:Doubled server.primitive=timed_plugins:my_s2a",
         "method.name=timed_plugins:Doubled server.primitive=s2a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sleep", ["availability.awake=1.0", "availability.awake=0.6"])
def test_a_users_own_functions_take_their_time(small, clock_file, own, like, sleep):
    """As long as built-ins that send the same messages to the same devices."""
    base = small(clock_file("parallel", PORTS), "server.period=2", sleep)
    world = build_world(base)
    found = [follow(build_stack(world, [base.with_settings(*one.split())])) for one in (own, like)]
    for t in found[0]:
        for name, values in found[0][t][1].items():
            assert np.allclose(values, found[1][t][1][name], rtol=1e-12), name
    assert found[0][7][1]["seconds"] > 0


@pytest.mark.parametrize("rule", ["importance", "timed_plugins:farthest"])
def test_where_models_decide_every_lane_has_its_own_times(small, clock_file, rule):
    base = small(clock_file(), "server.period=2", f"server.selection={rule}", "server.sampled=3")
    lanes = [base.with_settings(f"training.stepsize={eta}") for eta in (0.01, 0.5, 2.0)]
    world = build_world(base)
    beside = follow(build_stack(world, lanes))
    assert len({*beside[7][1]["seconds_mean"]}) > 1
    for lane, one in enumerate(build_stack(world, lanes).experiments):
        alone = follow(build_stack(world, [one]))
        assert alone[7][1]["seconds"][0] == beside[7][1]["seconds"][lane]


def test_adaptive_schedules_are_timed(small, clock_file):
    base = small(clock_file(), "server.period_schedule=adaptive", "server.period_target=0.001",
                 "server.period=2", "rounds=12")  # fmt: skip
    found = follow(build_stack(build_world(base), [base]))
    planned = base.with_settings("server.period_schedule=constant")
    assert (
        found[12][1]["seconds_mean"]
        != follow(build_stack(build_world(planned), [planned]))[12][1]["seconds_mean"]
    )


@pytest.mark.parametrize(
    "selection", ["one_each", "weighted", "round_robin", "bernoulli", "timed_plugins:in_words"]
)
def test_selections_beside_the_loop(small, clock_file, selection):
    fleet = "server.period=1 server.sampled=6 server.deadline=0.22 network.components=3"
    data = "data.intra=dirichlet data.alpha=1.0"
    settings = f"{fleet} {data} server.selection={selection}"
    base = small(clock_file(), *settings.split())
    world = build_world(base, dtype=torch.float64)
    stack = build_stack(world, calls_of(base, [""]))
    fast = follow(stack)
    for lane, experiment in enumerate(stack.experiments):
        loop = ExtendedReference(world, experiment)
        for t, X in enumerate(loop.run(), 1):
            assert torch.allclose(fast[t][0][:, lane], X, rtol=1e-11, atol=1e-12)
            assert fast[t][1]["seconds"][lane] == pytest.approx(max(loop.clock.T), rel=1e-9)


def test_s2s_with_a_deadline_never_moves_the_average(small, clock_file):
    base = small(clock_file(), "server.period=1", "server.deadline=0.25", "server.weights=data")
    stack = build_stack(build_world(base, dtype=torch.float64), [base])
    for moment in simulate(stack):
        if moment.phase == "before_server":
            before = moment.state.X_nld.mean(dim=0)
        elif moment.phase == "end":
            assert torch.allclose(moment.state.X_nld.mean(dim=0), before, atol=1e-12)


def test_a_method_that_hides_what_it_sends_has_no_deadline(small, clock_file):
    base = small(clock_file(), "server.deadline=5", "method.name=timed_plugins:Unsaid")
    with pytest.raises(SkerryError, match="must say in its attribute up how many vectors"):
        follow(build_stack(build_world(base), [base]))


@pytest.mark.parametrize(
    ("times", "wanted", "deadline", "at_least", "counted", "at"),
    [
        ([3.0, 1.0, 2.0], 3, None, 1, [0, 1, 2], 3.0),
        ([3.0, 1.0, 2.0], 2, None, 1, [1, 2], 2.0),
        ([3.0, 1.0, 2.0], 3, 2.0, 1, [1, 2], 2.0),  # it waits to the end of the deadline
        ([3.0, 1.0, 1.5], 2, 2.0, 1, [1, 2], 1.5),
        ([3.0, 1.0, 2.0], 3, 2.0, 3, [], 2.0),
        ([3.0, 1.0, 2.0], 3, 0.5, 1, [], 0.5),
        ([2.0, 2.0, 2.0], 2, 2.0, 1, [0, 1], 2.0),  # of equals, the first that were called
        ([0.1 + 0.2, 9.0], 2, 0.3, 1, [0], 0.3),  # 0.1 + 0.2 is a little more than 0.3
        ([2.0], 5, None, 1, [0], 2.0),
    ],
)  # fmt: skip
def test_who_is_in_time(times, wanted, deadline, at_least, counted, at):
    found = in_time(0.0, np.array(times), wanted, deadline, at_least)
    assert (found.counted.tolist(), found.at) == (counted, at)


@pytest.mark.parametrize("preset", ["scaffold", "sd_gt", "mtgc"])
def test_methods_that_count_on_every_sampled_device_are_refused(small, clock_file, preset):
    """Their corrections would be scaled by steps of devices that were left out."""
    base = with_preset(small(clock_file()), preset)
    with pytest.raises(SkerryError, match=rf"'{preset}' is not defined for server\.deadline"):
        base.with_settings("server.deadline=0.2")


@pytest.mark.parametrize("preset", ["fedavg", "fedprox", "fedvarp", "mifa", "carry"])
def test_late_devices_do_not_break_other_methods(small, clock_file, preset):
    """With few in time, and void rounds, they learn less, and do not diverge."""
    base = with_preset(small(clock_file(), "rounds=30", "training.stepsize=0.1"), preset)
    late = base.with_settings("server.deadline=0.2", "server.at_least=2")
    stack = build_stack(build_world(base), [late])
    observer = Observer(stack)
    found = [row for moment in simulate(stack) for row in observer.rows(moment).values()]
    losses = [row["average_loss"] for row in found if "average_loss" in row]
    assert losses[-1] < 0.8 * losses[0]
    assert max(losses) < 1.1 * losses[0]
