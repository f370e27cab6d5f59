"""The documentation as blocks to run and words to check.

A fenced block of a page is run by its language:

    python   executed, all blocks of a page in one namespace and one working folder
    console  lines after `$` run in bash, and must succeed; other lines are shown output
    toml     read as an experiment or a sweep, unless the fence says `toml fragment`
    output   compared with what the block above it printed; numbers within 5 %
    text     left alone

A block whose fence says `needs datasets` is left out, with the output below it, where that package
is not installed.

A python or toml block whose first line is a file's name alone (`# my_parts.py`) is added to that
file in the working folder instead. `<!-- setup: ... -->` is Python that readers need not see.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.is_file()
]

_FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*) *(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)``` *$"
    r"|<!-- setup:(?P<setup>.*?)-->",
    re.MULTILINE | re.DOTALL,
)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_FILE_NAME = re.compile(r"# ([\w-]+\.\w+)\n")
_NEEDS = re.compile(r"needs (\w+)")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


@dataclass(frozen=True)
class Block:
    language: str
    info: str
    text: str
    line: int
    """Where its text begins in the page."""

    @property
    def file(self) -> str | None:
        """The file that this block is part of."""
        name = _FILE_NAME.match(self.text)
        return name[1] if name and self.language in ("python", "toml") else None

    @property
    def is_left_out(self) -> bool:
        """Whether it needs a package that is not installed here."""
        needed = _NEEDS.search(self.info)
        return needed is not None and find_spec(needed[1]) is None

    def commands(self) -> Iterator[str]:
        """The commands of a console block, each with its continuations or here-document."""
        lines = iter(self.text.splitlines())
        for line in lines:
            if not line.startswith("$ "):
                continue
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command += "\n" + next(lines).removeprefix("> ")
            if heredoc := _HEREDOC.search(command):
                while command.rpartition("\n")[2] != heredoc[1]:
                    command += "\n" + next(lines)
            yield command


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [_block(match, text) for match in _FENCED.finditer(text)]


def _block(match: re.Match[str], page: str) -> Block:
    part = "text" if match["setup"] is None else "setup"
    return Block(
        language="python" if match["language"] is None else match["language"],
        info=match["info"] or "",
        text=textwrap.dedent(match[part]),
        line=page.count("\n", 0, match.start(part)) + 1,
    )


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def code_spans(page: Path) -> list[str]:
    return _CODE_SPAN.findall(prose(page))
