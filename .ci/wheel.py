"""Build the wheel, install it into a clean environment, and try it there; `make wheel` calls it.

Told at the end: the wheel's size, which must stay below a limit, and how long it takes to start."""

import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "build" / "dist"
MOST_BYTES = 1_150_000
TRIES = 5
SMALL = ("rounds=2", "network.devices=8", "server.sampled=3")


def main() -> None:
    wheel = built()
    size = wheel.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        scripts = installed(wheel, place / "clean")
        tried(scripts, place)
        importing = seconds([scripts / "python", "-c", "import skerry"], place)
        importing -= seconds([scripts / "python", "-c", ""], place)
        helping = seconds([scripts / "skerry", "--help"], place)
    print(f"{wheel.name}: {size / 1e6:.2f} MB (at most {MOST_BYTES / 1e6:g})")
    print(f"import skerry: {importing:.2f} s (below 0.1 on a quiet machine)")
    print(f"skerry --help: {helping:.2f} s (below 0.4 on a quiet machine)")
    if size > MOST_BYTES:
        sys.exit(f"the wheel has {size:,} bytes. Leave out what users do not need.")


def built() -> Path:
    """The wheel, made from the source distribution: what that leaves out would be missing."""
    for old in DIST.glob("*"):
        old.unlink()
    run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], ROOT)
    (wheel,) = DIST.glob("*.whl")
    return wheel


def installed(wheel: Path, environment: Path) -> Path:
    """Where the programs of an environment lie that holds the wheel and what it asks for."""
    venv.create(environment, with_pip=True, upgrade_deps=True)
    scripts = environment / "bin"
    constraint = ["--constraint", ROOT / "constraints.txt"]
    install = ["install", "--quiet", "--no-compile", *constraint, wheel]
    run([scripts / "python", "-m", "pip", *install], ROOT)
    run([scripts / "python", "-m", "pip", "check"], ROOT)
    return scripts


def tried(scripts: Path, place: Path) -> None:
    """What a new user does first, outside of the project."""
    skerry, settings = scripts / "skerry", [word for one in SMALL for word in ("--set", one)]
    run([skerry, "--version"], place)
    run([skerry, "new", "two_islands"], place)
    run([skerry, "run", "two_islands.toml", *settings, "--compare", "s2s,s2a"], place)
    run([skerry, "report", "runs"], place)
    run([skerry, "figure", "curves", "runs", "-o", "curves.png"], place)


def run(command: Sequence[str | Path], folder: Path) -> None:
    told = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True)
    if told.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{told.stdout}{told.stderr}")


def seconds(command: Sequence[str | Path], folder: Path) -> float:
    """The median of a few tries."""
    found = []
    for _ in range(TRIES):
        began = time.perf_counter()
        run(command, folder)
        found.append(time.perf_counter() - began)
    return statistics.median(found)


if __name__ == "__main__":
    main()
