"""Cells: what was read in them is compared on common seeds, and tuned by one rule."""

from collections import Counter
from math import nan

import pytest

from skerry.analysis.cells import Cells

STEPSIZE = "training.stepsize"


def cells(readings, fields=(STEPSIZE,), measure="average_accuracy"):
    """Cells with one part each."""
    parts = {cell: [by_label] for cell, by_label in readings.items()}
    return Cells(measure, None, fields, parts, {}, Counter())


@pytest.mark.parametrize("missing", [{}, {4: nan}], ids=["never run", "diverged"])
def test_labels_are_compared_on_the_seeds_that_both_finished(missing):
    """Whatever other seeds either of them has."""
    ours = {0: 12.0, 1: 15.0, 2: 11.0, 4: 14.0}
    theirs = {0: 10.0, 1: 12.0, 3: 10.0} | missing
    (found,) = cells({(): {"s2s": ours, "s2a": theirs}}, ()).comparisons("s2a").values()
    assert found.difference.count == 2
    assert found.difference.mean == 2.5


@pytest.mark.parametrize(
    ("tried", "best"),
    [
        ({0.1: {0: 5.0, 1: 6.0}, 0.5: {0: 7.0, 1: 8.0}}, 0.5),
        ({0.1: {0: 5.0, 1: 6.0}, 0.5: {0: 99.0, 1: nan}}, 0.1),  # it diverged once
        ({0.1: {0: 5.0, 1: 0.0}, 0.5: {0: 4.0}}, 0.1),  # seed 0 is what they have in common
        ({0.1: {0: 5.0, 1: 9.0}, 0.5: {0: 6.0}}, 0.5),
        ({0.1: {0: 5.0}, 0.5: {1: 6.0}}, 0.5),  # nothing in common: all seeds count
        ({0.1: {0: nan}, 0.5: {0: 1.0}}, 0.5),
    ],
)
def test_the_best_value_of_a_field(tried, best):
    """Values are weighed on the seeds that all of them were run with; one that diverged there is
    behind those that did not."""
    found = cells({(value,): {"s2s": by_seed} for value, by_seed in tried.items()})
    assert found.tuned_values(STEPSIZE)[()]["s2s"].value == best
    assert found.best(STEPSIZE).readings == {(): [{"s2s": tried[best]}]}


def test_the_lowest_loss_is_the_best():
    found = cells({(0.1,): {"s2s": {0: 5.0}}, (0.5,): {"s2s": {0: 4.0}}}, measure="average_loss")
    assert found.tuned_values(STEPSIZE)[()]["s2s"].value == 0.5


def test_a_label_that_diverged_everywhere_has_no_best_value():
    found = cells({(0.1,): {"s2s": {0: nan}, "s2a": {0: 1.0}}})
    assert found.tuned_values(STEPSIZE) == {(): {"s2a": found.tuned_values(STEPSIZE)[()]["s2a"]}}
