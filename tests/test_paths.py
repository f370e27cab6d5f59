"""Paths in an experiment file start from the folder of the file."""

import tomllib

import numpy as np

import command_line
import skerry
from skerry.config.experiment import Experiment
from skerry.files import user_path

GRAPH = "0 1\n1 2\n2 0\n3 4\n4 5\n5 3\n"
SMALL = """rounds = 2
[network]
topology = "maps/isles.edgelist"
[data]
dataset = "npz"
path = "own data.npz"
[availability]
awake = "awake.csv"
[server]
sampled = 2
primitive = "s2a"
"""


def lay_project(folder, values=1.0):
    """A folder with an experiment, and the files that it names beside it."""
    (folder / "maps").mkdir(parents=True)
    (folder / "maps" / "isles.edgelist").write_text(GRAPH)
    (folder / "awake.csv").write_text("device,from,to\n0,0,1\n1,0,2\n2,0,2\n3,0,2\n")
    x, y = np.arange(80, dtype=np.float32).reshape(40, 2) * values, np.arange(40) % 4
    np.savez(folder / "own data.npz", x=x, y=y)
    (folder / "mine.toml").write_text(SMALL)
    return folder / "mine.toml"


def test_paths_of_an_experiment_start_from_its_file(tmp_path, monkeypatch):
    """A run from any folder is the same run, with the key that it had before paths started from the
    file, and what is recorded can be run and drawn from any folder."""
    file, out = lay_project(tmp_path / "my project"), tmp_path / "runs"
    monkeypatch.chdir(file.parent)
    as_before = Experiment.parse(tomllib.loads(SMALL))  # paths start from this folder
    expected = [lane.key for lane in skerry.run(as_before, out=tmp_path / "before")]
    for folder in (tmp_path, file.parent, tmp_path / "before"):
        monkeypatch.chdir(folder)
        (lane,) = skerry.run(file, out=out)
        assert [lane.key] == expected
        assert lane.to_json()["experiment"]["data"]["path"] == "own data.npz"
        assert Experiment.from_toml(lane.experiment.to_toml()).deciding() == as_before.deciding()
        (again,) = skerry.run(lane.experiment, out=out)
        assert again.key == lane.key
        shown = command_line.skerry("figure", "network", out, "-o", tmp_path / "network.png")
        assert shown.code == 0, shown.err
    assert skerry.load(out)["key"].nunique() == 1
    moved = file.parent.rename(tmp_path / "moved") / file.name
    (lane,) = skerry.run(moved, out=out)
    assert lane.key == expected[0]
    assert user_path(lane.experiment.data.path).parent == moved.parent


def test_without_a_file_there_paths_start_from_this_folder(tmp_path, monkeypatch):
    """Files that name paths from the folder of the project go on working; settings always do."""
    file = lay_project(tmp_path / "project")
    inner = file.rename((file.parent / "maps") / "mine.toml")
    monkeypatch.chdir(file.parent)
    (lane,) = skerry.run("maps/mine.toml")
    np.savez("other.npz", x=np.ones((40, 2)), y=np.arange(40) % 4)
    np.savez(inner.parent / "other.npz", x=np.zeros((8, 2)), y=np.arange(8) % 4)
    chosen = Experiment.load(inner, ["data.path=other.npz"])
    assert user_path(chosen.data.path).absolute() == file.parent / "other.npz"
    beside = Experiment.load(inner, ["rounds=1"])
    monkeypatch.chdir(tmp_path)
    assert beside.paths() == lane.experiment.paths()
    assert user_path(beside.data.path) == file.parent / "own data.npz"
    found = command_line.skerry("run", inner)
    places = f"{inner.parent}/maps/isles.edgelist or {tmp_path}/maps/isles.edgelist"
    assert found.err == f"error: no graph file {places}. Check network.topology.\n"


def test_one_path_in_two_files_is_two_files(tmp_path, monkeypatch):
    """Experiments of one list use the data beside their own files."""
    files = [lay_project(tmp_path / name, float(n + 1)) for n, name in enumerate("ab")]
    monkeypatch.chdir(tmp_path)
    alone = [skerry.run(file)[0].final["average_loss"] for file in files]
    assert [lane.final["average_loss"] for lane in skerry.run(files)] == alone


def test_paths_in_the_axes_of_a_sweep_start_from_its_file(tmp_path, monkeypatch):
    """Also in an axis of several fields; tables show the paths as they are written."""
    file = lay_project(tmp_path / "project")
    (file.parent / "b.npz").write_bytes((file.parent / "own data.npz").read_bytes())
    file.write_text(
        f"{SMALL}[sweep.axes]\n"
        '"data.path, server.period" = [["own data.npz", 1], ["b.npz", 2]]\n'
        '"network.topology" = ["maps/isles.edgelist", "ring"]\n'
        '[[sweep.exclude]]\n"network.topology" = "ring"\n'
    )
    monkeypatch.chdir(tmp_path)
    found = command_line.skerry("sweep", file)
    assert found.code == 0, found.err
    assert "own data.npz" in found.out
    assert str(tmp_path) not in found.out
