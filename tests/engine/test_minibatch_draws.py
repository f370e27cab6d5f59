"""The random draws of a world, for some of its devices or for all."""

import pytest
import torch

from conftest import small
from skerry.engine.minibatch_draws import MinibatchDraws
from skerry.engine.world import build_world
from skerry.models.learner import Batch, LazyBatch
from skerry.plugins.registry import KINDS

CPU = torch.device("cpu")


@pytest.mark.parametrize("sampling", KINDS["sampling"])
@pytest.mark.parametrize("devices", [slice(0, 4), slice(4, 9), slice(9, 12)])
def test_some_devices_see_what_they_see_among_all(sampling, devices):
    """So that a fleet may lie in several places."""
    world = build_world(small(f"training.sampling={sampling}"))
    given = world.experiment, world.partition, len(world.y_train), CPU
    everybody, some = MinibatchDraws(*given), MinibatchDraws(*given, devices)
    for t, step in ((0, 0), (5, 1), (2, 0)):
        indices_nb, noise_n = everybody.batch_indices(t, step), everybody.noise_keys(t, step)
        assert torch.equal(some.batch_indices(t, step), indices_nb[devices])
        assert torch.equal(some.noise_keys(t, step), noise_n[devices])
    assert torch.equal(some.server_order(3), everybody.server_order(3))


def test_a_drawn_batch_is_gathered_when_it_is_asked_for(small_world):
    world = small_world
    rows = world.batch_indices(0, 0)
    batch = LazyBatch(world.x_train, world.y_train, rows, world.noise_keys(0, 0))
    assert isinstance(batch, Batch)
    assert not {"x", "y"} & vars(batch).keys()
    assert torch.equal(batch.x, world.x_train[rows])
    assert torch.equal(batch.y, world.y_train[rows])
    assert batch.x is batch.x, "once"
