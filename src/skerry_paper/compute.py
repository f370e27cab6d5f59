"""Run what tables and figures need, and keep the results as studies."""

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
from skerry.runs.executors.executor import Executor, group_by_world
from skerry.runs.progress import Progress
from skerry_paper.blends import measure_problem_constants
from skerry_paper.plan import Profile, StudyPlan
from skerry_paper.plans import PLANS, PlanSlice, runs_of
from skerry_paper.study import DIVERGED, StudyData, build_study

DATA = "data"
"""The folder of studies, beside the store."""


def compute(
    needs: Sequence[PlanSlice],
    profile: Profile,
    *,
    out: Path,
    executor: Executor,
    command: str,
    device: str = "auto",
    settings: Sequence[str] = (),
    again: bool = False,
    minutes: float = math.inf,
    progress: Progress | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, StudyData]:
    """Run these slices; save and return a study of each plan, with all runs in the store `out`.

    With a limit of `minutes`, slices run in their order as far as they fit. The theory's constants
    are measured on `device` where a plan needs them. `report` receives progress messages."""
    if not minutes > 0:
        raise SkerryError(f"{argument('minutes')} must be above 0 (got {minutes:g}). Raise it.")
    if not needs:
        return {}
    planned = {
        name: runs_of([need for need in needs if need.study == name], profile, settings)
        for name in dict.fromkeys(need.study for need in needs)
    }
    runs = {run.key(): run for of_study in planned.values() for run in of_study}
    with executor, Driver(executor, out, progress=progress, again=again) as driver:
        start = time.monotonic()
        if math.isinf(minutes):
            driver.run(list(runs.values()))
            seconds = dict.fromkeys(planned, time.monotonic() - start)
        else:
            pieces = [
                (need.study, piece)
                for need in needs
                for piece in _pieces(runs_of([need], profile, settings))
            ]
            seconds = run_within_limit(pieces, driver, 60 * minutes, report)
        recorded = {
            run.experiment.key(): (run, history) for run, history in driver.store.histories()
        }
    about = {"command": command, "profile": profile, "settings": list(settings)}
    if len(recorded) > len(runs):  # an earlier command has recorded more of these plans
        planned = {name: runs_of([PlanSlice(name)], profile, settings) for name in planned}
    studies = {}
    for name, wanted in planned.items():
        found = [recorded[run.key()] for run in wanted if run.key() in recorded]
        details = about | {"versions": versions(), "seconds": round(seconds[name], 1)}
        if study := _study_of(PLANS[name], details, found):
            path = out / DATA / f"{name}.json"
            if PLANS[name].constants:
                known = None if again else _saved_constants(path)
                constants = measure_problem_constants(
                    wanted, device=device, known=known, report=report
                )
                study = replace(study, constants=constants)
            study.save(path)
            studies[name] = study
    return studies


def _pieces(runs: Sequence[Experiment]) -> Iterator[list[Experiment]]:
    """The stacks of these runs, all stacks of a seed before the next seed."""
    yield from sorted(group_by_world(runs), key=lambda piece: piece[0].seed)


def run_within_limit(
    pieces: Sequence[tuple[str, Sequence[Experiment]]],
    driver: Driver,
    limit: float,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, float]:
    """Run (study, runs) pieces in order within `limit` seconds; return the seconds of each study.

    A piece is skipped if it would exceed the remaining time at the speed of the last piece of its
    study. The first piece of a study is not used for this: it also reads data and compiles kernels.
    """
    start = clock()
    seconds = {name: 0.0 for name, _ in pieces}
    seconds_per_round: dict[str, float] = {}
    skipped = 0
    for name, piece in pieces:
        piece_start = clock()
        waiting = driver.waiting(piece)
        rounds = sum(run.rounds for run in waiting)
        left = limit - (piece_start - start)
        if left <= 0 or seconds_per_round.get(name, 0) * rounds > left:
            skipped += len(waiting)
            continue
        try:
            driver.run(list(piece), until=lambda: clock() - start > limit)
        except StoppedError:
            skipped += len(waiting)
        elapsed = clock() - piece_start
        if rounds and seconds[name]:
            seconds_per_round[name] = elapsed / rounds
        seconds[name] += elapsed
    if skipped:
        report(f"The time limit is reached: {skipped:,} runs are left. The same command resumes.")
    return seconds


def _saved_constants(path: Path) -> pd.DataFrame | None:
    try:
        return StudyData.load(path).constants
    except RecordsError:
        return None


def _study_of(
    plan: StudyPlan, about: Mapping[str, Any], found: Sequence[tuple[Run, History]]
) -> StudyData | None:
    """The study of the runs that ended, or None if there is none."""
    ended = [(run, history) for run, history in found if run.status in ("finished", DIVERGED)]
    if not ended:
        return None
    runs = [run for run, _ in found]
    statuses = [run.status for run in runs]
    details = {
        **about,
        "runs": {status: statuses.count(status) for status in dict.fromkeys(statuses)},
        "device": ", ".join(dict.fromkeys(run.device for run in runs)),
        "seeds": sorted({run.experiment.seed for run in runs}),
        "precision": runs[0].experiment.training.precision,
        "experiment": runs[0].experiment.to_toml(),
    }
    rows = ((run.experiment, history, run.status) for run, history in ended)
    return build_study(plan.name, details, rows, plan.curves)
