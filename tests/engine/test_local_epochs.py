"""Local epochs: every device passes over its own samples, so steps are in proportion to its data."""

import copy
from math import ceil

import numpy as np
import pytest
import torch

from oracle import trajectory
from skerry.config.experiment import Experiment
from skerry.engine.round import initial_state
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.engine.reference import Reference
from thread_ranks import build, together
from trajectories import assert_same_trajectories

UNEQUAL = ("training.local_epochs=2", "data.intra=dirichlet", "rounds=4")
"""The twelve devices hold 1 to 51 samples, in minibatches of 4: full ones, smaller last ones, and
devices that have no full one."""
SERVER_ONLY = ["network.gossip_steps=0", "server.primitive=s2a", "server.weights=data"]
LANES = [
    [],
    SERVER_ONLY,
    ["server.primitive=blend", "training.order=mix_then_adapt"],
    ["fleet.awake=0.6", "server.primitive=s2a"],
    ["training.optimizer=momentum"],
    ["training.optimizer=adam", "training.weight_decay=0.1", "training.stepsize=0.01"],
    ["method.name=fedprox", "method.mu=0.5", *SERVER_ONLY],
    *([f"method.name={name}", *SERVER_ONLY] for name in ("scaffold", "fedvarp", "mifa")),
    ["network.compression=int8", "training.schedule=cosine"],
]


def run(world, lanes, state=None):
    """The models and training losses after every round."""
    ends = [m for m in simulate(build_stack(world, lanes), state) if m.phase == "end"]
    return ends


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_reference_equals_stack(small, model):
    """Whatever may be combined with local epochs, as lanes of one stack, is what a loop over
    devices, passes and minibatches computes."""
    base = small(*UNEQUAL, f"model.name={model}")
    world = build_world(base, dtype=torch.float64)
    assert world.partition.sizes.min() < 4 < 40 < world.partition.sizes.max()
    assert_same_trajectories(world, [base.with_settings(*lane) for lane in LANES], 1e-11)
