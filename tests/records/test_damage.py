"""Damage is found wherever it strikes, costs the runs that it struck, and is told in a line."""

import sqlite3
import zlib

import numpy as np
import pytest
import torch

from command_line import skerry
from skerry.config.experiment import Experiment
from skerry.errors import DamagedError, RecordsError, SkerryWarning
from skerry.records import checkpoint, parts
from skerry.records.store import FILE, Store
from skerry.runs.run import run

FACTS = {"materials": {}, "world": "w", "device": "cpu", "versions": {"numpy": "2"}}
COUNT = 14


def flipped(content, bit):
    spoiled = bytearray(content)
    spoiled[bit // 8] ^= 1 << bit % 8
    return bytes(spoiled)


# Checkpoints


def test_no_bit_of_a_checkpoint_changes_unseen(tmp_path):
    """Every bit of the header, of the facts and of the tensors: the file is refused with a line."""
    path = tmp_path / "c"
    facts = {"round": 13, "lanes": ["a", "Ærø"], "ledger": {"a": [1, 2, 3]}, "chunk": 4}
    checkpoint.save_checkpoint(path, {"X": torch.arange(3.0), "none": torch.empty(0, 3)}, facts)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        path.write_bytes(flipped(content, bit))
        with pytest.raises(RecordsError) as error:
            checkpoint.load_checkpoint(path, "cpu")
        assert "\n" not in str(error.value)
    path.write_bytes(content)
    assert checkpoint.load_checkpoint(path, "cpu")[1] == facts


def test_a_checkpoint_of_a_newer_version_is_refused_as_such(tmp_path, monkeypatch):
    """It is not damaged: it is for who made it."""
    with monkeypatch.context() as newer:
        newer.setattr(checkpoint, "FORMAT", 3)
        checkpoint.save_checkpoint(tmp_path / "c", {"X": torch.zeros(1)}, {})
    with pytest.raises(RecordsError, match="made by a newer skerry") as error:
        checkpoint.load_checkpoint(tmp_path / "c", "cpu")
    assert not isinstance(error.value, DamagedError)


# Stores


def recorded(folder, count=COUNT):
    """Finished runs of a few rounds, in two parts each."""
    with Store.open(folder) as store:
        for seed in range(count):
            key = Experiment(rounds=5, seed=seed).key()
            store.begin({key: Experiment(rounds=5, seed=seed)}, **FACTS)
            for start in (0, 3):
                rounds = np.arange(start, start + 3)
                columns = {"average_accuracy": rounds + seed / 7, "train_loss": 1 / (1 + rounds)}
                store.append({key: {"round": rounds, **columns}})
            store.finish(key, "finished", wall_seconds=1.5)
    return folder / FILE


def read(folder):
    """All that is told, as values that can be compared."""
    with Store.read(folder) as store:
        return [
            (run, {name: values.tolist() for name, values in history.items()})
            for run, history in store.histories()
        ]


def spoil(path, statement, *values):
    """Change what is stored, as a disk would: nobody takes the checksums away."""
    db = sqlite3.connect(path)
    with db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement, values)
    db.close()


ENTRIES = {
    "key": "f00",
    "status": "failed",
    "experiment": "replace(experiment, '\"seed\": 3', '\"seed\": 2')",
    "materials": '{"data": "x"}',
    "world": "v",
    "device": "cpv",
    "versions": "{}",
    "started": "2020",
    "finished": "2020",
    "wall_seconds": 2.5,
    "note": "n",
}


@pytest.mark.parametrize("column", ENTRIES)
def test_no_entry_of_a_run_changes_unseen(tmp_path, column):
    """What would be read as another seed, another ending or another machine is left out."""
    path = recorded(tmp_path)
    value = ENTRIES[column]
    if column == "experiment":
        spoil(path, f"UPDATE runs SET experiment = {value} WHERE id = 4")
    else:
        spoil(path, f"UPDATE runs SET {column} = ? WHERE id = 4", value)
    with pytest.warns(SkerryWarning, match="1 run is damaged .*wrong checksum of its entry"):
        told = read(tmp_path)
    assert [run.experiment.seed for run, _ in told] == [s for s in range(COUNT) if s != 3]


HISTORIES = {
    "another run's part": "UPDATE parts SET run = 4, last = 9 WHERE run = 5 AND first = 3",
    "a lost part": "DELETE FROM parts WHERE run = 4 AND first = 0",
    "all parts lost": "DELETE FROM parts WHERE run = 4",
    "another name": "UPDATE measures SET names = replace(names, 'loss', 'lost')",
    "other rounds": "UPDATE parts SET first = 2 WHERE run = 4 AND first = 3",
    "a stranger's values": "UPDATE parts SET matrix = (SELECT matrix FROM parts WHERE run = 5 AND "
    "first = 3) WHERE run = 4 AND first = 3",
    "no measures": "UPDATE parts SET measures = 9 WHERE run = 4 AND first = 3",
}


@pytest.mark.parametrize("statement", HISTORIES.values(), ids=HISTORIES)
def test_no_history_changes_unseen(tmp_path, statement):
    """What is told is what was recorded; the rest is left out, and named."""
    path = recorded(tmp_path)
    before = {run.key: (run, history) for run, history in read(tmp_path)}
    spoil(path, statement)
    with pytest.warns(SkerryWarning, match="damaged .*wrong checksum of its history"):
        told = read(tmp_path)
    assert len(told) < COUNT
    for one, history in told:
        assert (one, history) == before[one.key]
    with Store.read(tmp_path) as store:
        [key] = [key for key, (one, _) in before.items() if one.experiment.seed == 3]
        with pytest.raises(DamagedError, match=f"skerry store forget {tmp_path} {key}"):
            store.history(key)


def test_who_changes_a_run_takes_its_checksums_away(tmp_path):
    """An older version, or a person with an SQLite shell, damages nothing."""
    path = recorded(tmp_path)
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE runs SET note = 'mine' WHERE id = 1")
        db.execute("DELETE FROM parts WHERE run = 2 AND first = 3")
        db.execute("UPDATE parts SET run = 2 WHERE run = 3 AND first = 3")
    db.close()
    with Store.read(tmp_path) as store:
        assert store.run(Experiment(rounds=5, seed=0).key()).note == "mine"
        assert len(store.histories()) == COUNT
        assert len(store.without_checksums()) == 3


def test_bytes_that_are_no_text_cost_one_run(tmp_path):
    """SQLite itself would refuse to tell any."""
    path = recorded(tmp_path)
    spoil(path, "UPDATE runs SET note = CAST(x'ff41' AS TEXT) WHERE id = 4")
    with pytest.warns(SkerryWarning, match="1 run is damaged"):
        assert len(read(tmp_path)) == COUNT - 1


@pytest.mark.parametrize("struck", [b"history_changed", b"CREATE TABLE parts"])
def test_a_schema_that_is_no_text_is_damage(tmp_path, struck):
    """SQLite quotes it in its complaint, which Python cannot read then."""
    path = recorded(tmp_path, 2)
    content = path.read_bytes()
    path.write_bytes(content.replace(struck, b"\xe8" + struck[1:], 1))
    with pytest.raises(RecordsError, match="damaged"):
        read(tmp_path)


@pytest.mark.parametrize("struck", [b"id INTEGER PRIMARY", b"matrix BLOB", b"wall_seconds REAL"])
def test_a_schema_that_says_something_else_is_damage(tmp_path, struck):
    """One bit makes INTEGER0PRIMARY of INTEGER PRIMARY: no run would have rounds, in silence."""
    path = recorded(tmp_path, 2)
    content = path.read_bytes()
    path.write_bytes(content.replace(struck, b"0".join(struck.rsplit(b" ", 1)), 1))
    with pytest.raises(RecordsError, match="damaged"):
        read(tmp_path)
    with pytest.raises(RecordsError, match="damaged"):
        Store.open(tmp_path)


def test_lost_pages_are_missed(tmp_path):
    """Rows that vanish with a page are not overlooked: the store is refused."""
    path = recorded(tmp_path, 40)
    content = bytearray(path.read_bytes())
    leaf = next(p for p in range(4096, len(content), 4096) if content[p] == 13)
    cells = int.from_bytes(content[leaf + 3 : leaf + 5], "big")
    content[leaf + 3 : leaf + 5] = (cells - 1).to_bytes(2, "big")
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=f"damaged.*skerry store repair {tmp_path}"):
        Store.read(tmp_path)
    with pytest.raises(DamagedError):
        Store.open(tmp_path)


def test_a_blob_takes_no_more_memory_than_its_rows_can(tmp_path):
    """A few kilobytes that would become a gigabyte."""
    path = recorded(tmp_path)
    bomb = zlib.compress(bytes(2**28), 9)
    db = sqlite3.connect(path)
    with db:  # with no checksums, as in a store that somebody made up
        db.execute("UPDATE parts SET matrix = ? WHERE run = 4 AND first = 3", (bomb,))
    db.close()
    import tracemalloc

    tracemalloc.start()
    with pytest.warns(SkerryWarning, match="more values than it has rounds and measures"):
        read(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.parametrize(("first", "last"), [(4, 3), (-1, 5), (0, 2**62), ("a", 5), (3, 4)])
def test_rounds_that_are_none_are_damage(tmp_path, first, last):
    path = recorded(tmp_path)
    db = sqlite3.connect(path)
    with db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        values = (first, last)
        db.execute("UPDATE parts SET first = ?, last = ? WHERE run = 4 AND first = 3", values)
    db.close()
    try:
        with pytest.warns(SkerryWarning, match="1 run is damaged"):
            assert len(read(tmp_path)) == COUNT - 1
    except RecordsError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("results",),
        ("report", "--out", "{}/page.html"),
        ("figure", "curves", "--out", "{}/curves.png"),
        ("watch", "--once"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("struck", ["entry", "history"])
def test_one_damaged_run_hides_no_other(tmp_path, small, command, struck):
    """Every reader shows the rest, and names the one that is missing."""
    run(small("rounds=2"), seeds=4, out=tmp_path / "runs", device="cpu")
    with Store.read(tmp_path / "runs") as store:
        key = store.runs()[3].key
    if struck == "entry":
        spoil(tmp_path / "runs" / FILE, "UPDATE runs SET experiment = '{' WHERE id = 4")
    else:
        spoil(tmp_path / "runs" / FILE, "UPDATE parts SET matrix = x'00' WHERE run = 4")
    kind = command[:2] if command[0] == "figure" else command[:1]
    options = [option.format(tmp_path) for option in command[len(kind) :]]
    with pytest.warns(SkerryWarning, match=f"1 run is damaged in .*, and left out: {key}") as told:
        outcome = skerry(*kind, tmp_path / "runs", *options)
    assert len(told) == 1
    assert outcome.code == 0, outcome.err


def test_checksums_cost_next_to_nothing(tmp_path):
    """Each run has two numbers."""
    recorded(tmp_path)
    with Store.read(tmp_path) as store:
        assert store._select(f"SELECT count(*) FROM {parts.CHECKSUM_TABLE}") == [(2 * COUNT,)]
        assert store.without_checksums() == set()
