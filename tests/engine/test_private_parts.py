"""Private parts of models (`model.private`): they stay where they are, whatever is sent."""

import numpy as np
import pytest
import torch

import skerry
from skerry.config.experiment import Experiment
from skerry.engine.round import initial_state, mix, run_server_rounds
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.measure.observer import Observer
from skerry.models.layout import clear, set_aside
from skerry.plugins import registry
from skerry.runs.variants import expand
from trajectories import assert_same_trajectories

HEAD = ("model.name=mlp", "model.hidden=[5]", 'model.private=["3.*"]')
BIAS = ('model.private=["bias"]',)  # of the linear model, whose places do not lie side by side
METHODS = [name for name in registry.METHODS if name != "sgd"]
BLEND = "server.primitive=blend"
LANES = (
    *([f"server.primitive={name}"] for name in registry.PRIMITIVES),
    *([BLEND, f"server.optimizer={name}"] for name in registry.KINDS["server optimizer"]),
    *(
        [BLEND, f"network.compression={name}", f"server.compression={name}"]
        for name in ("top_k", "random_k", "int8")
    ),
    ["server.selection=importance", "server.primitive=s2a"],
    [BLEND, "server.beta_schedule=adaptive"],
    ["fleet.awake=0.5", "network.gossip_steps=2"],
    ["training.order=mix_then_adapt", "network.link_failure=0.3"],
    ["training.optimizer=adam", "training.weight_decay=0.1"],
)


def lanes_of(small, private, *more):
    """Lanes with all that is sent in one way or another."""
    base = small("server.sampled=6", "server.offset=2", *private, *more)
    return base, [*(base.with_settings(*lane) for lane in LANES), *expand(base, METHODS)]


@pytest.mark.parametrize("private", [HEAD, BIAS], ids=["head", "bias"])
def test_reference_equals_stack(small, private):
    """Servers, compressions, selections, schedules, local optimizers and all methods."""
    base, lanes = lanes_of(small, private)
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-11)


def after_messages(stack, private_3):
    """All arrays after the messages of three rounds, from random numbers, where device 3 has
    `private_3` in its private parts; these are left out."""
    private, state = stack.world.private, initial_state(stack)
    random, companions = torch.Generator().manual_seed(0), state.companions.arrays
    for name, array in {"X": state.X_nld, **companions}.items():
        shared_only = stack.world.shared_d if name.startswith("compression") else 1
        array += torch.randn(array.shape, generator=random) * shared_only
        if array.ndim == 3 and not name.startswith("compression"):
            for parameter in private:
                parameter.of(array)[3] = private_3
    for t in range(3):
        state.t = t
        mix(stack, state, stack.etas_tl[t])
        run_server_rounds(stack, state)
    for array in (state.X_nld, *(one for one in companions.values() if one.ndim == 3)):
        clear(private, array[3])
    return {"X": state.X_nld, **companions, **state.memory}


@pytest.mark.parametrize("private", [HEAD, BIAS], ids=["head", "bias"])
def test_nobody_else_learns_of_a_private_part(small, private):
    """Whatever one device has there changes no other number, to the bit, when messages are sent."""
    base, lanes = lanes_of(small, private)
    stack = build_stack(build_world(base), lanes)
    one, two = (after_messages(stack, value) for value in (0.5, -40.0))
    assert len(one) > 20
    for name, array in one.items():
        assert torch.equal(array, two[name]), name
