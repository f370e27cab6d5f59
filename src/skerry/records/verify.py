"""Whether a store holds what was written to it: its file, every run, every key."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skerry.config.experiment import Experiment, Section
from skerry.errors import SkerryWarning
from skerry.records.damage import DamagedError
from skerry.records.parts import History
from skerry.records.reading import Run
from skerry.records.store import Store

# What is not checked of how many runs, and why.
NO_CHECKSUM = "the checksums of {} that an older version recorded"
OWN_CODE = "the keys of {} that count code of their own, which is not imported"
OLD_KEYS = "the keys of {} that an earlier version computed in another way"
OTHER_FIELDS = "the keys of {} that a version with other fields recorded"

THE_FILE = "the file"


@dataclass
class Findings:
    path: Path
    runs: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong, by the key of the run, or for the file as a whole."""
    not_checked: dict[str, list[str]] = field(default_factory=dict)
    """By reason, the keys of runs of which something could not be checked."""


def verify(folder: Path | str) -> Findings:
    """Look at everything, and import nothing that runs name."""
    try:
        with Store.read(folder) as store:
            return findings_of(store)
    except DamagedError as error:
        return Findings(Path(folder), faults={THE_FILE: error.reason})


def findings_of(store: Store) -> Findings:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkerryWarning)  # they are told below, each with its fault
        recorded = store.histories()
    found = Findings(store.path, len(recorded) + len(store.damaged), dict(store.damaged))
    unsealed = store.without_checksums()
    todays = store.has_todays_keys
    for run, history in recorded:
        if fault := _fault(run, history, todays) or _fault_of_devices(run, store):
            found.faults[run.key] = fault
            continue
        if run.key in unsealed:
            found.not_checked.setdefault(NO_CHECKSUM, []).append(run.key)
        for reason in _why_no_key(run.experiment) if todays else [OLD_KEYS]:
            found.not_checked.setdefault(reason, []).append(run.key)
    return found


def _fault(run: Run, history: History, todays: bool) -> str | None:
    """What is wrong with a run besides its checksums: with its rows, or with its key."""
    try:
        return _fault_of_rows(run, history) or (_fault_of_key(run) if todays else None)
    except (TypeError, ValueError, AttributeError) as error:  # a field that holds no such value
        return f"its experiment is none ({error})"


def _fault_of_rows(run: Run, history: History) -> str | None:
    rounds, evaluate = history["round"], run.experiment.evaluate
    last = int(rounds[-1]) if len(rounds) else 0
    if run.status == "finished" and last != run.experiment.rounds:
        return f"finished, but recorded up to round {last} of {run.experiment.rounds} only"
    evaluated = (rounds % evaluate.every == 0) & (rounds > evaluate.after)
    expected = max(0, last // evaluate.every - evaluate.after // evaluate.every)
    if missing := expected - int(evaluated.sum()):
        return f"{missing} rows are missing before round {last}"
    return None


def _fault_of_devices(run: Run, store: Store) -> str | None:
    try:
        store.devices(run.key)
    except DamagedError as error:
        return error.reason
    return None


def _fault_of_key(run: Run) -> str | None:
    if any(True for _ in _why_no_key(run.experiment)):
        return None
    key = run.experiment.key(run.materials)
    return f"its experiment and materials belong to run {key}" if key != run.key else None


def _why_no_key(experiment: Experiment) -> Iterator[str]:
    """Why the key cannot be computed from the text of an experiment."""
    if any(True for _ in experiment.users_own()):
        yield OWN_CODE
    elif not all(_tells_all(section) for section in (experiment, *_sections(experiment))):
        yield OTHER_FIELDS


def _sections(experiment: Experiment) -> Iterator[Section]:
    return (value for _, value in experiment if isinstance(value, Section))


def _tells_all(section: Section) -> bool:
    """A field that is not told has the default of today, which need not be that of then."""
    return section.model_fields_set >= type(section).model_fields.keys()
