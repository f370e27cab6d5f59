"""Run what a table or figure needs, and distil it into studies."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import RecordsError
from skerry.paper.dial import measured_constants
from skerry.paper.plans import PLANS, Need, Plan, Profile, runs_of
from skerry.paper.study import DIVERGED, Study, distil
from skerry.records.parts import History
from skerry.records.store import Run, versions

if TYPE_CHECKING:
    import pandas as pd

    from skerry.runs.executors.executor import Executor
    from skerry.runs.watcher import Watcher

Recorded = tuple[Run, History]

DATA = "data"
"""The folder of studies, beside the store."""


def compute(
    needs: Sequence[Need],
    profile: Profile,
    *,
    out: Path,
    executor: "Executor",
    command: str,
    device: str = "auto",
    settings: Sequence[str] = (),
    again: bool = False,
    watcher: "Watcher | None" = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Study]:
    """Run these slices and keep a study of each plan they are from, with all that the folder has
    of it by now. The theory's constants are measured on `device`, where a plan asks for them."""
    from skerry.runs.driver import Driver

    if not needs:
        return {}
    began = time.monotonic()
    planned = {
        name: runs_of([need for need in needs if need.study == name], profile, settings)
        for name in dict.fromkeys(need.study for need in needs)
    }
    runs = {run.key(): run for of_study in planned.values() for run in of_study}
    with executor, Driver(executor, out, watcher=watcher, again=again) as driver:
        driver.run(list(runs.values()))
        recorded = {
            run.experiment.key(): (run, history) for run, history in driver.store.histories()
        }
    about = {
        "command": command,
        "profile": profile,
        "settings": list(settings),
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
    }
    if len(recorded) > len(runs):  # an earlier command has recorded more of these plans
        planned = {name: runs_of([Need(name)], profile, settings) for name in planned}
    studies = {}
    for name, wanted in planned.items():
        found = [recorded[run.key()] for run in wanted if run.key() in recorded]
        if study := _study(PLANS[name], about, found):
            path = out / DATA / f"{name}.json"
            if PLANS[name].constants:
                known = None if again else _kept_constants(path)
                constants = measured_constants(wanted, device=device, known=known, tell=tell)
                study = replace(study, constants=constants)
            study.save(path)
            studies[name] = study
    return studies


def _kept_constants(path: Path) -> "pd.DataFrame | None":
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
