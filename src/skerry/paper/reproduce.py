"""Run what a table or figure needs, and distil it into studies."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import RecordsError, SkerryError, unknown
from skerry.experiment import Experiment
from skerry.paper.plans import PLANS, Plan, Profile
from skerry.paper.problems import measured_problems
from skerry.paper.study import DIVERGED, Study, distil, joined
from skerry.paper.targets import TARGETS, Need, Target
from skerry.records.parts import History
from skerry.records.store import Run, versions

if TYPE_CHECKING:
    import pandas as pd

    from skerry.runs.executors.executor import Executor
    from skerry.runs.watcher import Watcher

Recorded = tuple[Run, History]

ALL = "all"
DATASETS = tuple(dict.fromkeys(plan.dataset for plan in PLANS.values()))
DATA = "data"
"""The folder of studies, beside the store."""


def targets_named(names: Sequence[str], datasets: Sequence[str]) -> list[Target]:
    """The targets meant, without those that these data sets have no part in; `all` is every table
    and figure of the paper."""
    for name in names:
        if name != ALL and name not in TARGETS:
            raise SkerryError(unknown("target", name, [*TARGETS, ALL]))
    wanted = [t for t in TARGETS.values() if t.name in names or (ALL in names and t.of_paper)]
    chosen = [target for target in wanted if not target.needs or _within(target.needs, datasets)]
    if not chosen:
        raise SkerryError(
            f"{', '.join(names)} is not about {', '.join(datasets)}. Leave --dataset out, or see "
            "which data set a target is about: skerry reproduce list"
        )
    return chosen


def datasets_of(target: Target) -> list[str]:
    """The data sets that a target is about; none for theory."""
    return list(dict.fromkeys(PLANS[study].dataset for study in target.studies))


def needs_of(names: Sequence[str], datasets: Sequence[str], profile: Profile) -> list[Need]:
    """The slices that these targets need of these data sets. All in full is the paper's whole grid
    on MNIST: 9,600 runs, some of which no table or figure shows."""
    whole = [Need("mnist")] if ALL in names and profile == "full" else []
    needed = [need for target in targets_named(names, datasets) for need in target.needs]
    covered = {need.study for need in whole}
    return _within([*whole, *(n for n in needed if n.study not in covered)], datasets)


def _within(needs: Iterable[Need], datasets: Sequence[str]) -> list[Need]:
    return [need for need in needs if PLANS[need.study].dataset in datasets]


def runs_of(
    needs: Iterable[Need], profile: Profile, settings: Sequence[str] = ()
) -> list[Experiment]:
    """All runs of these slices, each once."""
    found = (
        run for need in needs for run in PLANS[need.study].experiments(profile, need.only, settings)
    )
    return list({run.key(): run for run in found}.values())


def count_of(needs: Iterable[Need], profile: Profile) -> int:
    """How many runs these slices are, each counted once."""
    return len(
        {
            (need.study, cell)
            for need in needs
            for cell in PLANS[need.study].cells(profile, need.only)
        }
    )


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
    runs = runs_of(needs, profile, settings)
    with executor, Driver(executor, out, watcher=watcher, again=again) as driver:
        driver.run(runs)
        recorded = driver.store.histories()
    about = {
        "command": command,
        "profile": profile,
        "settings": list(settings),
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
    }
    more = len(recorded) > len(runs)  # from an earlier command
    studies = {}
    for name in dict.fromkeys(need.study for need in needs):
        slices = [Need(name)] if more else [need for need in needs if need.study == name]
        wanted = runs_of(slices, profile, settings)
        if study := _study(PLANS[name], about, _those(wanted, recorded)):
            path = out / DATA / f"{name}.json"
            if PLANS[name].constants:
                known = None if again else _kept_constants(path)
                constants = measured_problems(wanted, device=device, known=known, tell=tell)
                study = replace(study, constants=constants)
            study.save(path)
            studies[name] = study
    return studies


def _kept_constants(path: Path) -> "pd.DataFrame | None":
    try:
        return Study.load(path).constants
    except RecordsError:
        return None


def _those(runs: Iterable[Experiment], recorded: Iterable[Recorded]) -> list[Recorded]:
    by_key = {run.experiment.key(): (run, history) for run, history in recorded}
    return [by_key[run.key()] for run in runs if run.key() in by_key]


def _study(plan: Plan, about: dict[str, Any], found: Sequence[Recorded]) -> Study | None:
    ended = [(run, history) for run, history in found if run.status in ("finished", DIVERGED)]
    if not ended:
        return None
    told = about | _provenance([run for run, _ in found])
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


def kept_studies(*folders: Path) -> dict[str, Study]:
    """The studies that folders keep, joined where several files are of one study."""
    found: dict[str, list[Study]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            study = Study.load(path)
            found.setdefault(study.name, []).append(study)
    if not found:
        raise RecordsError(
            f"there are no studies in {', '.join(map(str, folders))}. Make some: skerry reproduce "
            "table3 --out DIR; they are then in DIR/data."
        )
    return {name: joined(parts) for name, parts in found.items()}
