"""The page for whoever has not read the paper: the answer first, words explained, nothing drawn or
said that was not measured."""

import json
from collections import Counter

import networkx as nx
import numpy as np
import pytest

import skerry
from browser import opened
from conftest import small
from skerry.advice.advise import advise
from skerry.analysis.cells import ComparedCells
from skerry.analysis.run_table import RunTable
from skerry.network.fleet import build_fleet
from skerry.report.figures.islands import device_positions
from skerry.report.figures.series import break_index
from skerry.report.page.build import page_html, write_report
from skerry.report.page.report_data import TUNED, read_report_data
from skerry.report.page.sections.advice import FILE, advice_section
from skerry.report.page.sections.fleet import network_section
from skerry.report.page.sections.overview import GLOSSARY, answer_sentence, start_cell
from skerry.report.page.sections.provenance import recipe_section
from skerry.report.page.sections.theory import theory_section
from skerry.report.screens.run import describe_leaders

LONG = 60  # minutes: seeds, not time, end the race


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    out = tmp_path_factory.mktemp("advised")
    advise(small(), minutes=LONG, seeds=2, among="s2s,s2a", out=out)
    return out


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


@pytest.fixture(scope="module")
def shown(browser, advised):
    with opened(browser, write_report(advised)) as found:
        yield found


# The answer


def test_advice_is_the_answer_and_its_cell_is_chosen(shown, advised):
    kept = json.loads((advised / "advice.json").read_text())
    study, wanted = read_report_data(advised), kept["recommendation"]
    assert shown.text("#answer") == kept["summary"][0]
    cell = dict(zip(study.grid.axes, study.grid.cells[start_cell(study)], strict=True))
    for field, name in (("server.selection", "selection"), (TUNED, "stepsize")):
        assert cell.get(field, wanted[name]) == pytest.approx(wanted[name])
    if "server.selection" in study.grid.axes:
        chosen = shown.tab.locator("#controls").get_by_label("selection", exact=True)
        assert chosen.evaluate("one => one.selectedOptions[0].text") == wanted["selection"]
    assert shown.complaints == []


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


# Advice


def advice_rows(shown, number):
    """The cells of a table of the advice, without its header."""
    read = "table => [...table.rows].slice(1).map(row => [...row.cells].map(c => c.innerText))"
    return shown.tab.locator("#advice table").nth(number).evaluate(read)


def test_the_advice_follows_what_was_run(shown, advised):
    """Its words, its standings and what would change it are those of advice.json."""
    kept = json.loads((advised / FILE).read_text())
    order = shown.tab.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert order[:2] == ["run", "advice"]
    told = shown.text("#advice")
    for line in kept["summary"]:
        assert " ".join(line.split()) in told
    standings, effects = advice_rows(shown, 0), advice_rows(shown, 1)
    name, beta = kept["recommendation"]["primitive"], kept["recommendation"]["beta"]
    assert standings[0][0] == (name if beta is None else f"{name}({beta:g})")
    for row, found in zip(standings, kept["pilot"]["standings"], strict=True):
        mean = found["scores"]["global"]["mean"]
        assert float(row[4].split(" ± ")[0]) == pytest.approx(mean, abs=0.006)
    assert [row[0] for row in effects] == [one["condition"] for one in kept["sensitivity"]]


def test_one_seed_has_no_interval(tmp_path):
    """Scores of a single seed stand without a spread, not with one that is not a number."""
    advise(small(), among="s2s,s2a", minutes=LONG, seeds=1, out=tmp_path)
    blocks = advice_section(read_report_data(tmp_path)).blocks
    standings = next(block for block in blocks if block["kind"] == "table")
    cells = [cell for row in standings["rows"] for cell in row]
    assert cells
    assert not any("±" in cell or "nan" in cell for cell in cells)


@pytest.fixture
def without(advised, tmp_path):
    """The runs of the advised folder alone."""
    (tmp_path / "skerry.sqlite").write_bytes((advised / "skerry.sqlite").read_bytes())
    return tmp_path


def test_without_an_advice_there_is_no_section(without):
    assert advice_section(read_report_data(without)) is None


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"summary": []}', '{"summary": 3, "notes": null}', "[" * 100_000]
)
def test_an_advice_that_cannot_be_read_is_told(without, content):
    """It is said in its section, and the others are shown."""
    (without / FILE).write_text(content)
    page = page_html(read_report_data(without))
    assert "cannot be read as advice" in page
    assert '"name":"winners"' in page


def test_hostile_advice_is_shown_as_text(browser, advised, without):
    """Whatever an advice says is read, not run."""
    hostile = "<img src=x onerror=\"document.title='broken in'\"></script><script>1</script>"
    kept = json.loads((advised / FILE).read_text())
    kept["summary"] = [hostile, hostile]
    kept["notes"] = [hostile]
    kept["pilot"]["standings"][0]["primitive"] = hostile
    kept["pilot"]["standings"][0]["beta"] = None
    (without / FILE).write_text(json.dumps(kept))
    with opened(browser, write_report(without)) as page:
        assert page.complaints == []
        assert page.text("#advice").count(hostile) == 4
        assert page.tab.locator("#advice img, #advice script").count() == 0


# Words


def test_words_are_explained_at_the_top_and_where_they_stand(seen):
    """Six words, in a list, and for whoever points at one of them."""
    terms = seen.tab.locator("#words dt").all_inner_texts()
    assert terms == [term for term, _ in GLOSSARY] == ["S2S", "S2A", "blend", "K", "H", "cell"]
    assert seen.tab.locator("#words").evaluate("one => one.open")
    pointed = dict(
        seen.tab.locator("abbr").evaluate_all("all => all.map(a => [a.textContent, a.title])")
    )
    assert pointed["s2a"].startswith("S2A: ")
    assert pointed["cells"].startswith("cell: ")
    assert any(words.startswith("K: ") for words in pointed.values())


def test_labels_are_plain(seen):
    """`Upright axis: as suits` was none; what has no use is not offered."""
    offered = seen.tab.locator(".curves .field:visible label").all_inner_texts()
    assert offered == ["Lines are", "Vertical scale"]
    seen.choose("Lines are", "values of period", ".curves")
    assert "of primitive" in seen.tab.locator(".curves .field:visible label").all_inner_texts()
    seen.choose("Lines are", "primitives", ".curves")


def test_the_command_to_copy_runs(grid):
    """With --dry-run it would run nothing."""
    blocks = recipe_section(read_report_data(grid)).blocks
    commands = [one["content"] for one in blocks if one["kind"] == "code"]
    assert commands[-1] == "skerry sweep sweep.toml --out again"


# The theory


def test_the_theory_begins_at_the_measured_constants(shown, advised):
    """It says what the advice says of the same bounds: who needs fewer rounds, and how many."""
    kept = json.loads((advised / "advice.json").read_text())
    s2s, s2a = (one["rounds"] for one in kept["bounds"]["order"][:2])
    told = shown.text("#theory")
    fewer, more = sorted((s2s, s2a))
    assert f"{'S2S' if s2s < s2a else 'S2A'} needs fewer rounds here" in told
    factor = float(told.partition("a factor of ")[2].partition(")")[0])
    assert factor == pytest.approx(more / fewer, rel=0.01)
    assert "measured by skerry advise" in told
    assert shown.tab.locator("#theory .explorer-source", has_text="assumed").count() == 0


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


def test_a_wide_table_says_that_it_scrolls(browser, shown, advised):
    hints = "#advice .hint:visible"
    with opened(browser, advised / "report.html", phone=True) as page:
        assert page.tab.locator(hints).count() >= 1
        assert "scroll" in page.tab.locator(hints).first.inner_text()
    for hint in shown.tab.locator(".hint:visible").all():
        wide = hint.evaluate(
            "one => one.nextElementSibling.scrollWidth > one.nextElementSibling.clientWidth"
        )
        assert wide


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
