"""Where the pilot looks, and how long that takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import small
from skerry.advice.candidates import Budget, Candidate, Menu
from skerry.advice.decision import WINDOW
from skerry.advice.pilot import LOOKS, PROBE_ROUNDS, LaneTimes, for_pilot, probe
from skerry.advice.question import Question, Timer
from skerry.config.experiment import Experiment
from skerry.engine.simulate import is_evaluated
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.theory.communication import ONE_EACH

MENU = Menu(tuple(Candidate(name, None, 4, H) for name in ("s2s", "s2a") for H in (2, 5)), (0.1,))


def evaluated(experiment: Experiment) -> list[int]:
    """The rounds that a run looks at, besides its start."""
    stack = build_stack(build_world(experiment), [experiment])
    return [t for t in range(1, experiment.rounds + 1) if is_evaluated(stack, t)]


@pytest.mark.parametrize("rounds", [1, 4, 40, 100])
def test_only_what_is_read_is_evaluated(rounds: int) -> None:
    """Without a budget all are read in the last fifth: nothing is scored before it."""
    budget = Budget(ONE_EACH, 10, 0, 0, rounds)
    found = evaluated(for_pilot(Question(), small(), budget, MENU))
    assert found
    assert min(found) > (1 - WINDOW) * rounds


@given(
    rounds=st.integers(1, 300),
    limit=st.floats(8, 900),
    looks=st.sampled_from(LOOKS),
    offset=st.integers(0, 3),
)
def test_nobody_ends_before_the_first_look(
    rounds: int, limit: float, looks: int, offset: int
) -> None:
    """A candidate that a budget stops early is evaluated before it stops."""
    budget = Budget(ONE_EACH, 10, 0, offset, rounds, limit)
    evaluate = for_pilot(Question(), Experiment(), budget, MENU, looks).evaluate
    for end in filter(None, map(budget.reach, MENU.candidates)):
        last = end // evaluate.every * evaluate.every
        assert last > evaluate.after or end == rounds


@pytest.mark.parametrize("rounds", [7, 40])
def test_the_time_of_a_run_counts_its_evaluations(rounds: int) -> None:
    """Rounds and evaluations are those of the run; the last round may be counted twice."""
    base = for_pilot(Question(), small(), Budget(ONE_EACH, 12, 0, 0, rounds), MENU)
    assert LaneTimes(1, 0).seconds(3, base) == 3 * rounds
    looks = len(evaluated(base))
    assert looks <= LaneTimes(0, 1).seconds(1, base) <= looks + 1


class Ticks:
    """A clock that counts how often it is looked at."""

    looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return float(self.looks)


def test_evaluations_are_timed_where_devices_differ(monkeypatch) -> None:
    """At the start devices are alike and scored once; what is timed is a round that is scored
    device by device, even where the pilot would look later only."""
    from skerry.measure.device_scores import DeviceScorer

    alike: list[bool] = []
    score = DeviceScorer.score

    def seen(self, models, are_alike=False):
        alike.append(are_alike)
        return score(self, models, are_alike)

    monkeypatch.setattr(DeviceScorer, "score", seen)
    base = for_pilot(Question(), small("rounds=40"), Budget(ONE_EACH, 12, 0, 0, 40), MENU)
    times = probe(build_world(base), [base], Timer(600, Ticks()), 100)
    assert alike
    assert not any(alike)
    assert times == LaneTimes(1, 1)
    assert PROBE_ROUNDS < 0.8 * 40
