"""The benchmark of pricing makes records that can be priced, and tells the seconds of each part."""

import json
import runpy
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "pricing.py"
KEPT = BENCHMARK.parent / "results" / "pricing.json"


def test_a_small_grid_is_priced(tmp_path, monkeypatch, capsys):
    """Pricing compares the messages of its records with what the experiments send."""
    kept = tmp_path / "kept.json"
    monkeypatch.setattr(sys, "argv", ["pricing.py", "--runs", "200", "--keep", str(kept)])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    assert "200 runs, 20,200 rows" in capsys.readouterr().out
    assert (
        json.loads(kept.read_text())["seconds"].keys()
        == json.loads(KEPT.read_text())["seconds"].keys()
    )


def test_the_kept_figure_is_of_the_whole_grid():
    """9,600 runs under three clocks, reading included, in less than 30 seconds."""
    kept = json.loads(KEPT.read_text())
    assert kept["runs"] == 9600
    assert kept["seconds"]["reading and pricing under all clocks"] < 30
