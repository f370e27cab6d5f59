"""When runs first reach a score: the first evaluated round at or past it, seed by seed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skerry.analysis.reach import (
    at_best,
    common_target,
    first_at,
    reach,
    undominated,
    with_clock,
)
from skerry.analysis.run_table import RunTable
from skerry.config.experiment import Experiment
from skerry.config.measures import COSTS, LINKS
from skerry.errors import RecordsError, SkerryError
from skerry.records.store import Store
from skerry.runs.run import run

NAN = math.nan


def record(folder, runs, measure="average_accuracy"):
    """A store with a run for each (settings, status, values by round); a round takes ten seconds
    and three joules, and sends two messages of a hundred bytes on each link."""
    with Store.open(folder) as store:
        for settings, status, values in runs:
            experiment = Experiment.parse({}, [f"rounds={len(values) - 1}", *settings])
            key = experiment.key({})
            facts = {"materials": {}, "world": experiment.world_key(), "device": "cpu"}
            store.begin({key: experiment}, versions={}, **facts)
            rounds = np.arange(len(values))
            sent = {f"{link}_messages": 2 * rounds for link in LINKS}
            sent |= {f"{link}_bytes": 200 * rounds for link in LINKS}
            rows = {"round": rounds, measure: values, "seconds": 10.0 * rounds, **sent}
            rows["joules"] = 3.0 * rounds
            store.append({key: {name: list(column) for name, column in rows.items()}})
            store.finish(key, status, wall_seconds=1.0)
    return RunTable.read(folder)


def labelled(curves, *settings):
    """A finished run for each curve of each label, the place of a curve being its seed."""
    return [
        ([f"server.primitive={label}", f"seed={seed}", *settings], "finished", curve)
        for label, by_seed in curves.items()
        for seed, curve in enumerate(by_seed)
    ]


def test_the_first_evaluated_round_at_or_past_the_target_counts(tmp_path):
    """Rounds that were not evaluated (NaN) do not, nothing is interpolated, and later falls below
    the target change nothing."""
    curve = [10.0, NAN, 49.9, 80.0, 20.0, 80.0]
    found = reach(record(tmp_path, labelled({"s2s": [curve]})), target=50)
    assert list(found.costs) == list(COSTS)
    took = {cost: found.took(cost, (), "s2s").mean for cost in COSTS}
    sent = {"messages": 12, "bytes": 1200, "all_messages": 18, "all_bytes": 1800}
    assert took == {"rounds": 3, **sent, "seconds": 30, "joules": 9}
    with pytest.raises(SkerryError, match=r"`target` must be a finite number \(got nan\)"):
        reach(record(tmp_path / "other", labelled({"s2s": [curve]})), target=NAN)


def test_a_target_is_reached_when_it_is_met_exactly(tmp_path):
    table = record(tmp_path, labelled({"s2s": [[10.0, 50.0, 60.0]]}))
    assert reach(table, target=50).took("rounds", (), "s2s").mean == 1


def test_a_loss_falls_to_its_target(tmp_path):
    """As every measure does of which less is better."""
    runs = labelled({"s2s": [[2.0, 1.5, 0.9, 1.2]]}, "data.dataset=synthetic")
    found = reach(record(tmp_path, runs, "average_loss"), target=1.0)
    assert found.measure == "average_loss"
    assert found.took("rounds", (), "s2s").mean == 2


def test_never_is_an_answer_and_counts_no_seed(tmp_path):
    """The mean is over the seeds that reach it; the others, also diverged ones, never do."""
    runs = labelled({"s2s": [[0.0, 60.0], [0.0, 0.0]], "s2a": [[0.0, 0.0], [0.0, 0.0]]})
    runs.append((["server.primitive=s2s", "seed=2"], "diverged", [0.0, 70.0]))
    found = reach(record(tmp_path, runs), target=50)
    assert (found.took("seconds", (), "s2s").count, found.seeds((), "s2s")) == (1, 3)
    assert (found.took("seconds", (), "s2a").count, found.seeds((), "s2a")) == (0, 2)
    assert found.first("seconds", ()).labels == ("s2s",)
    assert found.first("seconds", ()).is_alone
    nobody = reach(record(tmp_path / "other", runs), target=99)
    assert nobody.first("rounds", ()) is None
    assert nobody.comparisons("seconds", "s2a") == {}


def at(*rounds):
    """Curves that first reach 50 in these rounds; None: never."""
    return [[60.0 if r is not None and t >= r else 0.0 for t in range(12)] for r in rounds]


def test_differences_are_over_the_seeds_in_which_both_reach_it(tmp_path):
    """As scipy's paired t test says, in rounds and in seconds alike."""
    ours, theirs = [3, 5, 4, 9, None], [6, 6, 9, None, 2]
    table = record(tmp_path, labelled({"s2s": at(*ours), "s2a": at(*theirs)}))
    found = reach(table, target=50)
    pairs = np.array([(a, b) for a, b in zip(ours, theirs, strict=True) if a and b])
    for cost, unit in (("rounds", 1), ("seconds", 10)):
        one = found.comparisons(cost, "s2a")[(), "s2s"]
        assert one.difference.count == 3
        assert one.difference.mean == pytest.approx(unit * (pairs[:, 0] - pairs[:, 1]).mean())
        assert one.t_p == pytest.approx(stats.ttest_rel(pairs[:, 0], pairs[:, 1]).pvalue)
    first = found.first("seconds", ())
    assert (first.labels, first.lead.second, first.lead.gap.count) == (("s2s",), "s2a", 3)


def test_who_reaches_it_in_more_seeds_is_first(tmp_path):
    """A label that is early in its one good seed is not."""
    table = record(tmp_path, labelled({"s2s": at(1, None, None), "s2a": at(8, 9, 9)}))
    assert reach(table, target=50).first("rounds", ()).labels == ("s2a",)


def test_labels_that_take_the_same_are_level(tmp_path):
    table = record(tmp_path, labelled({"s2s": at(3, 5), "s2a": at(5, 3)}))
    first = reach(table, target=50).first("seconds", ())
    assert (first.labels, first.lead, first.is_alone) == (("s2s", "s2a"), None, False)


@pytest.mark.parametrize(
    ("measure", "best", "target"),
    [
        ("average_accuracy", (91.97, 93.1), 91.0),
        ("average_accuracy", (8.74, 9.0), 8.7),
        ("average_accuracy", (100.0, 100.0), 100.0),
        ("average_accuracy", (0.0, 50.0), 0.0),
        ("average_loss", (0.2341, 0.19), 0.24),
        ("average_loss", (12.3, 11.0), 13.0),
        ("average_r2", (-0.123, 0.4), -0.13),
    ],
)
def test_the_usual_target_is_one_that_every_run_reaches(tmp_path, measure, best, target):
    """Rounded to two digits, to the side that is easier."""
    start = 100.0 if measure == "average_loss" else -1.0
    table = record(tmp_path, labelled({"s2s": [[start, one] for one in best]}), measure)
    assert common_target(table, measure) == target
    assert reach(table, measure).took("rounds", (), "s2s").count == len(best)


def test_cells_are_told_apart_and_a_tuned_field_is_chosen(tmp_path):
    """At its best stepsize by the final score, which need not be the one that is first."""
    slow = labelled({"s2s": [[0.0, 0.0, 90.0]], "s2a": [[0.0, 0.0, 60.0]]}, "training.stepsize=0.1")
    fast = labelled({"s2s": [[0.0, 60.0, 60.0]], "s2a": [[0.0, 60.0, 70.0]]}, "training.stepsize=1")
    table = record(tmp_path, slow + fast)
    found = reach(table, target=50)
    assert found.scores.fields == ("training.stepsize",)
    assert [found.took("rounds", (step,), "s2s").mean for step in (0.1, 1.0)] == [2, 1]
    tuned = reach(at_best(table, "stepsize"), target=50)
    assert tuned.scores.fields == ()
    assert tuned.took("rounds", (), "s2s").mean == 2  # the stepsize 0.1 ends higher
    assert tuned.took("rounds", (), "s2a").mean == 1


def test_seconds_and_joules_need_a_clock(tmp_path):
    """Without one, rounds, messages and bytes are told; with one, the same rounds take seconds."""
    base = Experiment.parse({}, ["rounds=4", "network.devices=8", "server.sampled=2"])
    run(base, compare=["s2s", "s2a"], seeds=2, out=tmp_path)
    table = RunTable.read(tmp_path)
    sent = ["messages", "bytes", "all_messages", "all_bytes"]
    assert list(reach(table).costs) == ["rounds", *sent]
    clock = {"compute": {"seconds_per_step": 2.0, "watts": 3.0}}
    first, *others = table.runs
    stopped = replace(table, runs=(replace(first, status="diverged"), *others))
    assert with_clock(stopped, clock).frame()["seconds"].notna().sum() == 3 * 5
    found = reach(with_clock(table, clock))
    for label in ("s2s", "s2a"):  # links take no time, so a round takes two seconds
        rounds = found.took("rounds", (), label).mean
        assert found.took("seconds", (), label).mean == pytest.approx(2 * rounds)
        assert found.took("joules", (), label).mean == pytest.approx(2 * 3 * 8 * rounds)


def test_a_measure_that_nobody_recorded_is_told(tmp_path):
    table = record(tmp_path, labelled({"s2s": [[NAN, NAN]]}))
    with pytest.raises(RecordsError, match=r"no finished run .* measured average_accuracy"):
        common_target(table, "average_accuracy")
    assert first_at({"round": np.arange(2)}, "average_accuracy", 5) is None


POINTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2),
    st.tuples(st.integers(0, 5).map(float), st.integers(0, 5).map(float)),
    min_size=1,
)


@given(POINTS)
def test_the_front_is_who_nobody_beats(points):
    """Everyone else is beaten by someone on the front, and nobody on the front is."""

    def beats(a, b):
        return a != b and a[0] <= b[0] and a[1] >= b[1]

    front = undominated(points)
    assert [points[name][0] for name in front] == sorted(points[name][0] for name in front)
    for name, point in points.items():
        is_beaten = any(beats(points[other], point) for other in front)
        assert is_beaten == (name not in front)
