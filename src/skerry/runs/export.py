"""Final models of recorded runs: those that were kept, or computed again and compared."""

from pathlib import Path
from typing import TYPE_CHECKING

from skerry.analysis.results import Lane, read_studies
from skerry.errors import SkerryError, argument
from skerry.plugins.registry import GIVEN
from skerry.records.final_models import FinalModels
from skerry.records.store import models_file
from skerry.runs.process import was_deterministic
from skerry.runs.progress import Progress
from skerry.runs.run import run

if TYPE_CHECKING:
    from skerry.config.experiment import Experiment

MOST_LISTED = 6
TOLERANCE = 0.01
"""The largest relative difference of a measure of the average model that is ascribed to rounding:
a run alone sums in another order than a run among other lanes, or on another machine."""


def find_run(folder: Path, prefix: str) -> Lane:
    """The finished run of a store whose key begins with the prefix."""
    lanes = [lane for results in read_studies(folder) for lane in results]
    found = [lane for lane in lanes if lane.key.startswith(prefix) and lane.status == "finished"]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(
        f"{lane.key} ({lane.label}, seed {lane.experiment.seed}, {lane.status})"
        for lane in (found or lanes)[:MOST_LISTED]
    )
    more = ", ..." if len(found or lanes) > MOST_LISTED else ""
    wanted = f"that begins with '{prefix}'" if prefix else ""
    raise SkerryError(
        f"RUN must name one finished run of {folder}, by the start of its key (got "
        f"{len(found)} {wanted}".rstrip()
        + f"). There are {listed or 'none'}{more}."
    )


def final_models(folder: Path, lane: Lane, progress: Progress | None = None) -> FinalModels:
    """The models of a run; computed again if they were not kept."""
    if models_file(folder, lane.key).exists():
        return FinalModels.load(folder, lane.key)
    if given := _given(lane.experiment):
        raise SkerryError(
            f"the models of run {lane.key} were not kept, and it cannot be computed again from the "
            f"store: its {given} came from Python. Call skerry.run(..., keep_models=True, "
            "again=True) there."
        )
    alone = lane.run is not None and was_deterministic(lane.run.versions)
    (again,) = run(lane.experiment, keep_models=True, deterministic=alone, progress=progress)
    if again.key != lane.key:
        raise SkerryError(
            f"run {lane.key} cannot be computed again: its graph, data, weights or code have "
            "changed since. Restore them."
        )
    _check_same(lane, again)
    models: FinalModels = again.kept["models"]
    return models


def _given(experiment: "Experiment") -> str | None:
    """The part of an experiment that came from Python, if any."""
    parts = {
        "graph": experiment.network.topology,
        "dataset": experiment.data.dataset,
        "model": experiment.model.name,
        "weights": experiment.model.weights,
    }
    return next((name for name, value in parts.items() if value == GIVEN), None)


def _check_same(lane: Lane, again: Lane) -> None:
    """Raise unless a run that was computed again ends where the recorded one did."""
    if again.status != lane.status:
        raise SkerryError(f"computed again, run {lane.key} has {again.status}.")
    for name, value in lane.final.items():
        fresh = again.final.get(name, value)
        if name.startswith("average_") and abs(fresh - value) > TOLERANCE * abs(value):
            raise SkerryError(
                f"computed again, run {lane.key} ends at {name} = {fresh:.6g}, recorded is "
                f"{value:.6g}: this machine or version computes it differently. Run it again with "
                f"{argument('keep_models')}."
            )
