"""Sweeps that are killed at random moments, again and again: the last start ends with the rows of
an undisturbed sweep, each of them once."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from conftest import small
from recorded_runs import assert_same, histories
from skerry.records.maintenance import verify_store
from sweep_children import nursery, until

LONGEST = 15.0
"""Seconds between two strikes, at most: a busy machine takes long to start a Ray."""
LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")


@pytest.fixture(scope="module")
def children():
    with nursery() as found:
        yield found


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, children):
    """A sweep of two worlds, and its rows when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("sweep")
    file = folder / "sweep.toml"
    file.write_text(
        small("rounds=200").to_toml()
        + '[sweep]\nseeds = 2\n[sweep.axes]\n"server.primitive" = ["s2s", "s2a", "blend"]\n'
    )
    assert children.start(file, folder / "whole").wait() == 0
    return file, histories(folder / "whole")


def campaign(children, sweep, out, kills, seed, options, counts):
    """Kill so many times; a sweep that comes to its end in between begins anew elsewhere."""
    file, whole = sweep
    began = time.monotonic()
    assert children.start(file, out / "undisturbed", **options).wait() == 0
    seconds = min(LONGEST, time.monotonic() - began)
    draw = random.Random(seed)
    ends = Counter()
    number = 0
    while ends["killed"] + ends["stopped"] < kills:
        folder = out / str(number)
        child = children.start(file, folder, checkpoint_seconds=0.02, **options)
        if disturbed(draw, child, folder, seconds, ends):
            continue
        assert child.wait() == 0
        check(folder, whole)
        ends["ended between"] += 1
        number += 1
    folder = out / str(number)
    assert children.start(file, folder, checkpoint_seconds=0.02, **options).wait() == 0
    check(folder, whole)
    ends["ended"] = ends.pop("ended between", 0) + 1
    done = ", ".join(f"{times} {what}" for what, times in sorted(ends.items()))
    where = options.get("executor", "processes" if options else "here")
    counts(f"kills, {where}: {done}, all with the rows of an undisturbed sweep")


def disturbed(draw, child, folder, seconds, ends):
    """Strike at a random moment; False if the sweep was over by then."""
    workers = draw.random() < 0.3
    time.sleep(draw.uniform(0.0, seconds * 0.9) if draw.random() < 0.8 else 0.0)
    if child.ended():
        return False
    if workers and (pids := children_of(child.pid)):
        os.kill(draw.choice(pids), signal.SIGKILL)  # its driver replaces it
        ends["workers killed"] += 1
        time.sleep(draw.uniform(0.0, seconds))
    strike = signal.SIGKILL if draw.random() < 0.8 else signal.SIGINT
    child.kill(strike)
    until(child.ended)
    ends["killed" if strike == signal.SIGKILL else "stopped"] += 1
    return True


def children_of(pid):
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def check(folder, whole):
    assert_same(histories(folder), whole)
    assert verify_store(folder).faults == {}
    assert verify_store(folder).not_checked == {}
    with sqlite3.connect(folder / "skerry.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    left = {path.name for path in folder.iterdir() if "skerry.sqlite" not in path.name}
    assert left == set(), "nothing is left of what was killed"


def test_a_sweep_killed_at_random_moments(children, sweep, tmp_path, counts):
    campaign(children, sweep, tmp_path, 8, 1, {}, counts)


@pytest.mark.slow
def test_a_sweep_killed_many_times(children, sweep, tmp_path, counts):
    campaign(children, sweep, tmp_path, 60, 2, {}, counts)


@LINUX
@pytest.mark.slow
def test_a_sweep_on_ray_killed_many_times(children, sweep, tmp_path, counts):
    pytest.importorskip("ray")
    campaign(children, sweep, tmp_path, 10, 4, {"executor": "ray", "workers": 2}, counts)


@LINUX
@pytest.mark.slow
def test_a_sweep_in_processes_killed_many_times(children, sweep, tmp_path, counts):
    campaign(children, sweep, tmp_path, 30, 3, {"workers": 2}, counts)
