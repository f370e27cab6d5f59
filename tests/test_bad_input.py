"""Broken input is told in one line that helps: exit code 2, no traceback, nothing written."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bad_inputs import ROWS
from bad_inputs.rows import SMALL, Content, Row, settings
from command_line import Outcome, skerry, skerry_process
from skerry.config.experiment import Experiment
from skerry.errors import SkerryWarning


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # beside a user's own module


def lay_out(files: dict[str, Content]) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        elif isinstance(content, dict):
            np.savez(path, **content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def everything_here() -> dict[str, bytes | None]:
    found = Path().rglob("*")
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def assert_told(row: Row, outcome: Outcome) -> None:
    lines = outcome.err.splitlines()
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert all(line.startswith("error: ") for line in lines)
    assert len(lines) == len(row.told), outcome.err
    for line, told in zip(lines, row.told, strict=True):
        assert told in line


def out_of(row: Row) -> tuple[str, ...]:
    has_none = row.arguments[0] == "run" and "--out" not in row.arguments
    return (*row.arguments, "--out", "out") if has_none else row.arguments


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_broken_input_is_told_and_leaves_no_traces(row):
    """Exit code 2, the expected lines, silence on stdout, and the same files as before."""
    lay_out(row.files)
    before = everything_here()
    assert_told(row, skerry(*out_of(row)))
    assert everything_here() == before


REAL = ["not toml", "faults of all sorts", "every comparison wrong", "half a link", "Branches"]


@pytest.mark.parametrize(
    "row", [r for r in ROWS if any(r.id.endswith(name) for name in REAL)], ids=lambda row: row.id
)
def test_the_installed_command_tells_the_same(row):
    """What holds inside this process holds for the script that users start."""
    lay_out(row.files)
    before = everything_here()
    assert_told(row, skerry_process(*out_of(row)))
    assert everything_here() == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "--seeds", "0"], "--seeds"),
        (["run", "--seeds", "many"], "--seeds"),
        (["run", "--nope"], "No such option"),
        (
            ["run", "--lr", "1"],
            "No such option: --lr (Possible options: --set training.stepsize=...)",
        ),
        (["run", "--batch", "1"], "(Possible options: --set training.batch=...)"),
        (["run", "--output", "a"], "No such option: --output (Possible options: --out)"),
        (["run", "a.toml", "b.toml"], "unexpected extra argument"),
        (["data", "fetch"], "Missing argument"),
        (["runn"], "No such command 'runn'"),
    ],
    ids=" ".join,
)
def test_the_parser_refuses_what_it_cannot_parse(arguments, told):
    """Usage errors are the parser's own: exit code 2, with the usage and what is wrong."""
    outcome = skerry(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: skerry" in outcome.err
    assert told in outcome.err
    assert everything_here() == {}


def test_a_damaged_checkpoint_is_told():
    """In one line; its runs are computed again, and end as if nothing had been."""
    experiment = Experiment.parse({}, SMALL)
    damaged = Path("out/checkpoints") / f"{experiment.world_key()}-00000000.safetensors"
    lay_out({str(damaged): b"garbage"})
    with pytest.warns(SkerryWarning, match=f"^the checkpoint {damaged} is damaged"):
        outcome = skerry("run", *settings(*SMALL), "--seeds", 1, "--out", "out")
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("content", ["", "\ufeffrounds = 2\n", "# only a comment"])
def test_an_experiment_file_may_leave_everything_out(content):
    """What a file does not say is as in the default experiment; a byte order mark is no fault."""
    Path("mine.toml").write_text(content, encoding="utf-8")
    outcome = skerry("run", "mine.toml", *settings(*SMALL), "--out", "out", "--json")
    assert outcome.code == 0, outcome.err


def test_pictures_that_cannot_be_drawn_do_not_hide_the_results():
    """The table is printed and the records are safe; the line says how to see them again."""
    arguments = ("run", *settings(*SMALL), "--seeds", 1)
    skerry(*arguments, "--out", "before")
    (curves,) = Path("before").glob("curves-*.png")
    lay_out({f"out/{curves.name}/x": ""})
    outcome = skerry(*arguments, "--out", "out")
    assert outcome.code == 2
    assert "s2a" in outcome.out
    assert outcome.err.splitlines()[-1] == (
        "error: cannot write the pictures to out (Is a directory). The results are recorded: "
        "skerry show out"
    )
    assert skerry("show", "out").code == 0
