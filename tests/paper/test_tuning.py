"""Runs at the stepsize that is best on the other seeds."""

import numpy as np
import pandas as pd

from skerry_paper.study import (
    NO_RUN,
    at_best_stepsize,
    index_rows,
    read_rows,
    stepsize_counts,
    tuned_places,
)


def runs(*rows: tuple[str, float, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["primitive", "stepsize", "seed", "score"])


def test_a_seed_is_not_tuned_on_itself() -> None:
    """Each seed has the stepsize that is best on the other seeds, even where its own best is
    another: seed 0 is lucky at 1.0, seeds 1 and 2 are better at 0.1."""
    tried = runs(
        *(("s2s", 0.1, seed, score) for seed, score in enumerate([50, 60, 60])),
        *(("s2s", 1.0, seed, score) for seed, score in enumerate([95, 40, 40])),
    )
    chosen = at_best_stepsize(tried, "score").set_index("seed")["stepsize"]
    assert chosen.to_dict() == {0: 0.1, 1: 1.0, 2: 1.0}
    # Tuned on the scored seeds, seed 0 would have its lucky stepsize, too.
    assert tried.groupby("stepsize")["score"].mean().idxmax() == 1.0


def test_pure_noise_is_not_made_a_gain_by_tuning() -> None:
    """Where stepsizes do not matter, the tuned mean is the untuned one; tuned on the scored seeds
    it would be better by chance."""
    noise = np.random.default_rng(0).normal(size=(400, 4, 5))  # groups, stepsizes, seeds
    ran = np.ones(noise.shape, dtype=bool)
    chosen = np.take_along_axis(noise, tuned_places(noise, ran)[:, None], axis=1)
    assert abs(chosen.mean()) < 0.05
    assert noise.mean(axis=2).max(axis=1).mean() > 0.4


def test_a_stepsize_that_diverges_is_not_the_best() -> None:
    """A stepsize that fewer of the other seeds finished with is not chosen, however good it is."""
    tried = runs(
        *(("s2s", 0.1, seed, 50) for seed in range(3)),
        *(("s2s", 1.0, seed, score) for seed, score in enumerate([99, np.nan, 99])),
    )
    chosen = at_best_stepsize(tried, "score").set_index("seed")["stepsize"]
    assert chosen.to_dict() == {0: 0.1, 1: 1.0, 2: 0.1}


def test_every_group_has_its_own_best() -> None:
    """Groups are tuned apart; a single seed has no others and is tuned on itself."""
    tried = runs(("s2s", 0.1, 0, 50), ("s2s", 1.0, 0, 60), ("s2a", 0.1, 0, 90), ("s2a", 1.0, 0, 70))
    best = at_best_stepsize(tried, "score", ["primitive"])
    assert dict(zip(best["primitive"], best["stepsize"], strict=True)) == {"s2s": 1.0, "s2a": 0.1}


def test_seeds_with_one_stepsize_leave_the_choice_to_the_seed_that_has_more() -> None:
    """Only seed 0 was run with two stepsizes: nothing else can choose for it, and the others take
    its choice, without a run there."""
    tried = runs(("s2s", 0.1, 0, 50), ("s2s", 0.1, 1, 99), ("s2s", 0.1, 2, 99), ("s2s", 1.0, 0, 60))
    assert at_best_stepsize(tried, "score")["score"].tolist() == [60]
    better = tried.assign(score=[70, 20, 20, 60])
    assert at_best_stepsize(better, "score")["score"].tolist() == [70, 20, 20]


def test_stepsizes_of_several_seeds_are_counted() -> None:
    """One choice is named alone, several with the number of seeds, the most frequent first."""
    assert stepsize_counts([0.1, 0.1, np.nan]) == "0.1"
    assert stepsize_counts([0.0316, 0.1, 0.1]) == "0.1 (2 seeds), 0.0316 (1)"


def test_nothing_has_no_best() -> None:
    assert at_best_stepsize(runs(), "score").empty


def test_rows_stand_in_their_places() -> None:
    """A hole in the grid is no run, and has no value."""
    tried = runs(("s2s", 0.1, 0, 5), ("s2s", 1.0, 1, 7))
    rows = index_rows(np.array([0, 1]), np.array([0, 1]))
    assert rows.tolist() == [[0, NO_RUN], [NO_RUN, 1]]
    np.testing.assert_equal(read_rows(tried, "score", rows), [[5, np.nan], [np.nan, 7]])
    assert np.isnan(read_rows(tried, "another", rows)).all()
