"""`skerry.run`, which the command line calls too: run experiments and return their results."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from skerry.analysis.results import Results, results_of
from skerry.config.experiment import Experiment
from skerry.config.toml import read_tables, toml_value
from skerry.engine.world import Materials
from skerry.errors import SkerryError, argument
from skerry.files import user_path, written
from skerry.plugins import registry
from skerry.runs.driver import Driver
from skerry.runs.executors.executor import open_executor
from skerry.runs.executors.ranks import Ranks, is_first, is_rank, refuse_on_ranks
from skerry.runs.materials import collect_materials, sweep_with_materials, with_materials
from skerry.runs.process import deterministic_torch
from skerry.runs.progress import ModelKeeper, Progress, ProgressGroup
from skerry.runs.stages import first_runs, further_runs
from skerry.runs.sweep import Sweep
from skerry.runs.tracking import Tracker, TrackerProgress, open_trackers
from skerry.runs.variants import Compared, expand

if TYPE_CHECKING:
    from skerry.data.sources.catalog import Dataset
    from skerry.runs.materials import Given

Asked = Experiment | Sweep | list[Experiment]
Runnable = Experiment | Sweep | Sequence[Experiment | str | Path]


def run(
    experiment: Runnable | str | Path,
    *,
    compare: Compared | Sequence[Compared] = (),
    seeds: int | None = None,
    stop: str | Callable[..., Any] | None = None,
    out: str | Path | None = None,
    again: bool = False,
    keep_going: bool | None = None,
    graph: "Given" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    weights: "Mapping[str, Any] | str | Path | None" = None,
    device: str = "auto",
    executor: str | Callable[..., Any] | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
    progress: Progress | bool | None = None,
    keep_models: bool = False,
    keep_devices: bool = False,
    trackers: Sequence[str | type[Tracker] | Tracker] = (),
    checkpoint_seconds: float | None = None,
    deterministic: bool = False,
) -> Results:
    """Run an experiment, a list of experiments, a sweep, or the file of one, and return the
    results. Runs that share a world are computed together, as lanes of one array.

    `compare` names primitives (`["s2s", "s2a", "blend:0.25"]`) or presets, or contains functions of
    your own (`["s2s", halfway]`); `seeds` is the number of seeds; a sweep has both already. With
    `out` everything is recorded in that folder: finished runs are not computed again (unless
    `again`), and interrupted ones resume. `graph`, `dataset` and `model` replace what the
    experiment names: a networkx graph, arrays (x_train, y_train, x_test, y_test), a function that
    returns an nn.Module. A list of graphs is repeated round by round; in a dict, each graph holds
    from its round on. `weights` are the initial ones: a state dict or its .safetensors file for all
    devices, or a dict with one for each device by name.

    `stop` ends runs before their last round: a rule such as "average_accuracy >= 90 or no gain in
    20 rounds", or a function `(values) -> reason or None` that is called after every evaluation of
    a run. Such runs are finished, and their `note` says after which round and why.

    `executor` chooses where runs are computed: here, processes (with `workers`), ray (at
    `ray_address`), or your own. The first error of a run ends all runs, unless `keep_going` (the
    default of a sweep) records it and continues. `trackers` receive what is recorded: tensorboard,
    mlflow, wandb, or your own.

    `progress` is True for a progress bar (the default on a terminal and in a notebook), False for
    none, or your own `skerry.Progress` callback. `keep_models` and `keep_devices` keep the last
    models and evaluations of all devices: `results[0].model("average")` is an nn.Module,
    `results[0].models` an array, `results[0].devices` a table.

    `deterministic` runs repeat to the bit on machines of one type, whatever else is computed. They
    are computed one by one, each on one thread, which takes longer.

    Under `torchrun` all of its processes compute every run together, each with a share of the
    devices; the first one records the runs and returns the results, the others return none.
    """
    requested = _read(experiment)
    requested = requested if stop is None else _stopping(requested, stop)
    materials = collect_materials(graph, dataset, model, weights)
    if isinstance(requested, Sweep):
        if compare or seeds is not None:
            raise SkerryError(
                "a sweep names its primitives and seeds itself (got compare or seeds). Set them in "
                'its file: "server.primitive" = [...] in [sweep.axes], seeds = ... in [sweep].'
            )
        requested = sweep_with_materials(requested, materials)
        first = first_runs(requested)
    else:
        first = _experiments(requested, materials, compare, 1 if seeds is None else seeds)
    elsewhere = executor not in (None, "here") or (workers or 1) > 1 or ray_address or is_rank()
    if keep_models and elsewhere:
        raise SkerryError(
            "models stay where they are computed (got an executor, workers or ranks with "
            f"{argument('keep_models')}). Leave those out: runs are computed in this process."
        )
    if is_rank():
        if isinstance(requested, Sweep) or executor or workers or ray_address:
            raise SkerryError(
                "with ranks, all processes work on one run at a time (got a sweep or "
                "another executor). Run a sweep without them: its runs are shared by "
                f"{argument('workers')}."
            )
        refuse_on_ranks(first)
    models = ModelKeeper(None if out is None else Path(out))
    tracking = open_trackers(trackers, out) if is_first() else []
    records = nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-")
    with (
        _progress_bar(progress if is_first() else False) as shown,
        deterministic_torch(deterministic),
        records as folder,
        Ranks(device=device, materials=materials)
        if is_rank()
        else open_executor(
            executor, device=device, workers=workers, address=ray_address, materials=materials
        ) as place,
        Driver(
            place,
            Path(folder),
            progress=ProgressGroup(
                *(one for one in (progress, shown) if isinstance(one, Progress)),
                *([models] if keep_models else []),
                TrackerProgress(tracking),
            ),
            materials=materials,
            again=again,
            keep_going=isinstance(requested, Sweep) if keep_going is None else keep_going,
            checkpoint_seconds=checkpoint_seconds,
            deterministic=deterministic,
        ) as driver,
    ):
        if isinstance(place, Ranks) and not is_first():
            place.follow()
            return Results(())
        results = _read_results(driver, first, driver.run(first))
        further = further_runs(requested, results) if isinstance(requested, Sweep) else []
        if further:
            more = _read_results(driver, further, driver.run(further))
            results = Results((*results, *more))
        scores = {lane.key: driver.store.devices(lane.key) for lane in results if keep_devices}
        given = {lane.key: materials for lane in results if keep_models}
        return results.keeping(models=models.models, devices=scores, materials=given)


def _read(asked: Runnable | str | Path) -> Asked:
    """The request with experiments and sweeps in place of the names of their files."""
    if isinstance(asked, str | Path):
        tables = read_tables(asked)
        return Sweep.parse(tables) if "sweep" in tables else Experiment.parse(tables)
    if isinstance(asked, Experiment | Sweep):
        return asked
    found = [_read(one) for one in asked] if isinstance(asked, Iterable) else [asked]
    if wrong := [one for one in found if not isinstance(one, Experiment)]:
        raise SkerryError(
            "run takes an experiment, a sweep, the file of one, or a list of experiments and their "
            f"files (got {type(wrong[0]).__name__}). Run a sweep by itself."
        )
    return _with_distinct_paths([one for one in found if isinstance(one, Experiment)])


def _with_distinct_paths(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Give the full path where the files of two experiments mean different files by one path."""
    known: dict[tuple[str, str], Path] = {}
    found = []
    for one in experiments:
        for field, text in one.paths().items():
            place = user_path(text).absolute()
            if known.setdefault((field, written(text)), place) != place:
                one = one.with_settings(f"{field}={toml_value(str(place))}")
        found.append(one)
    return found


def _stopping(requested: Asked, stop: str | Callable[..., Any]) -> Asked:
    if isinstance(requested, Experiment):
        return requested.replace(stop=stop)
    if isinstance(requested, Sweep):
        points = [point.experiment.replace(stop=stop) for point in requested.points]
        return requested.with_experiments(points)
    return [one.replace(stop=stop) for one in requested]


def _progress_bar(progress: Progress | bool | None) -> AbstractContextManager[Progress | None]:
    """The built-in progress display, where one is wanted."""
    has_viewer = sys.stderr.isatty() or "IPython" in sys.modules
    if isinstance(progress, Progress) or not (has_viewer if progress is None else progress):
        return nullcontext()
    shown: AbstractContextManager[Progress | None] = registry.view("progress")(progress)
    return shown


def _experiments(
    requested: Experiment | Sequence[Experiment],
    materials: Materials,
    compare: Compared | Sequence[Compared],
    seeds: int,
) -> list[Experiment]:
    names = compare.split(",") if isinstance(compare, str) else compare
    names = [names] if callable(names) else names
    requested = [requested] if isinstance(requested, Experiment) else requested
    complete = with_materials(requested, materials)
    experiments = [one for each in complete for one in expand(each, names, seeds)]
    if not experiments:
        raise SkerryError(
            f"there is nothing to run (got {seeds} seeds). Give an experiment and at least 1 seed."
        )
    return experiments


def _read_results(driver: Driver, asked: Sequence[Experiment], keys: Sequence[str]) -> Results:
    found = zip(results_of(driver.store, keys), asked, strict=True)
    # A run may be recorded under another name, or with its files in another folder.
    return Results(tuple(lane.as_asked(one) for lane, one in found))
