"""Minibatches: a function of (seed, round, step), drawn from a device's own samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.data import batches
from skerry.data.batches import ShuffledEpochs, WithReplacement
from skerry.data.partition import Partition
from skerry.plugins.context import Context
from skerry.plugins.registry import KINDS, resolve
from skerry.seeds import stream


def partition_of(sizes):
    order = np.random.default_rng(0).permutation(sum(sizes))
    return Partition(order, np.cumsum([0, *sizes]), np.ones((len(sizes), 1), int))


SIZES = (1, 5, 40, 1500)


@pytest.mark.parametrize("name", KINDS["sampling"])
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    batch=st.integers(1, 40),
    t=st.integers(0, 50),
    step=st.integers(0, 2),
)
def test_batches_come_from_a_device_s_own_samples(name, sizes, batch, t, step):
    """Row i holds `batch` training indices of device i."""
    partition = partition_of(sizes)
    indices = resolve("sampling", name)(partition, batch, Context(seed=1)).indices(t, step, 3)
    assert indices.shape == (len(sizes), batch)
    assert indices.dtype == np.int64
    for device, row in enumerate(indices):
        assert set(row) <= set(partition.indices(device))


@pytest.mark.parametrize("name", KINDS["sampling"])
@given(moments=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1)), max_size=12))
def test_batches_do_not_depend_on_what_was_asked_before(name, moments):
    """Any order of asking gives what a fresh sampling gives."""
    partition = partition_of((3, 20, 700))
    used = resolve("sampling", name)(partition, 64, Context(seed=2))
    for t, step in moments:
        fresh = resolve("sampling", name)(partition, 64, Context(seed=2))
        np.testing.assert_array_equal(used.indices(t, step, 2), fresh.indices(t, step, 2))


@pytest.mark.parametrize("name", KINDS["sampling"])
def test_seed_round_and_step_each_matter(name):
    """Other seeds, rounds and local steps see other batches."""
    partition = partition_of((200, 200))
    drawn = {
        resolve("sampling", name)(partition, 32, Context(seed=seed)).indices(t, step, 2).tobytes()
        for seed, t, step in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    }
    assert len(drawn) == 4


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [1, 7, 128])
def test_epochs_see_every_sample_equally_often(size, batch):
    """After k whole epochs every sample has been seen k times, and at any moment the counts
    differ by at most one."""
    partition = partition_of((size, 3))
    sampling = ShuffledEpochs(partition, batch, Context(seed=0))
    rounds = min(-(-2 * size // batch) + 40, 400)
    walk = np.concatenate([sampling.indices(t, 0, 1)[0] for t in range(rounds)])
    for end in {1, len(walk) // 2, len(walk)}:
        seen = np.bincount(walk[:end], minlength=size + 3)[partition.indices(0)]
        assert np.ptp(seen) <= 1
    whole = len(walk) // size * size
    for epoch in walk[:whole].reshape(-1, size):
        assert sorted(epoch) == sorted(partition.indices(0))


def test_epochs_are_shuffled_anew():
    """One epoch's order is not the next one's."""
    walk = ShuffledEpochs(partition_of((50,)), 50, Context(seed=0))
    orders = {walk.indices(t, 0, 1).tobytes() for t in range(60)}
    assert len(orders) == 60


def test_local_steps_continue_the_walk():
    """Two local steps a round are two rounds of one: the walk knows only its batches."""
    partition = partition_of((30, 11))
    by_rounds, by_steps = (ShuffledEpochs(partition, 8, Context(seed=3)) for _ in range(2))
    for number in range(12):
        np.testing.assert_array_equal(
            by_rounds.indices(number, 0, 1), by_steps.indices(number // 2, number % 2, 2)
        )


def test_drawing_with_replacement_is_uniform():
    """Each sample is as likely as any other, on small and large devices alike."""
    partition = partition_of((4, 10))
    sampling = WithReplacement(partition, 1000, Context(seed=0))
    drawn = np.concatenate([sampling.indices(t, 0, 1) for t in range(20)], axis=1)
    for device, size in enumerate((4, 10)):
        share = np.bincount(drawn[device], minlength=14)[partition.indices(device)] / 20_000
        np.testing.assert_allclose(share, 1 / size, atol=0.015)


def test_devices_draw_independently():
    """Devices with equally many samples do not draw the same places."""
    places = WithReplacement(
        Partition(np.arange(200), np.array([0, 100, 200]), np.ones((2, 1), int)),
        100,
        Context(seed=0),
    ).indices(0, 0, 1)
    assert not np.array_equal(places[0], places[1] - 100)


@pytest.mark.parametrize("name", KINDS["sampling"])
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=9),
    batch=st.integers(1, 9),
    ends=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_some_neighbours_draw_what_they_draw_among_all(name, sizes, batch, ends):
    """So ranks need not draw for each other."""
    sampling = resolve("sampling", name)(partition_of(sizes), batch, Context(seed=1))
    first, last = sorted(min(end, len(sizes) - 1) for end in ends)
    some = slice(first, last + 1)
    np.testing.assert_array_equal(
        sampling.indices(3, 1, 2, some), sampling.indices(3, 1, 2)[some], strict=True
    )


MANY = batches.LARGEST_QUICK
REJECTING = MANY // 2 + 1
"""About 2^32 mod so many in 2^32 draws are rejected: one in 2,000."""


@pytest.mark.parametrize("at_once", [1, 7, 500, batches.DRAWS_AT_ONCE])
@pytest.mark.parametrize(
    "sizes",
    [
        (50,) * 40,
        (1, 1, 1),
        (1, 5, 1, 1, 64, 3, 1),
        (MANY, 2, REJECTING, 1, REJECTING, 3) * 12,
        (MANY + 1, 1, 7),
        (2**31 + 1, 2**32 - 1, 3),
    ],
    ids=["alike", "one each", "some alone", "rejected", "too many", "as many as there can be"],
)
@pytest.mark.parametrize("batch", [1, 33])
def test_quick_draws_are_numpys(monkeypatch, at_once, sizes, batch):
    """To the bit, from any device on, whether or not a draw was rejected before."""
    monkeypatch.setattr(batches, "DRAWS_AT_ONCE", at_once)
    sizes = np.array(sizes)
    n = len(sizes)
    below = batches.BoundedDraws(sizes, batch)
    for t in range(20):
        numpys = stream(0, "batches", t).integers(0, sizes[:, None], (n, batch))
        for start, stop in ((0, n), (n // 2, n), (n // 3, n // 2), (n - 1, n)):
            found = np.zeros((n, batch), dtype=np.int64)
            for some, numbers in below.draw(stream(0, "batches", t), start, stop):
                found[some] = numbers
            np.testing.assert_array_equal(found[start:stop], numpys[start:stop], strict=True)
            assert not found[:start].any()
            assert not found[stop:].any()


def test_the_draws_tried_here_are_rejected_at_times():
    """Else the test above would prove little."""
    draws = np.concatenate([stream(0, "batches", t).integers(0, 2**32, 600) for t in range(20)])
    assert np.count_nonzero(draws * REJECTING % 2**32 < 2**32 % REJECTING) > 2
