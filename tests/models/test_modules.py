"""Any module: batched where torch can, else one after the other; frozen parts; given weights."""

import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import task_plugins
from skerry.config.experiment import Experiment, Model
from skerry.data.sources.arrays import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import ModelError, SkerryWarning, warn_once
from skerry.models.learner import Batch, Problem, build_learner
from skerry.models.pace import remark
from skerry.tasks.losses import cross_entropy
from skerry.tasks.tokens import Tokens

SMALL = ["rounds=2", "network.devices=4", "server.sampled=2", "training.batch=4"]
DIGITS = Problem((1, 8, 8), 10, seed=0)
TEXT = Problem((5,), 6, seed=0, task=Tokens("cross_entropy", cross_entropy), tokens=6)


def learner_of(name, problem=DIGITS, **options):
    return build_learner(Model(name=f"task_plugins:{name}", **options), problem)


@pytest.mark.parametrize(
    ("name", "problem", "one_by_one"),
    [
        ("tanh_net", Problem((4,), 3, 0), False),
        ("lora", DIGITS, False),
        ("window", TEXT, False),
        ("lstm", TEXT, False),
        ("encoder", TEXT, False),
        ("branches", DIGITS, True),
        ("skips_silence", TEXT, True),
    ],
)
def test_what_can_be_batched_is(name, problem, one_by_one):
    learner = learner_of(name, problem)
    assert learner.one_by_one == one_by_one
    assert bool(remark(learner, batch=4)) == one_by_one


@pytest.mark.parametrize("name", ["lora", "frozen_backbone", "tanh_net"])
def test_one_after_the_other_is_the_same_as_all_at_once(name):
    """To rounding, for modules that go both ways."""
    problem = Problem((4,), 3, 0) if name == "tanh_net" else DIGITS
    learner = learner_of(name, problem)
    learner.to(torch.device("cpu"), torch.float64)
    learner._chain = None
    x, y = problem.example()
    batch = Batch(x.double().expand(3, *x.shape), y.expand(3, *y.shape), torch.zeros(3).long())
    start = learner.initial().double().expand(3, 2, -1).clone()
    start += 0.1 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0)).double()
    eta = torch.tensor([0.1, 0.3], dtype=torch.float64)
    at_once, one_by_one = start.clone(), start.clone()
    losses = learner.step(at_once, batch, eta)
    learner.why_one_by_one = "asked for"
    assert torch.allclose(learner.step(one_by_one, batch, eta), losses, atol=1e-14)
    assert torch.allclose(one_by_one, at_once, atol=1e-14)
    assert not torch.equal(at_once, start)


def test_the_price_of_one_after_the_other_is_told():
    told = remark(learner_of("branches"), batch=4)
    assert "they look at values, with .item() or a branch" in told
    assert " times as long as one of batched dense layers" in told


def trained(base, materials=None):
    stack = build_stack(build_world(base, materials), [base])
    *_, last = simulate(stack)
    return stack.world, last.state.X_nld[:, 0]


@pytest.mark.parametrize("name", ["frozen_backbone", "lora"])
def test_only_what_learns_travels(name):
    """Frozen parts are no part of X or of a message, and are the same after training."""
    base = Experiment.parse({}, [*SMALL, f"model.name=task_plugins:{name}"])
    fresh, (world, X) = build_world(base).learner, trained(base)
    learnt = {"frozen_backbone": 8 * 10 + 10, "lora": 2 * (8 + 64) + 2 * (10 + 8)}[name]
    assert world.learner.parameters == learnt
    assert X.shape[1] < learnt + 8 * 4  # rounded up for the hardware, and no more
    for before, after in zip(
        fresh._training.state_dict().values(),
        world.learner._training.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(before, after)
    assert not torch.equal(X[0], world.initial())


def weights_of(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def test_training_starts_from_given_weights(tmp_path):
    """Every device, at every seed; other content in the file is another run."""
    module = task_plugins.backbone(DIGITS)
    save_file(weights_of(module), tmp_path / "w.safetensors")
    settings = ["model.name=task_plugins:backbone", f"model.weights={tmp_path / 'w.safetensors'}"]
    world, other = (
        build_world(Experiment.parse({}, [*SMALL, *settings, f"seed={seed}"])) for seed in (0, 1)
    )
    views = world.learner._views(world.initial())
    assert all(torch.equal(views[name], tensor) for name, tensor in module.state_dict().items())
    assert torch.equal(world.initial(), other.initial())
    key = world.key(world.experiment)
    save_file({n: 2 * t for n, t in weights_of(module).items()}, tmp_path / "w.safetensors")
    again = build_world(world.experiment)
    assert again.key(world.experiment) != key
    assert torch.equal(again.initial(), 2 * world.initial())


def test_a_linear_model_starts_from_the_weights_of_nn_linear(tmp_path):
    layer = nn.Linear(64, 10)
    save_file(weights_of(layer), tmp_path / "w.safetensors")
    learner = build_learner(Model(weights=str(tmp_path / "w.safetensors")), DIGITS)
    x, _ = DIGITS.example()
    scores = learner.scores(learner.initial()[None], learner.prepare(x))[0]
    assert torch.allclose(scores, layer(x.flatten(1)), atol=1e-6)


def test_a_given_backbone_under_new_low_rank_parts(tmp_path):
    """The file was saved before the parts were added, and names no more than the backbone."""
    plain = task_plugins.backbone(DIGITS)
    save_file(weights_of(plain), tmp_path / "w.safetensors")
    learner = learner_of("lora", weights=str(tmp_path / "w.safetensors"))
    x, _ = DIGITS.example()
    scores = learner.scores(learner.initial()[None], x)[0]  # low rank starts from zero
    assert torch.allclose(scores, plain(x), atol=1e-6)


def test_a_given_backbone_under_a_new_head(tmp_path):
    """What is frozen must be in the file; the head that learns may start as drawn."""
    plain = task_plugins.backbone(DIGITS)
    backbone = {name: t for name, t in weights_of(plain).items() if name.startswith("1.")}
    save_file(backbone, tmp_path / "w.safetensors")
    learner = learner_of("frozen_backbone", weights=str(tmp_path / "w.safetensors"))
    assert torch.equal(learner._training[1].weight, plain[1].weight)
    with pytest.raises(ModelError, match=r"lacks '3\.bias', '3\.weight'"):
        learner_of("backbone", weights=str(tmp_path / "w.safetensors"))
    save_file({"3.bias": weights_of(plain)["3.bias"]}, tmp_path / "w.safetensors")
    with pytest.raises(ModelError, match=r"lacks '1\.bias', '1\.weight'"):
        learner_of("frozen_backbone", weights=str(tmp_path / "w.safetensors"))


def test_adapters_of_peft(tmp_path):
    """LoRA as `peft` adds it: only its parts learn, and weights from before it fit."""
    peft = pytest.importorskip("peft")

    def adapted():
        config = peft.LoraConfig(r=2, target_modules=["1", "3"])
        return peft.get_peft_model(task_plugins.backbone(DIGITS), config)

    save_file(weights_of(task_plugins.backbone(DIGITS)), tmp_path / "w.safetensors")
    base = Experiment.parse({}, [*SMALL, f"model.weights={tmp_path / 'w.safetensors'}"])
    world, X = trained(base, Materials(model=adapted))
    assert world.learner.parameters == 2 * (8 + 64) + 2 * (10 + 8)
    assert not torch.equal(X[0], world.initial())


@pytest.mark.parametrize("layers", [1, 2])
def test_the_gru_is_torchs_own(layers):
    """Its weights and formulas, but many models at once: torch's kernels have no rule for that."""
    learner = build_learner(Model(name="gru", width=3, layers=layers), TEXT)
    learner.to(torch.device("cpu"), torch.float64)
    assert not learner.one_by_one
    ours = learner._evaluating
    theirs = nn.GRU(3, 3, layers, batch_first=True).double()
    theirs.load_state_dict(ours.recur.state_dict())
    x, _ = TEXT.example()
    expected = ours.head(theirs(ours.embed(x))[0])
    assert torch.allclose(ours(x), expected, rtol=1e-12, atol=1e-12)


def test_torchs_transformer_works_as_advised():
    """Without the dropout inside its attention; those beside it follow the seed."""
    base = Experiment.parse({}, [*SMALL, "data.dataset=synthetic_tokens", "data.samples=60"])
    base = base.with_settings("model.name=task_plugins:encoder_as_advised", "training.batch=3")
    (world, X), (_, again), (_, other) = (
        trained(base.with_settings(f"seed={seed}")) for seed in (0, 0, 1)
    )
    assert world.learner.noisy
    assert torch.equal(X, again)
    assert not torch.equal(X, other)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["model.name=task_plugins:rounds_back"], True),
        (["model.name=task_plugins:rounds_back", "data.scaling=standard"], False),
        (["model.name=task_plugins:rounds_back", "data.scaling=raw"], False),
        (["model.name=mlp"], False),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_whole_inputs_that_are_standardised_are_told(settings, told):
    """Once, to whoever has a model of his own and has not said how they are meant: a model that
    makes whole numbers of them again learns next to nothing."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, size=(80, 6))
    materials = Materials(dataset=from_arrays(x, x[:, 0] % 3, x[:20], x[:20, 0] % 3))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_once.cache_clear()
        world, _ = trained(Experiment.parse({}, [*SMALL, *settings]), materials)
    lines = [str(one.message) for one in heard if one.category is SkerryWarning]
    assert len(lines) == told
    assert all('set data.scaling = "raw"' in line for line in lines)
    assert world.x_train.is_floating_point() == ("data.scaling=raw" not in settings)
