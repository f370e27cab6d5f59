"""Padding never counts: whatever a user's own plug-in writes, only parameters are seen."""

import numpy as np
import pytest
import torch

import noisy_plugins
from skerry.config.experiment import Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.measure.observer import Observer
from skerry.models import linear, module
from skerry.models.layout import parameter_mask

SETTINGS = [
    "network.devices=6", "rounds=4", "server.sampled=3", "server.period=2", "training.batch=3",
    "data.dataset=synthetic", "data.samples=60", "data.test_samples=12", "data.features=3",
    "data.classes=3", "server.primitive=s2a", "evaluate.every=2",
    'evaluate.own=["noisy_plugins:own_disagreement"]',
]  # fmt: skip
KINDS = {
    "primitive": "server.primitive=noisy_plugins:noisy_primitive",
    "server optimizer": "server.optimizer=noisy_plugins:NoisyOptimizer",
    "local optimizer": "training.optimizer=noisy_plugins:noisy_steps",
    "method": "method.name=noisy_plugins:NoisyMethod",
    "compression": "server.compression=noisy_plugins:NoisyCompression",
    "link compression": "network.compression=noisy_plugins:NoisyCompression",
}
MODELS = {"linear": [], "mlp": ["model.name=mlp", "model.hidden=[5]"]}


def follow(experiment):
    """The models without padding and the measures at the end, and whether padding stayed zero."""
    world = build_world(experiment, dtype=torch.float64)
    stack = build_stack(world, [experiment])
    observer, mask = Observer(stack), parameter_mask(world.layout, world.learner.d)
    for moment in simulate(stack):
        row = observer.rows(moment).get(stack.keys[0])
        assert not moment.state.X_nld[..., ~mask].any()
    order = np.concatenate([_places(p) for p in world.layout])
    return moment.state.X_nld[..., order], row, world


def _places(parameter):
    return parameter.of(torch.arange(10_000)).flatten().numpy()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_computes_the_same_with_and_without_padding(kind, model, monkeypatch):
    """A model whose rows are padded, and one of the same numbers without, end at the same models,
    disagreement and bytes; the plug-in sees vectors of the parameters only."""
    experiment = Experiment.parse({}, [*SETTINGS, KINDS[kind], *MODELS[model]])
    noisy_plugins.SEEN.clear()
    padded, row, world = follow(experiment)
    assert world.padding is not None
    for alignment in (linear, module):
        monkeypatch.setattr(alignment, "ALIGNMENT", 1)
    plain, plain_row, plain_world = follow(experiment)
    assert plain_world.padding is None
    assert plain_world.learner.d == plain_world.learner.parameters == world.learner.parameters
    assert torch.allclose(padded, plain, rtol=1e-9)
    assert row == pytest.approx(plain_row, rel=1e-9)
    assert row["disagreement"] == pytest.approx(row["own_disagreement"], rel=1e-9, abs=1e-12)
    assert noisy_plugins.SEEN.pop("measure") == {world.learner.parameters}
    assert {kind.removeprefix("link "): {world.learner.parameters}} == noisy_plugins.SEEN
