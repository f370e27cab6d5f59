"""Every command that a screen, a page or an error prints runs as printed, in the same folder."""

import ast
import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
import typer

import skerry as skerry_package
from command_line import SCRIPT, TESTS, environment, skerry
from skerry.cli.main import app
from skerry.config.experiment import Experiment
from skerry.errors import SkerryError, SkerryWarning, as_options, skerry_command, typed
from skerry.records.store import FILE, Store
from skerry.report.text import safe_console

FOLDER = 'my fleet\'s "runs" $HOME'
MINE = "it's mine.toml"
OUT = 'o u\'t "$HOME"'
EXPERIMENT = """name = "the hill's fleet"
rounds = 2
[network]
devices = 8
[data]
dataset = "synthetic"
samples = 80
test_samples = 20
features = 4
classes = 4
[server]
sampled = 3
period = 1
primitive = "s2a"
"""
ONE = ("--set", "training.stepsize=0.25", "--set", "name=a 'b'", "--out", OUT)
ADVISE = ("--seeds", "2", "--sampled", "3", "--periods", "1", "--stepsizes", "0.1")
TREE = typer.main.get_command(app)
NAMES = "|".join(TREE.commands)
START = re.compile(rf"(?:^|: |`|then )((?:mkdir -p .* && )?skerry (?:{NAMES})\b)", re.M)
MENTION = re.compile(rf"\bskerry (?:{NAMES})\b")
PROSE = ("Usage: ", "Try 'skerry", "measured by skerry advise", "by skerry advise in this folder")
# As in a shell: bare words, '...', "$(printf '...')", and single spaces between them.
WORDS = re.compile(r"""(?:'[^']*'|"\$\(printf '[^']*'\)"|"'"|[^\s'"`]| (?! ))+""")


def printed_commands(text: str) -> list[str]:
    """The commands of a screen: each starts a line or follows a colon, and ends its line, unless
    several spaces or a backtick follow it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for prose in PROSE:
        text = text.replace(prose, "")
    found = [WORDS.match(text, start.start(1))[0].rstrip() for start in START.finditer(text)]
    assert all(any(mention in one for one in found) for mention in MENTION.findall(text)), text
    return found


def words_of(command: str) -> list[str]:
    """The words after `skerry`; fails where a shell would read other words than are meant."""
    words = shlex.split(command)
    assert shlex.join(words) == command, "not quoted as typed() does"
    return words[1:]


def paste(command: str):
    """Run a command as printed: in this process if it is plain words, else through a shell."""
    if not re.search(r"\$\(| > | && ", command):
        sys.stdin = io.StringIO("y\n")  # `skerry store forget` asks
        try:
            done = skerry(*words_of(command))
        finally:
            sys.stdin = sys.__stdin__
        assert done.code == 0, f"{command}\n{done.err}"
        return done.out
    done = in_a_shell(command)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def in_a_shell(command: str):
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    own = {**environment(), "PATH": path}
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=own, timeout=120, check=False
    )


def parses(command: str) -> dict[str, object]:
    """The options of a command that takes too long, or the network, to run it here."""
    context, words, current = None, words_of(command), TREE
    while hasattr(current, "commands"):
        name, current, words = current.resolve_command(
            typer.Context(current, info_name="skerry"), words
        )
        context = (
            current.make_context(name, list(words)) if not hasattr(current, "commands") else None
        )
    return context.params


def printed(*arguments: object, code: int = 0) -> list[str]:
    """The commands that a command prints, on stdout and stderr."""
    done = skerry(*arguments)
    assert done.code == code, done.err
    return [*printed_commands(done.out), *printed_commands(done.err)]


def recorded(folder=OUT) -> dict[str, Experiment]:
    with Store.read(folder) as store:
        return {run.key: run.experiment for run in store.runs()}


def labels(folder=OUT) -> set[tuple[str, int]]:
    return {(one.server.label, one.seed) for one in recorded(folder).values()}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """A folder and files whose names a shell would take apart."""
    folder = tmp_path / FOLDER
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "60")
    Path(MINE).write_text(EXPERIMENT)


# The helper


@pytest.mark.parametrize(
    "word",
    ["plain", "a b", "it's", '"', "$HOME", "`out`", "a\nb", "\x1b[1m", "\xa0", "é", "a\\b", "*",
     "~", "%s", "!", "#x", "a\udcffb", "-x", ";", "&&", "a:smile:b"],
)  # fmt: skip
def test_a_shell_reads_a_typed_word_as_it_was(word):
    """Also where a message changes what it shows: control characters, and `names` in backticks."""
    shown = as_options(str(SkerryError(f"got {typed(word)}"))).removeprefix("got ")
    done = subprocess.run(["sh", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert os.fsdecode(done.stdout) == word


def test_a_command_keeps_settings_and_options():
    told = skerry_command(
        "run",
        Path("-x"),
        None,
        settings=["name=a b"],
        keep_models=True,
        seeds=None,
        out=Path("o u"),
    )
    assert told == "skerry run ./-x --set 'name=a b' --keep-models --out 'o u'"


def test_a_screen_changes_no_command(capsys):
    """No emoji, no markup, and no fold at the edge of the screen."""
    told = f"Use it: {skerry_command('show', 'a:smile:b [bold]x[/bold] ' * 5)}"
    safe_console(highlight=False, soft_wrap=True, width=60).print(told, markup=False)
    assert capsys.readouterr().out == f"{told}\n"


def test_no_command_is_folded_at_the_edge_of_a_terminal(monkeypatch):
    """At 60 columns, screens print the same commands as into a file."""
    skerry("run", MINE, *ONE)
    screens = [
        ("results", OUT),
        ("watch", OUT, "--once"),
        ("theory", "constants", MINE, "--rounds", "0", "--draws", "2"),
        ("advise", MINE, *ADVISE, "--among", "s2a"),
    ]
    unfolded = [printed(*screen) for screen in screens]
    assert all(unfolded)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert skerry(*screens[1]).out.count("\x1b[1m")
    assert [printed(*screen) for screen in screens] == unfolded


def test_source_text_has_no_command_of_its_own():
    """Messages get commands from `skerry_command`, so that none can be without quotes."""
    allowed = ("skerry show lists keys.", "for skerry export.", "from `skerry data list`.", *PROSE)
    wrong = []
    for file in (TESTS.parent / "src").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        wrong += [
            f"{file.name}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and MENTION.search(node.value)
            and not any(words in node.value for words in allowed)
        ]
    assert not wrong, "\n".join(wrong)


# Runs


def test_what_run_suggests_is_the_same_command_on_uneven_data():
    """File, settings, seeds and folder are kept, also where other primitives are suggested."""
    compare, uneven = printed("run", MINE, "--seeds", "2", *ONE)
    before = recorded()
    paste(uneven)
    added = [one for key, one in recorded().items() if key not in before]
    assert {one.with_settings("data.intra=dirichlet").key() for one in before.values()} == {
        one.key() for one in added
    }
    paste(compare)
    assert recorded().keys() > before.keys()
    assert labels() == {(label, seed) for label in ("s2a", "s2s", "none") for seed in range(2)}


def test_a_first_run_suggests_a_file_of_ones_own():
    """Only while there is none: a file of the user's is not replaced."""
    words = ["--rounds", "1", "--set", "network.devices=8", "--set", "server.sampled=3"]
    first, own = printed("run", *words, "--seeds", "1")
    assert own == "skerry new > mine.toml && skerry run mine.toml"
    Path("mine.toml").write_text(EXPERIMENT)
    assert printed("run", *words, "--seeds", "1") == [first]


def test_results_tell_how_to_run_more_of_the_same():
    """The recorded run is one of the seeds, and one of the primitives."""
    skerry("run", MINE, *ONE)
    (more,) = printed("results", OUT)
    assert "1 finished run taken from" in paste(more)
    assert labels() == {(label, seed) for label in ("s2a", "s2s") for seed in range(5)}
    assert {one.name for one in recorded().values()} == {"a 'b'"}


@pytest.mark.parametrize("here", [".", "a b"])
def test_more_of_the_same_finds_the_files_of_an_experiment(here):
    """Also if its file and the graph beside it lie in another folder."""
    Path(here).mkdir(exist_ok=True)
    Path(here, "graph.edgelist").write_text("\n".join(f"{i} {(i + 1) % 8}" for i in range(8)))
    own = EXPERIMENT.replace("devices = 8", 'topology = "graph.edgelist"')
    Path(here, MINE).write_text(own)
    skerry("run", Path(here, MINE), *ONE)
    (more,) = printed("results", OUT)
    assert ("network.topology=graph.edgelist" in words_of(more)) == (here == ".")
    assert "1 finished run taken from" in paste(more)


def test_results_of_many_fields_name_no_command():
    """A grid is no single run; what came from Python cannot be typed."""
    for period in (1, 2):
        skerry("run", MINE, *ONE, "--set", f"server.period={period}")
    assert printed("results", OUT) == []
    given = nx.cycle_graph(8)
    skerry_package.run(Experiment.load(MINE), graph=given, out="given", device="cpu")
    assert printed("results", "given") == []
    assert "Run more: the same command with --seeds and --compare" in skerry("results", "given").out


@pytest.mark.parametrize("compare", ["s2s,blend:0.3", "tt_hf", "tt_hf,gossip_pga", "none"])
def test_the_page_tells_how_to_run_it_again(compare):
    """Saved under the names that the page gives, the same runs are computed."""
    skerry("run", MINE, *ONE, "--compare", compare, "--seeds", "2")
    skerry("report", OUT)
    page = Path(OUT, "report.html").read_text(encoding="utf-8")
    content = json.loads(re.search(r'<script[^>]*"application/json"[^>]*>(.*?)</script>', page)[1])
    blocks = [one for section in content["sections"] for one in section["blocks"]]
    files, commands = [], []
    for one in blocks:
        if one["kind"] == "code" and one["content"].startswith("skerry"):
            commands.append(one["content"])
        elif one["kind"] == "code":
            Path(files.pop()).write_text(one["content"])
        elif saved := re.search(r"Save this as (\S+):", one.get("words", "")):
            files.append(saved[1])
    for command in commands:
        assert printed_commands(command) == [command]
        paste(command)
    assert recorded("again").keys() == recorded().keys()
    texts = [value for one in blocks for value in one.values() if isinstance(value, str)]
    others = [c for text in texts for c in printed_commands(text) if c not in commands]
    (advise,) = [command for command in others if " advise " in command]
    asked = parses(advise)
    assert asked["out"] == Path(OUT)
    assert Experiment.parse({}, asked["settings"]).key() in recorded()
    for command in others:
        if command != advise:
            paste(command)


def test_models_that_are_exported_can_be_started_from():
    skerry("run", MINE, *ONE, "--keep-models")
    before = recorded()
    (start,) = printed("export", OUT, "--all", "-o", "a 'l l'")
    paste(start)
    (added,) = [one for key, one in recorded().items() if key not in before]
    assert added.model.weights == "a 'l l'"
    assert added.with_settings("model.weights=").key() in before


def test_a_sweep_leads_to_its_results():
    Path(MINE).write_text(
        f"{EXPERIMENT}[sweep]\nseeds = 2\n[sweep.axes]\n'server.period' = [1, 2]\n"
    )
    commands = printed("sweep", MINE, "--out", OUT)
    assert len(commands) == 2
    commands += printed("watch", OUT)  # in a pipe it looks once; it must not fold the command
    assert len(commands) == 3
    for command in commands:
        paste(command)
    (again,) = printed("run", MINE, *ONE, code=2)
    assert OUT in words_of(again)
    paste(again)
    assert {one.training.stepsize for one in recorded().values()} >= {0.25}


def test_an_experiment_that_is_no_sweep_keeps_settings_and_folder():
    (command,) = printed("sweep", MINE, *ONE, "--seeds", "2", code=2)
    paste(command)
    assert {(one.training.stepsize, one.seed) for one in recorded().values()} == {
        (0.25, 0),
        (0.25, 1),
    }


@pytest.mark.parametrize("place", ["no file.toml", "no 'folder/no file.toml"])
def test_a_missing_file_can_be_made(place):
    (command,) = printed("run", place, code=2)
    paste(command)
    assert Experiment.load(place) == Experiment()


# Records


@pytest.mark.parametrize("form", ["results", "show", "watch", "figure", "report", "store"])
def test_an_empty_folder_can_be_filled(form):
    with Store.open(OUT):
        pass
    arguments = {"figure": ["curves", OUT], "store": ["verify", OUT]}.get(form, [OUT])
    done = skerry(form, *arguments)
    for command in printed_commands(done.out) + printed_commands(done.err):
        assert parses(command)["out"] == Path(OUT)


@pytest.mark.parametrize("named", [OUT, f"{OUT}/{FILE}"])
def test_damage_is_repaired_by_the_printed_command(named):
    """The folder is named also where the user names its file."""
    skerry("run", MINE, *ONE, "--seeds", "2")
    with sqlite3.connect(Path(OUT, FILE)) as db:
        db.execute("UPDATE parts SET matrix = zeroblob(16) WHERE run = 1")
    db.close()
    (repair,) = printed("store", "verify", named, code=1)
    with pytest.warns(SkerryWarning) as told:
        skerry("results", named)
    assert printed_commands(str(told[0].message)) == [repair]
    paste(repair)
    assert len(recorded()) == 1
    assert skerry("store", "verify", named).code == 0


def test_a_damaged_run_is_forgotten_by_the_printed_command():
    skerry("run", MINE, *ONE)
    with sqlite3.connect(Path(OUT, FILE)) as db:
        db.execute("UPDATE parts SET matrix = zeroblob(16)")
    db.close()
    (key,) = recorded_keys()
    with Store.read(OUT) as store, pytest.raises(SkerryError) as told:
        store.history(key)
    (forget,) = printed_commands(str(told.value))
    paste(forget)
    assert recorded_keys() == []


def recorded_keys():
    with Store.read(OUT) as store:
        return list(store.keys())


def test_a_damaged_file_is_repaired_by_the_printed_command():
    skerry("run", MINE, *ONE)
    file = Path(OUT, FILE)
    file.write_bytes(file.read_bytes()[:-4096])
    commands = printed("show", OUT, code=2)
    assert commands
    for command in commands:
        paste(command)


# Figures, theory, data, new


def test_figures_that_need_another_run_tell_which():
    skerry("run", MINE, *ONE)
    (results,) = printed("figure", "gap", OUT, code=2)
    for command in printed_commands(paste(results)):
        paste(command)
    for kind in ("gap", "sensitivity"):
        (command,) = printed("figure", kind, OUT, code=2)
        paste(command)


def test_the_data_of_a_figure_are_fetched_by_the_printed_command(monkeypatch, tmp_path):
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "no cache"))
    skerry("run", MINE, *ONE)
    with sqlite3.connect(Path(OUT, FILE)) as db:
        db.execute("""UPDATE runs SET experiment = replace(experiment, '"synthetic"', '"mnist"')""")
        db.execute("DELETE FROM checksums")
    db.close()
    (command,) = printed("figure", "labels", OUT, code=2)
    assert parses(command)["name"] == "mnist"


@pytest.mark.parametrize("settings", [[], ["server.selection=per_component", "server.sampled=4"]])
def test_bounds_of_measured_constants_are_printed_by_the_command(settings):
    chosen = [word for setting in settings for word in ("--set", setting)]
    (command,) = printed("theory", "constants", MINE, *chosen, "--rounds", "0", "--draws", "2")
    assert "rounds" in paste(command)


@pytest.mark.parametrize("count", [3, 30])
def test_a_trace_can_be_used_by_the_printed_command(count):
    """Also with fewer devices than the default experiment samples."""
    devices = {str(i): {"active": [0], "inactive": [9e5], "finish_time": 9e5} for i in range(count)}
    Path("tra ce's.json").write_text(json.dumps(devices))
    (command,) = printed("data", "trace", "tra ce's.json", "a: w'ake.csv")
    paste(f"{command} --set rounds=1 --seeds 1")


def test_examples_are_copied_and_run_by_the_printed_commands():
    (copy,) = printed("new", "--list")
    (run,) = printed_commands(paste(copy))
    assert Experiment.load(words_of(run)[1]).server
    folder = "exam 'ple\"s"
    (run,) = printed("new", "three_islands", "--out", folder)
    topology = Experiment.load(Path(folder, "three_islands.toml")).network.topology
    assert Path(topology) == Path(folder, "three_islands.edgelist").absolute()
    paste(f"{run} --set rounds=1")
    (other,) = printed("new", "three_islands", "--out", folder, code=2)
    paste(other)
    (third,) = printed("new", "three_islands", "--out", folder, code=2)
    assert third != other
    text = Path(folder, "three_islands.toml").read_text()
    (commented,) = printed_commands(text.replace("#   ", ""))
    assert parses(commented)["file"] == Path(folder, "three_islands.toml")


def test_unknown_options_lead_to_the_help():
    done = skerry("run", "--nope")
    (command,) = re.findall(r"Try '(.*)' for help", done.err)
    assert "Usage" in paste(command)


# Advice


def test_advice_is_used_by_the_printed_command():
    """File, settings and rounds are those that were asked about; the rest is the recommendation."""
    asked = ["--set", "training.batch=4", "--rounds", "3"]
    use, compare = printed("advise", MINE, *asked, *ADVISE, "--among", "s2a,blend:0.3,uniform")
    words = words_of(use)
    assert words[:2] == ["run", MINE]
    paste(f"{use} --out {typed(OUT)}")
    (done,) = recorded().values()
    assert (done.training.batch, done.rounds, done.name) == (4, 3, "the hill's fleet")
    told = dict(word.split("=", 1) for word in words if "=" in word)
    assert done.server.primitive == told["server.primitive"]
    assert f"{done.training.stepsize:.4g}" == told["training.stepsize"]
    paste(f"{compare} --out {typed(OUT)}")
    assert {label for label, _ in labels()} == {done.server.label, "none"}


def test_advice_against_a_server_can_be_compared_with_one():
    """The settings of the server that was asked about are kept, and so is the clock."""
    few = ["--devices", "8", "--set", "server.sampled=3", "--rounds", "2"]
    few += ["--seeds", "2", "--stepsizes", "0.1", "--among", "none"]
    clock = "the hill's clock.toml"
    Path(clock).write_text('[uplink]\nlatency = "2 s"\n')
    use, compare, price = printed("advise", *few, "--clock", clock)
    for command in (use, compare):
        paste(f"{command} --seeds 1")
    assert {label for label, _ in labels("runs")} == {"none", "s2s", "s2a"}
    assert f"Clock {clock}" in paste(price)


# The shell


def test_commands_are_pasted_into_a_shell():
    """What the other tests run in this process runs in a shell, too."""
    skerry("run", MINE, *ONE)
    commands = [*printed("run", MINE, *ONE), *printed("results", OUT)[:1]]
    assert len(commands) == 3
    for command in commands:
        done = in_a_shell(command)
        assert done.returncode == 0, done.stderr
