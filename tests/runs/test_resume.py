"""Stop at any moment: the next start goes on, and ends where an undisturbed run ends."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from skerry.engine.world import build_world
from skerry.records.store import Store
from skerry.runs import stack_run
from skerry.runs.stack_run import run_world


class PlugPulledError(Exception):
    pass


def lanes_of(base):
    return [
        base.with_settings(f"server.primitive={p}", f"server.optimizer={o}")
        for p, o in (("s2s", "fedavg"), ("s2a", "fedavgm"), ("blend", "fedavg"))
    ]


def record(folder, experiments, stop_after=None):
    """Run with a checkpoint after every round; pull the plug in the round after `stop_after`."""
    world = build_world(experiments[0])

    def progress(moment):
        if stop_after is not None and moment.phase == "before_server" and moment.round > stop_after:
            raise PlugPulledError

    with Store.open(folder) as store:
        done = store.finished([world.key(e) for e in experiments])
        waiting = [e for e in experiments if world.key(e) not in done]
        run_world(
            world, waiting, store, folder / "checkpoints", progress=progress, checkpoint_seconds=0
        )
    return histories(folder)


def histories(folder):
    with Store.read(folder) as store:
        return {
            run.key: (run.status, run.rounds_done, store.history(run.key)) for run in store.runs()
        }


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, (status, rounds, history) in ours.items():
        assert (status, rounds) == theirs[key][:2]
        assert history.keys() == theirs[key][2].keys()
        for name, values in history.items():
            assert np.array_equal(values, theirs[key][2][name], equal_nan=True), name


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
from pathlib import Path
import skerry.runs.stack_run as stack_run
stack_run.CHECKPOINT_SECONDS = 0.0
stack_run.run_world.__kwdefaults__["checkpoint_seconds"] = 0.0
import skerry
skerry.run(skerry.Experiment.load(sys.argv[1]), compare=["s2s", "s2a"], out=Path(sys.argv[2]),
           device="cpu")
"""


def test_a_killed_process_loses_nothing_that_was_recorded(small, tmp_path):
    """SIGKILL at several moments; the last start ends with exactly the undisturbed rows."""
    file = tmp_path / "experiment.toml"
    file.write_text(small("rounds=400").to_toml())

    def start(folder):
        command = [sys.executable, "-c", CHILD, str(file), str(folder)]
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})

    assert start(tmp_path / "whole").wait(120) == 0
    for wait in (0.05, 0.3, 0.7):
        child = start(tmp_path / "parts")
        deadline = time.monotonic() + 60
        while not (tmp_path / "parts" / "skerry.sqlite").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert start(tmp_path / "parts").wait(120) == 0
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
    monkeypatch.setattr(stack_run, "_save", save)
    lanes = [small("rounds=20")]
    with Store.open(tmp_path) as store:
        run_world(
            build_world(lanes[0]), lanes, store, tmp_path, progress=second, checkpoint_seconds=2
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
