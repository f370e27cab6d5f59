"""The trackers: TensorBoard, MLflow and Weights & Biases. Each is an extra, imported when asked
for; all write to the folder of the records, and none needs a network."""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from skerry.analysis.names import flat_fields
from skerry.errors import SkerryError, one_line
from skerry.records.store import Run, Status

Columns = Mapping[str, Sequence[float]]


def title(run: Run) -> str:
    """`s2s seed 3`: what a run is called in a list of runs."""
    return f"{run.experiment.server.label} seed {run.experiment.seed}"


def points(columns: Columns) -> Iterator[tuple[int, dict[str, float]]]:
    """Every round with the measures that it has."""
    for place, round_ in enumerate(columns["round"]):
        values = {name: float(v[place]) for name, v in columns.items() if name != "round"}
        yield int(round_), {name: v for name, v in values.items() if math.isfinite(v)}


def library(extra: str, module: str) -> Any:
    """A module of an extra; where it is missing, the line says how to get it."""
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
        self._writer = library("tensorboard", "torch.utils.tensorboard").SummaryWriter
        self._folder = folder / "tensorboard"

    def rows(self, run: Run, columns: Columns) -> None:
        start = int(columns["round"][0])
        _wait_for_another_second(self._place(run))
        # Files are not held open: a stack may have hundreds of lanes. What was written of these
        # rounds before an interruption is hidden from here on.
        with self._writer(str(self._place(run)), purge_step=start) as writer:
            if start == 0:
                toml = run.experiment.to_toml().replace("\n", "\n    ")
                writer.add_text("experiment", f"    {toml}", 0)
            for round_, values in points(columns):
                for name, value in values.items():
                    writer.add_scalar(name, value, round_)

    def finish(self, run: Run, status: Status, final: Mapping[str, float]) -> None:
        measured = {f"final/{name}": value for name, value in final.items() if math.isfinite(value)}
        with self._writer(str(self._place(run))) as writer:
            writer.add_hparams(
                flat_fields(run.experiment) | {"status": status}, measured, run_name="."
            )

    def close(self) -> None:
        pass

    def _place(self, run: Run) -> Path:
        return self._folder / f"{title(run).replace(' ', '-').replace(':', '.')}-{run.key[:8]}"


def _wait_for_another_second(folder: Path) -> None:
    """Readers order a run's event files by the second in their names, and those of one second by a
    counter that they take for text, 10 before 9: no two files may share a second."""
    seconds = (file.name.split(".")[3] for file in folder.glob("events.out.tfevents.*"))
    newest = max(map(int, seconds), default=0)
    time.sleep(max(0.0, newest + 1 - time.time()))


class MLflow:
    """An SQLite file: `mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db`. A server that the
    environment names (MLFLOW_TRACKING_URI) is used instead."""

    BATCH = 1000  # MLflow takes no more metrics at once

    def __init__(self, folder: Path):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would ask the network
        library("mlflow", "sqlalchemy")  # mlflow-skinny comes without
        self._mlflow = library("mlflow", "mlflow")
        self._folder = folder.absolute()
        self._client: Any = None
        self._ids: dict[str, str] = {}

    def rows(self, run: Run, columns: Columns) -> None:
        if run.key not in self._ids:
            self._ids[run.key] = self._start(run, afresh=columns["round"][0] == 0)
        now = int(1000 * time.time())
        metrics = [
            self._mlflow.entities.Metric(name, value, now, round_)
            for round_, values in points(columns)
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

    def _start(self, run: Run, afresh: bool) -> str:
        """A run that was interrupted goes on; one that begins takes the place of an older."""
        experiment = self._experiment(run.experiment.name)
        query = f"tags.`skerry.key` = '{run.key}'"
        for older in self._client.search_runs([experiment], query):
            if not afresh:
                return str(older.info.run_id)
            self._client.delete_run(older.info.run_id)
        tags = {"skerry.key": run.key}
        fresh = self._client.create_run(experiment, run_name=title(run), tags=tags).info.run_id
        params = [
            self._mlflow.entities.Param(name, str(v))
            for name, v in flat_fields(run.experiment).items()
        ]
        self._client.log_batch(fresh, params=params)
        return str(fresh)

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
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it would ask the network
        self._wandb = library("wandb", "wandb")
        self._folder = folder
        self._runs: dict[str, Any] = {}

    def rows(self, run: Run, columns: Columns) -> None:
        if run.key not in self._runs:
            self._runs[run.key] = self._start(run)
        for round_, values in points(columns):
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
            name=title(run),
            id=run.key,
            config=run.experiment.model_dump(mode="json"),
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            reinit="create_new",
            settings=quiet,
        )
