"""What is told while a sweep is under way."""

from types import SimpleNamespace

import pytest

from conftest import small
from skerry.experiment import Experiment
from skerry.records.store import Store
from skerry.report.screens import progress
from skerry.report.screens.progress import SweepWatcher
from skerry.report.watched import Watched
from skerry.runs.executors.messages import Tick
from skerry.runs.run import run
from skerry.runs.sweep import Sweep


@pytest.fixture
def clock(monkeypatch):
    """Stands still until it is set."""
    hand = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: hand.now))
    return hand


def test_time_left_does_not_count_the_start(clock):
    """Building a world and making kernels ready took 100 s for the first round; the others take
    a second each, so 50 rounds take 48 s more after the second."""
    watcher = SweepWatcher()
    watcher.planned([Experiment.parse({}, ["rounds=50", "network.devices=10", "server.sampled=2"])])
    assert watcher.told() == "0 of 1 runs"
    clock.now = 100
    watcher.tick("stack", Tick(1, 10, 10))
    assert watcher.told() == "0 of 1 runs"
    clock.now = 101
    watcher.tick("stack", Tick(2, 20, 20))
    assert watcher.told() == "0 of 1 runs, about 48 s left, 10 device-steps/s"


class Interrupted(SweepWatcher):
    """Ctrl-C in the second of two worlds, after so many rounds."""

    def tick(self, task, tick):
        super().tick(task, tick)
        if self.done and tick.round == 5:
            raise KeyboardInterrupt


class Followed(SweepWatcher):
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
        run(asked, out=tmp_path, device="cpu", watcher=stopped, checkpoint_seconds=0)
    assert stopped.share == (10 + 5) / 20
    seen = Watched(tmp_path).look()
    with Store.read(tmp_path) as store:
        recorded = [one.rounds_done for one in store.runs()]
    assert recorded in ([10, 10, 4, 4], [10, 10, 5, 5])  # the last round may have no checkpoint yet
    assert seen.share == sum(recorded) / 40
    again = Followed()
    run(asked, out=tmp_path, device="cpu", watcher=again, checkpoint_seconds=0)
    assert again.shares[0] == 10 / 20, "finished runs count from the start"
    first = next(share for share in again.shares if share > 10 / 20)
    assert first == seen.share + 1 / 20, "the first round that is computed now follows on"
    assert again.shares == sorted(again.shares)
    assert again.shares[-1] == Watched(tmp_path).look().share == 1
