"""`skerry sweep`: what is printed, what is written, how it ends."""

import io
import json
import signal
import subprocess
import sys
import time

import pytest

from command_line import SCRIPT, environment, skerry
from conftest import small
from skerry.config.experiment import Experiment
from skerry.report.screens import progress
from skerry.report.screens.progress import show_progress
from skerry.runs.run import run
from skerry.runs.sweep import Sweep

AXES = '[sweep.axes]\n"server.primitive" = ["s2s", "s2a"]\n"server.period" = [2, 3]\n'


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def grid(tmp_path):
    """A file of eight short runs."""

    def write(*settings, axes=AXES, sweep="seeds = 2"):
        file = tmp_path / "grid.toml"
        file.write_text(f"{small(*settings).to_toml()}\n[sweep]\n{sweep}\n{axes}")
        return file

    return write


def test_a_new_experiment_with_a_sweep_appended_runs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        f'{skerry("new").out}\n[sweep]\nseeds = 2\n[sweep.axes]\n"server.period" = [5, 9]'
    )
    small_ones = ("rounds=2", "network.devices=6", "server.sampled=2")
    outcome = skerry("sweep", file, "--json", *(x for one in small_ones for x in ("--set", one)))
    assert outcome.code == 0, outcome.err
    lanes = json.loads(outcome.out)["lanes"]
    found = [(lane["experiment"]["seed"], lane["experiment"]["server"]["period"]) for lane in lanes]
    assert found == [(0, 5), (0, 9), (1, 5), (1, 9)]


def test_a_table_says_where_each_primitive_is_best_and_what_to_do_next(grid):
    outcome = skerry("sweep", grid(), "--out", "here")
    assert outcome.code == 0, outcome.err
    assert "8 runs, 8 finished" in outcome.out
    assert {"s2s", "s2a"} <= set(outcome.out.split())
    assert "skerry results here" in outcome.out
    assert "skerry show here" in outcome.out
    again = skerry("sweep", grid(), "--out", "here")
    assert "8 finished runs taken from here (--again computes them again)." in again.out


def test_json_is_that_of_a_run_without_the_histories(grid):
    """The same object, the same numbers; every round on request."""
    swept = json.loads(skerry("sweep", grid(), "--json", "--out", "swept").out)
    settings = (
        "--set",
        "sweep.seeds=1",
        "--set",
        "server.primitive=s2a",
        "--set",
        "server.period=3",
    )
    with_history = json.loads(
        skerry("sweep", grid(), *settings, "--json", "--history", "--out", "swept").out
    )
    one = grid().parent / "one.toml"
    one.write_text(small("server.primitive=s2a", "server.period=3").to_toml())
    (ran,) = json.loads(skerry("run", one, "--json", "--out", "ran").out)["lanes"]
    assert set(swept) == {"lanes"}
    assert len(swept["lanes"]) == 8
    (same,) = [lane for lane in swept["lanes"] if lane["key"] == ran["key"]]
    assert set(same) == {"key", "experiment", "status", "final"}
    assert same["final"] == pytest.approx(ran["final"], rel=1e-5)
    (lane,) = with_history["lanes"]
    assert lane["history"]["round"] == ran["history"]["round"]


def test_tuned_values_are_told(grid):
    axes = f'{AXES}"training.stepsize" = [0.001, 0.1]\n'
    file = grid(axes=axes, sweep='seeds = 3\ntune = "training.stepsize"\ntune_seeds = 1')
    found = json.loads(skerry("sweep", file, "--json").out)
    assert len(found["lanes"]) == 4 * 2 + 4 * 2
    assert len(found["tuned"]) == 4
    assert {cell["training.stepsize"] for cell in found["tuned"]} <= {0.001, 0.1}
    table = skerry("sweep", file).out
    assert "(tuned)" in table


def test_a_dry_run_tells_and_writes_nothing(grid, tmp_path):
    file = grid()
    before = set(tmp_path.iterdir())
    outcome = skerry("sweep", file, "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "4 cells x 2 seeds: 8 runs, 0 of them recorded in runs." in outcome.out
    assert "2 worlds, 2 stacks of up to 4 lanes, 1 at once." in outcome.out
    assert "GB" in outcome.out
    assert "It will take about " in outcome.out
    stopping = skerry("sweep", file, "--dry-run", "--set", "stop=average_accuracy >= 90").out
    assert "It will take at most about " in stopping
    assert set(tmp_path.iterdir()) == before


def test_a_dry_run_counts_what_is_recorded(grid):
    skerry("sweep", grid(), "--set", "sweep.seeds=1")
    found = json.loads(skerry("sweep", grid(), "--dry-run", "--json").out)
    assert (found["runs"], found["recorded"], found["worlds"], found["stacks"]) == (8, 4, 1, 1)
    skerry("sweep", grid())
    assert "Nothing is left to compute." in skerry("sweep", grid(), "--dry-run").out


def test_failed_runs_are_counted_and_the_exit_code_is_one(grid):
    axes = AXES.replace('"s2a"', '"sweep_plugins:broken"')
    outcome = skerry("sweep", grid(axes=axes))
    assert outcome.code == 1
    assert "8 runs, 4 finished, 4 failed" in outcome.out
    assert "4 of 8 runs failed: " in outcome.err
    assert "this primitive is broken" in outcome.err
    lanes = json.loads(skerry("sweep", grid(axes=axes), "--json").out)["lanes"]
    notes = [lane["note"] for lane in lanes if lane["status"] == "failed"]
    assert len(notes) == 4


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nowhere.toml"], "error: no file nowhere.toml."),
        (["grid.toml", "--set", "server.perod=5"], "error: unknown field 'server.perod'"),
        (["grid.toml", "--set", "sweep.seeds=none"], "error: sweep.seeds must be how many seeds"),
        (["grid.toml", "--executor", "clouds"], "error: unknown executor 'clouds'"),
        (["grid.toml", "--device", "tpu"], "error: unknown device 'tpu'"),
        (["grid.toml", "--out", "grid.toml/out"], "error: cannot make the folder grid.toml/out"),
        (["one.toml"], "error: one.toml has no [sweep]"),
        (["one.toml", "--over", "server.period"], "error: an axis reads field=values (got 'server"),
        (
            ["one.toml", "--over", "period=1,2"],
            "error: unknown axis 'period'; did you mean 'server",
        ),
        (["one.toml", "--over", "server.period="], "error: the grid is empty: axis"),
        (["one.toml", "--over", "seed=1,2"], "error: seeds are no axis."),
        (
            ["one.toml", "--over", "server.period=1,x"],
            "error: server.period must be a whole number",
        ),
        (
            ["one.toml", "--over", "server.period=1", "--over", "server.period=2"],
            "error: server.period is in two axes. Keep one of them.",
        ),
        (
            ["one.toml", "--over", "server.period=1", "--set", "server.period=2"],
            "error: server.period is both set and an axis. Keep one of the two.",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_line(grid, arguments, line):
    grid()
    with open("one.toml", "w") as file:
        file.write(Experiment().to_toml())
    outcome = skerry("sweep", *arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(line)
    assert outcome.err.count("\n") == 1
    assert outcome.out == ""


def test_a_run_of_a_sweep_says_what_to_do(grid):
    outcome = skerry("run", grid())
    assert outcome.code == 2
    assert outcome.err.endswith(f"Run it with: skerry sweep {grid()} --out runs\n")


def cells_of(*arguments):
    found = skerry("sweep", *arguments, "--rounds", 1, "--json")
    assert found.code == 0, found.err
    experiments = [lane["experiment"] for lane in json.loads(found.out)["lanes"]]
    servers = [experiment["server"] for experiment in experiments]
    return [(server["primitive"], server["period"], server["sampled"]) for server in servers]


def test_axes_may_be_named_on_the_command_line(grid, tmp_path):
    """As in a file: all combinations, lists of TOML, words, and rows of several fields."""
    one = tmp_path / "my one.toml"
    one.write_text(small("server.period=4").to_toml())
    periods, sampled = ("--over", "server.period=2,3"), ("--over", "server.sampled=1, 5")
    assert cells_of(one, *periods, *sampled) == [
        ("s2s", 2, 1),
        ("s2s", 2, 5),
        ("s2s", 3, 1),
        ("s2s", 3, 5),
    ]
    words = [("s2s", 4, 5), ("s2a", 4, 5)]
    assert cells_of(one, "--over", "server.primitive=s2s,s2a") == words
    assert cells_of(one, "--over", 'server.primitive=["s2s", "s2a"]') == words
    rows = "server.primitive, server.period=[['none', 4], ['s2a', 2]]"
    assert cells_of(one, "--over", rows, "--seeds", 2) == [("none", 4, 5), ("s2a", 2, 5)] * 2
    assert [period for _, period, _ in cells_of(grid(sweep=""), "--over", "server.period=5")] == [
        5,
        5,
    ]
    lists = skerry("sweep", one, "--over", "network.components=[[6, 6], [8, 4]]", "--json")
    sizes = [lane["experiment"]["network"]["components"] for lane in json.loads(lists.out)["lanes"]]
    assert sizes == [[6, 6], [8, 4]]


def test_ctrl_c_says_how_to_go_on(grid, tmp_path):
    """Exit code 130; the same command then ends the sweep."""
    command = [str(SCRIPT), "sweep", str(grid("rounds=20000"))]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    while not (tmp_path / "runs" / "checkpoints").exists() and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    told = child.communicate(timeout=600)[1]
    assert child.returncode == 130, told
    assert "Stopped. Finished runs are in runs. The same command continues." in told
    assert "Traceback" not in told


def test_a_log_gets_plain_lines(grid, monkeypatch):
    """How much is done, how fast, how long it takes yet, and the best so far."""
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    told = skerry("sweep", grid()).err.splitlines()
    assert any("4 of 8 runs" in line and "device-steps/s" in line for line in told)
    assert any("left" in line and "best so far s2" in line for line in told)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("workers", [1, 2])
def test_a_terminal_gets_bars(grid, monkeypatch, workers):
    """One for the sweep, one for each stack under way."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with show_progress("average_accuracy") as watcher:
        run(Sweep.load(grid()), out="runs", progress=watcher, workers=workers)
    told = sys.stderr.getvalue()
    assert "all" in told
    assert "8 of 8 runs" in told
    assert "best so far" in told
    assert watcher.share == 1.0
