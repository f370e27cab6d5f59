"""Partitions: every sample on exactly one device, by the scheme's own law."""

import sys
import types
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skerry.config.experiment import Data
from skerry.data.partition import apportion, dirichlet_weights, level_shares, split
from skerry.errors import DataError
from skerry.plugins.registry import KINDS
from skerry.seeds import stream

PAIRS = list(product(KINDS["inter partition"], KINDS["intra partition"]))
alphas = st.floats(-320, 300).map(lambda power: max(10.0**power, 5e-324))


def balanced(samples, classes=10):
    return np.arange(samples) % classes


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("order", "offsets", "label_counts")
    )


# Laws of every pair of schemes


@pytest.mark.parametrize(("inter", "intra"), PAIRS)
@given(draw=st.data())
def test_every_sample_is_on_exactly_one_device(inter, intra, draw):
    """Whatever the sizes, classes and concentration: exactly once, no device below the floor,
    counts that agree, and the same again for the same seed."""
    classes = draw.draw(st.integers(2, 6))
    sizes = tuple(draw.draw(st.lists(st.integers(1, 6), min_size=1, max_size=classes)))
    samples, draws = draw.draw(st.integers(0, 120)), draw.draw(st.integers(0, 9))
    labels = np.random.default_rng(draws).integers(0, classes, samples)
    data = Data(
        inter=inter,
        intra=intra,
        alpha=draw.draw(alphas),
        inter_alpha=draw.draw(st.none() | alphas),
        shards=draw.draw(st.integers(1, 4)),
        min_samples=draw.draw(st.integers(1, 3)),
    )
    try:
        partition = split(labels, classes, sizes, data, seed=5)
    except DataError:
        too_few = len(labels) < sum(sizes) * data.min_samples
        assert too_few or inter == "non_iid"
        return
    assert sorted(partition.order) == list(range(len(labels)))
    assert partition.sizes.sum() == len(labels)
    assert len(partition.sizes) == sum(sizes)
    assert partition.sizes.min() >= data.min_samples
    for device in range(sum(sizes)):
        own = np.bincount(labels[partition.indices(device)], minlength=classes)
        assert own.tolist() == partition.label_counts[device].tolist()
    assert same(partition, split(labels, classes, sizes, data, seed=5))


@pytest.mark.parametrize(("inter", "intra"), PAIRS)
def test_another_seed_deals_otherwise(inter, intra):
    """The seed decides who holds what."""
    data = Data(inter=inter, intra=intra)
    one, other = (split(balanced(400), 10, (5, 5), data, seed) for seed in (0, 1))
    assert not same(one, other)


@pytest.mark.parametrize("intra", KINDS["intra partition"])
def test_the_intra_scheme_does_not_touch_the_inter_split(intra):
    """Components hold the same samples whatever happens inside them."""
    labels = balanced(400)
    held = {
        tuple(sorted(split(labels, 10, (5, 5), Data(inter="iid", intra=scheme), 0).order[:200]))
        for scheme in ("iid", intra)
    }
    assert len(held) == 1


# Across islands


def island_counts(partition, sizes):
    ends = np.cumsum(sizes)[:-1]
    return np.stack([part.sum(axis=0) for part in np.split(partition.label_counts, ends)])


def test_non_iid_halves_ten_classes_as_in_the_paper():
    """Two equal islands hold five classes each, whole; which ones, the seed decides."""
    labels = balanced(1000)
    held = set()
    for seed in range(5):
        counts = island_counts(split(labels, 10, (5, 5), Data(inter="non_iid"), seed), (5, 5))
        assert sorted(counts[0]) == sorted(counts[1]) == [0] * 5 + [100] * 5
        assert (counts.sum(axis=0) == 100).all()
        held.add(tuple(counts[0]))
    assert len(held) > 1


@given(st.integers(2, 12), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_non_iid_sets_of_classes_are_disjoint(classes, sizes):
    """Every class lies in one island, every island has a class, larger ones not fewer."""
    assume(len(sizes) <= classes)
    partition = split(balanced(60 * classes, classes), classes, tuple(sizes), Data(), 0)
    present = island_counts(partition, sizes) > 0
    assert (present.sum(axis=0) == 1).all()
    assert (present.sum(axis=1) >= 1).all()
    if len(set(sizes)) == 1:
        assert np.ptp(present.sum(axis=1)) <= 1


def test_non_iid_needs_a_class_for_each_island():
    """More islands than classes cannot be disjoint."""
    with pytest.raises(DataError, match="5 islands for 3 classes"):
        split(balanced(90, 3), 3, (1,) * 5, Data(inter="non_iid"), 0)


def test_non_iid_with_too_rare_classes_is_refused():
    """An island whose classes have too few samples is named rather than given foreign ones."""
    labels = np.array([0] * 50 + [1])
    with pytest.raises(DataError, match="island 1 has 1 training samples for 2 devices"):
        split(labels, 2, (2, 2), Data(inter="non_iid"), 0)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_iid_islands_hold_data_in_proportion_to_their_size(sizes):
    """The iid split gives each island its share, to within one sample."""
    partition = split(balanced(1000), 10, tuple(sizes), Data(inter="iid"), 0)
    held = island_counts(partition, sizes).sum(axis=1)
    assert np.abs(held - 1000 * np.array(sizes) / sum(sizes)).max() < 1


def test_dirichlet_islands_hold_data_in_proportion_on_average():
    """The inter Dirichlet split is uneven once, fair on average."""
    data = Data(inter="dirichlet", alpha=1.0)
    sizes = (3, 1)
    held = [
        island_counts(split(balanced(400), 10, sizes, data, seed), sizes).sum(axis=1)[0]
        for seed in range(60)
    ]
    assert np.std(held) > 10
    assert np.mean(held) == pytest.approx(300, abs=15)


def test_inter_alpha_is_for_the_inter_split_alone():
    """inter_alpha takes the place of alpha across islands, and only there."""
    labels, sizes = balanced(1000), (5, 5)
    data = Data(inter="dirichlet", intra="dirichlet", alpha=0.05, inter_alpha=1e6)
    counts = split(labels, 10, sizes, data, 0).label_counts
    assert island_counts(split(labels, 10, sizes, data, 0), sizes).min() >= 49
    assert (counts == 0).mean() > 0.5


# Inside an island


def test_iid_devices_hold_equally_much():
    """Shares inside an island differ by at most one sample."""
    partition = split(balanced(103), 10, (7,), Data(inter="iid", intra="iid"), 0)
    assert np.ptp(partition.sizes) <= 1


def test_dirichlet_extremes():
    """A tiny alpha puts each class on one device; a huge one spreads it evenly."""
    labels = balanced(1000)
    for alpha in (1e-320, 1e-300, 1e-9, 1e-4):
        counts = split(
            labels, 10, (5,), Data(inter="iid", intra="dirichlet", alpha=alpha), 0
        ).label_counts
        # Levelling may take a few samples away for devices that no class fell to.
        assert (counts.max(axis=0) >= 95).all()
    for alpha in (1e6, 1e200, 1e308):
        counts = split(
            labels, 10, (5,), Data(inter="iid", intra="dirichlet", alpha=alpha), 0
        ).label_counts
        assert np.abs(counts - 20).max() <= 1


@pytest.mark.parametrize("alpha", [5e-324, 1e-310, 1e-12, 1e-3, 0.1, 1.0, 1e5, 1e300, 1e308])
def test_dirichlet_weights_are_weights_at_any_concentration(alpha):
    """Finite, not negative, and of sum one."""
    for draw in range(20):
        weights = dirichlet_weights(
            np.geomspace(alpha, min(1e308, 50 * alpha)), stream(draw, "test")
        )
        assert np.isfinite(weights).all()
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)


def test_rounding_of_dirichlet_shares_is_fair():
    """Few samples over many devices: no device is favoured by rounding."""
    data = Data(inter="iid", intra="dirichlet", alpha=1e9)
    total = sum(split(balanced(30, 3), 3, (15,), data, seed).sizes for seed in range(200))
    np.testing.assert_allclose(total / 200, 2, atol=0.25)


def test_shards_hold_few_labels():
    """With s shards per device and shards no larger than a class, at most 2s labels each."""
    for shards in (1, 2, 3):
        data = Data(inter="iid", intra="shards", shards=shards)
        partition = split(balanced(1000), 10, (20,), data, 0)
        assert (partition.label_counts > 0).sum(axis=1).max() <= 2 * shards
        assert np.ptp(partition.sizes) <= shards


def test_shards_are_dealt_at_random():
    """Which labels meet on a device depends on the seed."""
    data = Data(inter="iid", intra="shards")
    counts = {split(balanced(200), 10, (10,), data, s).label_counts.tobytes() for s in range(5)}
    assert len(counts) == 5


# What they share


@given(st.integers(0, 500), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_apportion_keeps_the_total_and_is_off_by_less_than_one(total, weights):
    """Whole parts that add up, each within one of its exact share."""
    parts = apportion(total, weights)
    assert parts.sum() == total
    assert np.abs(parts - total * np.array(weights) / sum(weights)).max() < 1


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=8))
def test_level_meets_every_floor_and_takes_only_from_the_rich(pairs):
    """Floors are met, nothing is lost, and who gives stays above what it must keep."""
    held, floors = zip(*pairs, strict=True)
    assume(sum(held) >= sum(floors))
    shares = np.split(np.arange(sum(held)), np.cumsum(held)[:-1])
    levelled = level_shares(shares, floors)
    assert sorted(np.concatenate(levelled)) == list(range(sum(held)))
    for before, after, floor in zip(shares, levelled, floors, strict=True):
        assert len(after) >= floor
        if len(before) < floor:
            assert len(after) == floor
        assert len(after) <= max(len(before), floor)


def test_too_few_samples_for_the_devices():
    """Fewer samples than devices times min_samples is a fault with its numbers."""
    with pytest.raises(DataError, match="19 training samples are too few for 10 devices"):
        split(balanced(19), 10, (5, 5), Data(min_samples=2), 0)


# A user's own


@pytest.fixture
def own_module(monkeypatch):
    module = types.ModuleType("islanders_own_partition")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_user_s_own_schemes_are_used(own_module):
    """Functions of the same signatures take the place of the built-in ones."""
    own_module.blocks = lambda labels, classes, sizes: [
        list(block) for block in np.array_split(np.arange(len(labels)), len(sizes))
    ]
    own_module.deal = lambda labels, indices, size: [indices[i::size] for i in range(size)]
    data = Data(inter="islanders_own_partition:blocks", intra="islanders_own_partition:deal")
    partition = split(balanced(12), 10, (2, 2), data, 0)
    assert [partition.indices(device).tolist() for device in range(4)] == [
        [0, 2, 4],
        [1, 3, 5],
        [6, 8, 10],
        [7, 9, 11],
    ]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda *args: [np.arange(12)], "must give 2 arrays"),
        (lambda *args: None, "must give 2 arrays"),
        (lambda *args: [["a"], ["b"]], "must give 2 arrays"),
        (lambda *args: [np.arange(12), np.arange(12)], "exactly once"),
        (lambda *args: [np.arange(6), np.arange(6, 11)], "exactly once"),
        (lambda *args: [np.arange(6), np.arange(7, 13)], "exactly once"),
    ],
)
def test_a_user_s_wrong_scheme_is_refused(wrong, told, own_module):
    """Shares that are missing, doubled or foreign are refused with the scheme's name."""
    own_module.wrong = wrong
    with pytest.raises(DataError, match=rf"islanders_own_partition:wrong.*{told}"):
        split(balanced(12), 10, (2, 2), Data(inter="islanders_own_partition:wrong"), 0)


# A share of the samples, and test samples that are dealt too


@pytest.mark.parametrize(("inter", "intra"), PAIRS)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_dealt_tests_follow_the_rule_of_the_training_samples(inter, intra, share):
    """Every drawn sample is on one device, a share of all is drawn, every device can train, and an
    island's own test samples have the classes of its training samples."""
    train, tests = balanced(3000), balanced(1000)
    data = Data(inter=inter, intra=intra, sample_share=share, own_tests="dealt")
    found = split(train, 10, (10, 10), data, 3, test_labels=tests)
    own = found.own_tests
    assert len(set(found.order)) == len(found.order)
    assert len(set(own.order)) == len(own.order)
    assert len(found.order) + len(own.order) == 4000 * share
    assert found.sizes.min() >= 1
    assert found.label_counts.sum() == len(found.order)
    if inter == "non_iid":
        for island in (slice(0, 10), slice(10, 20)):
            held = set(train[found.of_devices(island)])
            assert len(held) == 5
            assert set(tests[own.of_devices(island)]) == held
    again = split(train, 10, (10, 10), data, 3, test_labels=tests)
    assert same(found, again)
    assert np.array_equal(own.order, again.own_tests.order)


def test_own_tests_have_the_label_mix_of_their_device():
    """Dealt by one Dirichlet draw, a device's test labels have the mix of its training labels."""
    train, tests = balanced(60_000), balanced(30_000)
    data = Data(inter="iid", intra="dirichlet", own_tests="dealt")
    found = split(train, 10, (5, 5), data, 0, test_labels=tests)
    for device, size in enumerate(found.sizes):
        test_mix = np.bincount(tests[found.own_tests.indices(device)], minlength=10)
        difference = found.label_counts[device] / size - test_mix / test_mix.sum()
        assert np.abs(difference).max() < 0.05


def test_a_share_of_the_samples_leaves_the_rest_unused():
    """Without dealt tests, the share is of training samples, and is the same for both goals."""
    labels = balanced(1000)
    data = Data(inter="iid", sample_share=0.2)
    found = split(labels, 10, (4, 4), data, 1)
    assert len(found.order) == 200
    assert found.own_tests is None
    with pytest.raises(DataError, match="island 0 has 20 training samples for 30 devices"):
        split(labels, 10, (30, 30), Data(inter="iid", sample_share=0.04), 1)
