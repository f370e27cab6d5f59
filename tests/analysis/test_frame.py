"""The frame shows every recorded round once, under names that cannot be confused."""

import numpy as np
import pytest

from skerry.analysis import run_table as recorded
from skerry.config.experiment import Experiment
from skerry.errors import RecordsError
from skerry.records.store import Store

ALWAYS = ["primitive", "beta", "sampled", "period", "topology", "stepsize", "devices"]
FIRST = ["key", "name", "status", "seed", "label", *ALWAYS]


def record(folder, tables, parts=None):
    """A store with one run for each table, and the histories of some of them."""
    with Store.open(folder) as store:
        for i, table in enumerate(tables):
            facts = {"materials": {}, "world": "w", "device": "cpu", "versions": {}}
            store.begin({f"k{i}": Experiment.parse(table)}, **facts)
        for part in parts or []:
            store.append(part)
    return folder


def test_a_row_for_each_round_of_each_run(tmp_path):
    """Every recorded round of every run is one row, with its measures and its experiment."""
    record(
        tmp_path,
        [{"name": "a"}, {"seed": 7, "server": {"primitive": "s2a"}}, {"seed": 8}],
        [
            {"k0": {"round": [0, 1], "loss": [2.0, 1.0]}, "k1": {"round": [0], "loss": [3.0]}},
            {"k1": {"round": [5], "accuracy": [0.5]}},
        ],
    )
    for path in (tmp_path, tmp_path / "skerry.sqlite", str(tmp_path)):
        table = recorded.load(path)
        assert list(table) == [*FIRST, "round", "loss", "accuracy"]
        assert table["key"].tolist() == ["k0", "k0", "k1", "k1"]
        assert table["seed"].tolist() == [0, 0, 7, 7]
        assert table["primitive"].tolist() == ["s2s", "s2s", "s2a", "s2a"]
        assert table["round"].tolist() == [0, 1, 0, 5]
        assert table["round"].dtype == np.int64
        np.testing.assert_array_equal(table["loss"], [2, 1, 3, np.nan])
        np.testing.assert_array_equal(table["accuracy"], [np.nan, np.nan, np.nan, 0.5])
        assert table.index.tolist() == [0, 1, 2, 3]


def test_finals_have_a_row_for_each_run(tmp_path):
    """The final value of a measure is the last that was measured; a run may have none."""
    record(
        tmp_path,
        [{}, {"seed": 1}],
        [{"k0": {"round": [0, 1, 4], "loss": [2.0, 1.0, np.nan], "bias": [np.nan] * 3}}],
    )
    with Store.open(tmp_path) as store:
        store.finish("k0", "diverged", wall_seconds=2.0)
    table = recorded.finals(tmp_path)
    assert list(table) == [*FIRST, "rounds_done", "loss", "bias"]
    assert table["status"].tolist() == ["diverged", "running"]
    assert table["rounds_done"].tolist() == [4, 0]
    np.testing.assert_array_equal(table["loss"], [1.0, np.nan])
    np.testing.assert_array_equal(table["bias"], [np.nan, np.nan])


def test_fields_that_differ_are_columns(tmp_path):
    """A field is shown if the runs differ in it; lists are text; a label is not a field."""
    record(
        tmp_path,
        [
            {"name": "a", "rounds": 10, "network": {"components": [30, 70]}},
            {"name": "b", "rounds": 20, "data": {"inter_alpha": 0.5}},
        ],
    )
    table = recorded.finals(tmp_path)
    assert list(table) == [*FIRST, "rounds", "components", "inter_alpha", "rounds_done"]
    assert table["components"].tolist() == ["[30, 70]", 2]
    assert table["name"].tolist() == ["a", "b"]
    assert table["inter_alpha"].isna().tolist() == [True, False]


def test_ambiguous_names_keep_their_section(tmp_path, monkeypatch):
    """A field that shares its name with another, a label, a count or a measure is told apart."""
    options = ["alpha", "bias", "devices", "round", "rounds_done", "status", "width"]
    (tmp_path / "ponds.py").write_text(f"def pond(*, {', '.join(options)}): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    pond = {"name": "ponds:pond", **dict.fromkeys(options, 1)}
    record(
        tmp_path,
        [{}, {"model": pond, "data": {"alpha": 0.3}}],
        [{"k1": {"round": [0], "bias": [0.25]}}],
    )
    for table in (recorded.load(tmp_path), recorded.finals(tmp_path)):
        assert table.columns.is_unique
        told_apart = [f"model.{name}" for name in ("name", *options[:-1])]
        assert {*told_apart, "data.alpha", "width"} <= set(table)
        last = table.iloc[-1]
        assert (last["bias"], last["model.bias"], last["width"]) == (0.25, 1, 1)
        assert (last["devices"], last["model.devices"]) == (100, 1)
        assert (last["data.alpha"], last["model.alpha"]) == (0.3, 1)


def test_an_empty_store_gives_an_empty_frame(tmp_path):
    """Without runs, or without rounds, the columns are there all the same."""
    record(tmp_path / "none", [])
    record(tmp_path / "begun", [{}])
    for folder, runs in (("none", 0), ("begun", 1)):
        table, finals = recorded.load(tmp_path / folder), recorded.finals(tmp_path / folder)
        assert list(table) == [*FIRST, "round"]
        assert len(table) == 0
        assert table["round"].dtype == np.int64
        assert list(finals) == [*FIRST, "rounds_done"]
        assert len(finals) == runs


def test_a_missing_store_is_explained(tmp_path):
    """No store, no frame, one line."""
    for read in (recorded.load, recorded.finals):
        with pytest.raises(RecordsError, match="no store at"):
            read(tmp_path)
