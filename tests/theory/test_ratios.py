"""The ratios of a server round beside the rule by which its server samples."""

import numpy as np
import pytest

from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.experiment import Experiment
from skerry.measure.disagreement import bias, spread
from skerry.theory.operators import delta, kappa
from skerry.theory.ratios import expected_ratios, samples_as_in_the_paper
from theory_bench import bench

DELTA, KAPPA = float(delta(12, 4)), float(kappa(12, 4))
FLEET = ("network.devices=12", "server.sampled=4")


def of(*settings):
    return Experiment.parse({}, [*FLEET, *settings])


@pytest.mark.parametrize(
    ("settings", "s2s", "s2a"),
    [
        ((), (DELTA, 0), (0, KAPPA)),
        (("server.weights=data_step",), (DELTA, 0), (0, KAPPA)),
        (("server.weights=stratified",), (DELTA, 0), (0, None)),
        (("server.selection=per_component",), (None, 0), (0, None)),
        (("server.selection=per_component", "network.components=1"), (DELTA, 0), (0, KAPPA)),
        (("server.selection=one_each",), (None, 0), (0, None)),
        (("server.selection=round_robin",), (None, 0), (0, None)),
        (("server.weights=data_average",), (None, None), (None, None)),
        (("fleet.awake=0.9",), (None, None), (None, None)),
        (("server.optimizer=fedavgm",), (None, None), (None, None)),
        (("server.primitive=none",), None, None),
    ],
)
def test_one_number_or_none(settings, s2s, s2a):
    """A number stands only where it holds for all models; S2S never moves the average, and after
    S2A all agree, whoever is sampled."""
    for primitive, expected in (("s2s", s2s), ("s2a", s2a)):
        if expected is None:
            assert expected_ratios(of(*settings)) == (None, None)
        else:
            found = expected_ratios(of(f"server.primitive={primitive}", *settings))
            assert found == pytest.approx(expected)


def test_the_dial():
    """Between the ends: (1 - beta)^2 of what S2S leaves and beta^2 of S2A's bias."""
    found = expected_ratios(of("server.primitive=blend", "server.beta=0.3"))
    assert found == pytest.approx((0.49 * DELTA, 0.09 * KAPPA))


def test_as_in_the_paper():
    assert samples_as_in_the_paper(of())
    assert samples_as_in_the_paper(of("server.weights=data_step"))
    for other in ("server.selection=one_each", "server.weights=stratified", "fleet.awake=0.5"):
        assert not samples_as_in_the_paper(of(other))


@pytest.mark.parametrize("primitive", ["s2s", "s2a"])
def test_coins_in_a_long_run(primitive):
    """Bernoulli sampling: measured ratios scatter around their expectation, over the server rounds
    to which anybody came."""
    world = bench(
        "model.name=quadratic",
        "server.selection=bernoulli",
        "server.sample_prob=0.25",
        "server.period=1",
        f"server.primitive={primitive}",
        "rounds=600",
    )
    ratios = []
    for moment in simulate(build_stack(world, [world.experiment])):
        if moment.phase == "before_server":
            before = spread(moment.state.X_nld, world.sizes)
        if moment.meetings:
            after = spread(moment.state.X_nld, world.sizes)
            made = bias(before, after) if primitive == "s2a" else after.total_l
            ratios.append(float(made / before.total_l))
    found = expected_ratios(world.experiment)
    expected = found.bias_ratio if primitive == "s2a" else found.disagreement_ratio
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - expected) <= 4 * error
    assert error < 0.1 * expected
