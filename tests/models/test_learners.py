"""Every learner: a step for all devices and lanes is SGD on each of them."""

import numpy as np
import pytest
import torch
from torch import nn

from skerry.config.experiment import Model
from skerry.errors import ModelError
from skerry.models.learner import Batch, Learner, Problem, build_learner
from skerry.models.noise import KeyedDropout, keyed_uniform
from skerry.plugins import registry
from skerry.tasks.built_in import Tokens
from skerry.tasks.losses import cross_entropy

SHAPES = {
    "cnn_cifar10": (3, 16, 16),
    "cnn_cifar100": (3, 22, 22),
    "gru": (3,),
    "transformer": (3,),
}


TOKENS = Tokens("cross_entropy", cross_entropy)


def problem_of(name):
    if name in ("gru", "transformer"):
        return Problem((3,), classes=5, seed=0, task=TOKENS, tokens=5)
    return Problem(SHAPES.get(name, (1, 4, 4)), classes=5, seed=0)


def learner_of(name, **options):
    learner = build_learner(Model(name=name, **options), problem_of(name))
    learner.to(torch.device("cpu"), torch.float64)
    return learner


def a_step(learner, shape, n=2, lanes=2, size=3):
    generator = torch.Generator().manual_seed(1)
    X = learner.initial().double().expand(n, lanes, -1).clone()
    noise = torch.randn(X.shape, generator=generator, dtype=X.dtype)
    X += 0.01 * noise * (learner.parameters == learner.d)
    if shape == (3,):  # tokens
        x, y = (torch.randint(0, 5, (n, size, 3), generator=generator) for _ in "xy")
        return X, Batch(x, y, torch.tensor([5, 77]))
    x = torch.randn(n * size, *shape, generator=generator, dtype=torch.float64)
    x = learner.prepare(x)
    x = x.view(n, size, *x.shape[1:])
    y = torch.randint(0, 5, (n, size), generator=generator)
    return X, Batch(x, y, torch.tensor([5, 77]))


@pytest.mark.parametrize("name", registry.KINDS["model"])
def test_a_step_is_sgd_at_each_devices_own_model(name):
    """Compared with autograd on one model at a time, for all models of the registry."""
    learner = learner_of(name)
    assert isinstance(learner, Learner)
    X, batch = a_step(learner, SHAPES.get(name, (1, 4, 4)))
    before, eta = X.clone(), torch.tensor([0.1, 0.3], dtype=torch.float64)
    losses = learner.step(X, batch, eta)
    for i in range(2):
        for lane in range(2):
            at = before[i, lane].clone().requires_grad_()
            loss = learner.loss(at, batch.x[i], batch.y[i], batch.noise[i])
            (gradient,) = torch.autograd.grad(loss, at)
            assert losses[i, lane].item() == pytest.approx(loss.item(), rel=1e-12)
            assert torch.allclose(X[i, lane], at.detach() - eta[lane] * gradient, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "parameters"),
    [
        ("linear", (1, 28, 28), 10, {}, 7_850),
        ("cnn_cifar10", (3, 32, 32), 10, {}, 3_353_034),
        ("cnn_cifar10", (3, 32, 32), 10, {"variant": "main_text"}, 1_105_098),
        ("cnn_cifar100", (3, 32, 32), 100, {}, 6_777_060),
    ],
)
def test_the_papers_models_have_the_papers_sizes(name, shape, classes, options, parameters):
    learner = build_learner(Model(name=name, **options), Problem(shape, classes, 0))
    assert learner.parameters == parameters


def test_padding_of_the_linear_model_stays_zero():
    """Rows are padded for the hardware; the padding must never carry a value."""
    learner = learner_of("linear")
    X, batch = a_step(learner, (1, 4, 4))
    for _ in range(3):
        learner.step(X, batch, torch.tensor([0.1, 0.3], dtype=torch.float64))
    rows = X.view(2, 2, 5, learner.p)
    assert rows[..., 17:].abs().max() == 0
    assert rows[..., :17].abs().min(dim=-1).values.max() > 0


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_scores_and_test_loss_agree_with_the_loss_of_one_model(name):
    learner = learner_of(name)
    X, batch = a_step(learner, (1, 4, 4))
    learner.step(X, batch, torch.tensor([0.1, 0.3], dtype=torch.float64))
    models, x, y = X.view(4, -1), batch.x[0], batch.y[0]
    assert learner.scores(models, x).shape == (4, 3, 5)
    for model, loss in zip(models, learner.test_loss(models, x, y), strict=True):
        assert loss.item() == pytest.approx(learner.loss(model, x, y, batch.noise[0]).item())


def test_the_initial_point_follows_from_the_seed_and_leaves_torchs_own_state_alone():
    state = torch.get_rng_state()
    first, again = (build_learner(Model(name="mlp"), problem_of("mlp")).initial() for _ in "ab")
    other = build_learner(Model(name="mlp"), Problem((1, 4, 4), 5, seed=1)).initial()
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_frozen_parameters_stay_out_of_the_flat_vector():
    def half_frozen():
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Linear(4, 5))
        model[1].requires_grad_(False)
        return model

    learner = build_learner(Model(), problem_of("mlp"), half_frozen)
    assert learner.parameters == 4 * 5 + 5


def test_dropout_masks_depend_on_the_key_alone():
    """The same for every lane, chunk and device of computation; other keys, other masks."""
    dropout = KeyedDropout(0.5, salt=3).train()
    x = torch.ones(1000)
    dropout.key = torch.tensor(11)
    first, again = dropout(x), dropout(x)
    dropout.key = torch.tensor(12)
    assert torch.equal(first, again)
    assert not torch.equal(first, dropout(x))
    assert 0.4 < (first > 0).double().mean() < 0.6
    assert torch.equal(dropout.eval()(x), x)


def test_keyed_numbers_are_uniform():
    """Mean, variance and serial correlation as they should be, for several keys."""
    for key in (0, 1, 2**62 - 1):
        u = keyed_uniform(torch.tensor(key), 20_000).double()
        assert u.min() >= 0
        assert u.max() < 1
        assert abs(u.mean() - 0.5) < 0.01
        assert abs(u.var() - 1 / 12) < 0.005
        assert abs(torch.corrcoef(torch.stack([u[1:], u[:-1]]))[0, 1]) < 0.03


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(16), nn.SyncBatchNorm(16), nn.InstanceNorm1d(16, track_running_stats=True)],
    ids=lambda layer: type(layer).__name__,
)
def test_batch_statistics_are_refused_with_advice(layer):
    def model():
        return nn.Sequential(nn.Flatten(), layer, nn.Linear(16, 5))

    with pytest.raises(ModelError, match="GroupNorm"):
        build_learner(Model(), problem_of("mlp"), model)


def test_group_norm_is_welcome():
    def model():
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.GroupNorm(2, 8), nn.Linear(8, 5))

    learner = build_learner(Model(), problem_of("mlp"), model)
    learner.to(torch.device("cpu"), torch.float64)
    X, batch = a_step(learner, (1, 4, 4))
    before = X.clone()
    learner.step(X, batch, torch.tensor([0.1, 0.3], dtype=torch.float64))
    assert not torch.equal(X, before)


def test_a_factory_that_draws_anew_each_time_is_refused():
    """The seed alone decides the initial point; buffers count."""

    def network(draw):
        made = torch.nn.Linear(4, 3)
        made.register_buffer("features", torch.as_tensor(draw))
        return made

    problem = Problem((4,), 3, seed=1)
    for factory in (
        lambda: network(np.random.default_rng().normal(size=4)),
        lambda: network(np.zeros(np.random.default_rng().integers(1, 2**20))),
    ):
        with pytest.raises(ModelError, match=r"starts from other values each time .* one seed"):
            build_learner(Model(), problem, factory)
    for factory in (
        lambda context: network(context.random().normal(size=4)),
        lambda: network(torch.rand(4)),
    ):
        assert build_learner(Model(), problem, factory).parameters == 15
