"""Constants, pilot and answer work for every task."""

import math

import pytest
import torch

import skerry
from skerry.config.experiment import Experiment
from skerry.engine.world import build_world
from skerry.theory.constants import constants_of

SMALL = ["rounds=6", "network.devices=6", "server.sampled=2", "server.period=2", "training.batch=5"]
REGRESSION = ["data.dataset=synthetic_regression", "data.samples=120", "data.features=4"]
TOKENS = ["data.dataset=synthetic_tokens", "data.samples=60", "data.length=4", "data.vocabulary=5"]


@pytest.mark.parametrize(
    "settings",
    [
        REGRESSION,
        [*REGRESSION, "task.loss=huber"],
        [*REGRESSION, "task.loss=mae"],
        [*REGRESSION, "task.loss=task_plugins:quartic", "model.name=mlp", "model.hidden=3"],
        TOKENS,
        [*TOKENS, "model.name=gru", "model.width=3"],
        [*TOKENS, "model.name=transformer", "model.width=4"],
        [*TOKENS, "model.name=task_plugins:skips_silence"],
        ["model.name=task_plugins:branches"],
    ],
    ids=" ".join,
)
def test_constants_of_every_task(settings):
    """Positive and finite, from any loss and any way that models are stepped."""
    world = build_world(Experiment.parse({}, [*SMALL, *settings]))
    found = constants_of(world, rounds=(0, 2), draws=2)
    assert found.f0.value > 0
    assert found.sigma2.value > 0
    assert found.zeta_inter2.value > 0
    assert 0 <= found.smoothness.value < float("inf")


@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_the_smoothness_of_a_linear_regression_is_known(loss):
    """At least the largest curvature that power iteration finds, which approaches it from below."""
    from skerry.theory.point_constants import estimate_smoothness, known_smoothness

    base = Experiment.parse({}, [*SMALL, *REGRESSION, f"task.loss={loss}", "task.delta=9"])
    world = build_world(base, dtype=torch.float64)
    known = known_smoothness(world)
    assert known.method == "upper bound"
    estimated = estimate_smoothness(world, world.initial(), 0, world.n).value
    largest = float(world.x_train.square().sum(dim=1).max())
    assert known.of_losses <= {"mse": 2, "huber": 1}[loss] * largest
    assert 0 < estimated <= {"mse": 2, "huber": 1}[loss] * largest


def test_goals_are_named_by_the_task():
    """The lowest loss, globally and on data like a device's own; nothing is said of accuracies."""
    base = Experiment.parse({}, [*SMALL, *REGRESSION, "training.stepsize=0.05"])
    quick = {"sampled": [2], "periods": [2], "stepsizes": [0.05], "seeds": 2}
    advice = skerry.advise(base, among="s2s,s2a", **quick)
    scores = advice.pilot.scores
    assert scores.measures["both"] == ("average_loss", "own_loss")
    asked = advice.to_json()["question"]
    assert (asked["unit"], asked["lower_is_better"]) == ("%", True)
    best = advice.answer.best
    assert asked["tolerance"] == pytest.approx(best.score.mean / 100)
    for point in advice.answer.points:  # positive if the loss is larger
        percent = 100 * math.log(point.score.mean / best.score.mean)
        assert percent == pytest.approx(point.behind.mean if point.behind else 0, rel=0.1, abs=0.1)
    text = str(advice)
    assert "ean of global and own loss" in text
    assert "accurac" not in text + " ".join(advice.notes)
    advice = skerry.advise(base, goal="worst_tenth", among="s2s,s2a,uniform", **quick)
    assert advice.pilot.scores.measures["worst_tenth"] == ("own_loss_worst_tenth",)
    assert "oss of the worst tenth of the devices on data like their own" in str(advice)
    assert "accurac" not in str(advice)
