"""What is told while a sweep is under way."""

from types import SimpleNamespace

import pytest

from skerry.experiment import Experiment
from skerry.report.screens import progress
from skerry.report.screens.progress import SweepWatcher
from skerry.runs.executors.messages import Tick


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
