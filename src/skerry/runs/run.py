"""`skerry.run`: experiments in, results out. The command line calls the same function."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.analysis.results import Results, results_of
from skerry.config.experiment import Experiment
from skerry.config.toml import read_tables
from skerry.engine.world import Materials
from skerry.errors import SkerryError, argument
from skerry.plugins import registry
from skerry.runs.determinism import torch_is_deterministic
from skerry.runs.driver import Driver
from skerry.runs.executors.executor import Executor, open_executor
from skerry.runs.executors.ranks import Ranks, is_first, is_rank, refuse_on_ranks
from skerry.runs.materials import given_experiments, given_materials, given_sweep
from skerry.runs.progress import KeepsModels, Together, Watcher
from skerry.runs.stages import first_runs, further_runs
from skerry.runs.sweep import Sweep
from skerry.runs.tracking import Tracker, open_trackers
from skerry.runs.variants import Compared, expand

if TYPE_CHECKING:
    from skerry.data.sources.catalog import Dataset
    from skerry.runs.materials import Given

Asked = Experiment | Sweep | Sequence[Experiment]


def run(
    experiment: Asked | str | Path,
    *,
    compare: Compared | Sequence[Compared] = (),
    seeds: int | None = None,
    out: str | Path | None = None,
    again: bool = False,
    keep_going: bool | None = None,
    graph: "Given" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    device: str = "auto",
    executor: str | Callable[..., Any] | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
    watcher: Watcher | None = None,
    progress: bool | None = None,
    keep_models: bool = False,
    keep_devices: bool = False,
    trackers: Sequence[str | type[Tracker] | Tracker] = (),
    checkpoint_seconds: float | None = None,
    deterministic: bool = False,
) -> Results:
    """Run an experiment, several of them, or a sweep; or the file that holds one. Runs that share a
    world go side by side, as lanes of one array.

    `compare` names primitives (`["s2s", "s2a", "blend:0.25"]`) or presets, or has primitives of
    yours themselves (`["s2s", halfway]`); `seeds` says how many seeds; a sweep has both already.
    With `out` everything is recorded in that folder: runs finished there before are not computed
    again (unless `again`), interrupted ones go on. `graph`, `dataset` and `model` take the place of
    what the experiment names: a networkx graph, arrays (x_train, y_train, x_test, y_test), a
    function that returns an nn.Module. A list of graphs has one for each round, again and again; in
    a dict, each holds from its round on.

    `executor` says where it is computed: here, processes (with `workers`), ray (at `ray_address`),
    or your own. A run that fails ends all, unless they may `keep_going`, as those of a sweep do:
    then it is recorded as failed, with the reason. `trackers` names what else is told of the runs
    that are computed: tensorboard, mlflow, wandb, or your own.

    `progress` shows how far the runs are: unless told otherwise, on a terminal and in a notebook,
    where no `watcher` does it. `keep_models` and `keep_devices` keep what every device has and
    scores at the end: `results[0].models`, `results[0].devices`.

    `deterministic` runs repeat to the bit on machines of one type, whatever is computed beside them
    and wherever. They are computed one by one, each on one thread: that takes longer.

    Under `torchrun` the processes that it starts compute every run together, each with a share of
    the devices; the first one records, and gets the results. The others get none.
    """
    asked = _read(experiment) if isinstance(experiment, str | Path) else experiment
    materials = given_materials(graph, dataset, model)
    if isinstance(asked, Sweep):
        if compare or seeds is not None:
            raise SkerryError(
                "a sweep names its primitives and seeds itself (got compare or seeds). Set them in "
                'its file: "server.primitive" = [...] in [sweep.axes], seeds = ... in [sweep].'
            )
        asked = given_sweep(asked, materials)
        first = first_runs(asked)
    else:
        first = _experiments(asked, materials, compare, 1 if seeds is None else seeds)
    elsewhere = executor is not None or (workers or 1) > 1 or ray_address or is_rank()
    if keep_models and elsewhere:
        raise SkerryError(
            "models stay where they are computed (got an executor, workers or ranks with "
            f"{argument('keep_models')}). Leave those out: runs are computed in this process."
        )
    if is_rank():
        _check_for_ranks(asked, first, executor or workers or ray_address)
    models, tracking = KeepsModels(), open_trackers(trackers, out) if is_first() else []
    records = nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-")
    with (
        torch_is_deterministic(deterministic),
        records as folder,
        _place(executor, device, workers, ray_address, materials) as place,
        _shown(progress if watcher is None and is_first() else False) as shown,
        Driver(
            place,
            Path(folder),
            watcher=_together(watcher, shown, models if keep_models else None),
            materials=materials,
            trackers=tracking,
            again=again,
            keep_going=isinstance(asked, Sweep) if keep_going is None else keep_going,
            checkpoint_seconds=checkpoint_seconds,
            deterministic=deterministic,
        ) as driver,
    ):
        if isinstance(place, Ranks) and not place.is_first:
            place.follow()
            return Results(())
        found = _computed(driver, first)
        further = further_runs(asked, found) if isinstance(asked, Sweep) else []
        results = Results((*found, *_computed(driver, further))) if further else found
        tables = {lane.key: driver.store.devices(lane.key) for lane in results if keep_devices}
        return results.keeping(models=models.models, devices=tables)


def _shown(progress: bool | None) -> AbstractContextManager[Watcher | None]:
    """What shows how far runs are, where somebody looks."""
    looked_at = sys.stderr.isatty() or "IPython" in sys.modules
    if progress is False or (progress is None and not looked_at):
        return nullcontext()
    shown: AbstractContextManager[Watcher | None] = registry.view("progress")(progress)
    return shown


def _together(*watchers: Watcher | None) -> Watcher | None:
    there = [watcher for watcher in watchers if watcher is not None]
    return Together(*there) if len(there) > 1 else next(iter(there), None)


def _place(
    executor: str | Callable[..., Any] | None,
    device: str,
    workers: int | None,
    ray_address: str | None,
    materials: Materials,
) -> Executor:
    if is_rank():
        return Ranks(device=device, materials=materials)
    return open_executor(
        executor, device=device, workers=workers, address=ray_address, materials=materials
    )


def _check_for_ranks(asked: Asked, runs: Sequence[Experiment], executor: object) -> None:
    if isinstance(asked, Sweep) or executor:
        raise SkerryError(
            "ranks compute one run after the other, all on the same one (got a sweep or another "
            f"executor). Run a sweep without them: its runs are shared by {argument('workers')}."
        )
    refuse_on_ranks(runs)


def _read(path: str | Path) -> Experiment | Sweep:
    tables = read_tables(path)
    return Sweep.parse(tables) if "sweep" in tables else Experiment.parse(tables)


def _experiments(
    asked: Experiment | Sequence[Experiment],
    materials: Materials,
    compare: Compared | Sequence[Compared],
    seeds: int,
) -> list[Experiment]:
    names = compare.split(",") if isinstance(compare, str) else compare
    names = [names] if callable(names) else names
    given = given_experiments([asked] if isinstance(asked, Experiment) else asked, materials)
    experiments = [one for each in given for one in expand(each, names, seeds)]
    if not experiments:
        raise SkerryError(
            f"there is nothing to run (got {seeds} seeds). Give an experiment and at least 1 seed."
        )
    return experiments


def _computed(driver: Driver, experiments: Sequence[Experiment]) -> Results:
    keys = driver.run(experiments)
    found = results_of(driver.store, keys)
    # A run may be recorded under another name than it is asked for by now.
    asked = {key: one.server.name for key, one in zip(keys, experiments, strict=True)}
    return Results(tuple(lane.named(asked[lane.key]) for lane in found))
