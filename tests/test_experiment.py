"""The experiment: what is written can be read, and what is the same has the same key."""

import json
import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import registry
from skerry.dials import RANGES
from skerry.errors import ExperimentError, SkerryError
from skerry.experiment import Data, Experiment, Fleet, Method, Model, Network, Section, Server
from skerry.measures import GROUPS

SECTIONS = {
    name: field.annotation
    for name, field in Experiment.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
FIELDS = [
    *(name for name in Experiment.model_fields if name not in SECTIONS),
    *(f"{name}.{field}" for name, kind in SECTIONS.items() for field in kind.model_fields),
]


def experiment(*settings: str) -> Experiment:
    return Experiment.parse({}, settings)


# Random valid experiments


def tables(**fields: st.SearchStrategy) -> st.SearchStrategy:
    """A table with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def names(kind: str, *without: str) -> st.SearchStrategy:
    return st.sampled_from([name for name in registry.KINDS[kind] if name not in without])


counts = st.integers(1, 50)
shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
positive = st.floats(1e-300, 1e300)

experiments = st.fixed_dictionaries(
    {
        "network": tables(
            devices=st.integers(20, 10**6),
            components=st.integers(1, 3) | st.just([100]),
            topology=names("topology"),
            degree=st.sampled_from([2, 4]),
            edge_prob=shares,
            rewire_prob=shares,
            dynamic=st.booleans(),
            link_failure=shares,
            mixing=names("mixing"),
        ).map(lambda network: network | {"devices": 100} if _is_list(network) else network),
        "data": tables(
            dataset=names("dataset"),
            inter=names("inter partition"),
            intra=names("intra partition"),
            alpha=positive,
            inter_alpha=positive,
            shards=counts,
            min_samples=counts,
            scaling=st.sampled_from(["standard", "unit"]),
        ).flatmap(
            lambda data: st.builds(
                lambda path, split: data | {"path": path, "split": split},
                st.text(min_size=1),
                st.sampled_from(["dealt", "given"]),
            )
        ),
        "server": tables(
            primitive=names("primitive"),
            beta=shares,
            sampled=st.integers(1, 20),
            period=counts,
            offset=st.integers(0, 9),
            optimizer=names("server optimizer"),
            momentum=shares,
        ),
        "model": st.just({"name": "mlp"}) | st.builds(
            lambda hidden: {"name": "mlp", "hidden": hidden}, counts | st.lists(counts)
        ),
    },
    optional={
        "name": st.text(),
        "seed": st.integers(0, 2**80),
        "rounds": counts,
        "training": tables(
            batch=counts,
            stepsize=positive,
            schedule=names("schedule"),
            decay_every=counts,
            decay_factor=shares,
            local_steps=counts,
            sampling=names("sampling"),
        ),
        "evaluate": tables(
            every=counts, measures=st.lists(st.sampled_from([*GROUPS, "bias"]), min_size=1)
        ),
    },
)  # fmt: skip


def _is_list(network: dict) -> bool:
    return isinstance(network.get("components"), list)


@given(experiments, st.booleans())
def test_what_is_written_as_toml_is_read_as_the_same_experiment(table, comments):
    """Every field survives, whatever its value, with and without comments."""
    ours = Experiment.parse(table)
    theirs = Experiment.from_toml(ours.to_toml(comments))
    assert theirs == ours
    assert theirs.key() == ours.key()
    assert theirs.world_key() == ours.world_key()


@given(experiments)
def test_what_is_written_as_json_is_read_as_the_same_experiment(table):
    ours = Experiment.parse(table)
    assert Experiment.parse(json.loads(ours.model_dump_json())) == ours


def test_options_of_any_shape_survive():
    """A user's own function may take nested tables, under keys that need quotes."""
    options = {"layers": [{"width": 3, "a key": "é\x7f\n"}], "rate": 1e-07, "on": True}
    ours = Experiment(model=Model(name="good_plugins:anything", **options))
    assert Experiment.from_toml(ours.to_toml()).model.options == options


def test_what_a_graph_file_says_is_left_to_the_file():
    """An experiment that leaves the sizes to a file leaves them open when it is written."""
    ours = experiment("network.topology=islands.csv")
    assert "devices" not in tomllib.loads(ours.to_toml())["network"]
    assert Experiment.from_toml(ours.to_toml()).network.model_fields_set.isdisjoint(
        {"devices", "components"}
    )
    fixed = experiment("network.topology=islands.csv", "network.devices=7")
    assert Experiment.from_toml(fixed.to_toml()).network.devices == 7


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_is_written_under_a_comment_that_explains_it(path):
    section, _, name = path.rpartition(".")
    field = (SECTIONS[section] if section else Experiment).model_fields[name]
    assert field.description
    lines = Experiment().to_toml(comments=True).splitlines()
    start = lines.index(f"[{section}]") if section else 0
    place = next(
        number
        for number, line in enumerate(lines)
        if number >= start and line.startswith((f"{name} =", f"# {name} ="))
    )
    assert lines[place - 1] == f"# {field.description.splitlines()[-1].strip()}"


# Identity

# What makes a field play a part, a change of it, and where it plays none (None: it always does).
PARTS: dict[str, tuple[list[str], str, list[str] | None]] = {
    "seed": ([], "1", None),
    "rounds": ([], "50", None),
    "network.devices": ([], "90", None),
    "network.components": ([], "4", None),
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
    "data.scaling": ([], "unit", None),
    "task.name": ([], "regression", None),
    "task.loss": ([], "mse", None),
    "task.delta": (["task.loss=huber"], "0.5", ["task.loss=mse"]),
    "task.score": ([], "top5", None),
    "model.name": ([], "mlp", None),
    "model.weights": ([], "start.safetensors", None),
    "training.batch": ([], "64", None),
    "training.stepsize": ([], "0.5", None),
    "training.schedule": ([], "cosine", None),
    "training.decay_every": (["training.schedule=step"], "7", ["training.schedule=cosine"]),
    "training.decay_factor": (["training.schedule=step"], "0.7", ["training.schedule=constant"]),
    "training.local_steps": ([], "3", None),
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
    "fleet.awake": ([], "0.5", None),
    "fleet.on": (["fleet.on=4", "fleet.off=2"], "3", None),
    "fleet.off": (["fleet.on=4", "fleet.off=2"], "3", None),
    "fleet.together": ([], "islands", None),
    "fleet.reach_asleep": ([], "true", None),
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
    *(f"fleet.{name}" for name in Fleet.model_fields),
    *(f"method.{name}" for name in Method.model_fields),
    *(f"training.{name}" for name in ("stepsize", "schedule", "decay_every", "decay_factor")),
    "training.order",
    "training.optimizer",
    "training.momentum",
    "training.second_momentum",
    "training.smallest",
    "training.weight_decay",
    "training.weights",
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
        "import sys; from skerry.experiment import Experiment; "
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


# Behaviour


@pytest.mark.parametrize("path", FIELDS)
def test_an_experiment_is_frozen(path):
    section, _, name = path.rpartition(".")
    ours = Experiment()
    owner = getattr(ours, section) if section else ours
    with pytest.raises(ValueError, match="frozen"):
        setattr(owner, name, getattr(owner, name))


def test_sections_can_be_keys_of_a_dict():
    assert {Network(): 1}[Network(devices=100)] == 1


def test_with_settings_gives_a_changed_copy():
    ours = Experiment()
    changed = ours.with_settings("server.period=10", "name=slow", "network.components=[1, 99]")
    assert (changed.server.period, changed.name) == (10, "slow")
    assert changed.network.sizes == (1, 99)
    assert ours == Experiment()
    assert changed.with_settings("server.period=5", "name=two islands", "network.components=2") == (
        ours
    )


def test_with_settings_checks_as_a_file_is_checked():
    with pytest.raises(ExperimentError) as caught:
        Experiment().with_settings("rounds=0", "server.sampled=101")
    assert len(caught.value.faults) == 2


def test_replace_changes_fields_from_python_values():
    """A dict changes some fields of a section, a section takes the place of the whole."""
    ours = experiment("server.sampled=3", "network.devices=30", "data.inter_alpha=2")
    changed = ours.replace(
        rounds=np.int64(5),
        network={"components": (10, 20)},
        data={"inter_alpha": None, "path": Path("here")},
    )
    assert changed == ours.with_settings("rounds=5", "network.components=[10, 20]").replace(
        data=Data(path="here")
    )
    assert (changed.server.sampled, changed.network.devices, changed.rounds) == (3, 30, 5)
    whole = ours.replace(server=Server(period=10))
    assert whole.server == Server(period=10) != ours.replace(server={"period": 10}).server
    assert ours == experiment("server.sampled=3", "network.devices=30", "data.inter_alpha=2")


def test_replace_leaves_to_a_graph_file_what_the_file_says():
    ours = experiment("network.topology=islands.csv").replace(server={"sampled": 300})
    assert ours.network.takes_from_file("devices")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rouns": 3}, ["unknown field 'rouns'; did you mean 'rounds'? An experiment takes: name"]),
        ({"server": {"perod": 3}}, ["unknown field 'server.perod'; did you mean 'period'?"]),
        ({"server": 3}, ["server must be a section (got 3)."]),
        ({"rounds": {"a": 3}}, ['rounds must be a whole number (got {"a": 3}).']),
        (
            {"rounds": 0, "server": {"sampled": 101}},
            ["rounds must be at least 1 (got 0).", "server.sampled must be between 1 and"],
        ),
    ],
)
def test_replace_tells_what_is_wrong(changes, told):
    with pytest.raises(ExperimentError) as caught:
        Experiment().replace(**changes)
    assert len(caught.value.faults) == len(told)
    for line, start in zip(caught.value.faults, told, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Network(devices=0), "devices must be at least 1 (got 0)."),
        (lambda: Server(primitve="s2s"), "unknown field 'primitve'"),
        (lambda: Experiment(server=Server(sampled=101)), "server.sampled must be between 1 and"),
        (lambda: Experiment(data={"sampels": 3}), "unknown field 'data.sampels'"),
        (
            lambda: Data(sampels=3),
            "unknown field 'sampels'; did you mean 'min_samples'? Data takes",
        ),
        (lambda: Model(name="mlp", hiden=3), "unknown field 'hiden'; did you mean 'hidden'?"),
    ],
)
def test_python_gets_the_messages_that_a_file_gets(build, told):
    with pytest.raises(ExperimentError) as caught:
        build()
    assert str(caught.value).startswith(told)


def test_errors_survive_the_way_between_processes():
    error = pickle.loads(pickle.dumps(ExperimentError("one", "two")))  # noqa: S301
    assert error.faults == ["one", "two"]
    assert str(error) == "one\ntwo"


@pytest.mark.parametrize(("devices", "components"), [(100, 2), (7, 3), (5, 5), (9, 1)])
def test_components_are_as_equal_as_possible(devices, components):
    sizes = Network(devices=devices, components=components).sizes
    assert (sum(sizes), len(sizes)) == (devices, components)
    assert max(sizes) - min(sizes) <= 1


# The schema, for editors


def test_the_schema_describes_every_field():
    """Type, description and default, and no field that the experiment does not take."""
    schema = Experiment.model_json_schema()
    assert schema["additionalProperties"] is False
    for path in FIELDS:
        section, _, name = path.rpartition(".")
        home = schema["$defs"][SECTIONS[section].__name__] if section else schema
        found = home["properties"][name]
        kind = SECTIONS[section] if section else Experiment
        default = kind.model_fields[name].default
        assert found["default"] == json.loads(json.dumps(default))
        assert found["description"]
        assert {"type", "anyOf", "enum"} & set(found)
    open_ones = {n for n, kind in SECTIONS.items() if _is_open(schema["$defs"][kind.__name__])}
    assert open_ones == set(SECTIONS) - {
        "evaluate",
        "fleet",
    }  # they take the options of what they name


def _is_open(schema: dict) -> bool:
    return schema["additionalProperties"] is True


@pytest.mark.parametrize(
    ("path", "keyword", "bound"),
    [
        ("network.devices", "minimum", 1),
        ("network.edge_prob", "exclusiveMinimum", 0),
        ("server.beta", "maximum", 1),
        ("server.momentum", "exclusiveMaximum", 1),
    ],
)
def test_the_schema_knows_the_ranges(path, keyword, bound):
    section, name = path.split(".")
    home = Experiment.model_json_schema()["$defs"][SECTIONS[section].__name__]
    assert home["properties"][name][keyword] == bound


# The registry

ENTRIES = [(kind, name) for kind, names in registry.KINDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_built_in_name_leads_to_something_that_can_be_called(kind, name):
    """A name has no colon, which would make it a user's reference; what it leads to is ours."""
    assert name.isidentifier()
    assert registry.KINDS[kind][name].startswith("skerry.")
    assert registry.name_fault(kind, name) is None
    assert callable(registry.resolve(kind, name))
    reference = registry.KINDS[kind][name]
    assert registry.resolve(kind, reference) is registry.resolve(kind, name)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_an_unknown_name_is_told_with_the_known_ones(kind):
    with pytest.raises(SkerryError, match=f"unknown {kind} 'zzzz'. Available: ") as caught:
        registry.resolve(kind, "zzzz")
    assert all(name in str(caught.value) for name in registry.KINDS[kind])


@pytest.mark.parametrize("kind", registry.KINDS)
def test_a_fault_inside_a_built_in_is_not_taken_for_the_users(kind):
    """A bug of ours must show its traceback; a user's error becomes one line."""
    name = next(iter(registry.KINDS[kind]))
    with pytest.raises(ZeroDivisionError), registry.users_own(kind, name):
        1 / 0  # noqa: B018
    with pytest.raises(SkerryError, match="failed"), registry.users_own(kind, "mine:function"):
        1 / 0  # noqa: B018


def test_an_edited_plug_in_changes_the_key(tmp_path, monkeypatch):
    """And the world's key only if all lanes of the world use it."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_plug_ins.py"
    text = "def primitive(X, sampled, delivered, server):\n    return 0\ndef model():\n    pass\n"
    keys = {}
    for version in ("", "# edited\n"):
        file.write_text(text + version)
        for setting in ("server.primitive=edited_plug_ins:primitive",
                        "model.name=edited_plug_ins:model", "rounds=3"):  # fmt: skip
            run = Experiment.parse({}, [setting])
            keys.setdefault(setting.split("=")[0], []).append((run.key(), run.world_key()))
    assert [len({key for key, _ in found}) for found in keys.values()] == [2, 2, 1]
    assert [len({world for _, world in found}) for found in keys.values()] == [1, 2, 1]
