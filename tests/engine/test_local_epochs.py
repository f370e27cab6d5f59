"""Local epochs: devices pass over their own samples, so steps are in proportion to their data."""

import copy
from math import ceil

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from oracle import trajectory
from recorded_runs import PlugPulledError, assert_same, record
from skerry.config.experiment import Experiment
from skerry.config.presets import with_preset
from skerry.engine.reference import Reference
from skerry.engine.rehearsal import rehearse
from skerry.engine.round import initial_state
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world
from skerry.errors import ExperimentError, SkerryError
from skerry.models.layout import named_tensors
from skerry.runs.memory import measure_footprint
from skerry.theory.constants import measure_constants
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


def run(world, lanes):
    """The moments after each round; their models are those of the last one."""
    return [m for m in simulate(build_stack(world, lanes)) if m.phase == "end"]


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_reference_equals_stack(small, model):
    """Whatever may be combined with local epochs, as lanes of one stack, is what a loop over
    devices, passes and minibatches computes."""
    base = small(*UNEQUAL, f"model.name={model}")
    world = build_world(base, dtype=torch.float64)
    assert world.partition.sizes.min() < 4 < 40 < world.partition.sizes.max()
    assert_same_trajectories(world, [base.with_settings(*lane) for lane in LANES], 1e-11)


def test_dropout_masks_follow_the_step_of_each_device():
    """A device draws the masks of its own steps, also if its last minibatch comes later."""
    base = Experiment.parse({}, [
        "rounds=2", "network.devices=4", "server.sampled=2", "training.batch=100", "seed=3",
        "training.local_epochs=2", "data.intra=dirichlet", "model.name=engine_test_models:tiny_cnn",
    ])  # fmt: skip
    assert_same_trajectories(build_world(base, dtype=torch.float64), [base], 1e-11)


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def test_fedavg_agrees_with_a_plain_pytorch_loop(small):
    """FedAvg as McMahan et al. (2017) state it, in modules, a loss and an optimizer of PyTorch. The
    loop shares the data, the initial model, the order of each pass, and who is sampled."""
    base = with_preset(small(*UNEQUAL, "server.period=1"), "fedavg_data")
    world = build_world(base, Materials(model=net))
    K, B, sizes = base.server.sampled, base.training.batch, world.partition.sizes.tolist()
    simulated = simulate(build_stack(world, [base]))
    ends = {m.round: m.state.X_nld[:, 0].clone() for m in simulated if m.phase == "end"}
    module = net()
    module.load_state_dict(named_tensors(world.layout, world.initial()))
    for t in range(base.rounds):
        passes = [order.split(sizes) for order in world.draws.epoch_orders(t)]
        sampled = world.server_order(t)[:K].tolist()
        heard = []
        for i in sampled:
            local = copy.deepcopy(module)
            sgd = torch.optim.SGD(local.parameters(), lr=base.training.stepsize)
            for own in passes:
                for rows in DataLoader(own[i], batch_size=B):
                    sgd.zero_grad()
                    outputs = local(world.x_train[rows])
                    nn.functional.cross_entropy(outputs, world.y_train[rows]).backward()
                    sgd.step()
            heard.append(local.state_dict())
        n = [sizes[i] for i in sampled]
        average = {
            name: sum(m / sum(n) * one[name] for m, one in zip(n, heard, strict=True))
            for name in heard[0]
        }
        module.load_state_dict(average)
        for name, tensor in named_tensors(world.layout, ends[t + 1][0]).items():
            assert (tensor - average[name]).abs().max() <= 1e-6, (t, name)


def test_every_pass_takes_every_sample_once_in_a_new_order(small):
    """The order depends on the seed, the round and the pass alone, whoever draws it."""
    world = build_world(small(*UNEQUAL))
    sizes = world.partition.sizes.tolist()
    passes = [own for t in range(2) for own in world.local_epochs.orders(t)]
    assert np.array_equal(passes[2:], build_world(small(*UNEQUAL)).local_epochs.orders(1))
    for own in passes:
        for device, mine in enumerate(np.split(own, np.cumsum(sizes)[:-1])):
            assert sorted(mine) == sorted(world.partition.indices(device))
    assert len({tuple(own) for own in passes}) == 4
    some = slice(3, 8)
    held = slice(*world.partition.offsets[[3, 8]])
    assert np.array_equal(world.local_epochs.orders(1, some), np.array(passes[2:])[:, held])


def test_devices_take_a_step_for_every_minibatch(small, monkeypatch):
    """E ceil(n_i / B) steps of device i, which is what is counted; none of them has more samples
    than the last minibatch, and the training loss is the mean over devices of the mean over their
    samples."""
    base = small(*UNEQUAL, "training.stepsize=1e-12", "rounds=1")
    world = build_world(base, dtype=torch.float64)
    taken, step = [], world.learner.step

    def counting(X_nld, batch, eta_l):
        taken.extend([batch.y.shape[1]] * len(X_nld))
        return step(X_nld, batch, eta_l)

    monkeypatch.setattr(world.learner, "step", counting)
    (end,) = run(world, [base])
    sizes = world.partition.sizes.tolist()
    assert world.local_epochs.steps.tolist() == [2 * ceil(m / 4) for m in sizes]
    assert world.steps_a_round == len(taken) == 2 * sum(ceil(m / 4) for m in sizes)
    assert sum(taken) == 2 * sum(sizes)
    of_devices = [
        world.learner.test_loss(world.initial()[None], world.x_train[rows], world.y_train[rows])
        for rows in map(world.partition.indices, range(world.n))
    ]
    assert float(end.train_loss_l) == pytest.approx(float(sum(of_devices)) / world.n, rel=1e-9)


@pytest.mark.parametrize("chunk", [1, 5])
def test_chunks_of_devices_change_nothing(small, chunk):
    """How many devices step at once is a matter of memory, not of the result."""
    base = small(*UNEQUAL, "method.name=scaffold", *SERVER_ONLY)
    stack = build_stack(build_world(base, dtype=torch.float64), [base])
    state = initial_state(stack)
    state.chunk = chunk
    *_, last = simulate(stack, state)
    *_, X = trajectory(stack.world, base)
    assert torch.allclose(last.state.X_nld[:, 0], X, atol=1e-12)


def test_reference_equals_ranks(small):
    """Every rank passes over the data of its devices, in a number of steps of its own."""
    base = small("data.inter=iid", *UNEQUAL, "network.components=3")
    lanes = [base, base.with_settings("server.primitive=s2a", "fleet.awake=0.6")]
    ends = run(build_world(base, dtype=torch.float64), lanes)
    for ranks in (2, 3):

        def on_rank(wire):
            return run(build(base, dtype=torch.float64, exchange=wire), lanes)

        found = together(ranks, on_rank)
        X = torch.cat([one[-1].state.X_nld for one in found])
        assert torch.allclose(X, ends[-1].state.X_nld, rtol=1e-12, atol=1e-13)
        assert torch.allclose(found[0][-1].train_loss_l, ends[-1].train_loss_l, rtol=1e-12)
    world = build_world(base, dtype=torch.float64)
    for lane in (0, 1):
        *_, expected = trajectory(world, build_stack(world, lanes).experiments[lane])
        assert torch.allclose(X[:, lane], expected, rtol=1e-12, atol=1e-12)


def test_resumed_equals_uninterrupted_bit_for_bit(small, tmp_path):
    """Nothing is kept of a pass: a round draws its orders anew."""
    lanes = [small(*UNEQUAL, *lane) for lane in (LANES[5], LANES[7], [])]
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, 2)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


def test_a_minibatch_may_hold_all_samples_of_any_device(small):
    """B = infinity of the paper: one step a pass, and no memory for samples that nobody has."""
    base = small(*UNEQUAL, "training.batch=1000000")
    world = build_world(base)
    assert world.steps_a_round == 2 * world.n
    assert world.batch == world.partition.sizes.max()
    full = small(*UNEQUAL, f"training.batch={world.batch}")
    assert measure_footprint(world).step == measure_footprint(build_world(full)).step
    rehearse(world, [base])
    one, other = (run(build_world(e), [e])[-1].state.X_nld for e in (base, full))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["training.local_steps=3"], r"with training.local_steps \(got 3\)"),
        (["training.sampling=epochs"], r"with training.sampling \(got 'epochs'\)"),
        (["training.sampling=good_plugins:FromThe"], r"with training.sampling \(got 'good_plugins"),
        (["training.weights=data"], "FedAvg's weights are server.weights=data"),
        *(
            ([f"method.name={name}"], f"not defined for method '{name}'")
            for name in ("gradient_tracking", "sd_gt", "mtgc", "carry", "good_plugins:HeavyBall")
        ),
        (["training.local_epochs=0"], "training.local_epochs must be"),
    ],
)
def test_what_local_epochs_contradict_is_refused(small, settings, told):
    with pytest.raises(ExperimentError, match=told) as error:
        small("training.local_epochs=2", *settings)
    assert all("\n" not in fault for fault in error.value.faults)


def test_a_method_of_ones_own_gets_the_steps_of_each_device(small):
    """If its class says that it is defined for them; v tells how far a device is in its round."""
    base = small(*UNEQUAL, "method.name=good_plugins:PerStep")
    world = build_world(base)
    rehearse(world, [base])
    last = run(world, [base])[-1]
    v = last.state.companions.arrays[f"{base.method.name}.v"]
    assert torch.allclose(v[..., world.real_d], torch.tensor(4.0))


def test_the_reference_refuses_what_algorithm_1_does_not_have(small):
    base = small(*UNEQUAL)
    with pytest.raises(SkerryError, match=r"the reference needs training\.local_epochs = None"):
        Reference(build_world(base), base)


def test_the_theory_refuses_bounds(small):
    """Constants can be measured, also where a minibatch holds all samples; bounds are refused."""
    base = small(*UNEQUAL, "training.batch=1000000", "rounds=1")
    constants = measure_constants(base, rounds=[0], draws=2)
    with pytest.raises(
        SkerryError, match=r"one local step a round \(got training.local_epochs = 2"
    ):
        constants.parameters(epsilon=0.1)


def noisy(gradient, state, context):
    return gradient + 1e-3 * float(context.random().random())


def test_draws_of_a_local_step_are_refused(small):
    """Devices that step together are in different steps, so a draw has no step to belong to."""
    base = small(*UNEQUAL).replace(training={"optimizer": noisy})
    with pytest.raises(SkerryError, match=r"Use training\.local_steps"):
        run(build_world(base), [base])
