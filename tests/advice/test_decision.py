"""From scores to a verdict."""

from dataclasses import replace

import numpy as np
import pytest

from skerry.advice.candidates import Candidate, Entry
from skerry.advice.decision import (
    ACCURACIES,
    ALL_LOSSES,
    HOPELESS,
    LOSSES,
    PilotScores,
    decide,
    mean_of_last_rounds,
)
from skerry.advice.pilot import keep_best
from skerry.advice.question import USUAL_GOALS

S2S, S2A = Candidate("s2s", None, 5, 5), Candidate("s2a", None, 5, 5)
HALF, MORE = Candidate("blend", 0.5, 5, 5), Candidate("blend", 0.75, 5, 5)


USUAL = {goal: ACCURACIES[goal] for goal in USUAL_GOALS}


def history(common: float, own: float) -> dict:
    return {
        "round": np.array([0, 8, 9, 10]),
        "average_accuracy": np.array([0, common, common, common]),
        "own_accuracy": np.array([0, own, own, own]),
    }


def scores_of(means: dict, spread: float = 0.1, seeds: int = 6) -> PilotScores:
    """Entries by (candidate, stepsize), with (global, own) means and the same dice for all."""
    scores, dice = PilotScores(USUAL), np.random.default_rng(0)
    for seed in range(seeds):
        common = dice.normal(0, 5)
        for (candidate, stepsize), (average, own) in means.items():
            noise = common + dice.normal(0, spread)
            found = history(average + noise, own + noise)
            scores.add(Entry(candidate, stepsize), seed, found, until=10)
    return scores


def test_a_score_is_the_mean_of_the_last_fifth() -> None:
    """Rounds before the last fifth, and after the budget's end, do not count."""
    rows = {"round": np.arange(11), "x": np.arange(11.0)}
    assert mean_of_last_rounds(rows, "x", until=10) == 9.5
    assert mean_of_last_rounds(rows, "x", until=5) == 5
    assert np.isnan(mean_of_last_rounds(rows, "x", until=0))
    sparse = {"round": np.array([0, 3, 10]), "x": np.array([0.0, 3.0, 10.0])}
    assert mean_of_last_rounds(sparse, "x", until=9) == 3


def test_the_better_one_wins_clearly() -> None:
    """Pairing removes what seeds have in common: a lead of 1 stands out of a spread of 5."""
    scores = scores_of({(S2S, 0.1): (90, 95), (S2A, 0.1): (91, 94)})
    entries = list(scores.values)
    for goal, winner in (("global", S2A), ("own", S2S)):
        found = decide(scores, goal, entries)
        assert found.best.candidate == winner
        assert found.verdict == "clear"
        assert found.confidence > 0.99
        assert found.runner_up.lead.mean == pytest.approx(1, abs=0.3)


def test_each_candidate_has_its_own_stepsize() -> None:
    """Primitives are compared at their own best stepsizes."""
    scores = scores_of(
        {(S2S, 0.1): (80, 80), (S2S, 1): (92, 92), (S2A, 0.1): (91, 91), (S2A, 1): (50, 50)}
    )
    found = decide(scores, "global", list(scores.values))
    assert found.best == Entry(S2S, 1)
    assert found.runner_up.entry == Entry(S2A, 0.1)


def test_blends_are_one_kind() -> None:
    """Two blends that are level do not make the choice of blend unclear."""
    scores = scores_of({(HALF, 1): (95, 95), (MORE, 1): (95, 95), (S2A, 1): (90, 90)})
    found = decide(scores, "both", list(scores.values))
    assert found.best.candidate.primitive == "blend"
    assert [rival.entry.candidate for rival in found.rivals] == [S2A]
    assert found.verdict == "clear"


def test_chance_is_called_chance() -> None:
    """Without a difference there is no clear winner, and more seeds are not promised to help."""
    scores = scores_of({(S2S, 1): (90, 90), (S2A, 1): (90, 90)}, spread=3)
    found = decide(scores, "both", list(scores.values))
    assert found.verdict == "unclear"
    assert found.confidence < 0.975
    needed = found.seeds_to_settle()
    assert needed is None or found.score.count < needed <= HOPELESS


def test_one_seed_has_no_confidence() -> None:
    """A single seed names a best entry, but says nothing about chance."""
    scores = scores_of({(S2S, 1): (90, 90), (S2A, 1): (80, 80)}, seeds=1)
    found = decide(scores, "both", list(scores.values))
    assert (found.best.candidate, found.verdict, found.confidence) == (S2S, "unclear", None)


def test_an_entry_that_diverges_on_some_seeds_is_not_chosen() -> None:
    """A stepsize must hold on all seeds, however good it is on the others."""
    scores = scores_of({(S2S, 1): (90, 90), (S2S, 10): (99, 99), (S2A, 1): (80, 80)})
    scores.add(Entry(S2S, 10), 0, None, until=10)
    assert decide(scores, "global", list(scores.values)).best == Entry(S2S, 1)


def test_those_that_left_the_race_are_judged_on_common_seeds() -> None:
    """Who was lucky on a few seeds is not best for that: others are read on the same few."""
    scores = PilotScores(USUAL)
    for seed, points in enumerate((95, 95, 80, 80)):
        scores.add(Entry(S2S, 1), seed, history(points, points), until=10)
    for seed, points in enumerate((94, 94)):
        scores.add(Entry(S2S, 10), seed, history(points, points), until=10)
    assert scores.mean(Entry(S2S, 10), "both") > scores.mean(Entry(S2S, 1), "both")
    assert scores.best(scores.values, "both") == Entry(S2S, 1)


def test_all_diverged_has_no_decision() -> None:
    """Where nothing finished there is nothing to decide."""
    scores = PilotScores(USUAL)
    scores.add(Entry(S2S, 1), 0, None, until=10)
    assert decide(scores, "both", list(scores.values)) is None
    assert scores.diverged == [(Entry(S2S, 1), 0)]


def test_losses_are_better_low() -> None:
    """For models without accuracies the lower loss wins, and there is no own goal."""
    scores = PilotScores(LOSSES)
    for seed in range(3):
        for candidate, loss in ((S2S, 0.1), (S2A, 0.2)):
            rows = {"round": np.array([0, 10]), "average_loss": np.array([1.0, loss])}
            scores.add(Entry(candidate, 1), seed, rows, until=10)
    assert scores.goals == ["global", "both"]
    found = decide(scores, "both", list(scores.values))
    assert found.best.candidate == S2S
    assert found.verdict == "clear"  # every seed says the very same


@pytest.mark.parametrize(
    ("measures", "what"), [(ACCURACIES, "accuracy"), (ALL_LOSSES, "loss")], ids=lambda v: str(v)[:8]
)
def test_the_worst_tenth_decides_where_it_is_the_goal(measures, what) -> None:
    """S2A is better for the average model and for devices in the mean, S2S for those behind."""
    better, worse = (90.0, 80.0) if what == "accuracy" else (0.1, 0.2)
    scores = PilotScores(measures)
    for seed in range(3):
        for candidate, mean, behind in ((S2S, worse, better), (S2A, better, worse)):
            rows = {"round": np.array([0, 10])}
            rows |= {f"{who}_{what}": np.array([0.0, mean]) for who in ("average", "own")}
            rows[f"own_{what}_worst_tenth"] = np.array([0.0, behind])
            scores.add(Entry(candidate, 1), seed, rows, until=10)
    winners = {goal: decide(scores, goal, list(scores.values)).best.candidate for goal in measures}
    assert winners == {"global": S2A, "own": S2A, "both": S2A, "worst_tenth": S2S}


def test_survivors_hold_every_finalist() -> None:
    """Halving drops entries, but never the best of a primitive for any goal."""
    scores = {
        (candidate, stepsize): (60 + 10 * stepsize + at, 90 - 10 * stepsize - at)
        for at, candidate in enumerate((S2S, S2A, HALF, MORE))
        for stepsize in (0.1, 0.3, 1, 3)
    }
    scores = scores_of(scores)
    entries = list(scores.values)
    while True:
        left = keep_best(scores, entries)
        for goal in USUAL:
            assert set(scores.best_by_primitive(entries, goal).values()) <= set(left)
        if len(left) == len(entries):
            break
        assert len(left) < len(entries)
        entries = left
    finalists = {
        entry for goal in USUAL for entry in scores.best_by_primitive(entries, goal).values()
    }
    assert len(entries) <= 2 * len(finalists)


def test_rules_of_selection_are_compared_under_the_best_primitive() -> None:
    """Whom to sample is a question of its own: it leaves the verdict on primitives as it is."""
    each = replace(S2A, selection="per_component")
    scores = scores_of(
        {
            (S2S, 0.1): (89, 95),
            (replace(S2S, selection="per_component"), 0.1): (89, 95),
            (S2A, 0.1): (88, 92),
            (each, 0.1): (91, 92),
        }
    )
    entries = list(scores.values)
    found = decide(scores, "global", entries)
    assert found.best.candidate == each
    assert [rival.entry.candidate.primitive for rival in found.rivals] == ["s2s"]
    (other,) = found.selections
    assert other.entry.candidate == S2A
    assert other.is_clear
    assert other.lead.mean == pytest.approx(3, abs=0.3)
    assert set(entries) == set(keep_best(scores, entries))  # each leads its kind
