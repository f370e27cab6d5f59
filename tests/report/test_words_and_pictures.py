"""What a person sees: sentences, colours, tables. Figures have tests of their own."""

import pytest
from rich.console import Console

import skerry
from skerry.experiment import Experiment
from skerry.report.screens.run import summary, verdicts
from skerry.report.style import colours, looks
from skerry.report.words import fleet_in_words, study_in_words


@pytest.fixture(scope="module")
def results():
    experiment = Experiment.parse(
        {},
        ["network.devices=10", "server.sampled=3", "rounds=6", "data.dataset=synthetic",
         "data.samples=200", "data.test_samples=50", "training.batch=8"],
    )  # fmt: skip
    return skerry.run(experiment, compare=["s2s", "s2a", "blend:0.25", "blend:0.75"], seeds=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "100 devices on 2 rings of 50"),
        (["network.components=1"], "100 devices on one ring of 100"),
        (["network.components=[60, 40]"], "100 devices on 2 rings of 60, 40"),
        (["network.components=100"], "100 devices without links"),
        (["network.topology=regular"], "100 devices on 2 regular graphs of 50"),
        (
            ["network.topology=regular", "network.dynamic=true"],
            "100 devices on 2 regular graphs of 50, drawn afresh every round",
        ),
    ],
)
def test_a_fleet_is_told_as_a_person_would(settings, words):
    assert fleet_in_words(Experiment.parse({}, settings)) == words


def test_counts_of_one_are_singular():
    study = study_in_words([Experiment.parse({}, ["rounds=1", "server.period=1"])])
    assert "every round;" in study
    assert study.endswith("1 round, 1 seed")


def test_a_primitive_has_one_colour_everywhere_and_no_two_share_one():
    few = colours(["s2a", "s2s"])
    many = colours(["s2s", "s2a", "blend(0.25)", "blend(0.5)", "none", "mine:own"])
    assert few["s2s"] == many["s2s"]
    assert few["s2a"] == many["s2a"]
    assert len(set(many.values())) == len(many)


def test_who_cannot_tell_colours_has_the_markers():
    many = looks(["s2s", "s2a", "blend(0.1)", "blend(0.25)", "blend(0.5)", "none", "mine:own"])
    assert len({look.marker for look in many.values()}) == len(many)


def test_a_blend_has_the_same_look_whatever_stands_beside_it():
    alone, beside = looks(["blend(0.25)"]), looks(["blend(0.1)", "blend(0.25)", "mine:own"])
    assert alone["blend(0.25)"] == beside["blend(0.25)"]


def test_the_table_has_a_row_for_each_primitive_and_fits_eighty_columns(results):
    console = Console(width=80, record=True)
    console.print(summary(results))
    text = console.export_text()
    assert all(name in text for name in results.labels())
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_verdicts_name_the_best_and_how_sure_that_is(results):
    about_average, about_own = verdicts(results)
    assert about_average.startswith("Best for the average model: ")
    assert about_own.startswith("Best for devices on their own labels: ")
    means = {name: results.of(name).final("own_accuracy").mean() for name in results.labels()}
    assert max(means, key=means.get) in about_own
