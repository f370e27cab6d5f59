"""The page for whoever has not read the paper: the answer first, words explained, nothing drawn or
said that was not measured."""

import json
import re
import runpy
from collections import Counter

import networkx as nx
import numpy as np
import pytest

import skerry
from browser import opened
from command_line import TESTS
from conftest import small
from skerry.analysis.cells import ComparedCells
from skerry.analysis.run_table import RunTable
from skerry.config.measures import MEASURES
from skerry.network.fleet import build_fleet
from skerry.report.figures.islands import device_positions
from skerry.report.figures.series import break_index
from skerry.report.page.build import write_report
from skerry.report.page.report_data import TUNED, read_report_data
from skerry.report.page.sections.fleet import network_section
from skerry.report.page.sections.overview import answer_sentence
from skerry.report.page.sections.provenance import recipe_section
from skerry.report.page.sections.theory import theory_section
from skerry.report.screens.run import describe_leaders

ROOT = TESTS.parent


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Two periods and two stepsizes; only the last rounds are evaluated."""
    out = tmp_path_factory.mktemp("grid")
    runs = [
        small(f"server.period={period}", f"training.stepsize={stepsize}", "rounds=12",
              "evaluate.after=8")
        for period in (2, 3)
        for stepsize in (0.05, 0.1)
    ]  # fmt: skip
    skerry.run(runs, compare=["s2s", "s2a"], seeds=3, out=out)
    return out


@pytest.fixture(scope="module")
def seen(browser, grid):
    with opened(browser, write_report(grid)) as found:
        yield found


# The answer


def test_one_cell_is_answered_by_its_verdicts(tmp_path):
    found = skerry.run(small(), compare=["s2s", "s2a"], seeds=2, out=tmp_path)
    told = answer_sentence(read_report_data(tmp_path))
    first, second = describe_leaders(found)
    assert told == f"{first[:-1]}; b{second[1:]}"
    assert told.count(".") >= 1
    assert told.endswith(".")


def test_many_cells_are_answered_by_how_often_who_is_better(seen, grid):
    cells = RunTable.read(grid).read_measure().best(TUNED)
    answers = ComparedCells(cells, "s2a")
    tally = Counter(map(answers.verdict, answers.comparisons.values()))
    told = seen.text("#answer")
    assert f"s2s is clearly better than s2a in {tally['win']} of 2 cells" in told
    assert f"clearly worse in {tally['loss']}" in told


def test_nothing_to_compare_is_said(tmp_path):
    skerry.run(small(), compare=["s2s"], out=tmp_path)
    assert answer_sentence(read_report_data(tmp_path)).startswith("Only s2s was run")


def test_a_lead_at_the_best_stepsize_is_judged_like_any_other(seen, grid):
    """The page says of two stepsizes chosen apart what `skerry results --best` says."""
    answers = ComparedCells(RunTable.read(grid).read_measure().best(TUNED), "s2a")
    first = next(iter(answers.comparisons.values()))
    said = answers.verdict(first)
    assert f"after Holm's correction: {said}; each at its own best stepsize" in seen.text(
        "#winners"
    )


# Words


def unexplained(page):
    """The table headings without a meaning, except values and labels."""
    read = """all => all.filter(one => one.innerText.trim() && !one.querySelector("[title]"))
        .map(one => one.innerText.trim())"""
    headings = page.tab.locator("thead th").evaluate_all(read)
    return {one for one in headings if not re.fullmatch(r"[\d.]+", one)}


def test_words_are_explained_at_the_top_and_where_they_stand(seen):
    """Six words at the top, all words at the end, and for whoever points at a word or heading."""
    terms = seen.tab.locator("#words dt").all_inner_texts()
    assert terms == ["s2s", "s2a", "blend", "K", "H", "cell"]
    assert seen.tab.locator("#words").evaluate("one => one.open")
    seen.tab.get_by_text("All cells", exact=True).click()
    seen.tab.wait_for_selector(".winners details table")
    assert unexplained(seen) == set()
    listed = dict(
        seen.tab.locator("#terms dl").evaluate(
            """dl => [...dl.querySelectorAll("dt")].map(
                one => [one.textContent, one.nextSibling.textContent])"""
        )
    )
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for term in ("sampled, K", "mixing parameter, p", "one_each", "stepsize, η", "seed"):
        assert listed[term] in glossary
    assert "own labels" in listed
    sliders = seen.tab.locator("#theory .explorer-slider label")
    assert all(sliders.evaluate_all("all => all.map(one => one.title)"))


def test_terms_are_those_of_the_docs():
    """The words of the page are written in the docs alone, and every measure has one."""
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    kept = generate["TERMS"].read_text(encoding="utf-8")
    assert kept == generate["terms"](), "out of date. Run: python docs/generate.py"
    assert {one.get("measure") for one in json.loads(kept)} >= set(MEASURES)


def test_words_are_pointed_at(seen):
    pointed = dict(
        seen.tab.locator("abbr").evaluate_all("all => all.map(a => [a.textContent, a.title])")
    )
    assert pointed["s2a"].startswith("s2a: ")
    assert pointed["cells"].startswith("cell: ")
    assert any(words.startswith("sampled: ") for words in pointed.values())


def test_labels_are_plain(seen):
    """`Upright axis: as suits` was none; what has no use is not offered."""
    offered = seen.tab.locator(".curves .field:visible label").all_inner_texts()
    assert offered == ["Horizontal axis", "Lines are", "Vertical scale"]
    seen.choose("Lines are", "values of period", ".curves")
    assert "of primitive" in seen.tab.locator(".curves .field:visible label").all_inner_texts()
    seen.choose("Lines are", "primitives", ".curves")


def test_the_command_to_copy_runs(grid):
    """With --dry-run it would run nothing."""
    blocks = recipe_section(read_report_data(grid)).blocks
    commands = [one["content"] for one in blocks if one["kind"] == "code"]
    assert commands[-1] == "skerry sweep sweep.toml --out again"


# What was not measured


@pytest.mark.parametrize(
    ("at", "place"),
    [
        ([0, 25, 26, 27], 0),
        ([0, 27, 30], 0),
        ([0, 1, 6, 11, 16], None),
        ([0, 10, 20, 25], None),
        ([0, 30], None),
        ([0], None),
        ([], None),
    ],
)
def test_a_hole_is_longer_than_any_other_step(at, place):
    assert break_index(at) == place


def test_no_line_is_drawn_where_nothing_was_measured(seen):
    """Only the start and the last four rounds were evaluated: between them is nothing."""
    for widget in ("curves", "cost"):
        lines = [one for one in seen.traces(widget) if one["name"]]
        assert len(lines) == 2
        for line in lines:
            assert line["y"][1] is None
            assert np.isfinite([one for one in line["y"] if one is not None]).all()
    rounds = [one["x"] for one in seen.traces("curves") if one["name"]]
    assert rounds == [[0, None, 9, 10, 11, 12]] * 2
    bands = [one["x"] for one in seen.traces("curves") if not one["name"]]
    assert all(0 not in band or len(band) == 1 for band in bands)
    for widget in ("curves", "cost"):
        assert "evaluated from round 9 on" in seen.text(f".{widget} figcaption")


@pytest.mark.parametrize("kind", ["curves", "cost"])
def test_a_figure_draws_no_line_there_either(grid, kind):
    import matplotlib.pyplot as plt

    from skerry.report import figures

    figure, axis = plt.subplots()
    getattr(figures, kind)(skerry.load(grid).query("period == 2"), "average_accuracy", axis)
    lines = [line for line in axis.get_lines() if line.get_label() in ("S2S", "S2A", "s2s", "s2a")]
    assert len(lines) == 2
    for line in lines:
        assert np.isnan(line.get_xdata()[1])
    plt.close(figure)


# Pictures and tables


def test_a_ring_with_names_is_drawn_as_a_ring():
    """Neighbours stand beside each other, in whatever order their names were given."""
    graph = nx.Graph()
    graph.add_nodes_from("abcdef")
    nx.add_cycle(graph, "adbfce")
    fleet = build_fleet(skerry.Network(), 0, graph)
    place = device_positions(fleet)
    apart = [np.linalg.norm(place[i] - place[j]) for i, j in fleet.edges(0)]
    assert apart == pytest.approx([2 * np.sin(np.pi / 6)] * 6)
    star = build_fleet(skerry.Network(), 0, nx.star_graph(5))
    assert len(np.unique(np.round(device_positions(star), 6), axis=0)) == 6


def test_islands_are_counted_from_zero_everywhere(grid):
    """As devices are, in tables, on the page, and in figures."""
    import matplotlib.pyplot as plt

    from skerry.engine.world import build_world
    from skerry.report.figures import labels

    world = build_world(small())
    figure, axis = plt.subplots()
    labels(world.partition, world.sizes, axis)
    ticks = [tick.get_text() for tick in axis.get_xticklabels()]
    plt.close(figure)
    assert (
        ticks
        == [f"island {name}" for name in dict.fromkeys(world.islands)]
        == ["island 0", "island 1"]
    )


def test_what_was_given_from_python_is_said_to_be_missing(tmp_path):
    """A graph that records do not hold is not called a topology that a report does not run."""
    graph = nx.disjoint_union(nx.path_graph(4), nx.cycle_graph(5))
    fleet = skerry.Experiment.parse({}, ["rounds=2", "server.sampled=3"])
    skerry.run(fleet, graph=graph, compare=["s2s", "s2a"], out=tmp_path)
    (told,) = network_section(read_report_data(tmp_path)).blocks
    assert told["words"].startswith("Not drawn: the graph of these runs came from Python")


def test_assumed_constants_are_called_so(grid):
    told = theory_section(read_report_data(grid)).blocks[0]["words"]
    assert "are assumed" in told
    assert "skerry advise" in told
