"""The project uses one word for each thing. The glossary lists retired words; these tests search
for them in code, messages, pages, studies, examples and notebooks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs_pages import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
TEXT = (".py", ".js", ".css", ".html", ".md", ".toml", ".json", ".ipynb")
TOPS = (
    *("src", "docs", "studies", "experiments"),
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
)
RECORDED = re.compile(r"(docs|studies)/(.*/)?(data|results)/")
SEARCHED = [
    path
    for top in TOPS
    for path in ([ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*")))
    if path.suffix in TEXT and not RECORDED.match(path.relative_to(ROOT).as_posix())
]
"""All texts of the project, except recorded data of studies."""

ALLOWED = {
    "docs/glossary.md": r"^\| `",  # the table itself
    # Another program's own command.
    "src/skerry/runs/tracking.py": r"wandb sync",
    "docs/results.md": r"wandb sync",
}
"""Places where a word is allowed: the beginning of the path, and a pattern of the line."""

COMMANDS = (
    *("src/skerry/cli/", "src/skerry_paper/command.py"),
    *("src/skerry_paper/views/__init__.py", "src/skerry/report/page/sections/provenance.py"),
)
"""Code that declares options, or writes whole commands for a reader to copy."""


def retired() -> list[str]:
    table = GLOSSARY.read_text(encoding="utf-8").partition("## Words we do not use")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def pattern(word: str) -> re.Pattern[str]:
    """A pattern for the word alone or as part of a name (`sync_cost`, `syncCost`), also in the
    plural, and not inside another word (`asynchronous`, `visited`)."""
    first, rest = word[0], re.escape(word[1:]).replace(r"\ ", r"\s+")
    return re.compile(rf"(?<![A-Za-z])[{first}{first.upper()}]{rest}s?(?![a-z])")


def found(word: str, paths: list[Path]) -> Iterator[str]:
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        may = [line for start, line in ALLOWED.items() if name.startswith(start)]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if pattern(word).search(line) and not any(re.search(one, line) for one in may):
                yield f"{name}:{number}: {line.strip()[:100]}"


def test_the_glossary_names_them() -> None:
    """The table exists and has words; otherwise the test below would search for nothing."""
    assert {"visit", "sync", "meeting"} <= set(retired())


@pytest.mark.parametrize("word", retired())
def test_no_word_that_we_do_not_use(word: str) -> None:
    """No text of the project uses a retired word."""
    places = list(found(word, SEARCHED))
    assert not places, f"use the word of docs/glossary.md instead of '{word}':\n" + "\n".join(
        places
    )


def test_no_file_holds_both_sides_of_a_merge() -> None:
    """Conflict markers read as text in Markdown, so nothing else would notice them."""
    left = re.compile(r"^(<{7} |>{7} )", re.MULTILINE)
    files = [path for path in SEARCHED if left.search(path.read_text(encoding="utf-8"))]
    assert not files


OPTION = re.compile(r"(?<![\w-])--[a-z]")
OTHER_PROGRAMS = ("src/skerry/data/sources/hosts.py",)
"""Code with options of other programs (npm, dpkg-deb)."""


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string in the code except docstrings, with its line; f-strings are joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            ours |= {id(part) for part in node.values}
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ours
        ):
            yield node.lineno, node.value


def test_messages_name_arguments() -> None:
    """Messages outside the command line name arguments of functions (`errors.argument`), which the
    command line shows as options. Only a whole command (`skerry run --out DIR`) has options."""
    allowed = (*COMMANDS, *OTHER_PROGRAMS)
    places = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text}"
        for path in SEARCHED
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src")
        if not path.relative_to(ROOT).as_posix().startswith(allowed)
        for line, text in strings(path)
        if OPTION.search(text) and "skerry " not in text
    ]
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("a sync", True),
        ("Syncs", True),
        ("sync_cost(1)", True),
        ("syncCost", True),
        ("asynchronous", False),
        ("synchronize()", False),
    ],
)
def test_what_counts_as_the_word(text: str, is_one: bool) -> None:
    """A word is found in names and at the start of a sentence, and not inside other words."""
    assert (pattern("sync").search(text) is not None) is is_one
