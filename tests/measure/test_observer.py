"""Measures, each against a value worked out another way."""

import math

import numpy as np
import pytest
import torch

from skerry.config.measures import GROUPS, MEASURES, USUAL
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.measure.accuracy import samples_for_devices
from skerry.measure.device_scores import DeviceScorer
from skerry.measure.observer import Observer


def watched(*experiments):
    """Histories by primitive, and the last moment."""
    world = build_world(experiments[0])
    stack = build_stack(world, experiments)
    observer = Observer(stack)
    rows = {key: [] for key in stack.keys}
    for moment in simulate(stack):
        for key, row in observer.rows(moment).items():
            rows[key].append(row)
    by_key = dict(zip(stack.keys, stack.experiments, strict=True))
    return {by_key[key].server.primitive: found for key, found in rows.items()}, moment


def with_primitives(base):
    return [base.with_settings(f"server.primitive={p}") for p in ("s2s", "s2a", "blend", "none")]


def test_every_measure_is_there_under_its_name(small):
    rows, _ = watched(small())
    found = {name for row in rows["s2s"] for name in row}
    usual = {name for group in USUAL for name in GROUPS[group]}
    ours = {name for name in usual if "classification" in MEASURES[name].tasks}
    assert found == {"round", *ours} - {"average_score"}


def test_rounds_are_counted_as_rounds_done(small):
    rows, _ = watched(small("evaluate.every=3", "evaluate.measures=average"))
    assert [row["round"] for row in rows["s2s"]] == [0, 3, 6, 7]


def test_evaluations_may_begin_late(small):
    """The start is there in any case, so that a run which was interrupted early is known."""
    rows, _ = watched(small("evaluate.after=4", "evaluate.measures=average"))
    assert [row["round"] for row in rows["s2s"]] == [0, 5, 6, 7]


def test_devices_may_be_scored_less_often_than_the_average(small):
    """In the rounds that devices_every divides, and in the last."""
    rows, _ = watched(small("evaluate.devices_every=3", 'evaluate.measures=["average","devices"]'))
    assert [row["round"] for row in rows["s2s"] if "own_accuracy" in row] == [0, 3, 6, 7]
    assert [row["round"] for row in rows["s2s"] if "average_accuracy" in row] == [*range(8)]


def test_devices_may_be_scored_on_fewer_samples(small):
    """Every class keeps its share; the same samples for all lanes and rounds of a seed, others for
    another seed; the average model is scored on all."""
    whole, part = small(), small("evaluate.device_samples=50")
    world = build_world(part)
    samples = samples_for_devices(world)
    counts = samples.classes.sum(dim=0)
    expected = 50 * torch.bincount(world.y_test) / len(world.y_test)
    assert len(samples) == 50
    assert (counts - expected).abs().max() <= 1
    assert torch.equal(samples.y, samples_for_devices(build_world(part)).y)
    other = samples_for_devices(build_world(part.with_settings("seed=1")))
    assert not torch.equal(samples.x, other.x)
    everything, _ = watched(whole)
    fewer, _ = watched(part)
    last, last_of_fewer = everything["s2s"][-1], fewer["s2s"][-1]
    assert last["average_accuracy"] == last_of_fewer["average_accuracy"]
    assert last["device_accuracy"] == pytest.approx(last_of_fewer["device_accuracy"], abs=15)
    assert last["device_accuracy"] != last_of_fewer["device_accuracy"]


def test_the_start_is_scored_like_any_round(small):
    """All models are alike there: scoring one of them gives every device's measures."""
    world = build_world(small("data.intra=dirichlet"))
    X = world.initial().expand(world.n, 3, -1)
    scores = DeviceScorer(world)
    one, all_of_them = (scores.measure(scores.score(X, alike)) for alike in (True, False))
    for name, values in all_of_them.items():
        assert torch.equal(one[name], values), name


def test_no_server_round_goes_unseen_between_evaluations(small):
    """D2S happens in rounds 0, 3, 6; the rows after them carry the ratios."""
    rows, _ = watched(small("evaluate.every=100"))
    seen = {row["round"]: row for row in rows["s2s"]}
    assert list(seen) == [0, 1, 4, 7]
    assert "disagreement_ratio" in seen[4]
    assert "average_accuracy" not in seen[4]


def test_only_what_is_asked_for_is_given(small):
    rows, _ = watched(small('evaluate.measures=["own_accuracy", "bias"]'))
    assert {name for row in rows["s2s"] for name in row} == {"round", "own_accuracy", "bias"}


def test_accuracies_by_hand(small):
    """Device by device, sample by sample, in plain Python."""
    rows, moment = watched(small("data.intra=dirichlet"))
    world, X = moment.stack.world, moment.state.X_nld[:, 0]
    y, labels = world.y_test.numpy(), world.partition.label_counts
    device, own, component = [], [], []
    for i in range(world.n):
        guess = world.learner.scores(X[i : i + 1], world.x_test)[0].argmax(dim=1).numpy()
        right = guess == y
        device.append(right.mean())
        by_class = [right[y == c].mean() for c in range(world.dataset.classes)]
        own.append(np.average(by_class, weights=labels[i]))
        mates = world.fleet.component_of == world.fleet.component_of[i]
        held = np.flatnonzero(labels[mates].sum(axis=0))
        component.append(right[np.isin(y, held)].mean())
    last = rows["s2s"][-1]
    assert last["device_accuracy"] == pytest.approx(100 * np.mean(device), abs=1e-3)
    assert last["device_accuracy_std"] == pytest.approx(100 * np.std(device), abs=1e-3)
    assert last["device_accuracy_min"] == pytest.approx(100 * np.min(device), abs=1e-3)
    assert last["device_accuracy_max"] == pytest.approx(100 * np.max(device), abs=1e-3)
    assert last["own_accuracy"] == pytest.approx(100 * np.mean(own), abs=1e-3)
    sizes = labels.sum(axis=1)
    assert last["own_accuracy_weighted"] == pytest.approx(
        100 * np.average(own, weights=sizes), abs=1e-3
    )
    assert last["component_accuracy"] == pytest.approx(100 * np.mean(component), abs=1e-3)


def test_the_average_model_is_scored_on_all_test_data(small):
    rows, moment = watched(small())
    world = moment.stack.world
    average = moment.state.X_nld[:, 0].mean(dim=0, keepdim=True)
    scores = world.learner.scores(average, world.x_test)[0]
    right = (scores.argmax(dim=1) == world.y_test).double().mean().item()
    loss = torch.nn.functional.cross_entropy(scores, world.y_test).item()
    assert rows["s2s"][-1]["average_accuracy"] == pytest.approx(100 * right, abs=1e-3)
    assert rows["s2s"][-1]["average_loss"] == pytest.approx(loss, rel=1e-5)


def test_before_and_after_the_server(small):
    """S2S has no bias, S2A no disagreement, blend a quarter of S2S's disagreement at first."""
    rows, _ = watched(*with_primitives(small()))
    s2s, s2a, blend = (rows[p][1] for p in ("s2s", "s2a", "blend"))
    assert s2s["disagreement_before"] == s2a["disagreement_before"] > 0
    assert s2s["bias_ratio"] == pytest.approx(0, abs=1e-10)
    assert s2a["disagreement_ratio"] == pytest.approx(0, abs=1e-10)
    assert blend["disagreement_ratio"] == pytest.approx(s2s["disagreement_ratio"] / 4, rel=1e-4)
    assert blend["bias_ratio"] == pytest.approx(s2a["bias_ratio"] / 4, rel=1e-4)
    assert "bias" not in rows["none"][1]


def test_ratios_swing_around_delta_and_kappa(small):
    """Over many server rounds the means are delta = (n-K)/(n-1) and kappa = delta/K."""
    base = small("server.period=1", "rounds=600", "evaluate.measures=consensus", "server.sampled=4")
    rows, _ = watched(*with_primitives(base))
    delta = 8 / 11
    kept = np.array([row["disagreement_ratio"] for row in rows["s2s"][1:]])
    moved = np.array([row["bias_ratio"] for row in rows["s2a"][1:]])
    for values, expected in ((kept, delta), (moved, delta / 4)):
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - expected) < 4 * error


def test_a_complete_component_agrees_after_mixing(small):
    """W = Pi_C leaves nothing inside."""
    rows, _ = watched(small("network.topology=complete"))
    for row in rows["s2s"][1:]:
        if "disagreement_intra_before" in row:
            assert row["disagreement_intra_before"] < 1e-10


@pytest.mark.parametrize(("primitive", "up_and_down"), [("s2s", 840), ("s2a", 2520)])
def test_messages_of_the_papers_example(small, primitive, up_and_down):
    """T = 101, H = 5, K = 20, n = 100: 840 against 2520 server messages."""
    rows, moment = watched(
        small("network.devices=100", "rounds=101", "server.period=5", "server.sampled=20",
              "training.batch=1", f"server.primitive={primitive}",
              "evaluate.measures=communication", "evaluate.every=101")
    )  # fmt: skip
    last = rows[primitive][-1]
    assert last["uplink_messages"] + last["downlink_messages"] == up_and_down
    assert last["d2d_messages"] == 101 * 2 * 100
    size = 4 * moment.stack.world.learner.parameters
    assert last["uplink_bytes"] == last["uplink_messages"] * size


def test_failed_links_carry_no_messages(small):
    rows, moment = watched(small("network.link_failure=0.5"))
    fleet = moment.stack.world.fleet
    up = sum(fleet.links(t) for t in range(7))
    assert rows["s2s"][-1]["d2d_messages"] == 2 * up < 7 * 2 * 12


def test_a_quadratic_has_losses_but_no_accuracies(small):
    rows, _ = watched(small("model.name=quadratic"))
    assert "average_loss" in rows["s2s"][-1]
    assert not any("accuracy" in name for row in rows["s2s"] for name in row)


@pytest.mark.parametrize("memory", [1, 3000, 10**5])
@pytest.mark.parametrize("model", ["linear", "mlp", "quadratic"])
def test_scoring_in_portions_changes_nothing(small, monkeypatch, model, memory):
    """However little memory there is: one model and one test sample at a time if need be."""
    base = small(f"model.name={model}", "rounds=2", "data.intra=dirichlet")
    whole, _ = watched(base)
    monkeypatch.setattr("skerry.measure.accuracy.MEMORY", {"cpu": memory})
    parts, _ = watched(base)
    for ours, theirs in zip(parts["s2s"], whole["s2s"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
