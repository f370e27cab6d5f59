"""Pull any plug at any moment: nothing finished is lost, nothing is recorded twice, and the next
start ends where an undisturbed sweep ends."""

import os
import random
import signal
import sqlite3
import time
from functools import partial

import numpy as np
import pytest

from conftest import small
from skerry.records.store import Store
from skerry.runs.run import run
from sweep_children import nursery, until

pytestmark = pytest.mark.slow

AXES = {"server.primitive": ["s2s", "s2a"], "server.period": [3, 4]}


@pytest.fixture(scope="module")
def children():
    with nursery() as found:
        yield found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The rows of the sweep when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("whole")
    run(write(folder), out=folder, device="cpu")
    return rows_of(folder)


def write(folder, *settings, seeds=3, axes=AXES):
    """A sweep file, in which runs take a good part of a second."""
    file = folder / "sweep.toml"
    lines = [small("rounds=300", *settings).to_toml(), f"[sweep]\nseeds = {seeds}\n[sweep.axes]"]
    lines += [f'"{field}" = {values}' for field, values in axes.items()]
    file.write_text("\n".join(lines))
    return file


def rows_of(folder):
    """Everything that is recorded, by what tells the runs apart."""
    with Store.read(folder) as store:
        found = [(run, store.history(run.key)) for run in store.runs()]
    rows = {
        (run.experiment.seed, *run.experiment.server.__dict__.values()): (
            run.status, run.rounds_done, history
        )
        for run, history in found
    }  # fmt: skip
    assert len(rows) == len(found)
    return rows


def assert_same(ours, theirs, rtol=0.0):
    assert ours.keys() == theirs.keys()
    for key, (status, rounds, history) in ours.items():
        assert (status, rounds) == theirs[key][:2]
        assert history.keys() == theirs[key][2].keys()
        for name, values in history.items():
            np.testing.assert_allclose(
                values, theirs[key][2][name], rtol, rtol, equal_nan=True, err_msg=name
            )


def assert_whole(folder):
    """SQLite itself finds the store sound, and no files are left of what was interrupted."""
    with sqlite3.connect(folder / "skerry.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    left = {path.name for path in folder.iterdir()} - {"skerry.sqlite-wal", "skerry.sqlite-shm"}
    assert left == {"skerry.sqlite"}


def test_a_driver_killed_at_ten_random_moments(children, tmp_path, whole):
    file, out = write(tmp_path), tmp_path / "killed"
    moments = random.Random(4)
    for _ in range(10):
        child = children.start(file, out, checkpoint_seconds=0.02)
        time.sleep(moments.uniform(0.02, 0.2))
        child.kill(signal.SIGKILL)
        child.wait()
    assert children.start(file, out, checkpoint_seconds=0.02).wait() == 0
    assert_same(rows_of(out), whole)
    assert_whole(out)


def test_a_driver_killed_while_its_workers_are_at_work(children, tmp_path, whole):
    """They end with it, and those of the next start go on from their checkpoints."""
    file, out = write(tmp_path), tmp_path / "killed"
    for _ in range(2):
        child = children.start(file, out, workers=2, checkpoint_seconds=0.02)
        until(lambda: list(out.glob("workers/*/checkpoints/*.safetensors")))
        child.kill(signal.SIGKILL)
        assert child.wait() is None
    assert children.start(file, out, workers=2, checkpoint_seconds=0.02).wait() == 0
    assert_same(rows_of(out), whole)
    assert_whole(out)


@pytest.mark.parametrize("executor", ["processes", "ray"])
def test_a_killed_worker_is_replaced(children, tmp_path, whole, executor):
    """Twice; its stack goes on elsewhere, and the sweep ends as if nothing had been."""
    if executor == "ray":
        pytest.importorskip("ray")
    log = tmp_path / "log"
    model = "model.name=sweep_plugins:watched", f"model.log={log}"
    file, out = write(tmp_path, *model), tmp_path / "killed"
    child = children.start(file, out, executor=executor, workers=2, checkpoint_seconds=0.02)
    killed: list[int] = []
    for _ in range(2):
        until(partial(workers_in, log, child, killed))
        time.sleep(0.1)
        killed += workers_in(log, child, killed)[-1:]
        os.kill(killed[-1], signal.SIGKILL)
    assert child.wait() == 0
    assert_same(rows_of(out), whole, rtol=1e-5)
    assert_whole(out)


def workers_in(log, driver, killed):
    """The processes that have built a world, without the driver."""
    pids = map(int, log.read_text().split()) if log.exists() else ()
    return [pid for pid in pids if pid not in (driver.pid, *killed)]


def test_two_sweeps_on_one_store_share_the_work(children, tmp_path, whole):
    file, out = write(tmp_path), tmp_path / "shared"
    both = [children.start(file, out) for _ in range(2)]
    assert [child.wait() for child in both] == [0, 0]
    assert_same(rows_of(out), whole)
    assert_whole(out)


def test_a_sweep_waits_for_a_world_that_another_has_and_takes_it_over(children, tmp_path, whole):
    """The other is killed: its lock goes with it."""
    file, out = write(tmp_path, seeds=1), tmp_path / "shared"
    first = children.start(file, out, checkpoint_seconds=0.02)
    until(lambda: list(out.glob("checkpoints/*.safetensors")))
    second = children.start(file, out)
    time.sleep(0.1)
    assert not second.ended()
    first.kill(signal.SIGKILL)
    assert second.wait() == 0
    assert_same(rows_of(out), {key: row for key, row in whole.items() if key[0] == 0})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_loses_nothing(children, tmp_path, workers, whole):
    """The sweep stops with one line; with more space the next start goes on."""
    file, out = write(tmp_path), tmp_path / "full"
    child = children.start(file, out, workers=workers, most_bytes=120_000)
    assert child.wait() == 2
    before = rows_of(out)
    assert any(status != "finished" for status, *_ in before.values()) or len(before) < 12
    assert children.start(file, out, workers=workers).wait() == 0
    after = rows_of(out)
    assert_same(after, whole)
    finished = {key: row for key, row in before.items() if row[0] == "finished"}
    assert_same(finished, {key: after[key] for key in finished})


def test_ctrl_c_ends_a_sweep_that_can_go_on(children, tmp_path, whole):
    file, out = write(tmp_path), tmp_path / "stopped"
    child = children.start(file, out, checkpoint_seconds=0.02)
    until(lambda: list(out.glob("checkpoints/*.safetensors")))
    child.kill(signal.SIGINT)
    assert child.wait() == 130
    assert children.start(file, out).wait() == 0
    assert_same(rows_of(out), whole)
    assert_whole(out)
