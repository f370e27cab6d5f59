"""Figures in the pages are those that were kept."""

import subprocess
import sys
from pathlib import Path

RENDER = Path(__file__).parents[2] / "benchmarks" / "render.py"


def test_pages_show_the_kept_figures():
    """After a measurement: python benchmarks/render.py"""
    done = subprocess.run([sys.executable, RENDER, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"stale: {done.stdout}{done.stderr}"
