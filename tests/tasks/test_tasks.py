"""What is learnt follows from the data; every task measures what it says."""

import numpy as np
import pytest
import torch

import skerry
from command_line import skerry as command
from skerry.config.experiment import Experiment
from skerry.config.measures import GROUPS, MEASURES, USUAL
from skerry.data.sources.arrays import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import DataError, SkerryError
from skerry.measure.observer import Observer

SMALL = ["rounds=6", "network.devices=6", "server.sampled=2", "server.period=2"]
DATA = {
    "classification": ["data.dataset=synthetic", "data.samples=120", "data.test_samples=40"],
    "regression": ["data.dataset=synthetic_regression", "data.samples=120", "data.test_samples=40"],
    "tokens": ["data.dataset=synthetic_tokens", "data.samples=60", "data.test_samples=20"],
}


def experiment(task, *settings):
    return Experiment.parse({}, [*SMALL, *DATA[task], *settings])


def last_row(world):
    """The last measures of the one lane, and its models."""
    stack = build_stack(world, [world.experiment])
    observer = Observer(stack)
    for moment in simulate(stack):
        rows = observer.rows(moment)
    return next(iter(rows.values())), moment.state.X_nld[:, 0]


@pytest.mark.parametrize("task", DATA)
def test_data_say_what_is_learnt_and_the_task_what_is_measured(task):
    """Labels, numbers, tokens: each task records the measures whose rows name it, and no other."""
    world = build_world(experiment(task))
    row, _ = last_row(world)
    assert world.task.name == task
    usual = {name for group in USUAL for name in GROUPS[group]}
    theirs = {name for name in usual if task in MEASURES[name].tasks} - {"average_score"}
    seldom = {name for name in theirs if "before" in name or "bias" in name or "ratio" in name}
    assert theirs - seldom <= row.keys() <= {"round", *theirs}
    assert f"average_{world.task.judged_by}" in row


def test_numbers_that_might_be_labels_are_asked_about():
    """Whole numbers in floating point: nobody guesses; saying the task settles it."""
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40.0) % 4
    given = Materials(dataset=from_arrays(x, y, x, y))
    base = Experiment.parse({}, SMALL)
    with pytest.raises(DataError, match="may be labels or amounts"):
        build_world(base, given)
    assert build_world(base.with_settings("task.name=regression"), given).task.name == "regression"


def test_labels_may_be_taken_for_numbers():
    world = build_world(Experiment.parse({}, [*SMALL, "task.name=regression"]))
    assert world.y_train.shape == (1437, 1)
    assert world.learner.parameters == 65


@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_a_regression_measures_what_its_names_say(loss):
    """Loss, RMSE and R² of the average model, against the formulas."""
    world = build_world(experiment("regression", f"task.loss={loss}"), dtype=torch.float64)
    row, X = last_row(world)
    y = world.y_test[:, 0].numpy()
    away = world.learner.scores(X.mean(dim=0, keepdim=True), world.x_test)[0, :, 0].numpy() - y
    losses = {
        "mse": away**2,
        "mae": abs(away),
        "huber": np.where(abs(away) < 1, away**2 / 2, abs(away) - 0.5),
    }
    assert row["average_loss"] == pytest.approx(losses[loss].mean())
    assert row["average_rmse"] == pytest.approx(np.sqrt((away**2).mean()))
    assert row["average_r2"] == pytest.approx(1 - (away**2).mean() / y.var())


def test_tokens_measure_what_their_names_say():
    world = build_world(experiment("tokens"), dtype=torch.float64)
    row, X = last_row(world)
    P = world.learner.scores(X.mean(dim=0, keepdim=True), world.x_test)[0].softmax(dim=-1).numpy()
    y = world.y_test.numpy()
    right = np.take_along_axis(P, y[..., None], axis=-1)
    assert row["average_loss"] == pytest.approx(-np.log(right).mean())
    assert row["average_perplexity"] == pytest.approx(np.exp(-np.log(right).mean()))
    assert row["average_token_accuracy"] == pytest.approx(100 * (P.argmax(-1) == y).mean())


def test_own_loss_is_weighed_as_a_device_holds_the_range_of_targets():
    """By hand: the loss in each tenth of the targets, times the device's share of that tenth."""
    world = build_world(experiment("regression", "data.intra=dirichlet"), dtype=torch.float64)
    row, X = last_row(world)
    y_train, y_test = world.dataset.y_train, world.dataset.y_test
    edges = np.quantile(y_train, np.arange(1, 10) / 10)
    train, test = (np.searchsorted(edges, y, side="right") for y in (y_train, y_test))
    outputs = world.learner.scores(X, world.x_test)[..., 0].numpy()
    by_range = np.array([((outputs - y_test) ** 2)[:, test == k].mean(axis=1) for k in range(10)])
    own = []
    for i in range(world.n):
        share = np.bincount(train[world.partition.indices(i)], minlength=10)
        own.append(share @ by_range[:, i] / share.sum())
    assert row["own_loss"] == pytest.approx(np.mean(own))
    assert row["device_loss_max"] == pytest.approx(((outputs - y_test) ** 2).mean(axis=1).max())


def test_islands_without_labels_differ_in_their_targets():
    """non_iid deals ranges of targets as it deals classes: no range is on both islands."""
    world = build_world(experiment("regression"))
    first, second = np.add.reduceat(world.partition.label_counts, [0, world.sizes[0]])
    assert not (first * second).any()
    assert first.sum() + second.sum() == 120


@pytest.mark.parametrize("portions", [1, 3])
def test_a_score_of_ones_own(portions, monkeypatch):
    """Its mean over the test samples, also where they are scored in portions."""
    from skerry.measure import accuracy as measured

    settings = ("task.score=task_plugins:within_half", "task.loss=task_plugins:quartic")
    slow = experiment("regression", *settings, "training.stepsize=0.001")
    world = build_world(slow, dtype=torch.float64)
    if portions > 1:
        each = world.learner.bytes_per_device(1, 2) - world.learner.bytes_per_device(1, 1)
        monkeypatch.setattr(measured, "MEMORY", {"cpu": 15 * each})
    row, X = last_row(world)
    away = world.learner.scores(X.mean(dim=0, keepdim=True), world.x_test)[0] - world.y_test
    assert row["average_score"] == pytest.approx(100 * float((away.abs() < 0.5).double().mean()))
    assert row["average_loss"] == pytest.approx(float(away.pow(4).mean()))


def test_a_linear_regression_learns_all_there_is_to_learn():
    """The mean squared error comes close to the variance of the noise, and no further."""
    base = Experiment.parse(
        {},
        [
            "rounds=60", "network.devices=6", "server.sampled=3", "training.stepsize=0.1",
            "data.dataset=synthetic_regression", "data.samples=3000", "data.noise=0.5",
            "data.inter=iid", "data.test_samples=2000", "evaluate.every=60",
        ],
    )  # fmt: skip
    (lane,) = skerry.run(base)
    assert lane.final["average_loss"] == pytest.approx(0.25, rel=0.1)


def test_whole_inputs_stay_whole_for_embeddings():
    """With raw scaling, labels of token sequences are learnt by a model that embeds them."""
    x = np.random.default_rng(0).integers(0, 9, size=(60, 4))
    y = (x[:, 0] > 4).astype(int)
    given = from_arrays(x, y, x[:20], y[:20])
    base = Experiment.parse({}, [*SMALL, "data.scaling=raw", "model.name=gru", "model.width=4"])
    world = build_world(base, Materials(dataset=given))
    assert world.x_train.dtype == torch.int64
    assert last_row(world)[0]["average_accuracy"] >= 0
    plain = build_world(
        base.with_settings("data.scaling=unit", "model.name=linear"), Materials(dataset=given)
    )
    assert plain.x_train.dtype == torch.float32


def test_the_screen_speaks_of_the_task(tmp_path):
    """The first line names it; in a regression nothing is said of labels, classes or accuracies."""
    told = [f"--set={one}" for one in (*SMALL, *DATA["regression"], "task.loss=huber")]
    outcome = command("run", *told, "--compare", "s2s,s2a", "--seeds", 2, "--out", tmp_path / "o")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0].startswith("two islands: regression (huber); 6 devices")
    assert "Best for devices on data like their own" in outcome.out
    shown = [command(name, tmp_path / "o").out for name in ("show", "results", "watch")]
    for word in ("label", "class", "accurac"):
        assert word not in "".join([outcome.out, *shown]).lower()
    drawn = command("figure", "front", tmp_path / "o", "--out", tmp_path / "front.png")
    assert drawn.code == 0


def test_a_sweep_is_tuned_by_the_loss_where_there_is_no_accuracy():
    sweep = skerry.Sweep(
        experiment=experiment("regression"),
        axes={"training.stepsize": [1e-6, 0.05]},
        seeds=2,
        tune="training.stepsize",
        tune_seeds=1,
    )
    lanes = skerry.run(sweep)
    assert {lane.experiment.training.stepsize for lane in lanes if lane.experiment.seed == 1} == {
        0.05
    }


def weighted(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs, targets, torch.tensor([1.0, 5.0, 1.0, 1.0]))


def summed(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs, targets, reduction="sum")


def f1(outputs, targets):
    said, true = torch.eye(4)[outputs.argmax(dim=-1)], torch.eye(4)[targets]
    both, either = (said * true).sum(dim=0), (said.sum(dim=0) + true.sum(dim=0)).clamp(min=1)
    return (2 * both / either).mean()


@pytest.mark.parametrize(
    ("kind", "function"), [("loss", weighted), ("loss", summed), ("score", f1)]
)
def test_what_is_no_mean_over_samples_is_refused(small, kind, function):
    """Models are scored sample by sample, so that its reported value would be another one."""
    with pytest.raises(SkerryError, match="must be a mean over samples"):
        build_world(small().replace(task={kind: function}))
