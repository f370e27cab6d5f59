"""Methods that keep more than a model: worked trajectories, where they end, what they send."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from oracle import trajectory
from six_quadratics import BEST, six, six_world
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.state import keep_lanes
from skerry.engine.world import build_world
from trajectories import assert_same_trajectories


def lanes_after(world, experiments):
    """The models of every lane after every round, by the fast engine, in the order asked."""
    stack = build_stack(world, experiments)
    place = [stack.keys.index(world.key(e)) for e in experiments]
    rounds = [m.state.X_nld[:, place, 0].clone() for m in simulate(stack) if m.phase == "end"]
    return torch.stack(rounds).permute(2, 0, 1).numpy()


# Worked trajectories

WHOLE = {
    "gradient_tracking": """
        0.20000000 0.23333333 0.26666667 1.00000000 1.15000000 1.30000000
        0.39333333 1.20083333 0.48666667 1.20083333 2.08166667 2.20166667
        0.89298148 0.94316667 0.99335185 2.12663889 2.51095833 2.89527778
        2.23063248 1.18480031 1.23918333 2.79695231 3.06390000 2.23063248
        2.11874193 1.78553938 1.45233683 3.34625733 3.20745924 3.06866115""",
    "sd_gt": """
        0.20000000 0.23333333 0.26666667 1.00000000 1.15000000 1.30000000
        0.38222222 1.17583333 0.49777778 1.17583333 2.08166667 2.25166667
        0.87700926 0.94182407 1.00663889 2.08219444 2.51040278 2.93861111
        2.10853140 1.18899707 1.26651512 2.72441991 3.05611296 2.10853140
        1.99421960 1.74056753 1.48691546 3.23048410 3.17419775 3.11791140""",
    "mtgc": """
        0.23333333 0.23333333 0.23333333 1.15000000 1.15000000 1.15000000
        1.26430556 1.26430556 1.26430556 1.26430556 1.26430556 1.26430556
        1.76256713 1.76256713 1.76256713 1.77008565 1.77008565 1.77008565
        2.19291879 2.19291879 2.19291879 2.19291879 2.19291879 2.19291879
        2.57795245 2.57795245 2.57795245 2.53334282 2.53334282 2.53334282""",
    "scaffold": """
        0.10000000 0.40000000 0.20000000 1.05000000 0.90000000 1.50000000
        1.33125000 1.33125000 1.33125000 1.33125000 1.33125000 1.33125000
        1.52000000 1.32687500 1.68656250 1.43218750 2.32000000 2.65375000
        2.63468750 2.63468750 2.63468750 2.63468750 2.63468750 2.63468750
        2.87893750 2.51290625 3.06810938 2.68339062 3.63637500 2.80718750""",
}
LAST = {
    "fedvarp": "2.51115625 2.54325000 2.74510938 3.32720313 3.31115625 3.37534375",
    "mifa": "1.26315625 1.43391667 1.42777604 2.14853646 2.06315625 2.40467708",
    "sgd": "1.75829239 1.47345587 1.18861934 3.73484853 3.51653689 3.29822524",
    "carry": "2.68805155 1.55023787 1.49780924 3.32847289 3.35390803 2.49863087",
}
SETTINGS = {
    "sgd": (),
    "gradient_tracking": (),
    "sd_gt": (),
    "mtgc": (
        "network.topology=complete",
        "server.sampled=6",
        "server.selection=uniform",
        "server.primitive=s2a",
    ),
    "scaffold": ("network.gossip_steps=0", "server.primitive=s2a"),
    "fedvarp": ("network.gossip_steps=0", "server.primitive=s2a"),
    "mifa": ("network.gossip_steps=0", "server.primitive=s2a"),
    "carry": ("network.mixing=lazy",),
}


def worked(name, *more):
    return six(*SETTINGS[name], f"method.name={name}", *more)


@pytest.fixture(scope="module")
def trajectories():
    """Of all methods side by side, in one stack of one world."""
    lanes = [worked(name) for name in SETTINGS]
    world = six_world(lanes[0])
    return dict(zip(SETTINGS, lanes_after(world, lanes), strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_the_worked_trajectory(trajectories, name):
    experiment = worked(name)
    loop = torch.stack(list(trajectory(six_world(experiment), experiment)))[:, :, 0].numpy()
    if name in WHOLE:
        expected = np.array(WHOLE[name].split(), float).reshape(5, 6)
        found = trajectories[name], loop
    else:
        expected, found = np.array(LAST[name].split(), float), (trajectories[name][-1], loop[-1])
    for X in found:
        assert expected == pytest.approx(X, abs=6e-9)


def test_the_worked_trajectory_of_the_other_order():
    experiment = six("training.order=mix_then_adapt")
    expected = "1.63469304 1.57788981 1.17128393 3.74740175 3.40124081 3.36383267"
    (found,) = lanes_after(six_world(experiment), [experiment])
    assert np.array(expected.split(), float) == pytest.approx(found[-1], abs=6e-9)


# The fast engine and the loop

UNEQUAL = ("network.components=[3,4,5]", "server.period=2", "server.offset=1", "rounds=7")
ON_LINKS = [
    ["method.name=gradient_tracking", "server.primitive=s2s"],
    ["method.name=gradient_tracking", "server.primitive=s2a"],
    ["method.name=gradient_tracking", "server.primitive=blend", "server.selection=one_each"],
    ["method.name=gradient_tracking", "server.primitive=none"],
    ["method.name=gradient_tracking", "method.tracker=s2a", "server.primitive=s2a"],
    ["method.name=gradient_tracking", "method.tracker=s2a", "server.selection=one_each"],
    ["method.name=gradient_tracking", "method.tracker=home", "server.primitive=s2a"],
    ["method.name=gradient_tracking", "network.link_failure=0.3", "network.gossip_steps=2"],
    ["method.name=sd_gt", "server.selection=one_each", "server.sampled=6"],
    ["method.name=sd_gt", "server.sampled=12"],
    ["method.name=mtgc", "network.topology=complete", "server.sampled=12"],
    ["method.name=carry", "network.mixing=lazy"],
    ["method.name=carry", "network.mixing=lazy", "server.selection=importance"],
    ["method.name=carry", "server.primitive=none"],
    ["method.name=fedprox", "method.mu=0.3", "server.primitive=s2s"],
    ["method.name=fedprox", "method.mu=0.3", "server.primitive=blend"],
]
NO_LINKS = ("network.gossip_steps=0", "server.primitive=s2a")
FROM_THE_SERVER = [
    [f"method.name={name}", *NO_LINKS, f"server.selection={rule}"]
    for name in ("scaffold", "fedvarp", "mifa", "fedprox")
    for rule in ("uniform", "one_each", "round_robin")
]
PLAIN = [["server.primitive=s2s"], ["server.primitive=s2a", "server.optimizer=fedavgm"]]
LANES = [*PLAIN, *ON_LINKS, *FROM_THE_SERVER]
STEPWISE = ("gradient_tracking", "sd_gt")
"""Those whose rule is written for one local step."""


def several(lanes):
    return [lane for lane in lanes if not any(f"={name}" in lane[0] for name in STEPWISE)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-5), (torch.float64, 1e-12)])
def test_all_methods_beside_each_other(small, dtype, tolerance):
    base = small(*UNEQUAL, "server.sampled=6")
    lanes = [base.with_settings(*lane) for lane in LANES]
    assert_same_trajectories(build_world(base, dtype=dtype), lanes, tolerance)


@pytest.mark.parametrize(
    "more",
    [
        ("training.local_steps=3",),
        ("training.schedule=cosine", "training.local_steps=2"),
        ("model.name=mlp", "model.hidden=5"),
    ],
    ids=" ".join,
)
def test_several_steps_schedules_and_other_models(small, more):
    base = small(*UNEQUAL, "server.sampled=6", *more)
    lanes = several(LANES) if "training.local_steps" in "".join(more) else LANES
    experiments = [base.with_settings(*lane) for lane in lanes]
    assert_same_trajectories(build_world(base, dtype=torch.float64), experiments, 1e-11)


@pytest.mark.parametrize(
    "sleep", [("fleet.awake=0.6",), ("fleet.on=1", "fleet.off=2"), ("fleet.awake=0.0",)]
)
def test_companions_wait_with_devices_that_sleep(small, sleep):
    base = small(*UNEQUAL, "server.sampled=6", *sleep)
    on_links = [lane for lane in ON_LINKS if lane[0] not in ("method.name=sd_gt",)]
    waking = [lane for lane in on_links if lane[0] != "method.name=mtgc"]
    told = [["fleet.reach_asleep=true", f"method.name={n}", *NO_LINKS] for n in ("fedvarp", "mifa")]
    lanes = [base.with_settings(*lane) for lane in [*PLAIN, *waking, *told]]
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-12)


def test_a_lane_does_not_feel_its_neighbours(small):
    """Beside others, or alone, or kept when others have gone."""
    base = small(*UNEQUAL)
    world = build_world(base, dtype=torch.float64)
    carry = base.with_settings("method.name=carry", "network.mixing=lazy")
    others = [base.with_settings("server.sampled=6", *lane) for lane in LANES[:8]]
    stack = build_stack(world, [*others, carry])
    alone, beside = last_state(build_stack(world, [carry])), last_state(stack)
    where = stack.keys.index(world.key(carry))
    torch.testing.assert_close(alone.X_nld[:, 0], beside.X_nld[:, where])
    plain = next(i for i, e in enumerate(stack.experiments) if e.method.is_plain)
    lanes = sorted([plain, where])
    kept = keep_lanes(beside, lanes)
    assert kept.companions.lanes == {"carry.z": [lanes.index(where)]}
    Z, alone_Z = (each.companions.arrays["carry.z"] for each in (kept, alone))
    torch.testing.assert_close(Z, alone_Z)


def last_state(stack):
    *_, moment = simulate(stack)
    return moment.state


def test_a_stack_without_methods_keeps_nothing(small):
    stack = build_stack(build_world(small()), [small()])
    assert not stack.has_methods
    assert last_state(stack).companions.arrays == {}


def test_lanes_are_mixed_in_pieces_without_a_difference(small, monkeypatch):
    base = small(*UNEQUAL)
    lanes = [
        base.with_settings("method.name=carry", f"training.stepsize={eta}")
        for eta in (0.1, 0.05, 0.02)
    ]
    world = build_world(base)
    whole = last_state(build_stack(world, lanes)).X_nld
    monkeypatch.setattr("skerry.engine.method_hooks.CPU_PIECE", 1)
    assert torch.equal(whole, last_state(build_stack(world, lanes)).X_nld)


# Where they end

EVERYBODY = ("server.sampled=6", "server.selection=uniform")
ONE_EACH = ("server.sampled=2", "server.selection=one_each")
UNIFORM = ("server.sampled=3", "server.selection=uniform")
ENDS = [
    (["server.primitive=s2s"], EVERYBODY, 0.44),
    (["server.primitive=s2a"], EVERYBODY, 0.44),
    (["method.name=gradient_tracking", "server.primitive=s2s"], EVERYBODY, 0),
    (["method.name=gradient_tracking", "server.primitive=s2s"], ONE_EACH, 0),
    (["method.name=gradient_tracking", "server.primitive=s2s"], UNIFORM, 0),
    (["method.name=gradient_tracking", "server.primitive=s2a"], ONE_EACH, 0),
    (["method.name=gradient_tracking", "server.primitive=s2a"], UNIFORM, 0),
    (["method.name=gradient_tracking", "method.tracker=s2a"], EVERYBODY, 0),
    (["method.name=gradient_tracking", "method.tracker=home"], EVERYBODY, 0.34),
    (["method.name=sd_gt"], EVERYBODY, 0),
    (["method.name=sd_gt"], ONE_EACH, 0),
    (["method.name=mtgc", "network.topology=complete"], EVERYBODY, 0),
    (["method.name=carry", "network.mixing=lazy"], EVERYBODY, 0),
    (["method.name=carry", "network.mixing=lazy"], ONE_EACH, 0),
    (["method.name=carry", "network.mixing=lazy"], UNIFORM, 0),
    (["method.name=scaffold", *NO_LINKS], EVERYBODY, 0),
    (["method.name=scaffold", *NO_LINKS], ONE_EACH, 0),
    (["method.name=scaffold", *NO_LINKS], UNIFORM, 0),
    ([*NO_LINKS], EVERYBODY, 0.52),
    *(
        ([f"method.name={name}", *NO_LINKS], rule, 0.52)
        for name in ("fedvarp", "mifa")
        for rule in (EVERYBODY, ONE_EACH, UNIFORM)
    ),
]


@pytest.fixture(scope="module")
def ends():
    lanes = [six(*lane, *rule, rounds=601) for lane, rule, _ in ENDS]
    world = six_world(lanes[0])
    stack = build_stack(world, lanes)
    X = last_state(stack).X_nld[:, :, 0]
    return [float((X[:, stack.keys.index(world.key(e))] - BEST).abs().max()) for e in lanes]


@pytest.mark.parametrize("number", range(len(ENDS)), ids=lambda i: str(ENDS[i][0] + [*ENDS[i][1]]))
def test_where_it_ends(ends, number):
    """Exact to ten digits, or at the error that plain averaging leaves."""
    expected = ENDS[number][2]
    if expected:
        assert ends[number] == pytest.approx(expected, abs=0.006)
    else:
        assert ends[number] < 1e-10


@pytest.mark.parametrize(
    ("tracker", "primitive", "least"),
    [("s2a", "s2a", 0.1), ("home", "s2a", 0.3), ("home", "s2s", 1.0)],
)
@pytest.mark.parametrize("rule", [ONE_EACH, UNIFORM], ids=["one each", "uniform"])
def test_only_s2s_tracks_where_few_are_sampled(tracker, primitive, least, rule):
    """By S2A the mean of Y moves at every server round; at home islands never learn of each
    other. Both end far from the optimum, where S2S ends on it."""
    by = f"server.primitive={primitive}"
    lane = six("method.name=gradient_tracking", by, *rule, rounds=601)
    wrong = lane.with_settings(f"method.tracker={tracker}")
    stack = build_stack(six_world(lane), [lane, wrong])
    off = (last_state(stack).X_nld[:, :, 0] - BEST).abs().amax(dim=0)
    assert off[stack.experiments.index(lane)] < 1e-10
    assert off[stack.experiments.index(wrong)] > least


def test_unequal_islands_end_at_the_optimum_too():
    """SD-GT weighs islands by their size; by a plain mean it would end .74 away."""
    sizes = ("network.components=[2,4]", *ONE_EACH)
    lanes = [six(*sizes, "method.name=sd_gt", rounds=1201)]
    assert (last_state(build_stack(six_world(lanes[0]), lanes)).X_nld - BEST).abs().max() < 1e-9


# What stays as it is


@given(
    seed=st.integers(0, 10**6),
    awake=st.sampled_from((1.0, 0.5)),
    topology=st.sampled_from(("ring", "path", "complete", "star")),
    failing=st.sampled_from((0.0, 0.4)),
    K=st.integers(1, 6),
    steps=st.integers(1, 3),
)
@settings(max_examples=25)
def test_what_is_kept_adds_up(seed, awake, topology, failing, K, steps):
    """Whatever the graph, the sample and the sleep: the mean of Y is that of the last gradients,
    Z of carry and Y and Z of MTGC sum to zero, the latter on every island; Z of SD-GT does, and c
    of SCAFFOLD is the mean of all c_i."""
    shared = (
        f"seed={seed}",
        f"server.sampled={K}",
        f"fleet.awake={awake}",
        f"network.topology={topology}",
        f"network.link_failure={failing}",
        "server.selection=uniform",
        "network.components=[2,4]",
    )
    tracking = six(*shared, "method.name=gradient_tracking", "server.primitive=s2a", rounds=9)
    state = last_state(build_stack(six_world(tracking), [tracking]))
    Y, G = (state.companions.arrays[f"gradient_tracking.{name}"] for name in ("y", "gradient"))
    assert Y.mean(dim=0) == pytest.approx(G.mean(dim=0), abs=1e-12)
    several_steps = f"training.local_steps={steps}"
    carry = six(*shared, several_steps, "method.name=carry", rounds=9)
    unequal = (several_steps, f"seed={seed}", "network.components=[2,4]")
    mtgc = six(*SETTINGS["mtgc"], *unequal, "method.name=mtgc", rounds=9)
    for lane, names in ((carry, ["carry.z"]), (mtgc, ["mtgc.y", "mtgc.z"])):
        kept = last_state(build_stack(six_world(lane), [lane])).companions.arrays
        for name in names:
            assert kept[name].abs().max() > 1e-3
            assert kept[name].sum(dim=0) == pytest.approx(0, abs=1e-10)
        if lane is mtgc:
            assert kept["mtgc.z"][:2].sum(dim=0) == pytest.approx(0, abs=1e-10)
    awake_all = [one for one in shared if not one.startswith("fleet")]
    scaffold = six(*awake_all, *NO_LINKS, several_steps, "method.name=scaffold", rounds=9)
    kept = last_state(build_stack(six_world(scaffold), [scaffold])).companions.arrays
    assert kept["scaffold.all"] == pytest.approx(kept["scaffold.own"].mean(dim=0), abs=1e-11)
    each = ("server.selection=one_each", f"server.sampled={2 * min(K, 2)}")
    sd_gt = six(*awake_all, *each, "method.name=sd_gt", rounds=8)
    kept = last_state(build_stack(six_world(sd_gt), [sd_gt])).companions.arrays
    assert kept["sd_gt.z"].sum(dim=0) == pytest.approx(0, abs=1e-10)


def test_carry_is_centred_against_rounding(small):
    """In float32 its sum would drift."""
    lane = small("method.name=carry", "network.mixing=lazy", "rounds=100", "server.period=7")
    Z = last_state(build_stack(build_world(lane), [lane])).companions.arrays["carry.z"]
    assert Z.mean(dim=0).abs().max() < 1e-7 < Z.abs().max()


# What it costs


@pytest.mark.parametrize(
    ("settings", "d2d", "up", "down"),
    [
        (["server.primitive=s2s"], 2, 5, 5),
        (["method.name=carry"], 2, 5, 5),
        (["method.name=gradient_tracking", "server.primitive=s2s"], 4, 10, 10),
        (["method.name=gradient_tracking", "server.primitive=s2a"], 4, 10, 12 + 5),
        (["method.name=gradient_tracking", "method.tracker=s2a"], 4, 10, 5 + 12),
        (["method.name=gradient_tracking", "method.tracker=home"], 4, 5, 5),
        (["method.name=sd_gt", "server.sampled=4", "server.selection=one_each"], 4, 4, 8),
        (["method.name=scaffold", *NO_LINKS], 0, 10, 24),
        (["method.name=fedvarp", *NO_LINKS], 0, 5, 12),
        (["method.name=mifa", *NO_LINKS], 0, 5, 12),
        (["method.name=fedprox", "server.primitive=s2a"], 2, 5, 12),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_sent(small, settings, d2d, up, down):
    """Links of 2 rings of 6; 3 rounds, the last of which is a server round."""
    lane = small(
        "server.offset=2", "rounds=3", 'evaluate.measures=["communication","participation"]'
    )
    (found,) = skerry.run(lane.with_settings(*settings))
    sent = [found.history[f"{link}_messages"][-1] for link in ("d2d", "uplink", "downlink")]
    assert sent == [3 * d2d * 12, up, down]
    assert found.history["sampled_devices"][-1] == found.experiment.server.sampled
