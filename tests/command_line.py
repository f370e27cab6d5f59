"""The command line as tests call it: in this process, or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import skerry as skerry_package
from skerry.cli.main import main

SCRIPT = Path(sys.executable).with_name("skerry")
TESTS = Path(__file__).parent
SOURCES = Path(skerry_package.__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def skerry(*arguments: object) -> Outcome:
    """Run the command in this process: quick, and what it prints is what a user sees."""
    out, err, path = io.StringIO(), io.StringIO(), list(sys.path)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(argument) for argument in arguments])
    except SystemExit as left:
        return Outcome(left.code or 0, out.getvalue(), err.getvalue())
    finally:
        sys.path[:] = path
    return Outcome(0, out.getvalue(), err.getvalue())


def skerry_process(*arguments: object) -> Outcome:
    """Run the installed script, from the working directory."""
    done = subprocess.run(
        [str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def environment() -> dict[str, str]:
    """For processes of their own: one thread, the plug-ins that lie beside the tests, and the very
    sources that are tested."""
    path = os.pathsep.join([str(TESTS), str(SOURCES)])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "200"}
