"""The ratios of a server round beside the rule by which its server samples."""

import numpy as np
import pytest

from skerry.config.experiment import Experiment
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.measure.disagreement import spread, squared_shift
from skerry.theory.operators import delta, kappa
from skerry.theory.ratios import Shares, expected_ratios, samples_as_in_the_paper
from theory_bench import bench

DELTA, KAPPA = float(delta(12, 4)), float(kappa(12, 4))
FLEET = ("network.devices=12", "server.sampled=4")
# 2.3 of the identities: two of six in both islands, f = 1/3, delta_6 = 4/5.
STRATA = (1 - (1 - 0.8 / 4) / 3, 1 - 1 / 3)


def of(*settings):
    return Experiment.parse({}, [*FLEET, *settings])


def numbers(found):
    return None if found is None else found[:2]


@pytest.mark.parametrize(
    ("settings", "left", "turned"),
    [
        ((), (DELTA, DELTA), (KAPPA, KAPPA)),
        (("server.weights=data",), (DELTA, DELTA), None),
        (("server.selection=per_component",), STRATA, (0.8 / 4, 0)),
        (("server.selection=one_each",), STRATA, (0.8 / 4, 0)),
        (
            ("server.selection=per_component", "network.components=1"),
            (DELTA, DELTA),
            (KAPPA, KAPPA),
        ),
        (("server.selection=round_robin",), None, None),
        (("server.selection=weighted",), None, None),
        (("fleet.awake=0.9",), None, None),
        (("fleet.on=3", "fleet.off=1"), None, None),
    ],
)
def test_what_a_rule_leaves_and_turns(settings, left, turned):
    """S2S never moves the average, whoever is sampled; after S2A all agree unless some sleep."""
    s2s = expected_ratios(of("server.primitive=s2s", *settings))
    s2a = expected_ratios(of("server.primitive=s2a", *settings))
    assert numbers(s2s.disagreement_ratio) == (left if left is None else pytest.approx(left))
    assert numbers(s2a.bias_ratio) == (turned if turned is None else pytest.approx(turned))
    assert numbers(s2s.bias_ratio) == (0, 0)
    asleep = any(setting.startswith("fleet") for setting in settings)
    assert numbers(s2a.disagreement_ratio) == (None if asleep else (0, 0))


@pytest.mark.parametrize("settings", ["server.optimizer=fedavgm", "server.primitive=none"])
def test_no_law_for_other_servers(settings):
    assert expected_ratios(of(settings)) == (None, None)


def test_the_dial():
    """Between the ends: (1 - beta)^2 of what S2S leaves and beta^2 of S2A's bias."""
    rule = ("server.selection=per_component", "server.primitive=blend", "server.beta=0.3")
    found = expected_ratios(of(*rule))
    assert found.disagreement_ratio[:2] == pytest.approx([0.49 * share for share in STRATA])
    assert found.bias_ratio[:2] == pytest.approx((0.09 * 0.2, 0))


def test_islands_of_several_sizes_have_upper_bounds():
    found = expected_ratios(of("server.selection=per_component", "network.components=[4, 8]"))
    assert not found.disagreement_ratio.exact
    assert expected_ratios(of("network.components=[4, 8]")).disagreement_ratio.exact


def test_too_many_counts_have_no_law():
    """An answer that would take too long is none; nothing is raised."""
    many = ("network.devices=78", f"network.components={list(range(1, 13))}", "server.sampled=30")
    found = expected_ratios(of(*many, "server.primitive=s2a", "server.weights=stratified"))
    assert found.bias_ratio is None


def test_a_ratio_follows_the_disagreement_before():
    shares = Shares(0.5, 0.1)
    assert shares.ratio([1, 0, 3, 0], [0, 2, 1, 0]) == pytest.approx(
        [0.5, 0.1, 0.4, np.nan], nan_ok=True
    )


def test_as_in_the_paper():
    assert samples_as_in_the_paper(of())
    for other in ("server.selection=one_each", "server.weights=stratified", "fleet.awake=0.5"):
        assert not samples_as_in_the_paper(of(other))


@pytest.mark.parametrize("primitive", ["s2s", "s2a"])
@pytest.mark.parametrize("rule", ["bernoulli", "per_component", "stratified"])
def test_a_long_run_scatters_around_it(primitive, rule):
    """Measured ratios minus those expected, given the disagreement before each server round."""
    selected = "server.weights=stratified" if rule == "stratified" else f"server.selection={rule}"
    world = bench(
        "model.name=quadratic",
        selected,
        *(["server.sample_prob=0.25"] if rule == "bernoulli" else []),
        "server.period=1",
        f"server.primitive={primitive}",
        "rounds=600",
    )
    shares = getattr(
        expected_ratios(world.experiment),
        "bias_ratio" if primitive == "s2a" else "disagreement_ratio",
    )
    found, expected = [], []
    for moment in simulate(build_stack(world, [world.experiment])):
        if moment.phase == "before_server":
            before = spread(moment.state.X_nld, world.sizes)
        if moment.server_rounds:
            after = spread(moment.state.X_nld, world.sizes)
            made = squared_shift(before, after) if primitive == "s2a" else after.total_l
            found.append(float(made / before.total_l))
            expected.append(float(shares.ratio(before.intra_l, before.inter_l)[0]))
    error = np.std(np.subtract(found, expected), ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - np.mean(expected)) <= 4 * error
    assert error < 0.1 * np.mean(expected)
