"""Data that lie on devices: the same fleet from Python, from tables and from folders."""

import re
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import fleet_data
import skerry
from skerry.config.experiment import Data, Experiment, Network, Task
from skerry.data.sources import formats
from skerry.data.sources.catalog import load_dataset
from skerry.data.sources.formats import load_npz
from skerry.data.split import build_partition, layout_of
from skerry.engine.world import build_world
from skerry.errors import DataError, ExperimentError
from skerry.records.store import Store
from skerry.runs.materials import collect_materials, with_sizes
from skerry.tasks.choice import choose_task
from trajectories import assert_same_trajectories


def from_python(**more):
    given = {"own_test": fleet_data.own_tests(), "islands": fleet_data.ISLANDS} | more
    return skerry.from_devices(fleet_data.devices(), **given)


def given(path, *settings):
    named = ["data.dataset=devices", "data.split=given", f"data.path={path}", "server.sampled=2"]
    return Experiment.parse({}, [*named, "rounds=3", "server.period=1", *settings])


def held(dataset):
    """Every device's island, its training samples and its own test samples, each sorted."""
    holdings = dataset.holdings
    return {
        name: (
            holdings.islands and holdings.islands[i],
            _sorted(dataset.x_train, dataset.y_train, holdings.train.indices(i)),
            _sorted(dataset.x_test, dataset.y_test, holdings.tests.indices(i)),
        )
        for i, name in enumerate(holdings.devices)
    }


def _sorted(x, y, rows):
    return sorted(np.column_stack([x[rows], y[rows]]).astype(np.float32).tolist())


def write_frame(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


def a_table(tmp_path, ending):
    table = fleet_data.table()
    path = tmp_path / f"fleet{ending}"
    if ending == ".npz":
        np.savez(path, **table)
    else:
        frame = pd.DataFrame(table.pop("x"), columns=list("abcd")).assign(**table)
        write_frame(frame.astype(dict.fromkeys("abcd", np.float64)), path)
    return path


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv", "folder"])
def test_every_source_holds_the_same(tmp_path, ending):
    """Whatever the data come from, every device has the same samples."""
    path = (
        fleet_data.write_folder(tmp_path / "fleet")
        if ending == "folder"
        else a_table(tmp_path, ending)
    )
    read = load_dataset(given(path).data, 0)
    assert held(read) == held(from_python())


def test_numbers_may_stand_for_names(tmp_path):
    """Names are written once in a large table."""
    table = fleet_data.table()
    names, numbers = np.unique(table["device"], return_inverse=True)
    np.savez(tmp_path / "fleet.npz", **{**table, "device": numbers, "devices": names})
    read = load_dataset(given(tmp_path / "fleet.npz").data, 0)
    assert held(read) == held(from_python())


def test_a_large_table_stays_on_disk(tmp_path):
    """What is not compressed is mapped, and compressed tables are read all the same."""
    x = np.arange(300_000, dtype=np.float32).reshape(-1, 5)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", x=x, y=x[:, 0].T)
        found = load_npz(tmp_path / "a.npz", "", mapped=True)["x"]
        assert np.array_equal(found, x)
        assert isinstance(found, np.memmap) == (save is np.savez)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_flipped_bit_in_a_large_array_is_found(tmp_path, mapped):
    """Also in an array that is mapped, whose bytes zipfile would never look at."""
    x = np.ones((300_000, 5), dtype=np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=x[:, 0])
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[3_000_000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(
        DataError, match=r"cannot be read \(BadZipFile: Bad CRC-32 for file 'x.npy'"
    ):
        load_npz(tmp_path / "a.npz", "", mapped)


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_small_files_of_endless_data_are_refused(tmp_path, ending, monkeypatch):
    """A compressed file that would unpack past the limit is told before anything is read."""
    monkeypatch.setattr(formats, "MOST_UNPACKED", 2**20)
    path, zeros = tmp_path / f"bomb{ending}", np.zeros(10**6)
    if ending == ".npz":
        np.savez_compressed(path, x=zeros[:, np.newaxis], y=zeros, device=zeros.astype(np.int8))
    else:
        pd.DataFrame({"a": zeros, "y": zeros, "device": "d"}).to_parquet(path)
    with pytest.raises(DataError, match=r"would unpack from 0 MiB to 0.0 GiB; the limit is"):
        load_dataset(given(path).data, 0)


def test_torch_data_sets_and_lists():
    """A list numbers its devices; a torch data set is a device's samples, too."""
    pairs = list(fleet_data.devices().values())
    as_torch = [torch.utils.data.TensorDataset(*map(torch.from_numpy, pair)) for pair in pairs]
    one, other = skerry.from_devices(pairs), skerry.from_devices(as_torch)
    assert one.holdings.devices == tuple("012345")
    assert held(one) == held(other)


def test_text_labels_are_numbered_by_the_alphabet():
    words = np.array(["walk", "run", "sit"])
    devices = {name: (x, words[y]) for name, (x, y) in fleet_data.devices().items()}
    dataset = skerry.from_devices(devices)
    assert dataset.classes == 3
    _x, _y = devices["attic"]
    held_by_attic = dataset.y_train[dataset.holdings.train.indices(2)]
    assert set(held_by_attic) == {0, 1, 2}
    assert (dataset.y_train == 0).sum() + (dataset.y_test == 0).sum() == sum(
        (labels == "run").sum() for _, labels in devices.values()
    )


def test_whole_labels_of_any_dtype_are_labels():
    """int64 beside uint64 labels are classes, not the numbers of a regression."""
    kinds = [np.int64, np.uint64, np.int32, np.uint8] * 2
    held = zip(fleet_data.devices().items(), kinds, strict=False)
    dataset = skerry.from_devices({name: (x, y.astype(kind)) for (name, (x, y)), kind in held})
    assert (dataset.targets, dataset.classes) == ("labels", 3)


def test_words_for_nothing_are_names_in_a_table(tmp_path):
    """A device NA, an island nan and a label None stay what they are called."""
    cells = [f"{device},{island},{i},{label}" for i in range(6) for device, island, label in WORDS]
    file = tmp_path / "f.csv"
    file.write_text("\n".join(["device,island,a,y", *cells]) + "\n")
    dataset = load_dataset(given(file).data, 0)
    assert dataset.holdings.devices == ("NA", "null", "porch")
    assert dataset.holdings.islands == ("nan", "None", "n/a")
    assert dataset.classes == 3


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (["1.5,0.1"] * 9 + ["1.5,NA"], "y is numeric except 'NA' in row 10, device 'd1'"),
        (["1.5,0"] * 9 + ["1.5,nan"], "y is numeric except 'nan' in row 10, device 'd1'"),
        (
            ["1.5,0", "1.5,1"] * 5 + ["1,99999999999999999999"],
            "whole numbers below 2**63 (got 9999",
        ),
        (
            ["1e39,0", "1.5,1"] * 5,
            "the number 1e+39 among its samples, which is too large for floa",
        ),
        (["1.5,1e39", "1.5,.1"] * 5, "a training target that is too large for float32 (1e+39"),
        ([], "f.csv has a header, but no rows."),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_few_odd_cells_of_a_table_get_one_line(tmp_path, samples, told):
    """Numbers that are missing or too large change neither the task nor the classes in silence."""
    cells = [f"d{i % 2},{sample}" for i, sample in enumerate(samples)]
    (tmp_path / "f.csv").write_text("\n".join(["device,a,y", *cells]) + "\n")
    with pytest.raises(DataError, match=re.escape(told)):
        load_dataset(given(tmp_path / "f.csv").data, 0)


def test_booleans_are_the_labels_0_and_1():
    """Also in arrays that are dealt out."""
    x, y = np.eye(10, 3), np.arange(10) % 2
    for labels in (y, y.astype(bool)):
        dealt = skerry.from_arrays(x, labels, x, labels)
        held = skerry.from_devices({"a": (x, labels), "b": (x, labels)})
        assert (dealt.targets, dealt.classes, held.targets, held.classes) == ("labels", 2) * 2
        assert dealt.y_train.tolist() == y.tolist()


def test_large_targets_with_fractions_are_numbers():
    """In float32 the fractions of 1e10 are lost; they are no labels all the same."""
    x, y = np.eye(10, 3), 1e10 + np.arange(10) + 0.5
    assert choose_task(Task(), skerry.from_arrays(x, y, x, y), 0).name == "regression"


WORDS = [("NA", "nan", "None"), ("null", "None", "NA"), ("porch", "n/a", "1")]


def test_without_test_samples_every_fifth_is_held_out():
    """Devices with fewer than five keep them all; nothing is lost."""
    dataset = skerry.from_devices(fleet_data.devices())
    sizes = np.array([*fleet_data.SIZES.values()])
    assert dataset.holdings.tests.sizes.tolist() == (sizes // 5).tolist()
    assert dataset.holdings.train.sizes.tolist() == (sizes - sizes // 5).tolist()


def test_a_common_test_set_is_what_all_are_measured_on():
    test = fleet_data.samples(40, 9)
    world = build_world(
        Experiment.parse({}, ["data.split=given", "server.sampled=2"]).replace(
            data={"dataset": "given"}
        ),
        collect_materials(None, from_python(test=test), None),
    )
    assert len(world.y_test) == 40
    assert len(world.y_own) == 55
    assert world.partition.own_tests.sizes.sum() == 15


# Islands and graphs


def test_islands_come_from_the_data():
    """A topology is drawn inside each; devices keep their names."""
    (lane,) = skerry.run(
        Experiment.parse({}, ["rounds=2", "server.sampled=2"]), dataset=from_python()
    )
    network = lane.experiment.network
    assert (network.devices, network.sizes) == (6, (3, 3))
    assert lane.experiment.data.split == "given"


def test_without_islands_the_network_says_how_many():
    data, dataset = Data(split="given"), skerry.from_devices(fleet_data.devices())
    network, names = layout_of(dataset, Network(components=3), data)
    assert network.sizes == (2, 2, 2)
    assert names == tuple(fleet_data.SIZES)


def a_graph(*links):
    west, east = ("porch", "attic", "cellar"), ("shed", "barn", "loft")
    return nx.Graph([*pairwise(west), *pairwise(east), *links])


def test_devices_find_their_data_by_name():
    """Whatever the order of the graph's nodes."""
    dataset = from_python()
    names = ("loft", "shed", "barn", "cellar", "attic", "porch")
    found = build_partition(dataset, (3, 3), names, Data(split="given"), 0)
    assert found.sizes.tolist() == [fleet_data.SIZES[name] for name in names]
    for i, name in enumerate(names):
        rows = found.indices(i)
        x, y = fleet_data.devices()[name]
        assert _sorted(dataset.x_train, dataset.y_train, rows) == _sorted(x, y, slice(None))


def test_the_key_knows_who_stands_where_in_the_graph(tmp_path):
    """The same links under exchanged names are another run."""
    experiment = Experiment.parse({}, ["rounds=1", "server.sampled=2"])
    exchanged = nx.relabel_nodes(a_graph(), {"porch": "attic", "attic": "porch"})
    for graph in (a_graph(), exchanged, a_graph()):
        skerry.run(experiment, dataset=from_python(), graph=graph, out=tmp_path)
    with Store.read(tmp_path) as store:
        assert len(store.runs()) == 2


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (
            nx.relabel_nodes(a_graph(), {"porch": "pier"}),
            r"no data for 'pier'; no place in the graph for 'porch'",
        ),
        (
            nx.path_graph([str(i) for i in range(9)]),
            r"no data for '0', '1', '2', '3', '4' and 4 more",
        ),
        (
            a_graph(("porch", "shed")),
            r"device 'shed' on island 'east' and 'porch' on 'west', but the graph links them",
        ),
    ],
)
def test_who_is_missing_is_told(graph, told):
    with pytest.raises(DataError, match=told):
        skerry.run(
            Experiment.parse({}, ["rounds=1", "server.sampled=2"]),
            dataset=from_python(),
            graph=graph,
        )


def test_split_is_asked_for_once():
    """Data by device are neither dealt out nor kept by a silent default."""
    with pytest.raises(ExperimentError, match=r'Set data\.split = "given" to keep this assignment'):
        Experiment.parse({}, ["data.dataset=devices", "data.path=x"])
    with pytest.raises(DataError, match=r"needs data that say which device .* \(got synthetic\)"):
        skerry.run(Experiment.parse({}, ["data.dataset=synthetic", "data.split=given"]))


def test_given_data_can_be_dealt_out_all_the_same(tmp_path):
    """To see what their natural split does."""
    path = fleet_data.write_folder(tmp_path / "fleet")
    experiment = given(path, "data.split=dealt", "network.devices=8", "data.inter=iid")
    (lane,) = skerry.run(experiment)
    assert lane.experiment.network.devices == 8


# Runs


def test_reference_equals_stack(tmp_path):
    """With unequal sizes, a device with one sample, own test sets, and every sampling."""
    path = fleet_data.write_folder(tmp_path / "fleet")
    for setting in ("training.sampling=replacement", "training.sampling=epochs", "model.name=mlp"):
        base = given(path, setting, "training.batch=4", "rounds=4")
        lanes = [
            base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a", "blend", "none")
        ]
        lanes.append(base.with_settings("training.weights=data", "server.weights=data"))
        world = build_world(base)
        assert_same_trajectories(world, with_sizes(lanes), 1e-5)


def test_a_folder_runs_and_resumes_by_content(tmp_path):
    """The key follows the content: a changed file is another run, an unchanged one is not."""
    path = fleet_data.write_folder(tmp_path / "fleet")
    for _ in range(2):
        skerry.run(given(path), out=tmp_path / "runs")
    x, y = fleet_data.samples(3, 99)
    np.savez(path / "west" / "porch.npz", x=x, y=y)
    skerry.run(given(path), out=tmp_path / "runs")
    with Store.read(tmp_path / "runs") as store:
        assert [run.status for run in store.runs()] == ["finished", "finished"]


def test_a_sweep_over_given_data(tmp_path):
    """Tuning finds the runs of its cells."""
    from skerry.runs.materials import sweep_with_sizes
    from skerry.runs.sweep import Sweep

    path = fleet_data.write_folder(tmp_path / "fleet")
    table = given(path).model_dump(exclude_unset=True)
    axes = {"training.stepsize": [0.01, 0.1], "network.topology": ["ring", "complete"]}
    sweep = Sweep.parse(
        {**table, "sweep": {"seeds": 2, "tune": "training.stepsize", "tune_seeds": 1, "axes": axes}}
    )
    lanes = skerry.run(sweep)
    assert len(lanes) == 4 + 2
    assert {lane.experiment.network.sizes for lane in lanes} == {(3, 3)}
    sized = sweep_with_sizes(sweep)
    assert {point.at(0).key() for point in sized.points} == {
        lane.experiment.key() for lane in lanes if lane.experiment.seed == 0
    }
