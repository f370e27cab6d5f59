"""A store from a stranger: looking at it runs none of the code that it names."""

import json
import re
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


HOSTILE = "a\x1b[2J\x9b31m\u202eb\x00c\rd\x07"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with runs whose names try to command a terminal."""
    folder = tmp_path_factory.mktemp("hostile")
    lanes = [
        small(f"name={HOSTILE}", f"server.name={HOSTILE}{i}", "rounds=2", f"seed={i // 2}")
        for i in range(4)
    ]
    with Store.open(folder / "runs") as store:
        for two in (lanes[:2], lanes[2:]):
            run_world(build_world(two[0]), two, store, folder / "checkpoints")
        store.finish(store.runs()[-1].key, "failed", wall_seconds=1.0, note=HOSTILE)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("show", "runs"),
        ("results", "runs"),
        ("results", "runs", "--csv", "-"),
        ("results", "runs", "--csv", "runs.csv", "--markdown", "runs.md", "--latex", "runs.tex"),
        ("report", "runs", "--out", "page.html"),
        ("figure", "curves", "runs", "--out", "curves.svg"),
        ("figure", "curves", "runs", "--title", HOSTILE, "--out", "titled.svg"),
        ("watch", "runs", "--once"),
        ("store", "verify", "runs"),
        ("store", "forget", "runs", HOSTILE),
        ("show", HOSTILE),
        ("run", HOSTILE),
        ("run", "--set", HOSTILE),
        ("run", "--compare", HOSTILE),
    ],
    ids=lambda command: ascii(" ".join(command)),
)
def test_names_command_no_terminal(hostile, command, monkeypatch):
    """No control character of a name reaches the terminal, or a file that a command writes."""
    monkeypatch.chdir(hostile)
    before = {*hostile.iterdir()}
    outcome = skerry(*command)
    assert outcome.code in (0, 1, 2)
    assert "Traceback" not in outcome.err
    written = [path.read_text() for path in {*hostile.iterdir()} - before]
    for told in (outcome.out, outcome.err, *written):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", told)


def test_a_run_with_a_hostile_name_is_shown_and_recorded(hostile, monkeypatch):
    """`skerry run` itself prints the name of its experiment without obeying it."""
    monkeypatch.chdir(hostile)
    name = json.dumps(HOSTILE).replace("\x9b", "\\u009b")
    (hostile / "mine.toml").write_text(f"name = {name}\nrounds = 2\n[server]\nname = {name}\n")
    outcome = skerry("run", "mine.toml", "--seeds", 1, "--out", "own")
    assert outcome.code == 0, outcome.err
    assert r"a\x1b[2J" in outcome.out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", outcome.out + outcome.err)
