"""The report: one page, from any store, that says what is there and runs nothing but itself."""

import json
import math
import re
import shlex
import tomllib
from itertools import pairwise, product

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import skerry
from browser import opened
from conftest import small
from skerry.analysis.run_table import RunTable, results
from skerry.cli.commands.report import report_command
from skerry.config.experiment import Experiment, Server
from skerry.engine.world import build_world
from skerry.errors import RecordsError
from skerry.records.store import Store, versions
from skerry.report.page import packing
from skerry.report.page.blocks import PageSection, text
from skerry.report.page.build import SECTIONS, page_html, write_report
from skerry.report.page.model import DARK_PAGE, LIGHT_PAGE
from skerry.report.page.report_data import read_report_data, rounds_to_show
from skerry.report.page.sections.fleet import labels_section, network_section
from skerry.report.page.sections.overview import runs_section
from skerry.report.page.sections.provenance import provenance_section, recipe_section
from skerry.report.screens.results import cells_sheet
from skerry.report.style import contrast
from skerry.runs.sweep import Sweep

HOSTILE = (
    '</script><script>document.title = "broken in"</script>',
    "<!--<script>",
    "<img src=x onerror=\"document.title='broken in'\">",
    "\"quotes' & &lt;entities&gt; %{y} $x^2$ {{script}}",
    "שלום עולם ‮ reversed",
    "島々" * 200,
    "one\nbelow\tthe other\x00\u2028",
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two periods and two stepsizes, three primitives, three seeds."""
    folder = tmp_path_factory.mktemp("sweep")
    runs = [
        small(f"server.period={period}", f"training.stepsize={stepsize}", "name=two periods")
        for period in (2, 3)
        for stepsize in (0.05, 0.1)
    ]
    skerry.run(runs, compare=["s2s", "s2a", "blend:0.25"], seeds=3, out=folder)
    return folder


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    skerry.run(small(), compare=["s2s", "s2a"], seeds=2, out=folder)
    return folder


@pytest.fixture(scope="module")
def file(sweep):
    """The page of the sweep."""
    return write_report(sweep)


@pytest.fixture(scope="module")
def seen(browser, file):
    """The page of the sweep, opened once, for tests that only look."""
    with opened(browser, file) as found:
        yield found


@pytest.fixture
def shown(seen):
    """The same page, for tests that press and choose; its controls are reset afterwards."""
    yield seen
    seen.restore()


@pytest.fixture(scope="module")
def untouched(browser, file):
    """The page of the sweep in a tab of its own, for tests of requests and focus."""
    with opened(browser, file) as found:
        yield found


@pytest.fixture(scope="module")
def alone(browser, single, tmp_path_factory):
    """The page of a single study."""
    file = write_report(single, tmp_path_factory.mktemp("alone") / "single.html")
    with opened(browser, file) as found:
        yield found


@pytest.fixture(scope="module")
def rules(browser, tmp_path_factory):
    """The results and the page of two selection rules: in proportion to islands, and weighted."""
    out = tmp_path_factory.mktemp("rules")
    asked = [
        small(f"server.selection={rule}", "server.sampled=4", "server.period=2")
        for rule in ("per_component", "weighted")
    ]
    lanes = skerry.run(asked, compare=["s2s", "s2a"], out=out)
    with opened(browser, write_report(out)) as found:
        yield lanes, found


def record(folder, experiment, status="finished", note="", materials=None, **columns):
    """One run, written as a program would that computes it."""
    key = experiment.key(materials or {})
    with Store.open(folder) as store:
        store.begin(
            {key: experiment},
            materials=materials or {},
            world="w",
            device="cpu",
            versions=versions(),
        )
        if columns:
            store.append({key: columns})
        if status != "running":
            store.finish(key, status, wall_seconds=1.0, note=note)
    return key


def rows(tab, selector):
    """The cells of a table as text, its header first."""
    read = "table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    return tab.locator(selector).first.evaluate(read)


# Alone on a disk


def test_the_page_needs_nothing_but_itself(untouched):
    """It is drawn without a request, an error, or a way to make a request."""
    assert [url for url in untouched.requests if not url.startswith(("data:", "blob:"))] == [
        untouched.tab.url
    ]
    assert untouched.complaints == []
    reached = "fetch('https://example.org/').then(() => true, () => false)"
    assert untouched.tab.evaluate(reached) is False


def test_every_section_is_there_and_linked(seen):
    """The contents name every section once, and each has something in it. Advice and time are there
    only where they were asked for."""
    links = seen.tab.locator("nav a").evaluate_all("all => all.map(a => a.hash.slice(1))")
    sections = seen.tab.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert links == sections
    assert len(sections) == len(SECTIONS) - 2
    assert not {"advice", "time"} & set(sections)
    for plot in seen.tab.locator(".plot").all():
        assert plot.locator(".main-svg").count() > 0


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner, max_size=4)))
def test_json_cannot_leave_its_script(value):
    """Any text comes back from JSON that holds no markup."""
    written = packing.json_text(value)
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == value


def test_hostile_text_is_shown_as_text(browser, tmp_path):
    """Whatever a name, a primitive, a topology, a measure or a reason holds is read, not run."""
    for number, words in enumerate(HOSTILE):
        told = Experiment(rounds=1, seed=number)
        told = told.model_copy(
            update={
                "name": words,
                "server": told.server.model_copy(update={"primitive": f"mine:{words}"}),
                "network": told.network.model_copy(update={"topology": f"mine:{words}"}),
            }
        )
        columns = {"round": [0, 1], "average_accuracy": [10.0, 20.0 + number], words: [1.0, 2.0]}
        record(tmp_path, told, "failed" if number > 3 else "finished", words, **columns)
    with opened(browser, write_report(tmp_path)) as found:
        assert found.complaints == []
        assert found.tab.title().startswith(HOSTILE[0])
        assert found.tab.locator("main img, main script").count() == 0
        everything = found.tab.locator("main").evaluate("main => main.textContent")
        for words in HOSTILE[:5]:
            assert words.replace("\u202e", "\\u202e") in everything
        legend = found.tab.locator(".curves .legendtext").all_text_contents()
        assert legend == ["mine:\"quotes' & &lt;entities&gt…"]


# What it says


def test_numbers_are_those_of_results(shown, sweep):
    """Every cell of every primitive, as `skerry.results` writes it."""
    for measure, title in (
        ("average_accuracy", "average model, global test set (%)"),
        ("own_accuracy", "devices, own label mix (%)"),
        ("downlink_messages", "messages from the server"),
    ):
        shown.choose("Measure", title, "#controls")
        if measure == "average_accuracy":
            shown.tab.get_by_text("All cells", exact=True).click()
            shown.tab.wait_for_selector(".winners details table")
        told = rows(shown.tab, ".winners details table")
        sheet = cells_sheet(results(sweep, measure))
        order = [told[0].index(name) for name in sheet.header]
        assert [[row[i] for i in order] for row in told[1:]] == [list(row) for row in sheet.rows]


def test_gaps_are_those_of_results(shown, sweep):
    """A square of the heat map is the mean difference over seeds, others averaged over."""
    shown.choose("stepsize", "0.05", "#controls")
    shown.choose("Columns", "period", ".gaps")
    shown.choose("Rows", "(none)", ".gaps")
    answers = results(sweep, by=["server.period"], against="s2a")
    expected = [answers.comparisons[(period,), "s2s"].difference.mean for period in (2, 3)]
    assert shown.traces("gaps")[0]["z"][0] == pytest.approx(expected, abs=1e-9)


def test_curves_are_means_over_seeds(shown, sweep):
    """What is drawn is the mean over seeds, to the last digit that is shown."""
    shown.choose("stepsize", "0.1", "#controls")
    shown.choose("period", "3", "#controls")
    frame = skerry.load(sweep).query("stepsize == 0.1 and period == 3 and primitive == 's2s'")
    for measure, title, device_positions in (
        ("average_accuracy", "average model, global test set (%)", 4),
        ("disagreement", "disagreement per device", 4),
    ):
        shown.choose("Measure", title, "#controls")
        (line,) = [trace for trace in shown.traces("curves") if trace["name"] == "s2s"]
        expected = frame.groupby("round")[measure].mean()
        assert line["x"] == expected.index.tolist()
        assert line["y"][1:] == pytest.approx(expected.tolist()[1:], rel=10**-device_positions)


def test_intervals_end_where_the_measure_does(browser, tmp_path):
    """No bar and no band says that an accuracy may lie below 0 or above 100 %."""
    for stepsize, (seed, score) in product((0.05, 0.1), ((0, 20.0), (1, 99.0))):
        told = small(f"seed={seed}", f"training.stepsize={stepsize}")
        record(tmp_path, told, round=[0, 7], average_accuracy=[10.0, score])
    ends = """([widget, axis, error]) => document.querySelector(`.${widget} .plot`).data
        .filter(trace => trace[error]).flatMap(trace => trace[axis].map((mean, i) =>
            [mean - trace[error].arrayminus[i], mean + trace[error].array[i]]))"""
    with opened(browser, write_report(tmp_path)) as found:
        assert found.tab.evaluate(ends, ["winners", "x", "error_x"]) == [[0, 100]]
        assert found.tab.evaluate(ends, ["stepsizes", "y", "error_y"]) == [[0, 100]] * 2
        low, high = (trace["y"] for trace in found.traces("curves")[:2])
        assert (low[-1], high[-1]) == (0, 100)


def test_theory_lies_over_what_was_measured(seen):
    """The dashed lines are delta for S2S, (1 - beta)^2 delta for blends, and 0 for S2A."""
    lines = [trace["y"][0] for trace in seen.traces("consensus", 1) if len(trace["x"]) == 2]
    assert lines == pytest.approx([7 / 11, 0.75**2 * 7 / 11, 0])


def test_the_theory_of_another_rule_follows_the_disagreement_before(rules):
    """Two of six devices of both islands: S2S leaves 11/15 of what is inside islands and 2/3 of
    what is between them. The page says what it draws."""
    lanes, found = rules
    dashed = [trace for trace in found.traces("consensus", 1) if not trace["name"]]
    header, *told = rows(found.tab, "#consensus table")
    assert "are for uniform sampling" in found.text("#consensus")
    history = lanes.of("s2s")[0].history
    intra, inter = (history[f"disagreement_{part}_before"] for part in ("intra", "inter"))
    met = np.isfinite(intra) & (intra + inter > 0)
    expected = ((11 / 15 * intra + 2 / 3 * inter) / (intra + inter))[met]
    assert dashed[0]["x"] == history["round"][met].tolist()
    assert dashed[0]["y"] == pytest.approx(expected, rel=1e-3)
    assert float(told[0][header.index("theory")]) == pytest.approx(expected.mean(), abs=1e-3)


def test_sampled_devices_are_those_of_the_run(sweep):
    """The network shows whom the engine samples."""
    world = build_world(small())
    (widget,) = [
        block["data"]
        for section in (make(read_report_data(sweep)) for make in SECTIONS)
        if section is not None and section.name == "network"
        for block in section.blocks
        if block["kind"] == "widget"
    ]
    assert widget["orders"]["12"].keys() >= {"0", "2", "3"}
    for t, order in widget["orders"]["12"].items():
        assert order == world.server_order(int(t))[:5].tolist()


def test_the_sweep_to_copy_is_the_sweep_that_ran(seen, sweep):
    """Saved as a file, it stands for the same runs."""
    code = seen.tab.locator("#recipe code").first.inner_text()
    with Store.read(sweep) as store:
        recorded = {run.key for run in store.runs()}
    assert {run.key() for run in Sweep.parse(tomllib.loads(code)).runs()} == recorded


def test_the_sweep_to_copy_says_how_many_runs_are_missing(tmp_path):
    """Without a server there is no period: such a run stands for all of them, none is missing."""

    def remarks():
        blocks = recipe_section(read_report_data(tmp_path)).blocks
        return [block["words"] for block in blocks if block["kind"] == "note"]

    told = [small(f"server.period={period}") for period in (2, 3)]
    skerry.run(told, compare=["s2s", "none"], out=tmp_path)
    assert remarks() == []
    skerry.run(told[0], compare=["s2a"], out=tmp_path)
    (missing,) = remarks()
    assert missing.startswith("This grid has 5 runs; 4 are recorded here.")


def test_the_experiment_to_copy_is_the_one_that_ran(alone, single, tmp_path):
    """The file and the command give the same runs."""
    code, command = alone.tab.locator("#recipe code").all_inner_texts()
    words = shlex.split(command)
    compare, seeds = words[words.index("--compare") + 1], words[words.index("--seeds") + 1]
    again = skerry.run(
        Experiment.from_toml(code), compare=compare, seeds=int(seeds), out=tmp_path / "again"
    )
    with Store.read(single) as store:
        assert {run.key for run in store.runs()} == {lane.key for lane in again}


# Controls


def test_controls_change_the_plots(shown):
    """Another measure, another cell, another ratio: what is drawn follows."""
    before = shown.traces("curves")
    shown.choose("Measure", "loss of the average model", "#controls")
    assert shown.traces("curves")[-1]["y"] != before[-1]["y"]
    before = shown.traces("winners")
    shown.choose("period", "3", "#controls")
    assert shown.traces("winners") != before
    shown.choose("Lines are", "values of period", ".curves")
    names = [trace["name"] for trace in shown.traces("curves") if trace["name"]]
    assert names == ["period 2", "period 3"]
    before = shown.traces("cost")
    shown.choose("Count messages", "between devices (D2D)", ".cost")
    assert shown.traces("cost")[0]["x"] != before[0]["x"]


def test_each_primitive_may_have_its_own_best_stepsize(seen, sweep):
    """The table at the best stepsizes is what `skerry results --best` says."""
    told = rows(seen.tab, ".winners table")
    answers = results(sweep, best="training.stepsize")
    for row, name in zip(told[1:], ("s2s", "blend(0.25)", "s2a"), strict=True):
        assert row[0].startswith(f"{name}, stepsize ")
        assert row[1].startswith(f"{answers.estimates[(2,), name].mean:.2f}")


TRIED = {
    "all": [(50.0, 60.0, 70.0), (80.0, 55.0, 42.0)],
    "fewer seeds": [(50.0, 60.0, 70.0), (52.0,)],
    "no common seed": [(None, 60.0, 61.0), (90.0,)],
    "a seed diverged": [(50.0, 60.0, 70.0), (95.0, math.nan, 90.0)],
    "fewer seeds, one diverged": [(50.0, math.nan, 70.0), (48.0, 40.0)],
}
"""With two stepsizes, the accuracy by seed: NaN if it diverged, None if it was not run."""
TRIED_FIRST = ("all", "fewer seeds, one diverged")


@pytest.fixture(
    params=[
        pytest.param(scores, id=name, marks=() if name in TRIED_FIRST else pytest.mark.slow)
        for name, scores in TRIED.items()
    ]
)
def tried(request, tmp_path):
    """A store in which each primitive does best with another stepsize, in every period."""
    for period, primitive in product((2, 3), ("s2s", "s2a")):
        other = (period, primitive) in ((2, "s2a"), (3, "s2s"))
        stepsizes = (0.1, 0.05) if other else (0.05, 0.1)
        for stepsize, scores in zip(stepsizes, request.param, strict=True):
            for seed, score in enumerate(scores):
                told = small(f"server.period={period}", f"server.primitive={primitive}")
                told = told.with_settings(f"training.stepsize={stepsize}", f"seed={seed}")
                if score is not None and math.isnan(score):
                    record(tmp_path, told, "diverged")
                elif score is not None:
                    record(tmp_path, told, round=[0, 7], average_accuracy=[10.0, score + period])
    return tmp_path


def test_the_page_chooses_the_stepsizes_that_results_chooses(browser, tried):
    """Table, curves and gaps at the best stepsizes are those of `skerry results --best`, also where
    a stepsize was run on fewer seeds than another, or a seed diverged."""
    choices = RunTable.read(tried).read_measure().tuned_values("training.stepsize")
    answers = results(tried, best="training.stepsize")
    with opened(browser, write_report(tried)) as found:
        for period in (2, 3):
            found.choose("period", str(period), "#controls")
            chosen = choices[period,].items()
            names = [f"{name}, stepsize {choice.value:g}" for name, choice in chosen]
            table = rows(found.tab, ".winners table")[1:]
            assert [row[0] for row in table] == names
            for row, (name, _) in zip(table, chosen, strict=True):
                assert row[1].startswith(f"{answers.estimates[(period,), name].mean:.2f}")
            assert [trace["name"] for trace in found.traces("curves") if trace["name"]] == names
        found.choose("Columns", "period", ".gaps")
        found.choose("Rows", "(none)", ".gaps")
        gaps = [answers.comparisons[(period,), "s2s"].difference.mean for period in (2, 3)]
        assert found.traces("gaps")[0]["z"][0] == pytest.approx(gaps, abs=1e-9, nan_ok=True)
        assert found.complaints == []


def test_sampled_devices_follow_the_rule(rules):
    """Below the network: the counts of each island under the rule, and nothing where only data or
    models could tell."""
    _, found = rules
    even = "In round 1 the server samples 4 of 12 devices: 2 on island 0, 2 on island 1."
    assert even in found.text("#network")
    found.choose("selection", "weighted")
    assert "The sampled devices are not drawn" in found.text("#network")
    assert found.complaints == []
    found.restore()


def test_server_rounds_are_marked_where_the_engine_has_them(browser, tmp_path):
    """The dotted lines of the curves, and the stops of the slider below the network."""
    told = small("server.period=4", "server.offset=2", "rounds=13")
    skerry.run(told, compare=["s2s", "none"], out=tmp_path)
    done = [t + 1 for t in range(told.rounds) if t in told.server.server_rounds(told.rounds)]
    with opened(browser, write_report(tmp_path)) as found:
        shapes = "() => document.querySelector('.curves .plot').layout.shapes.map(one => one.x0)"
        assert found.tab.evaluate(shapes) == done == [3, 7, 11]
        slider = found.tab.get_by_role("slider", name="Server round")
        for place, round_ in enumerate(done):
            slider.fill(str(place))
            assert f"In round {round_} the server samples 5 of 12" in found.text(".network .status")


def test_the_keyboard_reaches_everything(untouched):
    """The first stop skips to the results; selects and sliders answer to arrows; focus is seen."""
    tab = untouched.tab
    focused = "() => document.activeElement.matches(':focus-visible')"
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent") == "Skip to the results"
    tab.keyboard.press("Enter")
    assert tab.evaluate("() => document.activeElement.id") == "main"
    measure = tab.locator("#controls").get_by_label("Measure", exact=True)
    measure.focus()
    tab.keyboard.press("ArrowDown")
    assert measure.input_value() == "1"
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert tab.evaluate(focused)
    assert tab.evaluate(outline) == "solid"
    before = untouched.text(".network .status")
    tab.get_by_role("slider", name="Server round").focus()
    tab.keyboard.press("ArrowRight")
    assert untouched.text(".network .status") != before


def test_everything_has_a_name(seen):
    """Controls have labels, pictures say what they show, and no level of heading is left out."""
    unnamed = """() => [...document.querySelectorAll("select, input")]
        .filter(one => !one.labels.length && !one.getAttribute("aria-label")).length"""
    assert seen.tab.evaluate(unnamed) == 0
    for plot in seen.tab.locator("figure .plot").all():
        assert plot.get_attribute("aria-label")
    levels = seen.tab.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_experiment_is_copied(alone):
    """One press puts the text on the clipboard."""
    alone.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    alone.tab.get_by_role("button", name="Copy: The experiment").click()
    alone.tab.get_by_text("Copied").first.wait_for()
    copied = alone.tab.evaluate("navigator.clipboard.readText()")
    assert Experiment.from_toml(copied).network.devices == 12


# Light, dark, small, on paper


@pytest.fixture(params=["light", "dark"])
def scheme(request, seen):
    """The colour scheme of the system, which the page follows."""

    def prefer(wanted):
        seen.tab.emulate_media(color_scheme=wanted)
        seen.tab.wait_for_function(
            "wanted => document.documentElement.dataset.shade === wanted", arg=wanted
        )

    prefer(request.param)
    yield request.param
    prefer("light")


def test_both_themes_can_be_read(seen, scheme):
    """Text stands out from its background 4.5 times, lines and marks 3 times (WCAG AA)."""
    paper = DARK_PAGE if scheme == "dark" else LIGHT_PAGE
    style = "name => getComputedStyle(document.documentElement).getPropertyValue(name)"
    colour = {
        name: seen.tab.evaluate(style, f"--{name}").strip()
        for name in ("paper", "panel", "ink", "soft", "accent", "warn", "warn-panel")
    }
    assert colour["paper"] == paper
    for name in ("ink", "soft", "accent"):
        for behind in ("paper", "panel"):
            assert contrast(colour[name], colour[behind]) >= 4.5, (name, behind)
    assert contrast(colour["warn"], colour["warn-panel"]) >= 4.5
    lines = {trace["colour"] for trace in seen.traces("curves") if trace["name"]}
    assert len(lines) == 3
    assert all(contrast(line, paper) >= 3 for line in lines)


def test_the_theme_can_be_chosen_and_paper_is_white(shown):
    """The switch redraws the plots in the other shades; printing is always light."""
    light = shown.traces("curves")
    shown.tab.get_by_label("Theme").select_option("dark")
    assert shown.tab.evaluate("document.documentElement.dataset.shade") == "dark"
    assert shown.traces("curves")[-1]["colour"] != light[-1]["colour"]
    shown.tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.traces("curves")[-1]["colour"] == light[-1]["colour"]
    shown.tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.tab.evaluate("document.documentElement.dataset.shade") == "dark"


def test_a_phone_needs_no_scrolling_sideways(browser, file):
    """The page is as wide as the screen; wide tables scroll by themselves."""
    with opened(browser, file, phone=True) as found:
        assert found.tab.evaluate("document.documentElement.scrollWidth") <= 390


# Stores in every state


def test_an_empty_store_says_so(browser, tmp_path):
    """No runs: a page that says how to get some."""
    Store.open(tmp_path).close()
    with opened(browser, write_report(tmp_path), drawn=False) as found:
        assert "No runs are recorded" in found.text("main")
        assert found.complaints == []


def test_unfinished_runs_are_shown_as_far_as_they_are(browser, tmp_path):
    """Nothing is compared, but the curves are there."""
    for name in ("s2s", "s2a"):
        experiment = small(f"server.primitive={name}")
        columns = {"round": [0, 1, 2], "average_accuracy": [10.0, 20.0, 30.0]}
        record(tmp_path, experiment, "running", **columns)
    with opened(browser, write_report(tmp_path)) as found:
        assert "No run is finished yet (2 running)" in found.text("main")
        assert found.tab.locator("#winners").count() == 0
        assert [trace["name"] for trace in found.traces("curves")] == [
            "s2s (unfinished)",
            "s2a (unfinished)",
        ]
        assert found.complaints == []


def test_failures_are_counted_and_explained(tmp_path):
    """Of five runs two failed and one diverged: said at the top, with the reasons below."""
    finished = {"round": [0, 7], "average_accuracy": [10.0, 80.0]}
    record(tmp_path, small("server.primitive=s2s"), **finished)
    record(tmp_path, small("server.primitive=s2a"), **finished)
    record(tmp_path, small("seed=1"), "diverged", "no longer finite after round 3")
    record(tmp_path, small("seed=2"), "failed", "the disk is full")
    record(tmp_path, small("seed=3"), "failed", "the disk is full")
    data = read_report_data(tmp_path)
    (warning, *_) = runs_section(data).blocks
    assert warning["tone"] == "warning"
    assert warning["words"].startswith("Of 5 runs, 1 diverged, 2 failed.")
    assert json.dumps(provenance_section(data).blocks).count("the disk is full") == 2


def test_one_run_of_one_round_is_enough(browser, tmp_path):
    """The smallest study has a page too."""
    skerry.run(small("rounds=1", "server.primitive=none"), out=tmp_path)
    with opened(browser, write_report(tmp_path)) as found:
        assert found.complaints == []
        assert "Only none was run" in found.text("#winners")


def test_the_first_measure_is_one_that_finished_runs_have(tmp_path):
    """As in `skerry results`, which does not look at the others."""
    done, begun = small("server.primitive=s2s"), small("server.primitive=s2a")
    record(tmp_path, done, round=[0, 7], average_loss=[2.0, 1.0])
    record(tmp_path, begun, "running", round=[0, 1], average_accuracy=[10.0, 20.0])
    study = read_report_data(tmp_path)
    assert study.measures == ["average_accuracy", "average_loss"]
    assert study.headline == results(tmp_path).cells.measure == "average_loss"


def test_studies_that_look_alike_stay_apart(tmp_path):
    """Runs on two data sets given from Python, or from two models with the same code, are not
    seeds of one cell and no error."""
    columns = {"round": [0, 7], "average_accuracy": [10.0, 80.0]}
    for material, axis in (("dataset", "data.dataset.source"), ("model", "study")):
        for content in ("first", "second"):
            record(tmp_path / material, small(), materials={material: content}, **columns)
        study = read_report_data(tmp_path / material)
        assert study.grid.axes == (axis,)
        assert len(study.grid.cells) == 2
        assert "data" in page_html(study)


def test_what_a_page_may_not_run_is_told(tmp_path):
    """A graph and data of the user's own are not looked for; the page says what is missing."""
    told = small()
    network = told.network.model_copy(update={"topology": "not_here:graph"})
    data = told.data.model_copy(update={"dataset": "not_here:data"})
    columns = {"round": [0, 7], "average_accuracy": [10.0, 80.0]}
    record(tmp_path, told.model_copy(update={"network": network, "data": data}), **columns)
    found = read_report_data(tmp_path)
    for section, name in ((network_section, "graph"), (labels_section, "data")):
        (note,) = section(found).blocks
        assert f"not_here:{name} is your own code" in note["words"]


# Size


@given(st.integers(1, 400), st.integers(1, 30), st.integers(0, 20), st.integers(12, 100))
def test_thinned_rounds_keep_what_the_server_does(rounds, period, offset, most):
    """The ends stay, and a fair share are server rounds, each with the round before it."""
    server = Server(period=period, offset=offset)
    recorded = np.arange(rounds + 1)
    mask = rounds_to_show(recorded, server, most)
    shown = set(recorded[mask].tolist())
    assert min(most, rounds + 1) / 2 <= len(shown) <= most
    assert {0, rounds} <= shown
    met = [t + 1 for t in server.server_rounds(rounds)]
    assert sum({one - 1, one} <= shown for one in met) >= min(len(met), most // 4)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=5))
def test_levels_lose_next_to_nothing(series):
    """Every value comes back to one part in 65,535 of its series' span."""
    lengths = np.array([len(one) for one in series])
    pack_arrays = packing.quantize_means(np.concatenate(series), lengths)
    for number, (one, end) in enumerate(zip(series, np.cumsum(lengths), strict=True)):
        low, high = pack_arrays["low"][number], pack_arrays["high"][number]
        codes = pack_arrays["mean"][end - len(one) : end]
        restored = low + codes * (high - low) / packing.FINE
        assert np.allclose(restored, one, rtol=0, atol=(high - low) / packing.FINE + 1e-9)


def test_a_thinned_page_says_so(single, monkeypatch):
    """A store that is too large for a page is thinned, and the page tells."""
    monkeypatch.setattr("skerry.report.page.report_data.MOST_VALUES", 1)
    monkeypatch.setattr("skerry.report.page.report_data.FEWEST_ROUNDS", 4)
    study = read_report_data(single)
    assert re.search(r"[2-4] of 8 rounds are drawn", page_html(study))


# Making it


def test_a_section_is_a_function_and_a_line(browser, single, tmp_path, monkeypatch):
    """What stands in the list is in the page."""

    def advice(study):
        return PageSection("advice", "Advice", [text(f"LabelStyle at {len(study.runs)} runs.")])

    monkeypatch.setattr("skerry.report.page.build.SECTIONS", (*SECTIONS, advice))
    with opened(browser, write_report(single, tmp_path / "page.html")) as found:
        assert found.text("#advice") == "Advice LabelStyle at 4 runs."


def test_the_command_writes_the_page(single, tmp_path):
    """Into the folder, or where it is told; and says so."""
    app = typer.Typer()
    app.command("report")(report_command)
    done = CliRunner().invoke(app, [str(single)])
    assert done.exit_code == 0
    assert re.fullmatch(rf"Wrote {single}/report.html \(\d\.\d MB\)\.\n", done.output)
    elsewhere = tmp_path / "elsewhere.html"
    CliRunner().invoke(app, [str(single), "--out", str(elsewhere)])
    assert elsewhere.read_text().startswith("<!doctype html>")


def test_what_cannot_be_written_is_one_line(single, tmp_path):
    """No folder, no store: an error that names the fix, and no half page."""
    with pytest.raises(RecordsError, match="no store at"):
        write_report(tmp_path)
    with pytest.raises(RecordsError, match=r"cannot write .*Choose a folder that exists"):
        write_report(single, tmp_path / "missing" / "page.html")
    assert list(tmp_path.iterdir()) == []
