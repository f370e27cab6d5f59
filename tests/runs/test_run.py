"""`skerry.run`: experiments in, results out."""

import json

import networkx as nx
import numpy as np
import pytest
from torch import nn

import skerry
from skerry.analysis.results import read_studies
from skerry.analysis.statistics import estimate
from skerry.errors import ExperimentError
from skerry.runs.executors.executor import group_by_world
from skerry.runs.variants import expand


def test_primitives_and_seeds_make_a_grid(small):
    runs = expand(small(), ["s2s", "s2a", "blend:0.25"], seeds=2)
    found = [(run.server.primitive, run.seed) for run in runs]
    assert found == [(p, s) for s in (0, 1) for p in ("s2s", "s2a", "blend")]
    assert runs[2].server.beta == 0.25


def test_the_same_run_named_twice_is_run_once(small):
    assert len(expand(small(), ["s2s", "s2s", "blend:0.5", "blend"])) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s3s", r"unknown primitive 's3s'; did you mean 's2s'\?"),
        ("s2s:0.5", "only blend takes a beta"),
        ("blend:2", "a blend's beta lies from 0, which is s2s, to 1"),
        ("blend:much", r"\(got 'blend:much'\)"),
    ],
)
def test_a_wrong_comparison_is_told(small, name, message):
    with pytest.raises(ExperimentError, match=message):
        expand(small(), [name])


def test_runs_that_share_a_world_are_lanes_of_one_stack(small):
    """Seeds make worlds; primitives, K, H, stepsizes and topologies do not."""
    base = small()
    runs = [
        *expand(base, ["s2s", "s2a"], seeds=2),
        base.with_settings("server.sampled=3"),
        base.with_settings("network.topology=complete", "training.stepsize=1.0"),
        base.with_settings("training.batch=5"),
    ]
    assert [len(group) for group in group_by_world(runs)] == [4, 2, 1]


def test_results_tell_what_was_measured(small):
    results = skerry.run(small(), compare=["s2s", "s2a"], seeds=2)
    assert results.labels() == ["s2s", "s2a"]
    assert [lane.status for lane in results] == ["finished"] * 4
    assert results.of("s2a").final("downlink_messages").tolist() == [36, 36]
    frame = results.frame()
    assert len(frame) == 4 * 8
    assert frame["round"].max() == 7
    summary = results.summary("average_accuracy")
    assert summary.loc["s2s", "average_accuracy"] == pytest.approx(
        results.of("s2s").final("average_accuracy").mean()
    )


def test_json_is_strict_and_complete(small):
    """No NaN, whole counts, one value per round."""
    found = json.loads(json.dumps(skerry.run(small()).to_json(), allow_nan=False))
    (lane,) = found["lanes"]
    assert set(lane) == {"key", "experiment", "status", "final", "history"}
    assert lane["history"]["round"] == list(range(8))
    assert all(len(values) == 8 for values in lane["history"].values())
    assert lane["history"]["bias"][2] is None  # no server round
    assert isinstance(lane["final"]["uplink_messages"], int)
    assert skerry.Experiment.parse(lane["experiment"]).key() == lane["key"]


def test_a_finished_run_is_not_computed_again_unless_asked(small, tmp_path):
    class Counter(skerry.runs.run.Progress):
        rounds = 0

        def moment(self, moment):
            self.rounds += moment.phase == "end"

    counts = []
    for again in (False, False, True):
        watcher = Counter()
        skerry.run(small(), out=tmp_path, again=again, progress=watcher)
        counts.append(watcher.rounds)
    assert counts == [7, 0, 7]


def test_what_is_recorded_can_be_read_again(small, tmp_path):
    ours = skerry.run(small(), compare=["s2s", "s2a"], seeds=2, out=tmp_path)
    skerry.run(small("server.period=1", 'name="another"'), out=tmp_path)
    first, second = read_studies(tmp_path)
    assert [lane.final for lane in first] == [lane.final for lane in ours]
    assert second[0].experiment.name == "another"
    assert len(skerry.load(tmp_path)) == 5 * 8


def test_graph_data_and_model_from_python(small):
    """What a file cannot hold is given as arguments, and becomes part of the key."""
    graph = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))
    rng = np.random.default_rng(0)
    arrays = (
        rng.normal(size=(70, 5)), rng.integers(0, 3, 70),
        rng.normal(size=(20, 5)), np.arange(20) % 3,
    )  # fmt: skip
    experiment = skerry.Experiment(
        rounds=3, server=skerry.Server(sampled=4), data=skerry.Data(inter="iid")
    )

    def model():
        return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))

    (lane,) = skerry.run(experiment, graph=graph, dataset=arrays, model=model)
    assert lane.status == "finished"
    assert (lane.experiment.network.devices, lane.experiment.network.components) == (7, (3, 4))
    assert lane.final["d2d_messages"] == 3 * 2 * (3 + 3)
    assert lane.final["uplink_bytes"] == lane.final["uplink_messages"] * 4 * (24 + 15)
    assert lane.key != experiment.key()
    (other,) = skerry.run(experiment, graph=nx.cycle_graph(7), dataset=arrays, model=model)
    assert other.key != lane.key


def test_a_diverging_lane_is_told_apart(small):
    results = skerry.run(
        small("model.name=quadratic", "rounds=300", "training.stepsize=50"), compare=["s2s", "s2a"]
    )
    assert {lane.status for lane in results} == {"diverged"}
    assert all(np.isfinite(values).any() for values in results[0].history.values())


@pytest.mark.parametrize(
    ("values", "mean", "half"),
    [
        ([1.0, 2.0, 3.0], 2.0, 4.302653 / 3**0.5),  # t quantile with two degrees of freedom
        ([5.0], 5.0, float("nan")),
        ([5.0, float("nan")], 5.0, float("nan")),
        ([], float("nan"), float("nan")),
    ],
)
def test_intervals_by_hand(values, mean, half):
    found = estimate(values)
    assert found.mean == pytest.approx(mean, nan_ok=True)
    assert found.half_width == pytest.approx(half, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiment": []}, "there is nothing to run"),
        ({"seeds": 0}, "at least 1 seed"),
        ({"dataset": "mnist"}, "dataset takes four arrays"),
        ({"dataset": (1, 2, 3)}, "dataset takes four arrays"),
        ({"model": nn.Linear(2, 2)}, "model takes a function that returns a new nn.Module"),
        ({"model": "mlp"}, "model takes a function"),
        ({"experiment": "no_such.toml"}, "no file no_such.toml"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(small, arguments, message):
    with pytest.raises(skerry.SkerryError, match=message) as caught:
        skerry.run(**{"experiment": small()} | arguments)
    assert len(caught.value.faults) == 1


def test_a_file_and_a_plain_string_will_do(small, tmp_path):
    (tmp_path / "mine.toml").write_text(small("rounds=2").to_toml())
    results = skerry.run(tmp_path / "mine.toml", compare="s2s, blend:0.25")
    assert results.labels() == ["s2s", "blend(0.25)"]
    assert repr(results) == "<Results: 2 lanes, s2s, blend(0.25), seeds: 1>"
    with pytest.raises(skerry.SkerryError, match="unknown primitive 's2x'; did you mean 's2s'"):
        results.of("s2x")
    with pytest.raises(skerry.SkerryError, match="did you mean 'own_accuracy'"):
        results.summary("own_acuracy")
