"""`skerry.run`: experiments in, results out. The command line calls the same function."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry import labels
from skerry.errors import SkerryError, one_line, unknown
from skerry.experiment import Experiment
from skerry.measures import traits
from skerry.records.parts import History, last_values
from skerry.records.store import Run, Store
from skerry.sweep.given import given_experiments, given_materials
from skerry.sweep.grid import expand
from skerry.sweep.statistics import estimate
from skerry.sweep.tracking import Tracker, open_trackers

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from skerry.data.catalog import Dataset
    from skerry.engine.simulate import Moment
    from skerry.engine.world import Materials, World
    from skerry.sweep.tasks import Task, Tick


@dataclass(frozen=True)
class Lane:
    """One run and what came of it."""

    key: str
    experiment: Experiment
    status: str
    final: dict[str, float]
    """The last value of every measure."""
    history: dict[str, np.ndarray]
    """`round` (rounds done) and one column per measure, NaN where it was not measured."""
    note: str = ""
    """Why it diverged or failed."""

    @property
    def label(self) -> str:
        return self.experiment.server.label

    def to_json(self, history: bool = True) -> dict[str, Any]:
        table: dict[str, Any] = {
            "key": self.key,
            "experiment": self.experiment.model_dump(mode="json"),
            "status": self.status,
            "final": {name: _plain(name, value) for name, value in self.final.items()},
        }
        if self.note:
            table["note"] = self.note
        if history:
            table["history"] = {
                name: [_plain(name, value) for value in values.tolist()]
                for name, values in self.history.items()
            }
        return table


@dataclass(frozen=True)
class Results(Sequence[Lane]):
    """The lanes of a study, in the order they were asked for."""

    lanes: tuple[Lane, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.lanes[index]

    def __len__(self) -> int:
        return len(self.lanes)

    def __repr__(self) -> str:
        seeds = len({lane.experiment.seed for lane in self.lanes})
        return f"<Results: {len(self)} lanes, {', '.join(self.labels())}, seeds: {seeds}>"

    def of(self, primitive: str) -> "Results":
        """Only the lanes of this primitive, such as "s2a", "blend:0.5" or "blend(0.5)"."""
        wanted = labels.meant(primitive, self.labels())
        return Results(tuple(lane for lane in self.lanes if lane.label == wanted))

    def labels(self) -> list[str]:
        return list(dict.fromkeys(lane.label for lane in self.lanes))

    def final(self, measure: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The final value in every lane (NaN where it was not measured)."""
        return np.array([lane.final.get(measure, np.nan) for lane in self.lanes])

    def frame(self) -> "pd.DataFrame":
        """All histories as one pandas frame: a row per lane and round."""
        import pandas as pd

        parts = [
            pd.DataFrame(
                {"key": lane.key, "label": lane.label, "seed": lane.experiment.seed} | lane.history
            )
            for lane in self.lanes
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def summary(self, *measures: str) -> "pd.DataFrame":
        """A row per label: mean over seeds of the final values, and half of the 95 % interval."""
        import pandas as pd

        there = dict.fromkeys(measure for lane in self for measure in lane.final)
        for measure in measures:
            if measure not in there:
                raise SkerryError(unknown("measure", measure, there))
        rows = {}
        for name in self.labels():
            lanes = self.of(name)
            rows[name] = {
                column: value
                for measure in measures or there
                for column, value in _mean_and_half(measure, lanes.final(measure))
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_json(self, histories: bool = True) -> dict[str, Any]:
        return {"lanes": [lane.to_json(histories) for lane in self.lanes]}


class Watcher:
    """What a caller may follow while runs are under way; every method may be left as it is."""

    def planned(self, experiments: Sequence[Experiment]) -> None:
        """All runs that were asked for."""

    def found_finished(self, experiments: Sequence[Experiment]) -> None:
        """Those of them that were recorded before."""

    def waiting(self, worlds: int) -> None:
        """Only worlds are left that another sweep works on."""

    def stack_begun(self, task: "Task") -> None: ...
    def tick(self, task: "Task", tick: "Tick") -> None: ...
    def stack_split(self, task: "Task") -> None: ...

    def stack_done(self, task: "Task", finals: Mapping[str, Mapping[str, float]]) -> None:
        """The last values of its runs, by key; none where they failed."""

    def failed(self, experiments: Sequence[Experiment], message: str) -> None: ...

    # Where the computing is done in this process:

    def world_ready(self, world: "World") -> None: ...
    def moment(self, moment: "Moment") -> None: ...


def run(
    experiment: Experiment | str | Path | Sequence[Experiment],
    *,
    compare: str | Sequence[str] = (),
    seeds: int = 1,
    device: str = "auto",
    out: str | Path | None = None,
    again: bool = False,
    graph: "nx.Graph[Any] | None" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    watcher: Watcher | None = None,
    trackers: Sequence[str | Tracker] = (),
) -> Results:
    """Run an experiment (or a file that holds one), or several; runs that share a world go side by
    side as lanes.

    `compare` names primitives (`["s2s", "s2a", "blend:0.25"]`), `seeds` how many seeds. With
    `out` everything is recorded in that folder, runs finished there before are not computed
    again (unless `again`), and interrupted ones go on. `graph`, `dataset` and `model` take the
    place of what the experiment names: a networkx graph, arrays (x_train, y_train, x_test,
    y_test), a function that returns an nn.Module. `trackers` names what else is told of the runs
    that are computed: tensorboard, mlflow, wandb, or your own.
    """
    from skerry.sweep.tasks import is_out_of_memory

    names = compare.split(",") if isinstance(compare, str) else compare
    materials = given_materials(graph, dataset, model)
    given = given_experiments(experiment, materials)
    experiments = [one for each in given for one in expand(each, names, seeds)]
    if not experiments:
        raise SkerryError(
            f"there is nothing to run (got {seeds} seeds). Give an experiment and at least 1 seed."
        )
    watcher = watcher or Watcher()
    tracking = open_trackers(trackers, out)
    with nullcontext(out) if out is not None else TemporaryDirectory(prefix="skerry-") as folder:
        try:
            return _run_in(Path(folder), experiments, materials, device, again, watcher, tracking)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise SkerryError(
                f"out of memory ({one_line(error)}). Lower network.devices or training.batch, take "
                "less data or a smaller model, or compare fewer primitives at once."
            ) from error


def _run_in(
    folder: Path,
    experiments: Sequence[Experiment],
    materials: "Materials",
    device: str,
    again: bool,
    watcher: Watcher,
    tracking: Sequence[Tracker],
) -> Results:
    from skerry.sweep.driver import Manner, driven
    from skerry.sweep.executors import Here

    manner = Manner(again=again, keep_going=False)
    with (
        Here(device=device, materials=materials) as executor,
        driven(experiments, executor, folder, watcher, manner, materials, tracking) as done,
    ):
        return results(*done)


def _mean_and_half(measure: str, values: Any) -> list[tuple[str, float]]:
    found = estimate(values)
    return [(measure, found.mean), (f"{measure} ±", found.half_width)]


def results(store: Store, keys: Iterable[str]) -> Results:
    """What is recorded of these runs, in their order."""
    wanted = dict.fromkeys(keys)
    lanes = {run.key: _lane(run, history) for run, history in store.histories(wanted.keys())}
    return Results(tuple(lanes[key] for key in wanted))


def _lane(run: Run, history: History) -> Lane:
    return Lane(run.key, run.experiment, run.status, last_values(history), history, run.note)


def _plain(name: str, value: float) -> float | int | None:
    """JSON has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or traits(name).is_count else value


def recorded(folder: Path) -> list[Results]:
    """What a folder holds: runs that differ only in seed and primitive form one study."""
    with Store.read(folder) as store:
        studies: dict[str, list[Lane]] = {}
        for run, history in store.histories():
            # Not with_settings: that would look for the user's modules that a run names.
            server = run.experiment.server.model_copy(update={"primitive": "blend", "beta": 0.5})
            plain = run.experiment.model_copy(update={"seed": 0, "server": server})
            study = plain.key() + run.name
            studies.setdefault(study, []).append(_lane(run, history))
    return [Results(tuple(lanes)) for lanes in studies.values()]
