"""A thing has one word. The glossary's table of words that we do not use decides; here they are
looked for, in code, messages, pages and experiments."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs_pages import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
TEXT = (".py", ".js", ".md", ".toml", ".json")
SEARCHED = [
    path
    for top in ("src", "docs", "experiments", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    for path in ([ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*")))
    if path.suffix in TEXT
]

ALLOWED = {
    "docs/glossary.md": r"^\| `",  # the table itself
    "docs/reproduction/data/": r"",  # kept studies, as they were recorded
    # The engine's record of one server round: whom `meet` met, and what was sent.
    "src/skerry/engine/": r"[Mm]eeting",
    "src/skerry/measure/": r"[Mm]eeting",
    # Another program's own command.
    "src/skerry/runs/tracking.py": r"wandb sync",
    "docs/results.md": r"wandb sync",
}
"""Where a word may stand: the path's beginning, and what the line must have."""

TO_PASTE = ("src/skerry/paper/views/__init__.py", "src/skerry/report/page/sections/provenance.py")
"""Where whole commands are written out for a reader to paste."""


def retired() -> list[str]:
    table = GLOSSARY.read_text(encoding="utf-8").partition("## Words we do not use")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


def pattern(word: str) -> re.Pattern[str]:
    """The word alone or as part of a name (`sync_cost`, `syncCost`), one or several; its letters
    inside another word (`asynchronous`, `visited`) do not count."""
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
    """The table is found and holds words; without it the test below would look for nothing."""
    assert {"visit", "sync", "meeting"} <= set(retired())


@pytest.mark.parametrize("word", retired())
def test_no_word_that_we_do_not_use(word: str) -> None:
    """Code, messages, pages and experiments say what the glossary says."""

    places = list(found(word, SEARCHED))
    assert not places, f"say what docs/glossary.md says instead of '{word}':\n" + "\n".join(places)


OPTION = re.compile(r"(?<![\w-])--[a-z]")
OTHER_PROGRAMS = ("src/skerry/data/sources/hosts.py",)
"""Whose strings are options of npm and dpkg-deb."""


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string in the code that is no docstring, with its line; one in pieces as a whole."""
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
    """Outside the command line a message names a function's argument (`errors.argument`), which the
    command line shows as its option. A whole command (`skerry run --out DIR`) may be a hint."""
    its_own = ("src/skerry/cli/main.py", "src/skerry/commands/", *OTHER_PROGRAMS, *TO_PASTE)
    places = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text}"
        for path in SEARCHED
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src")
        if not path.relative_to(ROOT).as_posix().startswith(its_own)
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
    """A word is found in names and at the start of a sentence, not inside other words."""
    assert (pattern("sync").search(text) is not None) is is_one
