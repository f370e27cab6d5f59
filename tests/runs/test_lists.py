"""Experiments of a list, and versions of a user's code or data in a store, stay apart."""

import sys

import numpy as np
import pytest

import skerry
from command_line import skerry as command
from skerry.analysis.results import read_studies
from skerry.analysis.run_table import RunTable
from skerry.errors import SkerryError
from skerry.plugins.sources import source_hash
from skerry.report.page.report_data import read_report_data
from skerry.report.screens.run import describe_leaders, save_figures, summary_table


@pytest.fixture(scope="module")
def pair(small_module):
    """Two experiments that differ in the period, each with two primitives and two seeds."""
    five = small_module.replace(server={"period": 5})
    two = small_module.replace(server={"period": 2})
    return skerry.run([five, two], compare=["s2s", "s2a"], seeds=2)


@pytest.fixture(scope="module")
def small_module():
    from conftest import small

    return small("rounds=5")


TOLD = ["s2s · period 5", "s2a · period 5", "s2s · period 2", "s2a · period 2"]


def test_labels_tell_in_which_fields_experiments_differ(pair):
    """Nowhere are two experiments averaged as if they were seeds."""
    assert pair.labels() == TOLD
    assert [lane.label for lane in pair][:2] == TOLD[:2]
    summary = pair.summary("average_accuracy")
    assert list(summary.index) == TOLD
    for label in TOLD:
        (mean,) = summary.loc[label, ["average_accuracy"]]
        assert mean == pytest.approx(pair.of(label).final("average_accuracy").mean())
        assert len(pair.of(label)) == 2
    assert len(pair.of("s2s")) == 4  # of both experiments; they keep their labels
    assert pair.of("s2s").labels() == TOLD[::2]
    assert set(pair.frame()["label"]) == set(TOLD)
    assert all(label in pair._repr_html_() for label in TOLD)
    assert "the labels say in which fields" in pair._repr_html_()
    assert list(summary_table(pair).columns[0].cells) == TOLD
    assert "s2a · period" in " ".join(describe_leaders(pair))
    with pytest.raises(SkerryError, match="unknown primitive 's2s · period 3'"):
        pair.of("s2s · period 3")


def test_one_experiment_needs_no_fields_in_its_labels(small_module):
    results = skerry.run(small_module, compare=["s2s", "none", "tt_hf", "blend:0.25"], seeds=2)
    assert results.labels() == ["s2s", "none", "tt_hf", "blend(0.25)"]


def test_labels_tell_three_fields_and_as_many_as_are_needed(small_module):
    """Two fields that differ are both told; of more, a label has enough to be the only one."""
    other = small_module.replace(server={"period": 2}, training={"stepsize": 0.2})
    two = ["s2s · stepsize 0.1 · period 3", "s2s · stepsize 0.2 · period 2"]
    assert skerry.run([small_module, other]).labels() == two
    many = other.replace(rounds=6, training={"batch": 5}, server={"sampled": 4})
    last = many.replace(server={"sampled": 3})
    labels = skerry.run([small_module, other, many, last]).labels()
    assert len(set(labels)) == 4
    assert labels[-1] == "s2s · rounds 6 · stepsize 0.2 · sampled 3 · ..."


def test_a_run_that_is_asked_for_twice_is_there_twice(small_module, tmp_path):
    """In the order asked, computed once, and no second seed."""
    a, b = small_module, small_module.replace(server={"primitive": "s2a"})
    results = skerry.run([a, b, a], out=tmp_path)
    assert [lane.label for lane in results] == ["s2s", "s2a", "s2s"]
    assert results[0].key == results[2].key
    assert len(results.final("average_loss")) == 3
    assert np.isnan(results.summary("average_loss")["average_loss ±"]).all()
    assert len(results.frame()) == 2 * (a.rounds + 1)
    assert len(skerry.load(tmp_path)["key"].unique()) == 2
    assert len(skerry.run([a, a])) == 2
    assert results.plot("curves").figure


def test_a_list_takes_files_of_experiments(small_module, tmp_path):
    """And says so of anything else."""
    one, two = (small_module.replace(seed=seed, rounds=1) for seed in (1, 2))
    (file := tmp_path / "two.toml").write_text(two.to_toml())
    lanes = skerry.run([one, file, str(file)])
    assert [lane.key for lane in lanes] == [one.key(), two.key(), two.key()]
    (sweep := tmp_path / "sweep.toml").write_text("[sweep]\nseeds = 2\n")
    for wrong, kind in (([one, sweep], "Sweep"), ([one, 3], "int"), (3, "int")):
        with pytest.raises(SkerryError, match=rf"a list of experiments .*got {kind}"):
            skerry.run(wrong)


def test_a_measure_that_is_none_is_told(pair):
    """With the most similar name; a measure that some lanes lack stays NaN there."""
    for ask in (
        lambda: pair.final("average_acuracy"),
        lambda: pair.of("s2s").final("average_acuracy"),
        lambda: pair[0].final["average_acuracy"],
        lambda: pair[0].history["average_acuracy"],
        lambda: pair.summary("average_acuracy"),
        lambda: pair.plot("curves", measure="average_acuracy"),
    ):
        with pytest.raises(SkerryError, match=r"'average_acuracy'; did you mean 'average_acc"):
            ask()
    base = pair[0].experiment
    more = base.replace(evaluate={"measures": ["average", "disagreement"]})
    less = base.replace(evaluate={"measures": ["average"]})
    results = skerry.run([more, less])
    name = next(iter(results[0].final.keys() - results[1].final.keys()))
    assert np.isnan(results.final(name)).tolist() == [False, True]
    assert np.isnan(results.of(results.labels()[1]).final(name)).all()


PLUG_IN = """\
def half(X_nld, sampled_k, delivered_ld):
    X_nld.lerp_(delivered_ld, {})
    return len(X_nld)
"""


def test_versions_of_a_plug_in_are_no_seeds(small_module, tmp_path, monkeypatch):
    """An edited primitive has a label of its own in every table, figure and page of the store."""
    monkeypatch.syspath_prepend(tmp_path)
    out, sources = tmp_path / "runs", []
    for strength in (0.1, 0.9):
        (tmp_path / "edited_half.py").write_text(PLUG_IN.format(strength))
        sys.modules.pop("edited_half", None)
        skerry.run(small_module, compare=["s2a", "edited_half:half"], seeds=2, out=out)
        sources.append(source_hash("edited_half")[:8])
    labels = {"s2a", *(f"edited_half:half · source {source}" for source in sources)}
    table = RunTable.read(out)
    assert set(table.labels) == labels
    assert table.axes == ()
    found = skerry.results(out)
    assert set(found.frame()["primitive"]) == labels
    assert {one.count for one in found.estimates.values()} == {2}
    (study,) = read_studies(out)
    assert set(study.labels()) == labels
    assert set(skerry.load(out)["label"]) == set(skerry.finals(out)["label"]) == labels
    assert set(read_report_data(out).grid.labels) == labels
    shown = command("show", str(out)).out
    assert all(label in shown for label in labels)
    assert all(lane.key[:8] in shown for lane in study)
    text = {one.get_text() for one in study.plot("curves").figure.findobj(_is_text)}
    assert labels <= {one.replace(" …", "") for one in text} or any(s in str(text) for s in sources)


def _is_text(artist):
    return type(artist).__name__ == "Text"


def test_versions_of_a_data_file_are_no_seeds(small_module, tmp_path):
    """An edited table of data makes another cell and another study."""
    file, rng = tmp_path / "data.npz", np.random.default_rng(0)
    base = small_module.replace(data={"dataset": "npz", "path": str(file)})
    base = skerry.Experiment(
        rounds=3, network=base.network, server=base.server,
        data=skerry.Data(dataset="npz", path=str(file)), training=base.training,
    )  # fmt: skip
    for shift in (0, 1):
        x, y = rng.normal(shift, 1, (240, 6)).astype("f4"), np.arange(240) % 4
        np.savez(file, x_train=x, y_train=y, x_test=x[:40], y_test=y[:40])
        skerry.run(base, seeds=2, out=tmp_path / "runs")
    found = skerry.results(tmp_path / "runs")
    assert found.cells.fields == ("data.dataset.source",)
    assert {one.count for one in found.estimates.values()} == {2}
    assert [len(study) for study in read_studies(tmp_path / "runs")] == [2, 2]
    assert skerry.finals(tmp_path / "runs")["source"].nunique() == 2


def test_keys_may_be_given_by_their_first_characters(small_module, tmp_path):
    lanes = skerry.run(small_module, seeds=2, out=tmp_path)
    assert "Keys: s2s " + " ".join(lane.key[:8] for lane in lanes) in command(
        "show", str(tmp_path)
    ).out.replace("\n", " ")
    for wrong in ("", "zzzz"):
        assert command("store", "forget", str(tmp_path), wrong, "-y").code == 2
    assert command("store", "forget", str(tmp_path), lanes[0].key[:8], "-y").code == 0
    assert [run.key for run in RunTable.read(tmp_path).runs] == [lanes[1].key]


def test_figures_of_two_comparisons_are_two_files(small_module, tmp_path):
    """Also if both begin with the same run."""
    for other in ("s2a", "none"):
        save_figures(skerry.run(small_module, compare=["s2s", other]), tmp_path)
    assert len(list(tmp_path.glob("curves-*.png"))) == 2
    assert len(list(tmp_path.glob("network-*.png"))) == 1
