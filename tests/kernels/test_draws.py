"""Numbers that kernels draw are numpy's, to the bit."""

import numpy as np
import pytest
import torch

from conftest import small
from kernel_laws import CUDA, DEVICE, needs_triton, runs_kernels
from skerry.engine.minibatch_draws import MinibatchDraws
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.kernels import fused
from skerry.seeds import key_of, stream

pytestmark = needs_triton
WHERE = torch.device(DEVICE)

SIZES = (1, 2, 3, 7, 8, 10, 64, 600, 1000, 65_536, 10**6, 2**24 + 1, 2**31 - 1)
OFTEN_REJECTED = (2**31 + 1, 3 * 2**30 + 5, 2**32 - 2**29)
"""Half, a quarter and an eighth of the draws for these are."""


def offsets_of(sizes):
    return np.cumsum([0, *sizes], dtype=np.int64)


def drawn_by_numpy(order, sizes, batch, key):
    rng = np.random.Generator(np.random.Philox(key=key))
    places = offsets_of(sizes)[:-1, None] + rng.integers(
        0, np.array(sizes)[:, None], size=(len(sizes), batch)
    )
    return places if order is None else order[places]


def drawn(order, sizes, batch, key, devices=slice(None)):
    from skerry.kernels.draws import Indices

    return Indices(order, offsets_of(sizes), batch, WHERE, devices)(key).cpu().numpy()


def some_sizes(choices, number, most=60):
    rng = np.random.default_rng(number)
    return rng.choice(choices, rng.integers(1, most)).tolist(), int(rng.integers(1, most))


@runs_kernels
@pytest.mark.parametrize("number", range(12))
def test_draws_are_numpys(number):
    """Over seeds, rounds, batches and sizes; a device of one sample takes no draw."""
    sizes, batch = some_sizes(SIZES, number)
    for t in (0, 1, 57):
        key = key_of(number, "batches", t, 0)
        expected = drawn_by_numpy(None, sizes, batch, key)
        np.testing.assert_array_equal(drawn(None, sizes, batch, key), expected)


@runs_kernels
@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("number", range(4))
def test_rejected_draws_move_all_later_ones(number, passes, monkeypatch):
    """Many more than there are passes: the last program walks past all the others."""
    from skerry.kernels import draws

    monkeypatch.setattr(draws, "PASSES", passes)
    monkeypatch.setattr(draws, "MANY_REJECTIONS", 0.0)
    sizes, batch = some_sizes((*OFTEN_REJECTED, 1, 10), number, most=60 if CUDA else 8)
    key = key_of(number, "batches", 3, 1)
    expected = drawn_by_numpy(None, sizes, batch, key)
    np.testing.assert_array_equal(drawn(None, sizes, batch, key), expected)


@runs_kernels
@pytest.mark.parametrize("large", [1, 3])
def test_passes_meet_the_rejections_one_by_one(large):
    """Few large ranges among small ones: about so many rejections, which passes mend."""
    sizes = [10] * 900
    for place in range(large):
        sizes[100 + 300 * place] = 2**31 + 1
    for number in range(4):
        key = key_of(number, "batches", 0, 0)
        expected = drawn_by_numpy(None, sizes, 2, key)
        np.testing.assert_array_equal(drawn(None, sizes, 2, key), expected)


@runs_kernels
@pytest.mark.parametrize("devices", [slice(0, 3), slice(3, 9), slice(8, 12), slice(12, None)])
def test_some_devices_draw_what_they_draw_among_all(devices):
    """Also behind others that reject, or that take no draw."""
    sizes = [5, 1, 2**31 + 1, 8, 1, 1, 40, 2**31 + 1, 9, 3, 1, 17, 6, 1]
    key = key_of(4, "batches", 2, 0)
    expected = drawn_by_numpy(None, sizes, 6, key)[devices]
    np.testing.assert_array_equal(drawn(None, sizes, 6, key, devices), expected)


@runs_kernels
@pytest.mark.parametrize("sizes", [[1, 1, 1], [1], [3], [600] * 40])
def test_places_become_samples(sizes):
    """The order says which sample lies where."""
    order = np.random.default_rng(1).permutation(sum(sizes))
    key = key_of(0, "batches", 0, 0)
    expected = drawn_by_numpy(order, sizes, 33, key)
    np.testing.assert_array_equal(drawn(order, sizes, 33, key), expected)


@runs_kernels
@pytest.mark.parametrize("count", [1, 3, 511, 512, 5000])
def test_noise_keys_are_numpys(count):
    from skerry.kernels.draws import keys

    for t in range(3):
        expected = stream(7, "noise", t, 0).integers(0, 2**62, count)
        found = keys(key_of(7, "noise", t, 0), count, WHERE).cpu().numpy()
        np.testing.assert_array_equal(found, expected)


@runs_kernels
def test_a_run_is_the_same_whoever_draws(monkeypatch):
    """To the bit: indices, noise and with them the models after some rounds."""
    experiment = small("rounds=3", "training.local_steps=2")

    def models(by_kernels):
        monkeypatch.setattr(fused, "draws_on", lambda device: by_kernels)
        world = build_world(experiment, device=WHERE)
        draws = MinibatchDraws(experiment, world.partition, len(world.y_train), WHERE)
        last = list(simulate(build_stack(world, [experiment])))[-1]
        return draws.batch_indices(1, 1), draws.noise_keys(1, 1), last.state.X_nld

    by_kernels, by_host = models(True), models(False)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(by_kernels, by_host, strict=True))
