"""Run what a table or figure needs, and distil it into studies."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from skerry.config.experiment import Experiment
from skerry.errors import RecordsError, SkerryError, argument
from skerry.records.parts import History
from skerry.records.store import Run, versions
from skerry.runs.driver import Driver, StoppedError
from skerry.runs.executors.executor import Executor
from skerry.runs.grouping import stacks
from skerry.runs.progress import Watcher
from skerry_paper.blends import measured_constants
from skerry_paper.plan import Plan, Profile
from skerry_paper.plans import PLANS, Need, runs_of
from skerry_paper.study import DIVERGED, Study, distil

Recorded = tuple[Run, History]
Tell = Callable[[str], None]

DATA = "data"
"""The folder of studies, beside the store."""


def compute(
    needs: Sequence[Need],
    profile: Profile,
    *,
    out: Path,
    executor: Executor,
    command: str,
    device: str = "auto",
    settings: Sequence[str] = (),
    again: bool = False,
    minutes: float = math.inf,
    watcher: Watcher | None = None,
    tell: Tell = lambda line: None,
) -> dict[str, Study]:
    """Run these slices and keep a study of each plan they are from, with all that the folder has
    of it by now. The theory's constants are measured on `device`, where a plan asks for them. In
    so many minutes the first slices are run, and as many of the others as fit."""
    if not minutes > 0:
        raise SkerryError(f"{argument('minutes')} must be above 0 (got {minutes:g}). Raise it.")
    if not needs:
        return {}
    planned = {
        name: runs_of([need for need in needs if need.study == name], profile, settings)
        for name in dict.fromkeys(need.study for need in needs)
    }
    runs = {run.key(): run for of_study in planned.values() for run in of_study}
    with executor, Driver(executor, out, watcher=watcher, again=again) as driver:
        began = time.monotonic()
        if math.isinf(minutes):
            driver.run(list(runs.values()))
            seconds = dict.fromkeys(planned, time.monotonic() - began)
        else:
            pieces = [
                (need.study, piece)
                for need in needs
                for piece in _pieces(runs_of([need], profile, settings))
            ]
            seconds = run_what_fits(pieces, driver, 60 * minutes, tell)
        recorded = {
            run.experiment.key(): (run, history) for run, history in driver.store.histories()
        }
    about = {
        "command": command,
        "profile": profile,
        "settings": list(settings),
        "versions": versions(),
    }
    if len(recorded) > len(runs):  # an earlier command has recorded more of these plans
        planned = {name: runs_of([Need(name)], profile, settings) for name in planned}
    studies = {}
    for name, wanted in planned.items():
        found = [recorded[run.key()] for run in wanted if run.key() in recorded]
        told = about | {"seconds": round(seconds[name], 1)}
        if study := _study(PLANS[name], told, found):
            path = out / DATA / f"{name}.json"
            if PLANS[name].constants:
                known = None if again else _kept_constants(path)
                constants = measured_constants(wanted, device=device, known=known, tell=tell)
                study = replace(study, constants=constants)
            study.save(path)
            studies[name] = study
    return studies


# In a given time


def _pieces(runs: Sequence[Experiment]) -> Iterator[list[Experiment]]:
    """What is computed together; all of a seed before the next."""
    yield from sorted(stacks(runs), key=lambda piece: piece[0].seed)


def run_what_fits(
    pieces: Sequence[tuple[str, Sequence[Experiment]]],
    driver: Driver,
    limit: float,
    tell: Tell,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, float]:
    """Run pieces of studies in their order, but none that would take longer than what is left of
    `limit` seconds, by what the last one of its study took. The first tells nothing: it reads data
    and compiles kernels too. The seconds that each study took."""
    began = clock()
    seconds = {name: 0.0 for name, _ in pieces}
    pace: dict[str, float] = {}
    left_out = 0
    for name, piece in pieces:
        started = clock()
        waiting = driver.waiting(piece)
        rounds = sum(run.rounds for run in waiting)
        left = limit - (started - began)
        if left <= 0 or pace.get(name, 0) * rounds > left:
            left_out += len(waiting)
            continue
        try:
            driver.run(list(piece), until=lambda: clock() - began > limit)
        except StoppedError:
            left_out += len(waiting)
        took = clock() - started
        if rounds and seconds[name]:
            pace[name] = took / rounds
        seconds[name] += took
    if left_out:
        tell(f"The time is over: {left_out:,} runs are left out. The same command goes on.")
    return seconds


def _kept_constants(path: Path) -> pd.DataFrame | None:
    try:
        return Study.load(path).constants
    except RecordsError:
        return None


def _study(plan: Plan, about: Mapping[str, Any], found: Sequence[Recorded]) -> Study | None:
    ended = [(run, history) for run, history in found if run.status in ("finished", DIVERGED)]
    if not ended:
        return None
    told = {**about, **_provenance([run for run, _ in found])}
    rows = ((run.experiment, history, run.status) for run, history in ended)
    return distil(plan.name, told, rows, plan.curves)


def _provenance(runs: Sequence[Run]) -> dict[str, Any]:
    """What the store says of the runs of a study."""
    first = runs[0].experiment
    statuses = [run.status for run in runs]
    return {
        "runs": {status: statuses.count(status) for status in dict.fromkeys(statuses)},
        "device": ", ".join(dict.fromkeys(run.device for run in runs)),
        "seeds": sorted({run.experiment.seed for run in runs}),
        "precision": first.training.precision,
        "experiment": first.to_toml(),
    }
