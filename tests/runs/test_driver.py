"""The driver, where a caller ends it before all is done."""

from math import inf
from pathlib import Path

import pytest

from conftest import small
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryError
from skerry.runs.driver import Driver, StoppedError
from skerry.runs.executors.here import Here
from skerry.runs.progress import Progress


def two_worlds() -> list[Experiment]:
    return [small("rounds=5", f"seed={seed}") for seed in (0, 1)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_stop_rule_keeps_what_is_finished(tmp_path) -> None:
    """When the caller's time is up, the world before is kept, the one under way is forgotten, and
    nothing is left announced: nobody has set out to run it any more."""
    first, second = two_worlds()
    asked = iter(range(100))
    with Driver(Here(), tmp_path, checkpoint_seconds=inf) as driver:
        with pytest.raises(StoppedError):
            driver.run([first, second], until=lambda: next(asked) > 8)
        assert [run.experiment.seed for run in driver.store.runs()] == [0]
        assert driver.waiting([first, second]) == [second]
    assert names(tmp_path) == ["skerry.sqlite"]


def test_what_is_done_in_time_is_not_stopped(tmp_path) -> None:
    """The stop rule is asked only as long as there is something to stop."""
    experiment, told = two_worlds()[0], []

    class Heard(Progress):
        def stack_done(self, task, finals) -> None:
            told.append(task)

    with Driver(Here(), tmp_path, progress=Heard()) as driver:
        (key,) = driver.run([experiment], until=lambda: bool(told))
        assert driver.store.run(key).status == "finished"


@pytest.mark.parametrize(("seconds", "left"), [(inf, 0), (60, 1)])
def test_without_checkpoints_nothing_broken_off_is_left(tmp_path, seconds, left) -> None:
    """Where there is nothing to go on from, an interrupt leaves finished runs only; else what is
    under way stays recorded, to go on."""

    class Interrupt(Progress):
        def tick(self, task, tick) -> None:
            if task.experiments[0].seed == 1:
                raise KeyboardInterrupt

    with Driver(Here(), tmp_path, progress=Interrupt(), checkpoint_seconds=seconds) as driver:
        with pytest.raises(KeyboardInterrupt):
            driver.run(two_worlds())
        unfinished = [run for run in driver.store.runs() if run.status != "finished"]
        assert len(unfinished) == left
        assert len(driver.store.runs()) == 1 + left


def test_the_first_error_is_told(tmp_path, monkeypatch) -> None:
    """Where a store can be written no more, what broke the runs off is told, not what came of
    tidying up."""

    class Interrupt(Progress):
        def tick(self, task, tick) -> None:
            raise KeyboardInterrupt

    def unwritable(store, keys) -> None:
        raise RecordsError("the disk is full")

    monkeypatch.setattr("skerry.records.store.Store.forget", unwritable)
    with (
        Driver(Here(), tmp_path, progress=Interrupt(), checkpoint_seconds=inf) as driver,
        pytest.raises(KeyboardInterrupt),
    ):
        driver.run(two_worlds())


def test_memory_that_ends_is_told_in_words(tmp_path, monkeypatch) -> None:
    """Where not even one lane fits, the error says what to lower."""

    def full(*args, **more):
        raise MemoryError

    monkeypatch.setattr("skerry.runs.executors.here.run_lanes", full)
    with (
        Driver(Here(), tmp_path, keep_going=False) as driver,
        pytest.raises(SkerryError, match=r"out of memory .* Lower network.devices"),
    ):
        driver.run(two_worlds()[:1])
