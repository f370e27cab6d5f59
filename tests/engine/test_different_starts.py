"""Devices that start at different points: every engine starts each device at its own."""

import torch

from skerry.config.experiment import Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.measure.observer import Observer
from skerry.models.weights import weights_from
from thread_ranks import build, together
from trajectories import assert_same_trajectories

SETTINGS = [
    "network.devices=6", "network.components=2", "rounds=4", "server.sampled=3", "server.period=2",
    "training.batch=3", "data.dataset=synthetic", "data.samples=60", "data.test_samples=12",
    "data.features=3", "data.classes=3",
]  # fmt: skip
LANES = [
    ["server.primitive=s2s"],
    ["server.primitive=s2a"],
    ["server.primitive=blend"],
    ["server.primitive=s2a", "server.optimizer=fedavgm"],
    ["server.primitive=s2s", "server.optimizer=fedavgm_averages"],
    ["server.primitive=s2a", "training.optimizer=momentum"],
    ["method.name=gradient_tracking", "server.primitive=s2s"],
]


def given():
    draws = torch.Generator().manual_seed(0)
    return weights_from(
        {
            str(row): {
                "weight": torch.randn(3, 3, generator=draws),
                "bias": torch.randn(3, generator=draws),
            }
            for row in range(6)
        }
    )


def test_all_engines_start_every_device_at_its_own_point():
    """From different starts, the reference, the stack and ranks agree; a server's memory starts at
    the mean of the initial models."""
    materials = Materials(weights=given())
    base = Experiment.parse({}, SETTINGS)
    lanes = [Experiment.parse({}, [*SETTINGS, *lane]) for lane in LANES]
    world = build_world(base, materials, dtype=torch.float64)
    start_nd = world.initial_models()
    assert torch.equal(start_nd[4].view(3, -1)[:, 3], given().by_device["4"]["bias"].double())
    assert torch.allclose(world.initial(), start_nd.mean(dim=0))
    assert_same_trajectories(world, lanes, 1e-12)

    def last(world):
        *_, moment = simulate(build_stack(world, lanes[:-1]))  # ranks have no gradient tracking
        return moment.state.X_nld

    parts = together(
        3, lambda wire: last(build(base, materials, dtype=torch.float64, exchange=wire))
    )
    assert torch.allclose(torch.cat(parts), last(world), atol=1e-12)


def test_every_device_is_scored_at_its_own_start():
    """The first row, too, is of the models that devices have."""
    experiment = Experiment.parse({}, [*SETTINGS, "evaluate.measures=device_accuracy_std"])
    world = build_world(experiment, Materials(weights=given()))
    stack = build_stack(world, [experiment])
    moment = next(simulate(stack))
    (row,) = Observer(stack).rows(moment).values()
    outputs = world.learner.scores(world.initial_models(), world.x_test)
    right_n = (outputs.argmax(dim=-1) == world.y_test).double().mean(dim=1)
    assert row["device_accuracy_std"] > 0
    assert abs(row["device_accuracy_std"] - 100 * float(right_n.std(correction=0))) < 1e-4
