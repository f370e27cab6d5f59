"""`skerry reproduce` as a user meets it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skerry.cli.main import app, main
from skerry_paper.study import StudyData
from skerry_paper.targets import TARGETS

KEPT = Path(__file__).parents[1] / "studies" / "reproduction" / "data"
SMALL = (
    "data.dataset=digits",
    "rounds=4",
    "training.batch=8",
    "evaluate.after=0",
    "evaluate.every=2",
    "evaluate.device_samples=50",
)


def reproduce(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["reproduce", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def small(*names: str, out: Path) -> str:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    return reproduce(*names, *settings, "--dataset", "mnist", "--out", str(out))


def test_the_list_names_every_target():
    told = reproduce("list")
    for name in TARGETS:
        assert name in told


def test_a_table_from_its_runs(tmp_path):
    """It says what was left out, and leaves a page, a study and the records behind."""
    told = small("table3", out=tmp_path)
    assert "Table 3: Gaps on MNIST along K/n, H = 5" in told
    assert "Quick runs two seeds instead of five" in told
    assert (tmp_path / "table3.md").read_text(encoding="utf-8").startswith("# Table 3")
    study = StudyData.load(tmp_path / "data" / "mnist.json")
    assert len(study.runs) == 192
    assert study.about["profile"] == "quick"
    assert "[network]" in study.about["experiment"]
    assert study.about["settings"] == list(SMALL)


def test_targets_share_their_runs(tmp_path):
    """Table 5 computes only what table 3 has not; the study then holds both."""
    small("table3", out=tmp_path)
    small("table5", out=tmp_path)
    study = StudyData.load(tmp_path / "data" / "mnist.json")
    assert len(study.runs) == 192 + 192 - 48
    assert set(study.runs["period"]) == {5, 10, 15, 20}


def test_kept_studies_are_shown_without_running(tmp_path):
    """Of several targets the verdicts are told, and where their pages are."""
    told = reproduce(
        "table3", "table5", "fig7", "fig14", "--from", str(KEPT), "--out", str(tmp_path)
    )
    assert "Distance in points: final round devices, own labels" in told
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".png"}
    assert not (tmp_path / "skerry.sqlite").exists()


def test_theory_needs_no_data(tmp_path):
    told = reproduce("fig6", "--out", str(tmp_path))
    assert "statements of the text hold for the bounds as stated" in told
    assert (tmp_path / "fig6.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tabel3"], "unknown target 'tabel3'; did you mean 'table3'?"),
        (["table4", "--dataset", "mnist"], "table4 has no runs on mnist"),
        (["table3", "--from", "nowhere"], "there are no studies in nowhere"),
        (["table3", "--minutes", "0"], "--minutes must be above 0 (got 0). Raise it."),
    ],
)
def test_mistakes_are_one_line(arguments, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_study_is_plain_json():
    """Anybody can read it: names, columns, values."""
    table = json.loads((KEPT / "mnist.json").read_text(encoding="utf-8"))
    assert set(table) == {"name", "about", "runs", "curves"}
    assert sum(table["about"]["runs"].values()) == 9600
