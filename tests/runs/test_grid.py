"""From a file to a grid of runs."""

import math
import tomllib
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.analysis.results import Lane
from skerry.config.experiment import Experiment
from skerry.errors import ExperimentError
from skerry.runs.axes import TAKE_LISTS
from skerry.runs.stages import first_runs, further_runs, planned_runs, tuned_cells
from skerry.runs.sweep import Sweep

PERIODS = {"server.period": [5, 10]}


def sweep(*settings, experiment=None, **fields):
    return Sweep.parse({**(experiment or {}), "sweep": fields}, settings)


def faults_of(*settings, experiment=None, **fields):
    with pytest.raises(ExperimentError) as caught:
        sweep(*settings, experiment=experiment, **fields)
    return caught.value.faults


def test_a_new_experiment_with_a_sweep_appended_is_a_grid():
    text = Experiment().to_toml(comments=True)
    text += '\n[sweep]\nseeds = 2\n[sweep.axes]\n"server.period" = [5, 10]\n'
    runs = Sweep.parse(tomllib.loads(text)).runs()
    assert [(run.seed, run.server.period) for run in runs] == [(0, 5), (0, 10), (1, 5), (1, 10)]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
)
def test_a_grid_has_every_combination_once(periods, stepsizes, seeds):
    axes = {"server.period": periods, "training.stepsize": stepsizes}
    runs = sweep(axes=axes, seeds=seeds).runs()
    found = Counter((run.server.period, run.training.stepsize, run.seed) for run in runs)
    assert found == Counter(product(periods, stepsizes, seeds))


def test_zipped_fields_change_together():
    rows = [["blend", 0.25], ["blend", 0.5], ["s2a", 1.0]]
    runs = sweep(axes={"server.primitive, server.beta": rows, **PERIODS}).runs()
    found = {(run.server.primitive, run.server.beta) for run in runs}
    assert found == {tuple(row) for row in rows}
    assert len(runs) == 3 * 2


def test_axes_may_be_written_without_quotes():
    assert len(sweep(axes={"server": {"period": [5, 10]}, "rounds": [1, 2]}).runs()) == 4


def test_values_may_be_lists():
    """The sizes of components are a list: an axis of them is a list of lists."""
    runs = sweep(axes={"network.components": [[50, 50], [10, 90]]}).runs()
    assert [run.network.sizes for run in runs] == [(50, 50), (10, 90)]


def test_seeds_are_counted_on_from_the_experiments_own():
    runs = sweep(experiment={"seed": 7}, seeds=3).runs()
    assert [run.seed for run in runs] == [7, 8, 9]


def test_a_run_is_the_same_object_whenever_it_is_asked_for():
    """So its keys are computed once; it differs from its point in nothing but the seed."""
    asked = sweep(seeds=2, axes={"server.period": [5, 10]})
    runs = asked.runs()
    assert all(one is other for one, other in zip(runs, asked.runs(), strict=True))
    assert runs == [
        point.experiment.with_settings(f"seed={seed}") for seed in (0, 1) for point in asked.points
    ]


def test_what_is_excluded_is_left_out_and_nothing_else():
    axes = {"server.period": [5, 10], "server.sampled": [10, 20]}
    runs = sweep(axes=axes, exclude=[{"server.period": 5, "server.sampled": 20}]).runs()
    found = {(run.server.period, run.server.sampled) for run in runs}
    assert found == {(5, 10), (10, 10), (10, 20)}


def test_cells_that_are_the_same_run_give_it_once():
    """Without a server there is no period."""
    axes = {"server.primitive": ["none", "s2s"], **PERIODS}
    assert len(sweep(axes=axes).runs()) == 1 + 2


def test_a_base_that_only_the_axes_make_sound_is_sound():
    runs = sweep(experiment={"network": {"devices": 10}}, axes={"server.sampled": [2, 4]}).runs()
    assert [run.server.sampled for run in runs] == [2, 4]


def test_a_setting_holds_in_all_runs():
    """Also where the file has an axis of that field."""
    found = sweep("server.period=3", "sweep.seeds=2", "rounds=9", axes=PERIODS).runs()
    assert [(run.server.period, run.seed, run.rounds) for run in found] == [(3, 0, 9), (3, 1, 9)]


ZIPPED = {"server.primitive, server.beta": [["blend", 0.25], ["blend", 0.5], ["s2a", 1.0]]}


@pytest.mark.parametrize(
    ("settings", "servers"),
    [
        (["server.beta=0.75"], [("blend", 0.75), ("s2a", 0.75)]),
        (["server.primitive=blend"], [("blend", 0.25), ("blend", 0.5), ("blend", 1.0)]),
        (["server.primitive=none", "server.beta=0.1"], [("none", 0.1)]),
        (["server.period=2"], [("blend", 0.25), ("blend", 0.5), ("s2a", 1.0)]),
    ],
)
def test_a_setting_holds_in_all_runs_of_a_zipped_axis(settings, servers):
    """Its other fields keep their values; rows that become the same are one."""
    found = sweep(*settings, axes=ZIPPED).points
    assert [(p.experiment.server.primitive, p.experiment.server.beta) for p in found] == servers


@pytest.mark.parametrize(
    ("axes", "setting", "values"),
    [
        ({"network.components": [2, 4]}, "network.components=[50,50]", [(50, 50)]),
        ({"network.components": [2]}, "network.components=[[50,50],[99,1]]", [(50, 50), (99, 1)]),
        ({"network.components": [2, 4]}, "network.components=5", [5]),
        ({"server.period": [5]}, "server.period=[2,3]", [2, 3]),
        ({"evaluate.measures": [["bias"]]}, 'evaluate.measures=["bias","average"]',
         [("bias", "average")]),
    ],
)  # fmt: skip
def test_a_list_is_one_value_where_the_field_takes_lists(axes, setting, values):
    (path,) = axes
    section, _, field = path.partition(".")
    points = sweep(setting, axes=axes).points
    assert [getattr(getattr(p.experiment, section), field) for p in points] == values


def test_an_option_set_to_a_list_is_one_value():
    """Two layers, not two runs."""
    experiment = {"model": {"name": "mlp"}}
    (point,) = sweep(
        "model.hidden=[64,32]", experiment=experiment, axes={"model.hidden": [8]}
    ).points
    assert point.experiment.model.options == {"hidden": [64, 32]}


def test_the_fields_that_take_lists_are_known():
    schema = Experiment.model_json_schema()["$defs"]
    found = {
        f"{kind.lower()}.{name}"
        for kind, section in schema.items()
        for name, field in section["properties"].items()
        if "'array'" in str(field)
    }
    assert found == set(TAKE_LISTS)


@pytest.mark.parametrize(
    "settings", [["server=3", "server.period=4"], ["server.period=4", "server=3"]]
)
def test_a_section_that_is_set_to_a_value_is_told(settings):
    found = faults_of(*settings, axes=PERIODS)
    assert "server must be a section (got 3)." in found


def test_a_sweep_from_python_is_one_from_a_file():
    ours = Sweep(experiment=Experiment(rounds=9), axes=PERIODS, seeds=2)
    theirs = sweep(experiment={"rounds": 9}, axes=PERIODS, seeds=2)
    assert [run.key() for run in ours.runs()] == [run.key() for run in theirs.runs()]


MILLION = {"server.period": list(range(1, 1001)), "rounds": list(range(1, 1001))}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"axes": {"server.perod": [5]}}, "unknown axis 'server.perod'; did you mean 'server.per"),
        ({"axes": {"period": [5]}}, "unknown axis 'period'; did you mean 'server.period'?"),
        ({"axes": {"data.sampels": [5]}}, "unknown field 'data.sampels'"),
        ({"axes": {"seed": [5]}}, "seeds are no axis. Set sweep.seeds"),
        ({"axes": {"server.period": []}}, "the grid is empty: axis \"server.period\" has no value"),
        ({"axes": {"server.period": 5}}, 'axis "server.period" must be a list of values (got 5)'),
        ({"axes": {"server.period, rounds": [[5]]}}, "must be a list of rows with 2 values each"),
        ({"axes": PERIODS | {"server.period, rounds": [[5, 5]]}}, "server.period is in two axes"),
        ({"axes": 5}, "sweep.axes must be a section"),
        ({"axes": {"server.sampled": [200]}}, "server.sampled must be between 1 and network.dev"),
        ({"axes": {"server.period": [0]}}, "server.period must be at least 1 (got 0)"),
        ({"axes": MILLION}, "the grid has 1,000,000 runs, more than sweep.most = 50,000."),
        ({"axes": PERIODS, "exclude": [PERIODS | {"server.period": 5}, {"server.period": 10}]},
         "the grid is empty: sweep.exclude leaves no cell"),
        ({"axes": PERIODS, "exclude": [{"server.perid": 5}]}, "names 'server.perid', which is no"),
        ({"seeds": 0}, "sweep.seeds must be how many seeds, at least 1, or a list"),
        ({"seeds": []}, "sweep.seeds must be how many seeds, at least 1, or a list"),
        ({"sedes": 3}, "unknown field 'sweep.sedes'; did you mean 'seeds'?"),
        ({"tune": "training.stepsize"}, "sweep.tune must be an axis of its own (got 'training.s"),
        ({"tune": "server.period", "axes": PERIODS, "tune_by": "accuracy"}, "unknown measure"),
        ({"tune": "server.period", "axes": PERIODS, "tune_seeds": 2}, "sweep.tune_seeds must be"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_told_in_one_line(fields, line):
    faults = faults_of(**fields)
    assert len(faults) == 1
    assert faults[0].startswith(line) or line in faults[0]
    assert "\n" not in faults[0]


def test_all_faults_are_told_at_once():
    found = faults_of(
        "what",
        experiment={"training": {"batch": 0}, "sever": {}},
        seeds=0,
        axes={"server.sampled": [5, 500, "many"]},
    )
    told = ("a setting reads", "sweep.seeds", "training.batch", "unknown field 'sever'",
            "server.sampled must be between", "server.sampled must be a whole")  # fmt: skip
    for start in told:
        assert any(line.startswith(start) for line in found), start
    assert len(found) == len(told)


def test_many_faults_of_one_kind_are_cut_short():
    found = faults_of(axes={"server.sampled": list(range(101, 201))})
    assert len(found) == 21
    assert found[-1] == "and 80 more faults like these."


def test_tuning_by_what_is_not_measured_is_a_fault():
    experiment = {"evaluate": {"measures": "train_loss"}}
    (line,) = faults_of(experiment=experiment, tune="server.period", axes=PERIODS)
    assert line.startswith("sweep.tune_by = 'average_accuracy' is not measured.")


def test_a_clock_measures_what_tunes():
    """With a clock, seconds are measured without being asked for."""
    assert sweep("clock.file=wifi_home", **TUNED, tune_by="seconds").runs()


def test_a_large_grid_can_be_allowed():
    axes = {"server.period": [5, 10, 20], "server.sampled": [10, 20]}
    assert faults_of(axes=axes, most=5)[0].endswith("sweep.most = 6")
    assert len(sweep("sweep.most=6", axes=axes, most=5).runs()) == 6


def test_each_command_tells_files_of_the_other_apart(tmp_path):
    one, many = tmp_path / "one.toml", tmp_path / "many.toml"
    one.write_text("rounds = 3\n")
    many.write_text("[sweep]\nseeds = 3\n")
    with pytest.raises(ExperimentError, match="Run it with: skerry sweep"):
        Experiment.load(many)
    with pytest.raises(ExperimentError, match="Run it with: skerry run"):
        Sweep.load(one)


# Tuning

TUNED = {
    "tune": "training.stepsize",
    "seeds": 3,
    "axes": {"server.primitive": ["s2s", "s2a"], "training.stepsize": [0.01, 0.1, 1.0]},
}


def lanes_of(runs, score, measure="average_accuracy"):
    """Lanes as if they had been run; a score of NaN stands for a run that diverged."""
    for run in runs:
        value = score(run)
        status = "diverged" if math.isnan(value) else "finished"
        yield Lane(run.key(), run, status, {measure: value}, {})


def test_every_primitive_keeps_its_own_best_value():
    asked = sweep(**TUNED)
    best = {"s2s": 0.1, "s2a": 0.01}
    lanes = lanes_of(
        asked.runs(), lambda run: -abs(run.training.stepsize - best[run.server.primitive])
    )
    found = {
        dict(choice.cell)["server.primitive"]: choice.value for choice in tuned_cells(asked, lanes)
    }
    assert found == best


def test_the_lowest_loss_is_best():
    asked = sweep(**TUNED, tune_by="average_loss")
    lanes = lanes_of(asked.runs(), lambda run: run.training.stepsize, "average_loss")
    assert {choice.value for choice in tuned_cells(asked, lanes)} == {0.01}


def test_a_value_that_diverges_on_a_seed_loses():
    asked = sweep(**TUNED)
    bad = lambda run: run.training.stepsize == 1.0 and run.seed == 2  # noqa: E731
    lanes = lanes_of(asked.runs(), lambda run: math.nan if bad(run) else run.training.stepsize)
    assert {choice.value for choice in tuned_cells(asked, lanes)} == {0.1}


def test_only_the_first_seeds_are_tuned_on():
    """The others run the best value of their cell, and what was planned is what is run."""
    asked = sweep(**TUNED, tune_seeds=1)
    first = first_runs(asked)
    assert {run.seed for run in first} == {0}
    assert len(first) == 2 * 3
    further = further_runs(asked, list(lanes_of(first, lambda run: -run.training.stepsize)))
    found = {(run.seed, run.server.primitive, run.training.stepsize) for run in further}
    assert found == {(seed, name, 0.01) for seed in (1, 2) for name in ("s2s", "s2a")}
    assert len(planned_runs(asked)) == len(first) + len(further)


def test_tuning_on_all_seeds_needs_no_further_runs():
    asked = sweep(**TUNED)
    assert len(first_runs(asked)) == 18
    assert further_runs(asked, list(lanes_of(first_runs(asked), lambda run: 1.0))) == []
