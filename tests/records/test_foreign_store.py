"""A store from a stranger: looking at it runs none of the code that it names."""

import json
import sqlite3
import sys

import pytest

from command_line import skerry
from conftest import small
from recorded_runs import run_world
from skerry.engine.world import build_world
from skerry.records.store import FILE, Store

NAMED = (
    "network.topology",
    "network.mixing",
    "data.dataset",
    "data.inter",
    "data.intra",
    "model.name",
    "training.schedule",
    "training.sampling",
    "server.primitive",
    "server.selection",
    "server.optimizer",
)


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """Runs that name a module which writes a file when it is imported: a run for each field that
    can, and one with all of them."""
    lanes = [small("rounds=3", f"training.stepsize=0.{i}") for i in range(1, len(NAMED) + 2)]
    with Store.open(tmp_path / "runs") as store:
        run_world(build_world(lanes[0]), lanes, store, tmp_path / "checkpoints")
    written = tmp_path / "written"
    (tmp_path / "evil.py").write_text(f"open({str(written)!r}, 'w').close()\ndef any(): ...\n")
    db = sqlite3.connect(tmp_path / "runs" / FILE)
    with db:
        for number, text in db.execute("SELECT id, experiment FROM runs").fetchall():
            table = json.loads(text)
            for path in NAMED[number - 1 : number] or NAMED:
                section, field = path.split(".")
                table[section][field] = "evil:any"
            text = json.dumps(table)
            db.execute("UPDATE runs SET experiment = ? WHERE id = ?", (text, number))
    db.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    assert "evil" not in sys.modules
    assert not written.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("show", "runs"),
        ("show", "runs", "--json"),
        ("results", "runs"),
        ("results", "runs", "--csv", "runs.csv"),
        ("report", "runs", "--out", "page.html"),
        ("figure", "curves", "runs", "--out", "curves.png"),
        ("figure", "gap", "runs", "--out", "gap.png"),
        ("figure", "front", "runs", "--out", "front.png"),
        ("figure", "cost", "runs", "--out", "cost.png"),
        ("figure", "sensitivity", "runs", "--out", "sensitivity.png"),
        ("figure", "bound", "runs", "--out", "bound.png"),
        ("watch", "runs", "--once"),
        ("watch", "runs", "--json"),
        ("store", "verify", "runs"),
        ("store", "backup", "runs", "copy.sqlite"),
        ("store", "repair", "runs"),
    ],
    ids=" ".join,
)
def test_looking_imports_nothing(evil, command):
    """Whatever comes of it, it is told in lines, and the module is not run."""
    outcome = skerry(*command)
    assert outcome.code in (0, 2), outcome.err
    assert "Traceback" not in outcome.err
    if command[0] != "figure" or command[1] == "curves":
        assert outcome.code == 0, outcome.err
