"""Every page does what it says: its snippets run, from top to bottom, in a folder of its own."""

import io
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import command_line
import skerry
from docs_pages import PAGES, ROOT, Block, blocks, name_of
from skerry.config.experiment import Experiment, Section
from skerry.runs.sweep import Sweep

NOT_RUN = ("make", "git", "pip", "cd")
"""Commands that set a checkout up; the tests already stand in one."""

PLAIN = re.compile(r"(skerry (?!.*--executor ray)[^|&;<>$*`]*)(?:> (\S+))?", re.DOTALL)
"""Commands that need no shell, and the file that gets their output; Ray would leave its signal
handlers in this process."""

NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")
SECTIONS = {name for name, value in Experiment() if isinstance(value, Section)}
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.toml"))


class Reader:
    """Follows a page, block by block."""

    def __init__(self, page: Path, folder: Path):
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.heard: str | None = ""
        """What the last block printed; None where it was left out."""

    def follow(self, block: Block) -> None:
        if block.is_left_out:
            self.heard = None
            return
        if block.file:
            self._add_to_file(block.file, block.text)
        if block.language == "python" and not block.file:
            self.heard = self._execute(block)
        elif block.language == "console":
            self.heard = "".join(self._run(command, block) for command in block.commands())
        elif block.language == "toml" and "fragment" not in block.info:
            read(tomllib.loads(block.text))
        elif block.language == "output":
            self._compare(block)

    def _add_to_file(self, name: str, text: str) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)
        sys.modules.pop(Path(name).stem, None)  # the next use sees the longer file

    def _execute(self, block: Block) -> str:
        # Empty lines above make a traceback point into the page.
        source = "\n" * (block.line - 1) + block.text
        heard = io.StringIO()
        with redirect_stdout(heard):
            exec(compile(source, str(self.page), "exec"), self.names)
        return heard.getvalue()

    def _run(self, command: str, block: Block) -> str:
        if command.split()[0] in NOT_RUN:
            return ""
        if plain := PLAIN.fullmatch(command):  # a process of its own would import everything anew
            _, *arguments = shlex.split(plain[1].replace("\\\n", " "), comments=True)
            if arguments[0] == "run" and not {"--seeds", "--out", "--json"} & {*arguments}:
                arguments += ["--seeds", "2"]  # not five: nothing below on the page goes on from it
            outcome = command_line.skerry(*arguments)
            assert outcome.code == 0, (
                f"{name_of(self.page)}, block at line {block.line}: `{command}` ended with "
                f"{outcome.code}\n{outcome.out}{outcome.err}"
            )
            if plain[2] is None:
                return outcome.out
            (self.folder / plain[2]).write_text(outcome.out, encoding="utf-8")
            return ""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (
            f"{name_of(self.page)}, block at line {block.line}: `{command}` ended with "
            f"{done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def _compare(self, block: Block) -> None:
        assert self.heard is None or alike(block.text, self.heard), (
            f"{name_of(self.page)}, line {block.line} shows\n\n{block.text}\n"
            f"but the block above it printed\n\n{self.heard}"
        )


def read(table: dict[str, Any]) -> Section | None:
    """The experiment or the sweep in a TOML table, if it is one."""
    if "sweep" in table:
        return Sweep.parse(table)
    return Experiment.parse(table) if SECTIONS & table.keys() else None


def alike(shown: str, heard: str) -> bool:
    """The same words, and the same numbers up to the rounding of another machine."""
    left, right = (NUMBER.split(" ".join(text.split())) for text in (shown, heard))
    return len(left) == len(right) and all(map(same_piece, left, right))


def same_piece(shown: str, heard: str) -> bool:
    if shown == heard or not (NUMBER.fullmatch(shown) and NUMBER.fullmatch(heard)):
        return shown == heard
    decimals = len(shown.partition(".")[2])
    last_digits = 5 * 10.0**-decimals if decimals else 0.0
    return math.isclose(float(shown), float(heard), rel_tol=0.05, abs_tol=last_digits)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reader's working folder: the checkout's experiments are at hand, nothing is fetched."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


SLOW = ("docs/large-runs.md", "docs/recipes.md")
"""Pages that start many processes, or many runs."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if name_of(p) in SLOW else ()) for p in PAGES],
    ids=name_of,
)
def test_page(page: Path, folder: Path) -> None:
    """A reader who follows a page from top to bottom meets no error."""
    reader = Reader(page, folder)
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.parametrize("file", EXPERIMENTS, ids=name_of)
def test_experiment_file(file: Path) -> None:
    """Every example experiment can be read; those with data at hand also run."""
    found = read(tomllib.loads(file.read_text(encoding="utf-8")))
    if isinstance(found, Experiment) and found.data.dataset in ("digits", "synthetic"):
        (lane,) = skerry.run(found.with_settings("rounds=2"))
        assert lane.status == "finished"


@pytest.mark.parametrize(("package", "is_there"), [("no_such_package", False), ("numpy", True)])
def test_a_block_is_left_out_where_its_package_is_missing(
    folder: Path, package: str, is_there: bool
) -> None:
    """With the output below it, which is wrong here; where the package is there, both count."""
    page = folder / "page.md"
    page.write_text(f"```python needs {package}\nprint(1 + 1)\n```\n\n```output\n3\n```\n")
    reader = Reader(ROOT / "README.md", folder)
    with pytest.raises(AssertionError, match="printed") if is_there else nullcontext():
        for block in blocks(page):
            reader.follow(block)


def test_outputs_are_compared() -> None:
    """A shown number may differ by rounding, not more; a shown word not at all."""
    assert alike("s2s 0.982  80", "s2s   0.985 80\n")
    assert not alike("s2s 0.982", "s2s 1.982")
    assert not alike("s2s 80", "s2s 90")
    assert not alike("s2s 0.982", "s2a 0.982")
    assert not alike("s2s 0.982", "s2s 0.982 0.1")
