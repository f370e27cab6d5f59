"""Schedules that go by what the server sees: oracles, laws by enumeration, the loop, resuming."""

from dataclasses import replace
from itertools import combinations
from typing import ClassVar

import numpy as np
import pytest
import torch

from recorded_runs import PlugPulledError, assert_same, record
from skerry.config.experiment import Experiment
from skerry.engine.server_schedule import LOG, estimate_spread
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.errors import ExperimentError
from skerry.measure.custom_measures import CustomMeasures
from skerry.methods.method import Method
from skerry.plugins.context import Context, SpreadEstimate
from skerry.theory.adaptive import beta, disagreement_after_s2s, mean_intra_weight, period, sampled
from skerry.theory.ratios import expected_ratios, samples_as_in_the_paper
from trajectories import assert_same_trajectories

ADAPTIVE = {
    "beta": ("server.primitive=blend", "server.beta_schedule=adaptive", "server.bias_cost=3"),
    "sampled": (
        "server.primitive=s2a",
        "server.sampled_schedule=adaptive",
        "server.sampled_target=0.0003",
    ),
    "period": (
        "server.period_schedule=adaptive",
        "server.period_target=0.002",
        "server.period_end=6",
    ),
}
RULES = ("uniform", "per_component", "one_each", "bernoulli", "round_robin")
ALL = (*ADAPTIVE["beta"], *ADAPTIVE["sampled"][1:], *ADAPTIVE["period"])


def of(x, sizes, sampled_k, by_island):
    islands = np.repeat(np.arange(len(sizes)), sizes)
    some = list(sampled_k)
    X_kd = torch.tensor(x, dtype=torch.float64)[some][:, None]
    return estimate_spread(X_kd, islands[some], np.array(sizes), 1, by_island=by_island)


START = {
    "round": 10, "rounds": 100, "number": 2, "start": 0.5, "end": None, "period": 1,
    "mixing_rate": 0.0, "estimates": (),
}  # fmt: skip


def when(**fields):
    return Context(**({**START, **fields}))


# What the server can tell


def test_the_oracle_of_a_uniform_sample():
    found = of((1, 3, 0, 2, 5, 9), (2, 4), (1, 3, 5), by_island=False)
    assert found.spread == pytest.approx(14.333333)
    assert 5 * found.spread == pytest.approx(71.666667)
    assert (6 * found.intra, 6 * found.inter) == pytest.approx((61.25, 10.416667))
    assert found.bias == pytest.approx((1 / 3 - 1 / 6) * found.spread)
    assert found.counts == (1, 2)


@pytest.mark.parametrize(
    ("x", "measured", "left", "best"),
    [
        ((1, 3, 2, 0, 2, 5, 9), (17.5, 0, 3.321429), (9.357639, 0.850694), 0.454268),
        ((1, 3, 2, 8, 2, 5, 9), (0.357143, 11.948980, 0.056122), (3.095238, 2.091837), 0.970082),
    ],
)
def test_the_best_beta_of_the_specification(x, measured, left, best):
    found = of(x, (3, 4), (0, 2, 3, 6), by_island=True)
    assert (found.intra, found.inter, found.bias) == pytest.approx(measured, abs=1e-6)
    assert disagreement_after_s2s(found) == pytest.approx(left, abs=1e-6)
    assert mean_intra_weight(1.0, 2) == 0.5  # w: all is gone after the first of two rounds
    now = when(estimates=(found,), mixing_rate=1.0, period=2)
    assert beta(now, bias_cost=2, adapt_over=5) == pytest.approx(best, abs=1e-6)


def test_estimates_from_uniform_samples_are_right_on_average():
    """Without the clipping: of all samples that have none to clip."""
    x, sizes = np.array([1.0, 3, 0, 2, 5, 9]), (2, 4)
    means = np.repeat([x[:2].mean(), x[2:].mean()], sizes)
    every = [of(x, sizes, some, by_island=False) for some in combinations(range(6), 3)]
    D = ((x - x.mean()) ** 2).sum()
    assert np.mean([5 * one.spread for one in every]) == pytest.approx(D)
    assert np.mean([6 * one.intra for one in every]) == pytest.approx(((x - means) ** 2).sum())
    # S2A moves the average by kappa D / n
    assert np.mean([one.bias for one in every]) == pytest.approx(D / 6 * 3 / (3 * 5))


def test_estimates_by_island_are_right_on_average():
    x, sizes = np.array([1.0, 3, 2, 20, 22, 25, 29]), (3, 4)
    pairs = [(*a, *b) for a in combinations(range(3), 2) for b in combinations(range(3, 7), 2)]
    every = [of(x, sizes, some, by_island=True) for some in pairs]
    means = np.repeat([x[:3].mean(), x[3:].mean()], sizes)
    assert np.mean([7 * one.intra for one in every]) == pytest.approx(((x - means) ** 2).sum())
    inter = ((means - x.mean()) ** 2).sum()
    assert np.mean([7 * one.inter for one in every]) == pytest.approx(inter)
    estimates = [3 / 7 * x[list(s[:2])].mean() + 4 / 7 * x[list(s[2:])].mean() for s in pairs]
    moved = np.mean([(estimate - x.mean()) ** 2 for estimate in estimates])
    assert np.mean([one.bias for one in every]) == pytest.approx(moved)


def test_too_few_tell_nothing():
    assert of((1, 3, 0), (1, 2), (1,), by_island=False) is None
    assert of((1, 3, 0, 4), (2, 2), (0, 2, 3), by_island=True) is None  # one of two
    assert of((1, 3, 0), (1, 2), (0, 1, 2), by_island=True) is not None  # the only one there is


def test_islands_that_sleep_are_left_out():
    found = of((1, 3, 0, 4), (4, 0), (0, 2, 3), by_island=True)
    assert found.sizes == (4,)
    assert found.inter == 0


# The rules


SEEN = SpreadEstimate(
    (6, 6), (2, 2), spread=4.0, intra=1.0, inter=2.0, bias=0.25, since=4, by_island=False
)


def test_under_uniform_sampling_without_mixing_the_best_beta_is_known_beforehand():
    """U = delta D and V = delta D / K: beta = K / (K + lambda), whatever is measured."""
    for x in [(1, 3, 0, 2, 5, 9), (8, 3, 1, 2, 2, 4)]:
        found = of(x, (3, 3), (0, 2, 3, 4), by_island=False)
        if found.inter > 0:  # nothing was clipped
            chosen = beta(when(estimates=(found,)), bias_cost=2, adapt_over=1)
            assert chosen == pytest.approx(4 / (4 + 2))


def test_as_many_are_sampled_as_the_target_asks_for():
    """The smallest K with (1/K - 1/n) s2 <= target."""
    for target in (0.1, 0.3, 1.0, 3.0):
        K = sampled(when(estimates=(SEEN,)), sampled_target=target, adapt_over=5)
        fewest = next(k for k in range(1, 13) if (1 / k - 1 / 12) * 4.0 <= target + 1e-12)
        assert max(2, fewest) == K
    exact = (1 / 3 - 1 / 12) * 4.0  # exactly met by K = 3
    assert sampled(when(estimates=(SEEN,)), sampled_target=exact, adapt_over=5) == 3
    assert sampled(when(estimates=(SEEN,), end=5), sampled_target=1e-9, adapt_over=5) == 5
    assert sampled(when(start=7), sampled_target=1, adapt_over=5) == 7
    apart = replace(SEEN, by_island=True)
    assert sampled(when(estimates=(apart,)), sampled_target=9, adapt_over=5) == 4  # two of each


def test_the_server_comes_when_the_islands_will_be_as_far_apart_as_the_target():
    """B = 2 after 4 rounds, growing with the square of time: at 8 after 8."""
    assert period(when(estimates=(SEEN,)), period_target=8, adapt_over=5) == pytest.approx(8)
    assert period(when(estimates=(SEEN,), end=6), period_target=8, adapt_over=5) == 6
    assert period(when(estimates=(SEEN,)), period_target=1e-9, adapt_over=5) == 1
    agreed = replace(SEEN, inter=0.0)
    assert period(when(estimates=(agreed,)), period_target=8, adapt_over=5) == 100
    assert period(when(start=3), period_target=8, adapt_over=5) == 3


def test_estimates_are_averaged_over_the_last_server_rounds():
    one, other = SEEN, replace(SEEN, spread=8.0)
    both = sampled(when(estimates=(one, other)), sampled_target=0.5, adapt_over=2)
    assert both == sampled(
        when(estimates=(replace(SEEN, spread=6.0),)), sampled_target=0.5, adapt_over=1
    )
    latest = sampled(when(estimates=(one, other)), sampled_target=0.5, adapt_over=1)
    assert latest == sampled(when(estimates=(other,)), sampled_target=0.5, adapt_over=1) != both


# As in the loop


@pytest.fixture
def base(small):
    return small("rounds=14", "network.components=[3,4,5]", "server.sampled=6", "server.period=2")


def suits(field, rule):
    return field != "sampled" or rule not in ("one_each", "bernoulli")


@pytest.mark.parametrize(
    ("field", "rule"), [(f, r) for f in ADAPTIVE for r in RULES if suits(f, r)]
)
def test_an_adaptive_schedule_alone(base, field, rule):
    lane = base.with_settings(*ADAPTIVE[field], f"server.selection={rule}")
    assert_same_trajectories(build_world(base, dtype=torch.float64), [lane], 1e-10)


def test_adaptive_lanes_beside_each_other(base):
    """Lanes of one server that differ in their stepsize see different things, and go their own
    ways; those that do not adapt stay what they are."""
    lanes = [
        *(base.with_settings(*settings) for settings in ADAPTIVE.values()),
        *(base.with_settings(*ALL, f"training.stepsize={eta}") for eta in (0.02, 0.1, 0.4)),
        base.with_settings(*ALL, "fleet.awake=0.5"),
        base.with_settings(*ALL, "fleet.on=3", "fleet.off=3", "fleet.together=islands"),
        base.with_settings(*ALL, "server.selection=per_component", "server.adapt_over=2"),
        base.with_settings(*ADAPTIVE["beta"], "server.weights=stratified"),
        base.with_settings(*ALL, "server.optimizer=fedavgm", "network.gossip_steps=2"),
        base.with_settings("server.primitive=s2a"),
        base.with_settings("server.primitive=none"),
    ]
    assert_same_trajectories(build_world(base, dtype=torch.float64), lanes, 1e-10)


def test_courses_of_lanes_differ(base):
    lanes = [base.with_settings(*ALL, f"training.stepsize={eta}") for eta in (0.02, 0.4)]
    stack = build_stack(build_world(base), lanes)
    met = {0: [], 1: []}
    for moment in simulate(stack):
        for server_round in moment.server_rounds:
            met[server_round.lanes.start].append((moment.round, server_round.uplink))
    assert met[0] != met[1]
    assert len({uplink for _, uplink in met[0] + met[1]}) > 1


class Recorder(Method):
    """Keep what the server rounds of lane 0 and the steps are given."""

    aggregations: ClassVar[list] = []
    numbers: ClassVar[set] = set()

    def after_step(self, lanes, before):
        self.numbers.add((lanes.context.round, lanes.context.number))

    def aggregate(self, lanes, server):
        self.aggregations.append(
            (lanes.context.round, lanes.context.number, server.eta_sum_l1.item())
        )
        return super().aggregate(lanes, server)


def count_server_rounds(models, context):
    return context.number


def test_methods_and_measures_know_the_server_rounds_of_an_adaptive_period(base):
    lane = base.with_settings(*ADAPTIVE["period"], "training.stepsize=0.5").replace(
        method={"name": Recorder}, evaluate={"own": [count_server_rounds]}
    )
    Recorder.aggregations.clear()
    Recorder.numbers.clear()
    measures, counts = CustomMeasures(build_world(lane)), []
    for moment in _ends(build_stack(build_world(lane), [lane]), None):
        counts.append(measures.measure(moment)["count_server_rounds"].item())
    times = [t for t, _, _ in Recorder.aggregations]
    assert len(times) > 2
    assert [number for _, number, _ in Recorder.aggregations] == list(range(len(times)))
    since = np.diff([-1, *times])
    assert [eta for _, _, eta in Recorder.aggregations] == pytest.approx(0.5 * since)
    before = np.searchsorted(times, np.arange(lane.rounds))
    assert Recorder.numbers == set(enumerate(before.tolist()))
    assert counts == np.searchsorted(times, np.arange(1, lane.rounds + 1)).tolist()


def test_a_state_in_the_middle_goes_on_as_if_nothing_had_been(base):
    """What the server has seen is part of the state: through its checkpoint and on, to the bit."""
    lanes = [base.with_settings(*ALL, f"training.stepsize={eta}") for eta in (0.05, 0.3)]
    world = build_world(base)
    stack = build_stack(world, lanes)
    ends = [(m.state.X_nld.clone(), m.state.memory[LOG].clone()) for m in _ends(stack, None)]
    for moment in _ends(stack, None):
        if moment.round == 6:
            kept = replace(
                moment.state,
                X_nld=moment.state.X_nld.clone(),
                memory={name: tensor.clone() for name, tensor in moment.state.memory.items()},
            )
            break
    for (X, log), moment in zip(ends[6:], _ends(build_stack(world, lanes), kept), strict=True):
        assert torch.equal(X, moment.state.X_nld)
        assert torch.equal(log, moment.state.memory[LOG])


@pytest.mark.parametrize("stop_after", [0, 3, 7])
def test_an_adaptive_run_that_was_stopped_ends_as_it_would_have(base, tmp_path, stop_after):
    """From its checkpoint, to the bit; beside lanes that do not adapt, and one that diverges."""
    lanes = [
        base.with_settings(*ALL),
        base.with_settings(*ALL, "server.selection=per_component", "server.adapt_over=2"),
        base.with_settings(*ADAPTIVE["period"], "server.optimizer=fedavgm"),
        base.with_settings(*ALL, "training.stepsize=1e30"),
        base,
    ]
    undisturbed = record(tmp_path / "whole", lanes)
    with pytest.raises(PlugPulledError):
        record(tmp_path / "parts", lanes, stop_after)
    assert_same(record(tmp_path / "parts", lanes), undisturbed)


def _ends(stack, state):
    return (moment for moment in simulate(stack, state) if moment.phase == "end")


def spread_of_mine(context):
    return 0.25 if not context.estimates else min(1.0, context.estimates[-1].inter)


spread_of_mine.needs_estimates = True


def test_a_schedule_of_ones_own_may_see_the_spread(base):
    lane = base.with_settings(
        "server.primitive=blend", f"server.beta_schedule={__name__}:spread_of_mine"
    )
    assert_same_trajectories(build_world(base, dtype=torch.float64), [lane], 1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["server.sampled_schedule=adaptive"], "Set server.sampled_target"),
        (["server.period_schedule=adaptive"], "Set server.period_target"),
        ([*ADAPTIVE["beta"], "server.selection=weighted"], "known for the selections uniform"),
        ([*ADAPTIVE["period"], "server.weights=data"], "not for weights by data"),
        ([*ADAPTIVE["sampled"], "server.selection=one_each"], "multiple of the islands"),
        ([*ADAPTIVE["sampled"], "server.selection=bernoulli"], "leaves that to chance"),
        (["server.bias_cost=0"], "server.bias_cost must be above 0"),
        (["server.adapt_over=0"], "server.adapt_over must be at least 1"),
    ],
)
def test_what_cannot_adapt_is_told(settings, message):
    with pytest.raises(ExperimentError, match=message):
        Experiment.parse({}, settings)


def test_a_beta_that_plays_no_part_adapts_nothing():
    settings = ("server.beta_schedule=adaptive", "server.selection=weighted")
    lane = Experiment.parse({}, ["server.primitive=s2a", *settings])
    assert lane.key() == Experiment.parse({}, ["server.primitive=s2a", settings[1]]).key()


def test_no_ratio_is_expected_where_K_changes():
    """The law of a server round is that of one K."""
    changing = Experiment.parse({}, ["server.sampled_schedule=double", "server.primitive=blend"])
    assert expected_ratios(changing) == (None, None)
    assert not samples_as_in_the_paper(changing)
    assert expected_ratios(Experiment()).disagreement_ratio is not None
