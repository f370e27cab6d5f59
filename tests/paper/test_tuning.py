"""Runs at their best stepsize."""

import numpy as np
import pandas as pd

from skerry_paper.study import NO_RUN, at_best_stepsize, index_rows, read_rows


def runs(*rows: tuple[str, float, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["primitive", "stepsize", "seed", "score"])


def test_a_stepsize_that_diverges_is_not_the_best() -> None:
    """A stepsize that fewer seeds finished with is not chosen, however good its mean."""
    tried = runs(
        ("s2s", 0.1, 0, 50), ("s2s", 0.1, 1, 50), ("s2s", 1.0, 0, 99), ("s2s", 1.0, 1, np.nan)
    )
    assert at_best_stepsize(tried, "score")["stepsize"].tolist() == [0.1, 0.1]


def test_every_group_has_its_own_best() -> None:
    """Without groups there is one choice for all."""
    tried = runs(("s2s", 0.1, 0, 50), ("s2s", 1.0, 0, 60), ("s2a", 0.1, 0, 90), ("s2a", 1.0, 0, 70))
    best = at_best_stepsize(tried, "score", ["primitive"])
    assert dict(zip(best["primitive"], best["stepsize"], strict=True)) == {"s2s": 1.0, "s2a": 0.1}


def test_stepsizes_are_compared_on_the_seeds_that_all_have() -> None:
    """A stepsize tried with one seed is not compared with the lucky seeds of another; all runs of
    the chosen one are kept."""
    tried = runs(("s2s", 0.1, 0, 50), ("s2s", 0.1, 1, 99), ("s2s", 0.1, 2, 99), ("s2s", 1.0, 0, 60))
    assert at_best_stepsize(tried, "score")["score"].tolist() == [60]
    better = tried.assign(score=[70, 20, 20, 60])
    assert at_best_stepsize(better, "score")["score"].tolist() == [70, 20, 20]


def test_nothing_has_no_best() -> None:
    assert at_best_stepsize(runs(), "score").empty


def test_rows_stand_in_their_places() -> None:
    """A hole in the grid is no run, and has no value."""
    tried = runs(("s2s", 0.1, 0, 5), ("s2s", 1.0, 1, 7))
    rows = index_rows(np.array([0, 1]), np.array([0, 1]))
    assert rows.tolist() == [[0, NO_RUN], [NO_RUN, 1]]
    np.testing.assert_equal(read_rows(tried, "score", rows), [[5, np.nan], [np.nan, 7]])
    assert np.isnan(read_rows(tried, "another", rows)).all()
