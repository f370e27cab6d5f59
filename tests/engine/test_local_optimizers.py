"""What devices make of their gradients: the fast engine and the loop, torch's own, and records."""

import pytest
import torch

import skerry
from oracle import trajectory
from recorded_runs import PlugPulledError, assert_same, record
from six_quadratics import A, B, six, six_world
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from trajectories import assert_same_trajectories

RULES = [
    ["training.weight_decay=0.05"],
    ["training.optimizer=momentum"],
    ["training.optimizer=momentum", "training.momentum=0.5", "training.weight_decay=0.01"],
    ["training.optimizer=adam", "training.stepsize=0.01"],
    ["training.optimizer=adam", "training.stepsize=0.01", "server.primitive=s2a"],
    ["training.optimizer=momentum", "training.weights=data"],
    ["training.optimizer=momentum", "training.order=mix_then_adapt"],
    ["training.optimizer=adam", "training.stepsize=0.01", "fleet.awake=0.6"],
    [],
]


def test_lanes_with_all_rules_equal_the_loop(small):
    """Side by side in one stack, beside plain SGD."""
    lanes = [small("training.local_steps=2", *rule) for rule in RULES]
    assert_same_trajectories(build_world(lanes[0], dtype=torch.float64), lanes, 1e-12)


def test_the_loop_is_torchs_own_optimizer(small):
    """One device alone, all of whose samples are in the batch of torch's."""
    asked = small(
        "network.devices=1", "network.components=1", "server.sampled=1", "network.topology=complete"
    )
    for rule, make in {
        "momentum": lambda x: torch.optim.SGD([x], 0.1, momentum=0.9, weight_decay=0.01),
        "adam": lambda x: torch.optim.Adam([x], 0.1, (0.9, 0.999), weight_decay=0.01),
    }.items():
        one = asked.replace(
            training={"optimizer": rule, "weight_decay": 0.01, "stepsize": 0.1}, rounds=4
        )
        world = build_world(one, dtype=torch.float64)
        x = world.initial().clone().requires_grad_()
        optimizer = make(x)
        for t, X_nd in enumerate(trajectory(world, one)):
            rows, noise = world.batch_indices(t, 0)[0], world.noise_keys(t, 0)[0]
            optimizer.zero_grad()
            world.learner.loss(x, world.x_train[rows], world.y_train[rows], noise).backward()
            optimizer.step()
            assert torch.allclose(X_nd[0], x.detach(), atol=1e-12, rtol=0)


def heavy_ball(gradient, kept, context, *, keeping):
    heavy_ball.steps.append(context.step)
    return kept["ball"].mul_(keeping).add_(gradient)


heavy_ball.keeps = ("ball",)
heavy_ball.steps = []


def test_a_rule_of_ones_own(small):
    base = small("training.local_steps=2", "rounds=3")
    own = base.replace(training={"optimizer": heavy_ball, "keeping": 0.9})
    built_in = base.with_settings("training.optimizer=momentum")
    heavy_ball.steps.clear()
    mine, theirs = skerry.run([own, built_in])
    assert mine.final["average_loss"] == pytest.approx(theirs.final["average_loss"], rel=1e-6)
    assert mine.final["average_loss"] != skerry.run(base)[0].final["average_loss"]
    assert sorted(set(heavy_ball.steps)) == [0, 1, 2, 3, 4, 5]


def test_what_it_keeps_survives_a_stop(small, tmp_path):
    lanes = [small("training.optimizer=adam", "training.stepsize=0.01"), small()]
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, 4)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("training.optimizer=momentum", 'needs training.optimizer = "sgd"'),
        ("training.weight_decay=0.1", "needs training.weight_decay = 0.0"),
    ],
)
def test_a_method_says_itself_how_devices_step(small, setting, told):
    with pytest.raises(SkerryError, match=told):
        small("method.name=gradient_tracking", setting)


def test_a_direction_of_another_shape_is_told(small):
    def summed(gradient, state):
        return gradient.sum()

    with pytest.raises(SkerryError, match="must give the direction to step along"):
        skerry.run(small().replace(training={"optimizer": summed}))


def test_defaults_are_no_part_of_a_key(small):
    plain = small()
    assert plain.key() == small("training.momentum=0.5", "training.optimizer=sgd").key()
    assert plain.key() != small("training.weight_decay=0.1").key()
    assert plain.world_key() == small("training.optimizer=adam").world_key()


def test_the_worked_numbers_of_heavy_ball():
    """f_i = a (x - b)^2 / 2 from x = 0, without links or a server: V <- V / 2 + a (x - b)."""
    alone = ("network.gossip_steps=0", "server.primitive=none", "rounds=2")
    experiment = six("training.optimizer=momentum", "training.momentum=0.5", *alone)
    a, b = torch.tensor(A), torch.tensor(B)
    first = 0.1 * a * b
    second = first - 0.1 * (-0.5 * a * b + a * (first - b))
    found = [X[:, 0] for X in trajectory(six_world(experiment), experiment)]
    assert torch.allclose(torch.stack(found).float(), torch.stack([first, second]), atol=1e-6)
