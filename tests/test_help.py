"""What `--help` shows, as it is rendered: every word of it, and nothing else."""

import re
import subprocess
import sys
import tomllib

import pytest
import typer
from typer.testing import CliRunner

from command_line import environment, skerry
from skerry.cli.commands.new import describe_example, examples
from skerry.cli.main import app
from skerry.config.experiment import Experiment
from skerry.runs.sweep import Sweep

WIDE = 500  # letters in a line: no help is folded


def commands():
    """Every command with its words, groups included."""

    def below(command, words):
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from below(inner, (*words, name))

    return dict(below(typer.main.get_command(app), ()))


COMMANDS = commands()


@pytest.fixture(params=COMMANDS, ids=lambda words: " ".join(words) or "skerry")
def rendered(request):
    """The command, and its help without boxes and runs of spaces."""
    shown = CliRunner().invoke(app, [*request.param, "--help"], env={"COLUMNS": str(WIDE)})
    assert shown.exit_code == 0
    return COMMANDS[request.param], " ".join(re.sub("[│╭╮╰╯─]", " ", shown.output).split())


def test_every_help_is_rendered_word_by_word(rendered):
    """Markup that eats a word leaves a hole: `with  and .` was `with [sweep] and [sweep.axes].`"""
    command, shown = rendered
    told = [command.help, *(getattr(one, "help", None) for one in command.params)]
    for text in filter(None, told):
        for paragraph in text.split("\n\n"):
            assert " ".join(paragraph.split()) in shown


def test_no_help_holds_markup_or_emoji(rendered):
    """`A:B:STEP` became an emoji; `[bold]` would be markup, `\\[` half of it."""
    command, shown = rendered
    assert all(ord(sign) < 0x2190 or sign in "…" for sign in shown), shown
    assert not re.search(r"\[/?(?:bold|dim|red|green|italic|link)\b|\\\[", shown)
    assert not re.search(r"\b(?:with|and|or|a|the|of|to|as) +[.,;:](?: |$)", shown)
    for text in [command.help, *(getattr(one, "help", None) for one in command.params)]:
        assert not re.search(r":[A-Za-z_]+:", text or ""), "a shortcode of an emoji"


# Examples


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_example_is_listed_in_a_line():
    outcome = skerry("new", "--list")
    lines = outcome.out.splitlines()
    for name, file in examples().items():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert len(line) <= 100
        first = describe_example(file.read_text(encoding="utf-8")).split()[:3]
        assert " ".join(first) in line


@pytest.mark.parametrize("name", examples())
def test_an_example_can_be_copied_and_read(name):
    """With the files that it names; where they lie is where it looks for them."""
    outcome = skerry("new", name, "--out", "mine")
    assert outcome.code == 0
    with open(f"mine/{name}.toml", "rb") as file:
        table = tomllib.load(file)
    command = "sweep" if "sweep" in table else "run"
    assert outcome.out.endswith(f"Run it: skerry {command} mine/{name}.toml\n")
    (Sweep if command == "sweep" else Experiment).load(f"mine/{name}.toml")


def test_nothing_is_overwritten():
    skerry("new", "three_islands")
    with open("three_islands.toml", "a", encoding="utf-8") as file:
        file.write("# mine\n")
    again = skerry("new", "three_islands")
    assert again.code == 2
    assert "three_islands.toml and three_islands.edgelist would be overwritten" in again.err
    with open("three_islands.toml", encoding="utf-8") as file:
        assert file.read().endswith("# mine\n")


def test_an_unknown_example_is_told_with_the_nearest():
    outcome = skerry("new", "three_island")
    assert outcome.code == 2
    assert "did you mean 'three_islands'?" in outcome.err


# A shell


def test_a_shell_completes_commands_and_options():
    def completed(words):
        asked = {"_SKERRY_COMPLETE": "complete_bash", "COMP_WORDS": words}
        asked["COMP_CWORD"] = str(len(words.split()) - 1)
        found = subprocess.run(
            [sys.executable, "-m", "skerry"],
            env={**environment(), **asked},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return found.stdout.split()

    assert completed("skerry re") == ["results", "report", "reproduce"]
    assert "--compare" in completed("skerry run --com")
