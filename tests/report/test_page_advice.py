"""The report of a folder that holds an advice."""

import json

import pytest

from browser import opened
from conftest import small
from skerry.advice.advise import advise
from skerry.report.page.build import page_html, write_report
from skerry.report.page.report_data import read_report_data
from skerry.report.page.sections.advice import FILE

LONG = 60  # minutes: seeds, not time, end the race


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("pilot")
    advise(small(), minutes=LONG, seeds=2, out=out)
    return out


def rows(shown, title):
    """The cells of a table of the advice, without its header."""
    read = "table => [...table.rows].slice(1).map(row => [...row.cells].map(c => c.innerText))"
    return shown.tab.locator("#advice table").nth(title).evaluate(read)


def test_the_answer_follows_what_was_run(browser, folder):
    """Its words, its standings and what would change it are those of advice.json."""
    kept = json.loads((folder / FILE).read_text())
    with opened(browser, write_report(folder)) as shown:
        order = shown.tab.locator("main > section").evaluate_all("all => all.map(one => one.id)")
        assert order[:2] == ["run", "advice"]
        told = shown.text("#advice")
        for line in kept["summary"]:
            assert " ".join(line.split()) in told
        standings, effects = rows(shown, 0), rows(shown, 1)
        assert shown.complaints == []
    assert [row[0] for row in standings[:1]] == [
        name if (beta := kept["recommendation"]["beta"]) is None else f"{name}({beta:g})"
        for name in [kept["recommendation"]["primitive"]]
    ]
    for row, found in zip(standings, kept["pilot"]["standings"], strict=True):
        assert float(row[4].split(" ± ")[0]) == pytest.approx(
            found["scores"]["global"]["mean"], abs=0.006
        )
    assert [row[0] for row in effects] == [one["condition"] for one in kept["sensitivity"]]


def test_one_seed_has_no_interval(browser, tmp_path):
    """Scores of a single seed stand without a spread, not with one that is not a number."""
    advise(small(), among="s2s,s2a", minutes=LONG, seeds=1, out=tmp_path)
    with opened(browser, write_report(tmp_path)) as shown:
        cells = [cell for row in rows(shown, 0) for cell in row]
    assert cells
    assert not any("±" in cell or "nan" in cell for cell in cells)


def test_without_an_advice_there_is_no_section(browser, folder, tmp_path):
    """A folder of runs alone has a report without it."""
    (tmp_path / "skerry.sqlite").write_bytes((folder / "skerry.sqlite").read_bytes())
    with opened(browser, write_report(tmp_path)) as shown:
        assert shown.tab.locator("#advice").count() == 0
        assert shown.tab.locator("main > section").count() > 2


UNREADABLE = "cannot be read as advice"


def test_a_broken_advice_is_told(browser, folder, tmp_path):
    """What cannot be read is said in its section, and the others are shown."""
    (tmp_path / "skerry.sqlite").write_bytes((folder / "skerry.sqlite").read_bytes())
    (tmp_path / FILE).write_text("")
    with opened(browser, write_report(tmp_path)) as shown:
        assert UNREADABLE in shown.text("#advice")
        assert shown.tab.locator("#winners").count() == 1


@pytest.fixture(scope="module")
def study(folder, tmp_path_factory):
    """Runs beside which an advice of one's own may be put."""
    path = tmp_path_factory.mktemp("broken")
    (path / "skerry.sqlite").write_bytes((folder / "skerry.sqlite").read_bytes())
    return read_report_data(path)


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"summary": []}', '{"summary": 3, "notes": null}', "[" * 100_000]
)
def test_whatever_is_no_advice_is_told(study, content):
    (study.path.parent / FILE).write_text(content)
    assert UNREADABLE in page_html(study)


def test_hostile_text_is_shown_as_text(browser, folder, tmp_path):
    """Whatever an advice says is read, not run."""
    hostile = "<img src=x onerror=\"document.title='broken in'\"></script><script>1</script>"
    kept = json.loads((folder / FILE).read_text())
    kept["summary"] = [hostile, hostile]
    kept["notes"] = [hostile]
    kept["pilot"]["standings"][0]["primitive"] = hostile
    kept["pilot"]["standings"][0]["beta"] = None
    (tmp_path / "skerry.sqlite").write_bytes((folder / "skerry.sqlite").read_bytes())
    (tmp_path / FILE).write_text(json.dumps(kept))
    with opened(browser, write_report(tmp_path)) as shown:
        assert shown.complaints == []
        assert shown.text("#advice").count(hostile) == 4
        assert shown.tab.locator("#advice img, #advice script").count() == 0
