"""However a command ends, it ends with one line that helps and the right exit code."""

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SCRIPT, environment, skerry
from skerry.cli import exit_codes
from skerry.errors import ExperimentError, printable

SLOW = pytest.mark.slow  # a process more of the same kind
SMALL = ["--set", "rounds=2", "--set", "network.devices=6", "--set", "server.sampled=2"]


@pytest.fixture(autouse=True)
def _working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line for a shell, in which SKERRY is the installed command."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; SKERRY="{SCRIPT}"; {line}'],
        capture_output=True,
        text=True,
        env=environment() | variables,
        timeout=60,
        check=False,
    )


def record() -> None:
    """Something in the folder `runs` to look at."""
    outcome = skerry("run", *SMALL, "--seeds", "2", "--compare", "s2s,s2a", "--json")
    assert outcome.code == 0, outcome.err


# What went wrong


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ExperimentError("no file. Make one."), 2, "error: no file. Make one."),
        (MemoryError("16 PiB"), 2, "error: out of memory (MemoryError: 16 PiB). Lower network.dev"),
        (RecursionError(), 2, "error: the input is nested too deep to be read."),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), 2, "error: a text is not valid UTF-8"),
        (OSError(errno.ENOSPC, "No space", "a.pdf"), 1, "error: no space is left to write a.pdf ("),
        (OSError(errno.ENOSPC, "No space"), 1, "error: no space is left to write the output (No"),
        (OSError(errno.EFBIG, "File too large"), 1, "error: no space is left to write the output"),
        (PermissionError(13, "Denied", "x"), 1, "error: cannot use x (Denied). Check that it exi"),
        (OSError(errno.ENAMETOOLONG, "Too long", "x" * 99), 2, "error: a path is too long (Too lo"),
        (EOFError(), 1, "error: this is a bug in Skerry (EOFError). Please report it"),
        (ModuleNotFoundError("No module"), 1, "error: a library cannot be loaded (ModuleNotFound"),
        (TypeError("a\nb"), 1, "error: this is a bug in Skerry (TypeError: a b). Please report"),
        (KeyboardInterrupt(), 130, "Stopped."),
        (BrokenPipeError(), 1, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)  # fmt: skip
def test_any_error_of_any_command_is_one_line(monkeypatch, error, code, line):
    """Commands need no code for it: `new` stands for all."""

    def fails(self, comments=False):
        raise error

    monkeypatch.setattr("skerry.config.experiment.Experiment.to_toml", fails)
    outcome = skerry("new")
    assert (outcome.code, outcome.out) == (code, "")
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == (line is not None)
    assert outcome.err.startswith(line or "")
    if not isinstance(error, KeyboardInterrupt):
        with pytest.raises(type(error)):
            skerry("new", "--debug")


def test_a_line_stays_one_line_whatever_it_quotes():
    outcome = skerry("run", "no\nfile\x1b[31m.toml")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert r"no file no\nfile\x1b[31m.toml." in outcome.err
    assert printable("5 ± 1, é") == "5 ± 1, é"


# Whose code is run


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["results"], ["report"], ["figure", "curves"], ["data", "list"], ["new"]],
    ids=" ".join,
)
def test_looking_runs_nothing_that_lies_in_the_folder(arguments):
    """`skerry show` in a folder of someone else's."""
    for name in ("numpy", "matplotlib", "pandas", "rich", "torch", "json"):
        Path(f"{name}.py").write_text("open('was-run', 'w')\n")
    record()
    outcome = shell(f'"$SKERRY" {" ".join(arguments)}')
    assert outcome.returncode == 0, outcome.stderr
    assert not Path("was-run").exists()


def test_a_plug_in_never_hides_a_library():
    """It is found in the folder, and beside the file; but what is installed comes first."""
    Path("beside").mkdir()
    Path("beside/mine.toml").write_text('[network]\ntopology = "theirs:line"\nmixing = "ours:mix"')
    for place in (Path(), Path("beside")):
        (place / "networkx.py").write_text("raise SystemError('hidden')\n")
    Path("beside/theirs.py").write_text(
        "import networkx\ndef line(size): return networkx.path_graph(size)\n"
    )
    Path("ours.py").write_text("from skerry.network.mixing import metropolis as mix\n")
    outcome = shell('"$SKERRY" theory mixing beside/mine.toml')
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.slow
def test_workers_take_no_library_from_the_folder():
    Path("numpy.py").write_text("raise SystemError('hidden')\n")
    Path("mine.toml").write_text('rounds = 2\n[network]\ndevices = 6\n[server]\nsampled = 2\n'
                                 '[sweep]\nseeds = 2\n')  # fmt: skip
    outcome = shell('"$SKERRY" sweep mine.toml --workers 2')
    assert outcome.returncode == 0, outcome.stderr


# Streams


def test_a_terminal_without_the_letters_gets_others(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    exit_codes.repair_streams()
    print("5 ± 1 ≤ ε, café, \udcff, 雪")
    assert exit_codes.flush_streams(0) == 0
    assert written.getvalue() == b"5 +- 1 <= epsilon, cafe, ?, ?\n"


def test_a_table_is_printed_on_a_terminal_that_knows_ascii_only():
    record()
    outcome = shell('"$SKERRY" show', PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0, outcome.stderr
    assert "+-" in outcome.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "new",
        *(
            pytest.param(one, marks=SLOW)
            for one in ("schema", "--help", "theory regimes", "data list")
        ),
    ],
)
def test_an_output_that_is_full_is_told(arguments):
    outcome = shell(f'"$SKERRY" {arguments} > /dev/full')
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "error: no space is left to write the output (No space left on device). Free some "
        "space, or write elsewhere.\n"
    )


def test_a_reader_that_leaves_is_no_fault():
    outcome = shell('"$SKERRY" schema | true')
    assert outcome.stderr == ""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("new >&-", 0),
        ("new <&-", 0),
        ("new 2>&-", 0),
        ("run none.toml 2>&-", 2),
        ("run none.toml 2>/dev/full", 2),
        (f"run {' '.join(SMALL)} --seeds 1 --json >&- 2>&- <&-", 0),
    ],
)
def test_closed_streams_change_nothing(line, code):
    """Above all, nothing is printed into a file that took a stream's place."""
    outcome = shell(f'"$SKERRY" {line}')
    assert outcome.returncode == code
    assert outcome.stderr == ""
    if Path("runs").exists():
        assert skerry("show", "runs").code == 0


@pytest.mark.parametrize(
    "name",
    ["figure.png", *(pytest.param(f"figure.{form}", marks=SLOW) for form in ("pdf", "svg"))],
)
def test_a_figure_that_finds_no_room_is_told(name):
    """And nothing is left of it. The limit on the size of files stands for a full disk."""
    quiet = "export PYTHONDONTWRITEBYTECODE=1"  # or the limit cuts cached modules short
    outcome = shell(f'{quiet}; ulimit -f 1; "$SKERRY" theory figure 1 --out {name}')
    assert outcome.returncode == 2
    assert outcome.stderr == (
        f"error: cannot write {name} (File too large). Choose a folder that exists and can be "
        "written.\n"
    )
    assert list(Path().iterdir()) == []


# Folders and signals


@pytest.mark.parametrize(
    ("arguments", "code"), [("new", 0), ("show", 2), (f"run {' '.join(SMALL)}", 2)]
)
def test_a_folder_that_is_gone_is_told(arguments, code):
    outcome = shell(f'mkdir gone; cd gone; rmdir ../gone; "$SKERRY" {arguments}')
    assert outcome.returncode == code, outcome.stderr
    assert outcome.stderr.count("\n") == (code > 0)
    assert "Traceback" not in outcome.stderr


def test_a_signal_to_terminate_is_treated_like_ctrl_c():
    """As a batch system sends it when the time is up: the same command goes on."""
    command = [str(SCRIPT), "run", *SMALL, "--set", "rounds=100000", "--seeds", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        assert "rounds" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert process.returncode == 143
    assert rest.strip() == "Stopped. The same command continues from the last checkpoint."


def test_a_signal_stops_also_a_command_that_does_not_expect_it(monkeypatch):
    def waits(self, comments=False):
        os.kill(os.getpid(), signal.SIGTERM)
        return "not reached"

    monkeypatch.setattr("skerry.config.experiment.Experiment.to_toml", waits)
    usual = signal.getsignal(signal.SIGTERM)
    outcome = skerry("new")
    assert (outcome.code, outcome.out, outcome.err) == (143, "", "Stopped.\n")
    assert signal.getsignal(signal.SIGTERM) is usual
