"""Thousands of broken experiments, sweeps and settings: each is told in lines that name the field.

Nothing fails with a traceback, and nothing takes longer than five seconds to be told.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.harness import check, faults_of, many
from fuzz.strategies import (
    FIELDS,
    OPTIONS,
    SECTIONS,
    SWEEP_FIELDS,
    misspelt,
    nested,
    plain,
    text_of,
    toml_of,
    values,
)
from skerry.config.experiment import Experiment, Section
from skerry.data.sources.published import PUBLISHED
from skerry.engine.world import build_world
from skerry.runs.sweep import Sweep

SMALL = {"rounds": 1, "network.devices": 6, "server.sampled": 2, "training.batch": 4}
SETTINGS = [f"{path}={value}" for path, value in SMALL.items()]
CHOOSERS = {
    f"{name}.{field}"
    for name, section in Experiment()
    if isinstance(section, Section)
    for field in section.naming.values()
}
"""Fields that name something: what is wrong with it may be told by its name, or by its options."""

fields = st.sampled_from([*FIELDS, *OPTIONS])


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ended(lines: list[str]) -> str:
    return "refused" if lines else "sound"


def assert_named(path: str, value: object, lines: list[str]) -> None:
    told = "\n".join(lines)
    section = path.partition(".")[0]
    by_another_field = path in CHOOSERS and (f"{section}." in told or f"'{value}'" in told)
    assert path in told or by_another_field, told


# Experiments


def one_wrong_field(case: tuple[str, Any]) -> str:
    """A fault of one field names it, whether it is found in the text or in building the world."""
    path, value = case
    table = {**SMALL, path: value}
    if path in OPTIONS:
        owner, name = OPTIONS[path]
        table[owner] = name
    text = toml_of(table)
    if lines := faults_of(lambda: Experiment.from_toml(text, source="mine.toml")):
        assert_named(path, value, lines)
        return "refused"
    experiment = Experiment.from_toml(text)
    if experiment.data.dataset in PUBLISHED:
        return "sound"  # it would be fetched
    if lines := faults_of(lambda: build_world(experiment)):
        assert_named(path, value, lines)
        return "refused by the world"
    return "sound"


@many(150, 2000)
def test_a_wrong_field_is_named(cases, counts):
    check(cases, st.tuples(fields, values), one_wrong_field, counts)


def many_wrong_fields(table: dict[str, Any]) -> str:
    return ended(faults_of(lambda: Experiment.from_toml(toml_of(table))))


@many(80, 1000)
def test_many_wrong_fields_are_told_together(cases, counts):
    paths = fields | st.sampled_from(SWEEP_FIELDS) | misspelt
    tables = st.dictionaries(paths, values, min_size=1, max_size=6)
    check(cases, tables, many_wrong_fields, counts)


def one_wrong_section(case: tuple[str, Any]) -> str:
    name, value = case
    lines = faults_of(lambda: Experiment.from_toml(f"{name} = {text_of(value)}\n"))
    if lines:
        assert_named(name, value, lines)
    return ended(lines)


@many(40, 500)
def test_a_wrong_section_is_named(cases, counts):
    check(cases, st.tuples(st.sampled_from(list(SECTIONS)), values), one_wrong_section, counts)


def any_text(text: str) -> str:
    return ended(faults_of(lambda: Experiment.from_toml(text)))


@many(80, 1000)
def test_any_text_is_an_experiment_or_told(cases, counts):
    letters = st.text("ab =[]{}\"'#\n.,0123456789_-+eE\\\r\té", max_size=60)
    check(cases, letters, any_text, counts)


# Settings


def one_wrong_setting(case: tuple[str, Any]) -> str:
    path, value = case
    owner = ["=".join(OPTIONS[path])] if path in OPTIONS else []
    setting = f"{path}={text_of(value)}"
    lines = faults_of(lambda: Experiment.parse({}, [*SETTINGS, *owner, setting]))
    if lines:
        assert_named(path, value, lines)
    return ended(lines)


@many(80, 1000)
def test_a_wrong_setting_is_named(cases, counts):
    check(cases, st.tuples(fields, values), one_wrong_setting, counts)


def any_settings(given: list[str]) -> str:
    """Also on top of a sweep, where a setting may be about an axis."""
    faults_of(lambda: Experiment.parse({}, given))
    axes = {"server.period": [5], "server.primitive, server.beta": [["s2s", 0.5], ["s2a", 1.0]]}
    return ended(faults_of(lambda: Sweep.parse({"sweep": {"axes": axes}}, given)))


@many(80, 1000)
def test_any_settings_are_read_or_told(cases, counts):
    paths = st.sampled_from([*FIELDS, *SECTIONS, *SWEEP_FIELDS, "sweep"]) | misspelt
    right = st.builds(lambda path, value: f"{path}={text_of(value)}", paths, values)
    anything = st.text("abc.=[]{}\"',0123456789 \udcff\n", max_size=30)
    check(cases, st.lists(right | anything, min_size=1, max_size=4), any_settings, counts)


# Sweeps

axis_names = fields | st.sampled_from(
    ["server.primitive, server.beta", "rounds,", ",", "a, b, c", "", "x.y"]
)
axis_values = st.lists(plain | st.lists(plain, max_size=3), max_size=3) | nested


def one_wrong_axis(case: tuple[str, Any]) -> str:
    name, given = case
    table = {"sweep": {"axes": {name: given}}}
    lines = faults_of(lambda: Sweep.parse(table, SETTINGS))
    if lines:
        told = "\n".join(lines)
        assert any(field.strip() in told for field in name.split(",")), told
    return ended(lines)


@many(80, 1000)
def test_a_wrong_axis_is_named(cases, counts):
    check(cases, st.tuples(axis_names, axis_values), one_wrong_axis, counts)


def one_wrong_field_of_a_sweep(case: tuple[str, Any]) -> str:
    path, value = case
    text = toml_of({**SMALL, path: value})
    if path != "sweep.axes":
        text += '[sweep.axes]\n"server.period" = [2, 3]\n'
    Path("mine.toml").write_text(text, encoding="utf-8")
    lines = faults_of(lambda: Sweep.load("mine.toml"))
    if lines and path != "sweep.axes":  # which tells of the axes in it
        assert path in "\n".join(lines)
    return ended(lines)


@many(80, 500)
def test_a_wrong_field_of_a_sweep_is_named(cases, counts):
    wrong = st.tuples(st.sampled_from(SWEEP_FIELDS), values)
    check(cases, wrong, one_wrong_field_of_a_sweep, counts)
