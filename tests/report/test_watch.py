"""`skerry watch`: what a second terminal tells of a sweep that another process computes."""

import io
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from command_line import SCRIPT, environment, skerry
from skerry.analysis.run_table import results
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records import activity
from skerry.records.activity import Presence, device_steps, is_alive, is_working, text_digest
from skerry.records.store import FILE, Store
from skerry.report.screens import watch
from skerry.report.screens.watch import render, show_live, verdict
from skerry.report.snapshot import covered_length, recent_speed
from skerry.report.watched import WatchedFolder
from skerry.runs.progress import Progress
from skerry.runs.run import run
from sweep_children import nursery, until

TINY = ("network.devices=6", "server.sampled=3", "training.batch=8", "evaluate.every=5")
AXES = '"server.primitive" = ["s2s", "s2a"]\n"server.period" = [2, 3]\n'
LONG = "rounds=4000"
"""So many rounds of the digits take seconds, however quick the machine."""


@pytest.fixture(scope="module")
def children():
    with nursery() as found:
        yield found


def write(folder, *settings, seeds=3, axes=AXES):
    """Twelve short runs on the digits."""
    file = folder / "sweep.toml"
    experiment = Experiment.parse({}, [*TINY, "rounds=10", *settings])
    file.write_text(f"{experiment.to_toml()}\n[sweep]\nseeds = {seeds}\n[sweep.axes]\n{axes}")
    return file


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep that is done."""
    folder = tmp_path_factory.mktemp("swept")
    run(write(folder), out=folder / "out", device="cpu")
    return folder / "out"


def plan_of(folder):
    """The plan of the newest driver of a folder; None where there is no store yet."""
    if not (folder / FILE).exists():
        return None
    with suppress(RecordsError), Store.read(folder) as store:
        return store.activity().plan


def counts(snapshot):
    return {
        name: getattr(snapshot, name)
        for name in ("finished", "running", "failed", "diverged", "to_do", "others")
    }


def as_text(snapshot, **options):
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    console.print(render(snapshot, **options))
    return console.file.getvalue()


def test_a_sweep_that_is_done(swept):
    """All runs are counted as finished, nobody is at work, nothing is left."""
    snapshot = WatchedFolder(swept).look()
    assert snapshot.state == "done"
    assert counts(snapshot) == {
        "finished": 12, "running": 0, "failed": 0, "diverged": 0, "to_do": None, "others": 0
    }  # fmt: skip
    assert snapshot.share == 1.0
    assert snapshot.runs == 12
    assert snapshot.device_steps_per_second > 0
    assert sum(message.runs for message in snapshot.messages) == 12


@pytest.mark.parametrize("measure", ["average_accuracy", "own_accuracy", "disagreement"])
def test_the_best_cells_are_those_of_the_results(swept, measure):
    """Mean, interval and place of a primitive's best cell are what `skerry results` says."""
    answers = results(swept, measure)
    sign = 1 if measure == "disagreement" else -1
    found = {best.primitive: best for best in WatchedFolder(swept, measure).look().best}
    assert found.keys() == {"s2s", "s2a"}
    for name, best in found.items():
        own = {cell: one for (cell, label), one in answers.estimates.items() if label == name}
        cell = min(own, key=lambda place: sign * own[place].mean)
        assert tuple(best.cell.values()) == cell
        assert best.mean == pytest.approx(own[cell].mean)
        assert best.half_width == pytest.approx(own[cell].half_width)
        assert best.seeds == 3


def test_one_seed_has_no_interval(tmp_path):
    run(write(tmp_path, seeds=1), out=tmp_path / "out", device="cpu")
    snapshot = WatchedFolder(tmp_path / "out").look()
    assert {best.half_width for best in snapshot.best} == {None}
    assert "±" not in as_text(snapshot)


def record(folder, *runs):
    """Finished runs: each with its settings, its final accuracy, and what was given from Python."""
    with Store.open(folder) as store:
        for settings, accuracy, materials in runs:
            experiment = Experiment.parse({}, [*TINY, *settings])
            key = experiment.key(materials)
            facts = {"materials": materials, "world": "w", "device": "cpu", "versions": {}}
            store.begin({key: experiment}, **facts)
            store.append({key: {"round": [0], "average_accuracy": [accuracy]}})
            store.finish(key, "finished", wall_seconds=1.0)


def test_fields_that_play_no_part_tell_no_cells_apart(tmp_path):
    """A run without a server has no period, a ring no degree, and s2a no beta."""
    record(
        tmp_path,
        (["server.period=2"], 70.0, {}),
        (["server.period=3"], 80.0, {}),
        (["server.period=3", "server.primitive=s2a", "server.beta=0.1"], 60.0, {}),
        (["server.period=3", "server.primitive=none", "network.degree=2"], 50.0, {}),
    )
    found = {best.primitive: best.cell for best in WatchedFolder(tmp_path).look().best}
    assert found == {"s2s": {"server.period": 3}, "s2a": {"server.period": 3}, "none": {}}
    assert re.search(r"^none +- +50 +1", as_text(WatchedFolder(tmp_path).look()), re.MULTILINE)


def test_runs_that_no_field_tells_apart_are_studies_of_their_own(tmp_path):
    """As those of two models whose code looks the same."""
    record(tmp_path, ([], 70.0, {"model": "a"}), (["name=other"], 80.0, {"model": "b"}))
    (best,) = WatchedFolder(tmp_path).look().best
    assert (best.mean, best.seeds, best.cell) == (80.0, 1, {"study": "2"})


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_that_another_process_computes(children, tmp_path, workers):
    """While it runs, runs only move on: from to do to running to finished, and none is lost."""
    file, out = write(tmp_path, "rounds=150"), tmp_path / "out"
    child = children.start(file, out, workers=workers, checkpoint_seconds=0.05)
    until((out / "skerry.sqlite").exists)
    until(lambda: plan_of(out) is not None)
    watched, seen = WatchedFolder(out), []
    while not child.ended():
        seen.append(watched.look())
        time.sleep(0.02)
    assert child.wait() == 0
    seen.append(watched.look())
    at_work = [snapshot for snapshot in seen if snapshot.to_do is not None]
    assert {snapshot.runs for snapshot in at_work} == {12}
    assert any(snapshot.running for snapshot in at_work)
    assert any(snapshot.to_do for snapshot in at_work)
    assert any(0 < snapshot.share < 1 for snapshot in at_work)
    finished = [snapshot.finished for snapshot in seen]
    assert finished == sorted(finished)
    assert counts(seen[-1])["finished"] == 12
    assert seen[-1].state == "done"
    assert plan_of(out) is None


@pytest.mark.slow
def test_a_killed_sweep_is_seen_as_stopped_and_as_done_after_it_went_on(children, tmp_path):
    """Nobody is at work: what was interrupted and what never began are both left."""
    file, out = write(tmp_path, LONG), tmp_path / "out"
    child = children.start(file, out, checkpoint_seconds=0.05)
    until(lambda: list(out.glob("checkpoints/*.safetensors")))
    assert WatchedFolder(out).look().state == "working"
    child.kill(signal.SIGKILL)
    until(child.ended)
    snapshot = WatchedFolder(out).look()
    assert snapshot.state == "stopped"
    assert snapshot.finished + snapshot.running + snapshot.to_do == 12
    assert snapshot.running > 0
    assert snapshot.to_do > 0
    assert snapshot.seconds_left is None
    assert "The sweep has stopped" in verdict(snapshot)
    short = write(tmp_path, "rounds=5")
    assert children.start(short, out).wait() == 0
    after = WatchedFolder(out).look()
    assert after.state == "stopped", "the runs of the killed sweep are in the store still"
    assert after.finished == 12 + snapshot.finished


def test_a_newer_sweep_takes_the_place_of_an_older_one(tmp_path):
    """Only the runs of the newest announcement are counted; the others are named apart."""
    out = tmp_path / "out"
    run(write(tmp_path, seeds=1), out=out, device="cpu")
    asked = [Experiment.parse({}, [*TINY, "rounds=20", f"seed={seed}"]) for seed in range(5)]
    with Presence(out / FILE, asked):
        snapshot = WatchedFolder(out).look()
    assert counts(snapshot) == {
        "finished": 0, "running": 0, "failed": 0, "diverged": 0, "to_do": 5, "others": 4
    }  # fmt: skip
    assert "and 4 runs of other sweeps" in as_text(snapshot)


def test_what_fails_and_diverges_is_counted_and_told(tmp_path):
    """Failed and diverged runs have their counts, and their reasons are the newest messages."""
    axes = '"server.primitive" = ["s2s", "sweep_plugins:broken"]\n"training.stepsize" = [0.1, 1e38]'
    run(write(tmp_path, seeds=1, axes=axes), out=tmp_path / "out", device="cpu")
    snapshot = WatchedFolder(tmp_path / "out").look()
    assert (snapshot.finished, snapshot.diverged, snapshot.failed) == (1, 1, 2)
    told = as_text(snapshot)
    assert "this primitive is broken" in told
    assert "no longer finite after round" in told
    assert verdict(snapshot).startswith("Done. 2 runs failed. ")


def test_a_hostile_note_moves_nothing_on_the_screen(tmp_path):
    """Control characters of a record never reach the terminal, and markup in it stays text."""
    note = "\x1b[2J\x1b]0;owned\x07 [red]not red[/] \r\n\x9b31m"
    experiment = Experiment.parse({}, ["name=\x1b[31mred", *TINY])
    with Store.open(tmp_path) as store:
        facts = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}
        store.begin({"k": experiment}, **facts)
        store.finish("k", "failed", wall_seconds=0.0, note=note)
    told = as_text(WatchedFolder(tmp_path).look())
    assert "[red]not red[/]" in told
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", told.replace("\x1b[0m", ""))


def test_looking_disturbs_nothing(swept):
    """A look changes no byte of the store, and a driver is not delayed by an open reader."""
    before = (swept / FILE).read_bytes()
    assert WatchedFolder(swept).look().state == "done"
    assert (swept / FILE).read_bytes() == before
    with Store.read(swept) as reader, Presence(swept / FILE, [Experiment()]) as driver:
        reader._db.execute("BEGIN")
        assert len(reader.runs()) == 12
        driver.update(["k"], 3)
        driver.write()
        assert WatchedFolder(swept).look().state == "working"
        reader._db.execute("COMMIT")
        assert reader.activity().rounds == {"k": 3}
    assert WatchedFolder(swept).look().state == "done"


def test_a_driver_that_is_gone_is_recognised(tmp_path, monkeypatch):
    """By its missing process on the same machine, by its old heartbeat on another one."""
    now, ended = time.time(), subprocess.Popen(["true"])
    ended.wait()
    here = activity.socket.gethostname()
    assert is_alive(here, os.getpid(), now)
    assert not is_alive(here, ended.pid, now)
    assert is_alive("elsewhere", ended.pid, now)
    assert not is_alive("elsewhere", ended.pid, now - activity.STALE_SECONDS - 1)
    Store.open(tmp_path).close()
    with Presence(tmp_path / FILE, [Experiment()]):
        assert is_working(tmp_path)
        monkeypatch.setattr(activity.os, "getpid", lambda: ended.pid)
        with Presence(tmp_path / FILE, [Experiment(seed=1)]):
            pass
    assert not is_working(tmp_path)
    assert not is_working(tmp_path / "nowhere")


def test_nothing_is_read_while_nothing_changes(swept, tmp_path, monkeypatch):
    """A second look at the same store opens no database."""
    shutil.copy(swept / "skerry.sqlite", tmp_path)
    watched = WatchedFolder(tmp_path)
    first = watched.look()
    monkeypatch.setattr(Store, "read", None)
    assert watched.look() == first


def test_the_pace_counts_the_time_in_which_something_was_computed(swept):
    """Two workers side by side are twice as fast as one; a pause between sweeps is no work."""
    with Store.read(swept) as store:
        run = store.runs()[0]
    end = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def ended(minutes, world="a"):
        finished = (end + timedelta(minutes=minutes)).isoformat(timespec="seconds")
        return replace(run, finished=finished, wall_seconds=100.0, world=world)

    alone = recent_speed([ended(0)])
    assert alone.steps == pytest.approx(device_steps(run.experiment) / 100)
    assert alone.rounds == pytest.approx(run.experiment.rounds / 100)
    together = recent_speed([ended(0), ended(0, "b")])
    assert together.steps == pytest.approx(2 * alone.steps)
    later = recent_speed([ended(0), ended(24 * 60)])
    assert later.steps == pytest.approx(alone.steps)
    assert recent_speed([replace(run, finished=None, wall_seconds=None)]) is None
    assert covered_length([(0, 2), (1, 3), (5, 6)]) == 4


def test_a_plan_that_cannot_be_read_is_no_plan(tmp_path):
    with Store.open(tmp_path) as store:
        for text in ("", "{", "[1]", '{"runs": [1]}', '[["k", "t", "many"]]'):
            insert = "INSERT INTO drivers (host, pid, heartbeat, plan) VALUES ('', 0, 0, ?)"
            store._db.execute(insert, (text,))
            assert store.activity().plan is None


def test_rows_that_make_no_sense_are_ignored(tmp_path):
    """A store may come from anybody: whatever its tables hold, a look ends with an answer."""
    with Store.open(tmp_path) as store:
        for pid, heartbeat in (("x", 1.0), (2**80, time.time()), (1, "now"), (None, 0.0)):
            with suppress(sqlite3.Error, OverflowError):
                insert = "INSERT INTO drivers (host, pid, heartbeat, plan) VALUES (?, ?, ?, ?)"
                store._db.execute(insert, ("here", pid, heartbeat, "[" * 10**5))
        store._db.execute("INSERT INTO progress SELECT number, 'k', 'many' FROM drivers")
        assert store.activity() == activity.Activity(rounds={})


def test_a_plan_stays_after_an_error_and_goes_when_it_is_done(tmp_path):
    """A plan that was not completed is left to do, until another driver announces one."""
    runs = [Experiment(seed=seed) for seed in range(3)]
    Store.open(tmp_path).close()
    with pytest.raises(KeyError), Presence(tmp_path / FILE, runs):
        raise KeyError
    assert len(plan_of(tmp_path).rows) == 3
    assert not is_working(tmp_path)
    with Presence(tmp_path / FILE, runs[:1]):
        assert len(plan_of(tmp_path).rows) == 1
        with Presence(tmp_path / FILE, runs):
            assert len(plan_of(tmp_path).rows) == 3
        assert len(plan_of(tmp_path).rows) == 1
    assert plan_of(tmp_path) is None


def test_a_run_is_found_in_the_plan_by_its_text_too(tmp_path):
    """A key may depend on files outside the experiment's text; then the text decides."""
    run = Experiment(seed=3)
    plan = activity.RunPlan.of([run])
    assert plan.position(run.key({"graph": "abc"}), text_digest(run)) == 0
    assert plan.position(Experiment(seed=4).key(), text_digest(Experiment(seed=4))) is None


# The command


def test_a_pipe_gets_one_plain_snapshot(swept):
    outcome = skerry("watch", swept)
    assert outcome.code == 0
    assert "12 runs, 100 % of the computing: 12 finished" in outcome.out
    assert "Done. Look closer: skerry results" in outcome.out
    assert "\x1b" not in outcome.out
    assert skerry("watch", swept, "--once").out == outcome.out


def test_a_pipe_tells_that_runs_are_missing(swept, tmp_path):
    """Exit code 1, as its help says, wherever it prints."""
    with Store.open(tmp_path) as store:
        one = Experiment(rounds=3)
        store.begin({one.key(): one}, materials={}, world="w", versions={})
    for options in ([], ["--once"], ["--json"]):
        assert skerry("watch", tmp_path, *options).code == 1
        assert skerry("watch", swept, *options).code == 0


def test_json_is_one_object(swept):
    found = json.loads(skerry("watch", swept, "--json", "--measure", "average_loss").out)
    assert (found["state"], found["finished"], found["runs"]) == ("done", 12, 12)
    assert {best["measure"] for best in found["best"]} == {"average_loss"}


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("nowhere", "error: no store at nowhere"),
        ("bare", "error: no store at bare/skerry.sqlite."),
        ("blank", "error: blank/skerry.sqlite is empty, not a store."),
        ("foreign", "error: cannot use the store foreign/skerry.sqlite: it is no SQLite file."),
        ("unused", "error: no runs are recorded in unused, and no sweep is running there."),
    ],
)
def test_a_folder_without_runs_is_told_in_a_line(tmp_path, monkeypatch, folder, line):
    monkeypatch.chdir(tmp_path)
    for name, content in (("bare", None), ("blank", ""), ("foreign", "no database " * 99)):
        (tmp_path / name).mkdir()
        if content is not None:
            (tmp_path / name / "skerry.sqlite").write_text(content)
    Store.open(tmp_path / "unused").close()
    outcome = skerry("watch", folder)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(line)
    assert outcome.err.count("\n") == 1


def test_an_unknown_measure_is_told_in_a_line(swept):
    outcome = skerry("watch", swept, "--measure", "own_acuracy")
    assert outcome.code == 2
    assert "did you mean 'own_accuracy'?" in outcome.err


class Viewed(Progress):
    """Starts a view with the first stack, and lets the sweep go on when the view has shown it."""

    def __init__(self, folder):
        self.console = Console(
            file=io.StringIO(), width=120, force_terminal=True, color_system=None
        )
        self.last = None
        self._thread = threading.Thread(target=self._view, args=(folder,))

    def _view(self, folder):
        self.last = show_live(WatchedFolder(folder), self.console, every=0.02)

    def stack_begun(self, job):
        if self._thread.ident is None:
            self._thread.start()
            until(lambda: " to do" in self.console.file.getvalue())

    def end(self):
        self._thread.join(600)
        return self.last


def test_a_terminal_sees_the_sweep_to_its_end(tmp_path, monkeypatch):
    """The view ends by itself, and its last picture, the summary, stays."""
    monkeypatch.setattr(watch, "GRACE_SECONDS", 0.2)
    out = tmp_path / "out"
    view = Viewed(out)
    run(write(tmp_path), out=out, device="cpu", progress=view)
    last = view.end()
    assert last.state == "done"
    assert last.finished == 12
    shown = view.console.file.getvalue()
    assert "12 to do" in shown or "8 to do" in shown
    assert shown.rstrip("\x1b[?25h\n").endswith("finished")
    assert verdict(last) == f"Done. Look closer: skerry results {out}"


@pytest.mark.slow
def test_ctrl_c_leaves_the_view_and_not_the_sweep(children, tmp_path):
    """Quietly, with exit code 0; the sweep goes on."""
    out = tmp_path / "out"
    child = children.start(write(tmp_path, "rounds=100000"), out)
    until(lambda: plan_of(out) is not None)
    ours, theirs = pty.openpty()
    view = subprocess.Popen(
        [str(SCRIPT), "watch", str(out), "--every", "0.1"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment() | {"TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while b"sweep is running" not in shown:
        shown += os.read(ours, 4096)
    view.send_signal(signal.SIGINT)
    drained = shown
    try:
        while piece := os.read(ours, 4096):
            drained += piece
    except OSError:  # so a terminal ends when its last program has left
        pass
    told = view.communicate(timeout=600)[1]
    os.close(ours)
    assert (view.returncode, told) == (0, b"")
    assert not child.ended()
    child.kill(signal.SIGKILL)
    until(child.ended)
