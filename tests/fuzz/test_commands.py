"""Any options of any command: it runs, or tells in one line what is wrong, within seconds."""

import json
import os
from itertools import chain
from pathlib import Path

import pytest
import typer
from hypothesis import strategies as st

from command_line import skerry
from fuzz.harness import check, many
from fuzz.strategies import numbers, words
from skerry.cli.main import app

SMALL = ["rounds=2", "network.devices=6", "server.sampled=2", "training.batch=4"]
BASES = [
    ["run", "mine.toml", "--json"],
    ["sweep", "grid.toml", "--json"],
    ["advise", "gone.toml"],
    ["show", "kept"],
    ["results", "kept"],
    ["report", "kept"],
    ["watch", "kept", "--once"],
    ["figure", "curves", "kept"],
    ["figure", "gap", "kept"],
    ["figure", "network", "kept"],
    ["reproduce", "list"],
    ["theory", "bounds"],
    ["theory", "regimes"],
    ["theory", "mixing", "mine.toml"],
    ["theory", "constants", "mine.toml", "--rounds", "0", "--draws", "2"],
    ["data", "fetch", "gone"],
    ["store", "verify", "kept"],
    ["store", "backup", "kept", "no/such/folder/copy.sqlite"],
    ["store", "forget", "kept", "f00"],
]
LEFT_OUT = {
    *("--executor", "--ray-address", "--workers", "--ranks"),
    *("--open", "--every", "--install-completion"),
}
"""Options that start processes, a browser, or a wait."""
PATHS = ["", "x" * 400, "kept", "mine.toml", "no/such/folder", "é.png", "x.unknown", "y.pdf"]


def options_of(base: list[str]) -> list[str]:
    command = typer.main.get_command(app)
    for word in base:
        command = getattr(command, "commands", {}).get(word, command)
    found = {name for one in command.params for name in one.opts if name.startswith("--")}
    return [*sorted(found - LEFT_OUT), "--nonsense"]


def values_of(option: str) -> st.SearchStrategy[list[str]]:
    if option in ("--out", "--csv", "--parquet", "--latex", "--markdown", "--from", "--path"):
        return st.sampled_from(PATHS).map(lambda path: [option, path])
    return (numbers | words).map(str).map(lambda value: [option, value]) | st.just([option])


def lines_of(base: list[str]) -> st.SearchStrategy[list[str]]:
    one = st.sampled_from(options_of(base)).flatmap(values_of)
    return st.lists(one, min_size=1, max_size=2).map(lambda more: [*base, *chain(*more)])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with an experiment, a sweep, and records to look at."""
    folder = tmp_path_factory.mktemp("fuzz")
    before = Path.cwd()
    os.chdir(folder)
    try:
        settings = [word for one in SMALL for word in ("--set", one)]
        assert skerry("run", *settings, "--seeds", 2, "--out", "kept", "--json").code == 0
    finally:
        os.chdir(before)
    table = "rounds = 2\n[network]\ndevices = 6\n[server]\nsampled = 2\n[training]\nbatch = 4\n"
    (folder / "mine.toml").write_text(table)
    (folder / "grid.toml").write_text(f"{table}[sweep]\nseeds = 2\n")
    return folder


def any_command_line(arguments: list[str]) -> str:
    """Usage errors are the parser's own; all other lines are ours."""
    outcome = skerry(*arguments)
    told = f"{arguments}: {outcome.err}"
    assert outcome.code in (0, 2), told
    assert "Traceback" not in outcome.err, told
    if outcome.code == 2 and not outcome.err.lstrip().startswith(("Usage: ", "╭")):
        lines = outcome.err.splitlines()
        assert all(line.startswith(("error: ", "warning: ", "seed ")) for line in lines), told
    if outcome.code == 0 and "--json" in arguments and outcome.out.startswith("{"):
        json.loads(outcome.out)
    return str(outcome.code)


@many(25, 1000)
@pytest.mark.filterwarnings("ignore::skerry.errors.SkerryWarning")
def test_any_command_line_is_run_or_told(cases, counts, kept, monkeypatch):
    monkeypatch.chdir(kept)
    monkeypatch.setenv("SKERRY_CACHE", str(kept / "cache"))
    check(cases, st.sampled_from(BASES).flatmap(lines_of), any_command_line, counts)
