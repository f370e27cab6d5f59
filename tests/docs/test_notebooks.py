"""The notebooks run from top to bottom, and what they show is kept in them."""

import json
import runpy

import pytest

from docs_pages import ROOT

RUNNER = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))


def kinds(outputs):
    """What is shown, without its numbers: they may differ in the last digits elsewhere."""
    return [
        (one["output_type"], sorted(one.get("data", ())), len(one.get("text", ())))
        for one in outputs
    ]


@pytest.mark.parametrize("name", RUNNER["NOTEBOOKS"])
def test_it_runs_and_shows_what_is_kept(name, tmp_path, monkeypatch):
    notebook = json.loads((ROOT / "docs" / f"{name}.ipynb").read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    kept = [kinds(cell["outputs"]) for cell in RUNNER["code_cells"](notebook)]
    assert any(kept), "run: python docs/notebooks.py"
    for cell in RUNNER["code_cells"](notebook):  # the same, with less to compute
        source = "".join(cell["source"]).replace("seeds=5", "seeds=2")
        cell["source"] = [source.replace("minutes=0.1", "minutes=0.03")]
    assert [kinds(shown) for shown in RUNNER["outputs"](notebook, name)] == kept


@pytest.mark.parametrize("name", RUNNER["NOTEBOOKS"])
def test_every_cell_is_numbered_as_run_in_order(name):
    notebook = json.loads((ROOT / "docs" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = RUNNER["code_cells"](notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
