"""Options: what a function takes by keyword, an experiment sets beside its name; nothing else."""

import inspect
import subprocess
import sys

import pytest

import skerry
from good_plugins import TOLD
from skerry.analysis.results import read_studies
from skerry.config.experiment import Data, Experiment, Network, Section, Server, Training
from skerry.errors import ExperimentError
from skerry.plugins import registry
from skerry.plugins.options import Options, options_of
from skerry.runs.sweep import Sweep

SECTIONS: dict[str, type[Section]] = {
    name: type(value) for name, value in Experiment() if isinstance(value, Section)
}
PLACES = {
    kind: (name, section, field)
    for name, section in SECTIONS.items()
    for kind, field in section.naming.items()
}
BUILT_IN = [(kind, name) for kind in PLACES for name in registry.KINDS[kind]]
OWN = {
    "topology": ("near", "reach", 2),
    "mixing": ("keeping", "own", 0.5),
    "dataset": ("points", "noise", 0.25),
    "inter partition": ("turned", "turn", 7),
    "intra partition": ("woven", "turn", 7),
    "model": ("narrow", "width", 4),
    "schedule": ("falling", "power", 0.5),
    "sampling": ("FromThe", "first", 2),
    "primitive": ("pull", "strength", 0.3),
    "server optimizer": ("Damped", "damping", 0.5),
    "method": ("HeavyBall", "momentum", 0.25),
}


def small(*settings: str) -> Experiment:
    base = ("rounds=3", "network.devices=10", "training.batch=2", "server.sampled=3")
    return Experiment.parse({}, (*base, "server.period=1", *settings))


def own(kind: str, with_option: bool = True) -> list[str]:
    """The settings that name a plug-in of this kind, and set its option."""
    (name, option, value), (section, _, field) = OWN[kind], PLACES[kind]
    named = [f"{section}.{field}=good_plugins:{name}"]
    return [*named, f"{section}.{option}={value}"] if with_option else named


# Built-in functions


def parameters(kind: str, name: str) -> list[inspect.Parameter]:
    found = registry.resolve(kind, name)
    called = found.deliver if kind == "server optimizer" else found
    return list(inspect.signature(called).parameters.values())


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_the_registry_declares_the_options_of_a_built_in(kind, name):
    """What is known without importing is what the signature says."""
    found = parameters(kind, name)
    names = tuple(p.name for p in found if p.kind is p.KEYWORD_ONLY)
    assert options_of(kind, name) == Options(names)
    assert not any(p.kind is p.VAR_KEYWORD for p in found)


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_options_of_built_ins_are_fields_or_have_defaults(kind, name):
    """A default experiment under any name is complete, and a field has the one default there is.
    Only data sets and models have options that are no fields."""
    names, declared = options_of(kind, name).names, PLACES[kind][1].options_declared(kind)
    required = {
        p.name for p in parameters(kind, name) if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    }
    assert required == set(names) & set(declared)
    if kind not in ("dataset", "model"):
        assert set(names) <= set(declared)


@pytest.mark.parametrize("section", SECTIONS.values(), ids=list(SECTIONS))
def test_every_option_that_is_a_field_is_taken_by_some_built_in(section):
    for field, kinds in section.option_fields.items():
        for kind in kinds:
            assert any(field in options_of(kind, name).names for name in registry.KINDS[kind])


def test_a_section_knows_what_each_function_is_told():
    assert Network(topology="regular", degree=3).options_for("topology") == {"degree": 3}
    assert Network(topology="ring", degree=3).options_for("topology") == {}
    assert Network(degree=3).options_for("mixing") == {}
    assert Server(primitive="blend", beta=0.25).options_for("primitive") == {"beta": 0.25}
    assert Server(optimizer="fedavgm").options_for("server optimizer") == {
        "momentum": 0.9,
        "learning_rate": None,
        "dampening": 0.0,
    }
    assert Training(schedule="step", decay_every=2).options_for("schedule") == {
        "decay_every": 2,
        "decay_factor": 0.1,
    }
    split = Data(inter="dirichlet", intra="shards", alpha=2)
    assert split.options_for("inter partition") == {
        "alpha": 2,
        "inter_alpha": None,
        "min_samples": 1,
    }
    assert split.options_for("intra partition") == {"shards": 2}
    assert Data(dataset="synthetic", samples=9).options_for("dataset") == {"samples": 9}


def test_a_key_needs_no_heavy_import():
    """Telling which fields play a part takes the names of the functions, not the functions."""
    code = (
        "import sys; from skerry.config.experiment import Experiment\n"
        "for topology in ('ring', 'regular'):\n"
        "    Experiment.parse({'network': {'topology': topology}}).key()\n"
        "Experiment.parse({'model': {'name': 'mlp', 'hidden': 3}}).key()\n"
        "Experiment.parse({'method': {'name': 'carry'}}).key()\n"
        "from skerry.config.presets import PRESETS; assert 'sd_gt' in PRESETS\n"
        "print(sorted({'torch', 'networkx', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# A user's own


@pytest.fixture(autouse=True)
def _nothing_told():
    TOLD.clear()


@pytest.mark.parametrize("kind", OWN)
def test_a_function_of_every_kind_is_told_its_option(kind):
    """Set beside the name, in a file as in Python; it is part of the key and of what is kept."""
    run = small(*own(kind))
    (_, option, value), (section, _, _) = OWN[kind], PLACES[kind]
    skerry.run(run)
    assert dict(TOLD) == {kind: value}
    assert Experiment.from_toml(run.to_toml()) == run
    assert Experiment.parse(run.model_dump(mode="json")).key() == run.key()
    other = run.with_settings(f"{section}.{option}=1")
    assert other.key() != run.key()
    assert other.deciding()[section][option] == 1


def test_all_of_them_at_once():
    """Several functions of a section share its table; an option of one name goes to both."""
    settings = {setting for kind in OWN for setting in own(kind)}
    results = skerry.run(small(*sorted(settings)))
    assert results[0].status == "finished"
    assert dict(TOLD) == {kind: value for kind, (_, _, value) in OWN.items()}


@pytest.mark.parametrize(
    ("settings", "kind", "value"),
    [
        (["network.topology=good_plugins:by_field", "network.degree=2"], "topology", 2),
        (["server.primitive=good_plugins:half_a_blend"], "primitive", 0.5),
    ],
)
def test_a_function_may_take_a_field_by_its_name(settings, kind, value):
    skerry.run(small(*settings))
    assert dict(TOLD) == {kind: value}


def test_the_reference_engine_tells_options_too():
    from oracle import trajectory
    from skerry.engine.world import build_world

    run = small(*own("schedule"))
    list(trajectory(build_world(run), run))
    assert dict(TOLD) == {"schedule": 0.5}


def test_options_of_a_schedule_differ_between_lanes_those_of_a_sampling_do_not():
    """Lanes of one stack see the same batches."""
    schedule, sampling = small(*own("schedule")), small(*own("sampling"))
    assert schedule.world_key() == schedule.with_settings("training.power=1").world_key()
    assert sampling.world_key() != sampling.with_settings("training.first=0").world_key()
    both = small(*own("schedule"), *own("sampling"))
    assert both.world_key() != both.with_settings("training.first=0").world_key()


def test_without_a_server_its_options_play_no_part():
    runs = [
        small(*own("server optimizer"), f"server.damping={value}", "server.primitive=none")
        for value in (0.1, 0.2)
    ]
    assert runs[0] != runs[1]
    assert runs[0].key() == runs[1].key()
    assert runs[0].deciding()["server"] == {"primitive": "none"}


def told(*settings: str) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        small(*settings)
    return caught.value.faults


@pytest.mark.parametrize("kind", OWN)
def test_an_unknown_option_is_told_with_the_known_ones(kind):
    (name, option, _), (section, _, _) = OWN[kind], PLACES[kind]
    (line,) = told(*own(kind), f"{section}.{option[:-1]}x=3")
    assert line.startswith(f"unknown field '{section}.{option[:-1]}x'; did you mean '{option}'?")
    assert f"; {kind} 'good_plugins:{name}' adds: {option}" in line


@pytest.mark.parametrize("kind", ["mixing", "schedule", "primitive"])
def test_a_missing_option_is_told(kind):
    (name, option, _), (section, _, _) = OWN[kind], PLACES[kind]
    assert told(*own(kind, with_option=False)) == [
        f"{kind} 'good_plugins:{name}' needs the option '{option}'. Set {section}.{option}."
    ]


# Another function


def test_a_function_that_is_named_no_longer_takes_its_options_with_it():
    run = small(*own("primitive"), *own("server optimizer"))
    for other in (
        run.with_settings("server.primitive=s2s"),
        run.replace(server={"primitive": "s2s"}),
        run.model_copy(update={"server": run.server.model_copy(update={"primitive": "s2s"})}),
    ):
        assert other.server.options == {"damping": 0.5}
        assert other.key() == small(*own("server optimizer")).key()
    assert run.server.options == {"strength": 0.3, "damping": 0.5}


def test_what_is_set_anew_is_checked():
    run = small(*own("primitive"))
    with pytest.raises(ExperimentError, match=r"unknown field 'server\.strength'"):
        run.with_settings("server.primitive=s2s", "server.strength=0.5")
    with pytest.raises(ExperimentError, match=r"unknown field 'server\.strength'"):
        run.replace(server={"primitive": "s2s", "strength": 0.5})


def test_a_primitive_with_an_option_is_compared_with_others(tmp_path):
    """In a run and in a sweep; what is stored is one study."""
    name = "good_plugins:pull"
    run = small(*own("primitive"))
    results = skerry.run(run, compare=["s2s", name], out=tmp_path)
    assert results.labels() == ["s2s", name]
    (study,) = read_studies(tmp_path)
    assert sorted(study.labels()) == sorted(["s2s", name])

    axes = {"server.primitive": ["s2s", name], "server.strength": [0.1, 0.2]}
    runs = Sweep(experiment=small(), axes=axes).runs()
    assert [(r.server.label, r.server.options) for r in runs] == [
        ("s2s", {}),
        (name, {"strength": 0.1}),
        (name, {"strength": 0.2}),
    ]


def test_an_axis_that_no_function_takes_is_told():
    axes = {"server.primitive": ["s2s", "good_plugins:pull"], "server.strenght": [0.1, 0.2]}
    with pytest.raises(ExperimentError, match=r"server\.strenght'; did you mean 'strength'"):
        Sweep(experiment=small(), axes=axes)
