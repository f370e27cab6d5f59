"""Who takes part: rules, weights and sleep, held against the reference, oracles and laws."""

from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry.config.fields import Availability
from skerry.engine.participation.awake import Awake
from skerry.engine.participation.sampler import Sampler
from skerry.engine.participation.selection import place_islands
from skerry.engine.primitives import deliver
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.plugins import registry
from skerry.plugins.context import Context
from trajectories import assert_same_trajectories

RULES = sorted(registry.KINDS["selection"])
ISLANDS = ("network.components=[3,4,5]", "server.sampled=6", "server.period=2", "rounds=7")
SLEEP = (
    (),
    ("fleet.awake=0.6",),
    ("fleet.awake=0.3", "fleet.reach_asleep=true"),
    ("fleet.on=2", "fleet.off=3"),
    ("fleet.on=1", "fleet.off=2", "fleet.together=islands"),
    ("fleet.awake=0.0",),
)


def lanes_of(base, settings):
    return [base.with_settings(*each) for each in settings]


@pytest.mark.parametrize(
    ("dtype", "tolerance", "sleep"),
    [
        *((torch.float64, 1e-12, sleep) for sleep in SLEEP),
        *((torch.float32, 2e-5, sleep) for sleep in SLEEP[:2]),
    ],
    ids=str,
)
def test_every_rule_beside_all_others(small, sleep, dtype, tolerance):
    """All rules, weights and primitives as lanes of one stack do what each does in the loop: in
    double precision whoever sleeps, in single precision with and without sleep."""
    base = small(*ISLANDS, *sleep, "data.intra=dirichlet", "data.alpha=1.0")
    world = build_world(base, dtype=dtype)
    lanes = [
        (
            f"server.selection={rule}",
            f"server.primitive={primitive}",
            f"server.weights={weights}",
            f"training.weights={counted}",
        )
        for rule, primitive, weights, counted in product(
            RULES, ("s2s", "s2a", "blend"), ("equal", "stratified", "data"), ("equal", "data")
        )
        if not (rule == "importance" and weights != "equal")
    ]
    assert_same_trajectories(world, lanes_of(base, lanes), tolerance)


@pytest.mark.parametrize("optimizer", ["fedavg", "fedavgm"])
def test_orders_and_gossip_steps(small, optimizer):
    base = small(*ISLANDS, f"server.optimizer={optimizer}")
    lanes = [
        (f"training.order={order}", f"network.gossip_steps={steps}", *sleep, f"network.{links}")
        for order, steps, sleep, links in product(
            ("adapt_then_mix", "mix_then_adapt"),
            (1, 3),
            ((), ("fleet.awake=0.5",)),
            ("link_failure=0.0", "link_failure=0.3", "dynamic=true"),
        )
    ]
    assert_same_trajectories(build_world(base), lanes_of(base, lanes), 1e-5)


def test_several_local_steps_count_by_data(small):
    base = small(*ISLANDS, "training.local_steps=3", "data.intra=dirichlet", "data.alpha=1.0")
    lanes = [("training.weights=data", more) for more in ("fleet.awake=1.0", "fleet.awake=0.5")]
    assert_same_trajectories(build_world(base), lanes_of(base, lanes), 1e-5)


# Orders


def context(sizes, sampled=3, *, seed=0, t=0, awake=None, samples=None, number=0):
    n = sum(sizes)
    return Context(
        seed=seed,
        round=t,
        number=number,
        sampled=sampled,
        sizes=sizes,
        samples=np.ones(n, dtype=np.int64) if samples is None else np.asarray(samples),
        devices=tuple(map(str, range(n))),
        awake=np.ones(n, dtype=bool) if awake is None else np.asarray(awake, dtype=bool),
    )


def sample(rule, context, **options):
    found = registry.resolve("selection", rule)(context, **options)
    devices, weights = found if isinstance(found, tuple) else (found, None)
    return devices.tolist(), weights


@pytest.mark.parametrize(
    ("inside", "phases", "order"),
    [
        ([[0], [2, 1], [4, 3, 5]], [4 / 6, 2 / 5, 0.0], [4, 0, 2, 3, 1, 5]),
        ([[3, 0, 2, 1], [5, 4]], [0.0, 3 / 6], [3, 5, 0, 2, 4, 1]),
    ],
)
def test_the_peeled_order_of_the_specification(inside, phases, order):
    inside = [np.array(one) for one in inside]
    assert place_islands(inside, np.array(phases) + 1e-9).tolist() == order


@pytest.mark.parametrize("sizes", [(2, 3), (1, 2, 2), (3, 1)])
def test_per_component_is_fair_for_every_K(sizes):
    """Over all phases and inner orders every device has the chance K/n exactly, for every K."""
    n, starts = sum(sizes), np.cumsum((0, *sizes[:-1]))
    orders = []
    lefts, left = {}, n
    for c in sorted(range(len(sizes)), key=lambda c: (sizes[c], c)):
        lefts[c], left = left, left - sizes[c]
    every = [range(lefts[c]) for c in range(len(sizes))]
    for us in product(*every):
        phases = np.array([(u + 0.5) / lefts[c] for c, u in enumerate(us)])
        for inner in product(
            *(permutations(range(s, s + m)) for s, m in zip(starts, sizes, strict=True))
        ):
            orders.append(place_islands([np.array(one) for one in inner], phases))
    orders = np.array(orders)
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    for K in range(1, n + 1):
        counts = np.bincount(orders[:, :K].ravel(), minlength=n)
        assert (counts * n == K * len(orders)).all()


@given(st.integers(0, 1000), st.integers(0, 50))
def test_samples_are_nested(seed, t):
    """The sample of a smaller K begins that of a larger one."""
    for rule in ("uniform", "per_component"):
        orders = [sample(rule, context((3, 4, 5), K, seed=seed, t=t))[0] for K in range(1, 13)]
        assert all(longer[: len(shorter)] == shorter for shorter, longer in combinations(orders, 2))


def test_one_island_is_uniform():
    for t in range(20):
        who = context((7,), 3, t=t)
        assert sample("per_component", who)[0] == sample("uniform", who)[0]
        assert sample("one_each", who)[0] == sample("uniform", who)[0]


def test_uniform_samples_as_ever(small):
    """The draws of runs that are recorded already."""
    base = small("server.selection=uniform")
    world = build_world(base)
    for t in range(10):
        devices, _ = sample("uniform", context(world.sizes, 5, seed=world.seed, t=t))
        assert devices == world.server_order(t)[:5].tolist()


def test_one_of_each_island_weighs_islands_by_size():
    devices, weights = sample("one_each", context((2, 4), 2))
    assert [device < 2 for device in devices] == [True, False]
    assert weights == pytest.approx([2 / 6, 4 / 6])


def test_round_robin_meets_everybody_once():
    met = [sample("round_robin", context((4, 8), 3, t=5 * v, number=v))[0] for v in range(4)]
    assert sorted(device for devices in met for device in devices) == list(range(12))


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_bernoulli_counts_follow_the_binomial(q):
    n, rounds = 6, 4000
    counts = [
        len(sample("bernoulli", context((n,), 1, t=t), sample_prob=q)[0]) for t in range(rounds)
    ]
    for k in range(n + 1):
        chance = comb(n, k) * q**k * (1 - q) ** (n - k)
        assert np.mean(np.equal(counts, k)) == pytest.approx(chance, abs=0.03)


def test_weighted_draws_are_unbiased():
    """Oracle O8: m = (1, 2, 3, 6), x = (1, 3, 0, 4), K = 2: mean 2.583333, bias 1.454861."""
    x, m = np.array([1.0, 3, 0, 4]), (1, 2, 3, 6)
    found = []
    for t in range(20000):
        devices, weights = sample("weighted", context((4,), 2, t=t, samples=m))
        found.append(weights @ x[devices])
    assert np.mean(found) == pytest.approx(2.583333, abs=0.03)
    assert np.mean((np.array(found) - 2.583333) ** 2) == pytest.approx(1.454861, abs=0.05)


def test_importance_is_unbiased_and_best():
    """x = (1, 2, 3, 6), x_ref = 2, K = 2: variance .625 by distance, 1.75 where all are alike."""
    x, reference_x = np.array([1.0, 2, 3, 6]), 2.0
    found = []
    for t in range(20000):
        who = context((4,), 2, t=t)
        who = who.with_facts(distances=abs(x - reference_x))
        devices, weights = sample("importance", who)
        found.append(weights @ x[devices] + (1 - weights.sum()) * reference_x)
    assert np.mean(found) == pytest.approx(3.0, abs=0.03)
    assert np.var(found) == pytest.approx(0.625, abs=0.03)


# What one server round does: oracles by enumeration


X6 = np.array([1.0, 3, 0, 2, 5, 9])


def energies(x, sizes):
    mean = x.mean()
    parts = np.split(x, np.cumsum(sizes)[:-1])
    intra = sum(((part - part.mean()) ** 2).sum() for part in parts)
    return intra, ((x - mean) ** 2).sum() - intra


def after(x, devices, weights, beta):
    X = torch.tensor(x)[:, None, None].clone()
    k = torch.tensor(devices)
    plain = X[k].mean(dim=0)
    estimate = torch.einsum("k,kld->ld", torch.tensor(weights, dtype=X.dtype), X[k])
    deliver(X, k, plain, estimate, beta)
    return X[:, 0, 0].numpy()


def expected(x, sizes, samples, weigh):
    """Means over samples of S2S's energies and of S2A's bias."""
    intra, inter, moved = [], [], []
    for devices in samples:
        weights = weigh(devices)
        s2s = after(x, devices, weights, 0.0)
        assert s2s.mean() == pytest.approx(x.mean(), abs=1e-12)  # S2S never moves the average
        a, b = energies(s2s, sizes)
        intra.append(a)
        inter.append(b)
        s2a = after(x, devices, weights, 1.0)
        assert np.ptp(s2a) < 1e-12
        moved.append(len(x) * (s2a.mean() - x.mean()) ** 2)
        blended = after(x, devices, weights, 0.3)
        assert sum(energies(blended, sizes)) == pytest.approx(0.49 * (a + b))
        assert len(x) * (blended.mean() - x.mean()) ** 2 == pytest.approx(0.09 * moved[-1])
    return np.mean(intra), np.mean(inter), np.mean(moved)


def alike(devices):
    return [1 / len(devices)] * len(devices)


def by_island(sizes):
    island = np.repeat(np.arange(len(sizes)), sizes)

    def weigh(devices):
        counts = np.bincount(island[list(devices)], minlength=len(sizes))
        return [sizes[c] / (sum(sizes) * counts[c]) for c in island[list(devices)]]

    return weigh


def with_counts(sizes, counts):
    starts = np.cumsum((0, *sizes[:-1]))
    inside = (
        combinations(range(s, s + m), k) for s, m, k in zip(starts, sizes, counts, strict=True)
    )
    return [sum(parts, ()) for parts in product(*map(list, inside))]


@pytest.mark.parametrize(
    ("sizes", "samples", "weigh", "intra", "inter", "bias"),
    [
        ((2, 4), list(combinations(range(6), 3)), alike, 28.133333, 3.866667, 10.666667),
        ((2, 4), with_counts((2, 4), (1, 2)), alike, 29.166667, 2.944444, 10.888889),
        ((2, 4), with_counts((2, 4), (1, 1)), alike, 40.656250, 4.427083, 19.416667),
        ((2, 4), with_counts((2, 4), (1, 1)), by_island((2, 4)), 40.656250, 4.427083, 31.333333),
        ((3, 3), with_counts((3, 3), (1, 1)), alike, 28.148148, 12.296296, 14.666667),
        ((1, 2, 3), with_counts((1, 2, 3), (1, 1, 1)), alike, 24.320988, 10.790123, 10.111111),
        (
            (1, 2, 3),
            with_counts((1, 2, 3), (1, 1, 1)),
            by_island((1, 2, 3)),
            24.320988,
            10.790123,
            13.833333,
        ),
    ],
    ids=["O1", "O2", "O3 plain", "O3", "O4", "O5 plain", "O5"],
)
def test_the_oracles_of_one_server_round(sizes, samples, weigh, intra, inter, bias):
    found = expected(X6, sizes, samples, weigh)
    assert found == pytest.approx((intra, inter, bias), abs=1e-5)


def test_post_stratified_uniform_sampling():
    """O10: (3, 3), uniform, K = 4: bias 5.333333 plain and 5.133333 by island where all are met."""
    sizes, island = (3, 3), np.repeat([0, 1], 3)
    moved = []
    for devices in combinations(range(6), 4):
        met = len(set(island[list(devices)])) == 2
        weights = by_island(sizes)(devices) if met else alike(devices)
        moved.append(6 * (after(X6, devices, weights, 1.0).mean() - X6.mean()) ** 2)
    assert np.mean(moved) == pytest.approx(5.133333, abs=1e-5)


def test_sleepers_of_the_specification(small):
    """O9: awake {0, 2, 3, 5}, K = 2: S2S leaves D 36.666667."""
    awake = [0, 2, 3, 5]
    left, moved, spread = [], [], []
    for devices in combinations(awake, 2):
        s2s = after(X6, devices, alike(devices), 0.0)
        left.append(((s2s - s2s.mean()) ** 2).sum())
        s2a = after(X6, devices, alike(devices), 1.0)
        s2a[[1, 4]] = X6[[1, 4]]
        moved.append(6 * (s2a.mean() - X6.mean()) ** 2)
        spread.append(((s2a - s2a.mean()) ** 2).sum())
    assert np.mean(left) == pytest.approx(36.666667, abs=1e-5)
    assert np.mean(moved) == pytest.approx(11.111111, abs=1e-5)
    assert np.mean(spread) == pytest.approx(8.888889, abs=1e-5)


# Sleep


def test_awake_devices_are_nested_in_their_chance():
    islands = np.repeat([0, 1], 50)
    names = tuple(map(str, range(100)))
    few, many = (Awake(Availability(awake=a), 3, islands, names) for a in (0.3, 0.8))
    for t in range(20):
        assert (few(t) <= many(t)).all()
    assert np.mean([few(t).mean() for t in range(200)]) == pytest.approx(0.3, abs=0.02)


def test_islands_sleep_together():
    islands = np.repeat([0, 1, 2], 4)
    names = tuple(map(str, range(12)))
    awake = Awake(Availability(on=3, off=2, together="islands"), 0, islands, names)
    seen = np.array([awake(t) for t in range(10)])
    assert (seen[:, :4] == seen[:, :1]).all()
    assert (seen.sum(axis=0) == 6).all()  # 3 of every 5 rounds


def to_all(X_nld, sampled_k, delivered_ld):
    """S2A as a user's own primitive."""
    X_nld.copy_(delivered_ld.expand_as(X_nld))
    return len(X_nld)


def test_importance_with_an_own_primitive_measures_from_the_model_delivered_last(small):
    base = small("server.selection=importance", "server.primitive=s2a")
    world = build_world(base)
    lanes = base, base.replace(server={"primitive": to_all})
    X = [list(simulate(build_stack(world, [e])))[-1].state.X_nld for e in lanes]
    assert torch.equal(*X)


def test_everybody_awake_is_as_before(small):
    """Chances of one, and one for each device, change nothing to the bit."""
    base = small(*ISLANDS)
    world = build_world(base)
    (lane,) = build_stack(world, [base]).experiments
    ones = base.model_copy(update={"availability": Availability(awake=(1.0,) * 12)})
    X = [list(simulate(build_stack(world, [e])))[-1].state.X_nld for e in (lane, ones)]
    assert torch.equal(*X)


def test_nothing_breaks_when_all_sleep(small):
    base = small(*ISLANDS, "fleet.awake=0.0")
    moments = list(simulate(build_stack(build_world(base), [base])))
    assert moments[-1].round == 7
    assert torch.equal(moments[-1].state.X_nld, moments[0].state.X_nld)
    assert not any(moment.server_rounds or moment.diverged for moment in moments)


def test_a_trace_is_read_and_begins_again(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("device,from,to\n0,0,2\n1,1,3\n\n0,3,4\n")
    awake = Awake(Availability(awake=str(file)), 0, np.zeros(2, dtype=int), ("0", "1"))
    seen = [awake(t).tolist() for t in range(8)]
    assert seen[:4] == [[True, False], [True, True], [False, True], [True, False]]
    assert seen[4:] == seen[:4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line .* must read device,from,to"),
        ("device,start,end\n", "first line .* must read device,from,to"),
        ("device,from,to\n", "has no rows"),
        ("device,from,to\nporch,0,1\n", "line 2 .* names the device 'porch'"),
        ("device,from,to\n0,a,1\n", "must be whole rounds"),
        ("device,from,to\n0,5,2\n", "below to"),
        ("device,from,to\n0,1\n", "three columns"),
    ],
)
def test_a_bad_trace_is_told(tmp_path, text, message):
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(ExperimentError, match=message):
        Awake(Availability(awake=str(file)), 0, np.zeros(2, dtype=int), ("0", "1"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["server.selection=one_each", "server.sampled=4"], "must be a multiple of the number"),
        (["server.selection=unifrom"], "did you mean 'uniform'"),
        (["fleet.on=3"], "go together"),
        (["fleet.awake=[0.5,0.5]"], "a chance for each of the 12 devices"),
        (["fleet.awake=none.csv"], "no trace file"),
        (["fleet.awake=1.5"], "availability.awake"),
        (
            ["server.selection=bernoulli", "server.sample_prob=0"],
            "server.sample_prob must be above",
        ),
    ],
)
def test_bad_participation_is_told(small, settings, message):
    def run():
        base = small("network.components=[3,4,5]", *settings)
        return list(simulate(build_stack(build_world(base), [base])))

    with pytest.raises(SkerryError, match=message):
        run()


# A user's own rule


def the_first(context):
    return context.order[:2], [0.25, 0.75]


def strangers(context):
    return [0, 99]


def twice(context):
    return [1, 1]


def heavy(context):
    return context.order[:2], [1.0, 1.0]


def words(context):
    return ["porch"]


def sleeping(context):
    return np.flatnonzero(~context.awake)[:1]


def test_a_rule_of_ones_own(small):
    base = small(*ISLANDS, f"server.selection={__name__}:the_first", "server.primitive=s2a")
    assert_same_trajectories(build_world(base), [base], 1e-5)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("strangers", "not in the fleet"),
        ("twice", "each device once"),
        ("heavy", "sum to 1"),
        ("words", "whole numbers"),
        ("sleeping", "asleep"),
    ],
)
def test_a_wrong_rule_is_told(small, rule, message):
    base = small(*ISLANDS, f"server.selection={__name__}:{rule}", "fleet.awake=0.5")
    sampler = Sampler(build_world(base), base)
    with pytest.raises(SkerryError, match=message):
        list(map(sampler.sample, range(10)))


def test_who_took_part_is_measured(small):
    base = small(
        *ISLANDS,
        "fleet.awake=0.5",
        "server.selection=one_each",
        'evaluate.measures=["participation","communication"]',
    )

    (lane,) = skerry.run(base)
    history = lane.history
    sent = np.nancumsum(history["sampled_devices"])
    assert history["uplink_messages"].tolist() == sent.tolist()
    world = build_world(base)
    awake = [int(world.awake(base)(t).sum()) for t in range(7)]
    assert history["awake_devices"][1:].tolist() == awake
    met = ~np.isnan(history["sampled_devices"])
    assert (np.flatnonzero(met) - 1).tolist() == [t for t in (0, 2, 4, 6) if awake[t]]
    assert (history["sampled_islands"][met] <= 3).all()


def test_counts_of_islands_are_measured(small):
    """In every server round: of the island with the fewest sampled devices, and of that with the
    most, in lanes whose rules differ."""
    asked = small('evaluate.measures=["participation"]', "server.sampled=4", "server.period=2")
    rules = ("uniform", "per_component", "one_each")
    lanes = skerry.run([asked.with_settings(f"server.selection={rule}") for rule in rules])
    world = build_world(asked)
    for lane in lanes:
        sampler = Sampler(world, lane.experiment)
        met = ~np.isnan(lane.history["sampled_fewest"])
        assert (np.flatnonzero(met) - 1).tolist() == [0, 2, 4, 6]
        for t in (0, 2, 4, 6):
            islands = world.fleet.island_of[sampler.sample(t).devices_k.numpy()]
            counts = np.bincount(islands, minlength=2)
            assert lane.history["sampled_fewest"][t + 1] == counts.min()
            assert lane.history["sampled_most"][t + 1] == counts.max()
        if lane.experiment.server.selection != "uniform":
            assert (lane.history["sampled_most"][met] == 2).all()


def test_a_trace_that_was_changed_is_another_run(small, tmp_path):
    """The content of the file is part of the key, as that of a graph is."""
    file = tmp_path / "trace.csv"
    file.write_text("device,from,to\n0,0,2\n")
    before = small(f"fleet.awake={file}").key()
    assert small(f"fleet.awake={file}").key() == before
    file.write_text("device,from,to\n0,0,3\n")
    assert small(f"fleet.awake={file}").key() != before
