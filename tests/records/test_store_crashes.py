"""Damage, rivals, crashes and full disks: one line of explanation, and nothing half-written."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryWarning
from skerry.records import database
from skerry.records.store import FILE, Store

FACTS = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}

PREAMBLE = """
import resource, sys
from skerry.errors import RecordsError
from skerry.config.experiment import Experiment
from skerry.records.store import Store
folder, keys = sys.argv[1], sys.argv[2:]

def begin(store):
    for key in keys:
        store.begin({key: Experiment()}, materials={}, world="w", device="cpu", versions={})

def append(store, i):
    rounds = [3 * i, 3 * i + 1, 3 * i + 2]
    store.append({key: {"round": rounds, "loss": [float(t) for t in rounds]} for key in keys})
"""


def child(script, folder, *keys):
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, str(folder), *keys],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def recorded(folder):
    """A store with one run of six rounds in two parts."""
    with Store.open(folder) as store:
        store.begin({"k": Experiment()}, **FACTS)
        for start in (0, 3):
            rounds = range(start, start + 3)
            store.append({"k": {"round": rounds, "loss": [t / 7 for t in rounds]}})
    return folder / FILE


def refusal(act):
    """The one line with which an act is refused."""
    with pytest.raises(RecordsError) as error:
        act()
    assert "\n" not in str(error.value)
    return str(error.value)


# Several processes


def test_processes_write_one_store_together(tmp_path):
    """Processes that make and fill the same store at once lose nothing of each other."""
    script = """
print("ready", flush=True)
sys.stdin.readline()
with Store.open(folder) as store:
    begin(store)
    for i in range(100):
        append(store, i)
"""
    names = ("north", "south", "west")
    writers = [child(script, tmp_path / "new", key) for key in names]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 3
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate() and writer.returncode for writer in writers] == [0, 0, 0]
    with Store.read(tmp_path / "new") as store:
        for key in names:
            assert store.history(key)["loss"].tolist() == list(range(300))


def test_a_killed_writer_leaves_whole_parts(tmp_path):
    """After kill -9 amid appends, every lane holds the same whole parts, and can go on."""
    script = """
with Store.open(folder) as store:
    begin(store)
    for i in range(10**9):
        append(store, i)
        print(i, flush=True)
"""
    writer = child(script, tmp_path, "a", "b")
    told = [writer.stdout.readline() for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    with Store.read(tmp_path) as store:
        histories = [store.history(key) for key in ("a", "b")]
    done = len(histories[0]["round"])
    assert done % 3 == 0
    assert done >= 3 * len(told)
    for history in histories:
        assert history["round"].tolist() == list(range(done))
        assert history["loss"].tolist() == list(range(done))
    with Store.open(tmp_path) as store:
        store.begin({"a": Experiment()}, **FACTS)
        store.append({"a": {"round": [done], "loss": [0.0]}})
        assert store.run("a").rounds_done == done


def test_a_full_disk_leaves_whole_parts(tmp_path):
    """When the system refuses to write more, the append is refused and the rest is intact."""
    script = """
with Store.open(folder) as store:
    begin(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        for i in range(10**9):
            append(store, i)
    except RecordsError as error:
        print(i, error)
"""
    writer = child(script, tmp_path, "a", "b")
    appended, line = writer.communicate()[0].split(" ", 1)
    assert line.startswith("cannot use the store")
    assert "what was recorded before is safe" in line
    with Store.read(tmp_path) as store:
        for key in ("a", "b"):
            assert store.history(key)["loss"].tolist() == list(range(3 * int(appended)))


def test_a_locked_store_is_explained(tmp_path, monkeypatch):
    """A writer that waits in vain says so, and the store is as before."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    path = recorded(tmp_path)
    with Store.open(tmp_path) as store:
        rival = sqlite3.connect(path, isolation_level=None)
        rival.execute("BEGIN IMMEDIATE")
        line = refusal(lambda: store.append({"k": {"round": [6], "loss": [0.0]}}))
        assert "another program has kept it locked" in line
        assert store.run("k").rounds_done == 5
        rival.close()
        store.append({"k": {"round": [6], "loss": [0.0]}})
        assert store.run("k").rounds_done == 6


def test_opening_waits_for_a_rival(tmp_path):
    """A process that is just making the store delays another that opens it, and no more."""
    path = recorded(tmp_path)
    rival = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    rival.execute("PRAGMA journal_mode = DELETE")
    rival.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, rival.close)
    release.start()
    with Store.open(tmp_path) as store:
        assert store.run("k").rounds_done == 5
        assert store._select("PRAGMA journal_mode") == [("wal",)]
    release.join()


def test_readers_see_a_store_that_is_being_written(tmp_path):
    """An open writer does not lock readers out, nor show them what it has not finished."""
    recorded(tmp_path)
    with Store.open(tmp_path) as writer, writer.transaction():
        writer.append({"k": {"round": [6], "loss": [0.0]}})
        with Store.read(tmp_path) as reader:
            assert reader.run("k").rounds_done == 5


# Files


def test_a_missing_store_is_explained(tmp_path):
    """Reading never makes a store."""
    assert "no store at" in refusal(lambda: Store.read(tmp_path))
    assert "no store at" in refusal(lambda: Store.read(tmp_path / "nowhere"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", [Store.open, Store.read])
@pytest.mark.parametrize("content", [b"rounds,loss\n" * 100, bytes(range(256)) * 20])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, way, content):
    """A foreign file is refused and keeps its bytes."""
    (tmp_path / FILE).write_bytes(content)
    assert "it is no SQLite file" in refusal(lambda: way(tmp_path))
    assert (tmp_path / FILE).read_bytes() == content


@pytest.mark.parametrize("way", [Store.open, Store.read])
def test_the_database_of_another_program_is_left_alone(tmp_path, way):
    """An SQLite file that is not a store is refused and keeps its bytes."""
    other = sqlite3.connect(tmp_path / FILE)
    other.execute("CREATE TABLE runs (id)")
    other.commit()
    other.close()
    content = (tmp_path / FILE).read_bytes()
    assert "made by another program" in refusal(lambda: way(tmp_path))
    assert (tmp_path / FILE).read_bytes() == content


@pytest.mark.parametrize("way", [Store.open, Store.read])
@pytest.mark.parametrize(("version", "age"), [(database.VERSION + 1, "newer"), (0, "older")])
def test_another_format_is_refused(tmp_path, way, version, age):
    """A store of another format is neither read wrongly nor changed."""
    path = recorded(tmp_path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    assert f"made by a {age} skerry (format {version}" in refusal(lambda: way(tmp_path))


def test_an_empty_file_is_no_store_yet(tmp_path):
    """Opening makes a store of an empty file; reading refuses it."""
    (tmp_path / FILE).touch()
    assert "is empty, not a store" in refusal(lambda: Store.read(tmp_path))
    with Store.open(tmp_path) as store:
        assert store.runs() == []


def test_a_truncated_store_is_explained(tmp_path):
    """A file cut anywhere is refused in a line."""
    content = recorded(tmp_path).read_bytes()
    for size in [*range(1, len(content), 509), *range(4096, len(content), 4096)]:
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / FILE).write_bytes(content[:size])
        for way in (Store.read, Store.open):
            refusal(lambda way=way, folder=folder: way(folder))


def test_flipped_bytes_are_never_taken_for_measurements(tmp_path):
    """Damage anywhere in a part gives a line or the true values, never other values."""
    path = recorded(tmp_path)
    with Store.open(tmp_path) as store:
        [(blob,)] = store._select("SELECT matrix FROM parts WHERE first = 3")
    for position in range(len(blob)):
        spoiled = bytearray(blob)
        spoiled[position] ^= 0x10
        db = sqlite3.connect(path)
        with db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("UPDATE parts SET matrix = ? WHERE first = 3", (bytes(spoiled),))
        db.close()
        with Store.read(tmp_path) as store:
            try:
                np.testing.assert_array_equal(store.history("k")["loss"], np.arange(6) / 7)
            except RecordsError as error:
                assert "run k" in str(error)  # noqa: PT017


def test_a_damaged_experiment_is_explained(tmp_path):
    """A run whose description cannot be read is named, and refused by its key."""
    path = recorded(tmp_path)
    for text in ("{", "[1]", "3", '{"network": 5}'):
        db = sqlite3.connect(path)
        with db:
            db.execute("UPDATE runs SET experiment = ?", (text,))
        db.close()
        with Store.read(tmp_path) as store:
            assert "run k in" in refusal(lambda store=store: store.run("k"))
            with pytest.warns(SkerryWarning, match="1 run is damaged in .*, and left out: k "):
                assert store.runs() == []


def test_a_file_in_the_place_of_the_folder_is_explained(tmp_path):
    """A folder that cannot be made is named."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert str(folder) in refusal(lambda folder=folder: Store.open(folder))
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    assert "cannot be opened" in refusal(lambda: Store.open(tmp_path / "taken"))


def test_a_folder_without_leave_to_write_can_be_read():
    """Where nothing may be written, a store is read, and recording is refused in a line."""
    script = """
import os
if os.geteuid() == 0:  # the superuser may write anywhere; nobody may not
    os.setuid(65534)
with Store.read(folder) as store:
    print(store.run("k").rounds_done, store.history("k")["round"].tolist())
for where in (folder, folder + "/new"):
    try:
        Store.open(where).begin({"k2": Experiment()}, materials={}, world="", versions={})
    except RecordsError as error:
        print(error)
"""
    folder = Path(tempfile.mkdtemp())
    try:
        recorded(folder)
        folder.chmod(0o555)
        lines = child(script, folder).communicate()[0].splitlines()
        assert lines[0] == "5 [0, 1, 2, 3, 4, 5]"
        assert lines[1].startswith(f"cannot use the store {folder / FILE}: it ")
        assert lines[2].startswith(f"cannot make the folder {folder / 'new'}")
        assert len(lines) == 3
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_store_whose_making_was_killed_is_made_anew(tmp_path):
    """Some of its pages are in the file and none is valid: SQLite undoes them at the first look,
    and what is left is an empty file, not one of another program."""
    db = sqlite3.connect(tmp_path / "making.sqlite", isolation_level=None)
    db.execute("PRAGMA cache_size = 1")  # pages go to the file before the transaction ends
    db.execute("BEGIN IMMEDIATE")
    for statement in database.SCHEMA:
        db.execute(statement)
    db.execute("INSERT INTO measures (names) VALUES (?)", ["x" * 100_000])
    for end in ("", "-journal"):
        shutil.copy(tmp_path / f"making.sqlite{end}", tmp_path / f"killed.sqlite{end}")
    db.rollback()
    db.close()
    assert (tmp_path / "killed.sqlite").stat().st_size > 0
    killed = database.create_or_open(tmp_path / "killed.sqlite")
    assert killed.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    assert killed.execute("SELECT count(*) FROM measures").fetchone() == (0,)
    killed.close()
