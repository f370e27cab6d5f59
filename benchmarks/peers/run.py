"""The same job in Skerry, in a plain PyTorch loop and in other simulators of federated learning.

A device-step is one device taking one SGD step on a minibatch of 128. In every round all devices
take one, and the server averages (rows with "ring": each averages with its two neighbours). Nothing
is evaluated on the clock. Every contestant gets the same synthetic data and initial model, in its
own environment and as its documentation sets a simulation up; that the work was the same is told by
the loss of the average model at the end. Contestants take turns, so that what comes and goes on the
machine meets all of them. A machine that is busy throughout is another matter: it slows those that
use every core far more than those that use one, and the ratios mislead.

    python benchmarks/peers/run.py --save benchmarks/results/peers-two-cores.json
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shared"))

from contestants import CONTESTANTS, PEERS, REFERENCES, Contestant
from environments import NotInstalledError, interpreter
from jobs import JOBS, loss_of, write_job
from peer_job import Job
from process import FailedError, Measured, measure
from results import Row, as_json, row, strays, table

BUSY = 0.25
"""Processes per core that others may keep running before the ratios mislead."""


def main() -> int:
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end the contestant's processes too
    load = os.getloadavg()[0]
    if load > BUSY * (os.cpu_count() or 1):
        say(f"The machine is busy already (load {load:.1f}): the ratios will mislead.")
    takers = [c for c in CONTESTANTS if c.folder in options.peers or c in REFERENCES.values()]
    pythons, missing = prepare({contestant.folder for contestant in takers})
    jobs = [
        replace(JOBS[name], rounds=options.rounds or JOBS[name].rounds) for name in options.jobs
    ]
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        folders = {job.name: Path(scratch) / job.name for job in jobs}
        for job in jobs:
            folders[job.name].mkdir()
            write_job(job, folders[job.name])
        runs, failures = take_turns(takers, pythons, folders, options, Path(scratch))
        initial = {name: loss_of(path, path / "initial.npz") for name, path in folders.items()}
    failures = {name: missing_in(name, missing, takers) | failures[name] for name in folders}
    return report(jobs, runs, failures, initial, {"load_before": load}, options.save)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=names_from(PEERS), default=PEERS,
                        help=f"which, with commas between: {','.join(PEERS)} (default: all; the "
                        "plain loop always takes part)")  # fmt: skip
    parser.add_argument("--jobs", type=names_from(tuple(JOBS)), default=tuple(JOBS),
                        help=f"which: {','.join(JOBS)} (default: all)")  # fmt: skip
    parser.add_argument("--rounds", type=positive, help="rounds on the clock (default: the job's)")
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--save", type=Path, help="keep the figures as JSON")
    return parser.parse_args()


def names_from(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(
                f"unknown: {', '.join(unknown)}. Choose from {', '.join(known)}."
            )
        return found

    return names


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1 (got {text})")
    return int(text)


def prepare(folders: set[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Everyone's interpreter, and why some have none."""
    pythons, missing = {}, {}
    for folder in sorted(folders):
        say(f"environment of {folder} ...")
        try:
            pythons[folder] = interpreter(folder)
        except NotInstalledError as error:
            missing[folder] = f"could not be installed: {error}"
    return pythons, missing


def missing_in(job: str, missing: dict[str, str], takers: Sequence[Contestant]) -> dict[str, str]:
    return {c.name: missing[c.folder] for c in takers if job in c.jobs and c.folder in missing}


Runs = dict[str, dict[Contestant, list[Measured]]]
Failures = dict[str, dict[str, str]]


def take_turns(
    takers: Sequence[Contestant],
    pythons: dict[str, Path],
    folders: dict[str, Path],
    options: argparse.Namespace,
    scratch: Path,
) -> tuple[Runs, Failures]:
    """Every contestant once, then every one again; who fails is not asked again."""
    runs: Runs = {name: defaultdict(list) for name in folders}
    failures: Failures = {name: {} for name in folders}
    turns = [
        (name, contestant)
        for _ in range(options.repeats)
        for name in folders
        for contestant in takers
        if name in contestant.jobs and contestant.folder in pythons
    ]
    for number, (name, contestant) in enumerate(turns, start=1):
        if contestant.name in failures[name]:
            continue
        say(f"{number}/{len(turns)} {name}: {contestant.name} ...")
        # Short, because Ray's sockets in it may have no more than 107 characters.
        with tempfile.TemporaryDirectory(dir=scratch, prefix="", ignore_cleanup_errors=True) as own:
            python = pythons[contestant.folder]
            try:
                run = measure(contestant, python, folders[name], Path(own), options.limit)
                runs[name][contestant].append(run)
            except FailedError as error:
                failures[name][contestant.name] = f"failed: {error}"
    say("")
    return runs, failures


def report(
    jobs: Sequence[Job],
    runs: Runs,
    failures: Failures,
    initial: dict[str, float],
    noted: dict[str, float],
    save: Path | None,
) -> int:
    """Print the tables, keep the figures; 1 if anyone failed or did other work."""
    found = {"machine": machine() | noted, "jobs": {}}
    for job in jobs:
        rows: dict[Contestant, Row] = {c: row(of) for c, of in runs[job.name].items()}
        told = failures[job.name] | {
            c.name: reason for c, reason in strays(rows, initial[job.name]).items()
        }
        print(table(job, rows, told), end="\n\n")
        found["jobs"][job.name] = as_json(job, rows, told, initial[job.name])
    if save:
        draft = save.with_name(save.name + ".new")
        draft.write_text(json.dumps(found, indent=2) + "\n")
        os.replace(draft, save)
    return int(any(job["failures"] for job in found["jobs"].values()))


def machine() -> dict[str, object]:
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }


def say(words: str) -> None:
    """Progress, on one line of a terminal."""
    end, start = ("", "\r\033[K") if sys.stderr.isatty() else ("\n", "")
    print(f"{start}{words}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
