"""Stores whose content keys an earlier version computed: they are read, and nothing is added."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import skerry as package
from command_line import skerry
from skerry.analysis.results import read_studies
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records.store import FILE, Store

DATA = Path(__file__).parent / "data"
"""`keys-1` holds two finished runs, `before` a finished run and one with a checkpoint."""
FINALS = {"s2s": 97.6, "s2a": 96.9}
"""The accuracy in % of the average model, as it was shown when the runs were computed."""


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(DATA / "keys-1", tmp_path / "old"))


def test_an_old_store_is_read_shown_and_exported(old, tmp_path):
    """By Python and by the commands, with the section [fleet] under its name of today."""
    content = (old / FILE).read_bytes()
    (found,) = read_studies(old)
    accuracies = {lane.label: lane.final["average_accuracy"] for lane in found}
    assert accuracies == pytest.approx(FINALS, abs=0.01)
    assert {lane.experiment.availability.awake for lane in found} == {0.9}
    assert len(package.load(old))
    shown = skerry("results", old)
    assert shown.code == 0, shown.err
    assert "97.60" in shown.out
    exported = skerry("results", old, "--csv", tmp_path / "old.csv")
    assert exported.code == 0, exported.err
    assert "s2a" in (tmp_path / "old.csv").read_text()
    page = skerry("report", old, "--out", tmp_path / "page.html")
    assert page.code == 0, page.err
    assert (old / FILE).read_bytes() == content


def test_an_old_store_is_verified_but_for_its_keys(old):
    verified = skerry("store", "verify", old)
    assert verified.code == 0, verified.err
    assert "an earlier version computed in another way" in verified.out + verified.err


@pytest.mark.parametrize("name", ["keys-1", "before"])
def test_nothing_is_resumed_or_added_in_an_old_store(name, tmp_path):
    """One line says why, and what to do; the file stays as it was."""
    folder = Path(shutil.copytree(DATA / name, tmp_path / name))
    content = (folder / FILE).read_bytes()
    with Store.read(folder) as store:
        experiment = store.runs()[0].experiment
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    refused = skerry("run", tmp_path / "again.toml", "--out", folder)
    assert refused.code == 2
    (line,) = refused.err.strip().splitlines()
    assert "holds runs of an earlier skerry" in line
    assert line.endswith("but not resumed or added to. Record in a new folder.")
    with pytest.raises(RecordsError, match="earlier skerry"):
        package.run(experiment, out=folder)
    assert (folder / FILE).read_bytes() == content


def test_a_new_store_is_marked(tmp_path):
    """A run that is computed anew has another key, and its store takes more."""
    Store.open(tmp_path).close()
    with Store.read(tmp_path) as store:
        assert store.has_current_keys
    with Store.read(DATA / "keys-1") as store:
        assert not store.has_current_keys
        for run in store.runs():
            again = Experiment.parse(json.loads(json.dumps(run.experiment.model_dump())))
            assert again.key(run.materials) != run.key


def test_an_old_store_that_was_damaged_is_repaired_as_an_old_store(old):
    """Its whole runs are kept under their keys, and it still takes no new ones."""
    with contextlib.closing(sqlite3.connect(old / FILE)) as db, db:
        [(first,)] = db.execute("SELECT min(run) FROM parts")
        db.execute("UPDATE parts SET matrix = zeroblob(length(matrix)) WHERE run = ?", (first,))
    repaired = skerry("store", "repair", old)
    assert repaired.code == 0, repaired.err
    with Store.read(old) as store:
        assert len(store.keys()) == 1
    with pytest.raises(RecordsError, match="earlier skerry"):
        Store.open(old)
