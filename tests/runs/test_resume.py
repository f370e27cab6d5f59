"""Stop at any moment: the next start goes on, and ends where an undisturbed run ends."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from recorded_runs import PlugPulledError, assert_same, histories, lanes_of, record, run_world
from skerry.engine.world import build_world
from skerry.errors import RecordsError, SkerryWarning
from skerry.records.store import Store
from skerry.runs import stack_run
from skerry.runs.variants import expand


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("stop_after", [0, 1, 4, 6])
def test_resumed_equals_uninterrupted_bit_for_bit(small, tmp_path, model, stop_after):
    lanes = lanes_of(small(f"model.name={model}", "network.link_failure=0.2"))
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, stop_after)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)
    assert list((tmp_path / "parts" / "checkpoints").iterdir()) == []


def test_interrupted_again_and_again(small, tmp_path):
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    for stop_after in (1, 2, 2, 3, 5):
        with pytest.raises(PlugPulledError):
            record(tmp_path / "parts", lanes, stop_after)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


@pytest.mark.parametrize("name", ["top_k", "random_k", "int8"])
def test_compressed_messages_go_on_and_are_counted_on(small, tmp_path, name):
    """With all that both sides know, and all that links that fail have missed."""
    squeezed = (f"network.compression={name}", f"server.compression={name}")
    lanes = [*lanes_of(small()), *lanes_of(small(*squeezed, "network.link_failure=0.3"))]
    undisturbed = record(tmp_path / "whole", lanes)
    for stop_after in (2, 4):
        with pytest.raises(PlugPulledError):
            record(tmp_path / "parts", lanes, stop_after)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


def test_other_lanes_may_join_an_interrupted_stack(small, tmp_path):
    """What was begun goes on from its checkpoint, what is new starts afresh beside it."""
    first, second, third = lanes_of(small())
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", [first, second], 4)
    found = record(tmp_path / "parts", [third, second, first])
    whole = record(tmp_path / "whole", [first, second]) | record(tmp_path / "third", [third])
    assert_same(found, whole)


def test_a_lane_that_diverged_before_the_plug_was_pulled_stays_diverged(small, tmp_path):
    base = small("model.name=quadratic", "rounds=300", "evaluate.every=50")
    lanes = [base, base.with_settings("training.stepsize=50")]
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, 230)
    found = record(tmp_path / "parts", lanes)
    assert sorted(status for status, *_ in found.values()) == ["diverged", "finished"]
    assert {k: v[:2] for k, v in found.items()} == {k: v[:2] for k, v in undisturbed.items()}


CHILD = """
import sys
import skerry.runs.stack_run as stack_run
stack_run.CHECKPOINT_SECONDS = 0.0
import skerry
skerry.run(skerry.Experiment.load(sys.argv[1]), compare=["s2s", "s2a"], out=sys.argv[2],
           device="cpu")
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_was_recorded(small, tmp_path):
    """SIGKILL at several moments; the last start ends with exactly the undisturbed rows."""
    file = tmp_path / "experiment.toml"
    file.write_text(small("rounds=400").to_toml())

    def start(folder):
        command = [sys.executable, "-c", CHILD, str(file), str(folder)]
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})

    assert start(tmp_path / "whole").wait(600) == 0
    for wait in (0.05, 0.3, 0.7):
        child = start(tmp_path / "parts")
        deadline = time.monotonic() + 600
        while not (tmp_path / "parts" / "skerry.sqlite").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert start(tmp_path / "parts").wait(600) == 0
    assert_same(histories(tmp_path / "parts"), histories(tmp_path / "whole"))


@pytest.mark.parametrize(("saving", "saves"), [(0, 9), (10, 1)])
def test_what_takes_long_to_save_is_saved_less_often(small, tmp_path, monkeypatch, saving, saves):
    """A round takes a second, a checkpoint is due after two. If it takes ten seconds to save, the
    next is due after 200: a twentieth of the time goes into saving."""
    clock = SimpleNamespace(now=0.0)
    saved = []

    def save(*_):
        saved.append(clock.now)
        clock.now += saving

    def second(moment):
        clock.now += moment.phase == "end"

    monkeypatch.setattr(stack_run, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(stack_run, "save_stack", save)
    lanes = [small("rounds=20")]
    with Store.open(tmp_path) as store:
        run_world(
            build_world(lanes[0]), lanes, store, tmp_path, on_moment=second, checkpoint_seconds=2
        )
    assert len(saved) == saves


def test_a_checkpoint_that_cannot_be_saved_stops_nothing(small, tmp_path, monkeypatch):
    """The runs end as undisturbed ones do, and it is said that they had no safety net."""
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    monkeypatch.setattr("skerry.records.checkpoint.ROOM", 10**18)
    with pytest.warns(UserWarning, match=r"cannot write the checkpoint .* The runs go on"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed)


# Checkpoints and stores that do not fit

ROUNDING = 1e-4


def stopped(folder, lanes, stop_after=4):
    """Lanes that were stopped after some rounds, with a checkpoint; gives its file."""
    with pytest.raises(PlugPulledError):
        record(folder, lanes, stop_after)
    [file] = (folder / "checkpoints").glob("*.safetensors")
    return file


def test_a_damaged_checkpoint_is_told_and_its_runs_start_anew(small, tmp_path):
    """One flipped bit, which turned round 4 into another and went unseen, as a checkpoint's facts
    once had no checksum."""
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    file = stopped(tmp_path / "parts", lanes)
    content = file.read_bytes()
    place = content.index(b'\\"round\\": 4') + len(b'\\"round\\": ')
    file.write_bytes(content[:place] + b"5" + content[place + 1 :])
    with pytest.warns(SkerryWarning, match="is damaged .wrong checksum of the header.. Computed"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed)
    assert list((tmp_path / "parts" / "checkpoints").iterdir()) == []


def test_a_checkpoint_that_cannot_be_read_ends_the_run(small, tmp_path):
    """A folder in its place, a disk that fails, no leave to read: that can be mended, and hours of
    computing are not thrown away for it."""
    lanes = lanes_of(small())
    file = stopped(tmp_path, lanes)
    file.unlink()
    file.mkdir()
    with pytest.raises(RecordsError, match="cannot read the checkpoint"):
        record(tmp_path, lanes)


@pytest.mark.parametrize("every", [1, 3])
def test_a_store_behind_its_checkpoint_is_told_and_its_runs_start_anew(small, tmp_path, every):
    """A copy from before the checkpoint, put back: the rows in between would be missing."""
    lanes = lanes_of(small(f"evaluate.every={every}"))
    undisturbed = record(tmp_path / "whole", lanes)
    stopped(tmp_path / "parts", lanes, 3)
    shutil.copy(tmp_path / "parts" / "skerry.sqlite", tmp_path / "copy")
    stopped(tmp_path / "parts", lanes, 6)
    shutil.copy(tmp_path / "copy", tmp_path / "parts" / "skerry.sqlite")
    with pytest.warns(SkerryWarning, match="lacks rows of 3 runs that the checkpoint .* counts"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed)


def test_a_store_without_the_runs_of_a_checkpoint_is_told(small, tmp_path):
    """All is lost but the checkpoint, which is only half of a run; a lane that is whole goes on."""
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    stopped(tmp_path / "parts", lanes)
    world = build_world(lanes[0])
    with Store.open(tmp_path / "parts") as store:
        store.forget([world.key(lane) for lane in lanes[:2]])
    with pytest.warns(SkerryWarning, match="lacks rows of 2 runs"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed, ROUNDING)


def test_rows_without_a_checkpoint_are_told(small, tmp_path):
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    stopped(tmp_path / "parts", lanes).unlink()
    with pytest.warns(SkerryWarning, match="no checkpoint is left of 3 runs that had begun"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed)


def test_a_damaged_history_is_told_and_starts_anew(small, tmp_path):
    """A running run with a part that is not what was written."""
    lanes = lanes_of(small())
    undisturbed = record(tmp_path / "whole", lanes)
    stopped(tmp_path / "parts", lanes)
    with sqlite3.connect(tmp_path / "parts" / "skerry.sqlite") as db:
        db.execute("DROP TRIGGER history_changed")
        db.execute("UPDATE parts SET matrix = zeroblob(40) WHERE run = 2 AND first = 2")
    db.close()
    with pytest.warns(SkerryWarning, match="lacks rows of 1 run that"):
        found = record(tmp_path / "parts", lanes)
    assert_same(found, undisturbed, ROUNDING)


def test_a_checkpoint_comes_soon_and_then_less_often(small, tmp_path, monkeypatch):
    """After two seconds, four more, eight more: who stops early has not lost a minute."""
    clock = SimpleNamespace(now=0.0)
    saved = []

    def second(moment):
        clock.now += moment.phase == "end"

    monkeypatch.setattr(stack_run, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(stack_run, "save_stack", lambda *_: saved.append(clock.now))
    lanes = [small("rounds=200")]
    with Store.open(tmp_path) as store:
        run_world(build_world(lanes[0]), lanes, store, tmp_path, on_moment=second)
    assert saved == [2, 6, 14, 30, 62, 122, 182]


def test_what_killed_saves_have_left_is_removed(small, tmp_path):
    """A partial checkpoint of a process that is gone, in a folder that is written to again."""
    left = tmp_path / "checkpoints" / "any.safetensors.abc.partial"
    left.mkdir(parents=True)
    (left / "fresh").write_bytes(b"half of it")
    os.utime(left, (0, 0))
    record(tmp_path, lanes_of(small()))
    assert not left.exists()


def test_what_methods_keep_is_resumed_bit_for_bit(small, tmp_path):
    """Some lanes with companions, some with the server's memory, some with neither."""
    base = small("server.offset=2")
    names = ["s2s", "s2a", "gradient_tracking", "sd_gt", "mtgc", "scaffold", "mifa", "carry"]
    lanes = expand(base, names)
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, 4)
    shutil.copytree(tmp_path / "parts", tmp_path / "some first")
    assert_same(record(tmp_path / "parts", lanes), undisturbed)
    record(tmp_path / "some first", lanes[3:])
    assert_same(record(tmp_path / "some first", lanes), undisturbed, 1e-5)
