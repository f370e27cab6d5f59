"""The search on landscapes whose best setting is known."""

import math
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.advice.answer import answer_of
from skerry.advice.pilot import STACK, AdviceProgress, Pilot, run_pilot
from skerry.advice.question import Question, Timer, read_among
from skerry.advice.scores import ACCURACIES, ALL_LOSSES, PilotScores
from skerry.advice.search import Search
from skerry.advice.settings import Budget, Entry, features, space_of
from skerry.advice.surface import fit, two_way
from skerry.config.experiment import Experiment
from skerry.theory.communication import Prices

UPLOADS = Prices(downlink=0.0)


@given(st.integers(0, 1000))
def test_effects_of_seeds_are_removed(seed: int) -> None:
    """Where scores are setting plus seed, exactly, the means differ as the settings do, whichever
    settings ran on which seeds."""
    rng = np.random.default_rng(seed)
    setting_e, effect_s = rng.normal(size=6), 5 * rng.normal(size=4)
    score_es = setting_e[:, None] + effect_s
    score_es[rng.random(score_es.shape) < 0.3] = np.nan
    score_es[:, 0] = setting_e + effect_s[0]  # one seed that all have
    found = two_way(score_es)
    assert np.ptp(found.mean_e - setting_e) < 1e-9
    ran_s = np.isfinite(score_es).any(axis=0)
    assert np.ptp((found.seed_s - effect_s)[ran_s]) < 1e-9
    assert found.noise < 1e-9


def test_the_surface_predicts_what_was_not_run() -> None:
    """A quadratic landscape is known everywhere from a part of its settings, and its draws have the
    mean that it tells."""
    rng = np.random.default_rng(0)
    features_ep = np.stack([np.ones(60), *(x := rng.normal(size=(2, 60))), x[0] ** 2], axis=1)
    truth_e = 3 + features_ep @ np.array([0, 1.0, -2.0, -1.0])
    count_e = np.where(np.arange(60) < 30, 2.0, 0.0)
    mean_e = np.where(count_e > 0, truth_e + 0.01 * rng.normal(size=60), 0.0)
    surface = fit(features_ep, count_e, mean_e, 0.01)
    assert np.abs(surface.means() - truth_e).max() < 0.1
    drawn_e = surface.draws(2000, rng).mean(axis=0)
    assert np.abs(drawn_e - surface.means()).max() < 0.05


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Landscape(Pilot):
    """A pilot whose runs are drawn from a known landscape; a lane takes a second."""

    def run(self, entries, seeds, deadline) -> bool:
        for seed in seeds:
            for e in entries:
                rng = np.random.default_rng([seed, crc32(repr(e).encode())])
                score = self.truth(e) + self.noise * rng.normal() + seed % 7
                names = self.scores.measures["both"]
                self.scores.values.setdefault(e, {})[seed] = dict.fromkeys(names, score)
        self.timer.clock.now += len(entries) * len(seeds) + STACK * len(seeds)
        self.pace = 1.0
        return True


def searched(truth, *, limit=None, seconds=2000.0, noise=0.1, losses=False, **asked) -> Landscape:
    asked = {"among": read_among(None), "prices": UPLOADS, "limit": limit} | asked
    experiment = Experiment.parse({}, ["network.devices=24", "server.sampled=4", "rounds=60"])
    question = Question(**asked)
    budget = Budget(question.prices, 24, 0, 0, 60, limit)
    space = space_of(question, experiment, budget, (12, 12))
    scores = PilotScores({"both": (ALL_LOSSES if losses else ACCURACIES)["both"]})
    search = Search(space, scores, "both", question.among.none)
    pilot = Landscape(
        question, experiment, search, None, Timer(seconds, Clock()), AdviceProgress(), pace=1.0
    )
    pilot.truth, pilot.noise = truth, noise
    run_pilot(pilot)
    return pilot


def hill(e: Entry) -> float:
    """Best: a server that asks many, often, with one_each, at a stepsize of 0.1."""
    c = e.candidate
    bad_step = 2 * math.log10(e.stepsize / 0.1) ** 2
    if not c.has_server:
        return 85 - bad_step
    gain = 4 * (1 - math.exp(-c.sampled / 2)) - 0.5 * math.log(c.period) ** 2
    return 88 + gain + (c.selection == "one_each") + (c.primitive == "s2a") - bad_step


def test_the_cheapest_level_setting_is_found() -> None:
    """Asking more than 8 devices gains less than the tolerance, so it is not recommended."""
    answer = answer_of(pilot := searched(hill))
    entries = [e for e in pilot.space.entries if pilot.budget.allows(e.candidate)]
    top = max(map(hill, entries))
    chosen = answer.recommendation.entry
    assert hill(chosen) >= top - 0.2
    level = [e for e in entries if hill(e) >= top - 0.1]
    cheapest = min(pilot.budget.cost(e.candidate) for e in level)
    assert answer.recommendation.cost <= 1.25 * cheapest
    assert answer.recommended == "cheapest"
    assert pilot.timer.spent <= 2000
    assert not set(pilot.fresh) & set(pilot.search.seeds)
    assert not answer.none_is_level
    assert answer.none.behind.low <= hill(answer.best.entry) - hill(answer.none.entry)
    costs = [point.cost for point in answer.curve]
    assert costs == sorted(costs)
    assert costs[0] == 0


def test_a_budget_is_kept() -> None:
    """Neither the best nor the recommended setting costs more than the budget, though some settings
    beyond it are tried to tell what more would gain."""
    pilot = searched(hill, limit=60)
    answer = answer_of(pilot)
    assert max(answer.best.cost, answer.recommendation.cost) <= 60
    assert any(pilot.budget.cost(e.candidate) > 60 for e in pilot.scores.values)


def test_a_server_that_gains_nothing_is_not_recommended() -> None:
    answer = answer_of(searched(lambda e: 80.0 - math.log10(e.stepsize / 0.1) ** 2))
    assert answer.recommended == "none"
    assert answer.recommendation.cost == 0
    assert answer.none_is_level


def test_no_server_is_only_compared_where_it_may_not_be_recommended() -> None:
    flat = searched(lambda e: 80.0, among=read_among("s2s,s2a"))
    answer = answer_of(flat)
    assert answer.recommendation.entry.candidate.has_server
    assert answer.none.score.count == len(flat.fresh)


@pytest.mark.parametrize(("axis", "best"), [("period", 60), ("stepsize", 1.0)])
def test_ranges_are_extended_where_their_end_is_best(axis: str, best: float) -> None:
    def truth(e: Entry) -> float:
        value = e.stepsize if axis == "stepsize" else e.candidate.period or 1
        return 90 - 3 * abs(math.log(value / best))

    pilot = searched(truth)
    assert pilot.space.values[axis][-1] > {"period": 20, "stepsize": 0.32}[axis]


def test_exploded_runs_count_as_worst() -> None:
    """A run without a score, or with a loss far above the others, is never recommended."""

    def truth(e: Entry) -> float:
        return 1e30 if e.stepsize > 0.2 else 1.0 + 0.1 * (not e.candidate.has_server)

    pilot = searched(truth, losses=True, noise=0.0)
    exploded = {entry.stepsize > 0.2 for entry, _ in pilot.scores.exploded("both")}
    assert exploded == {True}
    assert answer_of(pilot).recommendation.entry.stepsize < 0.2


@pytest.mark.parametrize("seconds", [60, 200, 700])
def test_time_is_kept_and_no_answer_has_one_seed(seconds: float) -> None:
    """With little time there are fewer settings, not fewer than two seeds."""
    pilot = searched(hill, seconds=seconds)
    assert len(pilot.fresh) >= 2
    assert pilot.timer.spent <= max(seconds, 70)
    if seconds < 250:
        assert answer_of(pilot).verdict == "unclear"


def test_features_separate_settings() -> None:
    """No two settings of a space with the same stepsize have the same features."""
    pilot = searched(hill, seconds=100)
    rows = features(pilot.space.entries, pilot.space)
    assert len(np.unique(rows.round(9), axis=0)) == len(rows)
    assert np.isfinite(rows).all()
