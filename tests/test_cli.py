"""The command line's good paths: what is printed, what is written, what is read back."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path

import pytest

from command_line import SCRIPT, environment, skerry
from recorded_runs import PlugPulledError, record
from skerry.cli.main import _one_line_warnings
from skerry.config.experiment import Experiment
from skerry.errors import SkerryWarning
from skerry.records.store import Store
from skerry.report.screens.progress import SweepLines
from skerry.runs import stack_run

SMALL = ["--set", "rounds=3", "--set", "network.devices=10", "--set", "server.sampled=3"]
TINY = SMALL[2:]
QUICK = [*SMALL, "--seeds", "1", "--compare", "s2s"]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def lanes_of(outcome) -> list[dict]:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["lanes"]


# skerry run


def test_run_without_a_file_shows_what_the_primitives_do():
    """A table, the verdicts, pictures that exist, and what to try next."""
    outcome = skerry("run", *SMALL)
    assert outcome.code == 0
    assert outcome.out.startswith("two islands: 10 devices on 2 rings of 5; digits")
    rows = [line.split()[0] for line in outcome.out.splitlines() if line.strip()]
    assert {"s2s", "s2a", "blend(0.5)"} <= set(rows)
    assert outcome.out.count("Best for ") == 2
    same = " ".join(SMALL)
    assert f"Try next: skerry run {same} --set data.intra=dirichlet    or your own" in outcome.out
    told = next(line for line in outcome.out.splitlines() if line.startswith("Pictures: "))
    pictures, records = told.removeprefix("Pictures: ").removesuffix(".").split(". Records: ")
    assert [Path(name).read_bytes()[:8] for name in pictures.split(", ")] == [PNG, PNG]
    assert Path(records).is_file()


def test_json_is_one_object_and_nothing_else():
    """For programs: every lane with its key, experiment, status, final values and history."""
    outcome = skerry("run", *SMALL, "--seeds", 2, "--json")
    assert outcome.out.count("\n") == 1
    found = json.loads(outcome.out)
    assert set(found) == {"lanes"}
    assert len(found["lanes"]) == 2 * 3
    for lane in found["lanes"]:
        assert set(lane) == {"key", "experiment", "status", "final", "history"}
        assert lane["status"] == "finished"
        assert lane["history"]["round"] == [0, 1, 2, 3]
        assert Experiment.parse(lane["experiment"]).key() == lane["key"]
    assert not list(Path("runs").glob("*.png"))


def test_a_file_runs_as_it_is_and_settings_come_on_top():
    """One lane, one seed, unless more are asked for."""
    Path("mine.toml").write_text('rounds = 50\n[server]\nprimitive = "s2a"\nsampled = 2\n')
    (lane,) = lanes_of(skerry("run", "mine.toml", *SMALL, "--json"))
    ours = lane["experiment"]
    assert (ours["rounds"], ours["server"]["primitive"], ours["server"]["sampled"]) == (3, "s2a", 3)


def test_compare_names_primitives_with_the_dials_position():
    lanes = lanes_of(skerry("run", *SMALL, "--compare", "s2s, blend:0.25", "--seeds", 2, "--json"))
    servers = [lane["experiment"]["server"] for lane in lanes]
    assert [(s["primitive"], s["beta"]) for s in servers] == [("s2s", 0.5), ("blend", 0.25)] * 2


def test_a_primitive_that_is_set_is_the_one_that_runs():
    """The default comparison does not override what a user asked for."""
    lanes = lanes_of(skerry("run", *SMALL, "--set", "server.primitive=none", "--json"))
    assert {lane["experiment"]["server"]["primitive"] for lane in lanes} == {"none"}


def test_a_file_that_names_no_primitive_is_compared():
    """With s2s, s2a and none, as far as its method allows; else a line says how to compare."""
    Path("my fleet.toml").write_text("[server]\nsampled = 3\n")
    found = lanes_of(skerry("run", "my fleet.toml", *SMALL, "--json"))
    assert [lane["experiment"]["server"]["primitive"] for lane in found] == ["s2s", "s2a", "none"]
    assert "Compare: " not in skerry("run", "my fleet.toml", *SMALL).out
    method = ["--set", "method.name=carry"]
    with_method = lanes_of(skerry("run", "my fleet.toml", *SMALL, *method, "--json"))
    assert {lane["experiment"]["server"]["primitive"] for lane in with_method} == {"s2s", "none"}
    named = [*SMALL, "--set", "server.primitive=blend", "--set", "server.beta=0.25"]
    out = skerry("run", "my fleet.toml", *named, "--out", "a b").out
    (told,) = [line for line in out.splitlines() if line.startswith("Compare: ")]
    assert told == (
        f"Compare: skerry run 'my fleet.toml' {' '.join(named)} --out 'a b' --compare "
        "blend:0.25,s2s,s2a,none"
    )
    words = shlex.split(told)[2:]
    assert [lane["status"] for lane in lanes_of(skerry(*words, "--json"))] == ["finished"] * 4


def test_short_forms_are_settings():
    """And count more than the settings that they are short for."""
    (lane,) = lanes_of(skerry("run", *QUICK, "--rounds", 2, "--devices", 8, "--json"))
    (same,) = lanes_of(
        skerry("run", *QUICK, "--set", "rounds=2", "--set", "network.devices=8", "--json")
    )
    assert lane["key"] == same["key"]
    assert len(lane["history"]["round"]) == 3
    refused = skerry("run", *QUICK, "--rounds", 0)
    assert refused.code == 2
    assert "--rounds" in refused.err


def test_a_dry_run_tells_time_and_memory_and_writes_nothing():
    told = skerry("run", *SMALL, "--dry-run")
    assert told.code == 0, told.err
    assert told.out.startswith("15 runs of 10 devices, up to 3 lanes at once, in one process.\n")
    assert " GB are free here.\nIt will take about " in told.out
    assert list(Path().iterdir()) == []
    skerry("run", *QUICK)
    found = json.loads(skerry("run", *SMALL, "--seeds", 1, "--dry-run", "--json").out)
    assert (found["runs"], found["recorded"], found["devices"]) == (3, 1, [10])
    assert found["seconds"] > 0
    assert skerry("run", *QUICK, "--dry-run").out.endswith("Nothing is left to compute.\n")


def test_seeds_count_on_from_the_experiments_own():
    lanes = lanes_of(skerry("run", *QUICK, "--set", "seed=7", "--seeds", 3, "--json"))
    assert [lane["experiment"]["seed"] for lane in lanes] == [7, 8, 9]


def test_a_second_run_takes_what_is_recorded_and_again_computes_anew():
    first = skerry("run", *QUICK, "--json")
    second = skerry("run", *QUICK)
    assert "1 finished run taken from runs (--again computes them again)." in second.out
    assert second.err == ""
    third = skerry("run", *QUICK, "--again")
    assert "finished run" not in third.out
    assert third.err == "1 run, 3 rounds\n"
    (before,), (after,) = lanes_of(first), lanes_of(skerry("show", "--json"))
    assert before["history"] == after["history"]


def test_out_is_where_everything_goes():
    skerry("run", *QUICK, "--out", "some/where")
    names = sorted(path.name for path in Path("some/where").iterdir())
    assert [re.sub("-[0-9a-f]{8}", "", name) for name in names] == [
        "curves.png",
        "network.png",
        "skerry.sqlite",
    ]
    assert [path.name for path in Path().iterdir()] == ["some"]


def test_a_suggestion_is_the_command_that_was_typed_without_again():
    """It keeps short forms, and suggests no comparison where one was asked for."""
    Path("my file.toml").write_text("rounds = 2\n")
    again = ["--again", "--compare", "s2s"]
    ran = skerry("run", "my file.toml", "--rounds", 2, *TINY, *again)
    expected = f"skerry run 'my file.toml' --rounds 2 {' '.join(TINY)} --compare s2s"
    assert f"Try next: {expected} --set data.intra=dirichlet\n" in ran.out
    assert "Compare: " not in ran.out


def test_a_plug_in_lies_beside_the_experiment(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("my_own.py").write_text(
        "from torch import nn\n"
        "def net(*, width): return nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(),\n"
        "                                        nn.Dropout(0.1), nn.LazyLinear(10))\n"
        "def halve(context): return 0.5**context.round\n"
        "def s2one(X, sampled, delivered): X[sampled[0]] = delivered; return 1\n"
    )
    own = ["model.name=my_own:net", "model.width=5", "training.schedule=my_own:halve"]
    settings = [word for setting in own for word in ("--set", setting)]
    lanes = lanes_of(skerry("run", *QUICK, *settings, "--compare", "my_own:s2one,s2s", "--json"))
    downlinks = [lane["final"]["downlink_messages"] for lane in lanes]
    assert downlinks == [1, 3]


def test_a_name_is_printed_as_it_is():
    """Brackets in a label are no markup."""
    outcome = skerry("run", *QUICK, "--set", "name=[/red] run [bold]")
    assert outcome.out.startswith("[/red] run [bold]: 10 devices")


# skerry new, schema, show, data


def test_new_is_the_default_experiment_complete():
    """Every field is there, and what is printed can be run."""
    outcome = skerry("new")
    assert Experiment.from_toml(outcome.out) == Experiment()
    complete = json.loads(Experiment().model_dump_json(exclude_none=True))
    assert tomllib.loads(outcome.out) == complete
    Path("mine.toml").write_text(outcome.out)
    (lane,) = lanes_of(skerry("run", "mine.toml", *SMALL, "--json"))
    assert lane["status"] == "finished"


def test_schema_is_a_json_schema_of_every_section():
    schema = json.loads(skerry("schema").out)
    assert schema["type"] == "object"
    assert set(schema["properties"]) == set(Experiment.model_fields)
    for name in ("network", "data", "model", "training", "server", "evaluate"):
        section = schema["$defs"][schema["properties"][name]["$ref"].rpartition("/")[2]]
        assert set(section["properties"]) == set(type(getattr(Experiment(), name)).model_fields)


def test_show_tells_what_is_recorded_study_by_study():
    """Runs that differ in more than the primitive and the seed are not averaged together."""
    skerry("run", *SMALL, "--seeds", 2)
    skerry("run", *QUICK, "--set", "server.period=1")
    outcome = skerry("show")
    assert outcome.code == 0
    assert outcome.out.count("two islands: 10 devices") == 2
    assert len(lanes_of(skerry("show", "runs", "--json"))) == 2 * 3 + 1


def test_show_tells_studies_with_the_same_heading_apart_and_how_far_runs_are():
    """A stop rule and an edited table are in the heading; a run that goes on is no result yet."""
    skerry("run", *QUICK)
    skerry("run", *QUICK, "--set", "stop=average_accuracy > 99")
    told = " ".join(skerry("show").out.split())
    assert "· stop unset" in told
    assert "· stop average_accuracy > 99" in told
    for label in (0, 1):
        rows = [f"d{i % 3},{i},{i % 2 ^ label * (i < 6)}" for i in range(30)]
        Path("f.csv").write_text("\n".join(["device,a,y", *rows]))
        data = ["data.dataset=devices", "data.split=given", "data.path=f.csv", "server.sampled=2"]
        words = [word for one in [*data, "rounds=1"] for word in ("--set", one)]
        assert skerry("run", *words, "--compare", "s2s", "--seeds", 1, "--out", "t").code == 0
    told = " ".join(skerry("show", "t").out.split())
    assert len(set(re.findall(r"· source [0-9a-f]{8}", told))) == 2
    experiment = Experiment.parse({}, SMALL[1::2])
    with pytest.raises(PlugPulledError):
        record(Path("half"), [experiment], stop_after=1)
    assert "1 run unfinished: at round 1 of 3." in skerry("show", "half").out


def test_show_of_a_folder_without_records_says_so():
    Path("empty").mkdir()
    outcome = skerry("show", "empty")
    assert outcome.code == 2
    assert outcome.err == (
        "error: no store at empty/skerry.sqlite. Give a folder that holds a skerry.sqlite.\n"
    )


def test_data_list_names_every_data_set(monkeypatch, tmp_path):
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "cache"))
    lines = skerry("data", "list").out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert {"digits", "synthetic", "mnist", "fashion_mnist", "cifar10", "cifar100"} < set(rows)
    assert "embedded" in rows["digits"]
    assert "to fetch" in rows["cifar10"]
    assert skerry("data", "where").out == f"{tmp_path / 'cache'}\n"
    assert not (tmp_path / "cache").exists()


# The command itself


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert skerry("--version").out == f"skerry {version('skerry')}\n"


@pytest.mark.parametrize(
    "command",
    [[], ["run"], ["new"], ["schema"], ["show"], ["data"], ["data", "list"], ["data", "fetch"]],
    ids=" ".join,
)
def test_every_command_explains_itself(command):
    long, short = skerry(*command, "--help"), skerry(*command, "-h")
    assert long.code == 0
    assert f"Usage: {' '.join(['skerry', *command])}" in long.out
    assert long.out == short.out
    assert long.err == ""


def test_an_unknown_command_is_told_with_a_guess():
    outcome = skerry("shwo")
    assert outcome.code == 2
    assert "No such command 'shwo'" in outcome.err
    assert "'show'" in outcome.err


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["new"], ["schema"]])
def test_small_questions_load_no_heavy_library(arguments):
    """Help is instant: torch, networkx and matplotlib wait until a command needs them; numpy and
    pydantic until there is an experiment."""
    heavy = {"torch", "networkx", "matplotlib", "pandas", "scipy"}
    heavy |= {"numpy", "pydantic"} if arguments == ["--help"] else set()
    code = (
        "import sys\nfrom skerry.cli.main import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["--debug", "run", "no.toml"], ["run", "no.toml", "--debug"]], ids=" ".join
)
def test_debug_shows_the_traceback(arguments):
    """Wherever the switch stands."""
    done = subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, check=False, env=environment()
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "skerry.errors.ExperimentError: no file no.toml." in done.stderr


# Interruptions

LONG = [*QUICK, "--set", "rounds=3000", "--set", "evaluate.every=1500"]


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_does():
    """Ctrl-C: exit code 130 and one line; the same command then finishes."""
    command = [str(SCRIPT), "run", *LONG]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        assert "3000 rounds" in process.stderr.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert rest.strip() == "Stopped. The same command continues from the last checkpoint."
    (lane,) = lanes_of(skerry("run", *LONG, "--json"))
    assert lane["status"] == "finished"
    rounds = lane["history"]["round"]
    assert rounds == sorted(set(rounds))
    assert (rounds[0], rounds[-1]) == (0, 3000)


@pytest.mark.parametrize("then", [[], ["--again"]], ids=["goes on", "again"])
def test_nothing_is_missing_after_an_interruption(monkeypatch, then):
    """From its checkpoint or anew, a run ends with the history of an undisturbed one."""
    undisturbed = lanes_of(skerry("run", *QUICK, "--out", "whole", "--json"))
    monkeypatch.setattr(stack_run, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(SweepLines, "moment", _stop_in_the_third_round)
        stopped = skerry("run", *QUICK)
    assert stopped.code == 130
    assert stopped.err.endswith("from the last checkpoint.\n")
    assert list(Path("runs/checkpoints").iterdir())
    resumed = skerry("run", *QUICK, *then, "--json")
    continues = "Continuing 1 run from round 2 of 3.\n"
    assert resumed.err.count(continues) == (0 if then else 1)
    finished = lanes_of(resumed)
    assert [lane["history"] for lane in finished] == [lane["history"] for lane in undisturbed]


def test_without_room_for_checkpoints_a_run_goes_on(monkeypatch):
    monkeypatch.setattr(stack_run, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("skerry.records.checkpoint.ROOM", 10**18)
    with pytest.warns(SkerryWarning, match="^cannot write the checkpoint runs/checkpoints/"):
        assert skerry("run", *QUICK).code == 0


def test_a_warning_of_ours_is_one_line():
    """As errors are; warnings of other libraries keep the place in the code."""
    with _one_line_warnings():
        told = warnings.formatwarning("the disk is full", SkerryWarning, "a.py", 3)
        others = warnings.formatwarning("outdated", UserWarning, "a.py", 3)
    assert told == "warning: the disk is full\n"
    assert others.startswith("a.py:3: UserWarning: outdated")


def _stop_in_the_third_round(self, moment) -> None:
    if moment.round == 3:
        raise KeyboardInterrupt


def test_a_precision_is_a_field_with_an_option_of_its_own(tmp_path):
    """It is recorded with the run; a wrong one is told as any wrong field."""
    few = QUICK
    assert skerry("run", *few, "--precision", "tf32", "--out", tmp_path).code == 0
    with Store.read(tmp_path) as store:
        assert [run.experiment.training.precision for run in store.runs()] == ["tf32"]
    wrong = skerry("run", *few, "--precision", "fp8", "--out", tmp_path)
    assert wrong.code == 2
    assert "training.precision" in wrong.err
