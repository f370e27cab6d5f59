"""The study of presidential speeches, run on a few made-up presidents."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import skerry

ROOT = Path(__file__).parents[2]
STUDY, RENDER = "studies/speeches/run.py", "benchmarks/render.py"


def script(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def eight_parties(*, path):
    """Ten presidents that count, in steps of one or two; in two parties there are two of them."""
    spoken = {}
    for number in range(10):
        x = np.add.outer(np.arange(10), np.arange(6) * (number % 2 + 1)) % 5
        spoken[f"p{number}"] = (x, (x + number % 2 + 1) % 5)
    parties = {name: f"party {int(name[1:]) % 8}" for name in spoken}
    return skerry.from_devices(spoken, own_test=spoken, islands=parties)


def test_each_model_goes_beside_the_other(tmp_path, monkeypatch, capsys):
    """Into one file, and from there into the page."""
    monkeypatch.setattr("skerry.data.sources.catalog.speeches", eight_parties)
    study, render = script(STUDY), script(RENDER)
    file = tmp_path / "speeches" / "data" / "speeches.json"
    file.parent.mkdir(parents=True)
    for model in ("transformer", "gru", "gru"):
        asked = ["--model", model, "--rounds", "2", "--seeds", "2", "--stepsizes", "0.1", "1"]
        asked += ["--device", "cpu", "--out", str(tmp_path / "runs"), "--write", str(file)]
        monkeypatch.setattr(sys, "argv", ["run.py", *asked])
        study.main()
    kept = json.loads(file.read_text())
    assert list(kept) == ["transformer", "gru"]
    assert "--model gru" in kept["gru"]["about"]["command"]
    for found in kept.values():
        assert len(found["rows"]) == 6
        assert all(len(row["own_loss"]) == len(row["round"]) == 3 for row in found["rows"])
    assert kept["gru"]["rows"] != kept["transformer"]["rows"]
    monkeypatch.setattr(render, "STUDIES", tmp_path)
    told = "\n".join(render.speeches())
    assert "`transformer`, 2 rounds" in told
    assert "`gru`, 2 rounds in 2 seeds" in told
    best = min(
        row["average_perplexity"][-1][0]
        for row in kept["gru"]["rows"]
        if row["selection"] == "one_each"
    )
    assert f"{best:.2f} ±" in told.splitlines()[-2]
    assert capsys.readouterr().out.count("one_each") == 6


@pytest.mark.parametrize("model", ["mlp", ""])
def test_only_what_reads_texts(model, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--model", model])
    with pytest.raises(SystemExit):
        script(STUDY).main()
