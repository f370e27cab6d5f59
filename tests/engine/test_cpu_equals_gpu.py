"""The same run on a CPU and on a GPU. Skipped where there is no GPU."""

import numpy as np
import pytest
import torch

import skerry
from skerry.config.experiment import Experiment, Model, Network, Server, Training
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.plugins import registry
from skerry.records.store import Store
from skerry.runs.variants import expand

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WORLDS = {
    "linear": [],
    "mlp": ["model.name=mlp"],
    "quadratic": ["model.name=quadratic"],
    "private bias": ['model.private=["bias"]', "server.selection=importance"],
    "unequal": ["network.components=[7, 4, 1]", "training.local_steps=2"],
    "local epochs": ["training.local_epochs=2", "data.intra=dirichlet"],
    "dynamic": ["network.dynamic=true", "network.topology=regular", "network.degree=3"],
    "failing links": ["network.link_failure=0.3"],
    "one of each": [
        "network.components=[4, 4, 4]",
        "server.selection=one_each",
        "server.sampled=3",
    ],
    "in proportion": ["server.selection=per_component"],
    "important": ["server.selection=importance", "training.weights=data"],
    "asleep": ["fleet.awake=0.5", "server.selection=bernoulli", "server.sample_prob=0.4"],
    "islands asleep": ["fleet.on=2", "fleet.off=1", "fleet.together=islands"],
    "mixed first": ["training.order=mix_then_adapt", "network.gossip_steps=2"],
}
REGRESSION = ["data.dataset=synthetic_regression", "data.samples=240", "data.test_samples=40"]
TOKENS = [
    "data.dataset=synthetic_tokens", "data.samples=60", "data.test_samples=20", "data.length=5",
    "data.vocabulary=6",
]  # fmt: skip
TASKS = {
    "regression": REGRESSION,
    "huber": [*REGRESSION, "task.loss=huber", "model.name=mlp"],
    "own loss": [*REGRESSION, "task.loss=task_plugins:quartic"],
    "tokens": TOKENS,
    "gru": [*TOKENS, "model.name=gru", "model.width=4"],
    "transformer": [*TOKENS, "model.name=transformer", "model.width=4"],
    "one by one": [*REGRESSION, "model.name=task_plugins:branches"],
    "low rank": ["data.dataset=digits", "model.name=task_plugins:lora"],
}


def models_on(device, base, dtype):
    lanes = [
        base.with_settings(f"server.primitive={p}", f"server.optimizer={o}")
        for p in ("s2s", "s2a", "blend", "none")
        for o in ("fedavg", "fedavgm")
    ]
    lanes = list({lane.key(): lane for lane in lanes}.values())
    stack = build_stack(build_world(base, device=device, dtype=dtype), lanes)
    *_, last = simulate(stack)
    return last.state.X_nld.cpu()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
@pytest.mark.parametrize("name", WORLDS)
def test_trajectories_agree(small, name, dtype, tolerance):
    base = small(*WORLDS[name])
    ours, theirs = (models_on(device, base, dtype) for device in ("cuda", "cpu"))
    assert (ours - theirs).norm() <= tolerance * theirs.norm()


@pytest.mark.parametrize("name", TASKS)
def test_every_task_agrees(name):
    small = ["network.devices=6", "server.sampled=3", "server.period=2", "rounds=5"]
    base = Experiment.parse({}, [*small, "training.batch=4", *TASKS[name]])
    ours, theirs = (models_on(device, base, torch.float64) for device in ("cuda", "cpu"))
    assert (ours - theirs).norm() <= 1e-10 * theirs.norm()
    on = [skerry.run(base.replace(rounds=2), device=device)[0].final for device in ("cuda", "cpu")]
    assert on[0].keys() == on[1].keys()
    assert all(np.isclose(on[0][key], on[1][key], rtol=1e-3, atol=1e-5) for key in on[1])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
@pytest.mark.parametrize(
    "world",
    [
        ["network.components=[7, 5]"],
        ["network.components=[4, 4, 4]"],
        ["network.components=[4, 4, 4]", "model.name=mlp", 'model.private=["3.*"]'],
    ],
    ids=["unequal", "equal", "private"],
)
def test_methods_agree(small, world, dtype, tolerance):
    base = small(*world, "server.sampled=6", "server.offset=2")
    names = ["s2s", *(name for name in registry.METHODS if name != "sgd")]
    last = []
    for device in ("cuda", "cpu"):
        stack = build_stack(build_world(base, device=device, dtype=dtype), expand(base, names))
        *_, moment = simulate(stack)
        last.append(moment.state.X_nld.cpu())
    ours, theirs = last
    assert (ours - theirs).norm() <= tolerance * theirs.norm()


@pytest.mark.parametrize("name", [name for name in registry.KINDS["compression"] if name != "none"])
def test_compressed_messages_agree(small, name):
    """In double precision: in single, what is rounded up here may be rounded down there."""
    base = small(
        f"network.compression={name}", f"server.compression={name}", "network.link_failure=0.3"
    )
    ours, theirs = (models_on(device, base, torch.float64) for device in ("cuda", "cpu"))
    assert (ours - theirs).norm() <= 1e-11 * theirs.norm()


SCHEDULED = {
    "beta": ("server.primitive=blend", "server.beta=0.9", "server.beta_end=0.1"),
    "sampled": ("server.sampled=2", "server.sampled_end=9"),
    "period": ("server.period=1", "server.period_end=4"),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_schedules_of_the_server_agree(small, dtype, tolerance):
    """Beta, K and H over a run, by every schedule."""
    base = small("server.switch_round=6", "server.change_every=4", "rounds=14")
    lanes = [
        base.with_settings(*ends, f"server.{field}_schedule={schedule}")
        for field, ends in SCHEDULED.items()
        for schedule in registry.SERVER_SCHEDULES
    ]
    last = []
    for device in ("cuda", "cpu"):
        *_, moment = simulate(build_stack(build_world(base, device=device, dtype=dtype), lanes))
        last.append(moment.state.X_nld.cpu())
    ours, theirs = last
    assert (ours - theirs).norm() <= tolerance * theirs.norm()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_convolutions_with_dropout_agree(dtype, tolerance):
    """Of images with one channel, by torch in float64 and by kernels in float32."""
    base = Experiment(
        rounds=3,
        network=Network(devices=4),
        model=Model(name="engine_test_models:tiny_cnn"),
        training=Training(batch=4),
        server=Server(sampled=2),
    )
    ours, theirs = (models_on(device, base, dtype) for device in ("cuda", "cpu"))
    assert (ours - theirs).norm() <= tolerance * theirs.norm()


def test_a_large_ring_mixes_with_a_sparse_matrix(small):
    base = small("network.devices=600", "network.components=2", "data.samples=2400")
    ours, theirs = (models_on(device, base, torch.float64) for device in ("cuda", "cpu"))
    assert (ours - theirs).norm() <= 1e-11 * theirs.norm()


def test_measures_agree(small):
    ours, theirs = (skerry.run(small(), compare=["s2s", "s2a"], device=d) for d in ("cuda", "cpu"))
    for a, b in zip(ours, theirs, strict=True):
        assert a.final.keys() == b.final.keys()
        for name, value in b.final.items():
            assert np.isclose(a.final[name], value, rtol=1e-3, atol=1e-5), name


def test_resumed_on_a_gpu_equals_uninterrupted_bit_for_bit(small, tmp_path):
    from recorded_runs import run_world

    class PlugPulledError(Exception):
        pass

    def stop(moment):
        if moment.phase == "before_server" and moment.round == 4:
            raise PlugPulledError

    base = small("server.optimizer=fedavgm")
    world = build_world(base, device="cuda")

    def record(folder, progress=None):
        with Store.open(folder) as store:
            run_world(
                world, [base], store, folder / "checkpoints", on_moment=progress,
                checkpoint_seconds=0,
            )  # fmt: skip
            return store.history(world.key(base))

    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", stop)
    resumed, whole = record(tmp_path / "parts"), record(tmp_path / "whole")
    for name, values in whole.items():
        assert np.array_equal(resumed[name], values, equal_nan=True), name


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_deterministic_runs_repeat_to_the_bit_on_a_gpu(small, precision, tmp_path, monkeypatch):
    """Whatever else is in its memory, and whichever kernels were the quickest before."""
    base = small(f"training.precision={precision}", "model.name=mlp", "server.primitive=s2a")
    found = []
    for number in range(2):
        monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / f"cache{number}"))
        taken = torch.empty(number * 2**30, dtype=torch.uint8, device="cuda")
        skerry.run(base, out=tmp_path / str(number), device="cuda", deterministic=True)
        del taken
        with Store.open(tmp_path / str(number)) as store:
            found.append(store.history(base.key()))
    for name, values in found[0].items():
        assert np.array_equal(found[1][name], values, equal_nan=True), name
