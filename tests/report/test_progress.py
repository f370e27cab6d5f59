"""What is status while a sweep is under way."""

from types import SimpleNamespace

import pytest

from conftest import small
from skerry.config.experiment import Experiment
from skerry.records.activity import Presence
from skerry.records.store import Store
from skerry.report.screens import progress
from skerry.report.screens.progress import SweepBars, SweepProgress
from skerry.report.watched import WatchedFolder
from skerry.runs.executors.executor import StackJob, Tick
from skerry.runs.run import run
from skerry.runs.sweep import Sweep


@pytest.fixture
def clock(monkeypatch):
    """Stands still until it is set."""
    hand = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: hand.now))
    return hand


@pytest.mark.parametrize(("settings", "steps"), [((), 10), (("training.local_epochs=2",), 70)])
def test_time_left_does_not_count_the_start(clock, settings, steps):
    """Building a world and making kernels ready took 100 s for the first round; the others take
    a second each, so 50 rounds take 48 s more after the second. The steps of local epochs, which
    are known only with the data, are counted as they are."""
    watcher = SweepProgress()
    asked = Experiment.parse({}, ["rounds=50", "network.devices=10", "server.sampled=2", *settings])
    watcher.planned([asked])
    assert watcher.status_line() == "0 of 1 runs"
    stack = StackJob((asked,), SimpleNamespace(steps=steps))
    clock.now = 100
    watcher.tick(stack, Tick(1, steps, steps))
    assert watcher.status_line() == "0 of 1 runs"
    clock.now = 101
    watcher.tick(stack, Tick(2, 2 * steps, 2 * steps))
    assert watcher.share == 2 / 50
    assert watcher.status_line() == f"0 of 1 runs, about 48 s left, {steps} device-steps/s"


class Interrupted(SweepProgress):
    """Ctrl-C in the second of two worlds, after so many rounds."""

    def tick(self, job, tick):
        super().tick(job, tick)
        if self.done and tick.round == 5:
            raise KeyboardInterrupt


class Followed(SweepProgress):
    def __init__(self):
        super().__init__()
        self.shares = []

    def show(self):
        self.shares.append(self.share)


def test_bars_watch_and_show_agree(tmp_path):
    """Where a sweep was stopped, `skerry watch` sees the share that the bar showed, and the bar of
    the next start begins there."""
    asked = Sweep(experiment=small("rounds=10"), axes={"server.primitive": ["s2s", "s2a"]}, seeds=2)
    stopped = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run(asked, out=tmp_path, device="cpu", progress=stopped, checkpoint_seconds=0)
    assert stopped.share == (10 + 5) / 20
    seen = WatchedFolder(tmp_path).look()
    with Store.read(tmp_path) as store:
        recorded = [one.rounds_done for one in store.runs()]
    assert recorded in ([10, 10, 4, 4], [10, 10, 5, 5])  # the last round may have no checkpoint yet
    assert seen.share == sum(recorded) / 40
    again = Followed()
    run(asked, out=tmp_path, device="cpu", progress=again, checkpoint_seconds=0)
    assert again.shares[0] == 10 / 20, "finished runs count from the start"
    first, second = sorted({share for share in again.shares if share > 10 / 20})[:2]
    assert first == seen.share, "the bar begins where the runs were"
    assert second == seen.share + 1 / 20, "the first round that is computed now follows on"
    assert again.shares == sorted(again.shares)
    assert again.shares[-1] == WatchedFolder(tmp_path).look().share == 1


class Rows:
    """Stands in for rich's bars."""

    def __init__(self):
        self.rows, self.lines = [], []
        self.console = SimpleNamespace(print=lambda line, highlight: self.lines.append(line))

    def add_task(self, words, total, status):
        self.rows.append([{"total": total, "status": status}])
        return len(self.rows) - 1

    def update(self, row, **changed):
        self.rows[row].append(changed)

    def remove_task(self, row):
        pass


def test_a_run_tells_how_long_it_takes_yet(clock):
    """Of all that was asked for, not of the stack under way alone."""
    asked = [
        Experiment.parse({}, ["rounds=50", "network.devices=10", "server.sampled=2", f"seed={s}"])
        for s in range(2)
    ]
    bars = SweepBars(Rows(), "average_accuracy")
    bars.planned(asked)
    stack = StackJob(tuple(asked[:1]), SimpleNamespace(steps=10))
    bars.stack_begun(stack)
    clock.now = 100
    bars.tick(stack, Tick(1, 10, 10))
    clock.now = 101
    bars.tick(stack, Tick(2, 20, 20))
    all_runs, one_stack = (row[-1] for row in bars._progress.rows)
    assert (one_stack["completed"], one_stack["total"]) == (2, 50)
    assert one_stack["status"] == "round 2 of 50"
    assert all_runs["status"] == "0 of 2 runs, about 2 min left, 10 device-steps/s"


class Stopped(SweepBars):
    def tick(self, job, tick):
        super().tick(job, tick)
        if tick.round == 5:
            raise KeyboardInterrupt


def test_the_bar_of_a_resumed_run_begins_where_it_was(tmp_path):
    """Before its first round is computed; until then it has no share."""
    asked = small("rounds=10")
    with pytest.raises(KeyboardInterrupt):
        run(
            asked,
            out=tmp_path,
            device="cpu",
            progress=Stopped(Rows(), "average_accuracy"),
            checkpoint_seconds=0,
        )
    with Store.read(tmp_path) as store:
        (found,) = store.runs()
    again = SweepBars(Rows(), "average_accuracy")
    run(asked, out=tmp_path, device="cpu", progress=again, checkpoint_seconds=0)
    begun, first, *_ = again._progress.rows[1]
    assert begun["total"] is None
    assert (first["completed"], first["total"]) == (found.rounds_done, 10)
    assert again._progress.lines == [f"Continuing 1 run from round {found.rounds_done} of 10."]


class Compared(SweepProgress):
    """Looks at the folder, as somebody else would, after every round."""

    def __init__(self, folder):
        super().__init__()
        self.watched, self.shares = WatchedFolder(folder), []

    def tick(self, job, tick):
        super().tick(job, tick)
        self.shares.append((self.share, self.watched.look().share))


def test_watch_shows_the_share_of_the_sweeps_own_bar(tmp_path, monkeypatch):
    """Also between checkpoints, and where runs were recorded before whose world opens last."""
    update = Presence.update

    def update_at_once(presence, keys, round_):
        update(presence, keys, round_)
        presence.write()

    monkeypatch.setattr(Presence, "update", update_at_once)
    axes = {"server.primitive": ["s2s", "s2a"]}
    last = Sweep(experiment=small("rounds=10"), axes=axes, seeds=[1])
    run(last, out=tmp_path, device="cpu")
    asked = Sweep(experiment=small("rounds=10"), axes=axes, seeds=[0, 1])
    bar = Compared(tmp_path)
    run(asked, out=tmp_path, device="cpu", progress=bar, checkpoint_seconds=1000)
    ours, theirs = zip(*bar.shares, strict=True)
    assert ours[0] == 0.5 + 0.5 / 10
    assert theirs == pytest.approx(ours)
