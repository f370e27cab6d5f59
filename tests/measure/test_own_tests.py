"""Devices are scored on their own samples many at a time, and come to what each would alone."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import skerry
from oracle import trajectory
from skerry.config.experiment import Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.measure.device_scores import LARGER, SMALL_TEST, DeviceScorer, OwnTests
from skerry.measure.observer import Observer
from skerry.runs.materials import with_sizes

OWN = (1, 0, 9, 30, 2, 12, 0, 33, 9, 7)
"""Own test samples of each device."""
VOCABULARY = 5


def samples(task, size, rng):
    if task == "tokens":
        text = rng.integers(0, VOCABULARY, size=(size, 4))
        return text, (text + 1) % VOCABULARY
    x = rng.normal(size=(size, 6, 6, 1)).astype(np.float32)
    if task == "regression":
        return x, x.mean(axis=(1, 2, 3))
    return x, rng.permutation(np.arange(size) % 3)


def world_of(task, *settings, materials=None):
    rng = np.random.default_rng(0)
    given = skerry.from_devices(
        {f"d{i}": samples(task, 6, rng) for i in range(len(OWN))},
        test=samples(task, 20, rng),
        own_test={f"d{i}": samples(task, size, rng) for i, size in enumerate(OWN) if size},
    )
    base = Experiment.parse(
        {"data": {"dataset": "given", "split": "given"}}, [f"task.name={task}", *settings]
    )
    return build_world(base, Materials(dataset=given), dtype=torch.float64)


def models_of(world, lanes=3):
    """Each device and lane has its own."""
    draws = torch.Generator().manual_seed(1)
    shape = (world.n, lanes, world.learner.d)
    return world.initial() + 0.3 * torch.randn(shape, generator=draws, dtype=world.dtype)


def one_by_one(world, X_nld, otherwise_nl):
    """The plain way: a call of the learner for every device."""
    found_nl, own = otherwise_nl.clone(), world.partition.own_tests
    for device in own.sizes.nonzero()[0].tolist():
        rows = torch.from_numpy(own.indices(device))
        outputs = world.learner.scores(X_nld[device], world.x_own[rows])
        judged = world.task.judge(outputs, world.y_own[rows])
        found_nl[device] = (100 if world.task.in_percent else 1) * judged.mean(dim=1)
    return found_nl


MODELS = [
    ("classification", "model.name=linear"),
    ("classification", "model.name=mlp", "model.hidden=4"),
    ("classification", "model.name=task_plugins:convolution"),
    ("regression", "model.name=linear"),
    ("regression", "model.name=mlp", "model.hidden=4"),
    ("regression", "model.name=mlp", "model.hidden=4", "task.loss=task_plugins:quartic"),
    ("tokens", "model.name=linear"),
    ("tokens", "model.name=gru", "model.width=3"),
    ("tokens", "model.name=transformer", "model.width=4", "model.heads=2"),
    ("tokens", "model.name=task_plugins:lstm"),
    ("tokens", "model.name=task_plugins:encoder"),
]
LOOK_AT_VALUES = [
    ("classification", "model.name=task_plugins:branches"),
    ("tokens", "model.name=task_plugins:skips_silence"),
]
"""Of all samples that they are given at once."""


@pytest.mark.parametrize(
    ("settings", "memory"),
    [*product(MODELS, (None, 3000)), *product(LOOK_AT_VALUES, (None,))],
    ids=lambda told: " ".join(told) if isinstance(told, tuple) else f"memory {told}",
)
def test_devices_come_to_what_each_would_alone(settings, memory, monkeypatch):
    """Whatever the task, the model and how many fit in memory; whoever has no samples of its own
    is left alone."""
    world = world_of(*settings)
    if memory is not None:
        monkeypatch.setattr("skerry.measure.accuracy.MEMORY", {"cpu": memory})
    X_nld = models_of(world)
    otherwise_nl = torch.full(X_nld.shape[:2], -1.0, dtype=world.dtype)
    found = OwnTests(world).score(X_nld, otherwise_nl)
    assert torch.allclose(found, one_by_one(world, X_nld, otherwise_nl), rtol=1e-12, atol=1e-12)
    assert (found[1] == -1).all()
    assert len(found.unique()) > 10


def test_devices_of_about_one_size_share_a_call(monkeypatch):
    """Ten devices, eight of them with samples: a few calls, little of them for nothing, and with
    other lanes, others."""
    world = world_of("classification", "model.name=mlp")
    calls = []
    at_once = world.learner.scores_by_device
    monkeypatch.setattr(
        world.learner,
        "scores_by_device",
        lambda X, x: calls.append(tuple(x.shape[:2])) or at_once(X, x),
    )
    tests = OwnTests(world)
    for lanes in (3, 1):
        X_nld = models_of(world, lanes)
        tests.score(X_nld, X_nld.new_zeros(world.n, lanes))
    assert calls == [(3, 7), (2, 9), (1, 12), (2, 33)] * 2
    assert all(most <= max(SMALL_TEST, LARGER * size) for most, size in ((7, 1), (9, 9), (33, 30)))


class OnlyScores:
    """A user's learner that knows nothing of devices."""

    def __init__(self, learner):
        for name in ("d", "parameters", "classifies", "noisy", "to", "prepare", "initial", "loss"):
            setattr(self, name, getattr(learner, name))
        for name in ("step", "scores", "test_loss", "bytes_per_device"):
            setattr(self, name, getattr(learner, name))


def test_a_learner_that_knows_only_scores():
    world = world_of("classification", "model.name=mlp")
    X_nld = models_of(world)
    otherwise_nl = X_nld.new_zeros(X_nld.shape[:2])
    expected = OwnTests(world).score(X_nld, otherwise_nl)
    object.__setattr__(world, "learner", OnlyScores(world.learner))
    assert torch.equal(OwnTests(world).score(X_nld, otherwise_nl), expected)


def test_a_loss_without_end_stays_with_its_device():
    """What fills up a device's row says nothing about anybody."""
    world = world_of("regression", "model.name=linear")
    X_nld = models_of(world)
    X_nld[4] = float("inf")
    found = OwnTests(world).score(X_nld, X_nld.new_zeros(X_nld.shape[:2]))
    assert torch.isfinite(found).all(dim=1).tolist() == [i != 4 for i in range(world.n)]


@pytest.mark.parametrize(
    "settings",
    [
        ("classification", "model.name=linear"),
        ("classification", "model.name=task_plugins:branches"),
        ("regression", "model.name=mlp", "model.hidden=4"),
        ("tokens", "model.name=gru", "model.width=3"),
        ("tokens", "model.name=task_plugins:skips_silence"),
    ],
    ids=" ".join,
)
def test_the_papers_loop_comes_to_the_same_scores(settings):
    """Own scores of the fast engine are those of the models of the loop that follows the paper,
    scored device by device: for each task, also where models go one after the other."""
    world = world_of(*settings, "rounds=3", "server.sampled=3", "server.period=2")
    lanes = with_sizes(
        [world.experiment.with_settings(f"server.primitive={name}") for name in ("s2s", "s2a")]
    )
    stack = build_stack(world, lanes)
    observer = Observer(stack)
    rows = [observer.rows(moment) for moment in simulate(stack)][-1]
    judged_by = world.task.judged_by
    for lane, key in zip(stack.experiments, stack.keys, strict=True):
        *_, X_nd = trajectory(world, lane)
        mixed_nl = DeviceScorer(world).score(X_nd.unsqueeze(1)).own_nl
        own_nl = one_by_one(world, X_nd.unsqueeze(1), mixed_nl)
        assert rows[key][f"own_{judged_by}"] == pytest.approx(float(own_nl.mean()), rel=1e-9)
        table = observer.device_tables[key]
        assert table[f"own_{judged_by}"] == pytest.approx(own_nl[:, 0].tolist(), rel=1e-6)
        assert table["own_tests"] == [OWN[int(name[1:])] for name in table["device"]]


def test_dealt_own_tests_are_scored_beside_the_label_mix():
    """With dealt tests own_accuracy is the plain mean over devices of their accuracy on their own
    test samples; label_mix_accuracy is what own_accuracy is without them."""
    base = Experiment.parse({}, ["data.own_tests=dealt", "network.devices=10", "server.sampled=2"])
    world = build_world(base, dtype=torch.float64)
    X_nld = models_of(world, lanes=2)
    scorer = DeviceScorer(world)
    found = scorer.measure(scorer.score(X_nld))
    own, right = world.partition.own_tests, torch.zeros(2, dtype=world.dtype)
    assert own.sizes.min() > 0
    for device in range(world.n):
        rows = torch.from_numpy(own.indices(device))
        outputs = world.learner.scores(X_nld[device], world.x_test[rows])
        right += (outputs.argmax(dim=-1) == world.y_test[rows]).double().mean(dim=-1)
    torch.testing.assert_close(found["own_accuracy"], 100 * right / world.n)
    without = replace(world, partition=replace(world.partition, own_tests=None))
    mixed = DeviceScorer(without).measure(DeviceScorer(without).score(X_nld))
    torch.testing.assert_close(found["label_mix_accuracy"], mixed["own_accuracy"])
    assert (found["own_accuracy"] - mixed["own_accuracy"]).abs().max() > 0.1


def test_given_data_refuse_fields_of_dealt_ones():
    """Data that say what a device holds have no share and no dealt tests: one line each."""
    with pytest.raises(skerry.SkerryError) as refused:
        Experiment.parse(
            {"data": {"dataset": "vowels", "split": "given"}},
            ["data.sample_share=0.5", "data.own_tests=dealt"],
        )
    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    assert all("samples that are dealt" in line for line in lines)
