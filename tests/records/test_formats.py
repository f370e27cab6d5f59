"""Stores of other versions: a newer one is refused, an older one is brought up to date."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records import checkpoint, database
from skerry.records.maintenance import NO_CHECKSUM, verify_store
from skerry.records.store import FILE, Store

BEFORE = Path(__file__).parent / "data" / "before"
"""Written by the version that had no checksums: a finished run, and one that a checkpoint keeps."""
FACTS = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}


@pytest.fixture
def before(tmp_path):
    return Path(shutil.copytree(BEFORE, tmp_path / "before"))


@pytest.fixture
def unsealed(before):
    """The same store with the content keys of today: an older one cannot be recorded in."""
    db = sqlite3.connect(before / FILE)
    db.execute(f"PRAGMA user_version = {database.KEYS_SINCE}")
    db.close()
    return before


def tables(path):
    db = sqlite3.connect(path)
    found = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    db.close()
    return found


def test_a_store_of_the_version_before_is_read_as_it_is(before):
    """Looking adds nothing to it."""
    content = (before / FILE).read_bytes()
    with Store.read(before) as store:
        runs = [(run.status, run.rounds_done, run.experiment.name) for run in store.runs()]
        assert runs == [("finished", 6, "before"), ("running", 4, "before")]
        assert all(len(history["round"]) for _, history in store.histories())
        assert store.without_checksums() == store.keys()
    assert (before / FILE).read_bytes() == content
    found = verify_store(before)
    assert found.faults == {}
    assert len(found.not_checked[NO_CHECKSUM]) == 2


def test_a_store_of_the_version_before_may_lie_where_nobody_writes(before):
    """There it is opened without any file beside it."""
    before.chmod(0o555)
    try:
        with Store.read(before) as store:
            assert len(store.histories()) == 2
    finally:
        before.chmod(0o755)


def test_what_is_recorded_in_a_store_of_the_version_before_has_checksums(unsealed):
    """What was there before has none, and stays."""
    with Store.read(unsealed) as store:
        old = store.histories()
    with Store.open(unsealed) as store:
        store.begin({"k": Experiment(rounds=1)}, **FACTS)
        store.append({"k": {"round": [0, 1], "train_loss": [1.0, 0.5]}})
        store.finish("k", "finished", wall_seconds=1.0)
        assert store.without_checksums() == {run.key for run, _ in old}
        assert [run for run, _ in store.histories()][:2] == [run for run, _ in old]


def test_a_checkpoint_of_the_version_before_opens(before):
    [file] = (before / "checkpoints").iterdir()
    tensors, facts = checkpoint.load_checkpoint(file, "cpu")
    assert (facts["round"], tensors["X"].shape) == (4, (6, 1, 16))


def test_the_version_before_could_go_on_with_a_store_of_this_one(tmp_path):
    """What is new lies in a table that it overlooks, and its changes take the checksums away: here
    are the statements that it used."""
    with Store.open(tmp_path) as store:
        store.begin({"k": Experiment(rounds=1)}, **FACTS)
        store.append({"k": {"round": [0], "train_loss": [1.0]}})
    db = sqlite3.connect(tmp_path / FILE)
    assert db.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
    with db:
        db.execute(
            """INSERT INTO parts (run, first, last, measures, matrix)
            SELECT run, 1, 1, measures, matrix FROM parts"""
        )
        db.execute("UPDATE runs SET status = 'finished', finished = 'now', wall_seconds = 1.0")
    db.close()
    with Store.read(tmp_path) as store:
        assert store.run("k").status == "finished"
        assert store.without_checksums() == {"k"}


@pytest.fixture
def next_format(monkeypatch):
    """A version whose runs have one more column, and that knows how to add it."""
    statement = "ALTER TABLE runs ADD COLUMN place TEXT NOT NULL DEFAULT 'here'"
    monkeypatch.setattr(database, "VERSION", 3)
    monkeypatch.setattr(database, "MIGRATIONS", {1: (), 2: (statement,)})


def test_an_older_store_is_brought_up_to_date_when_it_is_opened_to_record(unsealed, next_format):
    """With all its runs, in one transaction."""
    with Store.open(unsealed) as store:
        assert store._select("SELECT place FROM runs") == [("here",), ("here",)]
        assert store._select("PRAGMA user_version") == [(3,)]
        assert len(store.histories()) == 2
    with Store.open(unsealed) as store:
        assert len(store.histories()) == 2


def test_an_older_store_that_is_only_read_is_brought_up_to_date_in_memory(before, next_format):
    content = (before / FILE).read_bytes()
    with Store.read(before) as store:
        assert store._select("SELECT place FROM runs") == [("here",), ("here",)]
        assert len(store.histories()) == 2
    assert (before / FILE).read_bytes() == content


def test_a_step_that_fails_leaves_the_older_store(unsealed, next_format, monkeypatch):
    """All of the steps or none."""
    steps = (*database.MIGRATIONS[2], "ALTER TABLE nowhere ADD COLUMN any")
    monkeypatch.setattr(database, "MIGRATIONS", {1: (), 2: steps})
    with pytest.raises(RecordsError, match="no such table"):
        Store.open(unsealed)
    monkeypatch.undo()
    with Store.open(unsealed) as store:
        assert store._select("PRAGMA user_version") == [(2,)]
        assert len(store.histories()) == 2


def test_a_newer_store_is_refused(tmp_path, next_format, monkeypatch):
    """Nothing is read of it, and nothing is changed."""
    Store.open(tmp_path).close()
    monkeypatch.undo()
    for way in (Store.open, Store.read):
        with pytest.raises(
            RecordsError, match=r"made by a newer skerry \(format 3; this one reads"
        ):
            way(tmp_path)
