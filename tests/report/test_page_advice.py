"""The page of a folder with an advice: it opens on the advice, shows its points in the measure of
its goal and at its prices, and nothing on it says otherwise."""

import csv
import json
import math
import re
import shutil

import numpy as np
import pytest

import skerry
from advised_runs import named_points, write_advice
from browser import opened
from command_line import skerry as command
from conftest import small
from skerry.clock.units import write_joules, write_seconds
from skerry.report.page.advice_file import FILE
from skerry.report.page.build import page_html, write_report
from skerry.report.page.report_data import read_report_data
from skerry.report.page.sections.fleet import labels_section, network_section
from skerry.report.page.sections.overview import advice_section, answer_sentence, start_cell
from skerry.report.text import seed_words
from skerry.theory.constants import measure_constants

FRESH = [10, 11, 12]
RANKING = {"winners", "wins", "gaps", "stepsizes"}
HOSTILE = "<img src=x onerror=\"document.title='broken in'\"></script><script>1</script>"
CASES = {
    "cheapest": {"tolerance": 1.5, "budget": 20, "downlink": 0},
    "best": {
        "measures": ("average_accuracy",), "goal_text": "global accuracy", "tolerance": 0.0,
        "recommended": "best", "downlink": 1,
    },
    "none": {
        "measures": ("average_loss",), "goal_text": "global loss", "tolerance": 100.0,
        "recommended": "none",
    },
}  # fmt: skip
"""By what is recommended, an advice for accuracy or loss, with and without a budget."""
FLEET = ("--set", "network.devices=12", "--set", "server.sampled=4", "--set", "training.batch=4")
REGRESSION = ("data.dataset=synthetic_regression", "data.samples=120", "data.features=4")
REAL = {
    "bytes and a method": (
        *FLEET, "--set", "rounds=12", "--among", "none,s2a,carry", "--budget-bytes", "5e5",
        "--sampled", "2,4", "--periods", "3,6", "--stepsizes", "0.1,0.3",
    ),
    "losses": (
        *FLEET, *(word for one in REGRESSION for word in ("--set", one)), "--set", "rounds=6",
        "--goal", "global", "--budget-uploads", "12", "--periods", "2,3", "--stepsizes", "0.05,0.1",
    ),
}  # fmt: skip
"""Words of `skerry advise`, which makes these."""


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search on two seeds, of which some settings were confirmed on fresh seeds. The last rounds
    alone were evaluated."""
    out = tmp_path_factory.mktemp("search")
    base = small("rounds=12", "evaluate.after=8")
    settings = [
        f"server.sampled={K} server.period={H}".split() for K, H in ((2, 6), (2, 3), (6, 2))
    ]
    wide = [
        base.with_settings(*one, f"training.stepsize={eta}")
        for one in settings
        for eta in (0.05, 0.2)
    ]
    skerry.run(wide, compare=["s2s", "s2a", "none"], seeds=2, out=out)
    again = [base.with_settings(*one, "training.stepsize=0.2", "seed=10") for one in settings]
    skerry.run(again, compare=["s2a", "none"], seeds=3, out=out)
    return out


@pytest.fixture(scope="module", params=[*CASES, *REAL])
def case(request, browser, search, tmp_path_factory):
    """The advice of a case, with costs in its unit, and its page."""
    folder = tmp_path_factory.mktemp("case")
    if request.param in REAL:
        done = command("advise", *REAL[request.param], "--seeds", "2", "--out", folder)
        assert done.code == 0, done.err
        told = json.loads((folder / FILE).read_text())
        if (asked := told["question"])["cost_unit"] == "MB":
            priced = [*told["curve"], *told["confirmed"], *told["points"].values()]
            for one, name in [(asked, "budget"), *((one, "cost") for one in priced)]:
                one[name] *= asked["message_bytes"] / 1e6
    else:
        shutil.copy(search / "skerry.sqlite", folder)
        told = write_advice(folder, FRESH, **CASES[request.param])
    with opened(browser, write_report(folder)) as page:
        yield told, page, read_report_data(folder)


@pytest.fixture
def folder(search, tmp_path):
    """The runs in a folder of their own."""
    shutil.copy(search / "skerry.sqlite", tmp_path)
    return tmp_path


def rows(page, title):
    """The rows of the table with a caption."""
    read = """(all, title) => [...all.find(one => one.innerText.startsWith(title)).parentElement
        .querySelectorAll("tbody tr")]
        .map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
    return page.tab.locator("#advice .caption").evaluate_all(read, title)


def drawing(page):
    """The annotations and shapes of the picture."""
    return page.tab.evaluate(
        """() => { const { annotations, shapes } = document.querySelector(".advice .plot").layout;
            return { words: annotations.map(one => one.text), shapes }; }"""
    )


def test_the_page_opens_on_the_advice(case):
    """Its headline is the answer, its section the first, and its goal the measure that is shown."""
    told, page, data = case
    assert page.text("#answer") == told["headline"] == answer_sentence(data)
    sections = page.tab.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert sections[:2] == ["advice", "run"]
    chosen = page.tab.locator("#controls").get_by_label("Measure", exact=True)
    title = chosen.evaluate("one => one.selectedOptions[0].text")
    goal, *more = told["question"]["measures"]
    names = {"average_accuracy": "average model, global test set (%)"}
    names["average_loss"] = "loss of the average model"
    assert title == (f"{told['question']['goal_text']} (%)" if more else names[goal])
    assert page.complaints == []


def test_the_picture_is_the_advice(case):
    """Confirmed points by cost with their intervals, the named ones by name, the budget, the band
    below the best, and hollow markers where nothing was confirmed."""
    told, page, _ = case
    asked, named = told["question"], named_points(told)
    searched, others, line, *points = page.traces("advice")
    assert line["y"] == pytest.approx([one["score"]["mean"] for one in told["curve"]])
    assert line["x"] == pytest.approx([one["cost"] for one in told["curve"]])
    assert line["x"][0] == 0
    drawn = sorted([*line["y"], *others["y"]])
    assert drawn == pytest.approx(sorted(one["score"]["mean"] for one in told["confirmed"]))
    bars = [one["bars"][0] for one in points]
    scale = told["points"]["best"]["score"]["mean"] / 100 if asked["lower_is_better"] else 1
    gaps = [one["behind"] or {"low": 0, "high": 0} for one in named.values()]
    assert bars == pytest.approx([(gap["high"] - gap["low"]) / 2 * scale for gap in gaps])
    assert len(searched["x"]) == len(told["searched"]) > 0
    chosen = told["points"][told["recommended"]]["label"]
    expected = [
        f"{name} (recommended)" if one["label"] == chosen else name for name, one in named.items()
    ]
    assert [one["name"] for one in points] == expected
    assert [one["y"][0] for one in points] == [one["score"]["mean"] for one in named.values()]
    shown = drawing(page)
    for name in named:
        assert any(words.startswith(name) for words in shown["words"])
    best = told["points"]["best"]["score"]["mean"]
    edge = best + asked["tolerance"] * (1 if asked["lower_is_better"] else -1)
    (band,) = [one for one in shown["shapes"] if one["type"] == "rect"]
    assert sorted((band["y0"], band["y1"])) == pytest.approx(sorted((edge, best)))
    budgets = [one["x0"] for one in shown["shapes"] if one["type"] == "line"]
    assert budgets == ([] if asked["budget"] is None else [asked["budget"]])
    assert f"level with the best, within {asked['tolerance_text']}" in page.text("#advice")
    for words in (*asked["ends"], *asked["not_tried"]):
        assert page.text("#advice").count(words) == 1


def test_the_numbers_are_those_of_the_advice(case):
    """Every confirmed point with its name, score and cost; the question, and what would change."""
    told, page, _ = case
    names = {one["label"]: name for name, one in named_points(told).items()}
    confirmed = rows(page, "Confirmed settings")
    assert [row[1] for row in confirmed] == [one["label"] for one in told["confirmed"]]
    for row, one in zip(confirmed, told["confirmed"], strict=True):
        assert row[0].removesuffix(" (recommended)") == names.get(one["label"], "")
        marked = one["label"] == told["points"][told["recommended"]]["label"]
        assert row[0].endswith("(recommended)") == marked
        assert float(row[2].split(" ± ")[0]) == pytest.approx(one["score"]["mean"], rel=1e-3)
        gap = one["behind"] and [one["behind"][name] for name in ("mean", "low", "high")]
        shown = [float(word) for word in re.findall(r"[-\d.]*\d", row[3])]
        assert shown == pytest.approx(gap or [], abs=0.005)
        assert float(row[4].replace(",", "")) == pytest.approx(one["cost"], rel=1e-3)
    assert [row[0] for row in rows(page, "How sure")] == [one["text"] for one in told["statements"]]
    effects = rows(page, "What would change")
    assert [row[0] for row in effects] == [one["condition"] for one in told["sensitivity"]]
    words = page.text("#advice")
    assert f"confirmed on {seed_words(told['pilot']['fresh_seeds'])}" in words
    assert f"at most {told['question']['tolerance_text']} behind it" in words
    assert told["question"]["goal_text"] in words
    for line in (*told["summary"][1:], *told["notes"], *told["commands"].values()):
        assert line[0].upper() + line[1:] in words or line in words


def test_nothing_else_is_declared_best(case):
    """The runs of a search are not ranked, and all plots show the named points first."""
    told, page, data = case
    sections = page.tab.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert not RANKING & set(sections)
    assert "the search of skerry advise" in page.text("#run")
    for widget in ("curves", "cost"):
        drawn = [one["name"] for one in page.traces(widget) if one["name"]]
        assert drawn == list(named_points(told))
    first = next(iter(data.named_groups.values()))
    fields = told["points"][told["recommended"]]["fields"]
    assert data.experiment(data.grid.groups[first]).training.stepsize == fields["stepsize"]
    assert start_cell(data) == data.grid.groups[first].cell
    assert "The advice follows from runs." in page.text("#theory .explorer-verdict")
    for name in ("K", "H"):
        value = fields["sampled" if name == "K" else "period"]
        if value is not None:
            box = page.tab.locator(f"#theory .explorer-slider:has(label i:text-is('{name}')) input")
            assert float(box.first.input_value()) == value


def test_costs_are_counted_at_the_prices_of_the_advice(case):
    """The last point of each line lies at the cost that the advice has for its setting."""
    told, page, _ = case
    points = named_points(told)
    for one in page.traces("cost"):
        assert one["x"][-1] == pytest.approx(points[one["name"]]["cost"], abs=1e-6)
    unit = told["question"]["cost_unit"]
    assert f"cost ({unit})" in page.text(".cost figcaption")
    header = page.text("#theory thead")
    if told["question"]["prices"]["downlink"] != 1:
        assert unit in header


def test_a_cell_of_the_search_can_be_shown(case):
    """Then lines are primitives again, and its fields can be chosen."""
    _, page, _ = case
    page.choose("Shown", "one cell of the search", "#controls")
    drawn = [one["name"] for one in page.traces("curves") if one["name"]]
    assert all(name.startswith(("s2s", "s2a", "none", "blend", "carry")) for name in drawn)
    assert page.tab.locator("#controls").get_by_label("sampled", exact=True).is_visible()
    page.restore()
    assert page.complaints == []


def test_every_heading_is_explained_and_long_tables_say_that_they_scroll(case, browser):
    """Also those of the advice. Tool bars of plots are invisible until one points at the plot."""
    _, page, data = case
    read = "all => all.filter(one => one.innerText.trim() && !one.querySelector('[title]')).length"
    assert page.tab.locator("thead th").evaluate_all(read) == 0
    bars = "all => all.map(one => getComputedStyle(one).opacity)"
    page.tab.mouse.move(0, 0)
    page.tab.wait_for_timeout(400)
    assert set(page.tab.locator(".modebar-group").evaluate_all(bars)) == {"0"}
    with opened(browser, data.folder / "report.html", phone=True, dark=True) as phone:
        assert phone.tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert "scroll" in phone.tab.locator("#advice .hint:visible").first.inner_text()


def test_seconds_and_joules_are_written_with_their_units(browser, tmp_path):
    """Costs and budgets by a clock have their units, a target that is not reached is `never`, and
    costs are not those of messages."""
    compute = {"watts": 900, "seconds_per_step": "1 ms"}
    clock = {"uplink": {"latency": "40 s"}, "compute": compute}
    few = {"sampled": [2], "periods": [3], "stepsizes": [0.1], "seeds": 2, "progress": False}
    among = "none,s2s,s2a,uniform"
    asked = {
        "soonest": {"goal": "60% soonest", "budget_seconds": "5 min"},
        "joules": {"goal": "100% with fewest joules"},
    }
    shown = {}
    for name, more in asked.items():
        folder = tmp_path / name
        skerry.advise(small(), clock=clock, among=among, out=folder, **few, **more)
        with opened(browser, write_report(folder)) as page:
            assert page.complaints == []
            shown[name] = page.text("#advice")
            title = page.tab.locator("#controls").get_by_label("Measure", exact=True)
            chosen = title.evaluate("one => one.selectedOptions[0].text")
            assert chosen == "mean of global and own accuracy (%)"
            assert "at the prices" not in page.text("#cost")
            assert page.tab.locator(".advice .plot").count() == (name == "soonest")
            told = rows(page, "Confirmed settings")
            for point, row in zip(read_report_data(folder).advice["confirmed"], told, strict=True):
                written = {"soonest": write_seconds, "joules": write_joules}[name](point["cost"])
                assert row[4] == written
                assert row[2].startswith("never (") == point["never"] == (name == "joules")
    assert "5 min" in shown["soonest"]
    assert "no server, which is soonest" in shown["soonest"]
    assert "Never reaches 100 %" in shown["joules"]


# Names


def test_names_are_kept_wherever_there_are_some(browser, tmp_path, monkeypatch):
    """Devices, islands and classes of data that name them, in texts, ticks and hover texts."""
    monkeypatch.chdir(tmp_path)
    islands = {"north <b>": ["Skagen", "Hals", "Rørvig"], "bay": ["Gedser", "Nysted"]}
    draws = np.random.default_rng(0)
    with open("harbours.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["device", "island", "wind", "tide", "label"])
        for island, names in islands.items():
            for name in names:
                for k in draws.integers(0, 2, 20):
                    table.writerow(
                        [name, island, *draws.normal(k, 1, 2), ("calm", "gale & rain")[k]]
                    )
    told = skerry.Experiment.parse(
        {}, ["rounds=4", "data.dataset=devices", "data.path=harbours.csv", "data.split=given",
             "training.batch=4", "server.sampled=2"]
    )  # fmt: skip
    skerry.run(told, compare=["s2s", "s2a"], out="runs")
    quick = told.with_settings("evaluate.measures=average")  # without the scores of devices
    skerry.run(quick, out="quick")
    for make in (network_section, labels_section):
        drawn = json.dumps(make(read_report_data("quick")).blocks, ensure_ascii=False)
        assert all(name in drawn for name in ("Skagen", "Nysted", "north <b>", "bay"))
    with opened(browser, write_report("runs")) as page:
        hover = page.traces("network")[1]["hovertext"]
        assert hover[0].startswith("device Skagen<br>island north &lt;b&gt;")
        assert hover[3].startswith("device Gedser<br>island bay")
        assert "on island" in page.text("#network .status")
        assert not any(f"island {c}" in page.text("#network .status") for c in "01")
        (heat,) = page.traces("labels")
        assert heat["hovertext"][4][1].startswith(
            "device Nysted, island bay<br>class gale &amp; rain: "
        )
        ticks = page.tab.evaluate(
            """() => { const { xaxis, yaxis } = document.querySelector(".labels .plot").layout;
                return [xaxis.ticktext, yaxis.ticktext]; }"""
        )
        assert ticks == [
            ["calm", "gale &amp; rain"],
            ["Skagen", "Hals", "Rørvig", "Gedser", "Nysted"],
        ]
        boxes = page.traces("devices")[0]
        assert set(boxes["x"]) == {"north &lt;b&gt;", "bay"}
        assert any("Rørvig, island north" in words for words in boxes["hovertext"])
        assert "1 (seed 0)" in page.text("#run")
        assert page.complaints == []


@pytest.mark.parametrize(
    ("seeds", "words"),
    [([0], "seed 0"), ([4, 3, 2, 1, 0], "seeds 0 to 4"), ([1, 0], "seeds 0, 1"),
     ([0, 1, 100, 101, 102, 7], "seeds 0, 1, 7, 100, 101, 102"), (range(0, 60, 3),
     "seeds 0, 3, 6, 9, 12, 15, 18, 21, ...")],
)  # fmt: skip
def test_one_seed_is_not_read_as_a_number_of_seeds(seeds, words):
    assert seed_words(seeds) == words


# Files


def test_without_an_advice_there_is_no_section(folder):
    assert advice_section(read_report_data(folder)) is None


def test_one_seed_has_no_interval(browser, folder):
    """A score of a single seed is shown without a spread; null is no number."""
    write_advice(folder, FRESH[:1])
    with opened(browser, write_report(folder)) as page:
        cells = [cell for row in rows(page, "Confirmed settings") for cell in row]
        assert cells
        assert not any("±" in cell or "NaN" in cell or "null" in cell for cell in cells)
        assert "confirmed on seed 10;" in page.text("#advice")
        assert page.complaints == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read as advice"),
        ("[]", "cannot be read as advice"),
        ("{}", "cannot be read as advice"),
        ('{"version": 2, "summary": 3}', "cannot be read as advice"),
        ("[" * 100_000, "cannot be read as advice"),
        ('{"summary": ["Recommendation: s2s."], "notes": []}', "by another version"),
        ('{"version": 3, "summary": ["s2s"]}', "by another version"),
    ],
)
def test_an_advice_that_cannot_be_read_is_told(folder, content, words):
    """It is said in its section, with what to do, and the others are shown."""
    (folder / FILE).write_text(content)
    page = page_html(read_report_data(folder))
    assert words in page
    assert f"or delete it: rm {folder / FILE}" in page
    assert '"name":"winners"' in page


@pytest.mark.parametrize(
    "place",
    [
        ("headline",),
        ("question", "measures"),
        ("points", "best", "score"),
        ("points", "none"),
        ("curve",),
    ],
)
def test_an_advice_without_a_field_is_told(folder, place):
    """Whatever is missing or of another type: the page says so, and is complete otherwise."""
    told = write_advice(folder, FRESH)
    inner = told
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = math.pi
    (folder / FILE).write_text(json.dumps(told))
    data = read_report_data(folder)
    assert data.advice is None
    assert "cannot be read as advice" in page_html(data)


def test_hostile_advice_is_shown_as_text(browser, folder):
    """Whatever an advice says is read, not run."""
    told = write_advice(folder, FRESH)
    text = json.dumps(told).replace(told["points"]["best"]["label"], json.dumps(HOSTILE)[1:-1])
    told = json.loads(text) | {"notes": [HOSTILE], "headline": HOSTILE}
    told["question"] |= {"goal_text": HOSTILE, "cost_unit": HOSTILE, "fixed": {HOSTILE: [HOSTILE]}}
    (folder / FILE).write_text(json.dumps(told))
    with opened(browser, write_report(folder)) as page:
        assert page.complaints == []
        assert page.text("#advice").count("onerror") >= 5
        assert page.text("#answer") == HOSTILE
        assert page.tab.title() != "broken in"
        assert page.tab.locator("main img, main script").count() == 0


def test_the_theory_begins_at_the_measured_constants(browser, folder):
    """No constant is assumed if the advice has measured them."""
    constants = json.loads(json.dumps(measure_constants(small(), rounds=(0,), draws=2).to_json()))
    write_advice(folder, FRESH, constants=constants, bounds={"epsilon": 0.01})
    with opened(browser, write_report(folder)) as page:
        assert page.tab.locator("#theory .explorer-source", has_text="assumed").count() == 0
        told = page.text("#theory")
        assert "measured by skerry advise" in told
        noise = page.tab.locator("#theory .explorer-slider:has(label i:text-is('σ²')) input").first
        assert float(noise.input_value()) == pytest.approx(
            constants["suprema"]["sigma2"]["value"], rel=1e-3
        )
