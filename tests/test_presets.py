"""Systems of others as a choice of fields: what presets set, and that they stand beside ours."""

from pathlib import Path

import numpy as np
import pytest

import skerry
from skerry.analysis.run_table import RunTable
from skerry.config.experiment import Experiment
from skerry.config.presets import PRESETS, fields_of_preset, with_preset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import ExperimentError
from skerry.records.store import Store
from skerry.runs.sweep import Sweep
from skerry.runs.variants import expand
from trajectories import assert_same_trajectories

ROOT = Path(__file__).parents[1]
ISLANDS = ("network.components=[3,4,5]", "server.sampled=7", "server.period=3", "rounds=7")


@pytest.fixture
def islands(small):
    return small(*ISLANDS)


def last(world, experiment):
    *_, moment = simulate(build_stack(world, [experiment]))
    return moment.state.X_nld[:, 0]


# What they are


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_runs_as_in_the_loop(islands, name):
    lane = with_preset(islands, name)
    assert lane.server.label == name
    assert_same_trajectories(build_world(islands), [lane], 2e-5)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_leaves_the_world_as_it_is(islands, name):
    """Its lanes share data, minibatches and samples with the experiment's own."""
    assert with_preset(islands, name).world_key() == islands.world_key()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_it_is_whatever_it_is_set_on(islands, name):
    """Fields that make the system are set, whatever the experiment had; applied again, nothing
    changes."""
    odd = islands.with_settings(
        "server.selection=round_robin",
        "server.weights=stratified",
        "server.optimizer=fedavgm",
        "training.order=mix_then_adapt",
        "network.gossip_steps=0",
        "server.sampled_schedule=double",
        "server.period_schedule=double",
        "server.name=ours",
    )
    there = with_preset(odd, name)
    assert fields_of_preset(there) == set(PRESETS[name].settings(odd))
    assert with_preset(there, name) == there


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_an_experiment_to_read(name):
    """experiments/NAME.toml is the preset, written out."""
    experiment = Experiment.load(ROOT / "experiments" / f"{name}.toml")
    settings = PRESETS[name].settings(experiment)
    written = {path for path in settings if _is_written(experiment, path)}
    assert experiment.server.name == name
    assert fields_of_preset(experiment) == written == set(settings)


def _is_written(experiment, path):
    section, _, field = path.partition(".")
    return field in getattr(experiment, section).model_fields_set


@pytest.mark.parametrize("row", PRESETS.values(), ids=lambda row: row.name)
def test_every_preset_says_where_it_comes_from(row):
    assert row.rule.endswith(".")
    assert row.source
    assert row.differs == "" or row.differs.endswith(".")


# What they do


def test_local_sgd_is_the_average_of_all(islands):
    """With everybody sampled S2S and S2A are one, and nobody mixes."""
    world = build_world(islands)
    ours = islands.with_settings(
        "network.gossip_steps=0", "server.sampled=12", "server.primitive=s2s"
    )
    assert np.allclose(last(world, with_preset(islands, "local_sgd")), last(world, ours), atol=1e-6)


def test_hier_favg_leaves_islands_agreed(islands):
    """Inside an island all models are the same after every round."""
    base = islands.with_settings("rounds=6")  # the last is no server round
    X = last(build_world(base), with_preset(base, "hier_favg"))
    assert not np.allclose(X, X[:1], atol=1e-3)
    for island in np.split(X.numpy(), [3, 7]):
        assert np.allclose(island, island[:1], atol=1e-6)


def test_gossip_pga_averages_after_every_H_rounds(islands):
    lane = with_preset(islands, "gossip_pga")
    assert list(lane.server.server_rounds(9)) == [2, 5, 8]


def test_tt_hf_samples_one_device_of_every_island(islands):
    (lane,) = skerry.run(
        with_preset(islands.with_settings('evaluate.measures=["participation"]'), "tt_hf")
    )
    met = ~np.isnan(lane.history["sampled_devices"])
    assert (lane.history["sampled_devices"][met] == 3).all()
    assert (lane.history["sampled_islands"][met] == 3).all()


def test_hl_sgd_samples_as_many_of_every_island(islands):
    assert with_preset(islands, "hl_sgd").server.sampled == 6  # of 7
    assert with_preset(islands.with_settings("server.sampled=2"), "hl_sgd").server.sampled == 3


@pytest.mark.parametrize(("one", "other"), [("modest", "fedavg"), ("dsgd", "none")])
def test_two_names_for_one_run(islands, one, other):
    """It is run once, under the first name."""
    (run,) = expand(islands, [one, other])
    assert run.server.label == one
    assert run.key() == expand(islands, [other])[0].key()


# Beside others


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """All presets, three primitives and two numbers of sampled devices in one store."""
    from conftest import small

    folder = tmp_path_factory.mktemp("presets")
    names = ["s2s", "s2a", "none", *PRESETS]
    base = small(*ISLANDS, "rounds=3", "evaluate.measures=average")
    found = skerry.run(base, compare=names, seeds=2, out=folder)
    return base, names, folder, found


def test_presets_stand_in_one_cell(compared):
    """Beside s2s and s2a, and paired with them seed by seed."""
    _, names, folder, found = compared
    once = [name for name in names if name not in ("modest", "dsgd")]
    assert found.labels() == once
    with Store.read(folder) as store:
        grid = RunTable(tuple(store.runs()))
    assert grid.cells == [()]
    assert set(grid.labels) == set(once)
    assert all(set(group.runs) == {0, 1} for group in grid.groups)


def test_what_is_shown_is_one_study(compared):
    _, _, folder, found = compared
    (study,) = _recorded(folder)
    assert study.labels() == found.labels()


def _recorded(folder):
    from skerry.analysis.results import read_studies

    return read_studies(folder)


def test_presets_stand_beside_every_number_of_sampled_devices(compared, tmp_path):
    """tt_hf says how many are sampled; beside K = 5 and K = 7 it is the same run."""
    base, *_ = compared
    lanes = [
        lane
        for sampled in (5, 7)
        for lane in expand(
            base.with_settings(f"server.sampled={sampled}"), ["s2s", "fedavg", "tt_hf", "none"]
        )
    ]
    skerry.run(lanes, out=tmp_path)
    with Store.read(tmp_path) as store:
        grid = RunTable(tuple(store.runs()))
    assert grid.axes == ("server.sampled",)
    assert grid.cells == [(5,), (7,)]
    assert all(set(part) == {"s2s", "fedavg", "tt_hf", "none"} for part in grid.positions.values())
    assert len(_recorded(tmp_path)) == 2


def test_a_preset_that_was_changed_is_told_apart(islands, tmp_path):
    """The name tells the fields as the preset sets them; another value is an axis."""
    ours = with_preset(islands, "tt_hf")
    more = ours.with_settings("server.sampled=6")
    skerry.run([ours, more, islands], out=tmp_path)
    with Store.read(tmp_path) as store:
        grid = RunTable(tuple(store.runs()))
    assert grid.axes == ("server.sampled",)


def test_blends_that_change_stand_beside_those_that_do_not(islands, tmp_path):
    changing = [
        islands.with_settings(
            "server.primitive=blend",
            "server.beta=1",
            "server.beta_end=0",
            "server.beta_schedule=switch",
            f"server.switch_round={t}",
        )
        for t in (2, 4)
    ]
    skerry.run([*expand(islands, ["s2s", "s2a", "blend:0.5"]), *changing], out=tmp_path)
    with Store.read(tmp_path) as store:
        grid = RunTable(tuple(store.runs()))
    assert grid.cells == [()]
    assert grid.labels[3:] == [
        "blend switch(1-0, switch_round 2)",
        "blend switch(1-0, switch_round 4)",
    ]
    assert len(_recorded(tmp_path)) == 1


def test_a_finished_run_is_found_under_another_name(islands, tmp_path):
    """The name is no part of a run: what was recorded as fedavg is given as modest."""
    skerry.run(islands, compare="fedavg", out=tmp_path)
    (lane,) = skerry.run(islands, compare="modest", out=tmp_path)
    assert lane.label == "modest"
    with Store.read(tmp_path) as store:
        assert len(store.runs()) == 1


def test_a_primitive_takes_the_name_away(islands):
    (run,) = expand(with_preset(islands, "tt_hf"), ["s2s"])
    assert run.server.label == "s2s"


# What cannot be


def test_a_misspelt_preset_is_told(islands):
    with pytest.raises(ExperimentError, match="unknown primitive 'tthf'; did you mean 'tt_hf'"):
        expand(islands, ["tthf"])


def test_complete_islands_cannot_be_had_of_a_given_graph(islands):
    import networkx as nx

    graph = nx.disjoint_union(nx.path_graph(6), nx.path_graph(6))
    with pytest.raises(ExperimentError, match="'hier_favg' needs complete islands"):
        skerry.run(Experiment(rounds=2), graph=graph, compare=["s2s", "hier_favg"])


@pytest.mark.parametrize("name", ["s2s", "none", "blend(0.3)"])
def test_a_name_must_not_be_that_of_a_primitive(name):
    with pytest.raises(ExperimentError, match="must not be that of a primitive"):
        Experiment.parse({"server": {"name": name}})


# What is told of them


@pytest.mark.parametrize("row", PRESETS.values(), ids=lambda row: row.name)
def test_pages_and_files_say_how_well_a_preset_is_known(row):
    page = (ROOT / "docs" / "presets.md").read_text()
    assert f"| {row.rule} | {row.source}; {row.known} | {row.differs} |" in page
    lines = (ROOT / "experiments" / f"{row.name}.toml").read_text().splitlines()
    comment = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    assert f"Source: {row.source}. How well it is known: {row.known}." in comment


# Methods as presets


def test_methods_stand_beside_primitives(islands):
    """All in one world; each is called by its name, and what it sends is counted."""
    names = ["s2s", "s2a", "gradient_tracking", "carry", "scaffold"]
    base = islands.with_settings('evaluate.measures=["average","communication"]')
    found = skerry.run(base, compare=names)
    assert [lane.label for lane in found] == names
    sent = {lane.label: lane.history["d2d_messages"][-1] for lane in found}
    assert sent["gradient_tracking"] == 2 * sent["s2s"] == 2 * sent["carry"] > 0
    assert sent["scaffold"] == 0


def test_primitives_beside_a_method_are_plain(islands):
    """Of an experiment that is a preset, its method goes with the name; one of its own stays."""
    preset = with_preset(islands, "sd_gt")
    assert [e.method.name for e in expand(preset, ["s2s", "s2a", "sd_gt"])] == [
        *("sgd", "sgd"),
        "sd_gt",
    ]
    own = islands.with_settings("method.name=gradient_tracking")
    assert {e.method.name for e in expand(own, ["s2s", "s2a"])} == {"gradient_tracking"}


def test_a_sweep_takes_presets_as_it_takes_primitives(islands, tmp_path):
    """Each name sets its own fields, and is tuned by itself."""
    sweep = Sweep(
        experiment=islands,
        axes={"compare": ["s2s", "blend:0.25", "carry", "mtgc"], "training.stepsize": [0.1, 0.3]},
        seeds=2,
        tune="training.stepsize",
    )
    found = skerry.run(sweep, out=tmp_path)
    names = ["s2s", "blend(0.25)", "carry", "mtgc"]
    assert set(found.labels()) == {f"{n} · stepsize {s}" for n in names for s in (0.1, 0.3)}
    assert len(found.of("carry")) == 4
    cells = RunTable.read(tmp_path).read_measure("average_accuracy")
    (choices,) = cells.tuned_values("training.stepsize").values()
    assert choices.keys() == set(names)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["s2s", "scafold"], "unknown primitive 'scafold'; did you mean 'scaffold'?"),
        (["gradient_tracking"], "needs training.local_steps = 1"),
    ],
)
def test_a_name_that_a_sweep_cannot_take_is_told(islands, names, told):
    base = islands.with_settings("training.local_steps=2")
    with pytest.raises(ExperimentError) as error:
        Sweep(experiment=base, axes={"compare": names})
    assert told in str(error.value)
