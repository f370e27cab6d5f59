"""Every device is judged by its own samples, and what it scored is kept."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
import torch

import fleet_data
import skerry
from command_line import skerry as command
from skerry.config.experiment import Experiment
from skerry.engine.world import Materials, build_world
from skerry.measure.device_scores import DeviceScorer, ScoresByDevice
from skerry.records.maintenance import verify_store
from skerry.records.store import Store

MEASURES = ["average", "devices", "fairness"]


def dataset(**more):
    return skerry.from_devices(
        fleet_data.devices(), test=fleet_data.samples(30, 9), islands=fleet_data.ISLANDS, **more
    )


def small(**data):
    return Experiment.parse({"data": data}, ["rounds=3", "server.sampled=2"]).replace(
        evaluate={"measures": MEASURES}
    )


@pytest.fixture
def recorded(tmp_path):
    given = dataset(own_test=fleet_data.own_tests())
    skerry.run(small(), dataset=given, compare="s2s,s2a", seeds=2, out=tmp_path)
    return tmp_path


def test_own_scores_are_those_on_own_samples():
    """By hand, device by device; without samples of its own a device is scored by its mix."""
    given = dataset(own_test=fleet_data.own_tests())
    world = build_world(small(dataset="given", split="given"), Materials(dataset=given))
    without = build_world(small(dataset="given", split="given"), Materials(dataset=dataset()))
    X_nld = torch.randn(world.n, 2, world.learner.d)
    found, mixed = (DeviceScorer(one).score(X_nld).own_nl for one in (world, without))
    tests = fleet_data.own_tests()
    for i, name in enumerate(world.fleet.labels):
        if name not in tests:
            assert torch.equal(found[i], mixed[i])
            continue
        x, y = tests[name]
        scaled = (x - given.x_train.mean(0)) / given.x_train.std(0)
        scores = world.learner.scores(X_nld[i], world.learner.prepare(torch.from_numpy(scaled)))
        right = scores.argmax(dim=2) == torch.from_numpy(y)
        assert torch.allclose(found[i], 100 * right.float().mean(dim=1))


def test_who_is_left_behind():
    own_nl = torch.arange(20.0).repeat_interleave(2).view(20, 2)
    island_n = torch.tensor([0] * 5 + [1] * 15)
    scores = ScoresByDevice("accuracy", *[own_nl] * 4).fairness(island_n)
    assert scores["own_accuracy_worst_tenth"].tolist() == [0.5, 0.5]
    assert scores["own_accuracy_best_tenth"].tolist() == [18.5, 18.5]
    assert scores["own_accuracy_island_gap"].tolist() == [10.0, 10.0]
    losses = ScoresByDevice("loss", *[own_nl] * 4).fairness(island_n)
    assert losses["own_loss_worst_tenth"].tolist() == [18.5, 18.5]


def test_the_last_round_of_every_device_is_kept(recorded):
    """Its mean is the measure that the history has; the record says how devices were scored."""
    with Store.read(recorded) as store:
        for run in store.runs():
            table, final = store.devices(run.key), store.final(run.key)
            assert table["device"] == ["porch", "attic", "cellar", "shed", "barn", "loft"]
            assert table["island"] == ["west"] * 3 + ["east"] * 3
            assert table["samples"] == [1, 50, 20, 30, 7, 12]
            assert table["own_tests"] == [5, 5, 0, 5, 0, 0]
            for name in ("own_accuracy", "device_accuracy"):
                assert np.isclose(np.mean(table[name]), final[name], atol=1e-4)
            ranked = sorted(table["own_accuracy"])
            assert np.isclose(ranked[0], final["own_accuracy_worst_tenth"], atol=1e-4)


def test_workers_send_what_devices_scored(tmp_path):
    given = dataset()
    skerry.run(small(), dataset=given, out=tmp_path / "here")
    skerry.run(small(), dataset=given, out=tmp_path / "there", executor="processes", workers=1)
    found = []
    for folder in ("here", "there"):
        with Store.read(tmp_path / folder) as store:
            found += [store.devices(run.key) for run in store.runs()]
    assert found[0] == found[1] is not None


def test_damage_is_found(recorded):
    with closing(sqlite3.connect(recorded / "skerry.sqlite")) as db:
        db.execute("UPDATE devices SET content = zeroblob(9) WHERE run = 1")
        db.commit()
    assert list(verify_store(recorded).faults.values()) == ["wrong checksum of its devices"]


def test_a_store_without_them_can_be_read(recorded):
    """One of an older version, which knows no such table."""
    with closing(sqlite3.connect(recorded / "skerry.sqlite")) as db:
        db.execute("DROP TABLE devices")
        db.commit()
    with Store.read(recorded) as store:
        assert [store.devices(run.key) for run in store.runs()] == [None] * 4
    told = command("results", str(recorded), "--devices")
    assert told.code == 2
    assert "has the scores of single devices" in told.err
    assert verify_store(recorded).faults == {}


def test_results_by_device(recorded):
    """The worst first, over seeds, and in every form."""
    shown = command("results", str(recorded), "--devices")
    assert shown.code == 0
    assert "own_accuracy at the end, 2 seeds, by island: mean over its devices" in shown.out
    assert "3 devices have no test samples." in shown.out
    frame = skerry.devices(recorded).frame
    assert len(frame) == 2 * 6
    assert (
        command("results", str(recorded), "--devices", "--csv", str(recorded / "d.csv")).code == 0
    )
    csv = (recorded / "d.csv").read_text()
    assert csv.splitlines()[0].startswith("primitive,island,device,samples,own_tests,seeds,")
    assert len(csv.splitlines()) == 13
    table = next(iter(skerry.devices(recorded).cells.values()))
    means = table[["s2s", "s2a"]].mean(axis=1)
    assert means.is_monotonic_increasing


def test_the_page_shows_devices(recorded):
    page = skerry.write_report(recorded).read_text()
    assert "Who is left behind" in page
    assert '"porch"' in page
