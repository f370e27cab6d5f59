"""What is given from Python or read from a graph file is told by the record of a run."""

import threading

import networkx as nx
import numpy as np
import pytest
from torch import nn

import skerry
from skerry.errors import SkerryError
from skerry.plugins.registry import GIVEN
from skerry.records.store import Store
from skerry.report.words import describe_runs
from skerry.runs.materials import with_sizes

ISLANDS = nx.disjoint_union(nx.barbell_graph(4, 1), nx.cycle_graph(5))


@pytest.fixture
def experiment(small):
    """Says nothing of devices, which a graph would contradict."""
    table = small("rounds=2").model_dump(exclude_unset=True)
    table["network"] = {}
    return skerry.Experiment.parse(table, ["server.sampled=3"])


def recorded(folder):
    with Store.read(folder) as store:
        return [run.experiment for run in store.runs()]


def test_a_given_graph_is_no_ring(experiment, tmp_path):
    """The default topology played no part, so the record does not name it."""
    skerry.run(experiment, graph=ISLANDS, out=tmp_path)
    (told,) = recorded(tmp_path)
    assert told.network.topology == GIVEN
    assert (told.network.devices, told.network.sizes) == (14, (9, 5))
    assert describe_runs([told]).startswith("14 devices on 2 given graphs of 9, 5; synthetic")


def test_what_was_named_in_its_place_does_not_matter(experiment, tmp_path):
    """The same graph under another name of the experiment is the same run."""
    for topology in ("ring", "star"):
        named = experiment.with_settings(f"network.topology={topology}")
        skerry.run(named, graph=ISLANDS, out=tmp_path)
    assert len(recorded(tmp_path)) == 1


def test_given_data_and_models_are_told(small, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 5), dtype=np.float32), rng.integers(0, 3, 200)
    skerry.run(small("rounds=2"), dataset=(x, y, x, y), model=lambda: nn.Linear(5, 3), out=tmp_path)
    (told,) = recorded(tmp_path)
    assert (told.data.dataset, told.model.name) == (GIVEN, GIVEN)
    assert "; given data (non_iid across, iid within); a given model, " in describe_runs([told])


@pytest.mark.parametrize(
    ("setting", "argument"),
    [("network.topology", "graph"), ("data.dataset", "dataset"), ("model.name", "model")],
)
def test_a_record_alone_cannot_give_it_again(small, setting, argument):
    """An experiment from a record says what is missing, and how to give it."""
    with pytest.raises(SkerryError, match=rf"given from Python\. Call .*{argument}=") as error:
        skerry.run(small(f"{setting}={GIVEN}"))
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize("wrong", ["network.devices=15", "network.components=3"])
def test_a_file_does_not_overrule_an_experiment(experiment, tmp_path, wrong):
    """One that contradicts it stays as it is, beside one that does not, and is refused."""
    file = tmp_path / "islands.edges"
    nx.write_edgelist(ISLANDS, file, data=False)
    named = experiment.with_settings(f"network.topology={file}")
    against = named.with_settings(wrong)
    assert with_sizes([named, against])[1] == against
    with pytest.raises(SkerryError, match="must match the graph"):
        skerry.run([named, against])


def test_a_record_tells_the_sizes_of_a_graph_file(experiment, tmp_path):
    """Also after the file is gone; the run's key is that of the file's content."""
    file = tmp_path / "islands.edges"
    nx.write_edgelist(ISLANDS, file, data=False)
    named = experiment.with_settings(f"network.topology={file}")
    (sized,) = with_sizes([named])
    assert (sized.network.devices, sized.network.sizes) == (14, (9, 5))
    assert sized.key() == named.key()
    assert sized.world_key() == named.world_key()
    first = skerry.run(named, out=tmp_path / "runs")
    file.unlink()
    (told,) = recorded(tmp_path / "runs")
    assert told.network.sizes == (9, 5)
    assert told.key() == first[0].experiment.key()
    assert with_sizes([named]) == [named]


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_workers_are_sent_what_is_given(experiment, tmp_path, executor):
    """A graph, data and a model from Python give the same runs, with the same keys, elsewhere."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 5), dtype=np.float32), rng.integers(0, 3, 200)

    def model():
        return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))

    def finals(folder, **where):
        found = skerry.run(
            experiment,
            compare=["s2s", "s2a"],
            graph=ISLANDS,
            dataset=(x, y, x, y),
            model=model,
            out=tmp_path / folder,
            device="cpu",
            **where,
        )
        return {lane.key: lane.final["average_loss"] for lane in found}

    here, there = finals("here"), finals("there", executor=executor, workers=2)
    assert here.keys() == there.keys()
    assert list(there.values()) == pytest.approx(list(here.values()), rel=1e-5)


def test_what_cannot_be_sent_is_told(experiment, tmp_path):
    held = threading.Lock()

    def model():
        with held:
            return nn.Linear(64, 10)

    model.version = "1"
    with pytest.raises(SkerryError, match="cannot be sent to workers"):
        skerry.run(experiment, model=model, executor="processes", workers=2)


def test_a_sweep_takes_what_is_given(experiment, tmp_path):
    """And tunes it: its cells are known again by their keys."""
    sweep = skerry.Sweep(
        experiment=experiment,
        axes={"training.stepsize": [0.01, 0.1], "server.primitive": ["s2s", "s2a"]},
        tune="training.stepsize",
        seeds=2,
        tune_seeds=1,
    )
    found = skerry.run(sweep, graph=ISLANDS, out=tmp_path)
    assert len(found) == 4 + 2
    assert {lane.experiment.network.topology for lane in found} == {GIVEN}


def test_what_is_given_is_no_axis(experiment):
    sweep = skerry.Sweep(experiment=experiment, axes={"network.topology": ["ring", "star"]})
    with pytest.raises(SkerryError, match="is an axis of the sweep, but given from Python"):
        skerry.run(sweep, graph=ISLANDS)
