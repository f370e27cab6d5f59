"""Runs that end before their last round: by a rule, by a function, or by the progress callback."""

import math
from functools import partial
from itertools import islice

import numpy as np
import pytest

import skerry
import sweep_plugins
from oracle import trajectory
from recorded_runs import PlugPulledError, assert_same, record
from skerry.analysis.statistics import carry_stopped
from skerry.config.stopping import measure_faults, parse_rule
from skerry.engine.world import build_world
from skerry.errors import CallbackError, SkerryError, SkerryWarning
from skerry.records.maintenance import check_store
from skerry.records.store import Store
from skerry.report.figures.series import band_over_seeds
from skerry.runs.stopping import LaneValues

quiet = partial(skerry.run, progress=False)


# Rules


def values_of(**columns):
    """The values of a run that was evaluated after every round."""
    values = LaneValues()
    for round_ in range(len(next(iter(columns.values())))):
        row = {name: column[round_] for name, column in columns.items()}
        values._add(round_, {name: one for name, one in row.items() if one is not None})
    return values


@pytest.mark.parametrize(
    ("rule", "usual", "stops_at"),
    [
        ("average_accuracy>=80", "average_accuracy >= 80", 3),
        ("average_accuracy > 80.5", "average_accuracy > 80.5", 6),
        ("no gain in 2 rounds", "no gain in 2 rounds", 5),
        ("no gain in 1 round", "no gain in 1 round", 2),
        ("NO GAIN IN 2 ROUNDS OR average_accuracy > 99", None, 5),
        ("Round >= 4 AND average_accuracy > 9", "round >= 4 and average_accuracy > 9", 4),
        ("no gain in train_loss in 2 rounds", "no gain in train_loss in 2 rounds", 5),
        ("no gain of 1.0 in 3 rounds", "no gain of 1 in 3 rounds", 6),
        ("train_loss < .5 and average_accuracy<100", None, 2),
        (
            "(average_accuracy >= 99 or train_loss<=0.4) and no gain in 2 rounds",
            "(average_accuracy >= 99 or train_loss <= 0.4) and no gain in 2 rounds",
            5,
        ),
        ("average_accuracy >= 99 or average_accuracy >= 98", None, None),
    ],
)
def test_a_rule_depends_on_the_values_so_far(rule, usual, stops_at):
    """A rule is met in the same round however often it is read, and its text is read again."""
    accuracy, loss = [10.0, 50, 50, 80, 80, 79, 80.6], [1.0, 0.9, 0.4, 0.3, None, 0.35, 0.35]
    parsed = parse_rule(rule)
    assert str(parse_rule(str(parsed))) == str(parsed) == (usual or str(parsed))
    found = [
        parsed.reason(values_of(average_accuracy=accuracy[:end], train_loss=loss[:end]))
        for end in range(1, 8)
    ]
    met = [round_ for round_, reason in enumerate(found) if reason]
    assert (met[0] if met else None) == stops_at


def test_a_run_without_enough_values_goes_on():
    """A gain needs a value before the window and one in it; a threshold needs a value."""
    rule = parse_rule("no gain in 3 rounds or own_loss <= 1")
    assert not rule.reason(values_of(average_accuracy=[10.0, 9, 8]))
    assert not rule.reason(values_of(average_accuracy=[10.0, None, None, None]))
    assert rule.reason(values_of(average_accuracy=[10.0, 9, 8, 7])) == "no gain in 3 rounds"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("averge_accuracy >= 90", "did you mean 'average_accuracy'?"),
        ("own_accuracy_worst_tenth >= 90", "Add it to evaluate.measures"),
        ("devices >= 90", "a group of measures"),
        ("average_accuracy >= ninety", "a number at 'ninety'"),
        ("average_accuracy == 90", "one of >=, <=, >, <"),
        ("average_accuracy >= 1e999", "a finite number"),
        ("average_accuracy >= 90 %", "and, or, or the end at '%'"),
        ("no gain in 2.5 rounds", "a whole number of rounds"),
        ("no gain in 0 rounds", "a whole number of rounds"),
        ("no gain of -1 in 2 rounds", "a gain of at least 0"),
        ("no gain", "'in' at the end"),
        ("no progress in 3 rounds", "'gain' at 'progress'"),
        ("(" * 500, "fewer parentheses"),
        ("x" * 2000, "at most 1000 characters"),
        ("or\x1b[31m\n", "a measure"),
        ("no_such_module:enough", "cannot be imported"),
        (3, "must be text in quotes"),
    ],
)
def test_a_rule_that_cannot_be_read_is_explained(rule, words):
    """One line says what is wrong with a rule, where, and how one reads."""
    with pytest.raises(SkerryError) as error:
        skerry.Experiment.parse({"stop": rule})
    assert words in str(error.value)
    assert str(error.value).isprintable()


def test_the_most_important_measure_must_be_measured(small):
    with pytest.raises(SkerryError, match="Name a measure"):
        small("stop=no gain in 2 rounds", "evaluate.measures=consensus")
    assert not [*measure_faults("no gain in 2 rounds", {"average_loss"})]
    for settings in (["stop=average_r2 > 0"], ["stop=own_accuracy > 9", "model.name=quadratic"]):
        with pytest.raises(SkerryError, match="not measured with this task and model"):
            quiet(small(*settings))


# Runs


def threshold(world, experiment, after):
    """A rule that the reference meets first after so many rounds, and not narrowly."""
    losses = []
    for X in trajectory(world, experiment):
        average = X.mean(dim=0, keepdim=True)
        losses.append(float(world.learner.test_loss(average, world.x_test, world.y_test)))
    before = min(losses[: after - 1])
    assert losses[after - 1] < before
    return f"average_loss < {(before + losses[after - 1]) / 2}"


@pytest.fixture(scope="module")
def lanes():
    """S2S stops after 3 rounds, S2A after 6, and a run without a server goes on."""
    from conftest import small

    base = small("rounds=9", "evaluate.devices_every=4")
    s2s, s2a, alone = (base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a", "none"))
    world = build_world(base)
    stopped = [(s2s, threshold(world, s2s, 3)), (s2a, threshold(world, s2a, 6))]
    return [*(one.with_settings(f"stop={rule}") for one, rule in stopped), alone]


def test_the_stack_stops_where_the_reference_does(lanes):
    """A stopped run is the beginning of the whole one to the bit, its models are the reference's,
    and its neighbours go on as without it, up to rounding."""
    whole = quiet([one.replace(stop="") for one in lanes], keep_devices=True)
    results = quiet(lanes, keep_models=True, keep_devices=True)
    assert [lane.history["round"][-1] for lane in results] == [3, 6, 9]
    for lane, full in zip(results, whole, strict=True):
        assert lane.status == "finished"
        end = len(lane.history["round"])
        same = 0 if lane is results[0] else 1e-5
        for name, column in lane.history.items():
            measured = np.isfinite(full.history[name][:end])
            ours, theirs = column[measured], full.history[name][:end][measured]
            np.testing.assert_allclose(ours, theirs, same, same, err_msg=name)
        world = build_world(lane.experiment)
        oracle = trajectory(world, lane.experiment)
        reached = next(islice(oracle, end - 2, None))  # the first row is the start
        np.testing.assert_allclose(lane.models, reached[:, world.real_d], 1e-4, 1e-5)
        # The last round is always evaluated on all devices.
        assert np.isfinite(lane.history["own_accuracy"][-1])
        assert lane.devices["own_accuracy"].mean() == pytest.approx(lane.final["own_accuracy"])
    assert results[0].note == f"stopped after round 3 of 9: {lanes[0].stop}"
    assert results[2].note == ""


def test_resumed_stops_where_uninterrupted_stops(lanes, tmp_path):
    """To the bit, wherever it was killed: the rule reads the recorded values again."""
    undisturbed = record(tmp_path / "whole", lanes)
    for stop_after in (1, 2, 3, 5, 6, 7):
        with pytest.raises(PlugPulledError):
            record(tmp_path / f"{stop_after}", lanes, stop_after)
        assert_same(record(tmp_path / f"{stop_after}", lanes), undisturbed)


def test_stopped_runs_are_sound_and_not_computed_again(lanes, tmp_path):
    """They are finished, whoever looks: the check of a store, tables, curves and a second call."""
    first = quiet(lanes, out=tmp_path, seeds=2)
    with Store.read(tmp_path) as store:
        assert not check_store(store).faults
        assert [run.is_stopped for run in store.runs()] == [True, True, False] * 2
    again = quiet(lanes, out=tmp_path, seeds=2)
    assert [lane.run.started for lane in again] == [lane.run.started for lane in first]
    frame = skerry.load(tmp_path)
    assert set(skerry.finals(tmp_path)["rounds_done"]) >= {3, 6, 9}
    ours = frame[frame["primitive"] == "s2a"]
    band = band_over_seeds(ours, "average_loss", "round")
    final = first.of("s2a").final("average_loss").mean()
    assert band.mean[-1] == pytest.approx(final)


def test_means_over_runs_keep_the_last_value_of_those_that_stopped():
    """So a mean is over the same runs in every round, and ends at the mean of the final values."""
    nan = math.nan
    values = np.array([[1, 2], [3, 4], [5, nan], [nan, 6], [nan, nan], [nan, 8]])
    found = carry_stopped(values, range(6), [2, 5])
    np.testing.assert_array_equal(found, [[1, 2], [3, 4], [nan, nan], [5, 6], [nan, nan], [5, 8]])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_function_stops_runs_where_they_are_computed(small, workers):
    """A function given from Python has a name of its own, so that its runs have keys of their own;
    it is sent to workers."""
    rounds = 4

    def late(values):
        return values.round >= rounds

    experiments = [small("rounds=6").replace(stop=one) for one in (late, sweep_plugins.enough, "")]
    results = quiet(experiments, workers=workers)
    assert len({lane.key for lane in results}) == 3
    assert [lane.history["round"][-1] for lane in results] == [4, 2, 6]
    assert results[0].note == "stopped after round 4 of 6: late returned True"
    assert results[1].note == "stopped after round 2 of 6: third value"
    assert experiments[1].stop == "sweep_plugins:enough"


def test_a_function_knows_the_round_that_was_measured(small):
    """As a measure does: who was awake in it, and the server rounds so far."""
    base, told = small("rounds=5", "availability.awake=0.5"), []

    def awake(values, context):
        told.append((context.number, context.period, context.awake.tolist()))

    quiet(base.replace(stop=awake, server={"period": 2, "offset": 1}))
    asleep = build_world(base).awake(base)
    assert told == [(t // 2, 2, asleep(t - 1).tolist()) for t in range(1, 6)]


def test_a_function_that_fails_loses_no_rounds(small, tmp_path):
    """Its run is recorded as failed with what was measured; other runs finish."""

    def broken(values):
        return 1 / (3 - values.round)

    def vague(values):
        return 0.93

    base = small("rounds=5")
    with pytest.raises(SkerryError, match=r"stop rule 'given:.* failed .ZeroDivisionError"):
        quiet(base.replace(stop=lambda values: None if values.round < 3 else broken(values)))
    with pytest.raises(SkerryError, match=r"is called with \(values\), by position"):
        base.replace(stop=lambda values, patience: False)
    with pytest.raises(SkerryError, match=r"must return the reason .*got float"):
        quiet(base, stop=vague)
    late = base.replace(stop=lambda values: values.round > 2 and 1 / 0)
    failed, sound = quiet([late, base], out=tmp_path, keep_going=True)
    assert (failed.status, sound.status) == ("failed", "finished")
    assert failed.history["round"].tolist() == [0, 1, 2, 3]


def test_a_sweep_may_vary_its_rule(small):
    sweep = skerry.Sweep(
        experiment=small("rounds=4"), axes={"stop": ["", "average_loss >= 0"]}, seeds=2
    )
    assert [lane.history["round"][-1] for lane in quiet(sweep)] == [4, 1, 4, 1]
    assert {lane.history["round"][-1] for lane in quiet(sweep, stop="train_loss > 0")} == {1}


# Callbacks


def test_a_callback_may_end_a_run_that_is_resumed_later(small, tmp_path):
    """Its key is that of the whole run: it is not finished, and the next call goes on."""
    experiments = [small("rounds=6", f"server.primitive={p}") for p in ("s2s", "s2a")]
    whole = quiet(experiments)
    seen = []

    class Ending(skerry.Progress):
        def measured(self, experiment, values):
            seen.append((experiment.server.primitive, values.round, values["average_loss"]))
            return "enough" if seen[-1][:2] == ("s2s", 3) else None

    ended, other = skerry.run(experiments, out=tmp_path, progress=Ending())
    assert [round_ for name, round_, _ in seen if name == "s2s"] == [0, 1, 2, 3]
    assert [round_ for name, round_, _ in seen if name == "s2a"] == [*range(7)]
    assert (ended.status, other.status) == ("running", "finished")
    assert ended.note == "ended by the progress callback after round 3 of 6: enough"
    resumed = quiet(experiments, out=tmp_path)
    for lane, full in zip(resumed, whole, strict=True):
        assert (lane.status, lane.note) == ("finished", "")
        for name, column in lane.history.items():
            np.testing.assert_allclose(column, full.history[name], 1e-4, 1e-4, equal_nan=True)
    assert [path.name for path in tmp_path.iterdir()] == ["skerry.sqlite"]


CALLED = {
    "planned": 1, "world_ready": 1, "stack_begun": 2, "tick": 8, "moment": 6, "measured": 5,
    "recorded": 1, "run_ended": 1, "stack_done": 1,
}  # fmt: skip


@pytest.mark.parametrize("method", CALLED)
def test_an_error_of_a_callback_loses_no_results(small, tmp_path, method):
    """One line names the callback, and the same call resumes; nothing is computed twice but the
    rounds since the last checkpoint, which is saved at once."""
    experiments = [small("rounds=5", f"seed={seed}") for seed in (0, 1)]
    calls = []

    def failing(self, *values):
        calls.append(method)
        if len(calls) == CALLED[method]:
            raise ZeroDivisionError("oops")

    broken = type("Broken", (skerry.Progress,), {method: failing, "wants_rows": True})
    with pytest.raises(CallbackError) as error:
        skerry.run(experiments, out=tmp_path, progress=broken())
    line = f"the progress callback Broken failed in {method} (ZeroDivisionError: oops)."
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    done = {"stack_begun": [5], "tick": [5, 3], "moment": [3], "measured": [4]}
    done |= {name: [5] for name in ("recorded", "run_ended", "stack_done")}
    rounds = [int(lane.history["round"][-1]) for lane in error.value.results]
    assert rounds == done.get(method, [])

    class Counting(skerry.Progress):
        fresh = 0

        def tick(self, job, tick):
            self.fresh += tick.fresh > 0

    counting = Counting()
    for lane, full in zip(
        skerry.run(experiments, out=tmp_path, progress=counting), quiet(experiments), strict=True
    ):
        assert lane.status == "finished"
        np.testing.assert_array_equal(lane.history["average_loss"], full.history["average_loss"])
    assert counting.fresh == 10 - sum(rounds)


def test_a_callback_that_changes_the_models_is_refused(small, tmp_path):
    """Nothing of it is finished or saved, and the next call computes the right values."""

    class Zeroing(skerry.Progress):
        def __init__(self, fails):
            self.fails = fails

        def moment(self, moment):
            if moment.round == 2:
                moment.state.X_nld.zero_()
                assert not self.fails

    experiment = small("rounds=3")
    for fails in (False, True):
        with pytest.raises(SkerryError, match="Zeroing changed the models in moment"):
            skerry.run(experiment, out=tmp_path / str(fails), progress=Zeroing(fails))
    with pytest.warns(SkerryWarning, match="no checkpoint is left"):
        (lane,) = quiet(experiment, out=tmp_path / "True")
    (whole,) = quiet(experiment)
    np.testing.assert_array_equal(lane.history["average_loss"], whole.history["average_loss"])


def test_an_error_of_a_callback_lets_workers_save(small, tmp_path):
    """Workers end after their round with a checkpoint, from which the same call resumes."""

    class Broken(skerry.Progress):
        def tick(self, job, tick):
            if tick.round > 1:
                raise ZeroDivisionError

    experiments = [small("rounds=4000", "evaluate.every=50", f"seed={seed}") for seed in (0, 1)]
    with pytest.raises(CallbackError, match="Broken failed in tick"):
        skerry.run(experiments, out=tmp_path, workers=2, progress=Broken())
    assert [*tmp_path.glob("workers/*/checkpoints/*.safetensors")]


def test_an_error_at_the_end_is_a_warning(small):
    """No call follows `close`, and the results are there."""

    class Broken(skerry.Progress):
        def close(self):
            raise ZeroDivisionError

    with pytest.warns(SkerryWarning, match="Broken failed in close"):
        assert len(skerry.run(small("rounds=1"), progress=Broken())) == 1
