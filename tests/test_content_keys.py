"""What is the same run has the same key, and what is not has another."""

import os
import subprocess
import sys
import tomllib

import pytest

from experiment_fields import FIELDS, experiment
from skerry.config.experiment import Availability, Experiment, MethodChoice, Network, Server
from skerry.config.schedules import RANGES

# What makes a field play a part, a change of it, and where it plays none (None: it always does).
PARTS: dict[str, tuple[list[str], str, list[str] | None]] = {
    "seed": ([], "1", None),
    "rounds": ([], "50", None),
    "network.devices": ([], "90", None),
    "network.components": ([], "4", None),
    "stop": ([], "average_accuracy >= 90", None),
    "network.topology": ([], "grid", None),
    "network.degree": (["network.topology=regular"], "6", ["network.topology=ring"]),
    "network.edge_prob": (["network.topology=erdos_renyi"], "0.5", ["network.topology=grid"]),
    "network.rewire_prob": (["network.topology=watts_strogatz"], "0.5", ["network.topology=star"]),
    "network.dynamic": ([], "true", None),
    "network.link_failure": ([], "0.1", None),
    "network.gossip_steps": ([], "2", None),
    "network.mix_with_server": ([], "false", None),
    "network.mixing": ([], "lazy", None),
    "data.dataset": ([], "synthetic", None),
    "data.path": (["data.dataset=npz", "data.path=a.npz"], "b.npz", ["data.dataset=digits"]),
    "data.split": ([], "given", None),
    "data.inter": ([], "iid", ["data.split=given"]),
    "data.intra": ([], "shards", ["data.split=given"]),
    "data.alpha": (["data.intra=dirichlet"], "7", ["data.inter=dirichlet", "data.inter_alpha=2"]),
    "data.inter_alpha": (["data.inter=dirichlet"], "7", ["data.intra=dirichlet"]),
    "data.shards": (["data.intra=shards"], "3", ["data.intra=dirichlet"]),
    "data.min_samples": ([], "2", ["data.split=given"]),
    "data.sample_share": ([], "0.5", None),
    "data.own_tests": ([], "dealt", None),
    "data.scaling": ([], "unit", None),
    "task.name": ([], "regression", None),
    "task.loss": ([], "mse", None),
    "task.delta": (["task.loss=huber"], "0.5", ["task.loss=mse"]),
    "task.score": ([], "top5", None),
    "model.name": ([], "mlp", None),
    "model.weights": ([], "start.safetensors", None),
    "model.private": ([], "bias", None),
    "training.batch": ([], "64", None),
    "training.stepsize": ([], "0.5", None),
    "training.schedule": ([], "cosine", None),
    "training.decay_every": (["training.schedule=step"], "7", ["training.schedule=cosine"]),
    "training.decay_factor": (["training.schedule=step"], "0.7", ["training.schedule=constant"]),
    "training.local_steps": ([], "3", None),
    "training.local_epochs": ([], "3", None),
    "training.order": ([], "mix_then_adapt", None),
    "training.weights": ([], "data", None),
    "training.precision": ([], "tf32", None),
    "training.optimizer": ([], "momentum", None),
    "training.momentum": (["training.optimizer=adam"], "0.5", ["training.optimizer=sgd"]),
    "training.second_momentum": (
        ["training.optimizer=adam"],
        "0.5",
        ["training.optimizer=momentum"],
    ),
    "training.smallest": (["training.optimizer=adam"], "0.5", ["training.optimizer=sgd"]),
    "training.weight_decay": ([], "0.5", None),
    "training.sampling": ([], "epochs", None),
    "server.primitive": ([], "s2a", None),
    "server.beta": (["server.primitive=blend"], "0.7", ["server.primitive=s2a"]),
    "server.sampled": ([], "3", ["server.primitive=none"]),
    "server.period": ([], "7", ["server.primitive=none"]),
    "server.offset": ([], "2", ["server.primitive=none"]),
    "server.selection": ([], "per_component", ["server.primitive=none"]),
    "server.sample_prob": (["server.selection=bernoulli"], "0.7", ["server.selection=uniform"]),
    "server.weights": ([], "stratified", ["server.primitive=none"]),
    "server.beta_schedule": (["server.primitive=blend"], "inverse_sqrt", ["server.primitive=s2a"]),
    "server.beta_end": (
        ["server.primitive=blend", "server.beta_schedule=double"],
        "0.75",
        ["server.beta_schedule=inverse_sqrt"],
    ),
    "server.sampled_schedule": ([], "inverse_sqrt", ["server.primitive=none"]),
    "server.sampled_end": (["server.sampled_schedule=double"], "30", []),
    "server.period_schedule": ([], "inverse_sqrt", ["server.primitive=none"]),
    "server.period_end": (["server.period_schedule=double"], "30", []),
    "server.switch_round": (
        ["server.period_schedule=switch", "server.period_end=9", "server.switch_round=5"],
        "6",
        ["server.period_schedule=double"],
    ),
    "server.change_every": (["server.period_schedule=double"], "7", []),
    "server.bias_cost": (
        ["server.primitive=blend", "server.beta_schedule=adaptive"],
        "2.0",
        ["server.beta_schedule=double"],
    ),
    "server.sampled_target": (
        ["server.sampled_schedule=adaptive", "server.sampled_target=0.1"],
        "0.2",
        ["server.sampled_schedule=double"],
    ),
    "server.period_target": (
        ["server.period_schedule=adaptive", "server.period_target=0.1"],
        "0.2",
        ["server.period_schedule=double"],
    ),
    "server.adapt_over": (
        ["server.period_schedule=adaptive", "server.period_target=0.1"],
        "3",
        ["server.period_schedule=double"],
    ),
    "server.deadline": (["clock.file=wifi_home"], "3", None),
    "server.at_least": (["clock.file=wifi_home", "server.deadline=3"], "2", None),
    "server.over_sample": (["clock.file=wifi_home"], "3", None),
    "clock.file": ([], "wifi_home", None),
    "server.optimizer": ([], "fedavgm", ["server.primitive=none"]),
    "server.momentum": (["server.optimizer=fedavgm"], "0.7", ["server.optimizer=fedavg"]),
    "server.learning_rate": (["server.optimizer=fedavgm"], "0.7", ["server.optimizer=fedavg"]),
    "server.dampening": (["server.optimizer=fedavgm"], "0.7", ["server.optimizer=fedadam"]),
    "server.second_momentum": (["server.optimizer=fedadam"], "0.7", ["server.optimizer=fedavgm"]),
    "server.smallest": (["server.optimizer=fedyogi"], "0.7", ["server.optimizer=fedavgm"]),
    "server.compression": ([], "int8", ["server.primitive=none"]),
    "server.compression_share": (["server.compression=top_k"], "0.3", ["server.compression=int8"]),
    "server.compressed": (["server.compression=int8"], "up", ["server.compression=none"]),
    "server.error_feedback": (["server.compression=int8"], "false", ["server.compression=none"]),
    "network.compression": ([], "int8", None),
    "network.compression_share": (
        ["network.compression=top_k"],
        "0.3",
        ["network.compression=int8"],
    ),
    "network.consensus_stepsize": (
        ["network.compression=top_k"],
        "0.3",
        ["network.compression=none"],
    ),
    "method.name": ([], "fedprox", None),
    "method.mu": (["method.name=fedprox"], "0.7", ["method.name=sgd"]),
    "method.tracker": (["method.name=gradient_tracking"], "s2a", ["method.name=sgd"]),
    "availability.awake": ([], "0.5", None),
    "availability.on": (["availability.on=4", "availability.off=2"], "3", None),
    "availability.off": (["availability.on=4", "availability.off=2"], "3", None),
    "availability.together": ([], "islands", None),
    "availability.reach_asleep": ([], "true", None),
    "evaluate.every": ([], "2", None),
    "evaluate.after": ([], "3", None),
    "evaluate.devices_every": ([], "3", None),
    "evaluate.device_samples": ([], "100", None),
    "evaluate.measures": ([], "average", None),
    "evaluate.own": ([], "good_plugins:anything", None),
}
COMPRESSING = {
    *(f"server.{name}" for name in ("compressed", "error_feedback")),
    *(path for path in PARTS if path.endswith(("compression", "compression_share"))),
    "network.consensus_stepsize",
}
# Lanes of one stack may differ in these.
LANES = {
    *(f"server.{name}" for name in Server.model_fields),
    *(f"network.{name}" for name in Network.model_fields if name not in ("devices", "components")),
    *(f"availability.{name}" for name in Availability.model_fields),
    *(f"method.{name}" for name in MethodChoice.model_fields),
    *(f"training.{name}" for name in ("stepsize", "schedule", "decay_every", "decay_factor")),
    "training.order",
    "training.optimizer",
    "training.momentum",
    "training.second_momentum",
    "training.smallest",
    "training.weight_decay",
    "training.weights",
    "stop",
    "clock.file",
}


def test_the_table_of_parts_names_every_field():
    assert set(PARTS) == set(FIELDS) - {"name", "server.name"}


def test_a_changed_copy_has_a_key_of_its_own():
    """Digests are remembered, and forgotten by copies."""
    experiment = Experiment()
    key, world = experiment.key(), experiment.world_key()
    other = experiment.model_copy(update={"seed": 7})
    assert (other.key(), other.world_key()) != (key, world)
    assert other.key() == Experiment(seed=7).key()
    assert experiment.key({"graph": "a"}) != experiment.key({"graph": "b"}) != key
    assert experiment.model_copy() == experiment == Experiment()
    assert experiment.model_dump() == Experiment().model_dump()
    assert experiment.to_toml() == Experiment().to_toml()
    assert dict(experiment) == dict(Experiment())


@pytest.mark.parametrize("path", PARTS)
def test_a_field_that_plays_a_part_changes_the_key(path):
    """And the world's key exactly where lanes of one stack must share the field."""
    because, value, _ = PARTS[path]
    before, after = experiment(*because), experiment(*because, f"{path}={value}")
    assert before != after
    assert before.key() != after.key()
    assert (before.world_key() == after.world_key()) == (path in LANES)


@pytest.mark.parametrize("path", [path for path, parts in PARTS.items() if parts[2] is not None])
def test_a_field_that_plays_no_part_does_not_change_the_key(path):
    _, value, because = PARTS[path]
    before, after = experiment(*because), experiment(*because, f"{path}={value}")
    assert before != after
    assert before.key() == after.key()
    assert before.world_key() == after.world_key()


@pytest.mark.parametrize("path", [path for path, parts in PARTS.items() if parts[2] is not None])
def test_a_users_own_function_may_read_any_field(path):
    """Behind a reference nothing is known to play no part."""
    kinds = {
        "network": ["network.topology=good_plugins:anything"],
        "data": [
            "data.dataset=good_plugins:anything",
            "data.inter=good_plugins:anything",
            "data.intra=good_plugins:anything",
        ],
        "task": ["task.loss=good_plugins:anything"],
        "training": [
            "training.schedule=good_plugins:anything",
            "training.optimizer=good_plugins:anything",
        ],
        "method": ["method.name=good_plugins:anything"],
        "server": [
            "server.primitive=good_plugins:anything",
            "server.optimizer=good_plugins:AnyOptimizer",
            "server.selection=good_plugins:anything",
            *(f"server.{field}_schedule=good_plugins:anything" for field in RANGES),
        ],
    }
    section = path.split(".")[0]
    because, value = kinds[section], PARTS[path][1]
    if path in COMPRESSING:  # which asks for a primitive of ours
        because = [f"{section}.compression=good_plugins:anything"]
    because = [setting for setting in because if not setting.startswith(f"{path}=")]
    before, after = experiment(*because), experiment(*because, f"{path}={value}")
    assert before.key() != after.key()


def test_the_label_does_not_change_the_key():
    assert experiment("name=another").key() == Experiment().key()
    assert experiment("server.name=another").key() == Experiment().key()
    assert experiment("name=another").world_key() == Experiment().world_key()


def test_the_number_of_components_means_their_sizes():
    """Two of 100 devices are 50 and 50."""
    assert experiment("network.components=[50, 50]").key() == Experiment().key()
    assert experiment("network.components=[40, 60]").key() != Experiment().key()


def test_sizes_that_a_graph_file_says_anyway_do_not_change_the_key():
    file = "network.topology=islands.csv"
    assert experiment(file).key() == experiment(file, "network.devices=7").key()
    assert experiment(file).world_key() == experiment(file, "network.components=3").world_key()


def test_different_graph_files_are_different_worlds():
    """They may have different components; those of a drawn topology are in the experiment."""
    one, other = (experiment(f"network.topology={name}.csv") for name in "ab")
    assert one.world_key() != other.world_key()


def test_options_are_part_of_the_key():
    base = ["model.name=mlp"]
    assert experiment(*base, "model.hidden=3").key() != experiment(*base, "model.hidden=4").key()


def test_materials_are_part_of_the_key():
    """What lies outside the file decides the result as well."""
    ours = Experiment()
    assert len({ours.key(), ours.key({"graph": "a"}), ours.key({"graph": "b"})}) == 3
    assert len({ours.world_key(), ours.world_key({"dataset": "a"})}) == 2


def reversed_table(table: dict) -> dict:
    return {
        key: reversed_table(value) if isinstance(value, dict) else value
        for key, value in reversed(table.items())
    }


def test_the_order_of_fields_does_not_change_the_key():
    table = tomllib.loads(Experiment().to_toml())
    assert list(reversed_table(table)) != list(table)
    assert Experiment.parse(reversed_table(table)).key() == Experiment().key()


def test_a_fresh_process_finds_the_same_keys():
    """Nothing of this process, such as its hash seed, is in a key."""
    code = (
        "import sys; from skerry.config.experiment import Experiment; "
        "e = Experiment.from_toml(sys.stdin.read()); print(e.key(), e.world_key())"
    )
    ours = experiment("seed=3", "network.components=[30, 70]", "model.name=mlp")
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=ours.to_toml(),
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [ours.key(), ours.world_key()]


def test_an_edited_plug_in_changes_the_key(tmp_path, monkeypatch):
    """And the world's key only if all lanes of the world use it."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_plug_ins.py"
    text = "def primitive(X, sampled, delivered):\n    return 0\ndef model():\n    pass\n"
    keys = {}
    for version in ("", "# edited\n"):
        file.write_text(text + version)
        sys.modules.pop("edited_plug_ins", None)  # as a new process would load it
        for setting in ("server.primitive=edited_plug_ins:primitive",
                        "model.name=edited_plug_ins:model", "rounds=3"):  # fmt: skip
            run = Experiment.parse({}, [setting])
            keys.setdefault(setting.split("=")[0], []).append((run.key(), run.world_key()))
    assert [len({key for key, _ in found}) for found in keys.values()] == [2, 2, 1]
    assert [len({world for _, world in found}) for found in keys.values()] == [1, 2, 1]
