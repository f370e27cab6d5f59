"""The experiment: what is written can be read, and copies are changed with care."""

import json
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from experiment_fields import FIELDS, SECTIONS, experiment
from skerry.config.experiment import Data, Experiment, Model, Network, Section, Server
from skerry.config.measures import GROUPS
from skerry.errors import ExperimentError
from skerry.plugins import registry
from skerry.runs.sweep import Sweep

# Random valid experiments

WITHOUT_CLOCK = [*(group for group in GROUPS if group != "clock"), "bias"]


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
            every=counts, measures=st.lists(st.sampled_from(WITHOUT_CLOCK), min_size=1)
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
    description = (SECTIONS[section] if section else Experiment).describe(name)
    assert description
    lines = Experiment().to_toml(comments=True).splitlines()
    start = lines.index(f"[{section}]") if section else 0
    place = next(
        number
        for number, line in enumerate(lines)
        if number >= start and line.startswith((f"{name} =", f"# {name} ="))
    )
    assert lines[place - 1] == f"# {description.splitlines()[-1].strip()}"


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
        ({"perod": 3}, ["unknown field 'perod'; did you mean 'server.period'?"]),
        ({"lr": 0.1}, ["unknown field 'lr'; did you mean 'training.stepsize'?"]),
        (
            {"training": {"learning_rate": 0.1}},
            ["unknown field 'training.learning_rate'; did you mean 'stepsize'"],
        ),
        ({"server": {"lr": 0.1}}, ["unknown field 'server.lr'; did you mean 'learning_rate'?"]),
        (
            {"network": {"num_clients": 9}},
            ["unknown field 'network.num_clients'; did you mean 'devices'?"],
        ),
        (
            {"model": {"name": "mlp", "width": 9}},
            ["unknown field 'model.width'; did you mean 'hidden'?"],
        ),
        ({"model": {"width": 9}}, ["unknown field 'model.width'. [model] takes"]),
        (
            {"server": {"primitive": "sa2"}},
            ["server.primitive: unknown primitive 'sa2'; did you mean 's2a'?"],
        ),
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
        (
            lambda: Experiment(batch_size=8),
            "unknown field 'batch_size'; did you mean 'training.batch'?",
        ),
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


def test_the_former_name_of_a_section_is_accepted():
    """In files, settings, Python and axes [fleet] is [availability]; both in one file are not
    merged in silence."""
    ours = experiment("availability.on=3", "availability.off=2")
    both = {"fleet": {"on": 3}, "availability": {"off": 2}}
    assert experiment("fleet.on=3", "availability.off=2") == ours
    for read in (Experiment.parse, Experiment.model_validate):
        with pytest.raises(
            ExperimentError, match=r"\[fleet\] is the former name .* both are given"
        ):
            read(both)
    assert Experiment.from_toml("[fleet]\non = 3\noff = 2") == ours
    assert Experiment(fleet={"on": 3, "off": 2}) == ours
    assert Experiment().replace(fleet={"on": 3, "off": 2}) == ours
    assert Experiment.from_toml("[fleet]\non = 9\noff = 2", ["availability.on=3"]) == ours
    assert ours.fleet == ours.availability
    assert "[fleet]" not in ours.to_toml()
    with pytest.raises(ExperimentError, match=r"availability\.awake must be at most 1"):
        experiment("fleet.awake=2")
    axes = {"fleet.awake": [0.5, 1.0]}
    runs = Sweep(experiment=ours, axes=axes).runs()
    assert [run.availability.awake for run in runs] == [0.5, 1.0]


def test_the_class_of_every_section_is_public():
    base = Experiment()
    sections = [value for _, value in base if isinstance(value, Section)]
    assert len(sections) == 10
    assert all(getattr(skerry, type(one).__name__) is type(one) for one in sections)


def test_a_section_goes_under_its_own_name():
    """`replace` takes no section of another class, whose fields would all be defaults."""
    with pytest.raises(ExperimentError, match=r"method takes a skerry\.MethodChoice .*Model"):
        Experiment().replace(method=skerry.Model())


def test_words_of_the_field_lead_to_fields_that_exist():
    """Every field that a synonym leads to is one, or an option of a built-in model, and no synonym
    hides a field of the same name in its own section."""
    from skerry.config.section import fields_of
    from skerry.errors import _SYNONYMS

    fields = fields_of(Experiment)
    fields["model"] = [*fields["model"], "hidden", "width"]
    for path, words in _SYNONYMS.items():
        section, _, name = path.rpartition(".")
        if path not in ("seeds", "compare", "out", "device", "cuda"):  # options, and a device
            assert name in fields[section]
            assert not set(words.split()) & {*fields[section]} - {"hidden", "width"}, path
