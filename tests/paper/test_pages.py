"""The pages of the reproduction: complete, linked, and told where they come from."""

import re
import runpy
from pathlib import Path

import pytest

from skerry_paper.pages import PAGES, page_texts, provenance, write_pages
from skerry_paper.study import StudyData, load_studies
from skerry_paper.targets import TARGETS
from skerry_paper.views import view_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, studies: dict[str, StudyData]) -> Path:
    path = tmp_path_factory.mktemp("pages")
    few = {name: studies[name] for name in ("mnist", "cifar10-long")}
    write_pages(path, few, "skerry reproduce all --profile full")
    return path


def test_every_target_has_a_place() -> None:
    """Each table, figure and study is on exactly one page."""
    assert sorted(name for page in PAGES for name in page.targets) == sorted(TARGETS)


def test_links_lead_somewhere(folder: Path) -> None:
    """Every picture and anchor that a page names is there; data files are kept by others."""
    for page in folder.glob("*.md"):
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            file, _, anchor = link.partition("#")
            if not file.startswith("data"):
                assert (folder / file).is_file(), link
            if anchor:
                assert f'<a id="{anchor}">' in (folder / file).read_text(encoding="utf-8"), link


def test_no_picture_is_left_over(folder: Path) -> None:
    """Every picture written is shown on a page."""
    text = "".join(page.read_text(encoding="utf-8") for page in folder.glob("*.md"))
    assert all(f"pictures/{path.name})" in text for path in (folder / "pictures").iterdir())


def test_the_summary_has_a_verdict_on_everything(folder: Path) -> None:
    """A row per target; those that were not run say so."""
    rows = re.findall(
        r"^\| \[.*$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) == len(TARGETS)
    shown = {"guidelines"}  # it judges the grids of others, too
    assert sum("Not run here." in row for row in rows) == len(
        [
            one
            for one in TARGETS.values()
            if one.studies and not {"mnist", "cifar10-long"} & {*one.studies}
            if one.name not in shown
        ]
    )


def test_pages_are_small(folder: Path) -> None:
    """Pictures fit a repository."""
    assert sum(path.stat().st_size for path in folder.rglob("*.png")) < 3_000_000


def test_pages_say_where_they_come_from(folder: Path) -> None:
    """Command, profile, seeds, device and versions of each study that a page shows."""
    text = (folder / "tables.md").read_text(encoding="utf-8")
    assert "quick profile, 2,880 runs, 3 seeds, cpu, skerry 0.1.0 and torch 2.13.0" in text


def test_provenance_without_a_past(studies: dict[str, StudyData]) -> None:
    """A study that does not know where it comes from says what it holds."""
    bare = StudyData("mnist", {}, studies["mnist"].runs, studies["mnist"].curves)
    assert provenance(bare) == "2,880 runs, 3 seeds"


def test_a_quick_study_says_what_it_leaves_out(folder: Path) -> None:
    """Nobody takes two seeds and one stepsize for the whole study."""
    assert "Quick runs two seeds instead of five" in (folder / "tables.md").read_text("utf-8")


def test_diverged_runs_are_counted(studies: dict[str, StudyData]) -> None:
    """Runs without a result are part of the provenance."""
    about = {"runs": {"finished": 1900, "diverged": 20}}
    told = provenance(StudyData("mnist", about, studies["mnist"].runs, studies["mnist"].curves))
    assert told == "1,900 runs and 20 diverged, 3 seeds"


def test_pages_without_any_study(tmp_path: Path) -> None:
    """Nothing has been run: the theory is shown, and how to get the rest."""
    write_pages(tmp_path, {})
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "No table of the paper has been run here." in text
    assert "13 of 14 statements" in text


@pytest.mark.slow
def test_past_the_paper_is_that_of_the_kept_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/past-the-paper.md and docs/tell-the-authors.md say what the kept studies say."""
    folder = ROOT / "studies" / "past_the_paper"
    monkeypatch.syspath_prepend(str(folder))
    script = runpy.run_path(str(folder / "page.py"))
    for name, made in (
        ("past-the-paper", script["text"]()),
        ("tell-the-authors", script["authors"].text()),
    ):
        page = ROOT / "docs" / f"{name}.md"
        assert page.read_text(encoding="utf-8") == made, f"{page.name} is old. Run: make docs"


@pytest.mark.slow
def test_the_kept_pages_are_those_of_the_kept_studies() -> None:
    """docs/reproduction says what its studies say, and has every picture that it shows."""
    kept = ROOT / "docs" / "reproduction"
    studies = load_studies(ROOT / "studies" / "reproduction" / "data")
    views = {name: view_of(target, studies) for name, target in TARGETS.items()}
    for name, text in page_texts(views, studies, data="../../studies/reproduction/data").items():
        assert (kept / name).read_text(encoding="utf-8") == text, f"{name} is old. Run: make docs"
    pictures = {f"{name}.png" for one in views.values() for name in one.figures}
    assert {path.name for path in (kept / "pictures").iterdir()} == pictures
