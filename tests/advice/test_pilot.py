"""Where the pilot looks, and how long that takes."""

import pytest

from conftest import small
from skerry.advice.pilot import LOOKS, PROBE_ROUNDS, LaneTimes, for_pilot, probe
from skerry.advice.question import Question, Timer, read_among
from skerry.advice.scores import WINDOW
from skerry.advice.settings import Budget, space_of
from skerry.config.experiment import Experiment
from skerry.engine.simulate import is_evaluated
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.theory.communication import ONE_EACH


def pilots(experiment: Experiment, looks: int = LOOKS[0]) -> Experiment:
    """The experiment as the pilot runs it."""
    question = Question(among=read_among(None))
    n = experiment.network.devices
    budget = Budget(ONE_EACH, n, 0, 0, experiment.rounds)
    space = space_of(question, experiment, budget, experiment.network.sizes)
    return for_pilot(question, experiment, looks, space)


def evaluated(experiment: Experiment) -> list[int]:
    """The rounds that a run looks at, besides its start."""
    stack = build_stack(build_world(experiment), [experiment])
    return [t for t in range(1, experiment.rounds + 1) if is_evaluated(stack, t)]


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("rounds", [1, 4, 40, 100])
def test_only_what_is_read_is_evaluated(rounds: int, looks: int) -> None:
    """Scores are of the last fifth of the rounds: nothing is evaluated before it."""
    found = evaluated(pilots(small(f"rounds={rounds}"), looks))
    assert found
    assert min(found) > (1 - WINDOW) * rounds
    assert len(found) >= min(looks, max(1, int(WINDOW * rounds)))


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
    base = pilots(small("rounds=40"))
    times = probe(build_world(base), [base], Timer(600, Ticks()), 100)
    assert alike
    assert not any(alike)
    assert times == LaneTimes(1, 1)
    assert times.seconds(rounds=40, looks=3) == 43
    assert PROBE_ROUNDS < 0.8 * 40
