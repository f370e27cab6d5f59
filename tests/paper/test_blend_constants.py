"""ProblemConstants of the theory on the problems of a study."""

import json

import pytest

from skerry.config.experiment import Experiment
from skerry.theory.constants import measure_constants
from skerry_paper.blends import ProblemConstants, measure_problem_constants
from skerry_paper.study import StudyData, build_study, join_studies


@pytest.fixture(scope="module")
def runs():
    """Two graphs, two periods, two stepsizes, two seeds: two problems."""
    base = Experiment.parse(
        {},
        ["rounds=4", "network.devices=10", "network.components=2", "server.sampled=2",
         "training.batch=8", "data.inter=non_iid"],
    )  # fmt: skip
    return [
        base.with_settings(f"network.topology={graph}", f"server.period={H}", f"seed={seed}",
                           f"training.stepsize={stepsize}")
        for seed in (1, 0)
        for graph in ("complete", "ring")
        for H in (2, 4)
        for stepsize in (0.01, 0.1)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def found(runs):
    return measure_problem_constants(runs, device="cpu")


def test_a_problem_is_measured_once_along_its_boldest_run(runs, found):
    """The first seed at the largest stepsize; neither period nor stepsize make a problem."""
    assert found["topology"].tolist() == ["complete", "ring"]
    followed = {run.key(): run for run in runs}
    told = [(followed[key].seed, followed[key].training.stepsize) for key in found["key"]]
    assert told == [(0, 0.1), (0, 0.1)]


def test_the_constants_are_those_of_the_theory(runs, found):
    (run,) = [run for run in runs if run.key() == found["key"][1]]
    expected = measure_constants(run, rounds=(0, 10, 50), draws=10)
    row = found.iloc[1]
    assert row["smoothness"] == expected.smoothness.value
    assert row["initial_error"] == expected.f0.value
    assert row["zeta_inter2"] == expected.zeta_inter2.value
    assert row["p"] == expected.mixing.minimum < found["p"][0]
    assert row["zeta_intra2"] > found["zeta_intra2"][0]  # a complete graph leaves none


def test_what_is_known_is_not_measured_again(runs, found):
    """By the key of the run: another experiment under the same factors is measured."""
    told = []
    known = found.assign(initial_error=[7.0, 8.0])
    again = measure_problem_constants(runs, device="cpu", known=known, report=told.append)
    assert again["initial_error"].tolist() == [7.0, 8.0]
    assert told == []
    other = [run.with_settings("training.batch=4") for run in runs if run.seed == 0][:1]
    fresh = measure_problem_constants(other, device="cpu", known=known, report=told.append)
    assert fresh["initial_error"][0] != 7.0
    assert told == ["measuring the theory's constants on 1 problem"]


def test_a_study_keeps_its_constants(found, runs, tmp_path):
    """Saved, read back, sliced, and joined with a part that has none or the same."""
    empty = build_study("mnist-blend", {}, [(runs[0], {"round": [0]}, "finished")])
    study = StudyData(empty.name, {}, empty.runs, empty.curves, found)
    study.save(tmp_path / "s.json")
    in_file = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))["constants"]
    assert "gap" in in_file  # the initial error: files kept since the first version name it so
    assert "initial_error" not in in_file
    back = StudyData.load(tmp_path / "s.json")
    assert back.constants is not None
    assert back.constants["key"].tolist() == found["key"].tolist()
    for name in ProblemConstants._fields:
        assert back.constants[name].to_numpy() == pytest.approx(found[name], rel=1e-4)
    assert study.of(seed=1).constants is found
    assert empty.constants is None
    whole = join_studies([empty, study, back]).constants
    assert whole is not None
    assert whole["key"].tolist() == found["key"].tolist()
