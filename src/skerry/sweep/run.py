"""`skerry.run`: experiments in, results out. The command line calls the same function."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skerry.experiment import Experiment
from skerry.records.store import Store
from skerry.sweep.grid import expand, label
from skerry.sweep.plan import stacks
from skerry.sweep.statistics import estimate

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from skerry.data.catalog import Dataset
    from skerry.engine.simulate import Moment
    from skerry.engine.world import World


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

    @property
    def label(self) -> str:
        return label(self.experiment)


@dataclass(frozen=True)
class Results(Sequence[Lane]):
    """The lanes of a study, in the order they were asked for."""

    lanes: tuple[Lane, ...]

    def __getitem__(self, index: Any) -> Any:
        return self.lanes[index]

    def __len__(self) -> int:
        return len(self.lanes)

    def of(self, primitive: str) -> "Results":
        """Only the lanes with this label, such as "s2a" or "blend(0.5)"."""
        return Results(tuple(lane for lane in self.lanes if lane.label == primitive))

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

        rows = {}
        for name in self.labels():
            lanes = self.of(name)
            rows[name] = {
                column: value
                for measure in measures or dict.fromkeys(m for lane in self for m in lane.final)
                for column, value in _mean_and_half(measure, lanes.final(measure))
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_json(self) -> dict[str, Any]:
        return {
            "lanes": [
                {
                    "key": lane.key,
                    "experiment": lane.experiment.model_dump(mode="json"),
                    "status": lane.status,
                    "final": {name: _plain(name, value) for name, value in lane.final.items()},
                    "history": {
                        name: [_plain(name, value) for value in values.tolist()]
                        for name, values in lane.history.items()
                    },
                }
                for lane in self.lanes
            ]
        }


class Watcher:
    """What a caller may follow while runs are under way; every method may be left as it is."""

    def worlds(self, count: int, lanes: int) -> None: ...
    def world_ready(self, world: "World", experiments: Sequence[Experiment]) -> None: ...
    def moment(self, moment: "Moment") -> None: ...
    def world_done(self) -> None: ...


def run(
    experiment: Experiment | Sequence[Experiment],
    *,
    compare: Sequence[str] = (),
    seeds: int = 1,
    device: str = "auto",
    out: str | Path | None = None,
    again: bool = False,
    graph: "nx.Graph[Any] | None" = None,
    dataset: "Dataset | tuple[Any, Any, Any, Any] | None" = None,
    model: Callable[..., Any] | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Run an experiment, or several; runs that share a world go side by side as lanes.

    `compare` names primitives (`["s2s", "s2a", "blend:0.25"]`), `seeds` how many seeds. With
    `out` everything is recorded in that folder, runs finished there before are not computed
    again (unless `again`), and interrupted ones go on. `graph`, `dataset` and `model` take the
    place of what the experiment names: a networkx graph, arrays (x_train, y_train, x_test,
    y_test), a function that returns an nn.Module.
    """
    from skerry.data.catalog import Dataset, from_arrays
    from skerry.engine.world import Materials

    given = [experiment] if isinstance(experiment, Experiment) else list(experiment)
    experiments = [one for each in given for one in expand(each, compare, seeds)]
    if dataset is not None and not isinstance(dataset, Dataset):
        dataset = from_arrays(*dataset)
    materials = Materials(graph, dataset, model)
    if out is not None:
        return _run_in(Path(out), experiments, materials, device, again, watcher or Watcher())
    with tempfile.TemporaryDirectory(prefix="skerry-") as folder:
        return _run_in(Path(folder), experiments, materials, device, again, watcher or Watcher())


def _run_in(
    folder: Path,
    experiments: Sequence[Experiment],
    materials: Any,
    device: str,
    again: bool,
    watcher: Watcher,
) -> Results:
    from skerry.engine.world import build_world, pick_device
    from skerry.sweep.execute import run_world

    place = pick_device(device)
    groups = stacks(experiments)
    # The first world is built before anything is written: faults leave no traces.
    worlds: Iterator[World] = (build_world(group[0], materials, place) for group in groups)
    world = next(worlds)
    watcher.worlds(len(groups), len(experiments))
    keys: list[str] = []
    with Store.open(folder) as store:
        for index, group in enumerate(groups):
            world = world if index == 0 else next(worlds)
            by_key = {world.key(one): one for one in group}
            keys += by_key
            if again:
                store.forget(list(by_key))
            done = store.finished(list(by_key))
            waiting = [one for key, one in by_key.items() if key not in done]
            watcher.world_ready(world, waiting)
            if waiting:
                run_world(world, waiting, store, folder / "checkpoints", progress=watcher.moment)
            watcher.world_done()
        return Results(tuple(_lane(store, key) for key in dict.fromkeys(keys)))


def _mean_and_half(measure: str, values: Any) -> list[tuple[str, float]]:
    found = estimate(values)
    return [(measure, found.mean), (f"{measure} ±", found.half_width)]


def _lane(store: Store, key: str) -> Lane:
    run = store.run(key)
    assert run is not None, f"run {key} was recorded above"
    return Lane(key, run.experiment, run.status, store.final(key), store.history(key))


def _plain(name: str, value: float) -> float | int | None:
    """JSON has no NaN or infinity; counts are whole numbers."""
    if not math.isfinite(value):
        return None
    return int(value) if name == "round" or name.endswith(("_messages", "_bytes")) else value


def recorded(folder: Path) -> list[Results]:
    """What a folder holds: runs that differ only in seed and primitive form one study."""
    with Store.read(folder) as store:
        studies: dict[str, list[Lane]] = {}
        for run in store.runs():
            # Not with_settings: that would look for the user's modules that a run names.
            server = run.experiment.server.model_copy(update={"primitive": "none"})
            plain = run.experiment.model_copy(update={"seed": 0, "server": server})
            study = plain.key() + run.name
            studies.setdefault(study, []).append(_lane(store, run.key))
    return [Results(tuple(lanes)) for lanes in studies.values()]
