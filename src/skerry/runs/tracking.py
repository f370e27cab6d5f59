"""Trackers: experiment trackers such as TensorBoard that receive what a store records.

A tracker is a class or function that takes the folder of the records and returns an object with the
methods of `Tracker`. It receives rows after they are recorded: a run that resumes from a checkpoint
may repeat some rounds, from the checkpoint on. TensorBoard, MLflow and Weights & Biases are extras,
imported when requested; all write to the folder of the records, and none needs a network.
"""

import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from skerry.analysis.names import flat_fields
from skerry.errors import SkerryError, SkerryWarning, argument, one_line
from skerry.plugins import registry
from skerry.records.store import Run, Status
from skerry.runs.progress import Progress

Columns = Mapping[str, Sequence[float]]


class Tracker(Protocol):
    """Receives the rows of runs as they are recorded."""

    def rows(self, run: Run, columns: Columns) -> None:
        """Further rounds: "round" and each measure as a column, NaN where not measured."""

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        """The run has ended: the last value of each measure (NaN: never measured)."""

    def close(self) -> None:
        """No further calls follow; runs that have not ended may be resumed another time."""


def open_trackers(
    names: Sequence[str | type[Tracker] | Tracker], folder: Path | str | None
) -> list[Tracker]:
    """Create trackers that write to `folder`. A missing library raises SkerryError at once."""
    if names and folder is None:
        raise SkerryError(f"trackers write beside the records. Give a folder: {argument('out')}.")
    return [
        _open_tracker(name, Path(folder or "")) if isinstance(name, str | type) else name
        for name in names
    ]


def _open_tracker(name: str | type[Tracker], folder: Path) -> Tracker:
    factory: Any = name if isinstance(name, type) else registry.resolve("tracker", name)
    with registry.users_own("tracker", name if isinstance(name, str) else name.__qualname__):
        tracker: Tracker = factory(folder)
    return tracker


class TrackerProgress(Progress):
    """Passes recorded rows to trackers; one that fails is dropped, and the runs continue."""

    def __init__(self, trackers: Sequence[Tracker]):
        self._trackers = list(trackers)
        self.wants_rows = bool(trackers)

    def recorded(self, run: Run, columns: Mapping[str, Any]) -> None:
        plain = {name: np.asarray(column).tolist() for name, column in columns.items()}
        self._call_each("rows", run, plain)

    def run_ended(self, run: Run, final: Mapping[str, float]) -> None:
        self._call_each("finish", run, run.status, final)

    def close(self) -> None:
        self._call_each("close")

    def _call_each(self, method: str, *values: Any) -> None:
        for tracker in list(self._trackers):
            try:
                getattr(tracker, method)(*values)
            except Exception as error:
                self._trackers.remove(tracker)
                warnings.warn(
                    f"the tracker {type(tracker).__name__} failed and is left out from here on "
                    f"({one_line(error)}); the records are complete",
                    SkerryWarning,
                    stacklevel=3,
                )


def _title(run: Run) -> str:
    """The name of a run in a list of runs: `s2s seed 3`."""
    return f"{run.experiment.server.label} seed {run.experiment.seed}"


def _points(columns: Columns) -> Iterator[tuple[int, dict[str, float]]]:
    """Every round with its finite measures."""
    for index, round_ in enumerate(columns["round"]):
        values = {name: float(v[index]) for name, v in columns.items() if name != "round"}
        yield int(round_), {name: v for name, v in values.items() if math.isfinite(v)}


def _import_extra(extra: str, module: str) -> Any:
    """Import a module of an extra; raises SkerryError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SkerryError(
            f"tracker '{extra}' needs a package that is not here ({one_line(error)}). Install it: "
            f"pip install 'skerry[{extra}]'"
        ) from None


class TensorBoard:
    """A folder of event files per run: `tensorboard --logdir DIR/tensorboard`."""

    def __init__(self, folder: Path):
        self._writer = _import_extra("tensorboard", "torch.utils.tensorboard").SummaryWriter
        self._folder = folder / "tensorboard"

    def rows(self, run: Run, columns: Columns) -> None:
        start = int(columns["round"][0])
        _wait_for_another_second(self._path(run))
        # Files are not kept open: a stack may have hundreds of lanes. purge_step hides what was
        # written of these rounds before an interruption.
        with self._writer(str(self._path(run)), purge_step=start) as writer:
            if start == 0:
                toml = run.experiment.to_toml().replace("\n", "\n    ")
                writer.add_text("experiment", f"    {toml}", 0)
            for round_, values in _points(columns):
                for name, value in values.items():
                    writer.add_scalar(name, value, round_)

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        measured = {f"final/{name}": value for name, value in final.items() if math.isfinite(value)}
        with self._writer(str(self._path(run))) as writer:
            writer.add_hparams(
                flat_fields(run.experiment) | {"status": status}, measured, run_name="."
            )

    def close(self) -> None:
        pass

    def _path(self, run: Run) -> Path:
        return self._folder / f"{_title(run).replace(' ', '-').replace(':', '.')}-{run.key[:8]}"


def _wait_for_another_second(folder: Path) -> None:
    """Wait until a new event file gets a second of its own: readers sort files by the second in
    their names, and those of one second by a counter as text, 10 before 9."""
    seconds = (file.name.split(".")[3] for file in folder.glob("events.out.tfevents.*"))
    newest = max(map(int, seconds), default=0)
    time.sleep(max(0.0, newest + 1 - time.time()))


class MLflow:
    """An SQLite file: `mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db`. A server that the
    environment names (MLFLOW_TRACKING_URI) is used instead."""

    BATCH = 1000  # MLflow takes no more metrics at once

    def __init__(self, folder: Path):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would use the network
        _import_extra("mlflow", "sqlalchemy")  # mlflow-skinny comes without
        self._mlflow = _import_extra("mlflow", "mlflow")
        self._folder = folder.absolute()
        self._client: Any = None
        self._ids: dict[str, str] = {}

    def rows(self, run: Run, columns: Columns) -> None:
        if run.key not in self._ids:
            self._ids[run.key] = self._start(run, new=columns["round"][0] == 0)
        now = int(1000 * time.time())
        metrics = [
            self._mlflow.entities.Metric(name, value, now, round_)
            for round_, values in _points(columns)
            for name, value in values.items()
        ]
        for start in range(0, len(metrics), self.BATCH):
            batch = metrics[start : start + self.BATCH]
            self._client.log_batch(self._ids[run.key], metrics=batch)

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        if (known := self._ids.pop(run.key, None)) is not None:
            self._client.set_tag(known, "skerry.status", status)
            self._client.set_terminated(known, "FINISHED" if status == "finished" else "FAILED")

    def close(self) -> None:
        self._ids.clear()

    def _start(self, run: Run, new: bool) -> str:
        """The id of MLflow's run: an interrupted run continues, a new one replaces an older one."""
        experiment = self._experiment(run.experiment.name)
        query = f"tags.`skerry.key` = '{run.key}'"
        for older in self._client.search_runs([experiment], query):
            if not new:
                return str(older.info.run_id)
            self._client.delete_run(older.info.run_id)
        tags = {"skerry.key": run.key}
        created = self._client.create_run(experiment, run_name=_title(run), tags=tags).info.run_id
        params = [
            self._mlflow.entities.Param(name, str(v))
            for name, v in flat_fields(run.experiment).items()
        ]
        self._client.log_batch(created, params=params)
        return str(created)

    def _experiment(self, name: str) -> str:
        if self._client is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            local = f"sqlite:///{self._folder / 'mlflow.db'}"
            self._client = self._mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", local))
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        artifacts = (self._folder / "mlflow-artifacts").as_uri()
        return str(self._client.create_experiment(name, artifact_location=artifacts))


class WandB:
    """Weights & Biases, offline: `wandb sync DIR/wandb/offline-run-*` sends them when you like.
    Another mode that the environment names (WANDB_MODE) is used instead."""

    def __init__(self, folder: Path):
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it would use the network
        self._wandb = _import_extra("wandb", "wandb")
        self._folder = folder
        self._runs: dict[str, Any] = {}

    def rows(self, run: Run, columns: Columns) -> None:
        if run.key not in self._runs:
            self._runs[run.key] = self._start(run)
        for round_, values in _points(columns):
            self._runs[run.key].log(values, step=round_)

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        if (known := self._runs.pop(run.key, None)) is not None:
            finite = {name: value for name, value in final.items() if math.isfinite(value)}
            known.summary.update(finite | {"status": status})
            known.finish(exit_code=0 if status == "finished" else 1)

    def close(self) -> None:
        for run in self._runs.values():
            run.finish(exit_code=1)
        self._runs.clear()
        self._wandb.teardown()

    def _start(self, run: Run) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True)
        quiet = self._wandb.Settings(
            silent=True, console="off", save_code=False, disable_git=True, x_disable_stats=True
        )
        return self._wandb.init(
            project="skerry",
            group=run.experiment.name,
            name=_title(run),
            id=run.key,
            config=run.experiment.as_written("json"),
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",
            settings=quiet,
        )
