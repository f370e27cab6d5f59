"""Figures in the pages are those that were kept."""

import runpy
import sys
from pathlib import Path

RENDER = Path(__file__).parents[2] / "benchmarks" / "render.py"


def test_pages_show_the_kept_figures(capsys, monkeypatch):
    """After a measurement: python benchmarks/render.py"""
    monkeypatch.setattr(sys, "argv", [str(RENDER), "--check"])
    runpy.run_path(str(RENDER), run_name="__main__")  # it exits with 1 where a page is stale
    assert capsys.readouterr().out == "nothing to do\n"
