"""For every task, loss and kind of model the fast engine computes what the paper's loop does."""

import pytest
import torch

from skerry.config.experiment import Experiment
from skerry.engine.world import build_world
from trajectories import assert_same_trajectories

REGRESSION = ["data.dataset=synthetic_regression", "data.samples=200", "data.test_samples=40"]
TOKENS = [
    "data.dataset=synthetic_tokens", "data.samples=60", "data.test_samples=20", "data.length=5",
    "data.vocabulary=6", "training.batch=3",
]  # fmt: skip
DIGITS = ["data.dataset=digits"]
SMALL_STEPS = "training.stepsize=0.001"


def experiment(*settings):
    small = ["rounds=4", "network.devices=6", "server.sampled=2", "server.period=2"]
    return Experiment.parse({}, [*small, "training.batch=7", *settings])


@pytest.mark.parametrize(
    "settings",
    [
        [*REGRESSION, "model.name=linear"],
        [*REGRESSION, "model.name=linear", "task.loss=mae"],
        [*REGRESSION, "model.name=linear", "task.loss=huber", "task.delta=0.5"],
        [*REGRESSION, "model.name=mlp", "model.hidden=5"],
        [*REGRESSION, "model.name=mlp", "model.hidden=5", "task.loss=huber"],
        [*REGRESSION, "model.name=task_plugins:tanh_net"],
        # Larger steps make this loss explode within four rounds, and such a lane is dropped.
        [*REGRESSION, "model.name=linear", "task.loss=task_plugins:quartic", SMALL_STEPS],
        [*REGRESSION, "model.name=mlp", "model.hidden=5", "task.loss=task_plugins:quartic"],
        [*REGRESSION, "model.name=task_plugins:tanh_net", "task.loss=task_plugins:quartic"],
        [*DIGITS, "task.name=regression", "model.name=linear", "training.stepsize=0.001"],
        [*DIGITS, "model.name=linear", "task.loss=task_plugins:smoothed"],
        [*TOKENS, "model.name=linear"],
        [*TOKENS, "model.name=mlp", "model.hidden=[4, 3]"],
        [*TOKENS, "model.name=task_plugins:window"],
        [*TOKENS, "model.name=linear", "task.loss=task_plugins:last_token"],
        [*TOKENS, "model.name=gru", "model.width=4"],
        [*TOKENS, "model.name=gru", "model.width=4", "model.layers=2"],
        [*TOKENS, "model.name=transformer", "model.width=4", "model.heads=2"],
        [*TOKENS, "model.name=task_plugins:lstm"],
        [*TOKENS, "model.name=task_plugins:encoder"],
        [*TOKENS, "model.name=task_plugins:skips_silence"],
        [*REGRESSION, "model.name=task_plugins:branches"],
        [*DIGITS, "model.name=task_plugins:branches"],
        [*DIGITS, "model.name=task_plugins:branches", "task.loss=task_plugins:smoothed"],
        [*DIGITS, "model.name=task_plugins:branches_with_dropout"],
        [*DIGITS, "model.name=task_plugins:lora"],
        [*DIGITS, "model.name=task_plugins:frozen_backbone"],
    ],
    ids=" ".join,
)
def test_every_task(settings):
    base = experiment(*settings)
    lanes = [base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a", "blend")]
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-12)


@pytest.mark.parametrize("outputs", [1, 3])
def test_several_numbers_for_each_sample(outputs):
    """A target may be a row of numbers."""
    from skerry.data.sources.arrays import from_arrays
    from skerry.engine.world import Materials

    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(60, width, generator=rng).numpy() for width in (4, outputs))
    given = Materials(dataset=from_arrays(x, y, x[:9], y[:9]))
    base = experiment("model.name=mlp", "model.hidden=3")
    assert_same_trajectories(build_world(base, given, dtype=torch.float64), [base], 1e-12)
