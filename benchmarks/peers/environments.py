"""A virtual environment for every peer, from its pinned requirements."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / ".environments"


class NotInstalledError(Exception):
    """Why a peer's environment could not be made, in one line."""


def interpreter(peer: str) -> Path:
    """The Python that runs a peer; its environment is made first where it is missing or old.

    Contestants without requirements of their own run in the environment of this process.
    """
    requirements = HERE / peer / "requirements.txt"
    if not requirements.exists():
        return Path(sys.executable)
    environment = ENVIRONMENTS / peer
    python = environment / "bin" / "python"
    made_from = environment / ".made-from"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not (made_from.exists() and made_from.read_text() == wanted):
        shutil.rmtree(environment, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment)])
        _install(python, requirements)
        made_from.write_text(wanted)
    return python


def _install(python: Path, requirements: Path) -> None:
    """The pins are a complete set that was tested together, so pip resolves nothing: a peer's own
    ranges pull gigabytes of another PyTorch, or have no solution. Only PyTorch brings what its
    build needs, which differs between machines."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    if torch:
        _run([*pip, *torch])
    _run([*pip, "--no-deps", "--requirement", str(requirements)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError(last_error(done.stderr) or f"{command[2]} failed")


def last_error(text: str) -> str:
    """The line of a program's output that says most about what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [""])[-1][:300]
