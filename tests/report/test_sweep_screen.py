"""The table after a sweep."""

import math
from dataclasses import replace

import pytest
from rich.console import Console

from skerry.analysis.results import Lane, Results
from skerry.analysis.statistics import estimate
from skerry.report.screens.sweep import best_cells_table
from skerry.runs.sweep import Sweep

AXES = {"server.period": [5, 10, 20, 40], "server.primitive": ["s2s", "s2a"]}


def sweep(**fields):
    return Sweep.parse({"sweep": {"seeds": 3, "axes": AXES} | fields})


def lanes_of(asked, score, measure="average_accuracy"):
    for run in asked.runs():
        value = score(run)
        yield Lane(run.key(), run, "finished", {} if value is None else {measure: value}, {})


def rows_of(asked, lanes):
    console = Console(width=200)
    with console.capture() as told:
        console.print(best_cells_table(asked, Results(tuple(lanes))))
    lines = [line.split() for line in told.get().splitlines() if "±" in line or "nan" in line]
    return [line if line[0] in ("s2s", "s2a") else ["", *line] for line in lines]


def score(run):
    return 100.0 - run.server.period + run.seed * (1 if run.server.primitive == "s2s" else 2)


def test_the_best_three_cells_of_each_primitive_are_shown_with_their_intervals():
    rows = rows_of(asked := sweep(), lanes_of(asked, score))
    assert [row[:2] for row in rows] == [
        [name if period == 5 else "", str(period)]
        for name in ("s2s", "s2a")
        for period in (5, 10, 20)
    ]
    for row, slope in zip(rows, [1] * 3 + [2] * 3, strict=True):
        found = estimate([100.0 - int(row[1]) + slope * seed for seed in range(3)])
        assert row[2:] == [f"{found.mean:.4g}", "±", f"{found.half_width:.2g}"]


def test_seeds_without_a_value_do_not_count():
    """A failed run has none; a cell in which all failed is not shown."""

    def partly(run):
        failed = run.server.period == 5 or (run.server.period == 10 and run.seed == 2)
        return None if failed else score(run)

    rows = rows_of(asked := sweep(), lanes_of(asked, partly))
    assert [row[1] for row in rows] == ["10", "20", "40"] * 2
    assert rows[0][2:] == ["90.5", "±", f"{estimate([90.0, 91.0]).half_width:.2g}"]


def test_runs_that_diverged_have_no_value():
    """Whatever their last one was; `skerry results` says the same."""
    asked = sweep()
    lanes = [
        replace(lane, status="diverged" if lane.experiment.seed == 2 else "finished")
        for lane in lanes_of(asked, score)
    ]
    rows = rows_of(asked, lanes)
    assert rows[0][2:] == ["95.5", "±", f"{estimate([95.0, 96.0]).half_width:.2g}"]


def test_losses_are_best_when_low():
    asked = sweep(tune_by="average_loss")
    rows = rows_of(asked, lanes_of(asked, score, "average_loss"))
    assert [row[1] for row in rows] == ["40", "20", "10"] * 2


@pytest.mark.parametrize("value", [None, math.inf])
def test_a_sweep_in_which_nothing_came_out_has_a_table_too(value):
    asked = sweep()
    assert all("±" not in row for row in rows_of(asked, lanes_of(asked, lambda run: value)))


def test_tuned_cells_are_shown_at_their_best_value():
    axes = {"training.stepsize": [0.01, 0.1, 1.0], "server.primitive": ["s2s", "s2a"]}
    asked = sweep(axes=axes, tune="training.stepsize")
    best = {"s2s": 0.1, "s2a": 0.01}
    rows = rows_of(
        asked,
        lanes_of(asked, lambda r: r.seed - abs(r.training.stepsize - best[r.server.primitive])),
    )
    assert {row[0]: float(row[1]) for row in rows} == best
