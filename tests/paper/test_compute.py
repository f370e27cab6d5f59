"""Running in a given time: what comes first is run, what does not fit is left for the next time."""

import pytest

from skerry.config.experiment import Experiment
from skerry.runs.driver import StoppedError
from skerry_paper.compute import run_within_limit


class Slow:
    """A driver and its clock: every round of a run takes a tenth of a second, and kernels are
    compiled for the first."""

    def __init__(self, compiling=0.0):
        self.now, self.done = 0.0, []
        self._compiling = compiling

    def clock(self):
        return self.now

    def waiting(self, experiments):
        return [one for one in experiments if one.key() not in self.done]

    def run(self, experiments, until):
        for one in self.waiting(experiments):
            self.now += 0.1 * one.rounds + (0 if self.done else self._compiling)
            if until():
                raise StoppedError
            self.done.append(one.key())


def runs(count, rounds, start=0):
    return [Experiment(seed=start + number, rounds=rounds) for number in range(count)]


@pytest.fixture
def told():
    return []


def test_all_is_run_if_it_fits(told):
    driver = Slow()
    pieces = [("a", runs(2, 10)), ("b", runs(3, 20, start=5))]
    seconds = run_within_limit(pieces, driver, 9, told.append, driver.clock)
    assert seconds == {"a": pytest.approx(2.0), "b": pytest.approx(6.0)}
    assert (len(driver.done), told) == (5, [])


def test_a_piece_that_will_not_fit_is_not_begun(told):
    """Two seconds a piece, five in all: the third is left out, a smaller one after it is run."""
    driver = Slow()
    pieces = [("a", runs(2, 10, start)) for start in (0, 10, 20)] + [("a", runs(1, 5, 30))]
    run_within_limit(pieces, driver, 5, told.append, driver.clock)
    assert (driver.now, len(driver.done)) == (pytest.approx(4.5), 5)
    assert told == ["The time limit is reached: 2 runs are left. The same command resumes."]
    run_within_limit(pieces, driver, 5, told.append, driver.clock)  # the next time
    assert len(driver.done) == 7


def test_a_first_piece_that_compiles_does_not_frighten(told):
    """It takes six seconds, those after it one: by its pace, none of them would fit."""
    driver = Slow(compiling=5)
    pieces = [("a", runs(1, 10, start)) for start in range(5)]
    run_within_limit(pieces, driver, 10.5, told.append, driver.clock)
    assert (driver.now, len(driver.done), told) == (pytest.approx(10.0), 5, [])


def test_what_takes_longer_than_it_may_is_stopped(told):
    """Nobody knows how long the first piece takes; nothing is begun when the time is over."""
    driver = Slow()
    pieces = [("a", runs(4, 10)), ("b", runs(1, 1, 9))]
    run_within_limit(pieces, driver, 2.5, told.append, driver.clock)
    assert (driver.now, len(driver.done)) == (pytest.approx(3.0), 2)
    assert told == ["The time limit is reached: 5 runs are left. The same command resumes."]
