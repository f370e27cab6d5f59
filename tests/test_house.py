"""The size and order of the source tree: few files, few lines, and one meaning for every name."""

import ast
from collections import defaultdict

import pytest

from command_line import TESTS

SRC = TESTS.parent / "src"
FILES = {
    package: sorted((SRC / package).rglob("*.py"), key=str)
    for package in ("skerry", "skerry_paper")
}
MOST_LINES = {"skerry": 50_000, "skerry_paper": 6_900}
MOST_FILES = 296
MOST_TOP_MODULES = 8
MOST_OF_ONE_NAME = 3

SAME_MEANING = {
    "advise": "the command `skerry advise` and the function that it calls",
    "main": "entry points of two programs",
    "results": "the command `skerry results` and the function that it calls",
    "run": "the command `skerry run` and the function that it calls",
}
"""Public names that several modules may define, with the reason."""


def lines_of(package: str) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in FILES[package])


@pytest.mark.parametrize("package", FILES)
def test_the_packages_stay_small(package):
    largest = sorted(FILES[package], key=lambda file: -file.stat().st_size)[:10]
    names = ", ".join(str(file.relative_to(SRC)) for file in largest)
    assert lines_of(package) <= MOST_LINES[package], f"the largest files: {names}"


def test_there_are_few_files():
    assert len(FILES["skerry"]) <= MOST_FILES


def test_few_modules_are_at_the_top():
    top = [file.stem for file in (SRC / "skerry").glob("*.py")]
    assert len(top) <= MOST_TOP_MODULES, ", ".join(top)


def test_no_file_name_occurs_often():
    """At most a command, its screen and its room share a name."""
    places = defaultdict(list)
    for file in FILES["skerry"]:
        if file.name != "__init__.py":
            places[file.name].append(str(file.relative_to(SRC)))
    often = {name: found for name, found in places.items() if len(found) > MOST_OF_ONE_NAME}
    assert not often, "\n".join(f"{name}: {', '.join(found)}" for name, found in often.items())


def test_a_public_name_has_one_meaning():
    """No two modules define a public class or function of one name, but for those listed."""
    places = defaultdict(list)
    for file in [file for files in FILES.values() for file in files]:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef)
            if is_definition and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(SRC)))
    twice = {name: found for name, found in places.items() if len(set(found)) > 1}
    wrong = {name: found for name, found in twice.items() if name not in SAME_MEANING}
    told = "\n".join(f"{name}: {', '.join(found)}" for name, found in sorted(wrong.items()))
    assert not wrong, f"{len(wrong)} names have several definitions:\n{told}"
