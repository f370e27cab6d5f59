"""The fast engine computes what the paper's Algorithm 1, written line by line, computes."""

import inspect
from itertools import product
from pathlib import Path

import pytest
import torch

import oracle
from oracle import trajectory
from skerry.config.experiment import Experiment, Model, Network, Server, Training
from skerry.engine.reference import Reference
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import SkerryError
from skerry.plugins import registry
from trajectories import assert_same_trajectories

SERVERS = [
    [
        f"server.primitive={primitive}",
        f"server.optimizer={optimizer}",
        f"server.sampled={sampled}",
        f"server.period={period}",
    ]
    for primitive, optimizer, sampled, period in product(
        registry.PRIMITIVES, registry.KINDS["server optimizer"], (1, 5, 12), (1, 5)
    )
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_every_server_setting_in_one_stack(small, dtype, tolerance):
    """All primitives, optimizers, K in {1, some, n} and H in {1, 5}, as lanes of one stack."""
    base = small()
    world = build_world(base, dtype=dtype)
    assert_same_trajectories(world, [base.with_settings(*server) for server in SERVERS], tolerance)


@pytest.mark.parametrize("mixing", registry.KINDS["mixing"])
@pytest.mark.parametrize("topology", registry.KINDS["topology"])
def test_every_topology_and_weights(small, topology, mixing):
    base = small("network.degree=3", "network.edge_prob=0.5", "rounds=3")
    world = build_world(base)
    lanes = [
        base.with_settings(f"network.topology={topology}", f"network.mixing={mixing}", more)
        for more in ("network.dynamic=false", "network.dynamic=true", "network.link_failure=0.3")
    ]
    assert_same_trajectories(world, lanes, 1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        ["network.components=[7, 4, 1]"],
        ["network.components=1"],
        ["network.components=12", "data.inter=iid"],
        ["training.local_steps=3"],
        ["training.sampling=epochs"],
        ["training.schedule=step", "training.decay_every=2"],
        ["training.schedule=cosine"],
        ["training.schedule=inverse_sqrt"],
        ["server.offset=2"],
        ["data.intra=dirichlet", "data.inter=dirichlet"],
        ["model.name=mlp", "model.hidden=[5, 3]"],
        ["model.name=quadratic", "model.conditioning=10"],
    ],
    ids=" ".join,
)
def test_other_worlds(small, settings):
    base = small(*settings)
    lanes = [base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a", "blend")]
    assert_same_trajectories(build_world(base), lanes, 1e-5)


def test_convolutions_with_dropout(small):
    """Dropout masks follow from the device and the round, so both engines draw the same ones."""
    base = Experiment(
        rounds=2,
        network=Network(devices=4),
        model=Model(name="engine_test_models:tiny_cnn"),
        training=Training(batch=4),
        server=Server(sampled=2),
    )
    lanes = [base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a")]
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-12)


@pytest.mark.parametrize("chunk", [1, 5, 12])
def test_chunks_of_devices_change_nothing(small, chunk):
    """How many devices step at once is a matter of memory, not of the result."""
    from skerry.engine.round import initial_state

    base = small("model.name=mlp")
    stack = build_stack(build_world(base, dtype=torch.float64), [base])
    state = initial_state(stack)
    state.chunk = chunk
    *_, last = simulate(stack, state)
    *_, X = trajectory(stack.world, base)
    assert torch.allclose(last.state.X_nld[:, 0], X, atol=1e-12)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("server.primitive=good_plugins:half_a_blend", "server.primitive = s2s or s2a or blend"),
        ("server.optimizer=fedavgm", "server.optimizer = fedavg"),
        ("method.name=carry", "method.name = sgd"),
        ("fleet.awake=0.5", "needs all devices awake"),
    ],
)
def test_the_reference_refuses_what_algorithm_1_does_not_have(small, setting, told):
    experiment = small(setting)
    with pytest.raises(SkerryError, match=told):
        Reference(build_world(experiment), experiment)


def test_the_reference_can_be_read_in_one_sitting():
    """It stays beside the paper's Algorithm 1: at most 120 lines."""
    assert len(Path(inspect.getfile(Reference)).read_text(encoding="utf-8").splitlines()) <= 120


def test_the_reference_shares_no_arithmetic_with_the_fast_engine():
    """Neither it nor the oracle imports a module that steps, mixes or delivers."""
    files = [Path(inspect.getfile(Reference)), *Path(oracle.__file__).parent.glob("*.py")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        for module in ("round", "mixer", "primitives", "method_hooks", "compression", "methods"):
            assert f"skerry.engine.{module} " not in text, file
            assert "skerry.methods" not in text, file
