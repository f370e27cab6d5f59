"""What a person sees: sentences, colours, pictures, tables."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import skerry
from skerry.experiment import Experiment, Network
from skerry.network.fleet import build_fleet
from skerry.report.figures import curves, network, network_picture, overview, save
from skerry.report.style import colours
from skerry.report.table import summary, verdicts
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


def test_curves_show_the_mean_over_seeds(results):
    axis = curves(results.frame(), "average_accuracy", Figure().add_subplot())
    lines = {line.get_label(): line for line in axis.get_lines()}
    assert list(lines) == ["s2s", "s2a", "blend(0.25)", "blend(0.75)"]
    shown = lines["s2a"].get_ydata()
    runs = [lane.history["average_accuracy"] for lane in results.of("s2a")]
    assert np.allclose(shown, np.mean(runs, axis=0))
    assert list(lines["s2a"].get_xdata()) == list(range(7))


def test_the_network_is_drawn_with_all_its_devices_and_links():
    fleet = build_fleet(Network(devices=9, components=(3, 5, 1)), 0)
    axis = network(fleet, Figure().add_subplot(), sampled=[0, 4])
    links, dots = axis.collections
    assert len(dots.get_offsets()) == 9
    assert len(links.get_segments()) == 3 + 5
    assert len({tuple(place) for place in dots.get_offsets()}) == 9


def test_pictures_are_written_whole_or_not_at_all(results, tmp_path):
    fleet = build_fleet(results[0].experiment.network, 0)
    figures = (overview(results.frame(), "a study"), network_picture(fleet, "a fleet"))
    for number, figure in enumerate(figures):
        path = save(figure, tmp_path / f"{number}.png")
        assert path.read_bytes().startswith(b"\x89PNG")

    class Fails(Figure):
        def savefig(self, path, **kwargs):
            super().savefig(path, **kwargs)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save(Fails(), tmp_path / "2.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.png", "1.png"]


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
