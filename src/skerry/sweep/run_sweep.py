"""`skerry.run_sweep`: a grid of runs in, results out. The command line calls the same function."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from skerry import registry
from skerry.experiment import Experiment
from skerry.sweep.run import Results, Watcher, results
from skerry.sweep.sweep_file import Sweep
from skerry.sweep.tracking import Tracker, open_trackers
from skerry.sweep.tuning import first_runs, further_runs

if TYPE_CHECKING:
    from skerry.sweep.executors import Executor


def run_sweep(
    sweep: Sweep | str | Path,
    *,
    out: str | Path | None = None,
    executor: str | None = None,
    workers: int | None = None,
    device: str = "auto",
    ray_address: str | None = None,
    again: bool = False,
    watcher: Watcher | None = None,
    trackers: Sequence[str | Tracker] = (),
    checkpoint_seconds: float | None = None,
) -> Results:
    """Run a sweep, or the sweep that a file describes.

    With `out` everything is recorded in that folder: finished runs are not computed again (unless
    `again`), interrupted ones go on. A run that fails is recorded as failed, with the reason, and
    does not stop the others. `executor` is here, processes (with `workers`), ray, or your own.
    """
    from skerry.sweep.driver import Manner, driven

    asked = sweep if isinstance(sweep, Sweep) else Sweep.load(sweep)
    manner = Manner(again, checkpoint_seconds=checkpoint_seconds)
    watcher = watcher or Watcher()

    def computed(experiments: Sequence[Experiment]) -> Results:
        tracking = open_trackers(trackers, out)
        with driven(experiments, place, folder, watcher, manner, tracking=tracking) as done:
            return results(*done)

    place = open_executor(executor, workers, device, ray_address)
    records = nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-")
    with records as name, place:
        folder = Path(name)
        found = computed(first_runs(asked))
        further = further_runs(asked, found)
        return Results((*found, *computed(further))) if further else found


def open_executor(
    name: str | None, workers: int | None, device: str, ray_address: str | None
) -> "Executor":
    """The named executor; without a name, the one that the other options speak of."""
    if name is None:
        name = "ray" if ray_address else "processes" if (workers or 1) > 1 else "here"
    make = registry.resolve("executor", name)
    with registry.users_own("executor", name):
        made: Executor = make(device=device, workers=workers, address=ray_address)
    return made
