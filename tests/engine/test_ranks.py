"""Ranks compute what one process computes, each with its share of the devices."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fleet_data
from oracle import trajectory
from skerry.config.experiment import Experiment
from skerry.data.by_device.from_python import from_devices
from skerry.engine.ranks.assignment import SLACK, DeviceAssignment
from skerry.engine.ranks.group import Rank
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import SkerryError
from skerry.measure.observer import Observer
from thread_ranks import build, together

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(tuple)
SERVERS = [
    [f"server.primitive={primitive}", f"server.optimizer={optimizer}", f"server.period={period}"]
    for primitive, optimizer, period in [
        *product(("s2s", "s2a", "blend", "none"), ("fedavg", "fedavgm"), (1, 3)),
        ("s2a", "fedadam", 1),
        ("s2s", "fedavgm_averages", 3),
    ]
]
CUT = ["network.components=1"]
WORLDS = {
    "equal islands": ["network.components=3"],
    "unequal islands": ["network.components=[5, 4, 2, 1]"],
    "a cut island": CUT,
    "a cut island with other links in every round": [*CUT, "network.dynamic=true"],
    "failing links, twice": [*CUT, "network.link_failure=0.3", "network.gossip_steps=2"],
    "dense and cut": ["network.components=2", "network.topology=complete"],
    "sleep": ["network.components=3", "fleet.awake=0.5"],
    "sleep that is reached": [*CUT, "fleet.awake=0.5", "fleet.reach_asleep=true"],
    "by data": [
        "network.components=3",
        "training.weights=data",
        "server.weights=data",
        "data.intra=dirichlet",
    ],
    "per component": ["network.components=3", "server.selection=per_component"],
    "one each": ["network.components=3", "server.selection=one_each", "server.sampled=6"],
    "bernoulli": ["server.selection=bernoulli", "server.sample_prob=0.3"],
    "stratified": ["network.components=3", "server.weights=stratified"],
    "mix, then adapt": ["network.components=3", "training.order=mix_then_adapt"],
    "epochs and local steps": ["training.sampling=epochs", "training.local_steps=2"],
    "mlp": ["network.components=3", "model.name=mlp", "model.hidden=[5]"],
    "private head": [*CUT, "model.name=mlp", "model.hidden=[5]", 'model.private=["3.*"]'],
    "server rounds without mixing": ["network.components=3", "network.mix_with_server=false"],
}
TO_THE_BIT = {"average_accuracy", "average_loss", "disagreement", "disagreement_intra", "bias"}


def follow(world, lanes):
    """The models after every round, what was measured, and what every device scored."""
    stack = build_stack(world, lanes)
    observer, models, rows = Observer(stack), [], []
    for moment in simulate(stack):
        rows.append(observer.rows(moment))
        if moment.phase == "end":
            models.append(moment.state.X_nld.clone())
    return stack, models, rows, observer.device_tables


def on_ranks(ranks, base, lanes, dtype=torch.float32):
    found = together(ranks, lambda wire: follow(build(base, dtype=dtype, exchange=wire), lanes))
    _, _, rows, tables = found[0]
    assert all(other[2] == rows for other in found), "ranks measure differently"
    return (
        [torch.cat(parts) for parts in zip(*(one[1] for one in found), strict=True)],
        rows,
        tables,
    )


@pytest.mark.parametrize("settings", WORLDS.values(), ids=WORLDS)
def test_reference_equals_stack_equals_ranks(small, settings):
    """In double precision, for one, two and three ranks; every message is counted alike."""
    # Classes that an island never sees score alike: rounding would decide between them.
    base = small("data.inter=iid", *settings, "rounds=4")
    lanes = [base.with_settings(*server) for server in SERVERS]
    world = build_world(base, dtype=torch.float64)
    stack, alone, rows, tables = follow(world, lanes)
    for ranks in (1, 2, 3):
        models, measured, scored = on_ranks(ranks, base, lanes, torch.float64)
        for together_X, alone_X in zip(models, alone, strict=True):
            assert torch.allclose(together_X, alone_X, rtol=1e-12, atol=1e-13)
        assert scored == tables
        for one, other in zip(rows, measured, strict=True):
            assert one.keys() == other.keys()
            for key in one:
                assert one[key] == pytest.approx(other[key], rel=1e-8, abs=1e-12, nan_ok=True)
    for lane in (0, 4):
        expected = list(trajectory(world, stack.experiments[lane]))
        assert torch.allclose(models[-1][:, lane], expected[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("settings", [WORLDS["equal islands"], WORLDS["sleep"], WORLDS["by data"]])
def test_with_whole_islands_the_number_of_ranks_changes_no_bit(small, settings):
    """Sums over devices are exact, so their order does not matter."""
    base = small("network.devices=18", *settings, "data.samples=500")
    lanes = [base.with_settings(*server) for server in SERVERS]
    first, rows, _ = on_ranks(1, base, lanes)
    again, measured, _ = on_ranks(3, base, lanes)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    for one, other in zip(rows, measured, strict=True):
        for key in one:
            assert {n: one[key][n] for n in TO_THE_BIT & one[key].keys()} == {
                n: other[key][n] for n in TO_THE_BIT & other[key].keys()
            }


def test_a_cut_island_with_few_links_changes_no_bit_of_the_models(small):
    """Its rows of W are summed in the order of the devices, whoever holds them."""
    base = small("network.devices=30", "network.components=1", "server.sampled=9")
    lanes = [base.with_settings(*server) for server in SERVERS]
    one, three = (on_ranks(ranks, base, lanes)[0] for ranks in (1, 3))
    assert all(torch.equal(X, Y) for X, Y in zip(one, three, strict=True))


def test_a_rank_holds_the_samples_of_its_devices(small):
    base = small("network.components=3", "data.intra=dirichlet")
    whole = build_world(base)
    worlds = together(3, lambda wire: build(base, exchange=wire))
    assert sum(len(world.x_train) for world in worlds) == len(whole.x_train)
    assert sum(len(world.dataset.x_train) for world in worlds) == len(whole.x_train)
    for t in range(3):
        mine = torch.cat([world.x_train[world.batch_indices(t, 0)] for world in worlds])
        assert torch.equal(mine, whole.x_train[whole.batch_indices(t, 0)])
    assert {world.key(base) for world in worlds} == {whole.key(base)}


def test_devices_are_judged_by_their_own_tests_wherever_they_are():
    dataset = from_devices(
        fleet_data.devices(), own_test=fleet_data.own_tests(), islands=fleet_data.ISLANDS
    )
    base = Experiment.parse(
        {}, ["rounds=3", "training.batch=4", "server.sampled=2", "data.split=given"]
    )

    def judged(exchange=None):
        world = build(base, Materials(dataset=dataset), exchange=exchange)
        return follow(world, [world.experiment])

    *_, rows, tables = judged()
    found = together(3, judged)
    assert {rank[3] == tables for rank in found} == {True}
    (last,), (expected,) = found[0][2][-1].values(), rows[-1].values()
    assert last == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("rounds", "every"), [(120, 60), (24, 2)], ids=["infinite", "exploded"])
def test_a_lane_that_diverges_is_left_behind_on_all_ranks(small, rounds, every):
    """Also when its loss is finite, and all ranks must know the loss at the start."""
    base = small("model.name=quadratic", f"rounds={rounds}", f"evaluate.every={every}")
    lanes = [base, base.with_settings("training.stepsize=50")]
    models, _, _ = on_ranks(2, base, lanes)
    assert models[0].shape[1] == 2
    assert models[-1].shape[1] == 1
    assert models[-1].isfinite().all()


@given(SIZES, st.integers(1, 8))
def test_every_device_is_on_one_rank_and_ranks_are_about_even(sizes, ranks):
    n = sum(sizes)
    if ranks > n:
        with pytest.raises(SkerryError, match="at most the number of devices"):
            DeviceAssignment.of(sizes, ranks)
        return
    shares = DeviceAssignment.of(sizes, ranks)
    assert sum(shares.counts) == n
    assert min(shares.counts) >= 1
    assert max(shares.counts) <= (1 + 2 * SLACK) * n / ranks + 1
    held = [device for rank in range(ranks) for device in range(n)[shares.devices(rank)]]
    assert held == list(range(n))


@given(SIZES, st.integers(1, 8))
def test_parts_tell_what_is_cut(sizes, ranks):
    """The parts of an island, over all ranks, are the island; it begins once."""
    if ranks > sum(sizes):
        return
    shares = DeviceAssignment.of(sizes, ranks)
    parts = [part for rank in range(ranks) for part in shares.parts(rank)]
    held = np.zeros(len(sizes), dtype=int)
    for part in parts:
        held[part.island] += part.rows.stop - part.rows.start
    assert held.tolist() == list(sizes)
    assert sorted(part.island for part in parts if part.first) == list(range(len(sizes)))
    assert {part.island for part in parts if not part.is_whole} == set(shares.cut)


def test_islands_stay_whole_where_that_is_even():
    assert DeviceAssignment.of((100,) * 10, 5).cut == ()
    assert DeviceAssignment.of((100,) * 10, 3).cut == ()  # 300, 400, 300
    assert DeviceAssignment.of((10, 1000, 10), 2).borders == (0, 510, 1020)
    assert DeviceAssignment.of((10, 1000, 10), 2).cut == (1,)


ROWS = st.lists(st.floats(-1e6, 1e6, allow_nan=False, width=32), min_size=6, max_size=6)


@given(ROWS, st.integers(1, 3))
def test_a_sum_over_ranks_is_exact_to_rounding_and_in_no_order(values, ranks):
    rows = torch.tensor(values).view(6, 1)
    bounds = np.linspace(0, 6, ranks + 1).astype(int)

    def total(wire):
        mine = rows[bounds[wire.rank] : bounds[wire.rank + 1]]
        return Rank(wire, (6,)).total(mine)

    found = together(ranks, total)
    exact = rows.double().sum(dim=0)
    assert all(torch.equal(one, found[0]) for one in found)
    assert torch.allclose(found[0].double(), exact, rtol=1e-7, atol=1e-9)
    assert torch.equal(found[0], together(1, lambda wire: Rank(wire, (6,)).total(rows))[0])


def test_what_is_no_longer_finite_stays_so_in_a_sum_over_ranks():
    rows = torch.tensor([[1.0, 2.0], [torch.nan, 3.0], [torch.inf, 4.0]])

    def total(wire):
        return Rank(wire, (1, 1, 1)).total(rows[wire.rank].unsqueeze(0))

    for found in together(3, total):
        assert found.isnan().tolist() == [True, False]
        assert found[1] == 9
