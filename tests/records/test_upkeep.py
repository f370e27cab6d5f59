"""`skerry store`: what is whole is told so and kept, what is not is named and let go."""

import random
import sqlite3

import pytest

from command_line import skerry, skerry_process
from conftest import small
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records.maintenance import (
    OTHER_FIELDS,
    OWN_CODE,
    THE_FILE,
    back_up_store,
    repair_store,
    verify_store,
)
from skerry.records.store import FILE, Store
from skerry.runs.run import run

SEEDS = 30


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The bytes of a store with finished runs, and what they tell."""
    folder = tmp_path_factory.mktemp("study")
    run(small("rounds=3"), seeds=SEEDS, out=folder, device="cpu")
    return (folder / FILE).read_bytes(), told(folder)


@pytest.fixture
def folder(tmp_path, study):
    (tmp_path / FILE).write_bytes(study[0])
    return tmp_path


def told(folder):
    with Store.read(folder) as store:
        return {
            one.key: (one, {name: values.tobytes() for name, values in history.items()})
            for one, history in store.histories()
        }


def change(folder, statement, *values, sealed=False):
    db = sqlite3.connect(folder / FILE)
    with db:
        if sealed:
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
                db.execute(f"DROP TRIGGER {name}")
        db.execute(statement, values)
    db.close()


# verify


def test_a_whole_store_is_told_so(folder):
    outcome = skerry("store", "verify", folder)
    assert outcome.code == 0
    assert outcome.out == f"30 runs in {folder / FILE}: 30 intact, 0 damaged.\n"


def test_a_run_is_known_by_its_key_even_without_checksums(folder):
    """Somebody has edited a seed: the text does not belong to the key any more."""
    change(
        folder, "UPDATE runs SET experiment = replace(experiment, '\"seed\": 3,', '\"seed\": 99,')"
    )
    outcome = skerry("store", "verify", folder)
    assert outcome.code == 1
    assert "its experiment and materials belong to run" in outcome.out
    assert "30 runs" in outcome.out
    assert "29 intact, 1 damaged" in outcome.out


def test_missing_rows_are_known_even_without_checksums(folder):
    change(
        folder, "UPDATE runs SET experiment = replace(experiment, '\"rounds\": 3', '\"rounds\": 4')"
    )
    faults = verify_store(folder).faults
    assert len(faults) == SEEDS
    assert set(faults.values()) == {"finished, but recorded up to round 3 of 4 only"}


def test_holes_are_known_even_without_checksums(tmp_path):
    facts = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}
    experiment = Experiment(rounds=9)
    with Store.open(tmp_path) as store:
        store.begin({experiment.key(): experiment}, **facts)
        for start in (0, 3, 6):
            rounds = list(range(start, start + 3 + (start == 6)))
            store.append({experiment.key(): {"round": rounds, "train_loss": rounds}})
        store.finish(experiment.key(), "finished", wall_seconds=1.0)
    assert verify_store(tmp_path).faults == {}
    change(tmp_path, "DELETE FROM parts WHERE first = 3")
    assert list(verify_store(tmp_path).faults.values()) == ["3 rows are missing before round 9"]


def test_keys_that_count_what_is_not_imported_are_not_checked(folder):
    change(
        folder, "UPDATE runs SET experiment = replace(experiment, '\"linear\"', '\"nowhere:any\"')"
    )
    found = verify_store(folder)
    assert found.faults == {}
    assert len(found.not_checked[OWN_CODE]) == SEEDS


def test_keys_of_other_versions_are_not_checked(folder):
    """A field that they did not have yet would have today's default."""
    change(
        folder, "UPDATE runs SET experiment = replace(experiment, '\"momentum\"', '\"inertia\"')"
    )
    found = verify_store(folder)
    assert found.faults == {}
    assert len(found.not_checked[OTHER_FIELDS]) == SEEDS


def test_a_damaged_file_is_told(folder, study):
    (folder / FILE).write_bytes(study[0][:-4096])
    outcome = skerry("store", "verify", folder)
    assert outcome.code == 1
    assert outcome.out.startswith(f"damaged: {THE_FILE}: ")
    assert f"skerry store repair {folder}" in outcome.out


def test_what_is_no_store_is_refused(tmp_path):
    assert skerry("store", "verify", tmp_path).err.startswith("error: no store at")


# forget


def test_forgotten_runs_are_computed_again(folder, study):
    key = list(study[1])[3]
    outcome = skerry("store", "forget", folder, key, "--yes")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("Removed 1 run.")
    assert list(told(folder)) == [other for other in study[1] if other != key]
    run(small("rounds=3"), seeds=SEEDS, out=folder, device="cpu")
    assert told(folder)[key][1].keys() == study[1][key][1].keys()


def test_forgetting_asks(folder, study):
    key = next(iter(study[1]))
    outcome = skerry_process("store", "forget", folder, key)  # nobody answers
    assert outcome.code == 1
    assert f"Remove 1 run of {folder}, with all rounds?" in outcome.out
    assert len(told(folder)) == SEEDS


def test_an_unknown_run_is_told(folder):
    outcome = skerry("store", "forget", folder, "nowhere", "--yes")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no run nowhere")
    assert len(told(folder)) == SEEDS


def test_a_damaged_run_can_be_forgotten(folder, study):
    key = list(study[1])[3]
    change(folder, "UPDATE parts SET matrix = x'00' WHERE run = 4", sealed=True)
    assert skerry("store", "forget", folder, key, "--yes").code == 0
    assert verify_store(folder).faults == {}


# backup


def test_a_backup_is_the_store_in_one_file(folder, study, tmp_path):
    """Also while somebody writes."""
    with Store.open(folder) as writer, writer.transaction():
        writer.forget([next(iter(study[1]))])
        outcome = skerry("store", "backup", folder, tmp_path / "copy.sqlite")
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"Wrote 30 runs to {tmp_path / 'copy.sqlite'}.\n"
    assert told(tmp_path / "copy.sqlite") == study[1]
    with Store.read(tmp_path / "copy.sqlite") as store:
        assert store._select("PRAGMA journal_mode") == [("delete",)]
    assert not list(tmp_path.glob(".*"))


def test_a_backup_overwrites_nothing(folder):
    (folder / "mine").write_text("mine")
    with pytest.raises(RecordsError, match="is there already"):
        back_up_store(folder, folder / "mine")
    with pytest.raises(RecordsError, match="cannot write"):
        back_up_store(folder, folder / "nowhere" / "copy")
    assert (folder / "mine").read_text() == "mine"


# repair


def test_a_sound_store_is_left_alone(folder, study):
    assert repair_store(folder) is None
    assert (folder / FILE).read_bytes() == study[0]
    assert skerry("store", "repair", folder).out == f"Nothing is damaged in {folder}.\n"


@pytest.mark.parametrize("column", ["experiment = '{'", "status = 'done'", "note = x'ff'"])
def test_runs_that_are_whole_are_kept(folder, study, column):
    """And the damaged file, too."""
    db = sqlite3.connect(folder / FILE)
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute("DROP TRIGGER entry_changed")
    db.execute(f"UPDATE runs SET {column} WHERE id = 4")
    db.commit()
    db.close()
    spoiled = (folder / FILE).read_bytes()
    outcome = skerry("store", "repair", folder)
    assert outcome.code == 0, outcome.err
    lost = list(study[1])[3]
    assert f"Kept 29 runs in {folder}." in outcome.out
    assert told(folder) == {key: value for key, value in study[1].items() if key != lost}
    [aside] = folder.glob(f"{FILE}.damaged-*")
    assert aside.read_bytes() == spoiled
    assert str(aside) in outcome.out
    assert verify_store(folder).faults == {}
    assert verify_store(folder).not_checked == {}


@pytest.mark.parametrize("seed", range(12))
def test_what_can_be_read_of_a_damaged_file_is_kept(folder, study, seed):
    """Half a kilobyte of noise, or pages cut off: every run that is kept is what it was."""
    draw = random.Random(seed)
    content = bytearray(study[0])
    if seed % 3:
        place = draw.randrange(4096, len(content) - 512)
        content[place : place + 512] = draw.randbytes(512)
    else:
        del content[4096 * draw.randrange(len(content) // 8192, len(content) // 4096) :]
    (folder / FILE).write_bytes(content)
    try:
        done = repair_store(folder)
    except RecordsError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert (folder / FILE).read_bytes() == content
        return
    if done is None:
        assert told(folder) == study[1]
        return
    kept = told(folder)
    assert all(study[1][key] == value for key, value in kept.items())
    assert len(kept) == done.kept
    assert verify_store(folder).faults == {}
    run(small("rounds=3"), seeds=SEEDS, out=folder, device="cpu")
    assert told(folder).keys() == study[1].keys()


def test_nobody_is_disturbed_at_work(folder, monkeypatch):
    monkeypatch.setattr("skerry.records.activity.is_working", lambda folder: True)
    for command in (("repair", folder), ("forget", folder, next(iter(told(folder))), "--yes")):
        outcome = skerry("store", *command)
        assert outcome.code == 2
        assert "another process is computing in" in outcome.err
    assert len(told(folder)) == SEEDS
