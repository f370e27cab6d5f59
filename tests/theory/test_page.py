import re

from docs_pages import ROOT

PAGE = ROOT / "docs" / "theory.md"


def test_named_tests_exist():
    """Every test that the page on the theory names is there to back it."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 30
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
