"""Compressed messages: what arrives, what stays as it is, what is counted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import skerry
from good_plugins import TOLD
from six_quadratics import six, six_world
from skerry.config.experiment import Experiment
from skerry.engine.compressed_messages import count_compression_arrays
from skerry.engine.compression import BLOCK, Int8, MessageDraws, RandomK, TopK, compress
from skerry.engine.rehearsal import rehearse
from skerry.engine.round import initial_state, run_server_rounds
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.state import keep_lanes
from skerry.engine.world import build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.measure.ledger import Ledger
from skerry.plugins import registry
from skerry.plugins.context import Context
from skerry.runs.memory import measure_footprint
from trajectories import assert_same_trajectories

NAMES = [name for name in registry.KINDS["compression"] if name != "none"]
UNEQUAL = ("network.components=[3,4,5]", "server.period=2", "rounds=5")


def last_state(stack):
    *_, moment = simulate(stack)
    return moment.state


def models(world, *lanes):
    """Of these lanes, in their order, at the end."""
    stack = build_stack(world, lanes)
    X = last_state(stack).X_nld
    return [X[:, stack.keys.index(world.key(lane))] for lane in lanes]


# What arrives

# Numbers equal to three digits count as ties (TopK); subnormal ones have no three digits.
floats = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
rows = st.lists(floats, min_size=1, max_size=600)


def message(numbers, padding=3):
    V = torch.tensor([numbers, numbers[::-1]], dtype=torch.float64)[:, None]
    real = torch.arange(len(numbers) + padding) < len(numbers)
    V = torch.nn.functional.pad(V, (0, padding))
    return V, MessageDraws(torch.tensor([3, 4]), real, len(numbers))


@given(rows, st.floats(0.01, 1))
@settings(max_examples=60)
def test_sparse_messages_hold_so_many_numbers_as_they_are(numbers, share):
    for kind in (TopK, RandomK):
        V, draws = message(numbers)
        compression = kind(compression_share=share)
        arrives = compress(compression, V.clone(), draws, Context())
        assert torch.equal(arrives[arrives != 0], V[arrives != 0])
        assert (arrives != 0).sum(dim=-1).max() <= compression.kept(len(numbers))
        if kind is TopK:  # no other choice would bring more, but for ties
            largest = V.abs().topk(compression.kept(len(numbers))).values
            assert arrives.square().sum() >= 0.999 * largest.square().sum()


def test_random_places_are_all_equally_likely_and_never_padding():
    V = torch.ones(4000, 1, 8, dtype=torch.float64)
    real = torch.arange(8) != 5
    arrives = compress(
        RandomK(compression_share=0.3), V, MessageDraws(torch.arange(4000), real, 7), Context()
    )
    assert (arrives.sum(dim=-1) == 2).all()
    assert arrives[:, 0, 5].sum() == 0
    assert arrives[:, 0, real].mean(dim=0) == pytest.approx(2 / 7, abs=0.03)


@given(rows)
@settings(max_examples=60)
def test_rounding_to_a_byte_is_off_by_less_than_a_level(numbers):
    V, draws = message(numbers)
    arrives = compress(Int8(), V.clone(), draws, Context())
    largest = V.abs().max()
    assert (arrives - V).abs().max() <= largest / 127 * (1 + 1e-9)
    assert (arrives[V == 0] == 0).all()


def test_rounding_is_right_on_average_and_hardly_off_at_all():
    V = torch.randn(1, 1, 2 * BLOCK, generator=torch.Generator().manual_seed(0)).double()
    V = V.expand(3000, -1, -1).clone()
    arrives = compress(
        Int8(), V.clone(), MessageDraws(torch.arange(3000), V[0, 0] != 0, 2 * BLOCK), Context()
    )
    level = float(V.abs().max()) / 127
    assert (arrives.mean(dim=0) - V[0]).abs().max() < 0.05 * level
    off = (arrives - V).square().sum(dim=-1) / V.square().sum(dim=-1)
    assert off.max() < BLOCK / (4 * 127**2)


def test_equal_numbers_go_in_order_whatever_rounding_did_to_them():
    V = torch.tensor([1.0, 1.0 + 1e-7, 0.5, 1.0 - 1e-7]).view(1, 1, 4)
    compress(
        TopK(compression_share=0.5),
        V,
        MessageDraws(torch.zeros(1).long(), V[0, 0] > 0, 4),
        Context(),
    )
    assert (V != 0).flatten().tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("made", "parameters", "expected"),
    [
        (TopK(compression_share=0.1), 1000, 4 * 100 + 1000 // 8),  # a bit for each place is shorter
        (TopK(compression_share=0.01), 1000, 4 * 10 + 13),  # ten places of ten bits
        (TopK(compression_share=1.0), 1000, 4000),
        (RandomK(compression_share=0.1), 1000, 4 * 100 + 8),
        (RandomK(compression_share=1.0), 1000, 4000),
        (Int8(), 1000, 1000 + 4 * 4),
    ],
)
def test_how_long_a_message_is(made, parameters, expected):
    assert made.bytes(parameters) == expected


def test_rows_are_compressed_in_portions_without_a_difference(monkeypatch):
    V, draws = message(list(np.random.default_rng(0).normal(size=300)))
    for made in (TopK(compression_share=0.2), RandomK(compression_share=0.2), Int8()):
        whole = compress(made, V.clone(), draws, Context())
        with monkeypatch.context() as patched:
            patched.setattr("skerry.engine.compression.PORTION", 1)
            assert torch.equal(whole, compress(made, V.clone(), draws, Context()))


# The fast engine and the loop

ON_LINKS = [
    [],
    ["network.compression_share=0.4", "network.gossip_steps=2", "network.consensus_stepsize=0.5"],
    ["network.link_failure=0.3", "training.order=mix_then_adapt"],
    ["fleet.awake=0.6", "network.mix_with_server=false"],
    ["network.dynamic=true", "network.topology=erdos_renyi", "network.edge_prob=0.5"],
    ["method.name=gradient_tracking", "server.primitive=s2a"],
    ["method.name=fedprox", "server.primitive=blend"],
]
AT_THE_SERVER = [
    *(
        [f"server.primitive={p}", f"server.compressed={way}"]
        for p in ("s2s", "s2a", "blend")
        for way in ("both", "up", "down")
    ),
    ["server.primitive=s2s", "server.error_feedback=false"],
    ["server.primitive=blend", "server.error_feedback=false"],
    ["server.primitive=blend", "server.selection=one_each", "server.sampled=6", "fleet.awake=0.7"],
    ["server.primitive=s2a", "server.selection=importance"],
    ["server.primitive=s2a", "fleet.awake=0.7", "fleet.reach_asleep=true"],
    ["server.primitive=s2a", "server.optimizer=fedavgm", "method.name=fedprox"],
    ["server.primitive=blend", "server.beta_schedule=cosine", "server.beta_end=0.0"],
    ["server.primitive=none"],
]


def lanes_of(name):
    both = [f"network.compression={name}", f"server.compression={name}"]
    return [
        *([both[0], *lane] for lane in ON_LINKS),
        *([both[1], *lane] for lane in AT_THE_SERVER),
        [*both, "server.primitive=s2a"],
        [],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_all_of_it_beside_each_other(small, name):
    base = small(*UNEQUAL)
    lanes = [base.with_settings(*lane) for lane in lanes_of(name)]
    if name == "int8":
        lanes.append(base.with_settings("network.compression=int8", "method.name=carry"))
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-11)


def test_several_steps_and_a_model_with_padding(small):
    base = small(*UNEQUAL, "training.local_steps=2", "model.name=mlp", "model.hidden=5")
    names = [lane for lane in lanes_of("random_k") if "method.name=gradient_tracking" not in lane]
    lanes = [base.with_settings(*lane) for lane in names]
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-11)


@pytest.mark.parametrize("primitive", ["s2s", "s2a", "blend"])
def test_a_share_of_everything_is_the_plain_run(small, primitive):
    plain = small(*UNEQUAL, f"server.primitive={primitive}", "network.link_failure=0.2")
    world = build_world(plain, dtype=torch.float64)
    for name in ("top_k", "random_k"):
        whole = [f"{s}.{f}" for s in ("network", "server") for f in (f"compression={name}",)]
        shares = [f"{s}.compression_share=1" for s in ("network", "server")]
        found, expected = models(world, plain.with_settings(*whole, *shares), plain)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_a_lane_does_not_feel_its_neighbours(small):
    """Beside others, or alone, or kept when others have gone."""
    base = small(*UNEQUAL)
    world = build_world(base)
    compressed_lane = base.with_settings(
        "network.compression=random_k", "server.compression=int8", "server.primitive=s2a"
    )
    others = [base.with_settings(*lane) for lane in lanes_of("top_k")[:9]]
    stack = build_stack(world, [*others, compressed_lane])
    alone, beside = last_state(build_stack(world, [compressed_lane])), last_state(stack)
    where = stack.keys.index(world.key(compressed_lane))
    torch.testing.assert_close(alone.X_nld[:, 0], beside.X_nld[:, where])
    kept = keep_lanes(beside, [where]).companions
    assert kept.arrays.keys() == alone.companions.arrays.keys()
    for name, array in kept.arrays.items():
        torch.testing.assert_close(array, alone.companions.arrays[name])


def test_pieces_and_chunks_make_no_difference(small, monkeypatch):
    base = small(*UNEQUAL, "network.compression=top_k", "server.compression=int8")
    lanes = [base.with_settings(f"training.stepsize={eta}") for eta in (0.1, 0.05, 0.02)]
    world = build_world(base)
    whole = last_state(build_stack(world, lanes)).X_nld
    monkeypatch.setattr("skerry.engine.method_hooks.CPU_PIECE", 1)
    monkeypatch.setattr("skerry.engine.stack.CPU_WORKING_SET", 1)
    assert torch.allclose(whole, last_state(build_stack(world, lanes)).X_nld, atol=1e-6)


def test_a_stopped_run_goes_on_as_it_would_have(small):
    base = small(
        "network.compression=random_k", "server.compression=top_k", "server.primitive=blend",
        "network.link_failure=0.3", "rounds=8",
    )  # fmt: skip
    world = build_world(base)
    stack, half = build_stack(world, [base]), None
    for moment in simulate(stack):
        if moment.phase == "end" and moment.round == 4:
            half = keep_lanes(moment.state, [0])
    *_, resumed = simulate(build_stack(world, [base]), half)
    assert torch.equal(resumed.state.X_nld, last_state(stack).X_nld)


def test_a_stopped_run_counts_as_it_would_have(small):
    """What was missed is known again from the links of the rounds before."""
    lane = small("network.compression=top_k", "network.link_failure=0.4", "server.primitive=none")
    stack = build_stack(build_world(lane), [lane])
    whole, first = Ledger(), Ledger()
    for t in range(8):
        whole.add_round(stack, [], t)
        if t < 4:
            first.add_round(stack, [], t)
    second = Ledger(first.totals)
    for t in range(4, 8):
        second.add_round(stack, [], t)
    assert second.totals == whole.totals
    assert len(whole.totals[stack.keys[0]]) == 4


# What stays as it is

compressions = st.sampled_from(NAMES)


@given(
    seed=st.integers(0, 10**6),
    name=compressions,
    share=st.sampled_from((0.1, 0.5)),
    awake=st.sampled_from((1.0, 0.5)),
    topology=st.sampled_from(("ring", "path", "complete", "star")),
    failing=st.sampled_from((0.0, 0.4)),
    K=st.integers(1, 6),
    way=st.sampled_from(("both", "up", "down")),
)
@settings(max_examples=25)
def test_the_average_is_kept(seed, name, share, awake, topology, failing, K, way):
    """Whatever arrives of messages, the graph, the sample and the sleep: mixing keeps the average
    of the models, and under S2S the server keeps that of all that there is of them."""
    lane = Experiment.parse(
        {},
        [
            f"seed={seed}", "rounds=4", "network.components=[2,4]", "network.devices=6",
            f"network.topology={topology}", f"network.link_failure={failing}",
            f"network.compression={name}", f"network.compression_share={share}",
            f"server.compression={name}", f"server.compression_share={share}",
            f"server.compressed={way}", f"server.sampled={K}", "server.period=2",
            f"fleet.awake={awake}", "model.name=quadratic", "training.batch=2",
            "data.dataset=synthetic", "data.samples=60", "data.test_samples=20",
            "data.features=20", "data.classes=4", "data.inter=iid",
        ],
    )  # fmt: skip
    world = build_world(lane, dtype=torch.float64)
    stack = build_stack(world, [lane])
    before = None
    for moment in simulate(stack):
        kept = moment.state.companions.of_compression(slice(0, 1))
        total = moment.state.X_nld.clone()
        for array in ("unsent", "undelivered"):
            total += kept.get(array, 0)
        if moment.phase == "before_server":
            before = total.mean(dim=0)
        elif before is not None:
            torch.testing.assert_close(total.mean(dim=0), before, rtol=1e-10, atol=1e-11)


def test_mixing_keeps_the_average_of_what_tracks_gradients(small):
    lane = small(
        "method.name=gradient_tracking", "network.compression=top_k", "network.link_failure=0.3"
    )
    arrays = last_state(build_stack(build_world(lane, dtype=torch.float64), [lane])).companions
    Y, G = (arrays.arrays[f"gradient_tracking.{name}"] for name in ("y", "gradient"))
    torch.testing.assert_close(Y.mean(dim=0), G.mean(dim=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_s2a_leaves_no_disagreement(small, name):
    lane = small("server.primitive=s2a", f"server.compression={name}", "server.offset=6")
    X = last_state(build_stack(build_world(lane), [lane])).X_nld
    assert (X - X[0]).abs().max() == 0


def agreeing(small, *settings_, rounds=400):
    """Models that begin apart and only talk: how far they are from their first average, their own
    disagreement, over that at the start, and all that was kept."""
    lane = small(
        "network.components=1", "training.stepsize=1e-300", f"rounds={rounds}", "server.period=1",
        "model.name=quadratic", "data.features=40", *settings_,
    )  # fmt: skip
    world = build_world(lane, dtype=torch.float64)
    stack = build_stack(world, [lane])
    state = initial_state(stack)
    state.X_nld.copy_(torch.randn(state.X_nld.shape, generator=torch.Generator().manual_seed(1)))
    average, apart = state.X_nld.mean(dim=0), state.X_nld.std()
    *_, moment = simulate(stack, state)
    X = moment.state.X_nld
    largest = max(float(array.abs().max()) for array in moment.state.companions.arrays.values())
    return float((X.mean(dim=0) - average).norm()), float(X.std(dim=0).max() / apart), largest


@pytest.mark.parametrize("name", NAMES)
def test_devices_agree_on_their_average_over_compressed_links(small, name):
    off, apart, largest = agreeing(
        small, f"network.compression={name}", "network.topology=complete", "server.primitive=none"
    )
    assert off < 1e-12
    assert apart < 0.05
    assert largest < 10


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("primitive", ["s2s", "s2a"])
def test_what_is_left_out_stays_bounded_and_is_sent_later(small, primitive, name):
    """With everybody at the server devices agree on their average; under S2A, whose errors are
    kept aside, as closely as what is still on its way."""
    talking = (f"server.compression={name}", f"server.primitive={primitive}", "server.sampled=12")
    off, apart, largest = agreeing(small, *talking, "network.gossip_steps=0")
    assert off < 1e-9
    assert apart < 1e-6
    assert largest < 10
    if name != "int8":
        forgetful = "server.error_feedback=false"
        off, _, _ = agreeing(small, *talking, "network.gossip_steps=0", forgetful, rounds=50)
        assert off > 0.1


# What is told and counted


def test_bytes_count_what_travels(small):
    lane = small("rounds=3", "server.offset=2", "evaluate.measures=communication")
    compressed_lane = lane.with_settings(
        "network.compression=top_k", "server.compression=int8", "server.compressed=up"
    )
    plain, found = skerry.run([lane, compressed_lane])
    parameters = 4 * (6 + 1)
    for link, size in (("d2d", 4 * 3 + 2), ("uplink", parameters + 4), ("downlink", 112)):
        assert found.final[f"{link}_messages"] == plain.final[f"{link}_messages"]
        assert found.final[f"{link}_bytes"] == size * found.final[f"{link}_messages"]


def test_what_was_missed_is_made_up_for(small, tmp_path):
    """On two devices whose link is up in rounds 0, 3 and 4: in round 3 nothing was missed, because
    nobody sent; a third neighbour makes the difference."""
    (tmp_path / "pair.csv").write_text(
        "round,source,target\n0,a,b\n0,b,c\n1,b,c\n2,b,c\n3,a,b\n3,b,c\n", encoding="utf-8"
    )
    lane = small(
        f"network.topology={tmp_path / 'pair.csv'}", "server.primitive=none", "rounds=4",
        "network.compression=random_k", "evaluate.measures=communication",
    ).model_dump(exclude_unset=True)  # fmt: skip
    del lane["network"]["devices"], lane["server"]["sampled"]
    (found,) = skerry.run(Experiment.parse(lane))
    size = 4 * 3 + 8
    assert found.final["d2d_messages"] == 2 * (2 + 1 + 1 + 2)
    # a missed two messages of b, which is sent again: shorter than the whole copy.
    assert found.final["d2d_bytes"] == size * (12 + 2)


def test_links_that_are_new_in_every_round_gain_little(small):
    lane = small("network.dynamic=true", "network.topology=erdos_renyi", "network.edge_prob=0.3")
    few = lane.with_settings("network.compression=top_k")
    plain, found = skerry.run([lane, few])
    usual = (4 * 3 + 2) * found.final["d2d_messages"]
    assert usual < found.final["d2d_bytes"] <= plain.final["d2d_bytes"]


def test_a_plan_leaves_room_for_what_both_sides_know(small):
    world = build_world(small())
    plain = measure_footprint(world)
    for settings_, expected in (
        (["network.compression=top_k"], 1),
        (["network.compression=top_k", "method.name=gradient_tracking"], 4),
        (["server.compression=int8"], 2),  # what was heard, what was not delivered
        (["server.compression=int8", "server.primitive=s2a"], 3),
        (["server.compression=int8", "server.primitive=s2a", "server.compressed=up"], 2),
        (["server.compression=int8", "server.error_feedback=false"], 1),
        (["server.compression=int8", "server.primitive=none"], 0),
        (["network.compression=int8", "network.gossip_steps=0"], 0),
        ([], 0),
    ):
        lane = small(*settings_)
        assert plain.for_lanes([lane]).companions == expected
        arrays = last_state(build_stack(world, [lane])).companions.arrays
        assert len(arrays) == expected
    assert count_compression_arrays(small(), 1) == 0


class Peak(TorchDispatchMode):
    """The most bytes that new arrays held at once."""

    def __init__(self, *old):
        super().__init__()
        self.old = {array.untyped_storage()._cdata for array in old}
        self.there, self.most = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                if storage._cdata not in self.old:
                    self.there[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.there = {at: kept for at, kept in self.there.items() if not kept[0].expired()}
        self.most = max(self.most, sum(size for _, size in self.there.values()))
        return found


@pytest.mark.parametrize("compression", ["int8", "top_k"])
@pytest.mark.parametrize("primitive", ["s2s", "s2a", "blend"])
def test_a_plan_leaves_room_for_messages_on_their_way(small, compression, primitive):
    """Within a tenth, where models are long; and no less than 5 % too little."""
    lane = small(
        "data.features=500", "server.sampled=6", "server.period=1",
        f"server.compression={compression}", f"server.primitive={primitive}",
    )  # fmt: skip
    world = build_world(lane)
    stack = build_stack(world, [lane])
    state = initial_state(stack)
    state.X_nld.add_(torch.randn_like(state.X_nld))
    with Peak(state.X_nld, *state.companions.arrays.values()) as peak:
        run_server_rounds(stack, state)
    told = measure_footprint(world).for_lanes([lane]).messages(state.X_nld.nbytes)
    assert 0.95 * peak.most <= told <= 1.1 * peak.most
    assert told < measure_footprint(world).for_lanes([lane]).need(1)


def test_fields_play_a_part_only_where_something_is_compressed():
    plain = six()
    for idle in (
        "network.compression_share=0.3",
        "network.consensus_stepsize=0.3",
        "server.compression_share=0.3",
        "server.compressed=up",
        "server.error_feedback=false",
    ):
        assert six(idle).key() == plain.key()
    int8 = six("server.compression=int8")
    assert int8.key() != plain.key()
    assert six("server.compression=int8", "server.compression_share=0.3").key() == int8.key()
    assert six("server.compression=int8", "server.compressed=up").key() != int8.key()
    assert six("network.compression=top_k").world_key() == plain.world_key()


def test_a_users_own_compression_is_told_its_options_and_counted(small):
    lane = small(
        "server.compression=good_plugins:Signs", "server.factor=0.8", "server.primitive=s2a",
        "network.compression=good_plugins:Signs",
    )  # fmt: skip
    (found,) = skerry.run(lane)
    assert TOLD["compression"] in (0.8, 1.0)
    assert found.final["uplink_bytes"] == 8 * found.final["uplink_messages"]
    assert found.final["d2d_bytes"] == 8 * found.final["d2d_messages"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("infinite", "compress must leave finite numbers, and zeros of zeros"),
        ("without_bytes", "bytes must give a whole number of at least 0 (got None)"),
        ("shouts", "failed (ValueError: boom)"),
        ("no_method", "must be a class that inherits from skerry.engine.compression.Compression"),
    ],
)
@pytest.mark.parametrize("section", ["network", "server"])
def test_a_compression_that_breaks_its_contract_is_told_before_the_work(small, section, name, told):
    experiment = small(f"{section}.compression=bad_methods:{name}")
    with pytest.raises(SkerryError) as error:
        rehearse(build_world(experiment), [experiment])
    assert told in str(error.value)


def test_a_primitive_of_ones_own_is_refused():
    with pytest.raises(ExperimentError, match="both sides must know who received what"):
        six("server.compression=int8", "server.primitive=good_plugins:pull", "server.strength=0.5")


def test_one_number_arrives_whole():
    """Six quadratics of one parameter: top_k sends it, and the worked trajectory is the plain
    one, as far as gamma goes."""
    share = ["network.compression=top_k", "network.consensus_stepsize=1"]
    lane = six(*share, "server.compression=top_k")
    found, expected = models(six_world(lane), lane, six())
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
