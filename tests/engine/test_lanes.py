"""A lane is a run of its own, whatever stands beside it; limits where two primitives coincide."""

import numpy as np
import pytest
import torch

from skerry.data.sources.arrays import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import SkerryError
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.plugins.options import bind


def last_models(world, *experiments):
    stack = build_stack(world, experiments)
    *_, last = simulate(stack)
    by_key = {key: last.state.X_nld[:, lane] for lane, key in enumerate(last.stack.keys)}
    return [by_key[world.key(experiment)] for experiment in experiments]


VARIED = (
    ["server.primitive=s2a", "network.topology=complete", "training.stepsize=0.01"],
    ["server.primitive=blend", "network.topology=star", "server.sampled=2"],
    ["server.optimizer=fedavgm", "server.period=1"],
    ["network.dynamic=true", "network.topology=regular", "network.degree=3"],
    ["server.primitive=none", "training.schedule=cosine"],
)


@pytest.mark.parametrize("settings", VARIED, ids=" ".join)
@pytest.mark.parametrize("model", ["linear", "mlp", "quadratic"])
def test_a_lane_alone_equals_the_same_lane_among_others(small, settings, model):
    base = small(f"model.name={model}")
    world = build_world(base)
    lane = base.with_settings(*settings)
    (alone,) = last_models(world, lane)
    among, *_ = last_models(world, lane, base, *(base.with_settings(*v) for v in VARIED))
    assert torch.allclose(alone, among, rtol=1e-5, atol=1e-6)


def test_every_lane_has_the_stepsizes_of_its_own_schedule(small):
    schedules = ("constant", "cosine", "inverse_sqrt", "step")
    lanes = [
        small(f"training.schedule={name}", f"training.stepsize={eta}", "training.decay_every=2")
        for name in schedules
        for eta in (0.01, 0.1)
    ]
    stack = build_stack(build_world(lanes[0], dtype=torch.float64), lanes)
    for lane, run in enumerate(stack.experiments):
        training, factor = run.training, registry.resolve("schedule", run.training.schedule)
        told = training.options_for("schedule")
        call = bind("schedule", factor, told)
        contexts = (Context(round=t, rounds=run.rounds) for t in range(7))
        etas = [training.stepsize * call(context=context) for context in contexts]
        assert stack.etas_tl[:, lane].tolist() == etas


def test_lanes_that_act_together_are_neighbours(small):
    """Groups cover every lane once, in order; all lanes of one have its network or its server."""
    lanes = [
        small(f"network.topology={topology}", f"server.period={period}", f"training.stepsize={eta}")
        for eta in (0.01, 0.1)
        for period in (2, 3)
        for topology in ("ring", "star")
    ]
    stack = build_stack(build_world(lanes[0]), lanes)
    assert (len(stack.mixing), len(stack.servers)) == (2, 4)
    for groups in (stack.mixing, stack.servers):
        assert [lane for g in groups for lane in range(8)[g.lanes]] == [*range(8)]
    for group in stack.mixing:
        networks = {run.network for run in stack.experiments[group.lanes]}
        assert networks == {group.mixer.fleet.network}
    for group in stack.servers:
        assert {run.server for run in stack.experiments[group.lanes]} == {group.server}


def test_all_devices_sampled_makes_s2s_and_s2a_the_same(small):
    base = small("server.sampled=12")
    s2s, s2a = last_models(build_world(base), base, base.with_settings("server.primitive=s2a"))
    assert torch.allclose(s2s, s2a, atol=1e-6)


def test_sampling_one_device_makes_s2s_a_fleet_without_server(small):
    base = small("server.sampled=1")
    s2s, none = last_models(build_world(base), base, base.with_settings("server.primitive=none"))
    assert torch.equal(s2s, none)


@pytest.mark.parametrize(("beta", "primitive"), [(0, "s2s"), (1, "s2a")])
def test_the_dials_ends_are_s2s_and_s2a(small, beta, primitive):
    base = small()
    dial = base.with_settings("server.primitive=blend", f"server.beta={beta}")
    ours, theirs = last_models(
        build_world(base), dial, base.with_settings(f"server.primitive={primitive}")
    )
    assert torch.equal(ours, theirs)


def test_samples_are_nested_across_K_and_common_to_all_lanes(small_world):
    order = small_world.server_order(3)
    assert sorted(order.tolist()) == list(range(12))
    assert torch.equal(order, small_world.server_order(3))
    assert not torch.equal(order, small_world.server_order(4))


def test_a_diverging_lane_is_left_behind_and_the_others_go_on(small):
    """Its neighbours end where they would have ended without it."""
    base = small("model.name=quadratic", "rounds=400")
    world = build_world(base)
    wild = base.with_settings("training.stepsize=50")
    stack = build_stack(world, [base, wild])
    moments = [m for m in simulate(stack) if m.phase == "end"]
    left = [m for m in moments if m.diverged]
    assert len(left) == 1
    assert left[0].stack.keys[left[0].diverged[0]] == world.key(wild)
    assert moments[-1].round == 400
    assert moments[-1].stack.keys == (world.key(base),)
    (alone,) = last_models(world, base)
    assert torch.allclose(moments[-1].state.X_nld[:, 0], alone, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_lane_that_explodes_has_diverged_however_large_its_targets_are(small, scale):
    """A loss of 10^9 times that at the start is divergence; that of large targets is not."""
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    arrays = (x, scale * x @ np.arange(4), x, scale * x @ np.arange(4))
    base = small("rounds=25", "data.inter=iid", "training.stepsize=0.1", "evaluate.every=1")
    lanes = [base, base.with_settings("training.stepsize=3")]
    stack = build_stack(build_world(base, Materials(dataset=from_arrays(*arrays))), lanes)
    start, *_, last = simulate(stack)
    assert len(start.stack) == 2
    assert (last.round, last.stack.experiments) == (25, (base,))


def test_server_memory_follows_its_lane_when_another_is_left_behind(small):
    base = small("model.name=quadratic", "rounds=300", "server.optimizer=fedavgm")
    world = build_world(base)
    wild = base.with_settings("training.stepsize=50", "server.primitive=s2a")
    quiet = base.with_settings("server.primitive=blend")
    (alone,) = last_models(world, quiet)
    stack = build_stack(world, [wild, base, quiet])
    *_, last = simulate(stack)
    lane = last.stack.keys.index(world.key(quiet))
    assert torch.allclose(last.state.X_nld[:, lane], alone, atol=1e-6)


def test_experiments_of_different_worlds_do_not_stack(small, small_world):
    with pytest.raises(SkerryError, match="must share"):
        build_stack(small_world, [small("seed=1")])


def test_an_own_optimizer_gets_what_its_start_gave(small):
    """Neither the arrays of other lanes' optimizers nor those of the server itself."""
    seen = set()

    class Own:
        @staticmethod
        def start(x0_ld):
            return {"m": torch.zeros_like(x0_ld)}

        @staticmethod
        def deliver(memory, average_ld):
            seen.add(tuple(memory))
            return memory["m"].add_(average_ld).clone()

    class Taken(Own):
        @staticmethod
        def start(x0_ld):
            return {"log": torch.zeros_like(x0_ld)}

    base = small("server.selection=importance", "server.primitive=s2a")
    own = base.replace(server={"optimizer": Own})
    others = ["server.optimizer=fedadam"], ["server.selection=uniform", "server.period_target=1"]
    others[1].append("server.period_schedule=adaptive")
    world = build_world(base)
    (alone,) = last_models(world, own)
    among, *_ = last_models(world, own, *(base.with_settings(*one) for one in others))
    assert torch.allclose(alone, among, rtol=1e-5, atol=1e-6)
    assert seen == {("m",)}
    with pytest.raises(SkerryError, match="must not call an array 'log'"):
        build_stack(world, [base.replace(server={"optimizer": Taken})])
