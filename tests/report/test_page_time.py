"""Time on the page: curves over seconds and joules, the table and the timeline."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import skerry
from browser import opened
from conftest import small
from skerry.analysis.run_table import RunTable
from skerry.analysis.timeline import ACTIVITIES, read_timelines
from skerry.cli.main import app
from skerry.clock.settings import Clock
from skerry.errors import SkerryError, SkerryWarning
from skerry.records.store import Store, versions
from skerry.report.page.build import write_report
from skerry.report.page.clocks import name_clocks
from skerry.report.page.report_data import read_report_data
from skerry.report.page.sections.time import describe_clock, time_section

WIFI = {
    "compute": {"seconds_per_step": "50 ms", "spread": 0.5, "watts": 4.0, "idle_watts": 0.5},
    "d2d": {"latency": "5 ms", "joules_per_byte": 2e-7},
    "uplink": {"bandwidth": "1 MB/s", "latency": "60 ms", "joules_per_byte": 5e-6},
    "downlink": {"latency": "60 ms"},
}
FACTS = {"materials": {}, "world": "w", "device": "cpu", "versions": versions()}
TOML = '[compute]\nwatts = 2\n[uplink]\nlatency = "2 s"\n[downlink]\nbroadcast = "1 MB/s"\n'


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two periods, two primitives, two seeds."""
    folder = tmp_path_factory.mktemp("store")
    runs = [small(f"server.period={period}", "server.sampled=2") for period in (2, 3)]
    skerry.run(runs, compare=["s2s", "s2a"], seeds=2, out=folder)
    return folder


@pytest.fixture(scope="module")
def seen(browser, store):
    with opened(browser, write_report(store, clock=WIFI)) as found:
        yield found


@pytest.fixture
def shown(seen):
    yield seen
    seen.restore()


@pytest.fixture(scope="module")
def frame(store):
    return skerry.load(store, clock=WIFI)


def lines(page, widget):
    return {one["name"]: one for one in page.traces(widget) if one["name"]}


def of_cell(frame, label, period=2):
    return frame[(frame["primitive"] == label) & (frame["period"] == period)]


@pytest.mark.parametrize("widget", ["curves", "cost"])
@pytest.mark.parametrize("over", ["seconds", "joules"])
def test_curves_lie_at_the_mean_cost_of_each_round(shown, frame, widget, over):
    shown.choose("Horizontal axis", over, f".{widget}")
    found = lines(shown, widget)
    assert list(found) == ["s2s", "s2a"]
    for label, line in found.items():
        means = of_cell(frame, label).groupby("round")[[over, "average_accuracy"]].mean()
        assert line["x"] == pytest.approx(means[over].to_numpy(), rel=1e-3, abs=1e-3)
        assert line["y"] == pytest.approx(means["average_accuracy"].to_numpy(), abs=1e-2)
    assert over[0].upper() + ")" in shown.text(f".{widget} figcaption").replace("(s)", "(S)")
    assert shown.complaints == []


def test_curves_over_messages_are_those_of_the_cost_section(shown, frame):
    """One axis serves both: rounds at first here, messages there."""
    options = shown.tab.locator(".curves").get_by_label("Horizontal axis", exact=True)
    texts = options.evaluate("one => [...one.options].map(option => option.text)")
    assert texts == ["rounds", "messages", "bytes", "seconds", "joules"]
    assert lines(shown, "curves")["s2a"]["x"] == list(range(8))
    shown.choose("Horizontal axis", "messages", ".curves")
    for label, line in lines(shown, "curves").items():
        assert line["x"] == lines(shown, "cost")[label]["x"]
        sent = of_cell(frame, label).groupby("round")[["uplink_messages", "downlink_messages"]]
        assert line["x"] == pytest.approx(sent.mean().sum(axis="columns").to_numpy(), abs=1e-2)


def test_bands_lie_where_their_lines_do(shown):
    shown.choose("Horizontal axis", "seconds", ".curves")
    bands = [one["x"] for one in shown.traces("curves") if not one["name"]]
    drawn = [line["x"] for line in lines(shown, "curves").values()]
    assert bands
    assert all(band in drawn for band in bands)


def test_a_page_without_a_clock_has_no_time(browser, store, tmp_path):
    with opened(browser, write_report(store, tmp_path / "plain.html")) as found:
        options = found.tab.locator(".curves").get_by_label("Horizontal axis", exact=True)
        texts = options.evaluate("one => [...one.options].map(option => option.text)")
        assert texts == ["rounds", "messages", "bytes"]
        assert found.tab.locator("#time").count() == 0
        assert found.complaints == []


def test_the_table_has_time_and_energy_of_the_selected_cell(shown, frame):
    shown.choose("period", "3", "#controls")
    read = "table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    header, *rows = shown.tab.locator("#time table").first.evaluate(read)
    assert [row[0] for row in rows] == ["s2s", "s2a"]
    for label, *cells in rows:
        last = of_cell(frame, label, 3).query("round == 7")
        for title, text in zip(header[1:], cells, strict=True):
            name = {"seconds until the last": "seconds", "seconds until a": "seconds_mean",
                    "share of": "waiting", "energy of all": "joules",
                    "energy of the": "joules_max", "energy of computing": "joules_computing",
                    "energy of sending": "joules_talking"}  # fmt: skip
            (measure,) = (one for start, one in name.items() if title.startswith(start))
            written = pytest.approx(last[measure].mean(), rel=1e-2, abs=5e-3)
            assert float(text.split(" ")[0]) == written


def test_bars_are_the_segments_of_the_clock(seen, store):
    """A panel for each primitive, S2S above; every bar of an activity is a segment of a device."""
    table = RunTable.read(store)
    runs = {
        table.label_of[run.key]: run
        for run in table.runs
        if run.experiment.seed == 0 and run.experiment.server.period == 2
    }
    found = read_timelines(runs, table.histories, Clock.parse(WIFI))
    read = """() => document.querySelector(".time .plot").data.map(one =>
        [one.name, one.yaxis, Array.from(one.x), Array.from(one.base ?? []), Array.from(one.y)])"""
    drawn = {(name, panel): rest for name, panel, *rest in seen.tab.evaluate(read)}
    for label, panel in (("s2s", "y"), ("s2a", "y2")):
        lane = found.lanes[label]
        for activity in ACTIVITIES:
            expected = [
                (one.end - one.start, one.start, row)
                for row, device in enumerate(found.devices)
                for one in lane.segments[device]
                if one.activity == activity
            ]
            shown = list(zip(*drawn[activity, panel], strict=True))
            assert np.allclose(shown, expected, atol=2e-4)
        sent = [
            (one.sent[device], row)
            for one in lane.server_rounds
            for row, device in enumerate(found.devices)
            if device in one.sent
        ]
        at, _, rows = drawn["sampled", panel]
        assert np.allclose(list(zip(at, rows, strict=True)), sent, atol=2e-4)
    assert "in rounds 1 to 5" in seen.text("#time figcaption")
    assert "a step takes 0.05 s" in seen.text("#time dl").replace("50 ms", "0.05 s")
    assert seen.complaints == []


def test_several_clocks_are_told_apart(browser, store, tmp_path):
    file = tmp_path / "satellite.toml"
    file.write_text(TOML)
    page = tmp_path / "two.html"
    with opened(browser, write_report(store, page, clock=[WIFI, file])) as found:
        for name, clock in (("clock", WIFI), ("satellite", file)):
            found.choose("Horizontal axis", f"seconds, {name}", ".curves")
            frame = skerry.load(store, clock=clock)
            for label, line in lines(found, "curves").items():
                end = of_cell(frame, label).query("round == 7")["seconds"].mean()
                assert line["x"][-1] == pytest.approx(end, rel=1e-3)
        before = found.traces("time")
        found.choose("Clock", "satellite", ".time")
        assert found.traces("time") != before
        assert "satellite" in found.text("#time table")
        assert "one broadcast to all 1 MB/s" in found.text("#time")
        assert found.complaints == []


def test_the_page_stays_small(store, tmp_path):
    """A clock adds the timelines of a few cells and five measures."""
    plain = write_report(store, tmp_path / "plain.html").stat().st_size
    timed = write_report(store, tmp_path / "timed.html", clock=WIFI).stat().st_size
    assert timed - plain < 60_000


def test_hostile_names_of_clocks_are_text(browser, store, tmp_path):
    files = [tmp_path / "<img src=x onerror=alert(1)>.toml", tmp_path / "b.toml"]
    for file in files:
        file.write_text(TOML)
    with opened(browser, write_report(store, tmp_path / "a.html", clock=files)) as found:
        assert found.tab.locator("#time img").count() == 0
        assert "<img src=x" in found.text("#time table")
        assert found.complaints == []


def test_runs_that_have_only_begun_have_no_timeline(browser, tmp_path):
    """The page is written and shows what is there."""
    skerry.run(small(), out=tmp_path)
    begun = small("server.period=2")
    with Store.open(tmp_path) as store:
        store.begin({begun.key(): begun}, **FACTS)
    with opened(browser, write_report(tmp_path, clock={})) as found:
        assert "There is no timeline of these runs." in found.text("#time")
        found.choose("period", "3", "#controls")
        assert len(found.traces("time")) == 4
        assert found.complaints == []


def test_runs_that_measured_time_need_no_clock(browser, tmp_path):
    """They have the axis and the table; who waits when is not recorded."""
    experiment = small()
    columns = {"round": [0, 1, 2], "average_loss": [3.0, 2.0, 1.0], "seconds": [0.0, 1.5, 4.0]}
    with Store.open(tmp_path) as store:
        store.begin({experiment.key(): experiment}, **FACTS)
        store.append({experiment.key(): {name: np.array(one) for name, one in columns.items()}})
        store.finish(experiment.key(), "finished", wall_seconds=1.0)
    with opened(browser, write_report(tmp_path)) as found:
        found.choose("Horizontal axis", "seconds", ".curves")
        (line,) = lines(found, "curves").values()
        assert line["x"] == pytest.approx(columns["seconds"], abs=1e-3)
        assert "4.000" in found.text("#time table")
        assert "There is no timeline of these runs." in found.text("#time")
        assert found.complaints == []


def test_names_of_clocks():
    assert list(name_clocks([{}, {}, Clock()])) == ["clock", "clock 2", "clock 3"]
    assert name_clocks(None) == {}
    assert re.search("no limit, latency 0 s", describe_clock(Clock()))


def test_a_bad_clock_is_told_in_one_line(store, tmp_path):
    told = CliRunner().invoke(app, ["report", str(store), "--clock", "wifi_hom"])
    assert told.exit_code != 0
    with pytest.raises(SkerryError, match="did you mean 'wifi_home'") as error:
        write_report(store, tmp_path / "a.html", clock="wifi_hom")
    assert len(error.value.faults) == 1
    assert not (tmp_path / "a.html").exists()


def test_the_data_of_timelines_hold_each_drawing_once(store):
    """Cells that take the same time share a drawing."""
    section = time_section(read_report_data(store, clock=WIFI))
    (plot,) = (one for one in section.blocks if one["kind"] == "widget")
    drawn = plot["data"]["clocks"][0]["drawn"]
    assert [one["cells"] for one in drawn] == [[0], [1]]
    assert len(json.dumps(drawn)) < 40_000


def test_runs_without_a_price_have_no_time_but_are_on_the_page(tmp_path):
    """Neither their own seconds under another clock, nor a timeline; the others have both."""
    (tmp_path / "own.toml").write_text(TOML)
    timed = small(f"clock.file={tmp_path / 'own.toml'}", "server.deadline=0.5")
    silent = small("server.primitive=s2a", 'evaluate.measures=["average"]')
    skerry.run([small("server.primitive=blend"), timed, silent], out=tmp_path)
    with pytest.warns(SkerryWarning, match="2 of 3 runs have no price and are left out, the first"):
        data = read_report_data(tmp_path, clock=WIFI)
    priced = [run.experiment.server.primitive == "blend" for run in data.runs]
    assert np.isfinite(data.finals["seconds"]).tolist() == priced
    assert np.isfinite(data.finals["average_loss"]).all()
    section = time_section(data)
    told = json.dumps(section.blocks)
    assert "2 runs of the first seed cannot be drawn. The first: run " in told
    (plot,) = (one for one in section.blocks if one["kind"] == "widget")
    assert sum(len(one["drawn"]) for one in plot["data"]["clocks"]) == 1
