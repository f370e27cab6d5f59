"""Commands of other packages: entry points of the group `skerry.commands`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = '''
import typer

app = typer.Typer()


@app.callback()
def group() -> None:
    """Greetings of several kinds."""


@app.command()
def loud(name: str = "island") -> None:
    """Say hello, loudly."""
    typer.echo(f"HELLO {name}")


def greet(name: str = "island") -> None:
    """Say hello."""
    typer.echo(f"hello {name}")
'''


def install(folder: Path, entries: str) -> None:
    """A package with these entry points, as an installed distribution in a folder."""
    (folder / "greetings.py").write_text(COMMAND)
    info = folder / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[skerry.commands]\n{entries}")


def skerry(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "skerry", *arguments],
        env=environment,
        text=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("arguments", "output"),
    [(["greet", "--name", "you"], "hello you\n"), (["greetings", "loud"], "HELLO island\n")],
)
def test_another_package_adds_a_command(tmp_path, arguments, output):
    """A function becomes a command, a typer app a group; both are listed by --help."""
    install(tmp_path, "greet = greetings:greet\ngreetings = greetings:app\n")
    found = skerry(tmp_path, *arguments)
    assert (found.returncode, found.stdout, found.stderr) == (0, output, "")


def test_commands_of_other_packages_are_listed(tmp_path):
    """`skerry --help` shows them beside `reproduce`, which comes in the same way."""
    install(tmp_path, "greet = greetings:greet\n")
    text = skerry(tmp_path, "--help").stdout
    assert "Say hello." in text
    assert "reproduce" in text


@pytest.mark.parametrize("value", ["greetings:missing", "no_such_package:greet"])
def test_a_broken_command_is_skipped_with_one_line(tmp_path, value):
    """The fault of another package does not take `skerry` down."""
    install(tmp_path, f"broken = {value}\ngreet = greetings:greet\n")
    found = skerry(tmp_path, "greet")
    assert (found.returncode, found.stdout) == (0, "hello island\n")
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"warning: skipped the command 'broken' of {value}: ")
